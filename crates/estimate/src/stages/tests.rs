use super::*;
use proptest::prelude::*;
use results::RELATIVE_ERROR;

const US: u64 = 1_000;

fn at(us: u64) -> Instant {
    Instant::from_nanos(1_000_000_000_000 + us * US)
}

fn stages() -> Stages {
    Stages::new(at(0))
}

fn key(header_end_offset: u64) -> u32 {
    (header_end_offset - 1) as u32
}

fn near(got: u64, exact_us: u64) -> bool {
    got.abs_diff(exact_us * US) as f64 <= (exact_us * US) as f64 * RELATIVE_ERROR
}

#[test]
fn stamps_in_any_order_give_the_same_stages() {
    // Written at 0, scheduled at 300 us, sent at 350 us, acknowledged at 100,350 us; 40 us in the receiver's kernel.
    let stamps = [(StampKind::Scheduled, 300), (StampKind::Sent, 350), (StampKind::Acknowledged, 100_350)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut s = stages();
        s.handle_written(7, 4_294_967_320, at(0));
        for i in order {
            s.handle_stamp(stamps[i].0, key(4_294_967_320), at(stamps[i].1));
        }
        s.handle_remote(7, Duration::from_micros(40), None);
        s.handle_echo(7, at(100_500));
        assert!(s.pending.is_empty());
        let d = s.finish();
        assert_eq!((d.samples, d.missing.len()), (1, 0));
        let min = |s: Option<results::DelaySummary>| s.unwrap().min_ns;
        assert!(near(min(d.socket_buffer), 300) && near(min(d.qdisc), 50));
        assert!(near(min(d.network), 100_000) && near(min(d.receiver_app), 40));
    }
}

#[test]
fn offsets_are_matched_across_the_32_bit_wrap() {
    let mut s = stages();
    let ends = [u64::from(u32::MAX) - 99, u64::from(u32::MAX) + 1, u64::from(u32::MAX) + 5000];
    for (block, end) in ends.into_iter().enumerate() {
        s.handle_written(block as u32, end, at(0));
    }
    for (i, end) in ends.into_iter().enumerate() {
        s.handle_stamp(StampKind::Scheduled, key(end), at(100 * (i as u64 + 1)));
    }
    assert_eq!(s.unmatched(), 0);
    let d = s.finish().socket_buffer.unwrap();
    assert!(d.count == 3 && near(d.min_ns, 100) && near(d.max_ns, 300));
}

#[test]
fn a_retransmissions_stamp_does_not_replace_the_first() {
    let mut s = stages();
    s.handle_written(0, 100, at(0));
    for us in [10, 200_000] {
        s.handle_stamp(StampKind::Scheduled, 99, at(us));
        s.handle_stamp(StampKind::Sent, 99, at(us + 10));
    }
    s.handle_stamp(StampKind::Acknowledged, 99, at(250_020));
    let d = s.finish();
    assert_eq!(d.qdisc.as_ref().unwrap().count, 1);
    assert!(near(d.network.unwrap().max_ns, 250_000), "the wait for the retransmission is the network's");
}

#[test]
fn a_stage_that_a_host_does_not_stamp_is_named() {
    let mut s = stages();
    s.handle_written(0, 100, at(0));
    s.handle_stamp(StampKind::Sent, 99, at(10));
    s.handle_stamp(StampKind::Acknowledged, 99, at(50));
    let d = s.interval();
    assert!(d.network.is_some() && d.socket_buffer.is_none() && d.qdisc.is_none() && d.receiver_app.is_none());
    assert_eq!(d.missing.len(), 3);
    assert!(d.missing[0].contains("socket_buffer") && d.missing[0].contains("TX_SCHED"), "{:?}", d.missing);
}

#[test]
fn the_intervals_and_the_rest_are_the_whole_stream() {
    let mut s = stages();
    for i in 0..10_u64 {
        s.handle_written(i as u32, 100 * (i + 1), at(i));
        s.handle_stamp(StampKind::Scheduled, key(100 * (i + 1)), at(i + 20));
        if i == 5 {
            assert_eq!(s.interval().samples, 6);
        }
    }
    assert_eq!(s.take_rest().decomposition().socket_buffer.unwrap().count, 4);
    assert_eq!(s.take_rest().decomposition().samples, 0);
}

#[test]
fn stamps_that_go_backwards_are_counted_with_their_effect() {
    let mut s = stages();
    s.handle_written(0, 100, at(5_000));
    s.handle_stamp(StampKind::Scheduled, 99, at(4_997));
    s.handle_stamp(StampKind::Sent, 99, at(4_500));
    let d = s.finish();
    assert_eq!(d.socket_buffer.unwrap().max_ns, 0, "3 us are within the clock error");
    assert!(d.qdisc.is_none(), "half a millisecond is not");
    for remark in ["1 timestamps went backwards", "1 delays were below zero"] {
        assert!(d.missing.iter().any(|m| m.starts_with(remark)), "{:?}", d.missing);
    }
}

