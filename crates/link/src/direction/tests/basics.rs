//! Rate, delay, tail drop and coalescing, compared with calculated values.

use super::*;
use crate::Overhead;

/// 1538 bytes (1500 + 38) at 100 Mb/s.
const FULL_AT_100M_NS: u64 = 123_040;

#[test]
fn a_packet_arrives_after_transmission_and_propagation() {
    let mut b = Bench::new(Settings { delay: Duration::from_millis(10), ..rate(100_000_000) });
    b.packet(5 * US);
    b.finish();
    assert_eq!(b.arrivals_ns(), [5 * US + FULL_AT_100M_NS + 10 * MS]);
}

#[test]
fn a_million_packets_take_a_million_times_the_time_of_one() {
    for (bps, last_ns) in [
        (100_000_000, 123_040_000_000u64),
        // 1538 * 8 * 10^6 bits at 3 Gb/s take 4101333.333 us, rounded down.
        (3_000_000_000, 4_101_333_333),
        // At 100 Gb/s a packet takes 123.04 ns.
        (100_000_000_000, 123_040_000),
        (7, 1_757_714_285_714_285_714),
    ] {
        let mut b = Bench::new(limited(bps, QueueLimit::Unlimited));
        for _ in 0..1_000_000 {
            b.link.offer(Instant::ZERO, Train { payload: 0, count: 1, full: 1500, last: 1500 });
        }
        b.finish();
        assert_eq!(b.arrived.len(), 1_000_000);
        assert_eq!(b.arrivals_ns().last(), Some(&last_ns), "{bps} b/s");
    }
}

#[test]
fn an_ethernet_link_of_100_megabits_carries_94_15_megabits_of_tcp_payload() {
    let mut b = Bench::new(limited(100_000_000, QueueLimit::Unlimited));
    for _ in 0..200 {
        b.offer(0, 44, 1500, 1500);
    }
    b.run(1_000_000_000);
    let segments: u64 = b.arrived.iter().map(|d| u64::from(d.count)).sum();
    // 1500 bytes minus 20 IP, 20 TCP, 12 timestamps.
    let goodput = segments * 1448 * 8;
    assert!((94_140_000..94_160_000).contains(&goodput), "{goodput}");
    let used = b.tally(1_000_000_000).utilisation();
    assert_eq!(used, Some(1.0));
}

#[test]
fn the_rate_includes_the_overhead() {
    for (overhead, wire) in [(Overhead::IP, 40), (Overhead::ETHERNET_FRAME, 64), (Overhead::ETHERNET, 84)] {
        let mut b = Bench::new(Settings { overhead, ..rate(1_000_000) });
        b.offer(0, 1, 40, 40);
        b.finish();
        assert_eq!(b.arrivals_ns(), [wire * 8 * US], "{overhead:?}");
    }
}

#[test]
fn tail_drop_by_packets_does_not_count_the_packet_in_transmission() {
    let mut b = Bench::new(limited(100_000_000, QueueLimit::Packets(10)));
    b.offer(0, 44, 1500, 700);
    b.finish();
    let t = b.tally(MS * 100);
    assert_eq!((t.offered.packets, t.offered.bytes), (44, 43 * 1500 + 700));
    assert_eq!((t.delivered.packets, t.dropped.queue.packets), (11, 33));
    assert_eq!(t.queue_bytes.max(), 15_000);
    assert_eq!(b.arrivals_ns().last(), Some(&(11 * FULL_AT_100M_NS)));
}

#[test]
fn tail_drop_by_bytes_admits_a_small_packet_where_a_large_one_does_not_fit() {
    // One packet is in transmission and two wait (3000 bytes); of the remaining 700 bytes only the last segment fits.
    let mut b = Bench::new(limited(100_000_000, QueueLimit::Bytes(Bytes::new(3700))));
    b.offer(0, 6, 1500, 700);
    b.finish();
    let got: Vec<_> = b.arrived.iter().map(|d| (d.first, d.count, d.bytes)).collect();
    assert_eq!(got, [(0, 1, 1500), (1, 1, 1500), (2, 1, 1500), (5, 1, 700)]);
    assert_eq!(b.tally(MS).dropped.queue, Volume { packets: 2, bytes: 3000 });
}

#[test]
fn tail_drop_by_time_drops_packets_that_would_wait_longer() {
    // The n-th packet waits n * 123.04 us: ten fit within 1.2304 ms exactly.
    let limit = QueueLimit::Time(Duration::from_nanos(10 * FULL_AT_100M_NS));
    let mut b = Bench::new(limited(100_000_000, limit));
    b.offer(0, 20, 1500, 1500);
    assert_eq!(b.tally(0).dropped.queue.packets, 9);
    // The queue accepts the next packet only after the first has left.
    b.packet(FULL_AT_100M_NS - 1);
    b.packet(FULL_AT_100M_NS);
    b.finish();
    assert_eq!(b.tally(10 * MS).dropped.queue.packets, 1);
    assert_eq!(b.tally.wait_ns.max(), 10 * FULL_AT_100M_NS);
}

#[test]
fn an_idle_link_accepts_a_packet_with_any_limit() {
    for limit in [QueueLimit::Packets(0), QueueLimit::Bytes(Bytes::ZERO), QueueLimit::Time(Duration::ZERO)] {
        let mut b = Bench::new(limited(100_000_000, limit));
        b.offer(0, 2, 1500, 1500);
        b.packet(MS);
        b.finish();
        assert_eq!(b.payloads(), [0, 1], "{limit:?}");
        assert_eq!(b.tally(2 * MS).dropped.queue.packets, 1);
    }
}

#[test]
fn a_train_stays_whole_at_unlimited_rate_and_at_high_rates() {
    for settings in [Settings::default(), limited(100_000_000_000, QueueLimit::Unlimited)] {
        let mut b = Bench::new(Settings { delay: Duration::from_millis(1), ..settings });
        b.offer(0, 44, 1500, 900);
        b.finish();
        let got: Vec<_> = b.arrived.iter().map(|d| (d.first, d.count, d.bytes)).collect();
        assert_eq!(got, [(0, 44, 43 * 1500 + 900)]);
    }
}

#[test]
fn segments_are_delivered_together_only_within_the_coalescing_time() {
    // At 1 Gb/s a segment takes 12.304 us: five arrive within 50 us of the first.
    for delay in [Duration::ZERO, Duration::from_millis(20)] {
        let mut b = Bench::new(Settings { delay, ..rate(1_000_000_000) });
        b.offer(0, 12, 1500, 1500);
        b.finish();
        let got: Vec<_> = b.arrived.iter().map(|d| (d.first, d.count, d.at.as_nanos() - nanos(delay))).collect();
        assert_eq!(got, [(0, 5, 5 * 12_304), (5, 5, 10 * 12_304), (10, 2, 12 * 12_304)]);
    }
}

#[test]
fn the_coalescing_time_includes_its_end() {
    // 1250 bytes take 50 us at 200 Mb/s.
    let mut b = Bench::new(Settings { overhead: Overhead::IP, ..rate(200_000_000) });
    b.offer(0, 4, 1250, 1250);
    b.finish();
    assert_eq!(b.arrivals_ns(), [100 * US, 200 * US]);
}
