//! A day with a hundred members that come and go.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use route::{Control, Event, Fronts, Member, Metrics, Path, Policy, Weighted, replay};
use units::{Duration, Instant, Rate};

use crate::draws::Draws;
use crate::net::SOURCE;

const MEMBERS: u32 = 100;
/// Between things that happen, where one member decides; where all do, it takes three times as long.
const STEP: Duration = Duration::from_secs(20);
/// What is gone is back after so long at most.
const GONE: Duration = Duration::from_secs(600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Links that each member makes when it comes.
const DEGREE: u32 = 3;

/// The network as it is in truth.
struct Truth {
    draws: Draws,
    now: Instant,
    step: Duration,
    /// Who is there, and whether it relays.
    members: BTreeMap<Member, bool>,
    /// Who has left and comes back.
    left: BTreeMap<Member, Instant>,
    links: BTreeMap<(Member, Member), Metrics>,
    /// Links that are down and come back.
    down: BTreeMap<(Member, Member), Instant>,
    events: Vec<Event>,
}

impl Truth {
    fn new(seed: u64, step: Duration) -> Self {
        let (members, left, links, down) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (draws, now, events) = (Draws::new(seed), Instant::ZERO, Vec::new());
        let mut truth = Self { draws, now, step, members, left, links, down, events };
        (0..MEMBERS).for_each(|m| truth.join(Member(m)));
        truth
    }

    fn anyone(&mut self) -> Member {
        Member(self.draws.below(MEMBERS))
    }

    fn join(&mut self, member: Member) {
        let relays = self.draws.share() < 0.7;
        self.left.remove(&member);
        self.members.insert(member, relays);
        self.events.push(Event::Member { at: self.now, member, relays: Some(relays) });
        for _ in 0..DEGREE {
            let other = self.anyone();
            if other != member && self.members.contains_key(&other) {
                self.report((member, other));
                self.report((other, member));
            }
        }
    }

    fn leave(&mut self, member: Member) {
        if member == SOURCE || self.members.remove(&member).is_none() {
            return;
        }
        self.links.retain(|(a, b), _| *a != member && *b != member);
        self.down.retain(|(a, b), _| *a != member && *b != member);
        let back = self.back();
        self.left.insert(member, back);
        self.events.push(Event::Member { at: self.now, member, relays: None });
    }

    /// When what goes now is there again.
    fn back(&mut self) -> Instant {
        self.now + GONE.mul_f64(self.draws.share())
    }

    fn report(&mut self, link: (Member, Member)) {
        let capacity = Rate::from_bps(10_u64.pow(6 + self.draws.below(4)));
        let rtt = Duration::from_secs_f64(self.draws.between(0.001, 0.2));
        let loss = 10_f64.powf(self.draws.between(-6.0, -0.7));
        let exact = Metrics::exact(Some(capacity), rtt, loss);
        let metrics = Metrics { loss_low: loss * 0.8, loss_high: loss * 1.2, ..exact };
        self.links.insert(link, metrics);
        self.down.remove(&link);
        self.events.push(Event::Link { at: self.now, from: link.0, to: link.1, metrics: Some(metrics) });
    }

    fn a_link(&mut self) -> Option<(Member, Member)> {
        let at = self.draws.below(self.links.len() as u32) as usize;
        self.links.keys().nth(at).copied()
    }

    /// Something happens.
    fn happen(&mut self) {
        self.now = self.now + self.step;
        let back: Vec<_> = self.down.iter().filter(|(_, until)| **until <= self.now).map(|(link, _)| *link).collect();
        back.into_iter().for_each(|link| self.report(link));
        let back: Vec<_> = self.left.iter().filter(|(_, until)| **until <= self.now).map(|(m, _)| *m).collect();
        back.into_iter().for_each(|member| self.join(member));
        match self.draws.below(10) {
            0 | 4 => {
                let member = self.anyone();
                self.leave(member);
            }
            1 | 2 => {
                let Some(link) = self.a_link() else { return };
                self.links.remove(&link);
                let back = self.back();
                self.down.insert(link, back);
                self.events.push(Event::Link { at: self.now, from: link.0, to: link.1, metrics: None });
            }
            3 => {
                let member = self.anyone();
                let Some(relays) = self.members.get_mut(&member) else { return };
                *relays = !*relays;
                self.events.push(Event::Member { at: self.now, member, relays: Some(*relays) });
            }
            _ => {
                for _ in 0..10 {
                    if let Some(link) = self.a_link() {
                        self.report(link);
                    }
                }
            }
        }
    }

    /// Whether the path of a member exists: each link is up, each relay relays.
    fn has(&self, of: Member, path: &Path) -> bool {
        path.links(of).all(|link| self.links.contains_key(&link))
            && path.relays().iter().all(|m| self.members.get(m) == Some(&true))
    }

    fn neighbours(&self, of: Member) -> impl Iterator<Item = Member> + '_ {
        self.links.range((of, Member(0))..=(of, Member(MEMBERS))).map(|((_, to), _)| *to)
    }

    /// Whom a member can reach over three relays at most.
    fn reached(&self, of: Member) -> BTreeSet<Member> {
        let (mut reached, mut latest) = (BTreeSet::from([of]), vec![of]);
        for _ in 0..4 {
            let passing = latest.iter().filter(|m| **m == of || self.members.get(m) == Some(&true));
            let next: Vec<Member> = passing.flat_map(|m| self.neighbours(*m)).collect();
            latest = next.into_iter().filter(|m| reached.insert(*m)).collect();
        }
        reached.remove(&of);
        reached
    }
}

