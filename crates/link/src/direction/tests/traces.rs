//! Links that follow a trace, compared with a direct implementation of mahimahi's link queue.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::Trace;

fn follow(text: &str) -> Settings {
    Settings { capacity: Capacity::Trace(Arc::new(Trace::parse(text).unwrap())), ..Settings::default() }
}

/// Walks over all opportunities. Each serves the packets that arrived before it; bytes beyond a packet serve the next.
/// The packets are arrival times in ns and IP bytes. Returns the departure times and the number of used bytes.
fn naive(ms: &[u64], packets: &[(u64, u32)]) -> (Vec<u64>, u64) {
    let period = *ms.last().unwrap();
    let (mut waiting, mut coming) = (VecDeque::new(), packets.iter());
    let mut next = coming.next();
    let (mut departures, mut used) = (Vec::new(), 0);
    for at in (0..).flat_map(|round| ms.iter().map(move |m| (round * period + m) * MS)) {
        while let Some((_, bytes)) = next.filter(|(arrival, _)| *arrival < at) {
            waiting.push_back(bytes + 4);
            next = coming.next();
        }
        let mut left = 1504;
        while let Some(need) = waiting.front_mut().filter(|_| left > 0) {
            let part = left.min(*need);
            (*need, left) = (*need - part, left - part);
            used += u64::from(part);
            if *need == 0 {
                waiting.pop_front();
                departures.push(at);
            }
        }
        if next.is_none() && waiting.is_empty() {
            return (departures, used);
        }
    }
    unreachable!("the rounds have no end")
}

fn each_arrival(b: &Bench) -> Vec<u64> {
    b.arrived.iter().flat_map(|d| vec![d.at.as_nanos(); d.count as usize]).collect()
}

proptest! {
    #[test]
    fn a_trace_serves_as_mahimahi_does(
        gaps in prop::collection::vec(0u64..6, 1..12),
        packets in prop::collection::vec((0u64..3000, 0u32..9000), 1..60),
    ) {
        let mut ms: Vec<u64> = gaps.iter().scan(0, |sum, gap| { *sum += gap; Some(*sum) }).collect();
        *ms.last_mut().unwrap() += 1;
        let text: String = ms.iter().map(|m| format!("{m}\n")).collect();
        let packets: Vec<(u64, u32)> =
            packets.iter().scan(0, |at, (gap, bytes)| { *at += gap * US; Some((*at, *bytes)) }).collect();
        let mut settings = follow(&text);
        settings.queue.limit = QueueLimit::Unlimited;
        let mut b = Bench::new(settings);
        for (at, bytes) in &packets {
            b.offer(*at, 1, *bytes, *bytes);
        }
        b.finish();
        let (departures, used) = naive(&ms, &packets);
        prop_assert_eq!(&each_arrival(&b), &departures);
        // The span is split where tallies may be split; the parts add up to the used and offered bytes.
        let end = departures.last().unwrap() + 5 * MS;
        let share = b.tally(end).utilisation().unwrap();
        let period = ms.last().unwrap() * MS;
        let opportunities = (0..=end / period)
            .flat_map(|round| ms.iter().map(move |m| round * period + m * MS))
            .filter(|at| *at > 0 && *at <= end)
            .count();
        prop_assert!((share - used as f64 / (opportunities as f64 * 1504.0)).abs() < 1e-12);
    }
}

#[test]
fn the_rest_of_an_opportunity_serves_waiting_packets() {
    let mut b = Bench::new(follow("2\n5\n"));
    // The first opportunity serves 104 + 504 + 896 of 1504 bytes, the next the other 608 bytes. Its remaining 896 bytes
    // are unused, because no packet waits.
    b.offer(0, 1, 100, 100);
    b.offer(1, 1, 500, 500);
    b.offer(2, 1, 1500, 1500);
    b.offer(6 * MS, 1, 800, 800);
    b.finish();
    assert_eq!(b.arrivals_ns(), [2 * MS, 2 * MS, 5 * MS, 7 * MS]);
    // Three opportunities serve 104 + 504 + 1504 + 804 bytes.
    let t = b.tally(8 * MS);
    assert_eq!(t.utilisation(), Some(2916.0 / 4512.0));
    // The times from arrival to transmission are 2 ms, 1 ns less, 2 ns less, and 1 ms; the histogram rounds the large
    // ones up alike.
    assert_eq!(t.wait_ns.max(), 2 * MS);
}

