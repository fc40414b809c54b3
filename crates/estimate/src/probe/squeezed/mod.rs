//! Squeezed pairs: the location of queues from the change of small gaps (*Choosing Internet Paths*, 2002, §3.5,
//! §4.1.3).

mod histogram;

use std::collections::BTreeSet;

use results::estimate::{Caveat, GapHistogram, Quantity, Similarity, SqueezedPairsResult};
use units::{Bytes, Duration, Rate, nanos};

use super::{Departure, Method, Outcome, PacketOutcome, Path, Step, Train, TrainObservation};
use crate::Schedule;

/// Length of a probe with headers (§4.1.3): the minimum, so that packets of cross traffic fit between.
const BYTES: u32 = 40;

/// The two most common packet sizes of 2002; the gaps of pairs are half their service times at the path's capacity
/// (§3.5).
const SIZES: (u64, u64) = (500, 1500);

/// Pairs of both spacings together (§4.1.3).
const FAITHFUL_PAIRS: u32 = 4000;

/// Default number of pairs, a quarter of the above: with 500 pairs per spacing a mode that holds 5 % or more is known
/// to 1 % of all.
const PAIRS: u32 = 1000;

/// Mean time between pairs as a multiple of the longer gap, and the minimum mean (§4.1.3).
const PAIR_DISTANCE: (u32, Duration) = (10, Duration::from_millis(2));

/// Pairs per train, which limits the number of reports of the far end.
const PAIRS_PER_TRAIN: u32 = 100;

/// Maximum mean duration of a train, so that slow paths do not delay a report.
const TRAIN_SPAN_MAX: Duration = Duration::from_secs(2);

/// Minimum number of pairs per spacing for a classification: a mode of one in twenty then holds at least five.
const PAIRS_MIN: u64 = 100;

/// The method. It gives no rate: its [`Outcome`] has caveats only, and [`result`](Self::result) returns the result.
#[derive(Debug)]
pub struct SqueezedPairs {
    /// Half the service times of 500 and 1500 bytes at the capacity; `None` without a capacity.
    gaps: Option<(Duration, Duration)>,
    /// Times between pairs.
    spacing: Schedule,
    mean_spacing: Duration,
    /// Pairs still to be sent.
    remaining: u32,
    requested: u32,
    short: GapHistogram,
    long: GapHistogram,
    /// Pairs whose gap at the sender differed from the requested one.
    uneven: u64,
    /// Pairs with a received gap shorter than any link of the path can cause.
    batched: u64,
    /// Received gaps below this are those of batches.
    batch_gap_ns: u64,
    caveats: BTreeSet<Caveat>,
}

impl SqueezedPairs {
    /// 1000 pairs, 80 kB, on a path of about this capacity, which is [`super::Adr`]'s in the thesis.
    pub fn new(path: Path, capacity: Rate) -> Self {
        Self::of(path, capacity, PAIRS)
    }

    /// The 4000 pairs of 2002, 320 kB.
    pub fn faithful(path: Path, capacity: Rate) -> Self {
        Self::of(path, capacity, FAITHFUL_PAIRS)
    }

    fn of(path: Path, capacity: Rate, pairs: u32) -> Self {
        let time = |bytes| capacity.time_for(Bytes::new(bytes));
        let gaps = time(SIZES.0).zip(time(SIZES.1)).map(|(short, long)| (short / 2, long / 2));
        let (short, long) = gaps.unwrap_or_default();
        let mean_spacing = long.saturating_mul(PAIR_DISTANCE.0).max(PAIR_DISTANCE.1);
        Self {
            gaps,
            spacing: Schedule::poisson_every(mean_spacing, path.seed),
            mean_spacing,
            remaining: pairs,
            requested: 0,
            short: histogram::empty(capacity, short),
            long: histogram::empty(capacity, long),
            uneven: 0,
            batched: 0,
            // Half the service time of two consecutive probes on the narrow link, which faster links behind it rarely
            // halve; at most the time within which packets arrive together.
            batch_gap_ns: (time(BYTES.into()).map_or(0, nanos) / 2).min(1_000),
            caveats: BTreeSet::new(),
        }
    }

    /// Class of the path by the sign of the score. `None`: too few pairs, batches, or a score of zero.
    ///
    /// By this rule a path is also unlike if nothing queues anywhere: in the model, up to 60 % of load on the narrow
    /// link. It is also alike if the busy link is a few times as fast as the narrow one: four times at 95 %, not ten.
    pub fn label(&self) -> Option<Similarity> {
        if !self.is_enough() || self.is_batched() {
            return None;
        }
        match self.score() {
            1.. => Some(Similarity::TightLikeNarrow),
            0 => None,
            ..0 => Some(Similarity::TightUnlikeNarrow),
        }
    }

