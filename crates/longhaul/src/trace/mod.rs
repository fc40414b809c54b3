//! `longhaul trace`.

pub(crate) mod cli;
mod diagnostics;
mod process;
mod records;
mod sink;
mod source;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use kernel::Shutdown;
use results::trace::{TRACE_SCHEMA, TraceEnd, TraceRecord, TraceStart};

use cli::TraceOptions;
use sink::Sinks;
use source::Source;

/// The kernel wakes us up for every event; a pause between two looks costs less, and the ring holds seconds of them.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Events were lost.
const NEGATIVE: u8 = 1;

pub(crate) fn run(options: &TraceOptions) -> anyhow::Result<ExitCode> {
    Shutdown::install().context("cannot handle signals")?;
    // The source first: what cannot be traced overwrites no file.
    let mut source = Source::open(options)?;
    let mut sinks = Sinks::open(options)?;
    let begin = kernel::now();
    sinks.show(options)?;
    sinks.record(&TraceRecord::Start(start(options, &source)))?;
    let seconds = || kernel::now().saturating_since(begin).as_secs_f64();
    let is_over = || options.time.is_some_and(|t| seconds() >= t.as_secs_f64());
    let pause = source.pause(options).min(LOOK_EVERY);
    let followed = loop {
        let done = Shutdown::asked() > 0 || sinks.is_quit() || is_over();
        let looked = source.look().and_then(|all| {
            all.iter().try_for_each(|r| sinks.record(r))?;
            Ok(sinks.flush(seconds())?)
        });
        if done || looked.is_err() {
            break looked;
        }
        kernel::nap(pause);
    };
    let (flows, samples) = source.counts();
    let lost_events = source.lost();
    let end = TraceRecord::End(TraceEnd { seconds: seconds(), flows, samples, lost_events });
    let ended = sinks.record(&end).and_then(|()| sinks.flush(seconds()));
    // Also after a failure: what was seen until then is worth a page, and the terminal is given back before anything is said.
    sinks.finish()?;
    followed?;
    ended?;
    Ok(if lost_events > 0 { ExitCode::from(NEGATIVE) } else { ExitCode::SUCCESS })
}

fn start(options: &TraceOptions, source: &Source) -> TraceStart {
    let (utc, nanos) = kernel::utc_seconds();
    let interval = if options.every_packet { Duration::ZERO } else { options.interval };
    TraceStart {
        schema: TRACE_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: kernel::kernel_release(),
        source: source.kind(),
        interval_s: interval.as_secs_f64(),
        filter: words(options),
        began_utc_s: utc as f64 + f64::from(nanos) / 1e9,
    }
}

fn words(options: &TraceOptions) -> String {
    let all = [
        options.address.map(|a| format!("address {a}")),
        options.port.map(|p| format!("port {p}")),
        options.process.as_ref().map(|p| format!("process {p}")),
        options.congestion.as_ref().map(|c| format!("congestion control {c}")),
    ];
    let given: Vec<String> = all.into_iter().flatten().collect();
    if given.is_empty() { "all connections".to_owned() } else { given.join(", ") }
}
