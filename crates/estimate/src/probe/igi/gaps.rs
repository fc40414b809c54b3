//! What the gaps of one train say.

use units::Duration;

use super::super::curve::ArrivalCurve;
use super::super::{Gap, Interval, TrainObservation};
use crate::samples::{mean, rate};

/// Gaps closer than this, in ns, came together, as for [`ArrivalCurve`].
const TOGETHER: Duration = Duration::from_nanos(1_000);

/// Share of the gaps that come together from which on they are batches: a queue behind the tight link, on a link of more
/// than 4 Gb/s, does that to one now and then.
const MANY_TOGETHER: f64 = 0.1;

/// Batches without which a train has no rate: each end of it may be off by part of one.
const BATCHES_MIN: usize = 5;

/// Width of the bins of which the fullest tells the capacity, in ns (IGI/PTR 2.1).
const BIN_NS: f64 = 25_000.0;

/// When a gap of the receiver counts as wider than that of the sender.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tolerance {
    /// Share of the gap at the sender.
    pub(super) share: f64,
    /// Or this many ns, if that is more.
    pub(super) ns: f64,
}

impl Tolerance {
    pub(super) fn is_wider(self, received_ns: f64, sent_ns: f64) -> bool {
        received_ns > sent_ns + self.ns.max(sent_ns * self.share)
    }
}

/// One train.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    /// Mean gap at the sender in ns.
    pub(super) sent_ns: f64,
    /// Mean gap at the receiver in ns; above zero.
    pub(super) received_ns: f64,
    /// Share of the train that is cross traffic, by IGI's formula.
    pub(super) load: Option<f64>,
}

/// The whole of a train, or nothing when too little of it came. The other is whether it came in batches.
pub(super) fn seen(
    passage: &TrainObservation,
    bytes: u32,
    narrow_ns: Option<f64>,
    tolerance: Tolerance,
) -> (Option<Seen>, bool) {
    let gaps = passage.gaps();
    if gaps.len() < 2 {
        return (None, false);
    }
    let n = gaps.len() as f64;
    let sent_ns = sum(&gaps, |g| g.sent) / n;
    let together = gaps.iter().filter(|g| g.received < TOGETHER && g.sent > TOGETHER).count() as f64;
    let curve = ArrivalCurve::of(passage);
    let batched = curve.is_batched() || together > MANY_TOGETHER * n;
    let received_ns = if batched {
        // The mean of all gaps would begin with the first packet of a batch and end with the last of another.
        curve.rate().filter(|_| curve.batches() >= BATCHES_MIN).map(|bps| f64::from(bytes) * 8e9 / bps)
    } else {
        Some(sum(&gaps, |g| g.received) / n)
    };
    let load = narrow_ns.filter(|_| !batched).and_then(|narrow| load(&gaps, narrow, tolerance));
    let whole = received_ns.filter(|ns| *ns > 0.0).map(|received_ns| Seen { sent_ns, received_ns, load });
    (whole, batched)
}

/// Cross traffic over capacity: what widened gaps have beyond the gap of the capacity, over the sum of all gaps (Hu,
/// Steenkiste, *Evaluation and Characterization of Available Bandwidth Probing Techniques*, JSAC 2003, the IGI formula).
///
/// Widened is a gap that is longer than it was at the sender and than the capacity makes it: then the queue did not run
/// empty between its packets, and what is beyond is cross traffic.
fn load(gaps: &[Gap], narrow_ns: f64, tolerance: Tolerance) -> Option<f64> {
    let all = sum(gaps, |g| g.received);
    let beyond = |g: &Gap| {
        let (sent, received) = (g.sent.as_nanos() as f64, g.received.as_nanos() as f64);
        (tolerance.is_wider(received, sent) && received > narrow_ns).then_some(received - narrow_ns)
    };
    (all > 0.0).then(|| gaps.iter().filter_map(beyond).sum::<f64>() / all)
}

