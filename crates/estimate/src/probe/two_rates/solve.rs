//! Capacity and what is left of it, from what all trains told.

use super::BURST_PACKETS;
use super::patient::APART;
use super::singles::Busy;
use crate::confidence;
use crate::probe::Interval;
use crate::samples::{mean, median, percentile, sorted};

/// Share of busy time that single packets find where no load holds a train up, at most.
const QUIET: f64 = 0.2;

/// Bursts from which on their quartiles say how far they spread: those of fewer make it out too small.
const MANY: usize = 6;

/// One of so many trains at either end is drawn in to the next.
const OUTER: usize = 10;

/// A train far above the capacity; rates in b/s.
#[derive(Debug, Clone, Copy)]
pub(super) struct Burst {
    pub(super) sent: f64,
    pub(super) received: f64,
    pub(super) has_bucket: bool,
}

/// A train near the capacity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Time at the receiver over time at the sender.
    pub(super) stretch: f64,
    /// Rate at the sender in b/s.
    pub(super) sent: f64,
    /// Gaps between packets that count.
    pub(super) packets: u32,
    /// Where its first part came as it was sent and the rest clearly slower: the rate of the rest in b/s.
    pub(super) behind_bucket: Option<f64>,
    /// What it can have come at, at most, in b/s.
    pub(super) delivered: f64,
}

/// What the trains told.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) bursts: Vec<Burst>,
    pub(super) loads: Vec<Load>,
    pub(super) busy: Option<Busy>,
    /// The capacity that is expected, until a burst refutes it.
    pub(super) expected: Option<Interval>,
}

/// Capacity and what is left, in b/s, with half the widths of their intervals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Solution {
    pub(super) capacity: f64,
    pub(super) capacity_half: f64,
    pub(super) left: f64,
    pub(super) left_half: f64,
}

impl Evidence {
    /// Takes a burst. One that comes at a rate outside of what is expected, give or take what a packet more or less
    /// between its own makes, refutes the expectation.
    pub(super) fn add(&mut self, burst: Burst) {
        self.bursts.push(burst);
        let alone = burst.received / f64::from(BURST_PACKETS);
        let meets = |e: &Interval| {
            let (low, high) = (e.low.as_bps() as f64, e.high.as_bps() as f64);
            (low - alone..=high + alone).contains(&burst.received)
        };
        self.expected = self.expected.filter(meets);
    }

    /// Whether a burst has confirmed what was expected.
    pub(super) fn is_confirmed(&self) -> bool {
        self.expected.is_some() && !self.bursts.is_empty()
    }

    /// What trains came at once a bucket was empty. It empties in all of them, but for what load does to one; of those without a
    /// bucket up to one in five, by bursts of others, is held up as if there were one; single packets would have met those.
    pub(super) fn behind_bucket(&self) -> Option<Interval> {
        let behind: Vec<f64> = self.loads.iter().filter_map(|l| l.behind_bucket).collect();
        if let (&[rest], [_]) = (&behind[..], &self.loads[..]) {
            if self.busy.is_some_and(|b| b.share > QUIET) {
                return None;
            }
            return Some(Interval::from_bps(rest, rest / APART, rest * APART));
        }
        Interval::of_mean(&behind).filter(|_| behind.len() > 1 && behind.len() * 3 > self.loads.len() * 2)
    }

    /// Whether most bursts met a bucket. Trains of load do not empty it then: they come as they were sent, and say nothing.
    pub(super) fn is_bucket(&self) -> bool {
        self.bursts.iter().filter(|b| b.has_bucket).count() * 2 > self.bursts.len()
    }

    /// What the path carries at most by the trains of load, each of which is faster than what is left; in b/s.
    pub(super) fn delivered(&self) -> Option<f64> {
        self.loads.iter().map(|l| l.delivered).max_by(f64::total_cmp)
    }

    /// Rate at which bursts came, and half the width of its interval: the median, because a host that stalls for a
    /// moment hands a whole burst over at once, and one such burst would be most of a mean.
    pub(super) fn burst_rate(&self) -> Option<(f64, f64)> {
        let rates = sorted(self.bursts.iter().map(|b| b.received));
        let (low, high) = (percentile(&rates, 0.25)?, percentile(&rates, 0.75)?);
        let came = median(rates.iter().copied())?;
        // A train near the capacity never comes faster than that: when it does, the bursts were held up.
        let passed = median(self.loads.iter().map(|l| l.sent / l.stretch)).filter(|_| !self.is_bucket());
        let median = passed.map_or(came, |p| p.max(came));
        if rates.len() >= MANY {
            // McGill, Tukey, Larsen 1978: 1.57 interquartile ranges over the root of the count hold a median at about 95 %.
            return Some((median, 1.57 * (high - low) / (rates.len() as f64).sqrt()));
        }
        if rates.len() > 2 {
            return Some((median, confidence(&rates)?.half_width?));
        }
        // One burst, or two, know nothing of their spread: what one packet more or less between them makes.
        let alone = median / f64::from(BURST_PACKETS);
        // What is expected lends its certainty, as far as the burst comes near it, and never its value.
        let lent = self.expected.map(|e| {
            let distance = (median - e.value.as_bps() as f64).abs();
            distance.max((e.high.as_bps() as f64 - e.low.as_bps() as f64) / 2.0)
        });
        Some((median, lent.map_or(alone, |half| half.min(alone))))
    }

