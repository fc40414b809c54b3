//! Trains to a receiver that takes packets in batches: rates from batch to batch.

use super::plan::{Plan, RECEIVE_NS};
use super::{ArrivalCurve, TrainObservation};
use crate::samples::{percentile, sorted};

/// Packets of a train, their reduction after each train with losses, and their minimum (2.4.1).
const FAITHFUL_PACKETS: (u32, u32, u32) = (200, 20, 100);

/// Minimum number of back-to-back packets before the jump that ends a batch (2.4.1: more than five).
const BATCH_MIN: u32 = 5;

/// Maximum back-to-back gap, in ns: 2.5 times the time to receive a packet (2.4.1).
const BACK_TO_BACK_NS: f64 = 2.5 * RECEIVE_NS as f64;

/// Share of back-to-back gaps above which a receiver takes batches (2.4.1).
const COALESCED_SHARE: f64 = 0.6;

/// Minimum rate as a share of that of whole trains: slower values measure load, not the link (2.4.1).
const RATE_SHARE_MIN: f64 = 0.9;

/// Percentile of the rates that is the result (2.4.1): cross traffic slows the lower ones.
const PERCENTILE: f64 = 0.9;

/// Batches per rate: the clock of the batches distorts the rate of a single one.
const WINDOW_BATCHES: usize = 5;

/// Packets per rate: a batch boundary hides at most one, which is 4 % of them.
const WINDOW_PACKETS: f64 = 25.0;

/// Batches that a train should fill: those of one rate, the first, the last, which can be incomplete, and two in
/// reserve.
const TRAIN_BATCHES: u32 = 9;

/// Minimum and maximum train length in the modern form, in packets: two of maximum length take 780 kB.
const TRAIN_PACKETS_RANGE: (u32, u32) = (60, 260);

/// Maximum bytes of trains to such a receiver in the modern form.
const BYTES_MAX: u64 = 800_000;

/// Results of trains to such a receiver.
#[derive(Debug)]
pub(super) struct BatchedTrains {
    packets: u32,
    requested: u32,
    spent: u64,
    /// Rates from batch to batch in b/s.
    rates: Vec<f64>,
    /// Rates of whole trains in b/s.
    pub(super) whole: Vec<f64>,
    /// Whether every train had fewer batches than a rate requires.
    pub(super) too_few: bool,
}

impl BatchedTrains {
    pub(super) fn new(plan: &Plan) -> Self {
        let packets = if plan.by_curve { TRAIN_PACKETS_RANGE.0 } else { FAITHFUL_PACKETS.0 };
        Self { packets, requested: 0, spent: 0, rates: Vec::new(), whole: Vec::new(), too_few: false }
    }

    /// Packets of the next train.
    pub(super) fn next_packets(&self, plan: &Plan, bytes: u32) -> Option<u32> {
        let cost = u64::from(self.packets).saturating_mul(bytes.into());
        let affordable = !plan.by_curve || self.spent.saturating_add(cost) <= BYTES_MAX;
        (self.requested < plan.batched_trains && affordable).then_some(self.packets)
    }

    /// Derives the length of the next train from one that arrived in `batches` batches.
    pub(super) fn adapt(&mut self, packets: u32, batches: usize) {
        let batches = u32::try_from(batches).unwrap_or(u32::MAX).max(1);
        let enough = packets.saturating_mul(TRAIN_BATCHES).div_ceil(batches);
        self.packets = self.packets.max(enough).clamp(TRAIN_PACKETS_RANGE.0, TRAIN_PACKETS_RANGE.1);
    }

