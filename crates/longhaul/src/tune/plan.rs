//! Path parameters and recommendations of `longhaul tune`.

use std::time::Duration;

use anyhow::bail;
use results::tune::{TUNE_SCHEMA, TuneCommand, TunePath, TuneRow, TuneStart};
use tuning::Path;
use units::Rate;

use super::cli::PathArguments;

/// Rate of the path if neither --rate nor the speed of a device is known.
const DEFAULT_RATE: Rate = Rate::from_bps(1_000_000_000);
/// Default round-trip time, typical of a path across an ocean.
const DEFAULT_RTT: Duration = Duration::from_millis(100);

/// Maximum of --rtt; the round trip to the moon takes 2.6 s.
const RTT_MAX: Duration = Duration::from_secs(10);

/// Returns the start record and the recommendations for the current network namespace.
pub(super) fn advice(arguments: &PathArguments, command: TuneCommand) -> anyhow::Result<(TuneStart, Vec<TuneRow>)> {
    let device = host::tune::pick_device(arguments.device.as_deref())?;
    let (path, path_record) = path(arguments, device.as_ref())?;
    let facts = host::tune::gather(device);
    let start = start(command, Some(path_record))?;
    Ok((start, tuning::advise(&path, &facts)))
}

/// Builds the start record.
pub(super) fn start(command: TuneCommand, path: Option<TunePath>) -> anyhow::Result<TuneStart> {
    Ok(TuneStart {
        schema: TUNE_SCHEMA.to_owned(),
        version: measure::VERSION.to_owned(),
        command,
        namespace: host::state::network()?,
        is_host: host::tune::is_host(),
        path,
        host: kernel::host_report(measure::VERSION, None),
    })
}

fn path(arguments: &PathArguments, device: Option<&tuning::Device>) -> anyhow::Result<(Path, TunePath)> {
    let (rate, rate_from) = match (arguments.rate, device.and_then(|d| Some((d.speed?, &d.name)))) {
        (Some(rate), _) => (rate, "--rate".to_owned()),
        (None, Some((speed, name))) => (speed, format!("speed of {name}")),
        (None, None) => (DEFAULT_RATE, "default, because no device reports its speed; set --rate".to_owned()),
    };
    let (rtt, rtt_from) = match arguments.rtt {
        Some(rtt) => (rtt, "--rtt"),
        None => (DEFAULT_RTT, "default; set --rtt"),
    };
    if rtt.is_zero() || rtt > RTT_MAX {
        bail!("--rtt {rtt:?} is out of range (above 0, at most {RTT_MAX:?})");
    }
    let path = Path { rate, rtt };
    let record = TunePath {
        rate_bps: rate.as_bps(),
        rate_from,
        rtt_ns: units::nanos(rtt),
        rtt_from: rtt_from.to_owned(),
        bdp_bytes: path.bdp().as_u64(),
        device: device.map(|d| d.name.clone()),
    };
    Ok((path, record))
}
