//! A run of segments gives the same results as its segments one by one.

use proptest::prelude::*;

use super::properties::{Step, script, settings};
use super::*;
use crate::{Discipline, Jitter, Reorder};

/// Advances the link by one departure at a time, so that no two packets leave in one step.
fn advance_by_packet(link: &mut Direction<u32>, now: Instant) {
    while let Some(end) = link.sending.map(|s| s.end).filter(|end| *end <= now) {
        link.advance(end);
    }
    link.advance(now);
}

/// Offers the segments of a train as runs of one.
fn offer_by_packet(link: &mut Direction<u32>, now: Instant, train: Train<u32>) {
    advance_by_packet(link, now);
    let Train { count, full, last, .. } = train;
    if count == 0 {
        return;
    }
    let slot = link.trains.store(train);
    for first in 0..count {
        link.arrive(Run { slot, first, count: 1, bytes: if first + 1 == count { last } else { full } });
    }
    link.depth.peak(&mut link.tally.queue_bytes);
}

/// All that a caller can see of a link at one time.
#[derive(Debug, PartialEq)]
struct View {
    delivered: Vec<Delivery<u32>>,
    timeout: Option<Instant>,
    backlog: Volume,
    held_bytes: u64,
    tally: Option<Tally>,
}

impl View {
    fn of(link: &mut Direction<u32>, now: Instant, polls: bool, takes_tally: bool) -> Self {
        let mut delivered = Vec::new();
        if polls {
            delivered.extend(core::iter::from_fn(|| link.poll(now)));
        }
        let tally = takes_tally.then(|| link.take_tally(now));
        let (timeout, backlog, held_bytes) = (link.poll_timeout(), link.backlog(), link.held_bytes());
        Self { delivered, timeout, backlog, held_bytes, tally }
    }
}

/// Applies a step to both links.
fn take_step(runs: &mut Direction<u32>, packets: &mut Direction<u32>, now: Instant, payload: u32, step: &Step) {
    match step {
        Step::Offer { count, full, last } => {
            let train = Train { payload, count: *count, full: *full, last: *last };
            runs.offer(now, train.clone());
            offer_by_packet(packets, now, train);
        }
        Step::Change(settings) => {
            runs.change(now, (**settings).clone());
            packets.change(now, (**settings).clone());
        }
        Step::Restart(seed) => {
            runs.restart(now, *seed);
            packets.restart(now, *seed);
        }
    }
}

/// Settings with which runs are handled together: other settings fall back to single packets.
fn plain_settings() -> impl Strategy<Value = Settings> {
    settings().prop_map(|s| Settings {
        jitter: Jitter::default(),
        queue: QueueSettings { discipline: Discipline::TailDrop, ..s.queue },
        duplicate: 0.0,
        reorder: Reorder::default(),
        ..s
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_run_gives_the_results_of_its_segments(
        first in prop_oneof![3 => plain_settings(), 1 => settings()],
        script in script(prop_oneof![3 => plain_settings(), 1 => settings()]),
        looks in prop::collection::vec((any::<bool>(), any::<bool>()), 1..20),
    ) {
        let start = Instant::from_nanos(1000);
        let (mut runs, mut packets) = (Direction::new(start, 3, first.clone()), Direction::new(start, 3, first));
        let mut now = start;
        for (number, ((gap, step), (polls, tallies))) in script.iter().zip(looks.iter().cycle()).enumerate() {
            now = now + Duration::from_nanos(*gap);
            advance_by_packet(&mut packets, now);
            take_step(&mut runs, &mut packets, now, number as u32, step);
            prop_assert_eq!(View::of(&mut runs, now, *polls, *tallies), View::of(&mut packets, now, *polls, *tallies));
        }
        for end in [now + Duration::from_millis(20), Instant::from_nanos(u64::MAX)] {
            advance_by_packet(&mut packets, end);
            prop_assert_eq!(View::of(&mut runs, end, true, true), View::of(&mut packets, end, true, true));
        }
    }
}

/// 1538 bytes take 4921.6 ns at 2.5 Gb/s. Ten more packets arrive within 50 µs of the first one.
#[test]
fn a_train_leaves_at_the_rate_to_the_nanosecond() {
    let mut link = Direction::new(Instant::ZERO, 1, limited(2_500_000_000, QueueLimit::Packets(29)));
    link.offer(Instant::ZERO, Train { payload: 7, count: 44, full: 1500, last: 1500 });
    assert_eq!(link.backlog(), Volume { packets: 30, bytes: 45_000 }, "one in transmission and 29 in the queue");
    let end = Instant::from_nanos(MS);
    let delivered: Vec<_> =
        core::iter::from_fn(|| link.poll(end)).map(|d| (d.first, d.count, d.at.as_nanos())).collect();
    assert_eq!(delivered, [(0, 11, 54_137), (11, 11, 108_275), (22, 8, 147_648)]);
    let tally = link.take_tally(end);
    assert_eq!((tally.delivered.packets, tally.dropped.queue.packets), (30, 14));
    assert_eq!((tally.wait_ns.weight(), tally.wait_ns.max()), (30, 142_726), "29 packets before the last one");
    assert_eq!((tally.queue_bytes.weight(), tally.queue_bytes.max()), (1000, 29 * 1500));
    assert_eq!(tally.utilisation(), Some(0.147_648));
}

/// Sums of bytes exceed 64 bits here; only the limits of the types bound a train.
#[test]
fn trains_of_any_size_are_accepted() {
    let mut link = Direction::new(Instant::ZERO, 1, limited(1, QueueLimit::Unlimited));
    for payload in 0..3 {
        link.offer(Instant::ZERO, Train { payload, count: u32::MAX, full: u32::MAX, last: u32::MAX });
    }
    link.change(Instant::ZERO, limited(1, QueueLimit::Bytes(Bytes::ZERO)));
    assert_eq!(link.backlog().packets, 3 * u64::from(u32::MAX));
    assert_eq!(link.held_bytes(), u64::MAX);
    let tally = link.take_tally(Instant::ZERO);
    assert_eq!((tally.offered.packets, tally.offered.bytes), (3 * u64::from(u32::MAX), u64::MAX));
}
