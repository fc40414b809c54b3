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

/// Pause between two polls; cheaper than a wake-up per event, and the ring buffer holds several seconds of events.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Exit status when events were lost.
const NEGATIVE_RESULT: u8 = 1;

pub(crate) fn run(options: &TraceOptions) -> anyhow::Result<ExitCode> {
    Shutdown::install().context("cannot handle signals")?;
    // Open the source first, so that a failure overwrites no file.
    let mut source = Source::open(options)?;
    let mut sinks = Sinks::open(options)?;
    let start_time = kernel::now();
    sinks.show(options)?;
    sinks.record(&TraceRecord::Start(start(options, &source)))?;
    let seconds = || kernel::now().saturating_since(start_time).as_secs_f64();
    let is_over = || options.time.is_some_and(|t| seconds() >= t.as_secs_f64());
    let pause = source.pause(options).min(POLL_INTERVAL);
    let outcome = loop {
        let done = Shutdown::requests() > 0 || sinks.is_quit() || is_over();
        let polled = source.poll().and_then(|all| {
            all.iter().try_for_each(|r| sinks.record(r))?;
            Ok(sinks.flush(seconds())?)
        });
        if done || polled.is_err() {
            break polled;
        }
        kernel::sleep_for(pause);
    };
    let (flows, samples) = source.counts();
    let lost_events = source.lost();
    let end = TraceRecord::End(TraceEnd { seconds: seconds(), flows, samples, lost_events });
    let ended = sinks.record(&end).and_then(|()| sinks.flush(seconds()));
    // Also after a failure: write the page from the samples so far, and restore the terminal before printing an error.
    sinks.finish()?;
    outcome?;
    ended?;
    Ok(if lost_events > 0 { ExitCode::from(NEGATIVE_RESULT) } else { ExitCode::SUCCESS })
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
        filter: describe_filter(options),
        start_utc_s: utc as f64 + f64::from(nanos) / 1e9,
    }
}

fn describe_filter(options: &TraceOptions) -> String {
    let all = [
        options.address.map(|a| format!("address {a}")),
        options.port.map(|p| format!("port {p}")),
        options.process.as_ref().map(|p| format!("process {p}")),
        options.congestion.as_ref().map(|c| format!("congestion control {c}")),
    ];
    let given: Vec<String> = all.into_iter().flatten().collect();
    if given.is_empty() { "all connections".to_owned() } else { given.join(", ") }
}