    pub(super) fn solve(&self) -> Option<Solution> {
        let (burst, burst_half) = self.burst_rate()?;
        if self.loads.is_empty() {
            let (left, left_half) = by_singles(self.busy?, burst);
            let left_half = left_half.hypot(burst_half * left / burst);
            return Some(Solution { capacity: burst, capacity_half: burst_half, left, left_half });
        }
        let capacity = self.capacity(burst)?;
        // Some bursts met packets of others and some did not: how much of the correction is due is not known.
        let capacity_half = (burst_half * capacity / burst).hypot(capacity - burst);
        let trains = self.by_trains(capacity)?;
        let are_several = self.loads.len() > 2;
        let (left, by_load) = self.busy.map_or(trains, |b| together(trains, by_singles(b, capacity), are_several));
        // left = C (1 - stretch) + sent: what is uncertain of C is so of what is left.
        let stretch = mean(self.loads.iter().map(|l| l.stretch))?;
        let left_half = by_load.hypot((1.0 - stretch) * capacity_half);
        Some(Solution { capacity, capacity_half, left, left_half })
    }

    /// The capacity follows from the burst by the load, the load from the capacity: a fixed point, reached in a few rounds
    /// because the burst is far above the capacity.
    fn capacity(&self, burst: f64) -> Option<f64> {
        let sent = mean(self.bursts.iter().map(|b| b.sent))?;
        let mut c = burst;
        for _ in 0..20 {
            let (left, _) = self.by_trains(c)?;
            let next = burst * (1.0 + (c - left).clamp(0.0, c) / sent.max(burst));
            let settled = (next - c).abs() < c * 1e-6;
            c = next;
            if settled {
                break;
            }
        }
        Some(c)
    }

    /// What trains of load say is left if the capacity is `c`, with half the width of its interval.
    fn by_trains(&self, c: f64) -> Option<(f64, f64)> {
        let each = self.left(c);
        let left = mean(each.iter().copied())?;
        let busy = (1.0 - left / c).clamp(0.0, 1.0);
        // Packets of a Poisson load that meet a train of N of ours: their number varies by its root, and by one at the ends.
        let trains = each.len() as f64;
        let packets = self.loads.iter().map(|l| f64::from(l.packets)).sum::<f64>();
        let by_count = 2.0 * c * ((busy + trains / packets) / packets).sqrt();
        // What was drawn in is missing from the spread (Tukey, McLaughlin 1963).
        let drawn_in = trains / (trains - 2.0 * (each.len() / OUTER) as f64);
        let by_spread = confidence(&each).and_then(|e| e.half_width).filter(|_| each.len() > 2).map(|h| h * drawn_in);
        Some((left, by_spread.unwrap_or(by_count)))
    }

    /// What each train says is left if the capacity is `c`. The outer tenths of many are drawn in (winsorised): a host
    /// that stalls while a train passes makes it many times as long.
    fn left(&self, c: f64) -> Vec<f64> {
        let mut all = sorted(self.loads.iter().map(|l| c - (l.stretch * c - l.sent)));
        let outer = all.len() / OUTER;
        if let Some((low, high)) = all.get(outer).copied().zip(all.len().checked_sub(outer + 1).map(|i| all[i])) {
            all.iter_mut().for_each(|v| *v = v.clamp(low, high));
        }
        all
    }
}

/// What single packets say is left if the capacity is `c`, with half the width of its interval.
fn by_singles(busy: Busy, c: f64) -> (f64, f64) {
    (c * (1.0 - busy.share), c * busy.half)
}

/// Both answers, each with the weight of its certainty. Where they contradict each other several trains count: single
/// packets miss queues of short packets. So does one train that says more is left: single packets also wait in queues of
/// faster links and of hosts, which take nothing from what is left. But one train that says less was held up by chance, or
/// by a host, more likely than most single packets were spared a queue.
fn together(trains: (f64, f64), singles: (f64, f64), are_several: bool) -> (f64, f64) {
    let ((a, half_a), (b, half_b)) = (trains, singles);
    if (a - b).abs() > half_a.hypot(half_b) && (are_several || b < a) {
        return trains;
    }
    let (weight_a, weight_b) = (half_a.powi(-2), half_b.powi(-2));
    let value = (a * weight_a + b * weight_b) / (weight_a + weight_b);
    if value.is_finite() { (value, (weight_a + weight_b).powf(-0.5)) } else { trains }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64) {
        // Rounding of fractions.
        assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
    }

    #[test]
    fn what_is_twice_as_certain_weighs_four_times_as_much() {
        let (value, half) = together((40.0, 20.0), (50.0, 10.0), false);
        near(value, (40.0 + 4.0 * 50.0) / 5.0);
        near(half, 20.0 / 5.0_f64.sqrt());
    }

    #[test]
    fn one_train_that_was_held_up_does_not_speak_alone() {
        let (held_up, singles) = ((-20.0, 55.0), (50.0, 10.0));
        assert!(together(held_up, singles, false).0 > 45.0);
        assert_eq!(together(held_up, singles, true), held_up, "several trains do");
    }

    #[test]
    fn queues_that_take_nothing_from_what_is_left_do_not_count() {
        let (trains, singles) = ((80.0, 15.0), (20.0, 10.0));
        assert_eq!(together(trains, singles, false), trains);
    }
}
