//! CoDel, compared with values calculated by hand.
//!
//! At 12.304 Mb/s a full packet takes exactly 1 ms. After a burst at time 0, the packet that is sent at t ms has thus
//! waited t ms.

use super::*;
use crate::Discipline;

const PACKET_PER_MS: u64 = 12_304_000;

fn codel(target_ms: u64, interval_ms: u64) -> Settings {
    let (target, interval) = (Duration::from_millis(target_ms), Duration::from_millis(interval_ms));
    let queue = QueueSettings { limit: QueueLimit::Unlimited, discipline: Discipline::CoDel { target, interval } };
    Settings { queue, ..rate(PACKET_PER_MS) }
}

fn burst(b: &mut Bench, at_ms: u64, packets: u64) {
    for _ in 0..packets {
        b.packet(at_ms * MS);
    }
}

fn missing(b: &Bench, from: u32, to: u32) -> Vec<u32> {
    let arrived = b.payloads();
    (from..to).filter(|p| !arrived.contains(p)).collect()
}

/// The delay is above target from 5 ms on, so that the first drop is at 105 ms. The next intervals are 100 ms / sqrt(n)
/// (RFC 8289 §4.3): 205, 275.71, 333.45, 383.45, 428.17, 468.99, 506.79 ms, each at the next dequeue. A drop shifts the
/// numbers by one.
#[test]
fn drops_start_after_an_interval_and_follow_the_square_root_law() {
    let mut b = Bench::new(codel(5, 100));
    burst(&mut b, 0, 540);
    b.finish();
    let dropped = [105, 205 + 1, 276 + 2, 334 + 3, 384 + 4, 429 + 5, 469 + 6, 507 + 7];
    assert_eq!(missing(&b, 0, 540), dropped);
    assert_eq!(b.tally(1000 * MS).dropped.codel, Volume { packets: 8, bytes: 12_000 });
    // Dropped packets take no time on the wire.
    assert_eq!(b.arrivals_ns().last(), Some(&((540 - 8) * MS)));
}

/// With 500 packets the drop state starts with count 1 and ends after 7 drops with count 7.
#[test]
fn a_drop_state_soon_after_another_continues_with_its_drop_rate() {
    for (second_ms, second_drop_ms) in [
        // Within 16 intervals the count is 7 - 1 = 6, so that the second drop is 100 / sqrt(6) = 40.82 ms after the
        // first.
        (1000, 146),
        // After more than 16 intervals the count is 1, and the interval 100 ms.
        (5000, 205),
    ] {
        let mut b = Bench::new(codel(5, 100));
        burst(&mut b, 0, 500);
        burst(&mut b, second_ms, 300);
        b.finish();
        assert_eq!(missing(&b, 0, 500).len(), 7);
        assert_eq!(missing(&b, 500, 800)[..2], [500 + 105, 500 + second_drop_ms + 1], "{second_ms}");
    }
}

#[test]
fn a_queue_that_drains_within_the_interval_loses_nothing() {
    let mut b = Bench::new(codel(5, 100));
    for k in 0..20 {
        burst(&mut b, k * 150, 100);
    }
    b.finish();
    assert_eq!(b.tally(10_000 * MS).delivered.packets, 2000);
}

/// `standing` packets at time 0, then one as each one leaves. With 3, one is in transmission and two wait 2 ms each.
fn standing_queue(standing: u64) -> Bench {
    let mut b = Bench::new(codel(1, 10));
    burst(&mut b, 0, standing);
    for ms in 1..200 {
        burst(&mut b, ms, 1);
    }
    b.finish();
    b
}

#[test]
fn a_queue_with_one_remaining_packet_is_not_a_standing_queue() {
    assert_eq!(standing_queue(3).tally(1000 * MS).dropped.total().packets, 0);
    // With two remaining packets the queue is standing, and one drop ends it.
    assert_eq!(standing_queue(4).tally(1000 * MS).dropped.codel.packets, 1);
}

/// The sojourn time exceeds 5 ms at 5 ms, falls to 4 ms at 8 ms and remains there. It exceeds 5 ms again at 65 ms and
/// remains at 8 ms.
#[test]
fn a_dip_below_target_restarts_the_interval() {
    let mut b = Bench::new(codel(5, 100));
    burst(&mut b, 0, 8);
    for ms in 4..=170 {
        burst(&mut b, ms, if ms == 60 { 5 } else { 1 });
    }
    b.finish();
    // The drop at 165 ms hits the packet that arrived at 157 ms, after 8 + 4 others and one per millisecond from 4 ms
    // on.
    assert_eq!(missing(&b, 0, 179), [8 + 4 + 157 - 4]);
}

#[test]
fn an_outage_ends_a_drop_state() {
    let mut b = Bench::new(codel(5, 100));
    burst(&mut b, 0, 400);
    b.change(300 * MS, Settings { up: false, ..codel(5, 100) });
    b.change(301 * MS, codel(5, 100));
    burst(&mut b, 310, 90);
    b.finish();
    // Drops at 105, 206 and 278 ms precede the outage; the queue of 90 ms after it lasts less than an interval.
    assert_eq!(b.tally(1000 * MS).dropped.codel.packets, 3);
}

#[test]
fn codel_also_enforces_the_limit() {
    let mut settings = codel(5, 100);
    settings.queue.limit = QueueLimit::Packets(120);
    let mut b = Bench::new(settings);
    burst(&mut b, 0, 200);
    b.finish();
    let t = b.tally(1000 * MS);
    assert_eq!((t.dropped.queue.packets, t.dropped.codel.packets), (79, 1));
}

#[test]
fn an_interval_of_zero_drops_down_to_one_packet_and_terminates() {
    let mut b = Bench::new(codel(0, 0));
    burst(&mut b, 0, 1000);
    b.finish();
    let t = b.tally(2000 * MS);
    assert_eq!(t.delivered.packets + t.dropped.codel.packets, 1000);
    assert!(t.delivered.packets < 10);
}
