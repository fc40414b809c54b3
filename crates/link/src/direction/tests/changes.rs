//! Changes of settings during a run, and the start of the clock.

use super::*;
use crate::Discipline;

#[test]
fn a_new_rate_applies_to_queued_packets_and_not_to_the_one_in_transmission() {
    let mut b = Bench::new(rate(100_000_000));
    b.offer(0, 3, 1500, 1500);
    b.change(50 * US, rate(10_000_000));
    b.finish();
    assert_eq!(b.arrivals_ns(), [123_040, 123_040 + 1_230_400, 123_040 + 2 * 1_230_400]);

    let mut b = Bench::new(rate(100_000_000));
    b.offer(0, 3, 1500, 1500);
    b.change(50 * US, Settings::default());
    b.finish();
    assert_eq!(b.arrivals_ns(), [123_040]);
    assert_eq!(b.arrived[0].count, 3);
}

#[test]
fn a_new_delay_applies_to_packets_that_leave_later() {
    let with = |ms| Settings { delay: Duration::from_millis(ms), ..rate(100_000_000) };
    let mut b = Bench::new(with(10));
    b.offer(0, 2, 1500, 1500);
    b.change(123_040, with(30));
    b.finish();
    assert_eq!(b.arrivals_ns(), [10 * MS + 123_040, 30 * MS + 2 * 123_040]);
}

#[test]
fn a_shorter_delay_reorders_only_if_jitter_reorders() {
    let with = |ms| Settings { delay: Duration::from_millis(ms), ..rate(100_000_000) };
    let mut b = Bench::new(with(100));
    b.packet(0);
    b.change(MS, with(1));
    b.packet(2 * MS);
    b.packet(200 * MS);
    b.finish();
    let first = 100 * MS + 123_040;
    assert_eq!(b.arrivals_ns(), [first, first, 201 * MS + 123_040]);

    let mut free = with(1);
    free.jitter.reorders = true;
    let mut b = Bench::new(with(100));
    b.packet(0);
    b.change(MS, free);
    b.packet(2 * MS);
    b.finish();
    assert_eq!(b.payloads(), [1, 0]);
}

#[test]
fn a_smaller_limit_drops_no_queued_packet() {
    let mut b = Bench::new(limited(100_000_000, QueueLimit::Packets(100)));
    b.offer(0, 50, 1500, 1500);
    b.change(MS, limited(100_000_000, QueueLimit::Packets(5)));
    b.offer(MS, 1, 1500, 1500);
    b.finish();
    let t = b.tally(100 * MS);
    assert_eq!((t.delivered.packets, t.dropped.queue.packets), (50, 1));
}

#[test]
fn a_changed_overhead_applies_to_queued_packets() {
    let mut b = Bench::new(limited(8_000_000, QueueLimit::Time(Duration::from_millis(5))));
    b.offer(0, 3, 1000, 1000);
    let ip = Settings { overhead: crate::Overhead::IP, ..b.link.settings().clone() };
    b.change(1, ip);
    // The first packet takes another 1037.999 us, then each takes 1 ms: two more start within 5 ms.
    b.offer(1, 4, 1000, 1000);
    b.finish();
    assert_eq!(b.tally(50 * MS).dropped.queue.packets, 2);
    assert_eq!(b.arrivals_ns().last(), Some(&(1_038_000 + 4 * MS)));
}

#[test]
fn a_queue_that_changes_to_codel_controls_the_delay() {
    let with =
        |discipline| Settings { queue: QueueSettings { limit: QueueLimit::Unlimited, discipline }, ..rate(12_304_000) };
    let mut b = Bench::new(with(Discipline::TailDrop));
    b.offer(0, 400, 1500, 1500);
    let (target, interval) = (Duration::from_millis(5), Duration::from_millis(100));
    b.change(150 * MS, with(Discipline::CoDel { target, interval }));
    assert_eq!(b.tally(250 * MS).dropped.codel.packets, 0);
    assert_eq!(b.tally(251 * MS).dropped.codel.packets, 1);
    // Other parameters do not end the drop state: the next drop is at 351 ms, long before an interval of one second
    // ends.
    b.change(260 * MS, with(Discipline::CoDel { target, interval: Duration::from_secs(1) }));
    assert_eq!(b.tally(352 * MS).dropped.codel.packets, 1);
    b.change(360 * MS, with(Discipline::TailDrop));
    b.finish();
    assert_eq!(b.tally(1000 * MS).dropped.codel.packets, 0);
}

