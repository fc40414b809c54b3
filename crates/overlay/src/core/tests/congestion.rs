//! Stability of routes beside a flow that congests a hop of its route.

use std::collections::{BTreeMap, VecDeque};

use super::*;

const RATE: u64 = 5_000_000;
/// Bytes of a packet, and with the headers of frame, envelope, UDP and IPv4.
const PACKET: usize = 1300;
const WIRE_BYTES: usize = PACKET + 40 + 56 + 28;
/// Transmission time of a packet.
const TICK: Duration = Duration::from_nanos(WIRE_BYTES as u64 * 8_000_000_000 / RATE);
/// Queue limit of a link in packets: 0.57 s, as 1000 packets at 20 Mb/s.
const QUEUE: u32 = 250;
/// Bytes of an acknowledgement: IPv4 and TCP with timestamps.
const ACKNOWLEDGEMENT: usize = 52;
/// Round trip time of a flow on an idle path: twice 10 ms, and queueing in its own host.
const IDLE_RTT: Duration = Duration::from_millis(150);

/// A sender with the window of CUBIC (RFC 9438). It detects a loss after two round trips: the kernel's CUBIC, with this
/// queue at 20 Mb/s and a round trip time of 0.75 s, overflows the queue for 1.3 s every 6 to 20 s, and loses a tenth
/// of its packets meanwhile.
struct Sender {
    sent: usize,
    /// Detected losses.
    lost: usize,
    /// Detection times of further losses.
    losses: VecDeque<Instant>,
    recovers_until: Instant,
    /// Packets: the window at the last reduction, and the plateau of the cubic function.
    reached: f64,
    plateau: f64,
    lowered: Instant,
}

impl Sender {
    fn new(now: Instant) -> Self {
        let (reached, losses) = (f64::from(QUEUE), VecDeque::new());
        Self { sent: 0, lost: 0, losses, recovers_until: now, reached, plateau: reached, lowered: now }
    }

    /// The number of packets that it may send now.
    fn room(&mut self, now: Instant, rtt: Duration, arrived: usize) -> usize {
        while self.losses.pop_front_if(|at| *at <= now).is_some() {
            self.lost += 1;
            if now >= self.recovers_until {
                self.lower(now, rtt);
            }
        }
        (self.window(now, rtt) as usize).saturating_sub(self.sent - arrived - self.lost)
    }

    /// Section 4.7, fast convergence.
    fn lower(&mut self, now: Instant, rtt: Duration) {
        let window = self.window(now, rtt);
        self.plateau = if window < self.reached { 0.85 * window } else { window };
        (self.reached, self.lowered, self.recovers_until) = (window, now, now + rtt);
    }

    /// Section 4.2, equations 1 and 2 with C = 0.4 and beta = 0.7, one round trip ahead.
    fn window(&self, now: Instant, rtt: Duration) -> f64 {
        let k = ((self.plateau - 0.7 * self.reached) / 0.4).cbrt();
        let passed = now.saturating_since(self.lowered) + rtt;
        self.plateau + 0.4 * (passed.as_secs_f64() - k).powi(3)
    }
}

/// The paper's *Domestic* with slow links: from the first member to the last over one of two relays. The second hop has
/// a delay of `second_hop`.
fn domestic(second_hop: Duration, seed: u64) -> World {
    domestic_of(true, second_hop, seed)
}

fn domestic_of(single_path: bool, second_hop: Duration, seed: u64) -> World {
    let mut world = World::new(4);
    let now = world.now;
    for index in 0..4 {
        let settings = Settings { single_path, capacity: Some(Rate::from_bps(RATE)), ..settings(index, 4) };
        world.hosts[index] = Host::new(settings, seed + index as u64, now);
    }
    for (a, b, delay) in [(0, 1, WIRE.delay), (0, 2, WIRE.delay), (1, 3, second_hop), (2, 3, second_hop)] {
        world.set(a, b, Some(Wire { delay, rate: Some(RATE), queue: TICK * QUEUE, ..WIRE }));
    }
    world.set(0, 3, None);
    world.set(1, 2, None);
    world
}

