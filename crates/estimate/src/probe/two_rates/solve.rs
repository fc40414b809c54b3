//! Capacity and available bandwidth from the observations of all trains.

use super::BURST_PACKETS;
use super::singles::Utilisation;
use super::sustained::END_RATE_RATIO_MAX;
use crate::confidence;
use crate::probe::Interval;
use crate::samples::{mean, median, percentile, sorted};

/// Maximum utilisation, measured by single packets, at which cross traffic is unlikely to delay a train.
const QUIET_UTILISATION_MAX: f64 = 0.2;

/// Minimum number of bursts whose quartiles give the spread: those of fewer bursts underestimate it.
const QUARTILE_BURSTS_MIN: usize = 6;

/// Divisor of the number of trains that are winsorised at each end: one of ten.
const WINSORISED_DIVISOR: usize = 10;

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
    /// Duration at the receiver over duration at the sender.
    pub(super) stretch: f64,
    /// Rate at the sender in b/s.
    pub(super) sent: f64,
    /// Number of gaps between packets that count.
    pub(super) packets: u32,
    /// Rate of the rest in b/s, if the first part arrived at the sent rate and the rest clearly slower.
    pub(super) behind_bucket: Option<f64>,
    /// Upper bound of the rate at which it arrived, in b/s.
    pub(super) delivered: f64,
}

/// Observations of all trains.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) bursts: Vec<Burst>,
    pub(super) loads: Vec<Load>,
    pub(super) utilisation: Option<Utilisation>,
    /// The expected capacity, until a burst refutes it.
    pub(super) expected: Option<Interval>,
}

/// Capacity and available bandwidth in b/s, with the half-widths of their intervals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Solution {
    pub(super) capacity: f64,
    pub(super) capacity_half: f64,
    pub(super) available: f64,
    pub(super) available_half: f64,
}

impl Evidence {
    /// Adds a burst. A rate outside the expected interval refutes the expectation. The tolerance is the effect of one
    /// packet more or less between those of the burst.
    pub(super) fn add(&mut self, burst: Burst) {
        self.bursts.push(burst);
        let one_packet = burst.received / f64::from(BURST_PACKETS);
        let meets = |e: &Interval| {
            let (low, high) = (e.low.as_bps() as f64, e.high.as_bps() as f64);
            (low - one_packet..=high + one_packet).contains(&burst.received)
        };
        self.expected = self.expected.filter(meets);
    }

    /// Whether a burst has confirmed the expected capacity.
    pub(super) fn is_confirmed(&self) -> bool {
        self.expected.is_some() && !self.bursts.is_empty()
    }

    /// Received rate after a bucket ran empty. A bucket empties in all trains, except for one that cross traffic
    /// delays. Without a bucket, bursts of cross traffic delay up to one train in five in the same pattern; single
    /// packets would have detected those.
    pub(super) fn behind_bucket(&self) -> Option<Interval> {
        let behind: Vec<f64> = self.loads.iter().filter_map(|l| l.behind_bucket).collect();
        if let (&[rest], [_]) = (&behind[..], &self.loads[..]) {
            if self.utilisation.is_some_and(|b| b.share > QUIET_UTILISATION_MAX) {
                return None;
            }
            return Some(Interval::from_bps(rest, rest / END_RATE_RATIO_MAX, rest * END_RATE_RATIO_MAX));
        }
        Interval::of_mean(&behind).filter(|_| behind.len() > 1 && behind.len() * 3 > self.loads.len() * 2)
    }

    /// Whether most bursts met a bucket. Load trains do not empty such a bucket: they arrive as sent and give no rate.
    pub(super) fn is_bucket(&self) -> bool {
        self.bursts.iter().filter(|b| b.has_bucket).count() * 2 > self.bursts.len()
    }

    /// Upper bound of the path's rate from load trains, each of which is faster than the available bandwidth; in b/s.
    pub(super) fn delivered(&self) -> Option<f64> {
        self.loads.iter().map(|l| l.delivered).max_by(f64::total_cmp)
    }

    /// Received rate of the bursts and the half-width of its interval. It is the median, because a host that stalls
    /// briefly delivers a whole burst at once, and one such burst would dominate a mean.
    pub(super) fn burst_rate(&self) -> Option<(f64, f64)> {
        let rates = sorted(self.bursts.iter().map(|b| b.received));
        let (low, high) = (percentile(&rates, 0.25)?, percentile(&rates, 0.75)?);
        let received = median(rates.iter().copied())?;
        // A train near the capacity never arrives faster than the capacity. If it arrives faster than the bursts, these
        // were delayed.
        let passed = median(self.loads.iter().map(|l| l.sent / l.stretch)).filter(|_| !self.is_bucket());
        let median = passed.map_or(received, |p| p.max(received));
        if rates.len() >= QUARTILE_BURSTS_MIN {
            // McGill, Tukey, Larsen 1978: 1.57 interquartile ranges over the root of the count contain a median at
            // about 95 %.
            return Some((median, 1.57 * (high - low) / (rates.len() as f64).sqrt()));
        }
        if rates.len() > 2 {
            return Some((median, confidence(&rates)?.half_width?));
        }
        // One or two bursts do not show their spread; the half-width is the effect of one packet more or less between
        // them.
        let one_packet = median / f64::from(BURST_PACKETS);
        // An expected capacity narrows the interval, as far as the burst agrees with it, and never changes the value.
        let from_expected = self.expected.map(|e| {
            let distance = (median - e.value.as_bps() as f64).abs();
            distance.max((e.high.as_bps() as f64 - e.low.as_bps() as f64) / 2.0)
        });
        Some((median, from_expected.map_or(one_packet, |half| half.min(one_packet))))
    }

