//! Gossip between members in virtual time, and attacks by a member.

use proptest::collection::vec;
use proptest::prelude::*;

use wire::overlay::gossip::{SIGNATURE_BYTES, UNBOUNDED};

use super::*;
use crate::core::tests::{identity, number, settings};
use crate::identity::Identity;

const ADVERTISEMENT: LinkAdvertisement = LinkAdvertisement {
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

/// Members by index, and the network between them.
struct World {
    now: Instant,
    members: Vec<Gossip>,
    /// Whether messages of the first member reach the second.
    reaches: fn(usize, usize) -> bool,
    /// Share of lost messages.
    loss: f64,
    prng: Prng,
    /// Outputs of each member, apart from messages, with their times.
    outputs: Vec<Vec<(Instant, GossipOutput)>>,
    bytes: usize,
    messages: usize,
}

fn all_settings(count: usize) -> Vec<Arc<Settings>> {
    (0..count).map(|i| Arc::new(settings(i, count))).collect()
}

impl World {
    fn new(settings: &[Arc<Settings>]) -> Self {
        let members = settings.iter().map(|s| Gossip::new(Arc::clone(s), Arc::default(), 1000, BEGIN)).collect();
        let outputs = settings.iter().map(|_| Vec::new()).collect();
        Self {
            now: BEGIN,
            members,
            reaches: |_, _| true,
            loss: 0.0,
            prng: Prng::new(3),
            outputs,
            bytes: 0,
            messages: 0,
        }
    }

    fn deliver(&mut self, from: usize, outputs: Vec<GossipOutput>) {
        for output in outputs {
            match output {
                GossipOutput::Send { to, bytes } => {
                    self.bytes += bytes.len();
                    self.messages += 1;
                    let sender = self.members[from].own;
                    // With a copy of a member, the messages go to each of the two in turn.
                    let mut all = Vec::from_iter((0..self.members.len()).filter(|i| self.members[*i].own == to));
                    if all.is_empty() {
                        continue;
                    }
                    let to = all.swap_remove(self.messages % all.len());
                    if (self.reaches)(from, to) && self.prng.unit() > self.loss {
                        let replies = self.members[to].handle_message(self.now, sender, &bytes);
                        self.deliver(to, replies);
                    }
                }
                output @ (GossipOutput::LinkAdvertisement { .. }
                | GossipOutput::CertificateAdvertisement { .. }
                | GossipOutput::DuplicateIdentity) => {
                    self.outputs[from].push((self.now, output));
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

    /// A member advertises its links from the others.
    fn advertise(&mut self, by: usize, advertisements: &[(usize, LinkAdvertisement)]) {
        let advertisements =
            advertisements.iter().map(|(from, advertisement)| (number(*from), *advertisement)).collect();
        let outputs = self.members[by].handle_own_links(self.now, advertisements);
        self.deliver(by, outputs);
    }

    fn advertise_certificate(&mut self, by: usize, of: usize, text: &str) {
        let at = Some("192.0.2.7:5460".parse().unwrap());
        self.members[by].handle_known_certificates(self.now, vec![(number(of), text.to_owned(), at)]);
    }

    /// The last output of a member for a link; `Some(None)`: down.
    fn last(&self, at: usize, from: usize, to: usize) -> Option<Option<LinkAdvertisement>> {
        self.outputs[at].iter().rev().find_map(|(_, output)| match output {
            GossipOutput::LinkAdvertisement { from: f, to: t, advertisement, .. } => {
                ((*f, *t) == (number(from), number(to))).then_some(*advertisement)
            }
            GossipOutput::CertificateAdvertisement { .. }
            | GossipOutput::Send { .. }
            | GossipOutput::DuplicateIdentity => None,
        })
    }

    /// Passes a message of a member to another one directly.
    fn hand(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let outputs = self.members[to].handle_message(self.now, number(from), bytes);
        self.deliver(to, outputs);
    }
}

fn link(by: usize, from: usize, number_of: u64) -> SignedRecord {
    let body =
        RecordBody::Link { from: number(from).0, advertisement: Some(ADVERTISEMENT.into()), relayed_bps: UNBOUNDED };
    SignedRecord { originator: number(by).0, start: 1000, number: number_of, at_ms: 0, body }
}

fn signed(record: &SignedRecord, by: usize) -> Vec<u8> {
    signed_record::sign(record, &identity(by))
}

fn as_message(records: &[Vec<u8>]) -> Vec<u8> {
    Message::encode_records(records.iter().map(|r| &r[..])).concat()
}

fn advertisement_of(rtt_us: u64) -> LinkAdvertisement {
    LinkAdvertisement { rtt_us, ..ADVERTISEMENT }
}

#[test]
fn link_state_reaches_all_members_over_others_within_a_second() {
    let all = all_settings(4);
    for loss in [0.0, 0.15] {
        let mut world = World::new(&all);
        world.loss = loss;
        world.reaches = |a, b| a.abs_diff(b) == 1;
        world.advertise(3, &[(2, ADVERTISEMENT)]);
        world.advertise_certificate(3, 2, "a certificate");
        world.run(2 * SECOND);
        world.advertise(3, &[(2, advertisement_of(50_000))]);
        world.run(SECOND);
        assert_eq!(world.last(0, 2, 3).flatten().map(|c| c.rtt_us), Some(50_000), "{loss}");
        let is_certificate =
            |n: &&(Instant, GossipOutput)| matches!(n.1, GossipOutput::CertificateAdvertisement { .. });
        assert_eq!(world.outputs[0].iter().filter(is_certificate).count(), 1, "{loss}");
        // The link goes down.
        world.advertise(3, &[]);
        world.run(SECOND);
        assert_eq!(world.last(0, 2, 3), Some(None), "{loss}");
    }
}

#[test]
fn a_signature_is_valid_for_one_originator_and_covers_every_byte() {
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
fn a_changed_link_is_advertised_at_once_and_unchanged_ones_are_refreshed() {
    let all = all_settings(2);
    let mut originator = Originator::new(Arc::clone(&all[0]), 1, BEGIN);
    let is_link = |r: &&SignedRecord| matches!(r.body, RecordBody::Link { .. });
    let mut new_links = |after: Duration, advertisement: LinkAdvertisement| {
        let records =
            originator.link_records(BEGIN + after, vec![(number(1), advertisement), (number(2), ADVERTISEMENT)]);
        let links = records.iter().filter(is_link).count();
        assert_eq!(records.len() - links, usize::from(after.is_zero() || after >= REFRESH), "{after:?}");
        links
    };
    let ms = Duration::from_millis;
    assert_eq!(new_links(ms(0), ADVERTISEMENT), 2);
    assert_eq!(new_links(ms(100), ADVERTISEMENT), 0);
    assert_eq!(new_links(ms(200), advertisement_of(21_000)), 0, "below the tolerance");
    assert_eq!(new_links(ms(300), advertisement_of(30_000)), 1);
    assert_eq!(new_links(ms(400), LinkAdvertisement { loss: 0.02, high: 0.03, ..advertisement_of(30_000) }), 1);
    let changed = LinkAdvertisement { loss: 0.02, high: 0.03, datagram: Some(1400), ..advertisement_of(30_000) };
    assert_eq!(new_links(ms(500), changed), 1);
    let small_change = LinkAdvertisement { rtt_us: 31_000, ..changed };
    assert_eq!(new_links(ms(600), small_change), 0);
    assert_eq!(new_links(REFRESH, small_change), 1, "the tolerance is smaller at a refresh");
    assert_eq!(new_links(2 * REFRESH, small_change), 0);
    assert_eq!(originator.link_records(BEGIN + ms(1) + 2 * REFRESH, Vec::new()).len(), 2, "both links are down");
    assert_eq!(originator.link_records(BEGIN + 3 * REFRESH, Vec::new()).len(), 0, "no link is left to refresh");
}

#[test]
fn a_refresh_confirms_only_valid_records() {
    let all = all_settings(5);
    let mut world = World::new(&all);
    let up = |from, n| link(2, from, n);
    let of = |body, n| SignedRecord { body, ..link(2, 0, n) };
    let down = |from, n| of(RecordBody::Link { from: number(from).0, advertisement: None, relayed_bps: UNBOUNDED }, n);
    let refresh = |distances: &[u32], n| of(RecordBody::Refresh { part: 0, distances: distances.to_vec() }, n);
    // The links of member 2 that member 0 outputs as up after these records.
    let mut outputs_after = |records: &[SignedRecord]| {
        world.now = world.now + SECOND;
        world.outputs[0].clear();
        let signed: Vec<Vec<u8>> = records.iter().map(|r| signed(r, 2)).collect();
        world.hand(1, 0, &as_message(&signed));
        let is_up = |from: &usize| matches!(world.last(0, *from, 2), Some(Some(_)));
        [1, 3, 4].into_iter().filter(is_up).collect::<Vec<_>>()
    };
    assert_eq!(outputs_after(&[up(1, 1), up(3, 2), up(4, 3)]), [1, 3, 4]);
    assert_eq!(outputs_after(&[refresh(&[3, 2, 1], 4)]), [1, 3, 4]);
    assert_eq!(outputs_after(&[refresh(&[3, 2, 1], 4)]), [] as [usize; 0], "each refresh counts once");
    // Link 4 is down, and the forwarder withholds that record.
    assert_eq!(outputs_after(&[refresh(&[5, 4], 6)]), [1, 3]);
    assert_eq!(outputs_after(&[down(4, 5)]), [] as [usize; 0]);
    // An earlier record does not bring a link back, and a refresh of a later record needs no earlier one.
    assert_eq!(outputs_after(&[refresh(&[6, 5, 4, 2, u32::MAX, 0], 7)]), [1, 3]);
    assert_eq!(outputs_after(&[refresh(&[8, 5, 1], 10), up(1, 9)]), [1, 3], "3 by the refresh, 1 by its own record");
    // A refresh that follows too early is ignored.
    world.now = world.now + SECOND / 4;
    world.outputs[0].clear();
    world.hand(1, 0, &as_message(&[signed(&refresh(&[9, 2], 11), 2)]));
    assert!(world.outputs[0].is_empty());
    // Parts beyond the number of records that five members can have are ignored, too.
    world.now = world.now + SECOND;
    for part in 1..10 {
        let record = of(RecordBody::Refresh { part, distances: vec![9 + part, 2 + part] }, 11 + u64::from(part));
        world.hand(1, 0, &as_message(&[signed(&record, 2)]));
    }
    assert!(world.outputs[0].is_empty());
}

#[test]
fn unchanged_links_cost_few_bytes_and_are_refreshed() {
    const COUNT: usize = 24;
    let all = all_settings(COUNT);
    let mut world = World::new(&all);
    let run = |world: &mut World, seconds: u32| {
        for _ in 0..2 * seconds {
            for member in 0..COUNT {
                let advertisements: Vec<_> = (0..COUNT).filter(|o| *o != member).map(|o| (o, ADVERTISEMENT)).collect();
                world.advertise(member, &advertisements);
            }
            world.run(SECOND / 2);
        }
    };
    run(&mut world, 6);
    (world.bytes, world.messages) = (0, 0);
    world.outputs.iter_mut().for_each(Vec::clear);
    run(&mut world, 20);
    let bps = 8.0 * (world.bytes + world.messages * FRAME_OVERHEAD_BYTES) as f64 / COUNT as f64 / 20.0;
    // Twenty digests a second, 102 kb/s, and at most half as much for replies. (Records of 133 bytes about 552 links,
    // repeated every 2 s, would add 294 kb/s.)
    let digests = (4 + 20 * COUNT + FRAME_OVERHEAD_BYTES) as f64 * 8.0 / ROUND.as_secs_f64();
    assert!(bps < 1.5 * digests, "{bps} of {digests} b/s");
    // Route control regards a link as down after 5 s without an advertisement.
    for (at, outputs) in world.outputs.iter().enumerate() {
        let mut last: BTreeMap<(Member, Member), Vec<Instant>> = BTreeMap::new();
        for (when, output) in outputs {
            if let GossipOutput::LinkAdvertisement { from, to, advertisement: Some(_), .. } = output {
                last.entry((*from, *to)).or_default().push(*when);
            }
        }
        // A member has no output for its own links.
        assert_eq!(last.len(), (COUNT - 1) * (COUNT - 1), "{at}");
        for (link, times) in last {
            let gap = times.windows(2).map(|w| w[1].saturating_since(w[0])).max();
            assert!(gap.is_some_and(|g| g < 5 * SECOND), "{at}, {link:?}: {gap:?}");
        }
    }
}

#[test]
fn an_unchanged_link_is_refreshed_beside_one_that_changes_all_the_time() {
    let all = all_settings(4);
    let mut world = World::new(&all);
    world.loss = 0.3;
    world.reaches = |a, b| a.abs_diff(b) == 1;
    let mut last = world.now;
    let mut worst = Duration::ZERO;
    for step in 0..600 {
        let changing = if step % 2 == 0 { advertisement_of(30_000) } else { ADVERTISEMENT };
        world.advertise(2, &[(1, changing), (3, ADVERTISEMENT)]);
        world.run(2 * ROUND);
        let is_unchanged = |output: &GossipOutput| {
            let GossipOutput::LinkAdvertisement { from, to, .. } = output else { return false };
            (*from, *to) == (number(3), number(2))
        };
        last = world.outputs[0].iter().filter(|n| is_unchanged(&n.1)).map(|n| n.0).next_back().unwrap_or(last);
        let silent = world.now.saturating_since(last);
        // Route control regards a link as down after 5 s without an advertisement.
        worst = worst.max(silent);
    }
    assert!(worst < 4 * SECOND, "{worst:?}");
}

#[test]
fn a_forged_record_is_rejected_and_penalises_its_forwarder_for_that_originator() {
    let all = all_settings(4);
    for forged_of in [2, 0] {
        let mut world = World::new(&all);
        // Only member 2 may advertise the link from 3 to 2, and only member 0 its own links.
        let forged = SignedRecord { originator: number(forged_of).0, ..link(2, 3, 1 << 40) };
        let verified = |w: &World| w.members[0].peers[&number(1)].signatures;
        // Repetitions cost one verification.
        for _ in 0..50 {
            world.hand(1, 0, &as_message(&[signed(&forged, 1)]));
        }
        assert!(world.outputs[0].is_empty() && verified(&world) == 1);
        assert_eq!(world.members[0].store.digest_entry(world.now, number(2)).newest, 0);
        // The forwarder's own records, and records from other forwarders, are accepted.
        world.hand(1, 0, &as_message(&[signed(&link(1, 3, 5), 1)]));
        world.hand(3, 0, &as_message(&[signed(&link(2, 3, 6), 2)]));
        assert_eq!(world.outputs[0].len(), 2);
        world.hand(1, 0, &as_message(&[signed(&link(2, 3, 7), 2)]));
        assert_eq!(world.outputs[0].len(), if forged_of == 2 { 2 } else { 3 });
        world.now = world.now + PENALTY;
        world.hand(1, 0, &as_message(&[signed(&link(2, 3, 8), 2)]));
        assert_eq!(world.outputs[0].len(), if forged_of == 2 { 3 } else { 4 });
        assert!(world.members[0].peers[&number(1)].ignored_until.is_empty());
    }
}

/// A second key with the same number takes 2^32 tries, so half of the members here have another key for member 1.
#[test]
fn members_with_different_keys_for_one_number_accept_the_records_of_all_others() {
    let all = all_settings(6);
    let other_key = identity(100).public();
    for of_other in [3, 4, 5] {
        all[of_other].members.change(|m| {
            m.entry(number(1)).and_modify(|m| m.key = other_key);
        });
    }
    let mut world = World::new(&all);
    // The test sends for the owner of the second key, which is not in this world.
    world.reaches = |a, b| !(a.min(b) == 1 && a.max(b) >= 3);
    let mut worst = Duration::ZERO;
    for step in 0..40 {
        world.advertise(1, &[(0, advertisement_of(20_000 + 10_000 * (step % 2)))]);
        let second = SignedRecord { originator: number(1).0, ..link(1, 4, 1 << 30 | step) };
        let bytes = signed_record::sign(&second, &identity(100));
        world.members[3].handle_message(world.now, number(1), &as_message(&[bytes]));
        for (by, to) in [(0, 5), (5, 0), (2, 4), (4, 2)] {
            world.advertise(by, &[(to, advertisement_of(20_000 + 10_000 * (step % 2)))]);
        }
        world.run(SECOND / 2);
        if step < 4 {
            continue;
        }
        for (at, by, of) in [(0, 5, 0), (3, 0, 5), (4, 2, 4), (2, 4, 2)] {
            let is_of = |output: &GossipOutput| {
                let GossipOutput::LinkAdvertisement { from, to, .. } = output else { return false };
                (*from, *to) == (number(of), number(by))
            };
            let last = world.outputs[at].iter().rev().find(|n| is_of(&n.1)).map(|n| n.0);
            worst = worst.max(last.map_or(Duration::MAX, |last| world.now.saturating_since(last)));
        }
    }
    // Each link changes every half second.
    assert!(worst < SECOND, "{worst:?}");
    // The records under that number reach only the members with the key that signed them.
    assert!(world.last(0, 0, 1).is_some() && world.last(2, 0, 1).is_some() && world.last(5, 0, 1).is_none());
    assert!(world.last(0, 4, 1).is_none());
}

#[test]
fn old_records_and_records_from_of_and_about_unknown_members_are_ignored() {
    let all = all_settings(3);
    let mut world = World::new(&all);
    let new = signed(&link(2, 1, 7), 2);
    world.hand(1, 0, &as_message(std::slice::from_ref(&new)));
    assert_eq!(world.outputs[0].len(), 1);
    for old in [new, signed(&link(2, 1, 6), 2), signed(&SignedRecord { start: 999, ..link(2, 1, 8) }, 2)] {
        world.hand(1, 0, &as_message(&[old]));
    }
    assert_eq!(world.outputs[0].len(), 1, "each record counts once");
    // Member 9 is unknown: as originator, as forwarder, and as the other end of a link.
    world.hand(1, 0, &as_message(&[signed(&link(9, 1, 8), 9)]));
    world.hand(9, 0, &as_message(&[signed(&link(2, 1, 8), 2)]));
    world.hand(1, 0, &as_message(&[signed(&link(2, 9, 9), 2)]));
    assert_eq!(world.outputs[0].len(), 1);
    assert!(
        world.members[0].store.digest_entry(world.now, number(9)).newest == 0
            && !world.members[0].peers.contains_key(&number(9))
    );
}

/// Attacks on an earlier version of the gossip: a highest number that the victim never used, records out of order, and
/// invented members.
#[test]
fn false_digests_do_not_suppress_the_records_of_others() {
    let all = all_settings(4);
    let mut world = World::new(&all);
    let entry = |of: usize, newest: u64| DigestEntry { originator: number(of).0, newest, sum: newest };
    let invented: Vec<DigestEntry> =
        (0..DIGEST_MAX as u32).map(|i| DigestEntry { originator: i, newest: u64::MAX, sum: 1 }).collect();
    for _ in 0..20 {
        for to in [0, 2, 3] {
            for requests_digest in [true, false] {
                for newest in [u64::MAX, 5, 1] {
                    world.hand(
                        1,
                        to,
                        &Message::encode_digest(
                            requests_digest,
                            &[entry(2, newest), entry(to, newest), entry(1, newest)],
                        ),
                    );
                }
                world.hand(1, to, &Message::encode_digest(requests_digest, &invented));
            }
            let records = [10, 5, 10, u64::MAX, 6].map(|n| signed(&link(1, 3, n), 1));
            world.hand(1, to, &as_message(&records));
        }
        world.advertise(2, &[(3, ADVERTISEMENT)]);
        world.advertise(0, &[(3, ADVERTISEMENT)]);
        world.run(Duration::from_millis(100));
    }
    world.advertise(2, &[(3, advertisement_of(60_000))]);
    world.advertise(0, &[(3, advertisement_of(70_000))]);
    world.run(SECOND);
    for (at, to, rtt_us) in [(0, 2, 60_000), (3, 2, 60_000), (2, 0, 70_000), (3, 0, 70_000)] {
        assert_eq!(world.last(at, 3, to).flatten().map(|c| c.rtt_us), Some(rtt_us), "{at} of {to}");
    }
}

#[test]
fn records_that_one_member_withholds_arrive_from_others() {
    let all = all_settings(3);
    let mut world = World::new(&all);
    // Member 1 forwards the latest records of member 2 and withholds the earlier ones.
    world.reaches = |_, _| false;
    world.advertise(2, &[(0, ADVERTISEMENT), (1, ADVERTISEMENT)]);
    let newest = world.members[2].store.digest_entry(world.now, number(2)).newest;
    // The latest record is the refresh.
    let none = [DigestEntry { originator: number(2).0, newest: newest - 2, sum: 0 }];
    let query = MissingQuery { peer: number(0), digest: &none, rotation: 0, bytes_max: REPLY_BYTES_MAX };
    let last: Vec<Vec<u8>> =
        world.members[2].store.missing_for(world.now, &query).into_iter().map(<[u8]>::to_vec).collect();
    assert_eq!(last.len(), 2);
    world.hand(1, 0, &as_message(&last));
    assert!(world.last(0, 1, 2).is_some());
    assert_eq!(world.last(0, 0, 2), None);
    world.reaches = |_, _| true;
    world.run(Duration::from_millis(500));
    assert!(world.last(0, 0, 2).is_some());
}

#[test]
fn a_restarted_member_is_accepted_even_if_it_lost_its_number() {
    let all = all_settings(3);
    // In the last case its earlier records have expired.
    for (start, away) in [(1001, Duration::ZERO), (3, Duration::ZERO), (3, store::EXPIRY + 5 * SECOND)] {
        let mut world = World::new(&all);
        world.advertise(2, &[(1, ADVERTISEMENT)]);
        world.advertise_certificate(2, 1, "a certificate");
        world.run(SECOND);
        world.now = world.now + away;
        world.members[2] = Gossip::new(Arc::clone(&all[2]), Arc::default(), start, world.now);
        world.advertise_certificate(2, 1, "another certificate");
        for _ in 0..10 {
            world.advertise(2, &[(1, advertisement_of(50_000))]);
            world.run(Duration::from_millis(100));
        }
        assert_eq!(world.last(0, 1, 2).flatten().map(|c| c.rtt_us), Some(50_000), "{start}, away for {away:?}");
        let is_new = |output: &GossipOutput| {
            let GossipOutput::CertificateAdvertisement { text, .. } = output else { return false };
            text == "another certificate"
        };
        assert!(world.outputs[0].iter().any(|n| is_new(&n.1)), "{start}, away for {away:?}");
    }
}

#[test]
fn a_second_host_with_the_same_key_is_detected() {
    let all = all_settings(3);
    let detected = |w: &World| w.members.iter().map(|m| m.counters.counts().duplicate_identity > 0).collect::<Vec<_>>();
    let exchange = |w: &mut World| {
        for step in 0..20 {
            for member in 0..w.members.len() {
                w.advertise(member, &[(1, advertisement_of(20_000 + 10_000 * (step % 2)))]);
            }
            w.run(SECOND);
        }
    };
    // A restart with a lost number is no second host.
    let mut world = World::new(&all);
    exchange(&mut world);
    world.members[2] = Gossip::new(Arc::clone(&all[2]), Arc::default(), 3, world.now);
    exchange(&mut world);
    assert_eq!(detected(&world), [false; 3]);
    let reports = |w: &World| {
        w.outputs
            .iter()
            .map(|all| all.iter().filter(|n| n.1 == GossipOutput::DuplicateIdentity).count())
            .collect::<Vec<_>>()
    };
    assert_eq!(reports(&world), [0; 3]);
    // A copy of the last member, started later.
    let mut world = World::new(&[Arc::clone(&all[0]), Arc::clone(&all[1]), Arc::clone(&all[2]), Arc::clone(&all[2])]);
    world.members[3] = Gossip::new(Arc::clone(&all[2]), Arc::default(), 2000, world.now);
    exchange(&mut world);
    assert!(detected(&world)[2..].contains(&true) && !detected(&world)[..2].contains(&true), "{:?}", detected(&world));
    // Reported once, however long it lasts.
    assert_eq!(reports(&world), detected(&world).into_iter().map(usize::from).collect::<Vec<_>>());
}

#[test]
fn records_of_starts_and_objects_do_not_accumulate() {
    let all = all_settings(3);
    let mut world = World::new(&all);
    for start in 1000..1200 {
        world.hand(1, 0, &as_message(&[signed(&SignedRecord { start, ..link(1, 2, start) }, 1)]));
        world.run(ROUND);
    }
    assert_eq!(world.members[0].store.len(), 1);
    for object in 0..200 {
        let body = RecordBody::Link { from: object, advertisement: None, relayed_bps: UNBOUNDED };
        world.hand(
            1,
            0,
            &as_message(&[signed(&SignedRecord { start: 4000, body, ..link(1, 2, 5000 + u64::from(object)) }, 1)]),
        );
        world.run(ROUND);
    }
    assert!(world.members[0].store.len() <= world.members[0].records_max());
    // The state of former members is removed.
    all[0].members.change(|m| m.clear());
    world.run(ROUND);
    assert_eq!((world.members[0].store.len(), world.members[0].peers.len()), (0, 0));
}

#[test]
fn the_age_of_a_record_is_its_delay_above_the_minimum() {
    let all = all_settings(3);
    let mut world = World::new(&all);
    world.reaches = |a, b| a + b == 3 || a + b == 1;
    let record = |number: u64, at_ms| SignedRecord { number, at_ms, ..link(2, 1, number) };
    let age = |w: &World| w.last(0, 1, 2).flatten().unwrap().age;
    world.hand(1, 0, &as_message(&[signed(&record(1, 5000), 2)]));
    assert_eq!(age(&world), Duration::ZERO, "the zero of a clock is arbitrary");
    world.now = world.now + 3 * SECOND;
    world.hand(1, 0, &as_message(&[signed(&record(2, 6000), 2)]));
    assert!((age(&world).as_secs_f64() - 2.0).abs() < 0.01, "{:?}", age(&world));
    world.now = world.now + SECOND;
    world.hand(1, 0, &as_message(&[signed(&record(3, 9000), 2)]));
    assert!(age(&world) < Duration::from_millis(10), "{:?}", age(&world));
    // Two records in one message, with extreme times.
    for wrong in [0, u64::MAX] {
        world.hand(1, 0, &as_message(&[signed(&record(4, wrong), 2), signed(&record(5, 9000), 2)]));
    }
}

#[test]
fn a_member_whose_clock_stood_still_has_recent_records_again_within_a_minute() {
    let all = all_settings(3);
    let mut world = World::new(&all);
    world.reaches = |a, b| a + b == 3 || a + b == 1;
    // The clock of member 2 stood still for ten minutes; a record every two seconds.
    let mut ages = Vec::new();
    for number in 1..=60 {
        world.now = world.now + if number == 20 { 600 * SECOND } else { 2 * SECOND };
        let record = SignedRecord { number, at_ms: 5000 + 2000 * number, ..link(2, 1, number) };
        world.hand(1, 0, &as_message(&[signed(&record, 2)]));
        ages.push(world.last(0, 1, 2).flatten().unwrap().age.as_secs_f64());
    }
    assert!(ages[..19].iter().all(|age| *age < 0.01), "{ages:?}");
    assert!((ages[19] - 598.0).abs() < 0.01, "as old as a record that was delayed: {ages:?}");
    assert!(ages[19 + 30..].iter().all(|age| *age < 0.01), "{ages:?}");
}

#[test]
fn a_record_without_refresh_is_not_forwarded() {
    let all = all_settings(3);
    let mut world = World::new(&all);
    world.reaches = |a, b| a + b != 2;
    world.advertise(2, &[(1, ADVERTISEMENT)]);
    world.advertise_certificate(2, 1, "a certificate");
    world.run(SECOND);
    assert!(world.last(0, 1, 2).is_some());
    world.reaches = |a, b| a + b == 1;
    world.now = world.now + store::EXPIRY + SECOND;
    world.members[0] = Gossip::new(Arc::clone(&all[0]), Arc::default(), 2000, world.now);
    world.outputs[0].clear();
    world.run(SECOND);
    assert!(world.outputs[0].is_empty(), "{:?}", world.outputs[0]);
}

#[test]
fn the_cost_of_one_peer_is_limited() {
    let all = all_settings(3);
    let mut world = World::new(&all);
    let many: Vec<SignedRecord> = (0..8)
        .map(|i| SignedRecord {
            body: RecordBody::Certificate { owner: i, endpoint: None, text: "x".repeat(1000) },
            ..link(2, 1, 10 + u64::from(i))
        })
        .collect();
    world.hand(2, 0, &as_message(&[signed(&many[0], 2)]));
    for record in &many {
        world.hand(2, 0, &as_message(&[signed(record, 2)]));
    }
    let request = Message::encode_digest(true, &[DigestEntry { originator: number(2).0, newest: 0, sum: 0 }]);
    let begin = world.now;
    let mut sent = 0;
    while world.now < begin + SECOND {
        world.now = world.now + Duration::from_millis(1);
        for output in world.members[0].handle_message(world.now, number(1), &request) {
            sent += if let GossipOutput::Send { bytes, .. } = output { bytes.len() } else { 0 };
        }
    }
    // At most half of the budget of a second and one reply; another peer still gets a reply.
    let budget = all[0].gossip_rate.as_bps() as usize / 8 / 2;
    assert!(sent > budget / 2 && sent <= budget + REPLY_BYTES_MAX, "{sent}");
    assert!(!world.members[0].handle_message(world.now, number(2), &request).is_empty());
    let signatures = |w: &World| w.members[0].peers[&number(1)].signatures;
    for number in 0..3000 {
        world.hand(1, 0, &as_message(&[signed(&link(1, 2, number + 1), 1)]));
    }
    assert_eq!(signatures(&world), SIGNATURES_MAX);
    world.run(SECOND);
    world.hand(1, 0, &as_message(&[signed(&link(1, 2, 9000), 1)]));
    assert_eq!(world.members[0].store.digest_entry(world.now, number(1)).newest, 9000);
}

#[test]
fn malformed_messages_do_not_stop_the_gossip() {
    let mut gossip = Gossip::new(Arc::new(settings(0, 3)), Arc::default(), 1000, BEGIN);
    let digest = Message::encode_digest(true, &[DigestEntry { originator: number(2).0, newest: u64::MAX, sum: 0 }]);
    for bytes in [Vec::new(), vec![3; 70_000], digest] {
        gossip.handle_message(BEGIN, number(1), &bytes);
    }
    gossip.handle_own_links(BEGIN, vec![(number(1), ADVERTISEMENT)]);
    let outputs = gossip.handle_message(BEGIN, number(1), &as_message(&[signed(&link(2, 1, 3), 2)]));
    assert!(matches!(&outputs[..], [GossipOutput::LinkAdvertisement { .. }]), "{outputs:?}");
    assert!(matches!(&gossip.handle_round(BEGIN)[..], [GossipOutput::Send { .. }]));
}

#[test]
fn gossip_stays_below_its_rate_and_still_distributes_changes() {
    let mut sent_bits = Vec::new();
    for bps in [64_000, 1_000_000] {
        let of = |index| Settings { gossip_rate: units::Rate::from_bps(bps), ..settings(index, 8) };
        let all = Vec::from_iter((0..8).map(|index| Arc::new(of(index))));
        let mut world = World::new(&all);
        let span = 20;
        for second in 0..span {
            for member in 0..8 {
                let advertisements: Vec<_> =
                    (0..8).filter(|o| *o != member).map(|o| (o, advertisement_of(20_000 + second))).collect();
                world.advertise(member, &advertisements);
            }
            world.run(SECOND);
        }
        world.advertise(7, &[(6, advertisement_of(90_000))]);
        world.run(5 * SECOND);
        for member in 0..6 {
            assert_eq!(world.last(member, 6, 7).flatten().map(|c| c.rtt_us), Some(90_000), "{member} at {bps}");
        }
        let sent = 8.0 * (world.bytes + world.messages * FRAME_OVERHEAD_BYTES) as f64 / all.len() as f64;
        // The rate, the initial burst, and one reply beyond it.
        let allowed = bps as f64 * (span + 6) as f64 + 8.0 * REPLY_BYTES_MAX as f64;
        assert!(sent <= allowed, "{sent} of {allowed} bits each");
        let rate_limited: u64 = world.members.iter().map(|m| m.counters.counts().gossip_rate_limited).sum();
        assert_eq!(rate_limited > 0, bps == 64_000, "{rate_limited} at {bps}");
        sent_bits.push(sent);
    }
    assert!(sent_bits[0] < sent_bits[1], "{sent_bits:?}");
}

fn any_record() -> impl Strategy<Value = SignedRecord> {
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
    let certificate =
        (member(), ".{0,40}").prop_map(|(owner, text)| RecordBody::Certificate { owner, endpoint: None, text });
    let refresh =
        (0..3u32, vec(any::<u32>(), 0..9)).prop_map(|(part, distances)| RecordBody::Refresh { part, distances });
    (0..3usize, extreme(), extreme(), extreme(), prop_oneof![link, certificate, refresh]).prop_map(
        |(by, start, n, at_ms, body)| SignedRecord { originator: number(by).0, start, number: n, at_ms, body },
    )
}

fn originator_of(record: &SignedRecord) -> Identity {
    (0..3).map(identity).find(|i| i.public().member() == Member(record.originator)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_input_makes_it_panic(
        garbage in vec(vec(any::<u8>(), 0..300), 0..4),
        bodies in vec(vec(any::<u8>(), 0..80), 0..4),
        records in vec(any_record(), 0..6),
        digests in vec((any::<u32>(), any::<u64>(), any::<u64>()), 0..20),
        requests_digest: bool,
    ) {
        let all = all_settings(3);
        let mut world = World::new(&all);
        let entry = |(of, newest, sum)| DigestEntry { originator: number(of as usize % 4).0, newest, sum };
        let digest: Vec<DigestEntry> = digests.into_iter().map(entry).collect();
        let signed: Vec<Vec<u8>> = records.iter().map(|r| signed_record::sign(r, &originator_of(r))).collect();
        let digest = Message::encode_digest(requests_digest, &digest);
        for bytes in garbage.iter().cloned().chain([as_message(&bodies), as_message(&signed), digest]) {
            world.hand(1, 0, &bytes);
            let versioned = [&[4, 1, 0, 1][..], &bytes].concat();
            world.hand(2, 0, &versioned);
            world.advertise(0, &[(1, ADVERTISEMENT)]);
            world.run(ROUND);
        }
    }
}
