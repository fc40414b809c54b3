//! The kernel's rounding of rates, bursts and times.

use std::time::Duration;

use units::{Bytes, Rate, nanos};

/// Tick of the packet scheduler: 2^PSCHED_SHIFT ns with PSCHED_SHIFT 6 (include/net/pkt_sched.h). Netlink messages give
/// bursts in ticks.
const TICK_NS: u64 = 64;
/// Unit of CoDel's times: 2^CODEL_SHIFT ns (include/net/codel.h).
const CODEL_SHIFT: u32 = 10;
/// Limits in bytes of a quantum that HTB derives from a rate (htb_change_class in net/sched/sch_htb.c).
const QUANTUM_RANGE: std::ops::RangeInclusive<u64> = 1000..=200_000;

/// Converts a time to ticks of 64 ns, rounded down; the result saturates at 32 bits (about 275 s).
pub(crate) fn ticks(time: Duration) -> u32 {
    u32::try_from(nanos(time) / TICK_NS).unwrap_or(u32::MAX)
}

/// Converts ticks to a time (PSCHED_TICKS2NS).
pub(crate) fn time_of(ticks: u32) -> Duration {
    Duration::from_nanos(u64::from(ticks) * TICK_NS)
}

/// Bucket depth as stored in the kernel: whole units of 64 ns, rounded down (struct tc_htb_opt, `buffer`).
pub fn kernel_burst(burst: Duration) -> Duration {
    time_of(ticks(burst))
}

/// Rate as stored in the kernel: whole bytes per second, rounded down (psched_ratecfg_precompute in
/// net/sched/sch_generic.c).
pub fn kernel_rate(rate: Rate) -> Rate {
    Rate::from_bps(rate.as_bytes_per_second() * 8)
}

/// Bucket depth in bytes, rounded down, after the kernel has rounded both `burst` and `rate` (tc_calc_xmitsize in
/// iproute2's tc/tc_core.c). Before version 6.16, iproute2 also rounds the time down to whole microseconds.
pub fn burst_bytes(rate: Rate, burst: Duration) -> Bytes {
    kernel_rate(rate).bytes_in(kernel_burst(burst))
}

/// Quantum in bytes that HTB assigns to a leaf without one: its rate in bytes per second divided by `rate_to_quantum`,
/// clamped to 1,000-200,000 bytes (htb_change_class in net/sched/sch_htb.c). A divisor of 0 counts as 1 (htb_init).
pub fn quantum_from_rate(rate: Rate, rate_to_quantum: u32) -> u32 {
    let quantum = rate.as_bytes_per_second() / u64::from(rate_to_quantum.max(1));
    quantum.clamp(*QUANTUM_RANGE.start(), *QUANTUM_RANGE.end()) as u32
}

/// Time of CoDel as the kernel reports it: set in whole microseconds and stored in units of 1,024 ns, both rounded down
/// (fq_codel_change and fq_codel_dump in net/sched/sch_fq_codel.c).
pub fn kernel_codel_time(time: Duration) -> Duration {
    let given = u64::from(microseconds(time)) * 1000;
    Duration::from_micros(((given >> CODEL_SHIFT) << CODEL_SHIFT) / 1000)
}

/// Converts a time to whole microseconds; the result saturates at 32 bits.
pub(crate) fn microseconds(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// Largest packet that a token bucket filter passes; it drops larger ones (psched_ns_t2l and tbf_enqueue in
/// net/sched/sch_tbf.c). The kernel stores at most 2^32 ns of the bucket.
pub fn largest_of_bucket(rate: Rate, burst: Duration) -> Bytes {
    burst_bytes(rate, burst.min(Duration::from_nanos(u64::from(u32::MAX))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_whole_ticks_of_64_ns() {
        // tc class add ... rate 200mbit burst 25000: 1 ms, sent by iproute2 6.1 as 0x3d09 ticks.
        assert_eq!(ticks(Duration::from_millis(1)), 0x3d09);
        assert_eq!(kernel_burst(Duration::from_nanos(1000)), Duration::from_nanos(960));
        assert_eq!(kernel_burst(Duration::from_secs(1000)), Duration::from_nanos(64 * 0xffff_ffff));
        assert_eq!(burst_bytes(Rate::from_bps(200_000_000), Duration::from_millis(1)), Bytes::new(25_000));
        // 10 Gb/s for 960 ns.
        assert_eq!(burst_bytes(Rate::from_bps(10_000_000_000), Duration::from_nanos(1000)), Bytes::new(1200));
    }

    #[test]
    fn rates_are_whole_bytes_per_second() {
        assert_eq!(kernel_rate(Rate::from_bps(15)), Rate::from_bps(8));
    }

    #[test]
    fn htb_clamps_the_quantum_that_it_derives() {
        // The kernel warned "quantum of class 10010 is big" at 100 Mb/s and r2q 10, and showed 200000.
        for (bps, divisor, quantum) in [(100_000_000, 10, 200_000), (8_000_000, 10, 100_000), (8000, 10, 1000)] {
            assert_eq!(quantum_from_rate(Rate::from_bps(bps), divisor), quantum);
        }
        assert_eq!(quantum_from_rate(Rate::from_bps(8000), 0), 1000);
    }

    #[test]
    fn codel_times_are_rounded_down() {
        // 5 ms is 4882 units of 1024 ns; `tc -j qdisc show` gives a target of 4999.
        assert_eq!(kernel_codel_time(Duration::from_millis(5)), Duration::from_micros(4999));
    }
}