    pub(super) fn solve(&self) -> Option<Solution> {
        let (burst, burst_half) = self.burst_rate()?;
        if self.loads.is_empty() {
            let (available, available_half) = by_singles(self.utilisation?, burst);
            let available_half = available_half.hypot(burst_half * available / burst);
            return Some(Solution { capacity: burst, capacity_half: burst_half, available, available_half });
        }
        let capacity = self.capacity(burst)?;
        // Some bursts met packets of cross traffic and some did not: the size of the correction is uncertain.
        let capacity_half = (burst_half * capacity / burst).hypot(capacity - burst);
        let trains = self.by_trains(capacity)?;
        let are_several = self.loads.len() > 2;
        let (available, by_load) =
            self.utilisation.map_or(trains, |b| combined(trains, by_singles(b, capacity), are_several));
        // available = C (1 - stretch) + sent: an uncertainty of C carries over to the available bandwidth.
        let stretch = mean(self.loads.iter().map(|l| l.stretch))?;
        let available_half = by_load.hypot((1.0 - stretch) * capacity_half);
        Some(Solution { capacity, capacity_half, available, available_half })
    }

    /// The burst and the load give the capacity, and the capacity gives the load: a fixed point. It is reached in a few
    /// iterations because the burst is far above the capacity.
    fn capacity(&self, burst: f64) -> Option<f64> {
        let sent = mean(self.bursts.iter().map(|b| b.sent))?;
        let mut c = burst;
        for _ in 0..20 {
            let (available, _) = self.by_trains(c)?;
            let next = burst * (1.0 + (c - available).clamp(0.0, c) / sent.max(burst));
            let settled = (next - c).abs() < c * 1e-6;
            c = next;
            if settled {
                break;
            }
        }
        Some(c)
    }

    /// Available bandwidth by load trains if the capacity is `c`, with the half-width of its interval.
    fn by_trains(&self, c: f64) -> Option<(f64, f64)> {
        let each = self.available_by_load(c);
        let available = mean(each.iter().copied())?;
        let utilisation = (1.0 - available / c).clamp(0.0, 1.0);
        // The count of Poisson packets that a train of N packets meets varies by its root, and by one at the ends.
        let trains = each.len() as f64;
        let packets = self.loads.iter().map(|l| f64::from(l.packets)).sum::<f64>();
        let by_count = 2.0 * c * ((utilisation + trains / packets) / packets).sqrt();
        // The spread excludes the winsorised values (Tukey, McLaughlin 1963).
        let winsorised_factor = trains / (trains - 2.0 * (each.len() / WINSORISED_DIVISOR) as f64);
        let by_spread =
            confidence(&each).and_then(|e| e.half_width).filter(|_| each.len() > 2).map(|h| h * winsorised_factor);
        Some((available, by_spread.unwrap_or(by_count)))
    }

    /// Available bandwidth by each train if the capacity is `c`. The outer tenths of many values are winsorised: a host
    /// that stalls during a train lengthens it many times.
    fn available_by_load(&self, c: f64) -> Vec<f64> {
        let mut all = sorted(self.loads.iter().map(|l| c - (l.stretch * c - l.sent)));
        let outer = all.len() / WINSORISED_DIVISOR;
        if let Some((low, high)) = all.get(outer).copied().zip(all.len().checked_sub(outer + 1).map(|i| all[i])) {
            all.iter_mut().for_each(|v| *v = v.clamp(low, high));
        }
        all
    }
}

/// Available bandwidth by single packets if the capacity is `c`, with the half-width of its interval.
fn by_singles(utilisation: Utilisation, c: f64) -> (f64, f64) {
    (c * (1.0 - utilisation.share), c * utilisation.half_width)
}

/// Combines both estimates, weighted with their certainty. If they contradict each other, several trains take
/// precedence, because single packets miss queues of short packets. One train with the larger value also takes
/// precedence: single packets also wait in queues of faster links and of hosts, which do not reduce the available
/// bandwidth. One train with the smaller value was probably delayed by chance or by a host.
fn combined(trains: (f64, f64), singles: (f64, f64), are_several: bool) -> (f64, f64) {
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
    fn a_value_that_is_twice_as_certain_weighs_four_times_as_much() {
        let (value, half) = combined((40.0, 20.0), (50.0, 10.0), false);
        near(value, (40.0 + 4.0 * 50.0) / 5.0);
        near(half, 20.0 / 5.0_f64.sqrt());
    }

    #[test]
    fn one_delayed_train_does_not_override_single_packets() {
        let (delayed, singles) = ((-20.0, 55.0), (50.0, 10.0));
        assert!(combined(delayed, singles, false).0 > 45.0);
        assert_eq!(combined(delayed, singles, true), delayed, "several trains take precedence");
    }

    #[test]
    fn queues_that_do_not_reduce_the_available_bandwidth_are_ignored() {
        let (trains, singles) = ((80.0, 15.0), (20.0, 10.0));
        assert_eq!(combined(trains, singles, false), trains);
    }
}
