//! The relay quota of a peer: a rate limit shared by threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use units::{Bytes, Instant, Rate};

/// Lock-free rate limiter with a rate and a burst: the generic cell rate algorithm (ITU-T I.371), whose state is one
/// number.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    /// Theoretical arrival time: when all accepted bytes have been sent at the rate, nanoseconds.
    arrival_ns: AtomicU64,
}

impl Quota {
    /// Accepts `bytes` if they conform to `rate` with a burst of `rate` × `burst` bytes.
    pub(crate) fn try_consume(&self, now: Instant, rate: Rate, burst: Duration, bytes: u64) -> bool {
        let Some(time) = rate.time_for(Bytes::new(bytes)) else { return false };
        let update = |arrival_ns: u64| {
            let ahead = Instant::from_nanos(arrival_ns.max(now.as_nanos())).saturating_since(now).saturating_add(time);
            (ahead <= burst).then(|| (now + ahead).as_nanos())
        };
        self.arrival_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 MB/s, with a burst of 50 kB.
    const RATE: Rate = Rate::from_bps(8_000_000);
    const BURST: Duration = Duration::from_millis(50);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_burst_and_then_the_rate_are_accepted() {
        let quota = Quota::default();
        let tries = (0..10_000).flat_map(|ms| [ms; 3]);
        let accepted = tries.filter(|ms| quota.try_consume(at(*ms), RATE, BURST, 1000)).count();
        // 50 in the burst, and 1000 in each of ten seconds, the last of which lacks a millisecond.
        assert!((10_049..=10_050).contains(&accepted), "{accepted}");
        assert!(
            !quota.try_consume(at(20_000), RATE, BURST, 50_001) && quota.try_consume(at(20_000), RATE, BURST, 50_000)
        );
    }

    #[test]
    fn concurrent_threads_share_one_rate() {
        let quota = Quota::default();
        let accepted: usize = std::thread::scope(|scope| {
            let consume = || (0..1000).filter(|ms| quota.try_consume(at(*ms), RATE, BURST, 1000)).count();
            [scope.spawn(consume), scope.spawn(consume), scope.spawn(consume)].map(|t| t.join().unwrap()).iter().sum()
        });
        // One second at the rate for any interleaving of the threads, and at most one burst more.
        assert!((1000..=1050).contains(&accepted), "{accepted}");
    }
}