/// A member of the network: it hears of everything in its order, some time after it happened.
struct Hearer {
    draws: Draws,
    control: Control,
    waiting: VecDeque<(Instant, Event)>,
}

/// Longest time until all have heard of something.
const GOSSIP: Duration = Duration::from_secs(2);

impl Hearer {
    /// One that is new hears of all that is there first.
    fn new(of: Member, truth: &Truth) -> Self {
        // Links that are as they were are not told of again.
        let policy = Policy { link_timeout: 2 * DAY, ..policy() };
        let (draws, control) = (Draws::new(u64::from(of.0)), Control::new(of, policy).unwrap());
        let mut hearer = Self { draws, control, waiting: VecDeque::new() };
        for (member, relays) in &truth.members {
            hearer.learn(truth.now, Event::Member { at: truth.now, member: *member, relays: Some(*relays) });
        }
        for ((from, to), metrics) in &truth.links {
            hearer.learn(truth.now, Event::Link { at: truth.now, from: *from, to: *to, metrics: Some(*metrics) });
        }
        hearer
    }

    fn learn(&mut self, now: Instant, event: Event) {
        let until = now + GOSSIP.mul_f64(self.draws.share());
        let at = self.waiting.back().map_or(until, |(before, _)| until.max(*before));
        let event = match event {
            Event::Member { member, relays, .. } => Event::Member { at, member, relays },
            Event::Link { from, to, metrics, .. } => Event::Link { at, from, to, metrics },
            Event::Load { .. } | Event::Timeout { .. } => event,
        };
        self.waiting.push_back((at, event));
    }

    fn run(&mut self, until: Instant) {
        while let Some((at, event)) = self.waiting.pop_front_if(|(at, _)| *at <= until) {
            self.decide(at);
            self.control.handle(&event).unwrap();
        }
        self.decide(until);
        while self.control.poll_decision().is_some() {}
    }

    fn decide(&mut self, until: Instant) {
        while let Some(due) = self.control.poll_timeout().filter(|due| *due <= until) {
            self.control.handle(&Event::Timeout { at: due }).unwrap();
        }
    }
}

/// Nobody repeats what has not changed; who is not heard of for an hour is gone.
fn policy() -> Policy {
    let policy = Policy { link_timeout: Duration::from_secs(3600), batch: Duration::ZERO, ..Policy::default() };
    Policy { search: Duration::from_secs(600), ..policy }
}

/// Hands over what has happened, and lets time come up to it.
fn tell(control: &mut Control, truth: &mut Truth, log: &mut Vec<Event>) {
    let timeouts = |control: &mut Control, log: &mut Vec<Event>, until: Instant| {
        while let Some(due) = control.poll_timeout().filter(|due| *due <= until) {
            let event = Event::Timeout { at: due };
            control.handle(&event).unwrap();
            log.push(event);
        }
    };
    timeouts(control, log, truth.now);
    for event in truth.events.drain(..) {
        control.handle(&event).unwrap();
        log.push(event);
    }
    timeouts(control, log, truth.now);
}

