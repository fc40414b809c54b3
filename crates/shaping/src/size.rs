//! How large buckets, turns and queues are: from times to bytes.

use std::time::Duration;

use units::{Bytes, Rate};

use crate::device::Device;

/// Default depth of a bucket. The consensus of those who shape fast links (sqm-scripts, LibreQoS): with less the kernel wakes too
/// late to keep the rate, with more a burst is a queue elsewhere.
const BURST: Duration = Duration::from_millis(1);
/// A super-packet shall not hold a slow link for longer.
const LONGEST_PIECE: Duration = Duration::from_millis(10);
/// Initial window of TCP (RFC 6928).
const INITIAL_WINDOW: u64 = 10;
/// Maximum burst of the class with the highest rate, in turns.
const BURST_TURNS_MAX: u64 = 16;
/// Bytes of a FIFO: the kernel's limit has 32 bits (struct tc_fifo_qopt).
pub(crate) const FIFO_LIMIT_MAX: Bytes = Bytes::new(u32::MAX as u64);
/// Bytes in fq_codel, which gets twice as much memory and no more than 2^31 of it (fq_codel_change in sch_fq_codel.c).
pub(crate) const FQ_CODEL_LIMIT_MAX: Bytes = Bytes::new(1 << 30);
/// CoDel needs some packets to see a standing queue.
const FEWEST_PACKETS: u64 = 64;

/// The largest piece of data to be reckoned with at a rate: a super-packet, or on a slow link as much as lasts 10 ms, and always
/// an initial window.
pub(crate) fn piece(device: &Device, rate: Rate) -> Bytes {
    let slow = rate.bytes_in(LONGEST_PIECE).as_u64();
    let window = INITIAL_WINDOW * device.frame().as_u64();
    Bytes::new(slow.max(window).min(device.super_packet.as_u64().max(device.frame().as_u64())))
}

/// Depth of a bucket in time at `rate`, for a class that sends at `ceiling`.
pub(crate) fn burst(device: &Device, rate: Rate, ceiling: Rate, asked: Option<Duration>) -> Duration {
    let bytes = match asked {
        Some(time) => ceiling.bytes_in(time),
        None => ceiling.bytes_in(BURST).max(piece(device, ceiling)),
    };
    rate.time_for(bytes).unwrap_or(Duration::MAX)
}

/// Bytes of a class's turn: among classes of one priority what is left is divided by these, so they go with the rates. The
/// smallest is a whole piece, as a class always sends a whole packet.
pub(crate) fn quantum(device: &Device, whole: Rate, rate: Rate, lowest: Rate) -> u32 {
    let piece = piece(device, whole).as_u64();
    let share = u128::from(piece) * u128::from(rate.as_bps()) / u128::from(lowest.as_bps().max(1));
    let share = share.clamp(u128::from(piece), u128::from(piece * BURST_TURNS_MAX));
    u32::try_from(share).unwrap_or(u32::MAX)
}

/// Bytes that wait at most: what leaves within `limit` at `ceiling`, and at least two pieces, or a single sender could not
/// keep the class busy; no more than `most`, which the kernel can count.
pub(crate) fn queue(device: &Device, ceiling: Rate, limit: Duration, most: Bytes) -> Bytes {
    ceiling.bytes_in(limit).max(Bytes::new(2 * piece(device, ceiling).as_u64())).min(most)
}

/// The same in packets of full size.
pub(crate) fn queue_packets(device: &Device, bytes: Bytes) -> u32 {
    u32::try_from((bytes.as_u64() / device.frame().as_u64().max(1)).max(FEWEST_PACKETS)).unwrap_or(u32::MAX)
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
        // 1 ms of 1 Gb/s are 125 000 bytes; at a rate of 100 Mb/s they last 10 ms.
        assert_eq!(burst(&device(), mbps(100), mbps(1000), None), Duration::from_millis(10));
        // 1 ms of 100 Mb/s would be 12 500 bytes; a super-packet of 65 536 lasts 5.24288 ms.
        assert_eq!(burst(&device(), mbps(100), mbps(100), None), Duration::from_nanos(5_242_880));
        // 10 ms of 1 Mb/s would be 1250 bytes; an initial window has 10 x 1514.
        assert_eq!(burst(&device(), mbps(1), mbps(1), None), Duration::from_nanos(121_120_000));
        assert_eq!(burst(&device(), mbps(1), mbps(2), Some(Duration::from_millis(3))), Duration::from_millis(6));
    }

    #[test]
    fn turns_go_with_the_rates() {
        let whole = mbps(1000);
        assert_eq!(quantum(&device(), whole, mbps(100), mbps(100)), 65_536);
        assert_eq!(quantum(&device(), whole, mbps(400), mbps(100)), 4 * 65_536);
        assert_eq!(quantum(&device(), whole, mbps(900), mbps(1)), 16 * 65_536, "a turn has an end");
    }

    #[test]
    fn a_queue_takes_two_super_packets_at_least() {
        assert_eq!(queue(&device(), mbps(1000), Duration::from_millis(50), FIFO_LIMIT_MAX), Bytes::new(6_250_000));
        assert_eq!(queue(&device(), mbps(100), Duration::from_millis(1), FIFO_LIMIT_MAX), Bytes::new(131_072));
        assert_eq!(queue_packets(&device(), Bytes::new(1_514_000)), 1000);
    }
}
