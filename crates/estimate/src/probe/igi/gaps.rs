//! Gaps of one train.

use units::Duration;

use super::super::curve::ArrivalCurve;
use super::super::{Gap, Interval, TrainObservation};
use crate::samples::{mean, rate};

/// Maximum gap of packets that arrived together, as for [`ArrivalCurve`].
const BATCH_GAP_MAX: Duration = Duration::from_nanos(1_000);

/// Share of gaps within a batch above which the train is batched. A queue behind the tight link, on a link of more than
/// 4 Gb/s, causes such gaps occasionally.
const BATCHED_SHARE_MAX: f64 = 0.1;

/// Minimum number of batches of a train with a rate: each end can be off by part of one.
const BATCHES_MIN: usize = 5;

/// Width of the histogram bins, the fullest of which gives the capacity, in ns (IGI/PTR 2.1).
const BIN_NS: f64 = 25_000.0;

/// Tolerance above which a gap at the receiver counts as wider than that at the sender: the larger of the two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tolerance {
    /// Share of the gap at the sender.
    pub(super) share: f64,
    /// Absolute tolerance in ns.
    pub(super) ns: f64,
}

impl Tolerance {
    pub(super) fn is_wider(self, received_ns: f64, sent_ns: f64) -> bool {
        received_ns > sent_ns + self.ns.max(sent_ns * self.share)
    }
}

/// Gaps of one train.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TrainGaps {
    /// Mean gap at the sender in ns.
    pub(super) sent_ns: f64,
    /// Mean gap at the receiver in ns; above zero.
    pub(super) received_ns: f64,
    /// Share of the train that is cross traffic, by IGI's formula.
    pub(super) load: Option<f64>,
}

/// Evaluates a whole train; `None` if too little of it arrived. The second value is whether it arrived in batches.
pub(super) fn train_gaps(
    observation: &TrainObservation,
    bytes: u32,
    narrow_ns: Option<f64>,
    tolerance: Tolerance,
) -> (Option<TrainGaps>, bool) {
    let gaps = observation.gaps();
    if gaps.len() < 2 {
        return (None, false);
    }
    let n = gaps.len() as f64;
    let sent_ns = sum(&gaps, |g| g.sent) / n;
    let within_batches = gaps.iter().filter(|g| g.received < BATCH_GAP_MAX && g.sent > BATCH_GAP_MAX).count() as f64;
    let curve = ArrivalCurve::of(observation);
    let batched = curve.is_batched() || within_batches > BATCHED_SHARE_MAX * n;
    let received_ns = if batched {
        // The mean of all gaps would start with the first packet of a batch and end with the last of another.
        curve.rate().filter(|_| curve.batches() >= BATCHES_MIN).map(|bps| f64::from(bytes) * 8e9 / bps)
    } else {
        Some(sum(&gaps, |g| g.received) / n)
    };
    let load = narrow_ns.filter(|_| !batched).and_then(|narrow| load(&gaps, narrow, tolerance));
    let whole = received_ns.filter(|ns| *ns > 0.0).map(|received_ns| TrainGaps { sent_ns, received_ns, load });
    (whole, batched)
}

/// Cross traffic as a share of the capacity: the excess of widened gaps over the gap of the capacity, divided by the
/// sum of all gaps (Hu, Steenkiste, *Evaluation and Characterization of Available Bandwidth Probing Techniques*, JSAC
/// 2003, the IGI formula).
///
/// A widened gap is longer than at the sender and than that of the capacity. The queue did not drain between its
/// packets, so that the excess is cross traffic.
fn load(gaps: &[Gap], narrow_ns: f64, tolerance: Tolerance) -> Option<f64> {
    let all = sum(gaps, |g| g.received);
    let beyond = |g: &Gap| {
        let (sent, received) = (g.sent.as_nanos() as f64, g.received.as_nanos() as f64);
        (tolerance.is_wider(received, sent) && received > narrow_ns).then_some(received - narrow_ns)
    };
    (all > 0.0).then(|| gaps.iter().filter_map(beyond).sum::<f64>() / all)
}

/// The gap of the capacity in ns: the mean of the fullest bin of all gaps of trains that were sent at once.
pub(super) fn fullest_bin_ns(observations: &[TrainObservation]) -> Option<f64> {
    let mut gaps: Vec<f64> = observations
        .iter()
        .flat_map(TrainObservation::gaps)
        .map(|g| g.received.as_nanos() as f64)
        .filter(|ns| *ns > 0.0)
        .collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let bins = gaps.chunk_by(|a, b| (a / BIN_NS).floor() == (b / BIN_NS).floor());
    // Of equally full bins the one with the shorter gaps: cross traffic widens gaps.
    let fullest = bins.rev().max_by_key(|bin| bin.len())?;
    mean(fullest.iter().copied())
}

fn sum(gaps: &[Gap], field: impl Fn(&Gap) -> Duration) -> f64 {
    gaps.iter().map(|g| field(g).as_nanos() as f64).sum()
}

/// The mean of samples in b/s, with an interval extended to `low` and `high`.
pub(super) fn extended_mean(samples: &[f64], low: f64, high: f64) -> Option<Interval> {
    let mean = Interval::of_mean(samples)?;
    Some(Interval { low: mean.low.min(rate(low)), high: mean.high.max(rate(high)), ..mean })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::PacketOutcome;
    use units::Instant;

    const TOLERANCE: Tolerance = Tolerance { share: 0.05, ns: 0.0 };

    /// A train of 500 bytes with equal gaps at the sender.
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
    fn the_load_is_the_excess_of_widened_gaps_over_that_of_the_capacity() {
        // 40 us a packet: 100 Mb/s. Two gaps of 160 us hold 120 us of cross traffic each; 600 us in all.
        let (seen, batched) =
            train_gaps(&train(80_000, &[160_000, 40_000, 80_000, 160_000, 160_000]), 500, Some(40_000.0), TOLERANCE);
        assert_eq!((seen.unwrap().load, batched), (Some(0.6), false));
        assert_eq!(seen.unwrap().received_ns, 120_000.0);
    }

    #[test]
    fn the_fullest_bin_gives_the_capacity() {
        // A packet of cross traffic in two of seven gaps, and two gaps that a later queue compressed.
        let observation = train(1_200, &[41_000, 160_000, 39_000, 8_000, 40_000, 160_000, 9_000]);
        assert_eq!(fullest_bin_ns(&[observation]), Some(40_000.0));
        assert_eq!(fullest_bin_ns(&[]), None);
    }

    #[test]
    fn batches_are_detected_and_few_of_them_have_no_rate() {
        // 24 packets at 40 us, delivered four at a time: five batches and a last one that can be incomplete. Then all
        // at once.
        let fours: Vec<u64> = (1..24).map(|i| if i % 4 == 0 { 160_000 } else { 100 }).collect();
        let (rate, batched) = train_gaps(&train(40_000, &fours), 500, Some(40_000.0), TOLERANCE);
        assert!(batched);
        let rate = rate.unwrap();
        // One packet in 40 us; the batches' own length of 300 ns is within 1 %.
        assert!((rate.received_ns / 40_000.0 - 1.0).abs() < 0.01, "{rate:?}");
        assert_eq!(rate.load, None);
        assert_eq!(train_gaps(&train(40_000, &[100; 20]), 500, None, TOLERANCE), (None, true));
    }
}
