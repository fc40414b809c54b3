//! The kernel's coarse clock: jiffies and the timer wheel.

use units::{Duration, Instant, nanos};

/// Size of a level of the timer wheel, and the factor between the granularities of two levels (LVL_SIZE and
/// LVL_CLK_DIV in kernel/time/timer.c).
const LEVEL_TIMERS: u64 = 64;
const LEVEL_FACTOR: u64 = 8;
const LEVELS: u32 = 9;

/// Clock that advances by one tick (1/HZ).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticks {
    period_ns: u64,
}

impl Ticks {
    pub(crate) fn new(period: Duration) -> Self {
        Self { period_ns: nanos(period).max(1) }
    }

    /// Number of ticks at a time (`jiffies`).
    pub(crate) const fn at(self, now: Instant) -> u64 {
        now.as_nanos() / self.period_ns
    }

    /// Number of ticks for a time span, rounded up (usecs_to_jiffies).
    pub(crate) const fn for_us(self, us: u64) -> u64 {
        us.saturating_mul(1000).div_ceil(self.period_ns)
    }

    /// Rounds a time span up to ticks, in microseconds.
    pub(crate) const fn round_up_us(self, us: u64) -> u64 {
        self.for_us(us).saturating_mul(self.period_ns) / 1000
    }

    /// Time at which a timer of the wheel expires: never early, and late by up to the granularity of its level, which
    /// is one tick below 63 ticks, then 8 ticks below 504, and so on (calc_index in kernel/time/timer.c).
    pub(crate) fn deadline(self, now: Instant, timeout_us: u64) -> Instant {
        let span = self.for_us(timeout_us).max(1);
        let mut granularity = 1;
        for _ in 1..LEVELS {
            if span < (LEVEL_TIMERS - 1) * granularity {
                break;
            }
            granularity *= LEVEL_FACTOR;
        }
        let expires = self.at(now).saturating_add(span);
        let fires = (expires / granularity).saturating_add(1).saturating_mul(granularity);
        Instant::from_nanos(fires.saturating_mul(self.period_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_expires_at_the_granularity_of_its_level() {
        let ticks = Ticks::new(Duration::from_millis(4));
        let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
        // 200 ms are 50 ticks: the next tick after 51.
        assert_eq!(ticks.deadline(ms(1), 200_000), ms(204));
        assert_eq!(ticks.deadline(ms(4), 200_000), ms(208));
        // 400 ms are 100 ticks: multiples of 8 ticks, 32 ms.
        assert_eq!(ticks.deadline(ms(0), 400_000), ms(416));
        assert_eq!(ticks.round_up_us(200_001), 204_000);
    }
}