#[test]
fn through_a_day_of_churn_every_path_exists_and_nothing_piles_up() {
    let mut truth = Truth::new(2008, STEP);
    let mut control = Control::new(SOURCE, policy()).unwrap();
    let (mut log, mut decided) = (Vec::new(), Vec::new());
    let mut most = [0; 2];
    let mut steps = 0;
    while truth.now < Instant::ZERO + DAY {
        tell(&mut control, &mut truth, &mut log);
        decided.extend(std::iter::from_fn(|| control.poll_decision()));
        let destinations: Vec<Member> = control.destinations().collect();
        assert_eq!(destinations, truth.members.keys().copied().filter(|m| *m != SOURCE).collect::<Vec<_>>());
        for destination in &destinations {
            let paths = control.paths(*destination);
            assert!(
                paths.iter().all(|w| w.path.destination() == *destination && truth.has(SOURCE, &w.path)),
                "{paths:?}"
            );
            let is_disjoint = |i: usize| paths[..i].iter().all(|w| w.path.is_disjoint(&paths[i].path));
            assert!((0..paths.len()).all(is_disjoint), "{paths:?}");
            let sum: f64 = paths.iter().map(|w| w.weight).sum();
            assert!(paths.is_empty() || (sum - 1.0).abs() < 1e-9, "{paths:?}");
        }
        if steps % 50 == 0 {
            // Who can be reached is reached.
            let all = Fronts::full(control.graph(), SOURCE);
            for destination in &destinations {
                let is_reached = !control.paths(*destination).is_empty();
                assert_eq!(is_reached, all.candidates(control.graph(), *destination).next().is_some());
            }
        }
        let half = usize::from(truth.now > Instant::ZERO + DAY / 2);
        most[half] = most[half].max(control.remembered());
        truth.happen();
        steps += 1;
    }
    assert!(decided.len() > 1000, "{}", decided.len());
    assert!(most[1] < most[0] * 5 / 4, "memory grows: {most:?}");
    // The log is all that it takes.
    assert!(replay(SOURCE, policy(), &log).unwrap() == decided, "the replay differs");
    // When all have left, nothing is left of them.
    truth.events.clear();
    (1..MEMBERS).for_each(|m| truth.leave(Member(m)));
    tell(&mut control, &mut truth, &mut log);
    assert_eq!((control.remembered(), control.graph().len()), (0, 0));
}

/// A day of those members, of the hundred, of which `half` is true.
fn members_that_hear_of_things_later_have_ways_that_exist(half: fn(Member) -> bool) {
    let mut truth = Truth::new(1971, 3 * STEP);
    let mut watched: BTreeMap<Member, Hearer> = BTreeMap::new();
    let (mut ways, mut broken, mut began) = (0, 0, 0);
    let mut most = [0; 2];
    while truth.now < Instant::ZERO + DAY {
        let events: Vec<Event> = truth.events.drain(..).collect();
        watched.retain(|m, _| truth.members.contains_key(m));
        watched.values_mut().for_each(|h| events.iter().for_each(|e| h.learn(truth.now, *e)));
        for member in truth.members.keys().filter(|m| half(**m)) {
            watched.entry(*member).or_insert_with(|| {
                began += 1;
                Hearer::new(*member, &truth)
            });
        }
        for (member, hearer) in &mut watched {
            // In the midst of the gossip some ways are gone of which this member has not heard yet.
            hearer.run(truth.now + GOSSIP / 2);
            let exists = |w: &Weighted| truth.has(*member, &w.path);
            let firsts = hearer.control.destinations().filter_map(|d| hearer.control.paths(d).first());
            let (good, bad): (Vec<&Weighted>, Vec<&Weighted>) = firsts.partition(|w| exists(w));
            ways += good.len() + bad.len();
            broken += bad.len();
            // Afterwards none is, and who can be reached is reached.
            hearer.run(truth.now + GOSSIP);
            let mut reached = BTreeSet::new();
            for destination in hearer.control.destinations() {
                let paths = hearer.control.paths(destination);
                assert!(paths.iter().all(exists), "{member}: {paths:?}");
                reached.extend((!paths.is_empty()).then_some(destination));
            }
            assert_eq!(reached, truth.reached(*member), "{member}");
            let part = usize::from(truth.now > Instant::ZERO + DAY / 2);
            most[part] = most[part].max(hearer.control.remembered());
        }
        truth.happen();
    }
    // Each step changes some links of hundreds.
    assert!(ways > 1_500_000 && broken > 0 && broken * 100 < ways, "{broken} of {ways}");
    assert!(began > MEMBERS, "{began} begin, half of them anew at least");
    assert!(most[1] < most[0] * 5 / 4, "memory grows: {most:?}");
}

#[test]
fn half_of_a_hundred_members_that_hear_of_things_later_have_ways_that_exist() {
    members_that_hear_of_things_later_have_ways_that_exist(|m| m.0 % 2 == 0);
}

#[test]
fn so_has_the_other_half() {
    members_that_hear_of_things_later_have_ways_that_exist(|m| m.0 % 2 == 1);
}
