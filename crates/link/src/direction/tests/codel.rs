//! CoDel by hand.
//!
//! At 12.304 Mb/s a full packet takes exactly 1 ms, so with a burst at time 0 the packet that is sent at t ms has
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

/// Above target from 5 ms on, so the first drop is at 105 ms; then the distances are 100 ms / sqrt(n) (RFC 8289 §4.3):
/// 205, 275.71, 333.45, 383.45, 428.17, 468.99, 506.79 ms, each at the next dequeue. A drop moves the numbers by one.
#[test]
fn drops_come_after_an_interval_and_then_with_the_square_root_of_their_number() {
    let mut b = Bench::new(codel(5, 100));
    burst(&mut b, 0, 540);
    b.finish();
    let dropped = [105, 205 + 1, 276 + 2, 334 + 3, 384 + 4, 429 + 5, 469 + 6, 507 + 7];
    assert_eq!(missing(&b, 0, 540), dropped);
    assert_eq!(b.tally(1000 * MS).dropped.codel, Volume { packets: 8, bytes: 12_000 });
    // What is dropped takes no time on the wire.
    assert_eq!(b.arrivals_ns().last(), Some(&((540 - 8) * MS)));
}

/// With 500 packets the drop state ends after 7 drops with count 7, begun with 1.
#[test]
fn a_drop_state_that_follows_soon_goes_on_with_the_drop_rate_of_the_last() {
    for (second_ms, second_drop_ms) in [
        // Within 16 intervals: count 7 - 1 = 6, so the second drop is 100 / sqrt(6) = 40.82 ms after the first.
        (1000, 146),
        // Long after: count 1, 100 ms.
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

/// `standing` at time 0, then one as each one leaves: with 3, one is sent and two wait, 2 ms each.
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
fn a_queue_in_which_one_packet_remains_is_no_standing_queue() {
    assert_eq!(standing_queue(3).tally(1000 * MS).dropped.total().packets, 0);
    // Two remain: that is one too many, and one drop mends it.
    assert_eq!(standing_queue(4).tally(1000 * MS).dropped.codel.packets, 1);
}

/// The waiting time passes 5 ms at 5 ms, falls to 4 ms at 8 ms, stays there, passes 5 ms again at 65 ms and
/// stays at 8 ms.
#[test]
fn a_dip_below_target_restarts_the_interval() {
    let mut b = Bench::new(codel(5, 100));
    burst(&mut b, 0, 8);
    for ms in 4..=170 {
        burst(&mut b, ms, if ms == 60 { 5 } else { 1 });
    }
    b.finish();
    // Dropped at 165 ms: the one that came at 157 ms, after 8 + 4 others and one a millisecond from 4 ms on.
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
    // 105, 206 and 278 before it; a queue of 90 ms after it is younger than an interval.
    assert_eq!(b.tally(1000 * MS).dropped.codel.packets, 3);
}

#[test]
fn codel_obeys_the_limit_too() {
    let mut settings = codel(5, 100);
    settings.queue.limit = QueueLimit::Packets(120);
    let mut b = Bench::new(settings);
    burst(&mut b, 0, 200);
    b.finish();
    let t = b.tally(1000 * MS);
    assert_eq!((t.dropped.queue.packets, t.dropped.codel.packets), (79, 1));
}

#[test]
fn an_interval_of_nought_drops_down_to_one_packet_and_does_not_hang() {
    let mut b = Bench::new(codel(0, 0));
    burst(&mut b, 0, 1000);
    b.finish();
    let t = b.tally(2000 * MS);
    assert_eq!(t.delivered.packets + t.dropped.codel.packets, 1000);
    assert!(t.delivered.packets < 10);
}