#[test]
fn queue_time_uses_the_old_rate_for_the_transmission_and_the_new_for_the_queue() {
    // A packet takes 1 ms before and 10 ms after the change.
    let limit = QueueLimit::Time(Duration::from_millis(15));
    let mut b = Bench::new(limited(12_304_000, limit));
    b.offer(0, 1, 1500, 1500);
    b.change(500 * US, limited(1_230_400, limit));
    // The next packets would wait 0.5, 10.5 and 20.5 ms.
    b.offer(500 * US, 5, 1500, 1500);
    b.finish();
    assert_eq!(b.arrivals_ns(), [MS, 11 * MS, 21 * MS]);
}

#[test]
fn a_link_that_goes_down_while_its_rate_changes_offers_no_capacity() {
    let mut b = Bench::new(rate(12_304_000));
    b.packet(0);
    b.change(500 * US, rate(1_230_400));
    b.change(600 * US, Settings { up: false, ..rate(1_230_400) });
    assert_eq!(b.tally(10 * MS).utilisation(), Some(1.0));
    assert_eq!(b.tally(20 * MS).utilisation(), None);
}

#[test]
fn a_restart_resets_indices_draws_and_counters_and_keeps_packets() {
    let lossy = Settings { loss: Loss::Independent(0.3), delay: Duration::from_millis(50), ..rate(100_000_000) };
    let mut fresh = Bench::seeded(8, lossy.clone());
    let mut b = Bench::seeded(1, lossy);
    b.offer(0, 9, 1500, 1500);
    b.run(200 * US);
    let waiting = b.link.backlog();
    b.link.restart(Instant::from_nanos(200 * US), 8);
    assert_eq!(b.link.backlog(), waiting);
    for k in 0..100 {
        fresh.packet(k * MS);
        b.packet(10 * MS + k * MS);
    }
    fresh.finish();
    b.finish();
    let after: Vec<u32> = b.payloads().into_iter().filter(|p| *p > 0).map(|p| p - 1).collect();
    assert_eq!(after, fresh.payloads());
    let t = b.tally(1_000 * MS).clone();
    assert_eq!(t.offered.packets, 100);
    assert_eq!(t.span, Duration::from_nanos(1_000 * MS - 200 * US));
    assert_eq!(t.delivered.packets + t.dropped.loss.packets, 100 + waiting.packets);
    assert_eq!(t.queue_bytes.max(), 8 * 1500 - 1500);
}

#[test]
fn a_time_in_the_past_counts_as_the_latest_time() {
    let mut b = Bench::new(rate(100_000_000));
    b.packet(10 * MS);
    b.link.offer(Instant::from_nanos(3), Train { payload: 9, count: 1, full: 1500, last: 1500 });
    assert_eq!(b.link.poll(Instant::ZERO), None);
    b.link.change(Instant::ZERO, rate(100_000_000));
    b.finish();
    assert_eq!(b.arrivals_ns(), [10 * MS + 123_040, 10 * MS + 2 * 123_040]);
}

#[test]
fn extreme_settings_neither_panic_nor_hang() {
    let day = Duration::from_secs(86_400);
    for bps in [0, 1, 100_000_000_000_000, u64::MAX] {
        for overhead in [crate::Overhead::IP, crate::Overhead { per_packet: u32::MAX, minimum: u32::MAX }] {
            for limit in [QueueLimit::Unlimited, QueueLimit::Time(Duration::MAX), QueueLimit::Bytes(Bytes::ZERO)] {
                let mut settings = limited(bps, limit);
                settings.overhead = overhead;
                settings.delay = day;
                settings.reorder = crate::Reorder { probability: 0.5, by: Duration::MAX };
                settings.jitter = crate::Jitter { amount: Duration::MAX, ..crate::Jitter::default() };
                let mut b = Bench::new(settings);
                b.offer(0, 0, 1, 1);
                b.offer(0, 5, 0, 0);
                b.offer(1, 3, u32::MAX, u32::MAX);
                b.link.change(Instant::from_nanos(u64::MAX), Settings::default());
                b.offer(u64::MAX, 2, 1500, 1500);
                b.finish();
                let t = b.tally(u64::MAX).clone();
                assert_eq!(t.offered.packets, t.delivered.packets + t.dropped.total().packets);
                assert_eq!((b.link.held_bytes(), b.link.poll_timeout()), (0, None));
            }
        }
    }
}
