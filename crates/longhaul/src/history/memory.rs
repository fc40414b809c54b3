//! What commands that measure leave in the history, and what they take from it.

use std::net::{IpAddr, SocketAddr};

use archive::{Archive, ArchiveError, Entry, Filter, PathKey};
use clap::Args;
use estimate::history::{Prediction, Value, predict};
use estimate::prediction::Control;
use estimate::probe::Interval;
use results::estimate::{EstimateResult, Expected, Layer, Quantity, RateInterval, Trouble};
use results::history::HistorySource;
use results::{Completion, Direction, EndRecord, StartRecord, Transport};
use units::Rate;

use crate::output::say;

/// A shorter transfer is for a good part slow start, and no bulk transfer.
const LEAST_TRANSFER_S: f64 = 3.0;

/// What a value is not worth keeping for: it is a bound, or rests on times that are none.
const DOUBTS: [Trouble; 4] = [Trouble::LowerBound, Trouble::UpperBound, Trouble::ClockStep, Trouble::Implausible];

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct MemoryOptions {
    /// Neither use nor keep the history of the path (`longhaul history`).
    #[arg(long)]
    pub(crate) no_history: bool,
}

/// The history of one path. Where none is kept, or it cannot be opened, it knows nothing: what is measured does not depend on it.
pub(crate) struct Memory {
    archive: Option<Archive>,
    host: String,
    path: PathKey,
    now_s: f64,
}

impl Memory {
    /// Of the path to a host as it was named; `None` where there shall be none, or the addresses are not known.
    pub(crate) fn of(
        options: MemoryOptions,
        host: &str,
        addresses: Option<(IpAddr, IpAddr)>,
        direction: Direction,
    ) -> Option<Self> {
        let (far, local) = addresses.filter(|_| !options.no_history)?;
        let archive = Archive::open_default().unwrap_or_else(|e| {
            complain(&e);
            None
        });
        let (seconds, nanos) = kernel::utc_seconds();
        let now_s = seconds as f64 + f64::from(nanos) / 1e9;
        Some(Self { archive, host: host.to_owned(), path: PathKey::new(far, local, direction), now_s })
    }

    /// The capacity to be expected, in bits of IP packets.
    pub(crate) fn capacity(&self) -> Option<Prediction> {
        let expected = self.archive.as_ref()?.expected(&self.path, Quantity::Capacity, Layer::Ip, self.now_s);
        told(expected)?
    }

    /// The goodput to be expected of a transfer with this congestion control, from those that were made with it.
    pub(crate) fn goodput(&self, control: Control) -> Option<Prediction> {
        let quantity = Some(Quantity::BulkTransferCapacity);
        let filter = Filter { path: Some(self.path), quantity, layer: Some(Layer::Payload), ..Filter::default() };
        let entries = told(self.archive.as_ref()?.entries(&filter))?;
        let made = entries.iter().filter(|e| e.source == HistorySource::Test && e.method == control.name());
        let values: Vec<Value> = made.map(Entry::value).collect();
        predict(&values, self.now_s)
    }

    /// What is expected, as records.
    pub(crate) fn expectations(&self) -> Vec<Expected> {
        let capacity = self.capacity().map(|p| expected(Quantity::Capacity, Layer::Ip, &p, None));
        let goodput = |control: Control| {
            let quantity = Quantity::BulkTransferCapacity;
            Some(expected(quantity, Layer::Payload, &self.goodput(control)?, Some(control.name())))
        };
        capacity.into_iter().chain(Control::ALL.into_iter().filter_map(goodput)).collect()
    }

    /// Keeps what a method of `estimate` or `choose` found. What is only a bound is left out.
    pub(crate) fn keep(&mut self, source: HistorySource, result: &EstimateResult, round_trip_ns: u64) {
        if result.troubles.iter().any(|t| DOUBTS.contains(t)) {
            return;
        }
        let method = if result.faithful { format!("{}-2002", result.method) } else { result.method.clone() };
        let entry = |told: &RateInterval| Entry {
            at_s: self.now_s,
            host: self.host.clone(),
            path: self.path,
            source,
            method: method.clone(),
            quantity: told.quantity,
            layer: result.layer,
            rate_bps: told.rate_bps,
            low_bps: told.low_bps,
            high_bps: told.high_bps,
            round_trip_ns: Some(round_trip_ns),
            bytes: result.bytes,
        };
        let entries: Vec<Entry> = result.estimate.iter().chain(&result.also).map(entry).collect();
        self.add(&entries);
    }

    fn add(&mut self, entries: &[Entry]) {
        if let Some(archive) = &mut self.archive {
            let _ = told(archive.add(entries));
        }
    }
}

/// Keeps what a test says of its path: the goodput of one TCP connection that nothing of the user's held back.
pub(crate) fn keep_test(options: MemoryOptions, start: &StartRecord, end: &EndRecord) {
    let plan = &start.plan;
    let free = plan.transport == Transport::Tcp && plan.rate_bps.is_none() && plan.window_bytes.is_none();
    let ([stream], [direction]) = (start.streams.as_slice(), end.directions.as_slice()) else { return };
    let long = direction.receiver.duration_s >= LEAST_TRANSFER_S;
    if !(free && long && matches!(end.completion, Completion::Complete)) {
        return;
    }
    let ip = |address: &str| address.parse::<SocketAddr>().ok().map(|a| a.ip());
    let addresses = ip(&stream.server).zip(ip(&stream.client));
    let Some(mut memory) = Memory::of(options, &start.target, addresses, direction.direction) else { return };
    // Without the name (thrulay) it is not known which control it was.
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

/// As methods take it.
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

/// What the archive told; an error is said, and stops nothing.
fn told<T>(answer: Result<T, ArchiveError>) -> Option<T> {
    answer.map_err(|e| complain(&e)).ok()
}

fn complain(error: &ArchiveError) {
    say(&format!("longhaul: the history is left alone: {error}"));
}
