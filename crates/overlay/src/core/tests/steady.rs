//! A steady network under a flow that fills a hop of its way: nothing changes but its queue.

use std::collections::{BTreeMap, VecDeque};

use super::*;

const RATE: u64 = 5_000_000;
/// Bytes of a packet, and of it on the wire: frame, envelope, UDP and IPv4 besides.
const PACKET: usize = 1300;
const ON_THE_WIRE: usize = PACKET + 40 + 56 + 28;
/// A packet's time on the wire.
const TICK: Duration = Duration::from_nanos(ON_THE_WIRE as u64 * 8_000_000_000 / RATE);
/// Packets that wait for a link at most: 0.57 s, as 1000 at 20 Mb/s do.
const QUEUE: u32 = 250;
/// Bytes of an acknowledgement: IPv4 and TCP with timestamps.
const ACKNOWLEDGEMENT: usize = 52;
/// Round trip of a flow whose way is idle: twice 10 ms, and what waits in its own host.
const IDLE: Duration = Duration::from_millis(150);

/// A sender with the window of CUBIC (RFC 9438). It notices a loss two round trips later: the kernel's, with this queue
/// at 20 Mb/s, overflows it for 1.3 s at a round trip of 0.75 s, each 6 to 20 s, and then a tenth of what is sent is
/// lost.
struct Sender {
    sent: usize,
    /// As far as it has noticed.
    lost: usize,
    /// When each further loss will be noticed.
    losses: VecDeque<Instant>,
    recovers_until: Instant,
    /// Packets: the window when it was last lowered, and where it stays for longest.
    reached: f64,
    plateau: f64,
    lowered: Instant,
}

impl Sender {
    fn new(now: Instant) -> Self {
        let (reached, losses) = (f64::from(QUEUE), VecDeque::new());
        Self { sent: 0, lost: 0, losses, recovers_until: now, reached, plateau: reached, lowered: now }
    }

    /// How many packets it sends now.
    fn room(&mut self, now: Instant, round_trip: Duration, arrived: usize) -> usize {
        while self.losses.pop_front_if(|at| *at <= now).is_some() {
            self.lost += 1;
            if now >= self.recovers_until {
                self.lower(now, round_trip);
            }
        }
        (self.window(now, round_trip) as usize).saturating_sub(self.sent - arrived - self.lost)
    }

    /// Section 4.7, fast convergence.
    fn lower(&mut self, now: Instant, round_trip: Duration) {
        let window = self.window(now, round_trip);
        self.plateau = if window < self.reached { 0.85 * window } else { window };
        (self.reached, self.lowered, self.recovers_until) = (window, now, now + round_trip);
    }

    /// Section 4.2, equations 1 and 2 with C = 0.4 and beta = 0.7, a round trip ahead.
    fn window(&self, now: Instant, round_trip: Duration) -> f64 {
        let k = ((self.plateau - 0.7 * self.reached) / 0.4).cbrt();
        let passed = now.saturating_since(self.lowered) + round_trip;
        self.plateau + 0.4 * (passed.as_secs_f64() - k).powi(3)
    }
}

/// The paper's *Domestic* with slow links: from the first member to the last over one of two relays, which are `beyond`
/// before it.
fn domestic(beyond: Duration, seed: u64) -> World {
    domestic_of(true, beyond, seed)
}

fn domestic_of(single_path: bool, beyond: Duration, seed: u64) -> World {
    let mut world = World::new(4);
    let now = world.now;
    for index in 0..4 {
        let settings = Settings { single_path, capacity: Some(Rate::from_bps(RATE)), ..settings(index, 4) };
        world.hosts[index] = Host::new(settings, seed + index as u64, now);
    }
    for (a, b, delay) in [(0, 1, WIRE.delay), (0, 2, WIRE.delay), (1, 3, beyond), (2, 3, beyond)] {
        world.set(a, b, Some(Wire { delay, rate: Some(RATE), queue: TICK * QUEUE, ..WIRE }));
    }
    world.set(0, 3, None);
    world.set(1, 2, None);
    world
}

