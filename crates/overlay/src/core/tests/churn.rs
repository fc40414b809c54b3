//! Handshakes, gossip and route control together while members join, leave, fail and restart, and links fail and lose
//! packets.

use std::collections::BTreeSet;

use super::*;

/// Interval between two failures. Each lasts for 5 to 60 s.
const INTERVAL: Duration = Duration::from_secs(12);
/// Share of an interval for convergence. A restarted member that waits for a failed link selects routes after a second
/// and initiates handshakes with members behind it then; a lost response costs another second or two.
const CONVERGENCE: Duration = Duration::from_secs(5);
const PACKET_INTERVAL: Duration = Duration::from_millis(40);

/// Members on a ring, each with links to the members at these distances.
#[derive(Clone, Copy)]
struct Ring {
    members: usize,
    strides: &'static [usize],
}

impl Ring {
    fn is_neighbour(&self, a: usize, b: usize) -> bool {
        let away = a.abs_diff(b);
        self.strides.iter().any(|s| away == *s || away == self.members - s)
    }

    fn member(&self, index: usize) -> Settings {
        let settings = Settings { capacity: Some(Rate::from_bps(2_000_000)), ..settings(index, self.members) };
        settings.members.change(|all| {
            for peer in (0..self.members).filter(|o| !self.is_neighbour(index, *o)) {
                all.entry(number(peer)).and_modify(|m| m.direct = false);
            }
        });
        settings
    }
}

/// A failure that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Failure {
    Down(usize, usize),
    Lossy(usize, usize),
    Stopped(usize),
    Left(usize),
}

struct Churn {
    ring: Ring,
    world: World,
    prng: Prng,
    failures: BTreeMap<Failure, Instant>,
}

impl Churn {
    fn new(ring: Ring, seed: u64) -> Self {
        let mut world = World::new(ring.members);
        let now = world.now;
        world.prng = Prng::new(seed);
        for index in 0..ring.members {
            world.hosts[index] = Host::new(ring.member(index), seed + index as u64, now);
        }
        Self { ring, world, prng: Prng::new(seed + 1), failures: BTreeMap::new() }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.prng.number() as usize % bound
    }

    /// Ends the failures that are over, and starts another one.
    fn step(&mut self) {
        let now = self.world.now;
        let over: Vec<Failure> = self.failures.iter().filter(|(_, until)| **until <= now).map(|(t, _)| *t).collect();
        over.into_iter().for_each(|failure| self.end(failure));
        let one = self.below(self.ring.members);
        let peer = (one + self.ring.strides[self.below(self.ring.strides.len())]) % self.ring.members;
        let (a, b) = (one.min(peer), one.max(peer));
        let failure = match self.below(6) {
            0 | 1 => Failure::Down(a, b),
            2 | 3 => Failure::Lossy(a, b),
            4 => Failure::Stopped(a),
            _ => Failure::Left(a),
        };
        let concerns = |t: &Failure| match *t {
            Failure::Down(x, y) | Failure::Lossy(x, y) => (x, y) == (a, b),
            Failure::Stopped(x) | Failure::Left(x) => x == a,
        };
        if !self.failures.keys().any(concerns) {
            self.start(failure);
            let duration = SECOND.mul_f64(5.0 + 55.0 * self.prng.unit());
            self.failures.insert(failure, now + duration);
        }
    }

    fn start(&mut self, failure: Failure) {
        let now = self.world.now;
        match failure {
            Failure::Down(a, b) => self.world.set(a, b, None),
            Failure::Lossy(a, b) => self.world.set(a, b, Some(Wire { loss: 0.3, ..WIRE })),
            Failure::Stopped(a) => self.world.hosts[a].is_dead = true,
            Failure::Left(a) => {
                self.world.hosts[a].core.announce_departure(now);
                self.world.process_outputs(a);
                self.world.hosts[a].is_dead = true;
            }
        }
    }

    fn end(&mut self, failure: Failure) {
        self.failures.remove(&failure);
        match failure {
            Failure::Down(a, b) | Failure::Lossy(a, b) => self.world.set(a, b, Some(WIRE)),
            Failure::Stopped(a) | Failure::Left(a) => {
                let seed = u64::from(self.prng.number());
                self.world.hosts[a] = Host::new(self.ring.member(a), seed, self.world.now);
            }
        }
    }

    /// Whether a path without loss exists, over at most three relays.
    fn has_clean_path(&self, from: usize, to: usize) -> bool {
        let is_clean = |a: usize, b: usize| {
            let pair = (a.min(b), a.max(b));
            let is_impaired =
                |t: &&Failure| matches!(t, Failure::Down(x, y) | Failure::Lossy(x, y) if (*x, *y) == pair);
            self.ring.is_neighbour(a, b)
                && !self.world.hosts[b].is_dead
                && !self.failures.keys().any(|t| is_impaired(&t))
        };
        let mut reached = BTreeSet::from([from]);
        for _ in 0..4 {
            let next = (0..self.ring.members).filter(|b| reached.iter().any(|a| is_clean(*a, *b))).collect::<Vec<_>>();
            reached.extend(next);
        }
        !self.world.hosts[from].is_dead && reached.contains(&to)
    }

