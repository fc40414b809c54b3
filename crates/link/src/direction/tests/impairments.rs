//! Loss, duplication, reordering, jitter, MTU and outage.

use super::*;
use crate::{Jitter, JitterShape, Reorder};

fn delayed(ms: u64) -> Settings {
    Settings { delay: Duration::from_millis(ms), ..rate(100_000_000) }
}

/// Offers one packet per millisecond.
fn stream(settings: Settings, packets: u64) -> Bench {
    let mut b = Bench::seeded(6, settings);
    for k in 0..packets {
        b.packet(k * MS);
    }
    b.finish();
    b
}

#[test]
fn a_seed_loses_the_same_packets_at_any_rate_and_timing() {
    let loss = Loss::Independent(0.1);
    let slow = stream(Settings { loss, ..delayed(10) }, 500).payloads();
    let fast = stream(Settings { loss, ..Settings::default() }, 500).payloads();
    assert_eq!(slow, fast);
    assert!(fast.len() < 480);

    // The same packets as segments of trains, with a change of rate and delay during the run.
    let mut b = Bench::seeded(6, Settings { loss, ..delayed(3) });
    for k in 0..50 {
        b.offer(k * 7 * MS, 10, 1500, 1500);
        if k == 20 {
            b.change(k * 7 * MS, Settings { loss, ..Settings::default() });
        }
    }
    b.finish();
    let segments = |d: &Delivery<u32>| (d.first..d.first + d.count).map(|s| d.payload * 10 + s).collect::<Vec<_>>();
    assert_eq!(b.arrived.iter().flat_map(segments).collect::<Vec<_>>(), fast);
}

#[test]
fn packets_that_the_queue_drops_keep_their_index() {
    let listed = Settings { loss_list: Arc::from([5, 17]), ..limited(100_000_000, QueueLimit::Packets(2)) };
    let mut b = Bench::new(listed);
    // Of ten packets, one is in transmission and two wait.
    b.offer(0, 10, 1500, 1500);
    b.offer(10 * MS, 10, 1500, 1500);
    b.offer(20 * MS, 3, 1500, 1500);
    b.finish();
    let t = b.tally(30 * MS);
    assert_eq!((t.dropped.queue.packets, t.dropped.listed.packets, t.delivered.packets), (14, 0, 9));

    let mut b = Bench::new(Settings { loss_list: Arc::from([21, 11]), ..b.link.settings().clone() });
    b.offer(0, 10, 1500, 1500);
    b.offer(10 * MS, 10, 1500, 1500);
    b.offer(20 * MS, 3, 1500, 1500);
    b.finish();
    assert_eq!(b.tally(30 * MS).dropped.listed, Volume { packets: 2, bytes: 3000 }, "the list may have any order");
    assert!(b.arrived.iter().all(|d| (d.payload, d.first) != (1, 1) && (d.payload, d.first) != (2, 1)));
}

#[test]
fn a_lost_packet_uses_its_share_of_the_rate() {
    let mut b = Bench::new(Settings { loss_list: Arc::from([1]), ..rate(100_000_000) });
    b.offer(0, 3, 1500, 1500);
    b.finish();
    assert_eq!(b.arrivals_ns(), [123_040, 3 * 123_040]);
}

#[test]
fn a_train_is_delivered_around_its_lost_segment() {
    let mut b = Bench::new(Settings { loss_list: Arc::from([4]), ..Settings::default() });
    b.offer(0, 10, 1500, 1500);
    b.finish();
    let runs: Vec<_> = b.arrived.iter().map(|d| (d.first, d.count)).collect();
    assert_eq!(runs, [(0, 4), (5, 5)]);
}

#[test]
fn a_copy_arrives_with_the_original_and_is_counted_as_a_duplicate() {
    let mut b = Bench::new(Settings { duplicate: 1.0, ..delayed(5) });
    b.packet(0);
    b.packet(0);
    b.finish();
    assert_eq!(b.payloads(), [0, 0, 1, 1]);
    assert_eq!(b.arrivals_ns()[..2], [5 * MS + 123_040; 2]);
    let t = b.tally(10 * MS);
    assert_eq!((t.offered.packets, t.delivered.packets, t.duplicated.packets), (2, 4, 2));
    assert_eq!(t.duplicated.bytes, 3000);
}

#[test]
fn a_held_packet_is_overtaken_and_delays_no_other_packet() {
    let reorder = Reorder { probability: 0.1, by: Duration::from_micros(3500) };
    let b = stream(Settings { reorder, ..delayed(20) }, 300);
    let at: Vec<(u32, u64)> = b.arrived.iter().map(|d| (d.payload, d.at.as_nanos())).collect();
    let mut held = 0;
    for (place, (packet, at_ns)) in at.iter().enumerate() {
        let own = u64::from(*packet) * MS + 123_040 + 20 * MS;
        if *at_ns == own + 3_500_000 {
            held += 1;
            // Three later packets overtake it, except those that are held themselves.
            let passed = at[..place].iter().filter(|(p, _)| p > packet).count();
            let next_held =
                at.iter().filter(|(p, a)| p > packet && p - packet <= 3 && a - u64::from(*p) * MS > 21 * MS);
            let last = 300 - 1 - *packet as usize;
            assert_eq!(passed, 3.min(last) - next_held.count());
        } else {
            assert_eq!(*at_ns, own);
        }
    }
    let mut b = b;
    assert!(held > 15 && b.tally(400 * MS).reordered == held);
}

