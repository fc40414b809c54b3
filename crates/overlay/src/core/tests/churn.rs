//! Members that come, go, die and begin anew, and links that go dark and lose: handshakes, gossip and route control of
//! all of them together.

use std::collections::BTreeSet;

use super::*;

/// Something happens so often, and is over after 5 to 60 s.
const TURN: Duration = Duration::from_secs(12);
/// Of a turn, what all may take to find their ways: who begins anew and waits for a link that is dark decides after a
/// second, and calls those beyond it then; an answer that is lost costs another second or two.
const SETTLE: Duration = Duration::from_secs(5);
const PACKETS: Duration = Duration::from_millis(40);

/// Members around a circle, each with links to those that are so many places away.
#[derive(Clone, Copy)]
struct Circle {
    members: usize,
    strides: &'static [usize],
}

impl Circle {
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

/// What is not as it was at the begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Caveat {
    Dark(usize, usize),
    Lossy(usize, usize),
    Dead(usize),
    Left(usize),
}

struct Life {
    circle: Circle,
    world: World,
    prng: Prng,
    caveats: BTreeMap<Caveat, Instant>,
}

impl Life {
    fn new(circle: Circle, seed: u64) -> Self {
        let mut world = World::new(circle.members);
        let now = world.now;
        world.prng = Prng::new(seed);
        for index in 0..circle.members {
            world.hosts[index] = Host::new(circle.member(index), seed + index as u64, now);
        }
        Self { circle, world, prng: Prng::new(seed + 1), caveats: BTreeMap::new() }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.prng.number() as usize % bound
    }

    /// What has lasted long enough is over, and something else begins.
    fn happen(&mut self) {
        let now = self.world.now;
        let over: Vec<Caveat> = self.caveats.iter().filter(|(_, until)| **until <= now).map(|(t, _)| *t).collect();
        over.into_iter().for_each(|caveat| self.end(caveat));
        let one = self.below(self.circle.members);
        let peer = (one + self.circle.strides[self.below(self.circle.strides.len())]) % self.circle.members;
        let (a, b) = (one.min(peer), one.max(peer));
        let caveat = match self.below(6) {
            0 | 1 => Caveat::Dark(a, b),
            2 | 3 => Caveat::Lossy(a, b),
            4 => Caveat::Dead(a),
            _ => Caveat::Left(a),
        };
        let concerns = |t: &Caveat| match *t {
            Caveat::Dark(x, y) | Caveat::Lossy(x, y) => (x, y) == (a, b),
            Caveat::Dead(x) | Caveat::Left(x) => x == a,
        };
        if !self.caveats.keys().any(concerns) {
            self.begin(caveat);
            let lasts = SECOND.mul_f64(5.0 + 55.0 * self.prng.unit());
            self.caveats.insert(caveat, now + lasts);
        }
    }

    fn begin(&mut self, caveat: Caveat) {
        let now = self.world.now;
        match caveat {
            Caveat::Dark(a, b) => self.world.set(a, b, None),
            Caveat::Lossy(a, b) => self.world.set(a, b, Some(Wire { loss: 0.3, ..WIRE })),
            Caveat::Dead(a) => self.world.hosts[a].is_dead = true,
            Caveat::Left(a) => {
                self.world.hosts[a].core.announce_departure(now);
                self.world.settle(a);
                self.world.hosts[a].is_dead = true;
            }
        }
    }

    fn end(&mut self, caveat: Caveat) {
        self.caveats.remove(&caveat);
        match caveat {
            Caveat::Dark(a, b) | Caveat::Lossy(a, b) => self.world.set(a, b, Some(WIRE)),
            Caveat::Dead(a) | Caveat::Left(a) => {
                let seed = u64::from(self.prng.number());
                self.world.hosts[a] = Host::new(self.circle.member(a), seed, self.world.now);
            }
        }
    }

    /// Whether there is a way without losses, over three relays at most.
    fn has_clean_way(&self, from: usize, to: usize) -> bool {
        let is_clean = |a: usize, b: usize| {
            let pair = (a.min(b), a.max(b));
            let is_troubled = |t: &&Caveat| matches!(t, Caveat::Dark(x, y) | Caveat::Lossy(x, y) if (*x, *y) == pair);
            self.circle.is_neighbour(a, b)
                && !self.world.hosts[b].is_dead
                && !self.caveats.keys().any(|t| is_troubled(&t))
        };
        let mut reached = BTreeSet::from([from]);
        for _ in 0..4 {
            let further =
                (0..self.circle.members).filter(|b| reached.iter().any(|a| is_clean(*a, *b))).collect::<Vec<_>>();
            reached.extend(further);
        }
        !self.world.hosts[from].is_dead && reached.contains(&to)
    }

