use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use units::Instant;

/// Time spent in suspend as found by [`note_sleep`], nanoseconds; wraps, as a time namespace may make the difference
/// negative.
static SUSPEND_NS: AtomicU64 = AtomicU64::new(0);

fn read(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec to write to; the clock ids used here exist on every Linux that we support.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

/// This host's monotonic clock (CLOCK_MONOTONIC_RAW). It is neither stepped nor slewed: two hosts' clocks differ by
/// an offset and a nearly constant drift even while a time daemon corrects one of them (chrony slews by up to 8 %).
/// The clock stands still during suspend unless [`note_sleep`] is called.
pub fn now() -> Instant {
    Instant::from_nanos(read(libc::CLOCK_MONOTONIC_RAW).wrapping_add(SUSPEND_NS.load(Ordering::Relaxed)))
}

/// Adds the time that the host spent in suspend (CLOCK_BOOTTIME minus CLOCK_MONOTONIC) to [`now`] of this process.
/// Long-running services call it before they store the first time, and often from then on.
pub fn note_sleep() {
    let (asleep, before) = (suspend_time_ns(), SUSPEND_NS.load(Ordering::Relaxed));
    // A smaller difference may be a delay of this thread between two readings.
    if (asleep.wrapping_sub(before) as i64).unsigned_abs() >= SUSPEND_NS_MIN {
        SUSPEND_NS.store(asleep, Ordering::Relaxed);
    }
}

/// Shortest suspend that is counted: suspending devices alone takes longer.
const SUSPEND_NS_MIN: u64 = 100_000_000;

/// Time that this host spent in suspend since boot. Of three readings the one counts in which the clocks were read
/// closest together.
fn suspend_time_ns() -> u64 {
    let reading = |_| {
        let before = read(libc::CLOCK_MONOTONIC);
        let boot = read(libc::CLOCK_BOOTTIME);
        let after = read(libc::CLOCK_MONOTONIC);
        (after - before, boot.wrapping_sub(before))
    };
    (0..3).map(reading).min_by_key(|(width, _)| *width).map_or(0, |(_, asleep)| asleep)
}

/// Resolution of the monotonic clock, as the kernel states it.
pub fn resolution() -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as in `read`.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_RAW, &raw mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Seconds since 1970 (CLOCK_REALTIME) as (seconds, nanoseconds); for labels, never for intervals.
pub fn utc_seconds() -> (u64, u32) {
    let ns = read(libc::CLOCK_REALTIME);
    (ns / 1_000_000_000, (ns % 1_000_000_000) as u32)
}

/// Nanoseconds of the clock that BPF programs read (CLOCK_MONOTONIC, `bpf_ktime_get_ns`).
pub fn uptime_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, user and system.
pub fn thread_cpu() -> Duration {
    Duration::from_nanos(read(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// Sleeps for about `d`, without the 50 us that the kernel may add by default once [`tight_timers`] was called.
pub fn sleep_for(d: Duration) {
    let t =
        libc::timespec { tv_sec: d.as_secs() as libc::time_t, tv_nsec: libc::c_long::from(d.subsec_nanos() as i32) };
    // SAFETY: `t` is a valid timespec; a null remainder is allowed. An early return by a signal only shortens the
    // sleep_for.
    unsafe { libc::nanosleep(&raw const t, std::ptr::null_mut()) };
}

/// Asks for timers of the calling thread to fire on time (PR_SET_TIMERSLACK 1 ns instead of 50 us).
pub fn tight_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and affects only the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Converts kernel packet timestamps (CLOCK_REALTIME) to the monotonic clock, and detects steps of CLOCK_REALTIME.
#[derive(Debug, Clone)]
pub struct Clocks {
    offset_ns: i64,
    steps: u64,
}

/// A change of CLOCK_REALTIME against the monotonic clock larger than this between two readings is a step: readings are
/// at most 100 ms apart while data flows, and the kernel's own slewing moves 0.5 ms per second.
const STEP_NS_MIN: i64 = 1_000_000;
/// Maximum time between two readings that count as simultaneous: about a microsecond each where the clock is slow to
/// read.
const SIMULTANEOUS_NS_MAX: u64 = 10_000;

impl Default for Clocks {
    fn default() -> Self {
        Self::new()
    }
}

impl Clocks {
    /// Reads both clocks.
    pub fn new() -> Self {
        Self { offset_ns: Self::measure(), steps: 0 }
    }

    /// CLOCK_REALTIME minus monotonic. Of three readings the one counts in which the two clocks were read closest
    /// together.
    fn measure() -> i64 {
        (0..3)
            .map(|_| {
                let before = now().as_nanos();
                let real = read(libc::CLOCK_REALTIME);
                let width = now().as_nanos().wrapping_sub(before);
                (width, real.wrapping_sub(before + width / 2) as i64)
            })
            .min_by_key(|(width, _)| *width)
            .map_or(0, |(_, offset)| offset)
    }

    /// Reads both clocks again; call it at least once a second. Counts steps.
    pub fn refresh(&mut self) {
        self.on_offset(Self::measure());
    }

    /// Handles a reading of CLOCK_REALTIME between two readings of the monotonic clock. A thread that was preempted
    /// in between cannot use the offset: it reads the clocks again if the offset has moved by more than half a step.
    fn on_reading(&mut self, before: Instant, real: u64, after: Instant) {
        let width = after.saturating_since(before).as_nanos() as u64;
        let offset = real.wrapping_sub(before.as_nanos() + width / 2) as i64;
        if width <= SIMULTANEOUS_NS_MAX {
            self.on_offset(offset);
        } else if (offset - self.offset_ns).abs() > STEP_NS_MIN / 2 {
            self.refresh();
        }
    }

    fn on_offset(&mut self, offset: i64) {
        if (offset - self.offset_ns).abs() > STEP_NS_MIN {
            self.steps += 1;
        }
        self.offset_ns = offset;
    }

    /// Number of steps of CLOCK_REALTIME since the start; stamps taken around a step are wrong by its size.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Arrival time of a packet that the kernel stamped at `realtime_ns` and this thread has just read. Returns the
    /// present time where there is no stamp, or where CLOCK_REALTIME was stepped since the last reading, as the stamp
    /// may be older than the step.
    pub fn came(&mut self, realtime_ns: Option<u64>) -> Instant {
        let steps = self.steps;
        let (before, real, now) = (now(), read(libc::CLOCK_REALTIME), now());
        self.on_reading(before, real, now);
        let stamp = realtime_ns.filter(|_| self.steps == steps);
        stamp.map_or(now, |ns| self.monotonic(ns).min(now))
    }

    /// The monotonic instant of a realtime stamp.
    pub fn monotonic(&self, realtime_ns: u64) -> Instant {
        Instant::from_nanos(realtime_ns.wrapping_sub(self.offset_ns as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn realtime_stamps_map_onto_the_monotonic_clock() {
        let clocks = Clocks::new();
        let before = now();
        let (s, ns) = utc_seconds();
        let after = now();
        let mapped = clocks.monotonic(s * 1_000_000_000 + u64::from(ns));
        // 100 us: the two clocks are read within the bracket, plus the error of the offset itself.
        assert!(mapped.nanos_since(before) > -100_000 && after.nanos_since(mapped) > -100_000);
        assert_eq!(clocks.steps(), 0);
    }

    #[test]
    fn a_packet_arrives_at_its_stamp_unless_the_clock_was_stepped_since() {
        let realtime = || read(libc::CLOCK_REALTIME);
        // A thread that is preempted between two readings of the clocks looks like a step; one of 100 attempts is not
        // preempted.
        let stamped = |ago: u64| {
            let mut clocks = Clocks::new();
            (0..100).map(|_| now().saturating_since(clocks.came(Some(realtime() - ago)))).max().unwrap()
        };
        assert!(stamped(400_000_000) >= Duration::from_millis(399));
        let mut set = Clocks { offset_ns: Clocks::measure() - 400_000_000, steps: 0 };
        let before = now();
        assert!(set.came(Some(realtime() - 1_000_000)) >= before, "the stamp may be older than the step");
        assert!(set.came(None) >= before && set.came(Some(realtime() + 1_000_000_000)) <= now());
    }

    #[test]
    fn a_thread_preempted_between_two_readings_takes_no_offset_from_them() {
        let mut clocks = Clocks { offset_ns: 0, steps: 0 };
        let at = |us: u64| Instant::from_nanos(1_000_000_000 + us * 1000);
        // The time of day is read 0.9 ms after the other clock: all packets would appear to arrive that much earlier.
        clocks.on_reading(at(0), at(900).as_nanos(), at(901));
        assert_eq!((clocks.offset_ns, clocks.steps), (0, 0));
        clocks.on_reading(at(2000), at(2103).as_nanos(), at(2006));
        assert_eq!((clocks.offset_ns, clocks.steps), (100_000, 0), "the clock is slewed, and read at once");
    }

    #[test]
    fn a_slewed_clock_is_followed_and_a_stepped_one_is_detected() {
        let mut clocks = Clocks { offset_ns: 0, steps: 0 };
        // The kernel's own maximum slew, 500 ppm, for a thousand seconds: half a second in all.
        let offset_per_reading = 50_000;
        (1..=10_000).for_each(|reading| clocks.on_offset(reading * offset_per_reading));
        assert_eq!((clocks.steps(), clocks.offset_ns), (0, 500_000_000));
        assert_eq!(clocks.monotonic(1_500_000_000), Instant::from_nanos(1_000_000_000));
        clocks.on_offset(500_000_000 + 2_000_000);
        assert_eq!(clocks.steps(), 1);
    }
}
