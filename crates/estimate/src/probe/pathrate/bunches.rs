//! A receiver that takes packets in batches: rates from batch to batch.

use super::plan::{Plan, RECEIVE_NS};
use super::{ArrivalCurve, TrainObservation};
use crate::samples::{percentile, sorted};

/// Packets of a train, less so many for each train with losses, and no fewer than so many (2.4.1).
const FAITHFUL: (u32, u32, u32) = (200, 20, 100);

/// Packets that come back to back before the jump that ends a batch (2.4.1: more than five).
const BATCH_MIN: u32 = 5;

/// Gaps that are back to back, in ns: 2.5 times the time to receive a packet (2.4.1).
const BACK_TO_BACK_NS: f64 = 2.5 * RECEIVE_NS as f64;

/// Share of back-to-back gaps above which a receiver takes batches (2.4.1).
const COALESCED: f64 = 0.6;

/// What is slower than this share of the rate of whole trains tells of load, not of the link (2.4.1).
const SHARE_MIN: f64 = 0.9;

/// Share of the rates that the answer exceeds (2.4.1): what cross traffic slowed is below.
const PERCENTILE: f64 = 0.9;

/// Batches over which a rate is taken: the clock of the batches shows in none of them alone.
const BATCHES: usize = 5;

/// Packets over which a rate is taken: a batch boundary hides one at most, which is 4 % of them.
const PACKETS: f64 = 25.0;

/// Batches that a train shall fill: those of one rate, the first, the last, which may be cut off, and two in reserve.
const WANTED: u32 = 9;

/// Shortest and longest train today, in packets: two longest spend 780 kB.
const TRAIN: (u32, u32) = (60, 260);

/// Bytes that are spent on trains to such a receiver today.
const BUDGET: u64 = 800_000;

/// What trains to such a receiver told.
#[derive(Debug)]
pub(super) struct Bunches {
    packets: u32,
    asked: u32,
    spent: u64,
    /// In b/s, from batch to batch.
    rates: Vec<f64>,
    /// In b/s, of whole trains.
    pub(super) whole: Vec<f64>,
    /// Fewer batches than needed for a rate came in each train.
    pub(super) too_few: bool,
}

impl Bunches {
    pub(super) fn new(plan: &Plan) -> Self {
        let packets = if plan.by_curve { TRAIN.0 } else { FAITHFUL.0 };
        Self { packets, asked: 0, spent: 0, rates: Vec::new(), whole: Vec::new(), too_few: false }
    }

    /// Packets of the next train.
    pub(super) fn wanted(&self, plan: &Plan, bytes: u32) -> Option<u32> {
        let cost = u64::from(self.packets).saturating_mul(bytes.into());
        let affordable = !plan.by_curve || self.spent.saturating_add(cost) <= BUDGET;
        (self.asked < plan.bunches && affordable).then_some(self.packets)
    }

    /// Learns from a train how long the next must be.
    pub(super) fn adapt(&mut self, packets: u32, batches: usize) {
        let batches = u32::try_from(batches).unwrap_or(u32::MAX).max(1);
        let enough = packets.saturating_mul(WANTED).div_ceil(batches);
        self.packets = self.packets.max(enough).clamp(TRAIN.0, TRAIN.1);
    }

    /// A train of `packets` packets of these bytes.
    pub(super) fn observe(&mut self, plan: &Plan, passage: &TrainObservation, packets: u32, bytes: u32) {
        self.asked += 1;
        self.spent = self.spent.saturating_add(u64::from(packets).saturating_mul(bytes.into()));
        if !plan.by_curve {
            if passage.lost() > 0 {
                self.packets = self.packets.saturating_sub(FAITHFUL.1).max(FAITHFUL.2);
            }
            self.whole.extend(passage.dispersion().map(|d| d.received_rate().as_bps() as f64));
            self.rates.extend(jump_rates(passage, bytes));
            return;
        }
        let curve = ArrivalCurve::of(passage);
        self.adapt(packets, curve.batches());
        let (rates, whole) = window_rates(&curve, f64::from(bytes));
        self.too_few = rates.is_empty() && self.rates.is_empty();
        self.rates.extend(rates);
        self.whole.extend(whole);
    }

    /// Whether rates differ by more than a batch boundary at either end explains: packets of others came between, and the
    /// link alone may be faster than any of them.
    pub(super) fn is_loaded(&self) -> bool {
        let rates = sorted(self.rates.iter().copied());
        let ends = percentile(&rates, 1.0 - PERCENTILE).zip(percentile(&rates, PERCENTILE));
        ends.is_some_and(|(slow, fast)| slow < fast * (1.0 - 2.0 / PACKETS))
    }

    /// The capacity in b/s with the ends of its interval.
    pub(super) fn capacity(&self) -> Option<(f64, f64, f64)> {
        let mean = self.whole.iter().sum::<f64>() / self.whole.len().max(1) as f64;
        let all = if self.rates.is_empty() { &self.whole } else { &self.rates };
        let fast: Vec<f64> = sorted(all.iter().copied()).into_iter().filter(|r| *r >= mean * SHARE_MIN).collect();
        percentile(&fast, PERCENTILE).map(|v| (v, v * (1.0 - 1.0 / PACKETS), v * (1.0 + 1.0 / PACKETS)))
    }
}

/// Whether a train came in batches, by its short gaps.
pub(super) fn is_coalesced(passage: &TrainObservation) -> bool {
    let gaps = passage.gaps();
    let short = gaps.iter().filter(|g| g.received.as_nanos() as f64 <= BACK_TO_BACK_NS).count();
    short as f64 > gaps.len() as f64 * COALESCED
}

/// Rates of the batches that a jump ends: their packets in the time from their first to the next batch.
fn jump_rates(passage: &TrainObservation, bytes: u32) -> Vec<f64> {
    let (mut run, mut elapsed, mut rates) = (1_u32, 0.0, Vec::new());
    for gap in passage.gaps() {
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

/// Rates over windows of whole batches, and over all of them. The last batch is left out: the train may have ended
/// long before the receiver looked.
fn window_rates(curve: &ArrivalCurve, bytes: f64) -> (Vec<f64>, Option<f64>) {
    let points = curve.points();
    let whole = if points.len() > 2 { points.get(..points.len() - 1) } else { None };
    let points = whole.unwrap_or(points);
    let rate = |from: &(f64, f64), to: &(f64, f64)| {
        let (ns, gained) = (to.0 - from.0, to.1 - from.1);
        (ns > 0.0 && gained > 0.0).then(|| gained * 8e9 / ns)
    };
    let windows = points.iter().enumerate().filter_map(|(i, from)| {
        let enough = |to: &&(f64, f64)| to.1 - from.1 >= PACKETS * bytes;
        rate(from, points.iter().skip(i + BATCHES).find(enough)?)
    });
    (windows.collect(), points.first().zip(points.last()).and_then(|(from, to)| rate(from, to)))
}
