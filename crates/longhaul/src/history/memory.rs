//! History of paths as the measuring commands use and update it.

use std::net::{IpAddr, SocketAddr};

use archive::{Archive, ArchiveError, Entry, Filter, PathKey};
use clap::Args;
use estimate::history::{Prediction, Value, predict};
use estimate::prediction::Control;
use estimate::probe::Interval;
use results::estimate::{Caveat, EstimateResult, Expected, Layer, Quantity, RateInterval};
use results::history::HistorySource;
use results::{Completion, Direction, EndRecord, StartRecord, Transport};
use units::Rate;

use crate::output::print_message;

/// Minimum duration in seconds of a transfer that is recorded; slow start dominates shorter ones.
const TRANSFER_S_MIN: f64 = 3.0;

/// Caveats that exclude a value from the history: one-sided bounds, and values based on wrong timestamps.
const EXCLUDING_CAVEATS: [Caveat; 4] = [Caveat::LowerBound, Caveat::UpperBound, Caveat::ClockStep, Caveat::Implausible];

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct MemoryOptions {
    /// Do not use or update the history of the path (`longhaul history`).
    #[arg(long)]
    pub(crate) no_history: bool,
}

/// History of one path. It is empty if it is disabled or cannot be opened, so measurements never depend on it.
pub(crate) struct Memory {
    archive: Option<Archive>,
    host: String,
    path: PathKey,
    now_s: f64,
}

impl Memory {
    /// Opens the history of the path to a host; `None` with --no-history, or if the addresses are unknown.
    pub(crate) fn of(
        options: MemoryOptions,
        host: &str,
        addresses: Option<(IpAddr, IpAddr)>,
        direction: Direction,
    ) -> Option<Self> {
        let (far, local) = addresses.filter(|_| !options.no_history)?;
        let archive = Archive::open_default().unwrap_or_else(|e| {
            warn_of(&e);
            None
        });
        let (seconds, nanos) = kernel::utc_seconds();
        let now_s = seconds as f64 + f64::from(nanos) / 1e9;
        Some(Self { archive, host: host.to_owned(), path: PathKey::new(far, local, direction), now_s })
    }

    /// Expected capacity, in bits of IP packets.
    pub(crate) fn capacity(&self) -> Option<Prediction> {
        let expected = self.archive.as_ref()?.expected(&self.path, Quantity::Capacity, Layer::Ip, self.now_s);
        or_warn(expected)?
    }

    /// Expected goodput of a transfer with this congestion control, from earlier tests with it.
    pub(crate) fn goodput(&self, control: Control) -> Option<Prediction> {
        let quantity = Some(Quantity::BulkTransferCapacity);
        let filter = Filter { path: Some(self.path), quantity, layer: Some(Layer::Payload), ..Filter::default() };
        let entries = or_warn(self.archive.as_ref()?.entries(&filter))?;
        let tests = entries.iter().filter(|e| e.source == HistorySource::Test && e.method == control.name());
        let values: Vec<Value> = tests.map(Entry::value).collect();
        predict(&values, self.now_s)
    }

    /// Expected values as records.
    pub(crate) fn expectations(&self) -> Vec<Expected> {
        let capacity = self.capacity().map(|p| expected(Quantity::Capacity, Layer::Ip, &p, None));
        let goodput = |control: Control| {
            let quantity = Quantity::BulkTransferCapacity;
            Some(expected(quantity, Layer::Payload, &self.goodput(control)?, Some(control.name())))
        };
        capacity.into_iter().chain(Control::ALL.into_iter().filter_map(goodput)).collect()
    }

    /// Adds the result of a method of `estimate` or `choose`, unless it is a one-sided bound or unreliable.
    pub(crate) fn keep(&mut self, source: HistorySource, result: &EstimateResult, round_trip_ns: u64) {
        if result.caveats.iter().any(|t| EXCLUDING_CAVEATS.contains(t)) {
            return;
        }
        let method = if result.faithful { format!("{}-2002", result.method) } else { result.method.clone() };
        let entry = |rate: &RateInterval| Entry {
            at_s: self.now_s,
            host: self.host.clone(),
            path: self.path,
            source,
            method: method.clone(),
            quantity: rate.quantity,
            layer: result.layer,
            rate_bps: rate.rate_bps,
            low_bps: rate.low_bps,
            high_bps: rate.high_bps,
            round_trip_ns: Some(round_trip_ns),
            bytes: result.bytes,
        };
        let entries: Vec<Entry> = result.estimate.iter().chain(&result.other_estimates).map(entry).collect();
        self.add(&entries);
    }

    fn add(&mut self, entries: &[Entry]) {
        if let Some(archive) = &mut self.archive {
            let _ = or_warn(archive.add(entries));
        }
    }
}

/// Adds the goodput of a test with one TCP connection that no option of the user limits.
pub(crate) fn keep_test(options: MemoryOptions, start: &StartRecord, end: &EndRecord) {
    let plan = &start.plan;
    let unlimited = plan.transport == Transport::Tcp && plan.rate_bps.is_none() && plan.window_bytes.is_none();
    let ([stream], [direction]) = (start.streams.as_slice(), end.directions.as_slice()) else { return };
    let long = direction.receiver.duration_s >= TRANSFER_S_MIN;
    if !(unlimited && long && matches!(end.completion, Completion::Complete)) {
        return;
    }
    let ip = |address: &str| address.parse::<SocketAddr>().ok().map(|a| a.ip());
    let addresses = ip(&stream.server).zip(ip(&stream.client));
    let Some(mut memory) = Memory::of(options, &start.target, addresses, direction.direction) else { return };
    // A thrulay server does not report its congestion control.
    let method = stream.congestion_control.clone().unwrap_or_else(|| "unknown".to_owned());
    let bps = direction.throughput_bps;
    let entry = Entry {
        at_s: memory.now_s,
        host: memory.host.clone(),
        path: memory.path,
        source: HistorySource::Test,
        method,
        quantity: Quantity::BulkTransferCapacity,
        layer: Layer::Payload,
        rate_bps: bps,
        low_bps: bps,
        high_bps: bps,
        round_trip_ns: start.baseline_rtt_ns,
        bytes: direction.sender.bytes,
    };
    memory.add(&[entry]);
}

/// Converts a prediction to the interval that methods take.
pub(crate) fn interval(p: &Prediction) -> Interval {
    let rate = |bps: f64| Rate::from_bps(bps.round() as u64);
    Interval { value: rate(p.rate_bps), low: rate(p.low_bps), high: rate(p.high_bps) }
}

fn expected(quantity: Quantity, layer: Layer, p: &Prediction, control: Option<&str>) -> Expected {
    let Interval { value, low, high } = interval(p);
    Expected {
        quantity,
        layer,
        rate_bps: value.as_bps(),
        low_bps: low.as_bps(),
        high_bps: high.as_bps(),
        samples: p.samples as u64,
        congestion_control: control.map(str::to_owned),
    }
}

/// Returns the value; reports an error on standard error and continues.
fn or_warn<T>(result: Result<T, ArchiveError>) -> Option<T> {
    result.map_err(|e| warn_of(&e)).ok()
}

fn warn_of(error: &ArchiveError) {
    print_message(&format!("longhaul: cannot use the history, continuing without it: {error}"));
}
