//! Sizes of buckets, quanta and queues in bytes, from times.

use std::time::Duration;

use units::{Bytes, Rate};

use crate::device::Device;

/// Default depth of a bucket, as in sqm-scripts and LibreQoS. With a smaller bucket the kernel wakes too late to keep
/// the rate; with a larger one a burst fills the queue of another device.
const BURST_DEFAULT: Duration = Duration::from_millis(1);
/// Longest time for which a super-packet may occupy a slow link.
const SUPER_PACKET_TIME_MAX: Duration = Duration::from_millis(10);
/// Initial window of TCP in segments (RFC 6928).
const INITIAL_WINDOW_SEGMENTS: u64 = 10;
/// Maximum quantum of the class with the highest rate, in quanta of the class with the lowest rate.
const QUANTUM_RATIO_MAX: u64 = 16;
/// Maximum bytes of a FIFO: the kernel's limit has 32 bits (struct tc_fifo_qopt).
pub(crate) const FIFO_LIMIT_MAX: Bytes = Bytes::new(u32::MAX as u64);
/// Maximum bytes of fq_codel. It gets twice as much memory, of which the kernel accepts at most 2^31 bytes
/// (fq_codel_change in sch_fq_codel.c).
pub(crate) const FQ_CODEL_LIMIT_MAX: Bytes = Bytes::new(1 << 30);
/// Minimum queue length in packets; CoDel needs several packets to detect a standing queue.
const QUEUE_PACKETS_MIN: u64 = 64;

/// Largest burst of a sender in bytes at a rate: a super-packet, or on a slow link the bytes of 10 ms, and at least an
/// initial window.
pub(crate) fn sender_burst(device: &Device, rate: Rate) -> Bytes {
    let slow = rate.bytes_in(SUPER_PACKET_TIME_MAX).as_u64();
    let window = INITIAL_WINDOW_SEGMENTS * device.frame().as_u64();
    Bytes::new(slow.max(window).min(device.super_packet.as_u64().max(device.frame().as_u64())))
}

/// Depth of a bucket in time at `rate`, for a class that sends at `ceiling`.
pub(crate) fn burst(device: &Device, rate: Rate, ceiling: Rate, configured: Option<Duration>) -> Duration {
    let bytes = match configured {
        Some(time) => ceiling.bytes_in(time),
        None => ceiling.bytes_in(BURST_DEFAULT).max(sender_burst(device, ceiling)),
    };
    rate.time_for(bytes).unwrap_or(Duration::MAX)
}

/// Quantum of a class in bytes. Classes of one priority share the excess in proportion to their quanta, so quanta are
/// proportional to the rates. The smallest quantum is one burst, because a class always sends whole packets.
pub(crate) fn quantum(device: &Device, whole: Rate, rate: Rate, lowest: Rate) -> u32 {
    let sender_burst = sender_burst(device, whole).as_u64();
    let share = u128::from(sender_burst) * u128::from(rate.as_bps()) / u128::from(lowest.as_bps().max(1));
    let share = share.clamp(u128::from(sender_burst), u128::from(sender_burst * QUANTUM_RATIO_MAX));
    u32::try_from(share).unwrap_or(u32::MAX)
}

/// Maximum bytes in a queue: the bytes that `ceiling` sends in `limit`, and at least two bursts, so that a single
/// sender keeps the class busy. `max`, which the kernel can count, is the upper limit.
pub(crate) fn queue(device: &Device, ceiling: Rate, limit: Duration, max: Bytes) -> Bytes {
    ceiling.bytes_in(limit).max(Bytes::new(2 * sender_burst(device, ceiling).as_u64())).min(max)
}

/// Maximum queue length in packets of full size.
pub(crate) fn queue_packets(device: &Device, bytes: Bytes) -> u32 {
    u32::try_from((bytes.as_u64() / device.frame().as_u64().max(1)).max(QUEUE_PACKETS_MIN)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Device {
        Device { name: "eth0".to_owned(), index: 2, ethernet: true, mtu: 1500, super_packet: Bytes::new(65_536) }
    }

    fn mbps(n: u64) -> Rate {
        Rate::from_bps(n * 1_000_000)
    }

    #[test]
    fn a_bucket_holds_a_millisecond_of_the_ceiling_or_a_super_packet() {
        // 1 ms of 1 Gb/s is 125 000 bytes; at a rate of 100 Mb/s they last 10 ms.
        assert_eq!(burst(&device(), mbps(100), mbps(1000), None), Duration::from_millis(10));
        // 1 ms of 100 Mb/s would be 12 500 bytes; a super-packet of 65 536 bytes lasts 5.24288 ms.
        assert_eq!(burst(&device(), mbps(100), mbps(100), None), Duration::from_nanos(5_242_880));
        // 10 ms of 1 Mb/s would be 1250 bytes; an initial window has 10 x 1514 bytes.
        assert_eq!(burst(&device(), mbps(1), mbps(1), None), Duration::from_nanos(121_120_000));
        assert_eq!(burst(&device(), mbps(1), mbps(2), Some(Duration::from_millis(3))), Duration::from_millis(6));
    }

    #[test]
    fn quanta_are_proportional_to_the_rates() {
        let whole = mbps(1000);
        assert_eq!(quantum(&device(), whole, mbps(100), mbps(100)), 65_536);
        assert_eq!(quantum(&device(), whole, mbps(400), mbps(100)), 4 * 65_536);
        assert_eq!(quantum(&device(), whole, mbps(900), mbps(1)), 16 * 65_536, "the quantum is limited");
    }

    #[test]
    fn a_queue_holds_at_least_two_super_packets() {
        assert_eq!(queue(&device(), mbps(1000), Duration::from_millis(50), FIFO_LIMIT_MAX), Bytes::new(6_250_000));
        assert_eq!(queue(&device(), mbps(100), Duration::from_millis(1), FIFO_LIMIT_MAX), Bytes::new(131_072));
        assert_eq!(queue_packets(&device(), Bytes::new(1_514_000)), 1000);
    }
}