/// Reports the flows of each member: one elephant of the first member on a path, and none elsewhere.
fn report_flows(world: &mut World, flow: Path) {
    let now = world.now;
    for (index, host) in world.hosts.iter_mut().enumerate() {
        let paths = |to: usize| host.core.routes(number(to)).iter().map(|w| w.path);
        let flows =
            (0..4).flat_map(paths).map(|path| (path, u32::from(index == 0 && path == flow))).collect::<Vec<_>>();
        host.core.handle_flows(now, &flows);
    }
}

/// Runs a flow from the first to the last member. Returns the numbers of packets sent and dropped by the full queue.
fn fill(world: &mut World, span: Duration) -> (usize, usize) {
    let datagram = world.sealed_packet(0, 3, 0, ipv4(inner(0), inner(3), PACKET)).unwrap().1.len();
    let (mut sender, before, end) = (Sender::new(world.now), world.hosts[3].delivered.len(), world.now + span);
    let (mut report_due, mut dropped, mut acknowledged) = (world.now, 0, 0);
    while world.now < end {
        let now = world.now;
        let path = world.hosts[0].core.routes(number(3))[0].path;
        let hop = (1..3).find(|i| number(*i) == path.first_hop()).unwrap();
        let waits_for = |link| world.busy_until.get(&link).map_or(Duration::ZERO, |until| until.saturating_since(now));
        let waits = waits_for((0, hop)) + waits_for((hop, 3));
        let arrived = world.hosts[3].delivered.len() - before;
        // At most ten at a time, as in a super-packet.
        for _ in 0..sender.room(now, waits + IDLE_RTT, arrived).min(10) {
            sender.sent += usize::from(world.send_packet(0, 3, inner(0), PACKET));
        }
        // Every second packet is acknowledged (RFC 5681, section 4.2).
        for _ in acknowledged..arrived / 2 {
            world.send_packet(3, 0, inner(3), ACKNOWLEDGEMENT);
        }
        acknowledged = arrived / 2;
        let full = world.overflowed.drain(..).filter(|d| d.len() == datagram).count();
        sender.losses.extend(std::iter::repeat_n(now + 2 * (waits + IDLE_RTT), full));
        dropped += full;
        if now >= report_due {
            report_due = now + Duration::from_millis(50);
            report_flows(world, path);
            assert!(
                world.hosts[0].core.link_state.suspected.is_empty(),
                "losses on the first hop are attributed to another link"
            );
        }
        world.run(TICK);
        world.capture.clear();
    }
    (sender.sent, dropped)
}