    /// Each member sends to the opposite member of the ring. Returns for each flow its ends and the numbers of packets
    /// sent and lost.
    fn flows(&mut self, span: Duration) -> Vec<(usize, usize, usize, usize)> {
        let pairs: Vec<(usize, usize)> =
            (0..self.ring.members).map(|from| (from, (from + self.ring.members / 2) % self.ring.members)).collect();
        self.world.hosts.iter_mut().for_each(|h| h.delivered.clear());
        let (mut sent, end) = (vec![0; self.ring.members], self.world.now + span);
        while self.world.now < end {
            for (from, to) in &pairs {
                // A packet without a route counts as lost.
                sent[*from] += usize::from(!self.world.hosts[*from].is_dead);
                self.world.send_packet(*from, *to, inner(*from), 200);
            }
            self.world.run(PACKET_INTERVAL);
            self.world.capture.clear();
        }
        self.world.run(Duration::from_millis(200));
        let lost = |(from, to): (usize, usize)| {
            let IpAddr::V4(source) = inner(from) else { panic!("IPv4") };
            let arrived = self.world.hosts[to].delivered.iter().filter(|p| p[12..16] == source.octets()).count();
            (from, to, sent[from], sent[from] - arrived.min(sent[from]))
        };
        pairs.into_iter().map(lost).collect()
    }

    /// Checks that no state of removed links and sessions remains.
    fn assert_bounded(&self) {
        for host in self.world.hosts.iter().filter(|h| !h.is_dead) {
            let links = 2 * self.ring.strides.len() * self.ring.members;
            assert!(host.core.link_state.len() <= links, "{}", host.core.link_state.len());
            assert!(host.core.link_state.suspected.len() <= links, "{}", host.core.link_state.suspected.len());
            assert!(host.core.net.peers.values().all(|o| o.sessions.len() <= peer::SESSIONS_MAX));
            // Records of current links, with a margin for removed ones that have not expired.
            assert!(host.core.gossip.records() <= links * 3 / 2, "{}", host.core.gossip.records());
        }
    }
}

/// Runs a number of intervals, and then ends all failures.
fn run(ring: Ring, seed: u64, intervals: usize) {
    let mut churn = Churn::new(ring, seed);
    churn.world.run(10 * SECOND);
    let (mut lost, mut counted, mut seen) = (Vec::new(), 0, BTreeSet::new());
    for _ in 0..intervals {
        churn.step();
        seen.extend(churn.failures.keys().copied());
        churn.flows(CONVERGENCE);
        for (from, to, sent, missing) in churn.flows(INTERVAL - CONVERGENCE) {
            if churn.has_clean_path(from, to) {
                counted += sent;
                lost.extend(
                    (missing > 0).then(|| (churn.world.now, from, to, (missing, sent), churn.failures.clone())),
                );
            }
        }
        churn.assert_bounded();
    }
    assert!(counted > intervals * ring.members * 100 && 2 * seen.len() > intervals, "{counted}, {seen:?}");
    // After the loss of a route, a member selects the best path known at that moment. It may keep a lossy one for the
    // hold-down of 10 s, or until a link has been up for 8 to 16 s.
    let all: usize = lost.iter().map(|l| l.3.0).sum();
    assert!(all * 1000 < counted && lost.iter().all(|l| l.3.0 * 3 < l.3.1), "{all} of {counted}: {lost:#?}");
    let rest: Vec<Failure> = churn.failures.keys().copied().collect();
    rest.into_iter().for_each(|failure| churn.end(failure));
    churn.flows(CONVERGENCE);
    assert!(churn.flows(INTERVAL).iter().all(|(_, _, sent, missing)| *sent >= 300 && *missing == 0));
    for (a, b) in (0..ring.members).flat_map(|a| (0..ring.members).map(move |b| (a, b))) {
        assert!(!ring.is_neighbour(a, b) || churn.world.hosts[a].is_linked(b), "{a} {b}");
    }
}

#[test]
fn packets_are_delivered_while_members_and_links_fail() {
    run(Ring { members: 12, strides: &[1, 4] }, 2008, 50);
}

#[test]
fn packets_are_delivered_in_a_larger_network_under_churn() {
    run(Ring { members: 30, strides: &[1, 4, 9] }, 1971, 6);
}

#[test]
fn a_failed_destination_makes_no_other_link_suspected() {
    // From the first member over the third and the fourth to the second.
    let mut world = World::new(4);
    for (a, b) in [(0, 1), (0, 3), (1, 2)] {
        world.set(a, b, None);
    }
    world.run(5 * SECOND);
    assert_eq!(world.hosts[0].core.routes(number(1)).first().map(|w| w.path.relays().len()), Some(2));
    world.flow(0, 1, SECOND);
    world.hosts[1].is_dead = true;
    // Its neighbour takes the link down after half a second and a round trip. Until that advertisement arrives, the
    // sender may suspect a link.
    world.flow(0, 1, 2 * SECOND);
    let since = world.now;
    assert_eq!(world.hosts[0].paths(1), Vec::<String>::new());
    for _ in 0..100 {
        world.flow(0, 1, Duration::from_millis(100));
        assert!(world.hosts[0].core.link_state.suspected.is_empty(), "{:?}", world.now.saturating_since(since));
    }
    let is_route =
        |(at, e): &&(Instant, Event)| *at >= since && matches!(e, Event::Route(d) if d.destination == number(3));
    assert_eq!(
        world.hosts[0].events.iter().filter(is_route).count(),
        0,
        "the route to the fourth member does not change"
    );
}