    /// Each member sends to another one far from it; gives how many packets of each were sent and did not arrive.
    fn flows(&mut self, span: Duration) -> Vec<(usize, usize, usize, usize)> {
        let pairs: Vec<(usize, usize)> = (0..self.circle.members)
            .map(|from| (from, (from + self.circle.members / 2) % self.circle.members))
            .collect();
        self.world.hosts.iter_mut().for_each(|h| h.delivered.clear());
        let (mut sent, end) = (vec![0; self.circle.members], self.world.now + span);
        while self.world.now < end {
            for (from, to) in &pairs {
                // Who has no way keeps it: that packet is lost, too.
                sent[*from] += usize::from(!self.world.hosts[*from].is_dead);
                self.world.send_packet(*from, *to, inner(*from), 200);
            }
            self.world.run(PACKETS);
            self.world.seen.clear();
        }
        self.world.run(Duration::from_millis(200));
        let lost = |(from, to): (usize, usize)| {
            let IpAddr::V4(source) = inner(from) else { panic!("IPv4") };
            let arrived = self.world.hosts[to].delivered.iter().filter(|p| p[12..16] == source.octets()).count();
            (from, to, sent[from], sent[from] - arrived.min(sent[from]))
        };
        pairs.into_iter().map(lost).collect()
    }

    /// Nothing is kept of what is gone.
    fn is_bounded(&self) {
        for host in self.world.hosts.iter().filter(|h| !h.is_dead) {
            let links = 2 * self.circle.strides.len() * self.circle.members;
            assert!(host.core.link_state.len() <= links, "{}", host.core.link_state.len());
            assert!(host.core.link_state.suspected.len() <= links, "{}", host.core.link_state.suspected.len());
            assert!(host.core.net.peers.values().all(|o| o.sessions.len() <= peer::SESSIONS_MAX));
            // Its links, that they hold, and no more for links that were.
            assert!(host.core.gossip.records() <= links * 3 / 2, "{}", host.core.gossip.records());
        }
    }
}

/// So many turns, after which all is made as it was at the begin.
fn live(circle: Circle, seed: u64, turns: usize) {
    let mut life = Life::new(circle, seed);
    life.world.run(10 * SECOND);
    let (mut lost, mut counted, mut seen) = (Vec::new(), 0, BTreeSet::new());
    for _ in 0..turns {
        life.happen();
        seen.extend(life.caveats.keys().copied());
        life.flows(SETTLE);
        for (from, to, sent, missing) in life.flows(TURN - SETTLE) {
            if life.has_clean_way(from, to) {
                counted += sent;
                lost.extend((missing > 0).then(|| (life.world.now, from, to, (missing, sent), life.caveats.clone())));
            }
        }
        life.is_bounded();
    }
    assert!(counted > turns * circle.members * 100 && 2 * seen.len() > turns, "{counted}, {seen:?}");
    // Who finds its way lost takes what it knows of at that moment, and may keep a lossy one for the hold-down of 10 s,
    // or until a link has been back for 8 to 16 s.
    let all: usize = lost.iter().map(|l| l.3.0).sum();
    assert!(all * 1000 < counted && lost.iter().all(|l| l.3.0 * 3 < l.3.1), "{all} of {counted}: {lost:#?}");
    let rest: Vec<Caveat> = life.caveats.keys().copied().collect();
    rest.into_iter().for_each(|caveat| life.end(caveat));
    life.flows(SETTLE);
    assert!(life.flows(TURN).iter().all(|(_, _, sent, missing)| *sent >= 300 && *missing == 0));
    for (a, b) in (0..circle.members).flat_map(|a| (0..circle.members).map(move |b| (a, b))) {
        assert!(!circle.is_neighbour(a, b) || life.world.hosts[a].is_linked(b), "{a} {b}");
    }
}

#[test]
fn packets_find_their_way_while_members_and_links_come_and_go() {
    live(Circle { members: 12, strides: &[1, 4] }, 2008, 50);
}

#[test]
fn a_larger_network_finds_its_ways_all_the_same() {
    live(Circle { members: 30, strides: &[1, 4, 9] }, 1971, 6);
}

#[test]
fn nobody_is_blamed_for_the_silence_of_the_dead() {
    // From the first member over the third and the fourth to the second.
    let mut world = World::new(4);
    for (a, b) in [(0, 1), (0, 3), (1, 2)] {
        world.set(a, b, None);
    }
    world.run(5 * SECOND);
    assert_eq!(world.hosts[0].core.routes(number(1)).first().map(|w| w.path.relays().len()), Some(2));
    world.flow(0, 1, SECOND);
    world.hosts[1].is_dead = true;
    // Its neighbour notices within half a second and a round trip; the sender may be in doubt for a moment before it
    // hears of that.
    world.flow(0, 1, 2 * SECOND);
    let since = world.now;
    assert_eq!(world.hosts[0].paths(1), Vec::<String>::new());
    for _ in 0..100 {
        world.flow(0, 1, Duration::from_millis(100));
        assert!(world.hosts[0].core.link_state.suspected.is_empty(), "{:?}", world.now.saturating_since(since));
    }
    let is_route =
        |(at, e): &&(Instant, Event)| *at >= since && matches!(e, Event::Route(d) if d.destination == number(3));
    assert_eq!(world.hosts[0].events.iter().filter(is_route).count(), 0, "the way to the fourth is as good as it was");
}
