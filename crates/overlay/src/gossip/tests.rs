//! Members that gossip, in virtual time; and what liars can do to them.

use proptest::collection::vec;
use proptest::prelude::*;

use wire::overlay::gossip::{SIGNATURE_BYTES, UNBOUNDED};

use super::*;
use crate::core::tests::{identity, number, settings};
use crate::identity::Identity;

const CLAIM: LinkAdvertisement = LinkAdvertisement {
    rtt_us: 20_000,
    loss: 0.0,
    low: 0.0,
    high: 0.01,
    frames: 400.0,
    capacity_bps: Some(100_000_000),
    datagram: Some(1500),
    with_traffic: false,
    age: Duration::ZERO,
};
const BEGIN: Instant = Instant::from_nanos(7_000_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

/// Members by index, and who reaches whom.
struct World {
    now: Instant,
    members: Vec<Gossip>,
    reaches: fn(usize, usize) -> bool,
    /// Share of the messages that is lost.
    loss: f64,
    prng: Prng,
    /// What each one was told, with the time.
    heard: Vec<Vec<(Instant, FromGossip)>>,
    bytes: usize,
    messages: usize,
}

fn all_settings(count: usize) -> Vec<Arc<Settings>> {
    (0..count).map(|i| Arc::new(settings(i, count))).collect()
}

impl World {
    fn new(settings: &[Arc<Settings>]) -> Self {
        let members = settings.iter().map(|s| Gossip::new(Arc::clone(s), Arc::default(), 1000, BEGIN)).collect();
        let heard = settings.iter().map(|_| Vec::new()).collect();
        Self { now: BEGIN, members, reaches: |_, _| true, loss: 0.0, prng: Prng::new(3), heard, bytes: 0, messages: 0 }
    }

    fn deliver(&mut self, from: usize, outputs: Vec<FromGossip>) {
        for output in outputs {
            match output {
                FromGossip::Send { to, bytes } => {
                    self.bytes += bytes.len();
                    self.messages += 1;
                    let sender = self.members[from].own;
                    // A host of which there is a copy is reached sometimes there, sometimes here.
                    let mut all = Vec::from_iter((0..self.members.len()).filter(|i| self.members[*i].own == to));
                    if all.is_empty() {
                        continue;
                    }
                    let to = all.swap_remove(self.messages % all.len());
                    if (self.reaches)(from, to) && self.prng.unit() > self.loss {
                        let answers = self.members[to].handle_message(self.now, sender, &bytes);
                        self.deliver(to, answers);
                    }
                }
                missing_for @ (FromGossip::LinkAdvertisement { .. }
                | FromGossip::CertificateAdvertisement { .. }
                | FromGossip::DuplicateIdentity) => {
                    self.heard[from].push((self.now, missing_for));
                }
            }
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.now = self.now + ROUND;
            for index in 0..self.members.len() {
                let outputs = self.members[index].handle_round(self.now);
                self.deliver(index, outputs);
            }
        }
    }

    /// A member says what it measured on its links from the others.
    fn advertisement(&mut self, by: usize, advertisements: &[(usize, LinkAdvertisement)]) {
        let advertisements =
            advertisements.iter().map(|(from, advertisement)| (number(*from), *advertisement)).collect();
        let outputs = self.members[by].handle_own_links(self.now, advertisements);
        self.deliver(by, outputs);
    }

    fn introduce(&mut self, by: usize, of: usize, text: &str) {
        let at = Some("192.0.2.7:5460".parse().unwrap());
        self.members[by].handle_known_certificates(self.now, vec![(number(of), text.to_owned(), at)]);
    }

    /// What a member heard last about a link.
    fn last(&self, at: usize, from: usize, to: usize) -> Option<Option<LinkAdvertisement>> {
        self.heard[at].iter().rev().find_map(|(_, missing_for)| match missing_for {
            FromGossip::LinkAdvertisement { from: f, to: t, advertisement, .. } => {
                ((*f, *t) == (number(from), number(to))).then_some(*advertisement)
            }
            FromGossip::CertificateAdvertisement { .. } | FromGossip::Send { .. } | FromGossip::DuplicateIdentity => {
                None
            }
        })
    }

    /// A member says something to another one by hand.
    fn hand(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let outputs = self.members[to].handle_message(self.now, number(from), bytes);
        self.deliver(to, outputs);
    }
}

fn link(by: usize, from: usize, number_of: u64) -> SignedRecord {
    let what = RecordBody::Link { from: number(from).0, advertisement: Some(CLAIM.into()), relayed_bps: UNBOUNDED };
    SignedRecord { by: number(by).0, start: 1000, number: number_of, at_ms: 0, what }
}

fn signed(said: &SignedRecord, by: usize) -> Vec<u8> {
    signed_record::sign(said, &identity(by))
}

fn as_message(records: &[Vec<u8>]) -> Vec<u8> {
    Message::encode_words(records.iter().map(|w| &w[..])).concat()
}

fn advertisement_of(rtt_us: u64) -> LinkAdvertisement {
    LinkAdvertisement { rtt_us, ..CLAIM }
}

#[test]
fn what_is_measured_reaches_all_over_others_within_a_second() {
    let all = all_settings(4);
    for loss in [0.0, 0.15] {
        let mut world = World::new(&all);
        world.loss = loss;
        world.reaches = |a, b| a.abs_diff(b) == 1;
        world.advertisement(3, &[(2, CLAIM)]);
        world.introduce(3, 2, "a certificate");
        world.run(2 * SECOND);
        world.advertisement(3, &[(2, advertisement_of(50_000))]);
        world.run(SECOND);
        assert_eq!(world.last(0, 2, 3).flatten().map(|c| c.rtt_us), Some(50_000), "{loss}");
        let is_certificate = |n: &&(Instant, FromGossip)| matches!(n.1, FromGossip::CertificateAdvertisement { .. });
        assert_eq!(world.heard[0].iter().filter(is_certificate).count(), 1, "{loss}");
        // A link that is no more.
        world.advertisement(3, &[]);
        world.run(SECOND);
        assert_eq!(world.last(0, 2, 3), Some(None), "{loss}");
    }
}

#[test]
fn a_signature_is_of_one_speaker_and_of_every_byte() {
    let mut bytes = signed(&link(0, 1, 2), 0);
    assert!(
        signed_record::is_signed(&bytes, &identity(0).public())
            && !signed_record::is_signed(&bytes, &identity(1).public())
    );
    for byte in 0..bytes.len() {
        bytes[byte] ^= 1;
        assert!(!signed_record::is_signed(&bytes, &identity(0).public()), "{byte}");
        bytes[byte] ^= 1;
    }
    assert!(!signed_record::is_signed(&bytes[..SIGNATURE_BYTES - 1], &identity(0).public()));
}

#[test]
fn a_changed_claim_is_said_at_once_and_that_the_others_hold_when_it_is_time() {
    let all = all_settings(2);
    let mut originator = Originator::new(Arc::clone(&all[0]), 1, BEGIN);
    let is_link = |s: &&SignedRecord| matches!(s.what, RecordBody::Link { .. });
    let mut says = |after: Duration, advertisement: LinkAdvertisement| {
        let said = originator.advertisements(BEGIN + after, vec![(number(1), advertisement), (number(2), CLAIM)]);
        let links = said.iter().filter(is_link).count();
        assert_eq!(said.len() - links, usize::from(after.is_zero() || after >= REFRESH), "{after:?}");
        links
    };
    let ms = Duration::from_millis;
    assert_eq!(says(ms(0), CLAIM), 2);
    assert_eq!(says(ms(100), CLAIM), 0);
    assert_eq!(says(ms(200), advertisement_of(21_000)), 0, "too little to tell");
    assert_eq!(says(ms(300), advertisement_of(30_000)), 1);
    assert_eq!(says(ms(400), LinkAdvertisement { loss: 0.02, high: 0.03, ..advertisement_of(30_000) }), 1);
    let changed = LinkAdvertisement { loss: 0.02, high: 0.03, datagram: Some(1400), ..advertisement_of(30_000) };
    assert_eq!(says(ms(500), changed), 1);
    let little = LinkAdvertisement { rtt_us: 31_000, ..changed };
    assert_eq!(says(ms(600), little), 0);
    assert_eq!(says(REFRESH, little), 1, "what has changed is not said to hold, however little it is");
    assert_eq!(says(2 * REFRESH, little), 0);
    assert_eq!(originator.advertisements(BEGIN + ms(1) + 2 * REFRESH, Vec::new()).len(), 2, "they are down");
    assert_eq!(originator.advertisements(BEGIN + 3 * REFRESH, Vec::new()).len(), 0, "nothing holds");
}

#[test]
fn what_holds_is_confirmed_and_nothing_that_may_not() {
    let all = all_settings(5);
    let mut world = World::new(&all);
    let up = |from, n| link(2, from, n);
    let of = |what, n| SignedRecord { what, ..link(2, 0, n) };
    let down = |from, n| of(RecordBody::Link { from: number(from).0, advertisement: None, relayed_bps: UNBOUNDED }, n);
    let alive = |back: &[u32], n| of(RecordBody::Alive { part: 0, back: back.to_vec() }, n);
    // Which links of 2 another member hears of when it is told these.
    let mut told = |records: &[SignedRecord]| {
        world.now = world.now + SECOND;
        world.heard[0].clear();
        let signed: Vec<Vec<u8>> = records.iter().map(|s| signed(s, 2)).collect();
        world.hand(1, 0, &as_message(&signed));
        let is_up = |from: &usize| matches!(world.last(0, *from, 2), Some(Some(_)));
        [1, 3, 4].into_iter().filter(is_up).collect::<Vec<_>>()
    };
    assert_eq!(told(&[up(1, 1), up(3, 2), up(4, 3)]), [1, 3, 4]);
    assert_eq!(told(&[alive(&[3, 2, 1], 4)]), [1, 3, 4]);
    assert_eq!(told(&[alive(&[3, 2, 1], 4)]), [] as [usize; 0], "once");
    // Link 4 is down, and who passes this on keeps that to himself.
    assert_eq!(told(&[alive(&[5, 4], 6)]), [1, 3]);
    assert_eq!(told(&[down(4, 5)]), [] as [usize; 0]);
    // That a link was up does not bring it back, and a later word needs no earlier one to hold.
    assert_eq!(told(&[alive(&[6, 5, 4, 2, u32::MAX, 0], 7)]), [1, 3]);
    assert_eq!(told(&[alive(&[8, 5, 1], 10), up(1, 9)]), [1, 3], "3 by what holds, 1 by itself");
    // More often than it is said, nobody is made to look at all of it.
    world.now = world.now + SECOND / 4;
    world.heard[0].clear();
    world.hand(1, 0, &as_message(&[signed(&alive(&[9, 2], 11), 2)]));
    assert!(world.heard[0].is_empty());
    // Nor by parts that five members have no words for.
    world.now = world.now + SECOND;
    for part in 1..10 {
        let said = of(RecordBody::Alive { part, back: vec![9 + part, 2 + part] }, 11 + u64::from(part));
        world.hand(1, 0, &as_message(&[signed(&said, 2)]));
    }
    assert!(world.heard[0].is_empty());
}

#[test]
fn links_that_do_not_change_cost_little_and_are_known_to_hold() {
    const COUNT: usize = 24;
    let all = all_settings(COUNT);
    let mut world = World::new(&all);
    let run = |world: &mut World, seconds: u32| {
        for _ in 0..2 * seconds {
            for member in 0..COUNT {
                let advertisements: Vec<_> = (0..COUNT).filter(|o| *o != member).map(|o| (o, CLAIM)).collect();
                world.advertisement(member, &advertisements);
            }
            world.run(SECOND / 2);
        }
    };
    run(&mut world, 6);
    (world.bytes, world.messages) = (0, 0);
    world.heard.iter_mut().for_each(Vec::clear);
    run(&mut world, 20);
    let bps = 8.0 * (world.bytes + world.messages * FRAME) as f64 / COUNT as f64 / 20.0;
    // The digests by which each asks twenty times a second, 102 kb/s, and half as much for answers at most. (Words of 133 bytes about 552 links, each said
    // again each 2 s, would be 294 kb/s more.)
    let digests = (4 + 20 * COUNT + FRAME) as f64 * 8.0 / ROUND.as_secs_f64();
    assert!(bps < 1.5 * digests, "{bps} of {digests} b/s");
    // What was heard of each link, and when; route control takes 5 s without a word for its end.
    for (at, heard) in world.heard.iter().enumerate() {
        let mut last: BTreeMap<(Member, Member), Vec<Instant>> = BTreeMap::new();
        for (when, missing_for) in heard {
            if let FromGossip::LinkAdvertisement { from, to, advertisement: Some(_), .. } = missing_for {
                last.entry((*from, *to)).or_default().push(*when);
            }
        }
        // Of its own it says nothing to itself.
        assert_eq!(last.len(), (COUNT - 1) * (COUNT - 1), "{at}");
        for (link, times) in last {
            let gap = times.windows(2).map(|w| w[1].saturating_since(w[0])).max();
            assert!(gap.is_some_and(|g| g < 5 * SECOND), "{at}, {link:?}: {gap:?}");
        }
    }
}

#[test]
fn a_link_that_holds_is_known_to_beside_one_that_changes_all_the_time() {
    let all = all_settings(4);
    let mut world = World::new(&all);
    world.loss = 0.3;
    world.reaches = |a, b| a.abs_diff(b) == 1;
    let mut last = world.now;
    let mut worst = Duration::ZERO;
    for step in 0..600 {
        let changing = if step % 2 == 0 { advertisement_of(30_000) } else { CLAIM };
        world.advertisement(2, &[(1, changing), (3, CLAIM)]);
        world.run(2 * ROUND);
        let of_3 = |n: &(Instant, FromGossip)| matches!(n.1, FromGossip::LinkAdvertisement { from, to, .. } if (from, to) == (number(3), number(2)));
        last = world.heard[0].iter().filter(|n| of_3(n)).map(|n| n.0).next_back().unwrap_or(last);
        let silent = world.now.saturating_since(last);
        // Route control takes 5 s without a word for a link's end.
        worst = worst.max(silent);
    }
    assert!(worst < 4 * SECOND, "{worst:?}");
}

#[test]
fn nobody_speaks_for_another_and_who_tries_is_not_heard_of_that_one_for_a_while() {
    let all = all_settings(4);
    for forged_of in [2, 0] {
        let mut world = World::new(&all);
        // The link from 3 to 2 is 2's to tell of, and 0's own words are 0's.
        let forged = SignedRecord { by: number(forged_of).0, ..link(2, 3, 1 << 40) };
        let looked_at = |w: &World| w.members[0].others[&number(1)].signatures;
        // Again and again costs one signature.
        for _ in 0..50 {
            world.hand(1, 0, &as_message(&[signed(&forged, 1)]));
        }
        assert!(world.heard[0].is_empty() && looked_at(&world) == 1);
        assert_eq!(world.members[0].store.known(world.now, number(2)).newest, 0);
        // What it says itself is heard, and what the others say as before.
        world.hand(1, 0, &as_message(&[signed(&link(1, 3, 5), 1)]));
        world.hand(3, 0, &as_message(&[signed(&link(2, 3, 6), 2)]));
        assert_eq!(world.heard[0].len(), 2);
        world.hand(1, 0, &as_message(&[signed(&link(2, 3, 7), 2)]));
        assert_eq!(world.heard[0].len(), if forged_of == 2 { 2 } else { 3 });
        world.now = world.now + PENALTY;
        world.hand(1, 0, &as_message(&[signed(&link(2, 3, 8), 2)]));
        assert_eq!(world.heard[0].len(), if forged_of == 2 { 3 } else { 4 });
        assert!(world.members[0].others[&number(1)].ignored.is_empty());
    }
}

/// Two keys with one number take 2^32 tries: here half of the members take the second member's number to be that of another key.
#[test]
fn members_who_know_different_keys_of_one_number_go_on_hearing_each_other() {
    let all = all_settings(6);
    let other_key = identity(100).public();
    for of_other in [3, 4, 5] {
        all[of_other].members.change(|m| {
            m.entry(number(1)).and_modify(|m| m.key = other_key);
        });
    }
    let mut world = World::new(&all);
    // The owner of the second key speaks to those who know it: by hand, as it is no member of this world.
    world.reaches = |a, b| !(a.min(b) == 1 && a.max(b) >= 3);
    let mut worst = Duration::ZERO;
    for step in 0..40 {
        world.advertisement(1, &[(0, advertisement_of(20_000 + 10_000 * (step % 2)))]);
        let second = SignedRecord { by: number(1).0, ..link(1, 4, 1 << 30 | step) };
        let bytes = signed_record::sign(&second, &identity(100));
        world.members[3].handle_message(world.now, number(1), &as_message(&[bytes]));
        for (by, to) in [(0, 5), (5, 0), (2, 4), (4, 2)] {
            world.advertisement(by, &[(to, advertisement_of(20_000 + 10_000 * (step % 2)))]);
        }
        world.run(SECOND / 2);
        if step < 4 {
            continue;
        }
        for (at, by, of) in [(0, 5, 0), (3, 0, 5), (4, 2, 4), (2, 4, 2)] {
            let is_of = |n: &&(Instant, FromGossip)| matches!(n.1, FromGossip::LinkAdvertisement { from, to, .. } if (from, to) == (number(of), number(by)));
            let last = world.heard[at].iter().rev().find(is_of).map(|n| n.0);
            worst = worst.max(last.map_or(Duration::MAX, |last| world.now.saturating_since(last)));
        }
    }
    // Said again each half second.
    assert!(worst < SECOND, "{worst:?}");
    // The number's words come to who knows their key, and to nobody else.
    assert!(world.last(0, 0, 1).is_some() && world.last(2, 0, 1).is_some() && world.last(5, 0, 1).is_none());
    assert!(world.last(0, 4, 1).is_none());
}

#[test]
fn old_words_strangers_and_links_of_strangers_are_ignored() {
    let all = all_settings(3);
    let mut world = World::new(&all);
    let new = signed(&link(2, 1, 7), 2);
    world.hand(1, 0, &as_message(std::slice::from_ref(&new)));
    assert_eq!(world.heard[0].len(), 1);
    for old in [new, signed(&link(2, 1, 6), 2), signed(&SignedRecord { start: 999, ..link(2, 1, 8) }, 2)] {
        world.hand(1, 0, &as_message(&[old]));
    }
    assert_eq!(world.heard[0].len(), 1, "each word counts once");
    // Of a stranger, from a stranger, and about the link from one.
    world.hand(1, 0, &as_message(&[signed(&link(9, 1, 8), 9)]));
    world.hand(9, 0, &as_message(&[signed(&link(2, 1, 8), 2)]));
    world.hand(1, 0, &as_message(&[signed(&link(2, 9, 9), 2)]));
    assert_eq!(world.heard[0].len(), 1);
    assert!(
        world.members[0].store.known(world.now, number(9)).newest == 0
            && !world.members[0].others.contains_key(&number(9))
    );
}

/// What brought an earlier gossip down, as this one would say it: of a victim a last word that it never said, words out of order, and invented members.
#[test]
fn what_a_liar_tells_of_others_makes_nobody_deaf_to_them() {
    let all = all_settings(4);
    let mut world = World::new(&all);
    let known = |of: usize, newest: u64| Known { of: number(of).0, newest, sum: newest };
    let invented: Vec<Known> = (0..DIGEST_MAX as u32).map(|i| Known { of: i, newest: u64::MAX, sum: 1 }).collect();
    for _ in 0..20 {
        for to in [0, 2, 3] {
            for asks in [true, false] {
                for newest in [u64::MAX, 5, 1] {
                    world.hand(
                        1,
                        to,
                        &Message::encode_digest(asks, &[known(2, newest), known(to, newest), known(1, newest)]),
                    );
                }
                world.hand(1, to, &Message::encode_digest(asks, &invented));
            }
            let records = [10, 5, 10, u64::MAX, 6].map(|n| signed(&link(1, 3, n), 1));
            world.hand(1, to, &as_message(&records));
        }
        world.advertisement(2, &[(3, CLAIM)]);
        world.advertisement(0, &[(3, CLAIM)]);
        world.run(Duration::from_millis(100));
    }
    world.advertisement(2, &[(3, advertisement_of(60_000))]);
    world.advertisement(0, &[(3, advertisement_of(70_000))]);
    world.run(SECOND);
    for (at, to, rtt_us) in [(0, 2, 60_000), (3, 2, 60_000), (2, 0, 70_000), (3, 0, 70_000)] {
        assert_eq!(world.last(at, 3, to).flatten().map(|c| c.rtt_us), Some(rtt_us), "{at} of {to}");
    }
}

#[test]
fn what_a_liar_keeps_to_itself_others_tell() {
    let all = all_settings(3);
    let mut world = World::new(&all);
    // The middle one passes on nothing; a liar has given the last word of the third, and not those before.
    world.reaches = |_, _| false;
    world.advertisement(2, &[(0, CLAIM), (1, CLAIM)]);
    let newest = world.members[2].store.known(world.now, number(2)).newest;
    // The last one is that it is alive.
    let none = [Known { of: number(2).0, newest: newest - 2, sum: 0 }];
    let last: Vec<Vec<u8>> = world.members[2]
        .store
        .missing_for(world.now, (number(0), &none), 0, REPLY_BYTES_MAX)
        .into_iter()
        .map(<[u8]>::to_vec)
        .collect();
    assert_eq!(last.len(), 2);
    world.hand(1, 0, &as_message(&last));
    assert!(world.last(0, 1, 2).is_some());
    assert_eq!(world.last(0, 0, 2), None);
    world.reaches = |_, _| true;
    world.run(Duration::from_millis(500));
    assert!(world.last(0, 0, 2).is_some());
}

#[test]
fn who_starts_again_is_heard_even_if_it_forgot_its_number() {
    let all = all_settings(3);
    // Also where nobody passes on any more what it said before.
    for (start, away) in [(1001, Duration::ZERO), (3, Duration::ZERO), (3, store::FORGET + 5 * SECOND)] {
        let mut world = World::new(&all);
        world.advertisement(2, &[(1, CLAIM)]);
        world.introduce(2, 1, "a certificate");
        world.run(SECOND);
        world.now = world.now + away;
        world.members[2] = Gossip::new(Arc::clone(&all[2]), Arc::default(), start, world.now);
        world.introduce(2, 1, "another one");
        for _ in 0..10 {
            world.advertisement(2, &[(1, advertisement_of(50_000))]);
            world.run(Duration::from_millis(100));
        }
        assert_eq!(world.last(0, 1, 2).flatten().map(|c| c.rtt_us), Some(50_000), "{start}, away for {away:?}");
        let another = |n: &(Instant, FromGossip)| matches!(&n.1, FromGossip::CertificateAdvertisement { text, .. } if text == "another one");
        assert!(world.heard[0].iter().any(another), "{start}, away for {away:?}");
    }
}

#[test]
fn that_another_host_has_the_same_key_is_noticed() {
    let all = all_settings(3);
    let elsewhere =
        |w: &World| w.members.iter().map(|m| m.counters.counts().duplicate_identity > 0).collect::<Vec<_>>();
    let talk = |w: &mut World| {
        for step in 0..20 {
            for member in 0..w.members.len() {
                w.advertisement(member, &[(1, advertisement_of(20_000 + 10_000 * (step % 2)))]);
            }
            w.run(SECOND);
        }
    };
    // One that begins anew and has lost its number is none.
    let mut world = World::new(&all);
    talk(&mut world);
    world.members[2] = Gossip::new(Arc::clone(&all[2]), Arc::default(), 3, world.now);
    talk(&mut world);
    assert_eq!(elsewhere(&world), [false; 3]);
    let told = |w: &World| {
        w.heard
            .iter()
            .map(|all| all.iter().filter(|n| n.1 == FromGossip::DuplicateIdentity).count())
            .collect::<Vec<_>>()
    };
    assert_eq!(told(&world), [0; 3]);
    // A copy of the last one, that was started later.
    let mut world = World::new(&[Arc::clone(&all[0]), Arc::clone(&all[1]), Arc::clone(&all[2]), Arc::clone(&all[2])]);
    world.members[3] = Gossip::new(Arc::clone(&all[2]), Arc::default(), 2000, world.now);
    talk(&mut world);
    assert!(
        elsewhere(&world)[2..].contains(&true) && !elsewhere(&world)[..2].contains(&true),
        "{:?}",
        elsewhere(&world)
    );
    // Once, however long it lasts.
    assert_eq!(told(&world), elsewhere(&world).into_iter().map(usize::from).collect::<Vec<_>>());
}

#[test]
fn starts_and_subjects_do_not_pile_up() {
    let all = all_settings(3);
    let mut world = World::new(&all);
    for start in 1000..1200 {
        world.hand(1, 0, &as_message(&[signed(&SignedRecord { start, ..link(1, 2, start) }, 1)]));
        world.run(ROUND);
    }
    assert_eq!(world.members[0].store.len(), 1);
    for subject in 0..200 {
        let what = RecordBody::Link { from: subject, advertisement: None, relayed_bps: UNBOUNDED };
        world.hand(
            1,
            0,
            &as_message(&[signed(&SignedRecord { start: 4000, what, ..link(1, 2, 5000 + u64::from(subject)) }, 1)]),
        );
        world.run(ROUND);
    }
    assert!(world.members[0].store.len() <= world.members[0].most_words());
    // Who is no member any more is forgotten.
    all[0].members.change(|m| m.clear());
    world.run(ROUND);
    assert_eq!((world.members[0].store.len(), world.members[0].others.len()), (0, 0));
}

#[test]
fn a_word_that_took_longer_than_others_is_older_by_that() {
    let all = all_settings(3);
    let mut world = World::new(&all);
    world.reaches = |a, b| a + b == 3 || a + b == 1;
    let said = |number: u64, at_ms| SignedRecord { number, at_ms, ..link(2, 1, number) };
    let age = |w: &World| w.last(0, 1, 2).flatten().unwrap().age;
    world.hand(1, 0, &as_message(&[signed(&said(1, 5000), 2)]));
    assert_eq!(age(&world), Duration::ZERO, "clocks begin anywhere");
    world.now = world.now + 3 * SECOND;
    world.hand(1, 0, &as_message(&[signed(&said(2, 6000), 2)]));
    assert!((age(&world).as_secs_f64() - 2.0).abs() < 0.01, "{:?}", age(&world));
    world.now = world.now + SECOND;
    world.hand(1, 0, &as_message(&[signed(&said(3, 9000), 2)]));
    assert!(age(&world) < Duration::from_millis(10), "{:?}", age(&world));
    // Within a message, too; and whatever the clock says.
    for wrong in [0, u64::MAX] {
        world.hand(1, 0, &as_message(&[signed(&said(4, wrong), 2), signed(&said(5, 9000), 2)]));
    }
}

#[test]
fn who_slept_is_heard_again_within_a_minute() {
    let all = all_settings(3);
    let mut world = World::new(&all);
    world.reaches = |a, b| a + b == 3 || a + b == 1;
    // Its clock stood still for ten minutes; a word each two seconds.
    let mut ages = Vec::new();
    for number in 1..=60 {
        world.now = world.now + if number == 20 { 600 * SECOND } else { 2 * SECOND };
        let said = SignedRecord { number, at_ms: 5000 + 2000 * number, ..link(2, 1, number) };
        world.hand(1, 0, &as_message(&[signed(&said, 2)]));
        ages.push(world.last(0, 1, 2).flatten().unwrap().age.as_secs_f64());
    }
    assert!(ages[..19].iter().all(|age| *age < 0.01), "{ages:?}");
    assert!((ages[19] - 598.0).abs() < 0.01, "as old as if it had been held back: {ages:?}");
    assert!(ages[19 + 30..].iter().all(|age| *age < 0.01), "{ages:?}");
}

#[test]
fn what_its_speaker_does_not_say_any_more_is_not_passed_on() {
    let all = all_settings(3);
    let mut world = World::new(&all);
    world.reaches = |a, b| a + b != 2;
    world.advertisement(2, &[(1, CLAIM)]);
    world.introduce(2, 1, "a certificate");
    world.run(SECOND);
    assert!(world.last(0, 1, 2).is_some());
    world.reaches = |a, b| a + b == 1;
    world.now = world.now + store::FORGET + SECOND;
    world.members[0] = Gossip::new(Arc::clone(&all[0]), Arc::default(), 2000, world.now);
    world.heard[0].clear();
    world.run(SECOND);
    assert!(world.heard[0].is_empty(), "{:?}", world.heard[0]);
}

#[test]
fn a_liar_draws_only_so_much() {
    let all = all_settings(3);
    let mut world = World::new(&all);
    let many: Vec<SignedRecord> = (0..8)
        .map(|i| SignedRecord {
            what: RecordBody::Certificate { of: i, endpoint: None, text: "x".repeat(1000) },
            ..link(2, 1, 10 + u64::from(i))
        })
        .collect();
    world.hand(2, 0, &as_message(&[signed(&many[0], 2)]));
    for said in &many {
        world.hand(2, 0, &as_message(&[signed(said, 2)]));
    }
    let asks = Message::encode_digest(true, &[Known { of: number(2).0, newest: 0, sum: 0 }]);
    let begin = world.now;
    let mut drawn = 0;
    while world.now < begin + SECOND {
        world.now = world.now + Duration::from_millis(1);
        for output in world.members[0].handle_message(world.now, number(1), &asks) {
            drawn += if let FromGossip::Send { bytes, .. } = output { bytes.len() } else { 0 };
        }
    }
    // Half of what may be sent in a second, an answer more, and somebody else still has one.
    let most = all[0].gossip_rate.as_bps() as usize / 8 / 2;
    assert!(drawn > most / 2 && drawn <= most + REPLY_BYTES_MAX, "{drawn}");
    assert!(!world.members[0].handle_message(world.now, number(2), &asks).is_empty());
    let signatures = |w: &World| w.members[0].others[&number(1)].signatures;
    for number in 0..3000 {
        world.hand(1, 0, &as_message(&[signed(&link(1, 2, number + 1), 1)]));
    }
    assert_eq!(signatures(&world), SIGNATURES_MAX);
    world.run(SECOND);
    world.hand(1, 0, &as_message(&[signed(&link(1, 2, 9000), 1)]));
    assert_eq!(world.members[0].store.known(world.now, number(1)).newest, 9000);
}

#[test]
fn the_gossip_goes_on_whatever_comes() {
    let mut gossip = Gossip::new(Arc::new(settings(0, 3)), Arc::default(), 1000, BEGIN);
    let digest = Message::encode_digest(true, &[Known { of: number(2).0, newest: u64::MAX, sum: 0 }]);
    for bytes in [Vec::new(), vec![3; 70_000], digest] {
        gossip.handle_message(BEGIN, number(1), &bytes);
    }
    gossip.handle_own_links(BEGIN, vec![(number(1), CLAIM)]);
    let heard = gossip.handle_message(BEGIN, number(1), &as_message(&[signed(&link(2, 1, 3), 2)]));
    assert!(matches!(&heard[..], [FromGossip::LinkAdvertisement { .. }]), "{heard:?}");
    assert!(matches!(&gossip.handle_round(BEGIN)[..], [FromGossip::Send { .. }]));
}

#[test]
fn gossip_keeps_to_its_rate_and_changes_arrive_all_the_same() {
    let mut took = Vec::new();
    for bps in [64_000, 1_000_000] {
        let of = |index| Settings { gossip_rate: units::Rate::from_bps(bps), ..settings(index, 8) };
        let all = Vec::from_iter((0..8).map(|index| Arc::new(of(index))));
        let mut world = World::new(&all);
        let span = 20;
        for second in 0..span {
            for member in 0..8 {
                let advertisements: Vec<_> =
                    (0..8).filter(|o| *o != member).map(|o| (o, advertisement_of(20_000 + second))).collect();
                world.advertisement(member, &advertisements);
            }
            world.run(SECOND);
        }
        world.advertisement(7, &[(6, advertisement_of(90_000))]);
        world.run(5 * SECOND);
        for member in 0..6 {
            assert_eq!(world.last(member, 6, 7).flatten().map(|c| c.rtt_us), Some(90_000), "{member} at {bps}");
        }
        let sent = 8.0 * (world.bytes + world.messages * FRAME) as f64 / all.len() as f64;
        // What was in the bucket, and an answer beyond it.
        let may = bps as f64 * (span + 6) as f64 + 8.0 * REPLY_BYTES_MAX as f64;
        assert!(sent <= may, "{sent} of {may} bits each");
        let held_back: u64 = world.members.iter().map(|m| m.counters.counts().gossip_rate_limited).sum();
        assert_eq!(held_back > 0, bps == 64_000, "{held_back} at {bps}");
        took.push(sent);
    }
    assert!(took[0] < took[1], "{took:?}");
}

fn any_said() -> impl Strategy<Value = SignedRecord> {
    let extreme = || prop_oneof![Just(0), Just(u64::MAX), any::<u64>()];
    let advertisement = (any::<u32>(), any::<[f32; 4]>(), any::<u64>(), any::<u16>(), any::<bool>()).prop_map(
        |(rtt_us, [loss, low, high, frames], capacity, size, with_traffic)| wire::overlay::gossip::LinkAdvertisement {
            rtt_us,
            loss,
            low,
            high,
            frames,
            capacity_bps: Some(capacity),
            datagram: Some(size),
            with_traffic,
        },
    );
    let member = || prop_oneof![(0..4usize).prop_map(|i| number(i).0), any::<u32>()];
    let link = (member(), proptest::option::of(advertisement), any::<u64>())
        .prop_map(|(from, advertisement, relayed_bps)| RecordBody::Link { from, advertisement, relayed_bps });
    let certificate = (member(), ".{0,40}").prop_map(|(of, text)| RecordBody::Certificate { of, endpoint: None, text });
    let alive = (0..3u32, vec(any::<u32>(), 0..9)).prop_map(|(part, back)| RecordBody::Alive { part, back });
    (0..3usize, extreme(), extreme(), extreme(), prop_oneof![link, certificate, alive])
        .prop_map(|(by, start, n, at_ms, what)| SignedRecord { by: number(by).0, start, number: n, at_ms, what })
}

fn origin(said: &SignedRecord) -> Identity {
    (0..3).map(identity).find(|i| i.public().member() == Member(said.by)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_make_it_panic(
        garbage in vec(vec(any::<u8>(), 0..300), 0..4),
        bodies in vec(vec(any::<u8>(), 0..80), 0..4),
        saids in vec(any_said(), 0..6),
        digests in vec((any::<u32>(), any::<u64>(), any::<u64>()), 0..20),
        asks: bool,
    ) {
        let all = all_settings(3);
        let mut world = World::new(&all);
        let known: Vec<Known> = digests.into_iter().map(|(of, newest, sum)| Known { of: number(of as usize % 4).0, newest, sum }).collect();
        let signed: Vec<Vec<u8>> = saids.iter().map(|s| signed_record::sign(s, &origin(s))).collect();
        for bytes in garbage.iter().cloned().chain([as_message(&bodies), as_message(&signed), Message::encode_digest(asks, &known)]) {
            world.hand(1, 0, &bytes);
            let versioned = [&[4, 1, 0, 1][..], &bytes].concat();
            world.hand(2, 0, &versioned);
            world.advertisement(0, &[(1, CLAIM)]);
            world.run(ROUND);
        }
    }
}
