//! Properties for all settings, offers and changes.

use proptest::prelude::*;

use super::*;
use crate::{COALESCE, Discipline, Jitter, JitterShape, Overhead, Reorder, Trace};

#[derive(Debug, Clone)]
pub(super) enum Step {
    Offer { count: u32, full: u32, last: u32 },
    Change(Box<Settings>),
    Restart(u64),
}

fn capacity() -> impl Strategy<Value = Capacity> {
    prop_oneof![
        Just(Capacity::Unlimited),
        // Rates from 10 kb/s to 100 Gb/s.
        (4.0..11.0f64).prop_map(|e| Capacity::Constant(Rate::from_bps(10f64.powf(e) as u64))),
        prop::collection::vec(0u64..4, 1..6).prop_map(|gaps| {
            let mut ms = 0;
            let mut text = String::new();
            gaps.iter().for_each(|gap| {
                ms += gap;
                text += &format!("{ms}\n");
            });
            Capacity::Trace(Arc::new(Trace::parse(&format!("{text}{}\n", ms + 1)).unwrap()))
        }),
    ]
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        3 => Just(Loss::None),
        1 => (0.0..0.3f64).prop_map(Loss::Independent),
        1 => (0.0..0.3f64, 0.1..1.0f64).prop_map(|(to_bad, to_good)| {
            Loss::GilbertElliott { to_bad, to_good, loss_bad: 0.7, loss_good: 0.01 }
        }),
    ]
}

fn queue() -> impl Strategy<Value = QueueSettings> {
    let limit = prop_oneof![
        Just(QueueLimit::Unlimited),
        (0u64..300_000).prop_map(|n| QueueLimit::Bytes(Bytes::new(n))),
        (0u64..200).prop_map(QueueLimit::Packets),
        (0u64..20_000).prop_map(|us| QueueLimit::Time(Duration::from_micros(us))),
    ];
    let discipline = prop_oneof![
        Just(Discipline::TailDrop),
        (0u64..2000, 0u64..20_000).prop_map(|(target, interval)| Discipline::CoDel {
            target: Duration::from_micros(target),
            interval: Duration::from_micros(interval)
        }),
    ];
    (limit, discipline).prop_map(|(limit, discipline)| QueueSettings { limit, discipline })
}

fn jitter() -> impl Strategy<Value = Jitter> {
    let shape = prop_oneof![Just(JitterShape::Uniform), Just(JitterShape::Normal), Just(JitterShape::Exponential)];
    (prop_oneof![3 => Just(0u64), 1 => 1u64..3000], shape, any::<bool>()).prop_map(|(us, shape, reorders)| Jitter {
        amount: Duration::from_micros(us),
        shape,
        reorders,
    })
}

pub(super) fn settings() -> impl Strategy<Value = Settings> {
    let rare = || prop_oneof![3 => Just(0.0), 1 => 0.0..0.3f64];
    let delay = prop_oneof![Just(0u64), 0u64..100, 0u64..30_000];
    let overhead = prop_oneof![Just(Overhead::IP), Just(Overhead::ETHERNET)];
    (
        (capacity(), overhead, delay, jitter(), queue(), loss()),
        (prop::collection::vec(0u64..400, 0..4), rare(), rare(), 0u64..5000),
        (prop_oneof![4 => Just(None), 1 => Just(Some(1000u32))], prop::bool::weighted(0.9)),
    )
        .prop_map(
            |((capacity, overhead, delay, jitter, queue, loss), (list, duplicate, probability, by), (mtu, up))| {
                Settings {
                    capacity,
                    overhead,
                    delay: Duration::from_micros(delay),
                    jitter,
                    queue,
                    loss,
                    loss_list: Arc::from(list),
                    duplicate,
                    reorder: Reorder { probability, by: Duration::from_micros(by) },
                    mtu,
                    up,
                }
            },
        )
}

fn step(settings: impl Strategy<Value = Settings>) -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (prop_oneof![Just(1u32), 1u32..50], 0u32..1600, 0u32..1600)
            .prop_map(|(count, full, last)| Step::Offer { count, full, last }),
        3 => settings.prop_map(|s| Step::Change(Box::new(s))),
        1 => any::<u64>().prop_map(Step::Restart),
    ]
}

/// Steps, each with the time since the previous step in nanoseconds. Changes are to `settings`.
pub(super) fn script(settings: impl Strategy<Value = Settings>) -> impl Strategy<Value = Vec<(u64, Step)>> {
    let gap = prop_oneof![Just(0u64), 0u64..1000, 0u64..100_000, 0u64..5_000_000];
    prop::collection::vec((gap, step(settings)), 1..60)
}

