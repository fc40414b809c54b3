//! The path that the advice is for, and the advice.

use std::time::Duration;

use anyhow::bail;
use results::tune::{TUNE_SCHEMA, TuneCommand, TunePath, TuneRow, TuneStart};
use tuning::Path;
use units::Rate;

use super::cli::PathArguments;

/// What is taken where neither the user nor a device tells.
const ASSUMED_RATE: Rate = Rate::from_bps(1_000_000_000);
/// A path across an ocean.
const ASSUMED_RTT: Duration = Duration::from_millis(100);

/// Longest round trip that is believed: to the moon and back is 2.6 s.
const LONGEST_RTT: Duration = Duration::from_secs(10);

/// The first record, and the rows, of the network namespace that this process is in.
pub(super) fn advice(arguments: &PathArguments, command: TuneCommand) -> anyhow::Result<(TuneStart, Vec<TuneRow>)> {
    let device = host::tune::pick_device(arguments.device.as_deref())?;
    let (path, told) = path(arguments, device.as_ref())?;
    let facts = host::tune::gather(device);
    let start = start(command, Some(told))?;
    Ok((start, tuning::advise(&path, &facts)))
}

/// The first record.
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
        (None, None) => (ASSUMED_RATE, "assumed: no device tells its speed; give --rate".to_owned()),
    };
    let (rtt, rtt_from) = match arguments.rtt {
        Some(rtt) => (rtt, "--rtt"),
        None => (ASSUMED_RTT, "assumed; give --rtt"),
    };
    if rtt.is_zero() || rtt > LONGEST_RTT {
        bail!("--rtt {rtt:?} is out of range: above zero, up to {LONGEST_RTT:?}");
    }
    let path = Path { rate, rtt };
    let told = TunePath {
        rate_bps: rate.as_bps(),
        rate_from,
        rtt_ns: units::nanos(rtt),
        rtt_from: rtt_from.to_owned(),
        bdp_bytes: path.bdp().as_u64(),
        device: device.map(|d| d.name.clone()),
    };
    Ok((path, told))
}