#[test]
fn an_opportunity_at_the_time_of_arrival_is_not_used() {
    let mut b = Bench::new(follow("3\n"));
    b.packet(3 * MS);
    b.packet(6 * MS - 1);
    b.finish();
    assert_eq!(b.arrivals_ns(), [6 * MS, 9 * MS]);
}

#[test]
fn a_jumbo_packet_takes_several_opportunities() {
    let mut b = Bench::new(follow("1\n"));
    b.offer(0, 2, 9000, 9000);
    b.finish();
    // 9004 bytes take 5.99 opportunities, 18008 bytes take 11.97.
    assert_eq!(b.arrivals_ns(), [6 * MS, 12 * MS]);
}

#[test]
fn queue_time_by_a_trace_is_the_time_until_its_opportunity() {
    // One full packet is served every 10 ms; of packets offered at 1 ms, the first starts at 10 ms and the third at 30
    // ms.
    for (limit_ms, taken) in [(8, 1), (9, 1), (18, 1), (19, 2), (29, 3)] {
        let mut settings = follow("10\n");
        settings.queue.limit = QueueLimit::Time(Duration::from_millis(limit_ms));
        let mut b = Bench::new(settings);
        b.offer(MS, 5, 1500, 1500);
        b.finish();
        assert_eq!(b.arrived.len(), taken, "{limit_ms} ms");
    }
}

#[test]
fn the_trace_starts_with_the_clock_of_the_link() {
    let mut b = Bench::new(follow("4\n"));
    b.packet(0);
    b.link.restart(Instant::from_nanos(3 * MS), 1);
    b.finish();
    assert_eq!(b.arrivals_ns(), [7 * MS]);
    // Another trace starts with the same clock, and not with the change.
    b.change(8 * MS, follow("3\n"));
    b.packet(8 * MS);
    b.finish();
    assert_eq!(b.arrivals_ns(), [7 * MS, 9 * MS]);
    // A change of another setting does not affect the trace. After a change to a constant rate, queued packets use that
    // rate.
    b.packet(10 * MS);
    b.change(11 * MS, Settings { delay: Duration::from_millis(1), ..follow("3\n") });
    b.packet(12 * MS);
    b.finish();
    assert_eq!(b.arrivals_ns()[2..], [13 * MS, 16 * MS]);
    b.packet(16 * MS);
    b.change(17 * MS, rate(12_304_000));
    b.finish();
    assert_eq!(b.arrivals_ns()[4..], [18 * MS]);
}

#[test]
fn a_trace_of_a_constant_rate_carries_that_rate() {
    let ten = Rate::from_bps(10_000_000);
    let trace = Trace::of_constant(ten, Duration::from_secs(1)).unwrap();
    let mut settings = Settings { capacity: Capacity::Trace(Arc::new(trace)), ..Settings::default() };
    settings.queue.limit = QueueLimit::Unlimited;
    let mut b = Bench::new(settings);
    b.offer(0, 10_000, 1500, 1500);
    b.run(5_000 * MS);
    let bits = each_arrival(&b).len() as f64 * 1504.0 * 8.0;
    assert!((bits / 5.0 / 1e7 - 1.0).abs() < 0.001, "{bits}");
}

#[test]
fn a_segment_that_waits_for_its_opportunity_does_not_hold_back_those_before_it() {
    let mut b = Bench::new(follow("1\n"));
    b.offer(0, 3, 1500, 1500);
    assert_eq!(b.link.poll(Instant::from_nanos(MS)).map(|d| (d.first, d.count)), Some((0, 1)));
    // The segment does not join them either when a change frees it a moment later.
    b.change(MS + 10, Settings::default());
    assert_eq!(b.link.poll(Instant::from_nanos(MS + 10)).map(|d| (d.first, d.count)), Some((1, 2)));
}
