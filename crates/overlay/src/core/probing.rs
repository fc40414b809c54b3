//! Probes of a link for losses: as many as their byte budget affords where traffic is too thin, and for a while more
//! where something is uncertain.

use units::{Instant, Rate};

use crate::bucket::{Bucket, Limit};
use crate::rate_meter::RateMeter;

/// Bytes of a probe behind the headers of its datagram: frame 40, message 1.
pub(super) const PROBE_BYTES: usize = 41;
/// Minimum probes per second, so that silence is noticed, and maximum: enough to tell a loss of 5 % from 15 % within a
/// second with the confidence of the route control.
pub(super) const PROBE_RATE_MIN: f64 = 10.0;
pub(super) const PROBE_RATE_MAX: f64 = 800.0;
/// Factor of the probe rate of an uncertain link, out of savings; less than a tenth of the link.
const BOOST: f64 = 8.0;
/// Maximum savings, in seconds of the budget: four seconds of boost. A link starts with half of them.
const SAVINGS: Limit = Limit { per_second: 1.0, burst: 30.0 };
/// Share of the budget that is spent while savings are below [`FULL_SHARE`] of their maximum.
const SAVING_SHARE: f64 = 0.6;
const FULL_SHARE: f64 = 0.9;

/// Times of the probes of a link, and their cost.
#[derive(Default)]
pub(super) struct ProbeSchedule {
    pub(super) next: Option<Instant>,
    /// Time of the next probe of the paper's sensor.
    pub(super) next_of_sensor: Option<Instant>,
    /// Frames sent on the link at the last check, plus probes and reports since, which are no traffic; time of that
    /// check.
    frames: u64,
    checked: Option<Instant>,
    sent: u64,
    /// IP bytes of all probes of the link and of paths that begin with it, packet trains and path MTU probes included.
    cost: RateMeter,
    /// Seconds of the budget spent ahead of time.
    ahead: Option<Bucket>,
    /// Seconds of the budget for a byte.
    per_byte: f64,
}

/// Probes that a budget affords.
#[derive(Debug, Clone, Copy)]
pub(super) struct Affordable {
    /// Probes per second.
    pub(super) rate: f64,
    /// IP bytes of a probe.
    pub(super) bytes: f64,
}

impl ProbeSchedule {
    /// Number of probes sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Recent cost of all probes.
    pub(super) fn cost(&self, now: Instant) -> Rate {
        self.cost.rate(now)
    }

    /// A packet train was sent; trains have a budget of their own.
    pub(super) fn note_train(&mut self, now: Instant, bytes: usize) {
        self.cost.note(now, bytes as u64);
    }

    /// A probe of so many IP bytes was sent; 0: it could not be.
    pub(super) fn note_probe(&mut self, now: Instant, bytes: usize) {
        self.sent += u64::from(bytes > 0);
        self.pay(now, bytes as f64);
    }

    /// Another probing datagram was sent; fewer probes for losses follow.
    pub(super) fn pay(&mut self, now: Instant, bytes: f64) {
        self.ahead.iter_mut().for_each(|ahead| ahead.put(self.per_byte * bytes));
        self.cost.note(now, bytes as u64);
    }

    /// A report was sent, which is no traffic: a slow link needs all the probes that its budget affords.
    pub(super) fn note_report(&mut self) {
        self.frames += 1;
    }

    /// Probes per second now.
    pub(super) fn rate(&mut self, now: Instant, affordable: Affordable, is_uncertain: bool) -> f64 {
        let each = 1.0 / affordable.rate.max(PROBE_RATE_MIN);
        self.per_byte = each / affordable.bytes;
        let affordable = affordable.rate;
        let half = || {
            let mut half = Bucket::new(now);
            half.put(SAVINGS.burst / 2.0);
            half
        };
        let saved = self.ahead.get_or_insert_with(half).room(now, SAVINGS);
        if is_uncertain && saved >= each {
            (BOOST * affordable).min(PROBE_RATE_MAX).max(affordable)
        } else if !is_uncertain && saved < FULL_SHARE * SAVINGS.burst {
            SAVING_SHARE * affordable
        } else {
            affordable
        }
    }

    /// Whether fewer frames than probes at `rate` were sent since the last check; `sent`: frames sent on the link.
    pub(super) fn is_needed(&mut self, now: Instant, sent: u64, rate: f64) -> bool {
        let passed = self.checked.map_or(0.0, |at| now.saturating_since(at).as_secs_f64());
        let suffices = passed > 0.0 && sent.saturating_sub(self.frames) as f64 > rate * passed;
        (self.frames, self.checked) = (sent + u64::from(!suffices), Some(now));
        !suffices
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Probes in some seconds on a link whose budget affords 40 per second.
    fn probes(schedule: &mut ProbeSchedule, now: &mut Instant, seconds: f64, is_uncertain: bool) -> u64 {
        let (before, end) = (schedule.sent(), *now + Duration::from_secs_f64(seconds));
        while *now < end {
            let affordable = Affordable { rate: 40.0, bytes: 69.0 };
            *now = *now + Duration::from_secs_f64(1.0 / schedule.rate(*now, affordable, is_uncertain));
            schedule.note_probe(*now, 69);
        }
        schedule.sent() - before
    }

    #[test]
    fn an_uncertain_link_is_probed_closely_out_of_savings() {
        let (mut schedule, mut now) = (ProbeSchedule::default(), Instant::from_nanos(1_000_000_000));
        // Half of the savings: 15 s of the budget, which last for 15 / (8 - 1) s.
        let first = probes(&mut schedule, &mut now, 3.0, true);
        assert!((700..=722).contains(&first), "{first}");
        let then = probes(&mut schedule, &mut now, 1.0, true);
        assert!((36..=43).contains(&then), "no more than the budget: {then}");
        // 27 s are saved, at 0.4 of the budget, after 67.5 s.
        let rest = probes(&mut schedule, &mut now, 100.0, false);
        assert!((2700..=3000).contains(&rest), "{rest}");
        let second = probes(&mut schedule, &mut now, 4.0, true);
        assert!((1160..=1285).contains(&second), "{second}");
    }

    #[test]
    fn the_budget_is_kept_however_often_a_link_is_uncertain() {
        let (mut schedule, mut now) = (ProbeSchedule::default(), Instant::from_nanos(1_000_000_000));
        let start = now;
        let all: u64 = (0..2000).map(|n| probes(&mut schedule, &mut now, 0.5, n % 3 == 0)).sum();
        // And the 15 s of the start.
        let paid = 40.0 * (now.saturating_since(start).as_secs_f64() + 15.0);
        assert!((0.97..=1.0).contains(&(all as f64 / paid)), "{all} of {paid}");
    }
}