#[test]
fn jitter_keeps_the_order_unless_it_reorders() {
    let jitter = Jitter { amount: Duration::from_millis(5), shape: JitterShape::Uniform, reorders: false };
    let kept = stream(Settings { jitter, ..delayed(20) }, 500);
    assert!(kept.payloads().is_sorted());
    let overtaking = stream(Settings { jitter: Jitter { reorders: true, ..jitter }, ..delayed(20) }, 500);
    assert!(!overtaking.payloads().is_sorted());
    let mut own: Vec<(u32, u64)> = overtaking.arrived.iter().map(|d| (d.payload, d.at.as_nanos())).collect();
    own.sort_unstable();
    // In order, a packet arrives at the maximum of its own time and those of earlier packets.
    let latest = own.iter().scan(0, |max, (_, at)| {
        *max = *at.max(max);
        Some(*max)
    });
    assert_eq!(kept.arrivals_ns(), latest.collect::<Vec<_>>());
    for (packet, at) in own {
        let variation = at as i64 - (u64::from(packet) * MS + 123_040 + 20 * MS) as i64;
        assert!(variation.abs() <= 5_000_000, "{variation}");
    }
}

#[test]
fn jitter_larger_than_the_delay_never_makes_the_delay_negative() {
    let jitter = Jitter { amount: Duration::from_secs(1), shape: JitterShape::Normal, reorders: true };
    let b = stream(Settings { jitter, ..rate(100_000_000) }, 200);
    let at_once = b.arrived.iter().filter(|d| d.at.as_nanos() == u64::from(d.payload) * MS + 123_040).count();
    assert!((70..130).contains(&at_once), "{at_once}");
    assert!(b.arrived.iter().all(|d| d.at.as_nanos() >= u64::from(d.payload) * MS + 123_040));
}

#[test]
fn packets_above_the_mtu_are_dropped_before_the_queue() {
    let mut b = Bench::new(Settings { mtu: Some(1400), ..rate(100_000_000) });
    b.offer(0, 3, 1500, 1400);
    b.finish();
    let got: Vec<_> = b.arrived.iter().map(|d| (d.first, d.at.as_nanos())).collect();
    assert_eq!(got, [(2, 1438 * 80)]);
    assert_eq!(b.tally(MS).dropped.mtu, Volume { packets: 2, bytes: 3000 });
}

#[test]
fn an_outage_loses_queued_and_offered_packets_but_not_those_in_flight() {
    let mut b = Bench::new(delayed(10));
    b.offer(0, 5, 1500, 1500);
    // One packet has left, one is in transmission, three wait.
    b.change(200 * US, Settings { up: false, ..delayed(10) });
    b.packet(5 * MS);
    b.change(20 * MS, delayed(10));
    b.packet(21 * MS);
    b.finish();
    let got: Vec<_> = b.arrived.iter().map(|d| (d.payload, d.first)).collect();
    assert_eq!(got, [(0, 0), (0, 1), (2, 0)]);
    let t = b.tally(50 * MS);
    assert_eq!(t.dropped.outage, Volume { packets: 4, bytes: 6000 });
    // The link was up for 30.2 ms, plus the transmission that ended at 246.08 us; three packets were sent.
    let offered = 30.2e6 + 46_080.0;
    let used = 3.0 * 123_040.0;
    assert!((t.utilisation().unwrap() - used / offered).abs() < 1e-9);
}

#[test]
fn burst_loss_starts_in_the_good_state_each_time_it_is_enabled() {
    let chain = Loss::GilbertElliott { to_bad: 1.0, to_good: 0.0, loss_bad: 1.0, loss_good: 0.0 };
    let stays = Loss::GilbertElliott { to_bad: 0.0, to_good: 0.0, loss_bad: 1.0, loss_good: 0.0 };
    let with = |loss| Settings { loss, ..Settings::default() };
    let mut b = Bench::new(with(chain));
    b.packet(0);
    b.change(MS, with(stays));
    b.packet(MS);
    b.change(2 * MS, with(Loss::None));
    b.change(2 * MS, with(stays));
    b.packet(3 * MS);
    b.finish();
    assert_eq!(b.payloads(), [2]);
}

#[test]
fn a_train_stays_whole_behind_a_held_segment() {
    let reorder = Reorder { probability: 0.02, by: Duration::from_millis(3) };
    let mut b = Bench::seeded(6, Settings { reorder, ..Settings::default() });
    for k in 0..20 {
        b.offer(k * MS, 40, 1500, 1500);
    }
    b.finish();
    let (held, kept): (Vec<_>, Vec<_>) = b.arrived.iter().partition(|d| d.at.as_nanos() > u64::from(d.payload) * MS);
    assert!(held.len() > 8 && held.iter().all(|d| d.count == 1));
    // The segments of a train between held ones arrive together.
    for train in 0..20 {
        let mut gaps: Vec<u32> = held.iter().filter(|d| d.payload == train).map(|d| d.first).collect();
        gaps.sort_unstable();
        let pieces = kept.iter().filter(|d| d.payload == train).map(|d| (d.first, d.first + d.count));
        let starts = std::iter::once(0).chain(gaps.iter().map(|g| g + 1));
        let expected = starts.zip(gaps.iter().copied().chain([40])).filter(|(start, end)| start < end);
        assert_eq!(pieces.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}