    /// Similarity of the modes of both histograms (§3.5): positive if they agree.
    pub fn score(&self) -> i64 {
        histogram::score(&self.short, &self.long)
    }

    /// Received gaps of the pairs that were sent half of 500 bytes, and half of 1500 bytes, apart: figures 3-1 to 3-3.
    pub fn histograms(&self) -> (&GapHistogram, &GapHistogram) {
        (&self.short, &self.long)
    }

    /// The complete result, for the record.
    pub fn result(&self) -> SqueezedPairsResult {
        let (label, score) = (self.label(), self.score());
        SqueezedPairsResult { label, score, short: self.short.clone(), long: self.long.clone() }
    }

    fn counted(&self) -> u64 {
        histogram::pairs(&self.short) + histogram::pairs(&self.long)
    }

    fn is_enough(&self) -> bool {
        histogram::pairs(&self.short).min(histogram::pairs(&self.long)) >= PAIRS_MIN
    }

    fn is_batched(&self) -> bool {
        self.batched * 2 > self.counted()
    }

    /// Draws the time from one pair to the next.
    fn draw(&mut self) -> Duration {
        let spacing = self.spacing.next_gap();
        self.spacing.advance();
        spacing
    }

    fn train(&mut self, (short, long): (Duration, Duration), pairs: u32) -> Train {
        let mut after = Duration::ZERO;
        let mut departures = Vec::new();
        for i in 0..pairs {
            let gap = if i.is_multiple_of(2) { short } else { long };
            departures.push(Departure { after, bytes: BYTES });
            after = after.saturating_add(gap);
            departures.push(Departure { after, bytes: BYTES });
            after = after.saturating_add(self.draw());
        }
        Train::new(departures)
    }

    fn observe_pair(&mut self, number: usize, first: &PacketOutcome, second: &PacketOutcome) {
        let Some((short, long)) = self.gaps else { return };
        let (gap, seen) = if number.is_multiple_of(2) { (short, &mut self.short) } else { (long, &mut self.long) };
        let pair = TrainObservation { packets: vec![*first, *second] };
        let Some(received_gap) = pair.gaps().first().copied() else { return };
        // A pair that is off by half of the shorter gap is nearer to the other spacing.
        if received_gap.sent.abs_diff(gap) > short / 2 {
            self.uneven += 1;
            return;
        }
        self.batched += u64::from(nanos(received_gap.received) < self.batch_gap_ns);
        histogram::count(seen, received_gap.received);
    }
}

impl Method for SqueezedPairs {
    fn next(&mut self) -> Step {
        let Some(gaps) = self.gaps.filter(|_| self.remaining > 0) else { return Step::Done(self.so_far()) };
        let fit = u32::try_from(TRAIN_SPAN_MAX.as_nanos() / self.mean_spacing.as_nanos().max(1)).unwrap_or(u32::MAX);
        // An even number, so that each train starts with the shorter gap.
        let pairs = fit.clamp(2, PAIRS_PER_TRAIN).min(self.remaining) / 2 * 2;
        self.remaining = self.remaining.saturating_sub(pairs.max(1));
        self.requested = pairs;
        let pause = self.draw();
        Step::Send { train: self.train(gaps, pairs), pause }
    }

    fn observe(&mut self, observation: &TrainObservation) {
        self.caveats.extend((observation.lost() > 0).then_some(Caveat::Loss));
        self.caveats.extend((observation.reordered() > 0).then_some(Caveat::Reordering));
        let requested = std::mem::take(&mut self.requested) as usize;
        for (number, pair) in observation.packets.chunks_exact(2).take(requested).enumerate() {
            if let [first, second] = pair {
                self.observe_pair(number, first, second);
            }
        }
    }

    fn so_far(&self) -> Outcome {
        let mut caveats = self.caveats.clone();
        caveats.extend((!self.is_enough()).then_some(Caveat::TooFewSamples));
        caveats.extend(self.is_batched().then_some(Caveat::Batching));
        caveats.extend((self.uneven > self.counted()).then_some(Caveat::SenderTooSlow));
        // Histograms without common or distinct modes give no class.
        caveats.extend((self.is_enough() && self.score() == 0).then_some(Caveat::Unsteady));
        Outcome { caveats, ..Outcome::of(Quantity::AvailableBandwidth, None) }
    }
}
