//! Tests of the tally.

use super::*;

/// Rate at which 1538 bytes take 1 ms.
const PACKET_PER_MS: u64 = 12_304_000;

#[test]
fn the_queue_depth_is_weighted_by_time() {
    let mut b = Bench::new(rate(PACKET_PER_MS));
    // One packet is sent; three wait for 1 ms, two for 1 ms, one for 1 ms, then none.
    b.offer(2 * MS, 4, 1500, 1500);
    let t = b.tally(10 * MS);
    let buckets: Vec<(u64, u64)> = t.queue_bytes.buckets().collect();
    // A bucket is reported as its largest value, at most 10^-3 too high; the maximum is exact.
    assert_eq!(buckets, [(0, 7000), (1500, 1000), (3001, 1000), (4500, 1000)]);
    assert_eq!((t.queue_bytes.weight(), t.queue_bytes.max()), (10_000, 4500));
    assert_eq!((t.queue_bytes.quantile(0.7), t.queue_bytes.quantile(0.75)), (Some(0), Some(1500)));
    assert_eq!(t.queue_bytes.quantile(1.0), Some(4500));
    let mean = t.queue_bytes.mean().unwrap();
    assert!((mean - 900.0).abs() < 0.9, "(1500 + 3000 + 4500) / 10: {mean}");
}

#[test]
fn no_time_is_lost_between_microseconds() {
    // At 123.04 ns per packet each depth lasts much less than a microsecond.
    let mut b = Bench::new(limited(100_000_000_000, QueueLimit::Unlimited));
    let mut weight = 0;
    for k in 0..1000 {
        b.offer(k * 12_345, 90, 1500, 1500);
        if k % 7 == 0 {
            weight += b.tally(k * 12_345).queue_bytes.weight();
        }
    }
    weight += b.tally(12_345_678).queue_bytes.weight();
    assert_eq!(weight, 12_345);
}

#[test]
fn waiting_times_are_those_of_packets_that_were_sent() {
    let mut b = Bench::new(limited(PACKET_PER_MS, QueueLimit::Packets(3)));
    b.offer(0, 9, 1500, 1500);
    let t = b.tally(2 * MS);
    assert_eq!(t.wait_ns.weight(), 3, "a packet in the queue is not counted");
    assert_eq!((t.wait_ns.quantile(0.0), t.wait_ns.max()), (Some(0), 2 * MS));
    let t = b.tally(20 * MS);
    assert_eq!((t.wait_ns.weight(), t.wait_ns.max()), (1, 3 * MS));
    assert_eq!(b.tally(30 * MS).wait_ns.quantile(0.5), None);
}

#[test]
fn utilisation_is_the_share_of_the_capacity_in_each_span() {
    let mut b = Bench::new(rate(PACKET_PER_MS));
    b.offer(500 * US, 3, 1500, 1500);
    // The packets are sent from 0.5 to 3.5 ms; the spans end during transmissions.
    assert_eq!(b.tally(MS).utilisation(), Some(0.5));
    assert_eq!(b.tally(2 * MS).utilisation(), Some(1.0));
    assert_eq!(b.tally(6 * MS).utilisation(), Some(0.375));
    assert_eq!(b.tally(7 * MS).utilisation(), Some(0.0));
}

#[test]
fn utilisation_over_a_change_of_rate_counts_by_capacity() {
    let mut b = Bench::new(rate(PACKET_PER_MS));
    // Five packets at the first rate occupy the wire for 5 of 10 ms; then it is idle for 10 ms at three times the rate.
    b.offer(0, 5, 1500, 1500);
    b.change(10 * MS, rate(3 * PACKET_PER_MS));
    assert_eq!(b.tally(20 * MS).utilisation(), Some(5.0 / 40.0));
    b.change(20 * MS, Settings::default());
    b.offer(20 * MS, 5, 1500, 1500);
    assert_eq!(b.tally(30 * MS).utilisation(), None, "unlimited capacity has no utilisation");
}

#[test]
fn a_quantile_has_an_exact_rank_and_a_relative_error_of_one_thousandth() {
    let mut d = crate::Distribution::default();
    assert_eq!((d.quantile(0.5), d.mean(), d.max()), (None, None, 0));
    for v in 0..=1_000_000u64 {
        d.add(v * 1000, 1);
    }
    for q in [0.001, 0.25, 0.5, 0.95, 0.999, 1.0] {
        let (got, expected) = (d.quantile(q).unwrap() as f64, q * 1e9);
        assert!((got / expected - 1.0).abs() < 1.1e-3, "{q}: {got}");
    }
    d.add(u64::MAX, u64::MAX / 2);
    assert_eq!(d.max(), u64::MAX, "values above the limit are clamped");
}

#[test]
fn held_bytes_are_those_of_whole_trains() {
    let mut b =
        Bench::new(Settings { delay: Duration::from_millis(1), ..limited(PACKET_PER_MS, QueueLimit::Packets(0)) });
    b.offer(0, 10, 1500, 1000);
    // Nine segments were dropped, but the super-packet remains for the first.
    assert_eq!(b.link.held_bytes(), 9 * 1500 + 1000);
    b.run(2 * MS - 1);
    assert_eq!(b.link.held_bytes(), 14_500);
    b.run(2 * MS);
    assert_eq!((b.link.held_bytes(), b.arrived.len()), (0, 1));
}