/// A kernel that fills up the packet buffer in front sends the header with that buffer. It stamps the header when the
/// rest of its own buffer leaves: with pacing milliseconds later, after the header has arrived.
#[test]
fn a_stamp_of_a_later_packet_gives_no_one_way_delay() {
    let mut s = stages();
    for (block, sent, arrived) in [(0, 100, 112), (1, 5_300, 3_010), (2, 6_000, 6_011)] {
        let end = u64::from(block + 1) * 65_536;
        s.handle_written(block, end, at(0));
        s.handle_stamp(StampKind::Sent, key(end), at(sent));
        let times = RemoteTimes { arrived: at(arrived), read: at(arrived), bound: Duration::from_micros(50) };
        s.handle_remote(block, Duration::ZERO, Some(times));
    }
    let whole = s.take_rest();
    let one_way = whole.one_way().unwrap();
    assert_eq!((one_way.count, one_way.discarded), (2, 1));
    assert!(one_way.min_ns >= 10_000, "{one_way:?}");
    assert!(whole.decomposition().missing.iter().any(|m| m.starts_with("1 one-way delays were below zero")));
}

#[test]
fn waiting_blocks_are_bounded() {
    let mut s = stages();
    for i in 0..(PENDING_MAX as u64 + 50) {
        s.handle_written(i as u32, 100 * (i + 1), at(i));
        if i < 20 {
            s.handle_echo(i as u32, at(i + 1));
        }
    }
    assert_eq!(s.pending.len(), PENDING_MAX);
    assert_eq!(s.dropped(), 30, "50 were dropped, 20 of them echoed");
    s.handle_stamp(StampKind::Sent, 99, at(9));
    s.handle_echo(3, at(9));
    assert_eq!(s.unmatched(), 2);
}

#[test]
fn blocks_without_a_stamp_that_no_host_makes_do_not_accumulate() {
    let mut s = stages();
    for i in 0..10_000 {
        s.handle_written(i, u64::from(i + 1) * 100, at(u64::from(i)));
        s.handle_stamp(StampKind::Scheduled, key(u64::from(i + 1) * 100), at(u64::from(i)));
        s.handle_echo(i, at(u64::from(i) + 1));
    }
    assert_eq!((s.pending.len(), s.dropped()), (ECHOED_MAX, 0));
    assert_eq!(s.finish().socket_buffer.unwrap().count, 10_000);
}

#[test]
fn merged_streams_keep_all_samples() {
    let (mut a, mut b) = (stages(), stages());
    for s in [&mut a, &mut b] {
        s.handle_written(0, 10, at(0));
        s.handle_stamp(StampKind::Scheduled, 9, at(5));
    }
    let mut both = a.take_interval();
    both.merge(&b.take_interval());
    assert_eq!(both.decomposition().samples, 2);
    assert_eq!(both.decomposition().socket_buffer.unwrap().count, 2);
}

#[test]
fn invalid_stamps_are_counted() {
    let mut s = stages();
    s.handle_stamp(StampKind::Sent, 1, at(0));
    s.handle_echo(1, at(0));
    s.handle_remote(1, Duration::MAX, None);
    s.handle_written(1, 0, at(0));
    s.handle_written(1, 50, Instant::ZERO);
    s.handle_written(1, 50, at(0));
    s.handle_written(2, 50, at(0));
    assert_eq!(s.unmatched(), 6);
    s.handle_remote(1, Duration::MAX, None);
    s.handle_remote(1, Duration::MAX, None);
    assert_eq!(s.finish().receiver_app.unwrap().count, 1);
}

proptest! {
    #[test]
    fn any_order_of_any_events_is_harmless(events in prop::collection::vec((0_u8..6, 0_u32..40, any::<u64>()), 0..300)) {
        let mut s = stages();
        let mut written = 0;
        for (kind, block, ns) in events {
            let (end, time) = (u64::from(block + 1) * 100, Instant::from_nanos(ns));
            match kind {
                0 => { s.handle_written(block, end, time); written += 1; }
                1 => s.handle_stamp(StampKind::Scheduled, key(end), time),
                2 => s.handle_stamp(StampKind::Sent, key(end), time),
                3 => s.handle_stamp(StampKind::Acknowledged, key(end), time),
                4 => s.handle_echo(block, time),
                _ => s.handle_remote(block, Duration::from_nanos(ns), None),
            }
        }
        prop_assert!(s.pending.len() <= PENDING_MAX);
        let d = s.finish();
        prop_assert!(d.samples <= written);
        for stage in [d.socket_buffer, d.qdisc, d.network, d.receiver_app].into_iter().flatten() {
            prop_assert!(stage.count <= d.samples);
        }
    }
}