fn take_step(link: &mut Direction<Arc<usize>>, now: Instant, number: usize, step: &Step) {
    match step.clone() {
        Step::Offer { count, full, last } => link.offer(now, Train { payload: Arc::new(number), count, full, last }),
        Step::Change(settings) => link.change(now, *settings),
        Step::Restart(seed) => link.restart(now, seed),
    }
}

/// Times at which the link is polled.
#[derive(Debug, Clone)]
enum Polls {
    /// At each timeout.
    Exactly,
    /// Repeatedly after these intervals in nanoseconds.
    Every(Vec<u64>),
    /// Only at the end.
    AtTheEnd,
}

#[derive(Debug, PartialEq)]
struct Outcome {
    delivered: Vec<(usize, u32, u32, u64, u64)>,
    tally: Tally,
}

fn drain(link: &mut Direction<Arc<usize>>, now: Instant, into: &mut Outcome) {
    while let Some(d) = link.poll(now) {
        into.delivered.push((*d.payload, d.first, d.count, d.at.as_nanos(), d.bytes));
    }
}

/// Polls the link before `end`, at the times of `polls`.
fn poll_until(link: &mut Direction<Arc<usize>>, from: u64, end: u64, polls: &Polls, into: &mut Outcome) {
    match polls {
        Polls::Exactly => {
            while let Some(t) = link.poll_timeout().filter(|t| t.as_nanos() < end) {
                drain(link, t, into);
                assert!(link.poll_timeout().is_none_or(|next| next > t), "the timeout makes no progress");
            }
        }
        Polls::Every(gaps) => {
            let mut at = from;
            for gap in gaps.iter().cycle() {
                at += gap + 1;
                if at >= end {
                    return;
                }
                drain(link, Instant::from_nanos(at), into);
            }
        }
        Polls::AtTheEnd => {}
    }
}

fn play(first: &Settings, script: &[(u64, Step)], polls: &Polls) -> Outcome {
    let mut link = Direction::new(Instant::from_nanos(1000), 3, first.clone());
    let mut outcome = Outcome { delivered: Vec::new(), tally: Tally::default() };
    let mut now = 1000;
    for (number, (gap, step)) in script.iter().enumerate() {
        poll_until(&mut link, now, now + gap, polls, &mut outcome);
        now += gap;
        take_step(&mut link, Instant::from_nanos(now), number, step);
    }
    let end = now + 50_000_000;
    poll_until(&mut link, now, end, polls, &mut outcome);
    outcome.tally = link.take_tally(Instant::from_nanos(end));
    drain(&mut link, Instant::from_nanos(u64::MAX), &mut outcome);
    outcome
}