    /// Adds a train of `packets` packets of this size.
    pub(super) fn observe(&mut self, plan: &Plan, observation: &TrainObservation, packets: u32, bytes: u32) {
        self.requested += 1;
        self.spent = self.spent.saturating_add(u64::from(packets).saturating_mul(bytes.into()));
        if !plan.by_curve {
            if observation.lost() > 0 {
                self.packets = self.packets.saturating_sub(FAITHFUL_PACKETS.1).max(FAITHFUL_PACKETS.2);
            }
            self.whole.extend(observation.dispersion().map(|d| d.received_rate().as_bps() as f64));
            self.rates.extend(jump_rates(observation, bytes));
            return;
        }
        let curve = ArrivalCurve::of(observation);
        self.adapt(packets, curve.batches());
        let (rates, whole) = window_rates(&curve, f64::from(bytes));
        self.too_few = rates.is_empty() && self.rates.is_empty();
        self.rates.extend(rates);
        self.whole.extend(whole);
    }

    /// Whether rates differ by more than a batch boundary at either end explains. Cross traffic then arrived in
    /// between, and the link alone can be faster than any of the rates.
    pub(super) fn is_loaded(&self) -> bool {
        let rates = sorted(self.rates.iter().copied());
        let ends = percentile(&rates, 1.0 - PERCENTILE).zip(percentile(&rates, PERCENTILE));
        ends.is_some_and(|(slow, fast)| slow < fast * (1.0 - 2.0 / WINDOW_PACKETS))
    }

    /// The capacity in b/s with the ends of its interval.
    pub(super) fn capacity(&self) -> Option<(f64, f64, f64)> {
        let mean = self.whole.iter().sum::<f64>() / self.whole.len().max(1) as f64;
        let all = if self.rates.is_empty() { &self.whole } else { &self.rates };
        let fast: Vec<f64> = sorted(all.iter().copied()).into_iter().filter(|r| *r >= mean * RATE_SHARE_MIN).collect();
        percentile(&fast, PERCENTILE).map(|v| (v, v * (1.0 - 1.0 / WINDOW_PACKETS), v * (1.0 + 1.0 / WINDOW_PACKETS)))
    }
}

/// Whether a train arrived in batches, judged by its short gaps.
pub(super) fn is_coalesced(observation: &TrainObservation) -> bool {
    let gaps = observation.gaps();
    let short = gaps.iter().filter(|g| g.received.as_nanos() as f64 <= BACK_TO_BACK_NS).count();
    short as f64 > gaps.len() as f64 * COALESCED_SHARE
}

/// Rates of the batches that a jump ends: their packets over the time from their first packet to the next batch.
fn jump_rates(observation: &TrainObservation, bytes: u32) -> Vec<f64> {
    let (mut run, mut elapsed, mut rates) = (1_u32, 0.0, Vec::new());
    for gap in observation.gaps() {
        let ns = gap.received.as_nanos() as f64;
        elapsed += ns;
        if ns <= BACK_TO_BACK_NS {
            run = run.saturating_add(1);
            continue;
        }
        if run > BATCH_MIN {
            rates.push(f64::from(run) * f64::from(bytes) * 8e9 / elapsed);
        }
        (run, elapsed) = (1, 0.0);
    }
    rates
}

/// Rates over windows of whole batches, and over all of them. The last batch is left out: the train can have ended long
/// before the receiver read it.
fn window_rates(curve: &ArrivalCurve, bytes: f64) -> (Vec<f64>, Option<f64>) {
    let points = curve.points();
    let whole = if points.len() > 2 { points.get(..points.len() - 1) } else { None };
    let points = whole.unwrap_or(points);
    let rate = |from: &(f64, f64), to: &(f64, f64)| {
        let (ns, gained) = (to.0 - from.0, to.1 - from.1);
        (ns > 0.0 && gained > 0.0).then(|| gained * 8e9 / ns)
    };
    let windows = points.iter().enumerate().filter_map(|(i, from)| {
        let enough = |to: &&(f64, f64)| to.1 - from.1 >= WINDOW_PACKETS * bytes;
        rate(from, points.iter().skip(i + WINDOW_BATCHES).find(enough)?)
    });
    (windows.collect(), points.first().zip(points.last()).and_then(|(from, to)| rate(from, to)))
}