#[test]
fn a_flow_that_overflows_its_queue_for_ten_minutes_changes_no_route() {
    let mut world = domestic(Duration::ZERO, 10);
    world.run(5 * SECOND);
    let start = world.now;
    let (sent, dropped) = fill(&mut world, 600 * SECOND);
    // At least nine tenths of the link and some drops every 20 s: a lower load could not change a route.
    assert!(sent as f64 * TICK.as_secs_f64() > 0.9 * 600.0, "{sent}");
    assert!(dropped > 30 * 10, "{dropped} of {sent}");
    let changes = world.hosts[0].events.iter().filter(|(at, e)| *at >= start && matches!(e, Event::Route(_)));
    assert_eq!(changes.map(|e| format!("{e:?}")).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn a_stall_of_the_machine_during_a_packet_train_changes_no_route() {
    // The stalled member only acknowledges. Ten packets take 23 ms, and 63 ms with a stall.
    for seed in [10, 30, 50] {
        let mut world = domestic(Duration::ZERO, seed);
        world.run(5 * SECOND);
        world.stall = Some((3, Duration::from_millis(40)));
        let start = world.now;
        fill(&mut world, 200 * SECOND);
        assert!(
            world.train_counts.len() == 2 && world.train_counts.values().all(|count| *count >= 9),
            "fewer than three stalls on each link: {:?}",
            world.train_counts
        );
        let changes = world.hosts[3].events.iter().filter(|(at, e)| *at >= start && matches!(e, Event::Route(_)));
        assert_eq!(changes.map(|e| format!("{e:?}")).collect::<Vec<_>>(), Vec::<String>::new(), "{seed}");
    }
}

#[test]
fn replies_lost_in_a_full_queue_take_down_no_link_and_change_no_route() {
    for seed in [10, 30, 50, 70, 90] {
        let mut world = domestic_of(false, Duration::ZERO, seed);
        world.run(30 * SECOND);
        let start = world.now;
        let (_, dropped) = fill(&mut world, 60 * SECOND);
        assert!(dropped > 150, "{dropped}");
        assert_eq!(disturbances(&world, start, 0..4), Vec::<String>::new(), "{seed}");
    }
}

#[test]
fn a_relay_between_two_full_queues_takes_no_link_down() {
    // The relay's probes wait in one queue whatever the path, and the replies are dropped in the other. Both queues
    // take some minutes to fill.
    for seed in [1080, 1100, 1200, 1260] {
        let mut world = domestic_of(false, Duration::ZERO, seed);
        world.run(30 * SECOND);
        let start = world.now;
        let (_, dropped) = fill(&mut world, 200 * SECOND);
        assert!(dropped > 500, "{dropped}");
        assert_eq!(disturbances(&world, start, [0, 3]), Vec::<String>::new(), "{seed}");
    }
}

/// Links that went down since a time, and changes of the best routes of some members.
fn disturbances(world: &World, start: Instant, of: impl IntoIterator<Item = usize> + Clone) -> Vec<String> {
    let is_disturbance = |index: usize, e: &Event| {
        let is_changed = matches!(e, Event::Route(d) if d.place == 0 && of.clone().into_iter().any(|i| i == index));
        is_changed || matches!(e, Event::Link { up: false, .. })
    };
    let of_all =
        world.hosts.iter().enumerate().flat_map(|(index, h)| h.events.iter().map(move |(at, e)| (index, at, e)));
    let found = of_all.filter(|(index, at, e)| **at >= start && is_disturbance(*index, e));
    found.map(|e| format!("{e:?}")).collect()
}

#[test]
fn members_without_traffic_avoid_a_congested_link_at_most_once() {
    for seed in [10, 30, 50, 70, 90] {
        // The links of the first member are faster: the queue of the second hop fills.
        let mut world = domestic_of(false, Duration::ZERO, seed);
        for relay in 1..3 {
            world.set(0, relay, Some(Wire { rate: Some(4 * RATE), ..WIRE }));
        }
        world.run(30 * SECOND);
        let start = world.now;
        let (_, dropped) = fill(&mut world, 120 * SECOND);
        assert!(dropped > 300, "{dropped}");
        for (index, host) in world.hosts.iter().enumerate() {
            let mut changes = BTreeMap::new();
            for (_, event) in host.events.iter().filter(|(at, _)| *at >= start) {
                let Event::Route(decision) = event else { continue };
                *changes.entry((decision.destination, decision.place)).or_insert(0) += 1;
            }
            // On another path a relay would get more than a share of that link, and stays there. An additional path
            // over the link is abandoned, and selected again once.
            let is_relay = index == 1 || index == 2;
            let limit = |place: usize| if is_relay { [1, 2][place] } else { 0 };
            assert!(changes.iter().all(|((_, place), count)| *count <= limit(*place)), "{seed}, {index}: {changes:?}");
        }
    }
}

#[test]
fn with_two_routes_a_flow_that_overflows_one_of_them_changes_neither() {
    for seed in [10, 50] {
        let mut world = domestic_of(false, Duration::ZERO, seed);
        world.run(30 * SECOND);
        assert_eq!(world.hosts[0].core.routes(number(3)).len(), 2);
        let start = world.now;
        let (_, dropped) = fill(&mut world, 300 * SECOND);
        assert!(dropped > 150, "{dropped}");
        let changes = world.hosts[0].events.iter().filter(|(at, e)| *at >= start && matches!(e, Event::Route(_)));
        assert_eq!(changes.map(|e| format!("{e:?}")).collect::<Vec<_>>(), Vec::<String>::new(), "{seed}");
    }
}

#[test]
fn flows_that_end_with_an_overflow_change_no_route() {
    for seed in [10, 30, 50, 70, 90] {
        let mut world = domestic(Duration::ZERO, seed);
        world.run(5 * SECOND);
        let start = world.now;
        for _ in 0..3 {
            fill(&mut world, 15 * SECOND);
            let report_elephants = |w: &mut World, elephants: u32| {
                let (now, path) = (w.now, w.hosts[0].core.routes(number(3))[0].path);
                w.hosts[0].core.handle_flows(now, &[(path, elephants)]);
                w.capture.clear();
            };
            // Slow start overshoots, and the flow ends.
            let end = world.now + 2 * SECOND;
            while world.now < end {
                world.send_packet(0, 3, inner(0), PACKET);
                world.run(TICK.div_f64(1.2));
                report_elephants(&mut world, 1);
            }
            assert!(world.overflowed.len() > 50, "{}", world.overflowed.len());
            world.overflowed.clear();
            for _ in 0..300 {
                report_elephants(&mut world, 0);
                world.run(SECOND / 10);
            }
        }
        let changes = world.hosts[0].events.iter().filter(|(at, e)| *at >= start && matches!(e, Event::Route(_)));
        assert_eq!(changes.map(|e| format!("{e:?}")).collect::<Vec<_>>(), Vec::<String>::new(), "{seed}");
    }
}

#[test]
fn a_suspicion_expires_well_before_the_link_timeout() {
    // Reports are due every 100 ms and a tick, and a member whose timer is 250 ms late reports a stall.
    let timeout = settings(0, 2).rules().link_timeout;
    assert!(link_state::SUSPICION_LIFETIME + Duration::from_millis(500) <= timeout, "{timeout:?}");
}

#[test]
fn an_unattributed_burst_of_losses_takes_down_no_link() {
    // From the first member over the third to the second, which advertises its link without loss. Timers are exact, or
    // late as on real hosts.
    for late in [0, 100, 300, 1000, 5000] {
        let mut world = World::new(3);
        world.timer_delay = Duration::from_micros(late);
        world.set(0, 1, None);
        let claim_no_loss = |c: LinkAdvertisement| LinkAdvertisement { loss: 0.0, low: 0.0, high: 1e-6, ..c };
        world.false_reports =
            Some(false_reports::FalseReports { by: 1, advertisement: claim_no_loss, ..false_reports::NONE });
        world.run(5 * SECOND);
        world.set(2, 1, Some(Wire { loss: 0.3, ..WIRE }));
        world.flow(0, 1, SECOND);
        world.set(2, 1, Some(WIRE));
        let end = world.now;
        let (sent, arrived) = world.flow(0, 1, 10 * SECOND);
        assert_eq!((sent, arrived), (2000, 2000), "losses after the burst, with timers {late} us late");
        let changes = world.hosts[0].events.iter().filter(|(at, e)| *at >= end && matches!(e, Event::Route(_)));
        assert_eq!(changes.map(|e| format!("{e:?}")).collect::<Vec<_>>(), Vec::<String>::new());
    }
}

#[test]
fn an_overflow_of_the_first_hop_is_attributed_to_no_later_link() {
    // The relay reports losses on the first hop 540 ms before the destination does.
    for seed in [10, 30, 50, 70, 90] {
        let mut world = domestic(Duration::from_millis(270), seed);
        world.run(5 * SECOND);
        for (share, seconds) in [(1.5, 3), (0.9, 3)] {
            let end = world.now + seconds * SECOND;
            while world.now < end {
                world.send_packet(0, 3, inner(0), PACKET);
                world.run(TICK.div_f64(share));
                world.capture.clear();
                assert!(world.hosts[0].core.link_state.suspected.is_empty(), "{seed}");
            }
        }
        assert!(world.overflowed.len() > 200, "{}", world.overflowed.len());
    }
}

#[test]
fn a_destination_cannot_attribute_losses_to_a_link_between_others() {
    // Over two relays; the last link loses half, and the destination advertises it as down.
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