fn some_polls() -> impl Strategy<Value = Polls> {
    prop_oneof![
        Just(Polls::Exactly),
        prop::collection::vec(prop_oneof![0u64..2000, 10_000u64..100_000, 0u64..10_000_000], 1..5).prop_map(
            |mut gaps| {
                // One long interval limits the number of polls, because a script takes up to a third of a second.
                gaps.push(60_000);
                Polls::Every(gaps)
            }
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn arrival_times_do_not_depend_on_the_times_of_polls(
        first in settings(), script in script(settings()), polls in some_polls(),
    ) {
        let lazy = play(&first, &script, &Polls::AtTheEnd);
        let busy = play(&first, &script, &polls);
        prop_assert_eq!(busy, lazy);
    }

    #[test]
    fn packets_are_conserved_and_their_handles_freed(first in settings(), script in script(settings())) {
        let handle = Arc::new(());
        let mut link = Direction::new(Instant::ZERO, 3, first);
        let (mut now, mut run, mut start) = (Instant::ZERO, Tally::default(), Volume::default());
        let mut arrived = Volume::default();
        for (gap, step) in &script {
            now = now + Duration::from_nanos(*gap);
            match step.clone() {
                Step::Offer { count, full, last } => {
                    link.offer(now, Train { payload: Arc::clone(&handle), count, full, last });
                }
                Step::Change(settings) => link.change(now, *settings),
                Step::Restart(seed) => {
                    link.restart(now, seed);
                    (run, start) = (Tally::default(), link.backlog());
                }
            }
            run.merge(&link.take_tally(now));
            let (dropped, queued) = (run.dropped.total(), link.backlog());
            prop_assert_eq!(
                start.packets + run.offered.packets + run.duplicated.packets,
                run.delivered.packets + dropped.packets + queued.packets
            );
            prop_assert_eq!(
                start.bytes + run.offered.bytes + run.duplicated.bytes,
                run.delivered.bytes + dropped.bytes + queued.bytes
            );
            prop_assert!(run.utilisation().is_none_or(|u| (0.0..=1.0).contains(&u)));
            prop_assert!(Arc::strong_count(&handle) > 1 || link.held_bytes() == 0);
        }
        let end = Instant::from_nanos(u64::MAX);
        while let Some(d) = link.poll(end) {
            arrived.packets += u64::from(d.count);
            arrived.bytes += d.bytes;
        }
        prop_assert_eq!((link.held_bytes(), link.backlog(), link.poll_timeout()), (0, Volume::default(), None));
        prop_assert_eq!(Arc::strong_count(&handle), 1);
        prop_assert!(arrived.packets >= run.delivered.packets.saturating_sub(start.packets));
    }

    #[test]
    fn tallies_of_parts_add_up_to_the_tally_of_the_whole(
        first in settings(), script in script(settings()), cuts in prop::collection::vec(0usize..60, 0..8),
    ) {
        // A restart resets the tally, so it is left out.
        let script: Vec<_> = script.into_iter().filter(|(_, s)| !matches!(s, Step::Restart(_))).collect();
        let mut whole = Direction::new(Instant::ZERO, 3, first.clone());
        let mut parts = Direction::new(Instant::ZERO, 3, first);
        let (mut now, mut sum) = (Instant::ZERO, Tally::default());
        for (number, (gap, step)) in script.iter().enumerate() {
            if cuts.contains(&number) {
                sum.merge(&parts.take_tally(now + Duration::from_nanos(gap / 2)));
            }
            now = now + Duration::from_nanos(*gap);
            take_step(&mut whole, now, number, step);
            take_step(&mut parts, now, number, step);
        }
        now = now + Duration::from_millis(20);
        sum.merge(&parts.take_tally(now));
        prop_assert_eq!(sum, whole.take_tally(now));
    }

    #[test]
    fn polling_at_each_timeout_is_late_by_at_most_the_coalescing_time(first in settings(), script in script(settings())) {
        let mut link = Direction::new(Instant::ZERO, 3, first);
        let mut now = Instant::ZERO;
        let check = |link: &mut Direction<Arc<usize>>, t: Instant| -> Result<(), TestCaseError> {
            while let Some(d) = link.poll(t) {
                prop_assert!(t.saturating_since(d.at) <= COALESCE, "at {:?}, given at {:?}", d.at, t);
            }
            Ok(())
        };
        for (number, (gap, step)) in script.iter().enumerate() {
            let next = now + Duration::from_nanos(*gap);
            while let Some(t) = link.poll_timeout().filter(|t| *t <= next) {
                check(&mut link, t)?;
            }
            now = next;
            check(&mut link, now)?;
            take_step(&mut link, now, number, step);
        }
        while let Some(t) = link.poll_timeout() {
            check(&mut link, t)?;
        }
    }

    #[test]
    fn segments_arrive_once_in_order_and_at_ascending_times(first in settings(), script in script(settings())) {
        let mut first = first;
        (first.duplicate, first.reorder, first.jitter.reorders) = (0.0, Reorder::default(), false);
        let script: Vec<_> = script.into_iter().filter(|(_, s)| matches!(s, Step::Offer { .. })).collect();
        let outcome = play(&first, &script, &Polls::AtTheEnd);
        let spans: Vec<_> = outcome.delivered.iter().map(|(p, first, count, ..)| (*p, *first, first + count)).collect();
        prop_assert!(spans.windows(2).all(|w| (w[0].0, w[0].2) <= (w[1].0, w[1].1)), "{spans:?}");
        prop_assert!(outcome.delivered.windows(2).all(|w| w[0].3 <= w[1].3));
    }
}

/// A link with a long delay wakes up only for deliveries.
#[test]
fn the_number_of_timeouts_equals_the_number_of_deliveries() {
    let mut link =
        Direction::new(Instant::ZERO, 1, Settings { delay: Duration::from_millis(20), ..rate(1_000_000_000) });
    for k in 0..20 {
        link.offer(Instant::from_nanos(k), Train { payload: (), count: 44, full: 1500, last: 1500 });
    }
    let (mut wakeups, mut deliveries) = (0, 0);
    while let Some(t) = link.poll_timeout() {
        wakeups += 1;
        while let Some(d) = link.poll(t) {
            deliveries += 1;
            assert_eq!(d.at, t, "neither early nor late");
        }
    }
    assert_eq!((wakeups, deliveries), (20 * 9, 20 * 9));
}
