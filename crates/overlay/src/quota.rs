use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use units::{Bytes, Instant, Rate};

/// What a member handed over to be passed on, bounded to a rate and a burst by any number of threads: the generic cell rate algorithm (ITU-T
/// I.371), whose state is one number.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    /// When all that was taken has gone at the rate, nanoseconds.
    gone_at: AtomicU64,
}

impl Quota {
    /// Takes so many bytes, if they fit: `rate` at most, and what goes in `burst` at once.
    pub(crate) fn takes(&self, now: Instant, rate: Rate, burst: Duration, bytes: u64) -> bool {
        let Some(time) = rate.time_for(Bytes::new(bytes)) else { return false };
        let after = |gone_at: u64| {
            let ahead = Instant::from_nanos(gone_at.max(now.as_nanos())).saturating_since(now).saturating_add(time);
            (ahead <= burst).then(|| (now + ahead).as_nanos())
        };
        self.gone_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 MB/s, and 50 kB at once.
    const RATE: Rate = Rate::from_bps(8_000_000);
    const BURST: Duration = Duration::from_millis(50);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn what_is_taken_is_a_burst_and_what_goes_at_the_rate() {
        let quota = Quota::default();
        let tries = (0..10_000).flat_map(|ms| [ms; 3]);
        let taken = tries.filter(|ms| quota.takes(at(*ms), RATE, BURST, 1000)).count();
        // 50 at once, and 1000 in each of ten seconds, the last of which lacks a millisecond.
        assert!((10_049..=10_050).contains(&taken), "{taken}");
        assert!(!quota.takes(at(20_000), RATE, BURST, 50_001) && quota.takes(at(20_000), RATE, BURST, 50_000));
    }

    #[test]
    fn threads_together_get_no_more_than_one() {
        let quota = Quota::default();
        let taken: usize = std::thread::scope(|scope| {
            let take = || (0..1000).filter(|ms| quota.takes(at(*ms), RATE, BURST, 1000)).count();
            [scope.spawn(take), scope.spawn(take), scope.spawn(take)].map(|t| t.join().unwrap()).iter().sum()
        });
        // A second's worth, however the threads' times lie; and none of them went ahead of the time by more than the burst.
        assert!((1000..=1050).contains(&taken), "{taken}");
    }
}
