//! Any input: no panic, and consistent counts.

use link::{Capacity, Jitter, JitterShape, Loss, Queue, QueueLimit, Reorder, Settings};
use proptest::prelude::*;
use tcp::{Ack, Control, Receiver, ReceiverConfig, SackBlocks, Segments, Sender, SenderConfig, SeqRange};
use units::{Duration, Instant, Rate};

use crate::pipe::{Pipe, sender_config};

fn range() -> impl Strategy<Value = SeqRange> {
    (0..200_000_u64, 0..20_000_u64).prop_map(|(start, bytes)| SeqRange { start, end: start + bytes })
}

fn ack() -> impl Strategy<Value = Ack> {
    let blocks = prop::collection::vec(range(), 0..=3);
    let duplicate = prop::option::weighted(0.2, range());
    (0..200_000_u64, any::<u64>(), blocks, duplicate, any::<u64>()).prop_map(
        |(cumulative, window_end, blocks, duplicate, echo_ms)| {
            let mut sack = SackBlocks::default();
            blocks.into_iter().for_each(|block| sack.push(block));
            Ack { cumulative, window_end, sack, duplicate, echo_ms }
        },
    )
}

fn control() -> impl Strategy<Value = Control> {
    prop_oneof![
        Just(Control::reno()),
        Just(Control::cubic()),
        Just(Control::fast(congestion::FastSettings::default())),
        Just(Control::htcp(congestion::HtcpSettings::default())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A peer sends what it likes: the sender survives, and never sends beyond the written bytes.
    #[test]
    fn a_sender_survives_any_acknowledgement(
        acks in prop::collection::vec((ack(), 0..500_u64), 1..100),
        control in control(),
    ) {
        let mut now = Instant::ZERO;
        let mut sender = Sender::new(now, SenderConfig::default(), control);
        sender.write(now, 150_000);
        for (ack, wait_ms) in acks {
            now = now + Duration::from_millis(wait_ms);
            sender.handle_timeout(now);
            sender.handle_ack(now, &ack);
            let mut packets = 0;
            while let Some(sent) = sender.poll_transmit(now) {
                prop_assert!(sent.end() <= 150_000 && sent.bytes > 0, "{:?}", sent);
                packets += 1;
                prop_assert!(packets < 1000, "the sender does not stop");
            }
        }
    }

    /// A receiver acknowledges only bytes that arrived, whatever arrives.
    #[test]
    fn a_receiver_survives_any_segments(
        all in prop::collection::vec((range(), 0..50_u64), 1..100),
    ) {
        let mut now = Instant::ZERO;
        let mut receiver = Receiver::new(ReceiverConfig::default());
        let mut arrived = vec![false; 220_001];
        for (range, wait_ms) in all {
            now = now + Duration::from_millis(wait_ms);
            receiver.handle_timeout(now);
            arrived[range.start as usize..range.end as usize].fill(true);
            let bytes = range.end - range.start;
            let segments =
                Segments { seq: range.start, bytes, mss: 1448, is_retransmission: false, timestamp_ms: now.as_nanos() };
            let ack = receiver.handle(now, segments);
            let received = receiver.received() as usize;
            prop_assert!(arrived[..received].iter().all(|a| *a));
            for block in ack.iter().flat_map(|a| a.sack.as_slice()) {
                prop_assert!(arrived[block.start as usize..block.end as usize].iter().all(|a| *a));
            }
        }
    }

    /// Every byte arrives over any path: loss, reordering, short queues, bursts.
    #[test]
    fn transfers_complete_over_any_path(
        seed in any::<u64>(),
        rate in 1_000_000..100_000_000_u64,
        delay_ms in 1..150_u64,
        queue in 2..200_u64,
        loss in prop_oneof![Just(0.0), 0.0..0.1],
        reorder in prop_oneof![Just(0.0), 0.0..0.2],
        jitter_ms in 0..20_u64,
        pacing in prop::option::of(1_000_000..200_000_000_u64),
        control in control(),
    ) {
        let settings = Settings {
            capacity: Capacity::Constant(Rate::from_bps(rate)),
            delay: Duration::from_millis(delay_ms),
            queue: Queue { limit: QueueLimit::Packets(queue), ..Queue::default() },
            loss: Loss::Independent(loss),
            reorder: Reorder { probability: reorder, by: Duration::from_millis(5) },
            jitter: Jitter { amount: Duration::from_millis(jitter_ms), shape: JitterShape::Uniform, reorders: true },
            ..Settings::default()
        };
        let config = SenderConfig { pacing: pacing.map(Rate::from_bps), ..sender_config() };
        let mut pipe = Pipe::new(seed, settings, config, control);
        pipe.write(300_000);
        pipe.run(Duration::from_secs(600), |_| {});
        let info = pipe.sender.info();
        prop_assert_eq!(pipe.receiver.received(), 300_000, "{:?}", info);
        prop_assert_eq!((pipe.sender.unacknowledged(), info.in_flight), (0, 0));
    }
}