/// The gap of the capacity in ns: the mean of the fullest bin of all gaps of trains that were sent at once.
pub(super) fn fullest_bin_ns(passages: &[TrainObservation]) -> Option<f64> {
    let mut gaps: Vec<f64> = passages
        .iter()
        .flat_map(TrainObservation::gaps)
        .map(|g| g.received.as_nanos() as f64)
        .filter(|ns| *ns > 0.0)
        .collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let bins = gaps.chunk_by(|a, b| (a / BIN_NS).floor() == (b / BIN_NS).floor());
    // Of equally full bins the shorter gaps: cross traffic widens.
    let fullest = bins.rev().max_by_key(|bin| bin.len())?;
    mean(fullest.iter().copied())
}

fn sum(gaps: &[Gap], what: impl Fn(&Gap) -> Duration) -> f64 {
    gaps.iter().map(|g| what(g).as_nanos() as f64).sum()
}

/// The mean of samples in b/s, reaching as far as `low` and `high` besides.
pub(super) fn reaching(samples: &[f64], low: f64, high: f64) -> Option<Interval> {
    let mean = Interval::of_mean(samples)?;
    Some(Interval { low: mean.low.min(rate(low)), high: mean.high.max(rate(high)), ..mean })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::PacketOutcome;
    use units::Instant;

    const TOLERANCE: Tolerance = Tolerance { share: 0.05, ns: 0.0 };

    /// A train of 500 bytes whose gaps at the sender are all the same.
    fn train(sent_ns: u64, gaps_ns: &[u64]) -> TrainObservation {
        let mut received = 1_000_000;
        let mut packets = vec![(0, received)];
        for (i, gap) in (1..).zip(gaps_ns) {
            received += gap;
            packets.push((i * sent_ns, received));
        }
        let at = |ns| Some(Instant::from_nanos(ns));
        TrainObservation {
            packets: packets.iter().map(|&(s, r)| PacketOutcome { bytes: 500, sent: at(s), received: at(r) }).collect(),
        }
    }

    #[test]
    fn the_load_is_what_widened_gaps_have_beyond_that_of_the_capacity() {
        // 40 us a packet: 100 Mb/s. Two gaps of 160 us hold 120 us of cross traffic each; 600 us in all.
        let (seen, batched) =
            seen(&train(80_000, &[160_000, 40_000, 80_000, 160_000, 160_000]), 500, Some(40_000.0), TOLERANCE);
        assert_eq!((seen.unwrap().load, batched), (Some(0.6), false));
        assert_eq!(seen.unwrap().received_ns, 120_000.0);
    }

    #[test]
    fn the_fullest_bin_tells_the_capacity() {
        // A packet of cross traffic in two of seven gaps, two gaps that a later queue has closed.
        let passage = train(1_200, &[41_000, 160_000, 39_000, 8_000, 40_000, 160_000, 9_000]);
        assert_eq!(fullest_bin_ns(&[passage]), Some(40_000.0));
        assert_eq!(fullest_bin_ns(&[]), None);
    }

    #[test]
    fn batches_are_seen_and_few_of_them_have_no_rate() {
        // 24 packets at 40 us, handed over four at a time: five batches and a last one that need not be full. Then all at once.
        let fours: Vec<u64> = (1..24).map(|i| if i % 4 == 0 { 160_000 } else { 100 }).collect();
        let (rate, batched) = seen(&train(40_000, &fours), 500, Some(40_000.0), TOLERANCE);
        assert!(batched);
        let rate = rate.unwrap();
        // One packet in 40 us; the batches' own length of 300 ns is within 1 %.
        assert!((rate.received_ns / 40_000.0 - 1.0).abs() < 0.01, "{rate:?}");
        assert_eq!(rate.load, None);
        assert_eq!(seen(&train(40_000, &[100; 20]), 500, None, TOLERANCE), (None, true));
    }
}