/// Each member's node says what it sends by which way: the first one a flow by this one, and nobody anything else.
fn tell_flows(world: &mut World, flow: Path) {
    let now = world.now;
    for (index, host) in world.hosts.iter_mut().enumerate() {
        let paths = |to: usize| host.core.routes(number(to)).iter().map(|w| w.path);
        let flows =
            (0..4).flat_map(paths).map(|path| (path, u32::from(index == 0 && path == flow))).collect::<Vec<_>>();
        host.core.handle_flows(now, &flows);
    }
}

/// How many packets of a flow from the first to the last member were sent, and found the queue full.
fn fill(world: &mut World, span: Duration) -> (usize, usize) {
    let datagram = world.sealed_packet(0, 3, 0, ipv4(inner(0), inner(3), PACKET)).unwrap().1.len();
    let (mut sender, before, end) = (Sender::new(world.now), world.hosts[3].delivered.len(), world.now + span);
    let (mut told, mut dropped, mut acknowledged) = (world.now, 0, 0);
    while world.now < end {
        let now = world.now;
        let path = world.hosts[0].core.routes(number(3))[0].path;
        let hop = (1..3).find(|i| number(*i) == path.first_hop()).unwrap();
        let waits_for = |link| world.busy.get(&link).map_or(Duration::ZERO, |until| until.saturating_since(now));
        let waits = waits_for((0, hop)) + waits_for((hop, 3));
        let arrived = world.hosts[3].delivered.len() - before;
        // Ten at a time, as a super-packet has them.
        for _ in 0..sender.room(now, waits + IDLE, arrived).min(10) {
            sender.sent += usize::from(world.send_packet(0, 3, inner(0), PACKET));
        }
        // Every second packet is acknowledged (RFC 5681, section 4.2).
        for _ in acknowledged..arrived / 2 {
            world.send_packet(3, 0, inner(3), ACKNOWLEDGEMENT);
        }
        acknowledged = arrived / 2;
        let full = world.overflowed.drain(..).filter(|d| d.len() == datagram).count();
        sender.losses.extend(std::iter::repeat_n(now + 2 * (waits + IDLE), full));
        dropped += full;
        if now >= told {
            told = now + Duration::from_millis(50);
            tell_flows(world, path);
            assert!(
                world.hosts[0].core.link_state.suspected.is_empty(),
                "what is lost in the first hop is nobody else's"
            );
        }
        world.run(TICK);
        world.seen.clear();
    }
    (sender.sent, dropped)
}

#[test]
fn a_flow_that_overflows_its_own_queue_for_ten_minutes_changes_no_way() {
    let mut world = domestic(Duration::ZERO, 10);
    world.run(5 * SECOND);
    let begin = world.now;
    let (sent, dropped) = fill(&mut world, 600 * SECOND);
    // Nine tenths of the link, and some dropped each 20 s at least: else it is no load that could move anything.
    assert!(sent as f64 * TICK.as_secs_f64() > 0.9 * 600.0, "{sent}");
    assert!(dropped > 30 * 10, "{dropped} of {sent}");
    let moved = world.hosts[0].events.iter().filter(|(at, e)| *at >= begin && matches!(e, Event::Route(_)));
    assert_eq!(moved.map(|e| format!("{e:?}")).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn a_machine_that_stands_still_during_a_train_changes_no_way() {
    // Of the member that only acknowledges. Ten packets take 23 ms, and some of them 63.
    for seed in [10, 30, 50] {
        let mut world = domestic(Duration::ZERO, seed);
        world.run(5 * SECOND);
        world.stands_still = Some((3, Duration::from_millis(40)));
        let begin = world.now;
        fill(&mut world, 200 * SECOND);
        assert!(
            world.trains.len() == 2 && world.trains.values().all(|count| *count >= 9),
            "three held up on each wire: {:?}",
            world.trains
        );
        let moved = world.hosts[3].events.iter().filter(|(at, e)| *at >= begin && matches!(e, Event::Route(_)));
        assert_eq!(moved.map(|e| format!("{e:?}")).collect::<Vec<_>>(), Vec::<String>::new(), "{seed}");
    }
}

#[test]
fn answers_that_are_lost_in_a_queue_that_overflows_take_no_link_and_no_way_away() {
    for seed in [10, 30, 50, 70, 90] {
        let mut world = domestic_of(false, Duration::ZERO, seed);
        world.run(30 * SECOND);
        let begin = world.now;
        let (_, dropped) = fill(&mut world, 60 * SECOND);
        assert!(dropped > 150, "{dropped}");
        assert_eq!(left(&world, begin, 0..4), Vec::<String>::new(), "{seed}");
    }
}

#[test]
fn a_relay_between_two_full_queues_takes_no_link_for_one_that_is_down() {
    // What it asks waits in the one, by whichever way, and what it is answered is dropped in the other. It takes some
    // minutes until both are full.
    for seed in [1080, 1100, 1200, 1260] {
        let mut world = domestic_of(false, Duration::ZERO, seed);
        world.run(30 * SECOND);
        let begin = world.now;
        let (_, dropped) = fill(&mut world, 200 * SECOND);
        assert!(dropped > 500, "{dropped}");
        assert_eq!(left(&world, begin, [0, 3]), Vec::<String>::new(), "{seed}");
    }
}

/// Links that went down since then, and changes of first ways of some members.
fn left(world: &World, begin: Instant, of: impl IntoIterator<Item = usize> + Clone) -> Vec<String> {
    let is_left = |index: usize, e: &Event| {
        let is_changed = matches!(e, Event::Route(d) if d.place == 0 && of.clone().into_iter().any(|i| i == index));
        is_changed || matches!(e, Event::Link { up: false, .. })
    };
    let of_all =
        world.hosts.iter().enumerate().flat_map(|(index, h)| h.events.iter().map(move |(at, e)| (index, at, e)));
    let left = of_all.filter(|(index, at, e)| **at >= begin && is_left(*index, e));
    left.map(|e| format!("{e:?}")).collect()
}

#[test]
fn members_that_send_nothing_leave_a_link_that_others_fill_once_at_most() {
    for seed in [10, 30, 50, 70, 90] {
        // The links of the first member are wide: the queue before the last one is filled.
        let mut world = domestic_of(false, Duration::ZERO, seed);
        for relay in 1..3 {
            world.set(0, relay, Some(Wire { rate: Some(4 * RATE), ..WIRE }));
        }
        world.run(30 * SECOND);
        let begin = world.now;
        let (_, dropped) = fill(&mut world, 120 * SECOND);
        assert!(dropped > 300, "{dropped}");
        for (index, host) in world.hosts.iter().enumerate() {
            let mut changes = BTreeMap::new();
            for (_, event) in host.events.iter().filter(|(at, _)| *at >= begin) {
                let Event::Route(decision) = event else { continue };
                *changes.entry((decision.destination, decision.place)).or_insert(0) += 1;
            }
            // By another way a relay would get more than a share of that link, and stays there. A further way over it
            // is given up, and taken again once.
            let is_relay = index == 1 || index == 2;
            let most = |place: usize| if is_relay { [1, 2][place] } else { 0 };
            assert!(changes.iter().all(|((_, place), count)| *count <= most(*place)), "{seed}, {index}: {changes:?}");
        }
    }
}

#[test]
fn with_two_ways_neither_changes_beside_a_flow_that_overflows_one_of_them() {
    for seed in [10, 50] {
        let mut world = domestic_of(false, Duration::ZERO, seed);
        world.run(30 * SECOND);
        assert_eq!(world.hosts[0].core.routes(number(3)).len(), 2);
        let begin = world.now;
        let (_, dropped) = fill(&mut world, 300 * SECOND);
        assert!(dropped > 150, "{dropped}");
        let moved = world.hosts[0].events.iter().filter(|(at, e)| *at >= begin && matches!(e, Event::Route(_)));
        assert_eq!(moved.map(|e| format!("{e:?}")).collect::<Vec<_>>(), Vec::<String>::new(), "{seed}");
    }
}

#[test]
fn flows_that_end_as_their_queue_overflows_leave_their_way_as_it_was() {
    for seed in [10, 30, 50, 70, 90] {
        let mut world = domestic(Duration::ZERO, seed);
        world.run(5 * SECOND);
        let begin = world.now;
        for _ in 0..3 {
            fill(&mut world, 15 * SECOND);
            let tell = |w: &mut World, elephants: u32| {
                let (now, path) = (w.now, w.hosts[0].core.routes(number(3))[0].path);
                w.hosts[0].core.handle_flows(now, &[(path, elephants)]);
                w.seen.clear();
            };
            // Slow start overshoots, and the flow is over.
            let end = world.now + 2 * SECOND;
            while world.now < end {
                world.send_packet(0, 3, inner(0), PACKET);
                world.run(TICK.div_f64(1.2));
                tell(&mut world, 1);
            }
            assert!(world.overflowed.len() > 50, "{}", world.overflowed.len());
            world.overflowed.clear();
            for _ in 0..300 {
                tell(&mut world, 0);
                world.run(SECOND / 10);
            }
        }
        let moved = world.hosts[0].events.iter().filter(|(at, e)| *at >= begin && matches!(e, Event::Route(_)));
        assert_eq!(moved.map(|e| format!("{e:?}")).collect::<Vec<_>>(), Vec::<String>::new(), "{seed}");
    }
}

#[test]
fn a_suspicion_ends_well_before_what_is_not_spoken_of_is_down() {
    // Hand-overs come each 100 ms and a tick, and a member that is called 250 ms late says that it stood still.
    let timeout = settings(0, 2).rules().link_timeout;
    assert!(link_state::SUSPICION_LIFETIME + Duration::from_millis(500) <= timeout, "{timeout:?}");
}

#[test]
fn a_burst_of_losses_that_nobody_owns_to_takes_no_link_away() {
    // From the first member over the third to the second, who says that nothing is lost on its link. As punctual as no
    // member is, and as late as they are.
    for late in [0, 100, 300, 1000, 5000] {
        let mut world = World::new(3);
        world.late = Duration::from_micros(late);
        world.set(0, 1, None);
        let praise = |c: LinkAdvertisement| LinkAdvertisement { loss: 0.0, low: 0.0, high: 1e-6, ..c };
        world.lies = Some(liars::Lies { by: 1, advertisement: praise, ..liars::NONE });
        world.run(5 * SECOND);
        world.set(2, 1, Some(Wire { loss: 0.3, ..WIRE }));
        world.flow(0, 1, SECOND);
        world.set(2, 1, Some(WIRE));
        let end = world.now;
        let (sent, arrived) = world.flow(0, 1, 10 * SECOND);
        assert_eq!(
            (sent, arrived),
            (2000, 2000),
            "what is lost no more is taken for nothing else than before ({late})"
        );
        let moved = world.hosts[0].events.iter().filter(|(at, e)| *at >= end && matches!(e, Event::Route(_)));
        assert_eq!(moved.map(|e| format!("{e:?}")).collect::<Vec<_>>(), Vec::<String>::new());
    }
}

#[test]
fn a_queue_that_overflows_far_before_the_end_is_told_of_is_not_blamed_on_others() {
    // What is lost in the first hop is known from the relay, and 540 ms later from the end.
    for seed in [10, 30, 50, 70, 90] {
        let mut world = domestic(Duration::from_millis(270), seed);
        world.run(5 * SECOND);
        for (share, seconds) in [(1.5, 3), (0.9, 3)] {
            let end = world.now + seconds * SECOND;
            while world.now < end {
                world.send_packet(0, 3, inner(0), PACKET);
                world.run(TICK.div_f64(share));
                world.seen.clear();
                assert!(world.hosts[0].core.link_state.suspected.is_empty(), "{seed}");
            }
        }
        assert!(world.overflowed.len() > 200, "{}", world.overflowed.len());
    }
}

#[test]
fn the_end_of_a_way_cannot_have_losses_put_down_to_a_link_between_others() {
    // Over two relays; the last link loses half, and the end says that it is down.
    let mut world = World::new(4);
    for (a, b) in [(0, 1), (0, 3), (1, 2)] {
        world.set(a, b, None);
    }
    world.run(5 * SECOND);
    assert_eq!(world.hosts[0].core.routes(number(1)).first().map(|w| w.path.relays().len()), Some(2));
    world.set(3, 1, Some(Wire { loss: 0.5, ..WIRE }));
    for _ in 0..10 {
        world.flow(0, 1, Duration::from_millis(100));
        let now = world.now;
        world.hosts[0].core.on_advertisement(now, (number(3), number(1)), None, u64::MAX);
        assert!(!world.hosts[0].core.link_state.suspected.contains_key(&(number(2), number(3))));
    }
}
