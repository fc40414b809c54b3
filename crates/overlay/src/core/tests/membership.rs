//! Joining with a seed and a certificate.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ipnet::IpNet;

use super::*;
use crate::certificate::Certificate;

pub(super) fn authority() -> Identity {
    Identity::from_seed(&[200; 32])
}

pub(super) fn certificate(index: usize, seconds: u64) -> String {
    let certificate = Certificate {
        key: identity(index).public().to_string(),
        name: format!("m{index}"),
        subnets: vec![inner(index).into()],
        until_utc_s: UTC + seconds,
    };
    certificate.sign(&authority()).unwrap()
}

/// Settings that list only the first member; those of the first member list none.
pub(super) fn joining(own: usize, certificate: Option<String>) -> Settings {
    let settings = settings(own, 3);
    settings.members.change(|all| all.retain(|m, _| own != 0 && *m == number(0)));
    Settings { authority: Some(authority().public()), certificate, ..settings }
}

fn world(seconds: u64, last: Option<String>) -> World {
    let mut world = World::new(3);
    let all = [joining(0, Some(certificate(0, seconds))), joining(1, Some(certificate(1, seconds))), joining(2, last)];
    for (index, settings) in all.into_iter().enumerate() {
        world.hosts[index] = Host::new(settings, 40 + index as u64, world.now);
    }
    world
}

pub(super) fn is_known(world: &World, a: usize, b: usize) -> bool {
    world.hosts[a].core.net.settings.members.contains(number(b))
}

#[test]
fn a_certified_member_with_one_seed_learns_all_members() {
    let mut world = world(1_000_000, Some(certificate(2, 1_000_000)));
    world.run(4 * SECOND);
    for (a, b) in [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0)] {
        assert!(is_known(&world, a, b), "{a} {b}");
        assert!(world.hosts[a].is_linked(b), "{a} {b}");
    }
    assert_eq!(world.flow(2, 1, SECOND), (200, 200));
    let joined = |e: &&(Instant, Event)| matches!(e.1, Event::Joined { .. });
    assert_eq!(world.hosts[0].events.iter().filter(joined).count(), 2);
}

#[test]
fn a_certified_member_learns_the_members_that_its_seed_lists() {
    let mut world = World::new(3);
    let authority = Some(authority().public());
    for own in [0, 1] {
        let settings = settings(own, 2);
        let certificate = Some(certificate(own, 1_000_000));
        let settings = Settings { authority, certificate, ..settings };
        world.hosts[own] = Host::new(settings, 40 + own as u64, world.now);
    }
    world.hosts[2] = Host::new(joining(2, Some(certificate(2, 1_000_000))), 42, world.now);
    world.run(6 * SECOND);
    assert!(is_known(&world, 2, 1) && is_known(&world, 1, 2));
    assert_eq!(world.flow(2, 1, SECOND), (200, 200));
    // A listed member needs no certificate, and is not held as a certified one.
    assert!(world.hosts[0].core.membership.certified.keys().eq([&number(2)]));
}

#[test]
fn a_key_with_the_exchange_key_of_a_member_is_rejected() {
    let mut world = world(1_000_000, Some(certificate(2, 1_000_000)));
    world.run(4 * SECOND);
    // The other point of the curve with the same first coordinate (RFC 8032, section 5.1.2) is the same key to X25519
    // (RFC 7748).
    let mut twin = BASE64.decode(identity(2).public().to_string()).unwrap();
    twin[31] ^= 0x80;
    let twin: PublicKey = BASE64.encode(twin).parse().unwrap();
    assert_eq!(twin.exchange(), identity(2).public().exchange());
    assert_ne!(twin.member(), number(2));
    let (key, name) = (twin.to_string(), "twin".to_owned());
    let twin_certificate = Certificate { key, name, subnets: Vec::new(), until_utc_s: UTC + 1_000_000 };
    let text = twin_certificate.sign(&authority()).unwrap();
    world.hosts[0].core.on_certificate_advertisement(world.now, number(1), &text, None);
    assert!(!world.hosts[0].core.net.settings.members.contains(twin.member()));
    world.run(SECOND);
    assert!(rejections(&world, 0).iter().any(|why| why.contains("m2")), "{:?}", rejections(&world, 0));
}

#[test]
fn frames_of_an_unverified_session_cannot_be_replayed_after_admission() {
    let mut world = world(1_000_000, Some(certificate(2, 1_000_000)));
    world.run(4 * SECOND);
    // The first frame of the unverified session carried the certificate, and the session is still in use.
    let session = world.hosts[0].core.net.session(number(2)).unwrap().local.to_be_bytes();
    let is_first_frame =
        |(from, to, d): &&(usize, usize, Vec<u8>)| (*from, *to, d[0]) == (2, 0, 0xb4) && d[4..8] == session;
    let (_, _, first) = world.capture.iter().find(is_first_frame).unwrap().clone();
    let before = world.hosts[0].counters.counts();
    world.receive(0, endpoint(2), first);
    let after = world.hosts[0].counters.counts();
    assert_eq!((after.replayed - before.replayed, after.frames_opened - before.frames_opened), (1, 0));
}

#[test]
fn a_peer_without_a_valid_certificate_is_not_admitted() {
    let expired = {
        let mut c: Certificate = Certificate::verify(&certificate(2, 10), &authority().public(), 0).unwrap();
        c.until_utc_s = UTC - 1;
        c.sign(&authority()).unwrap()
    };
    let forged = certificate(2, 10).replace("m2", "m3");
    let foreign = certificate(1, 1000);
    let all = [
        (None, ""),
        (Some(expired), "expired"),
        (Some(forged), "not that of the certificate authority"),
        (Some(foreign), "another key"),
    ];
    for (last, fragment) in all {
        let mut world = world(1_000_000, last.clone());
        world.run(4 * SECOND);
        assert!(!is_known(&world, 0, 2) && !is_known(&world, 1, 2), "{fragment}");
        assert!(world.hosts[0].core.net.session(number(2)).is_none());
        assert!(is_known(&world, 0, 1) && world.hosts[0].is_linked(1), "the other members are affected");
        let why = rejections(&world, 0);
        assert!(why.iter().all(|w| w.contains(fragment)) && why.is_empty() == last.is_none(), "{fragment}: {why:?}");
    }
}

/// The reasons of rejections that a member reports.
fn rejections(world: &World, index: usize) -> Vec<String> {
    let why = |e: &Event| if let Event::PeerRejected { why, .. } = e { Some(why.clone()) } else { None };
    world.hosts[index].events.iter().filter_map(|(_, e)| why(e)).collect()
}

#[test]
fn mismatches_of_the_settings_are_reported() {
    // A different secret, and a member that the other one does not list.
    let other_secret = Settings { secret: [8; 32], ..settings(1, 2) };
    let unlisted = settings(1, 2);
    unlisted.members.change(|all| all.clear());
    let no_answer = "no answer to handshakes at 192.0.2.2:5460";
    let mismatches =
        [(other_secret, "secret", "`network_secret` the same"), (unlisted, "no `[[member]]` has its key", no_answer)];
    for (settings, fragment, direct) in mismatches {
        let mut world = World::new(2);
        world.hosts[1] = Host::new(settings, 9, world.now);
        world.run(200 * SECOND);
        let reported = [rejections(&world, 0), rejections(&world, 1)].concat();
        assert!(
            (2..=10).contains(&reported.len()) && reported.iter().all(|why| why.contains(fragment)),
            "{reported:?}"
        );
        let lines = world.hosts[0].core.unreachable_reasons(world.now, number(1));
        assert!(lines[0].contains(direct) && lines[1].contains("no member advertises a link to it"), "{lines:?}");
    }
}

#[test]
fn a_certificate_with_the_subnet_of_another_member_is_rejected() {
    let thief = Certificate {
        key: identity(2).public().to_string(),
        name: "thief".to_owned(),
        subnets: vec![inner(1).into()],
        until_utc_s: UTC + 1000,
    };
    let mut world = world(1_000_000, None);
    world.run(4 * SECOND);
    let settings = joining(2, Some(thief.sign(&authority()).unwrap()));
    world.hosts[2] = Host::new(settings, 9, world.now);
    world.run(4 * SECOND);
    assert!(!is_known(&world, 0, 2) && is_known(&world, 0, 1));
}

#[test]
fn an_expired_certificate_removes_its_member_and_a_renewed_one_keeps_it() {
    let mut world = world(60, Some(certificate(2, 1_000_000)));
    world.run(10 * SECOND);
    assert!(is_known(&world, 0, 1) && is_known(&world, 2, 1));
    assert!(world.hosts[0].routes.contains(&inner(1).into()));
    // A renewed certificate is presented in the next session, and spread by gossip.
    let now = world.now;
    world.hosts[2] = Host::new(joining(2, Some(certificate(2, 2_000_000))), 10, now);
    world.run(60 * SECOND);
    assert!(!is_known(&world, 0, 1), "the certificate has expired");
    assert!(world.hosts[0].paths(1).is_empty());
    assert!(!world.hosts[0].routes.contains(&inner(1).into()), "its subnet is still routed to the tunnel");
    assert!(is_known(&world, 0, 2) && world.hosts[0].is_linked(2));
}

/// Sets the wall clock of a member's host to an offset from the simulation's.
fn set_clock(world: &mut World, index: usize, ahead_s: i64) {
    let utc = UTC.saturating_add_signed(ahead_s) + world.now.saturating_since(START).as_secs();
    let now = world.now;
    world.hosts[index].core.handle_wall_clock(now, Duration::from_secs(utc));
    world.process_outputs(index);
}

fn steps(world: &World, index: usize) -> Vec<i64> {
    let by = |e: &Event| if let Event::ClockSet { by_s } = e { Some(*by_s) } else { None };
    world.hosts[index].events.iter().filter_map(|(_, e)| by(e)).collect()
}

#[test]
fn a_member_whose_clock_was_ahead_admits_others_after_the_correction() {
    const AHEAD: i64 = 400 * 24 * 3600;
    let mut world = world(1_000_000, Some(certificate(2, 1_000_000)));
    let own = joining(0, Some(certificate(0, 1_000_000)));
    let own = Settings { certified_until_utc_s: Some(UTC + 1_000_000), ..own };
    world.hosts[0] = Host::new(own, 40, world.now);
    set_clock(&mut world, 0, AHEAD);
    world.run(4 * SECOND);
    // The second member becomes known by gossip only, the third one by its handshake.
    assert!(!is_known(&world, 0, 1) && !is_known(&world, 0, 2));
    let ends = |w: &World| {
        let ends = |e: &Event| if let Event::CertificateEnds { in_s } = e { Some(*in_s) } else { None };
        w.hosts[0].events.iter().filter_map(|(_, e)| ends(e)).collect::<Vec<_>>()
    };
    assert_eq!(ends(&world), [0], "its own certificate appears expired as well");
    set_clock(&mut world, 0, 0);
    world.run(12 * SECOND);
    assert!(is_known(&world, 0, 1) && is_known(&world, 0, 2), "{:?}", rejections(&world, 0));
    assert!(world.hosts[0].is_linked(1) && world.hosts[0].is_linked(2));
    assert_eq!(steps(&world, 0), [AHEAD, -AHEAD]);
    assert_eq!(ends(&world), [0], "the expiry is reported again");
}

#[test]
fn a_member_whose_clock_was_behind_removes_expired_members_after_the_correction() {
    const BEHIND: i64 = -24 * 3600;
    let mut world = world(1_000_000, Some(certificate(2, 20)));
    set_clock(&mut world, 0, BEHIND);
    world.run(30 * SECOND);
    assert!(
        is_known(&world, 0, 2) && world.hosts[0].is_linked(1),
        "removed although the certificate is valid by its clock"
    );
    assert!(!is_known(&world, 1, 2));
    set_clock(&mut world, 0, 0);
    assert!(!is_known(&world, 0, 2) && is_known(&world, 0, 1));
    assert!(world.hosts[0].core.net.session(number(2)).is_none());
    world.run(10 * SECOND);
    assert!(!is_known(&world, 0, 2));
    // A small correction is applied without an event.
    set_clock(&mut world, 0, 30);
    assert_eq!(steps(&world, 0), [BEHIND, -BEHIND]);
    assert_eq!(world.hosts[0].core.membership.utc_s(world.now), UTC + 70);
}

/// A certificate of the third member.
fn certificate_with(name: &str, subnets: &[IpNet], seconds: u64) -> String {
    let (key, subnets) = (identity(2).public().to_string(), subnets.to_vec());
    Certificate { key, name: name.to_owned(), subnets, until_utc_s: UTC + seconds }.sign(&authority()).unwrap()
}

#[test]
fn a_renewed_certificate_adds_and_removes_subnets() {
    let [kept, gone, new]: [IpNet; 3] =
        [inner(2).into(), "10.8.0.0/16".parse().unwrap(), "10.9.0.0/16".parse().unwrap()];
    let mut world = world(1_000_000, Some(certificate_with("before", &[kept, gone], 1000)));
    world.run(4 * SECOND);
    let owner = |world: &World, net: IpNet| world.hosts[0].table.owner(net.network());
    assert!(owner(&world, gone).is_some() && owner(&world, new).is_none());
    let now = world.now;
    world.hosts[2] = Host::new(joining(2, Some(certificate_with("after", &[kept, new], 2000))), 10, now);
    world.run(10 * SECOND);
    for host in [0, 1] {
        assert_eq!(world.hosts[host].core.net.settings.name_of(number(2)), "after");
        let has = |net| world.hosts[host].routes.contains(&net);
        assert!(has(kept) && !has(gone) && has(new), "{:?}", world.hosts[host].routes);
    }
    assert!(owner(&world, gone).is_none() && owner(&world, new) == owner(&world, kept));
    // Packets from a current subnet are delivered, those from a former one dropped.
    for (net, delivered) in [(new, 1), (gone, 0)] {
        world.hosts[0].delivered.clear();
        world.send_packet(2, 0, net.network(), 100);
        world.run(SECOND);
        assert_eq!(world.hosts[0].delivered.len(), delivered, "{net}");
    }
    // Neither an older certificate nor one with the subnet of another member is accepted.
    for (subnets, seconds) in [([kept, gone], 1500), ([kept, inner(1).into()], 3000)] {
        let now = world.now;
        world.hosts[2] = Host::new(joining(2, Some(certificate_with("thief", &subnets, seconds))), 11, now);
        world.run(10 * SECOND);
        assert!(owner(&world, gone).is_none() && owner(&world, new).is_some());
        assert_eq!(world.hosts[0].core.net.settings.name_of(number(2)), "after");
    }
}

#[test]
fn a_duplicate_name_is_extended_by_the_member_number() {
    let mut world = world(1_000_000, Some(certificate_with("m1", &[inner(2).into()], 1000)));
    world.run(4 * SECOND);
    let of = |index: usize| world.hosts[0].core.net.settings.name_of(number(index));
    let mut names = [of(1), of(2)];
    // The member admitted first keeps the name.
    names.sort();
    let later = [1, 2].map(number).into_iter().find(|m| names[1] == format!("m1-{m}"));
    assert!(names[0] == "m1" && later.is_some(), "{names:?}");
}

#[test]
fn an_expired_certificate_removes_the_relay_advertisement() {
    let mut world = world(1_000_000, Some(certificate_with("m2", &[inner(2).into()], 20)));
    world.run(4 * SECOND);
    let relays = |world: &World| world.hosts[0].core.routing.relayed_bps(number(2));
    assert_eq!(relays(&world), Some(wire::overlay::gossip::UNBOUNDED));
    world.run(30 * SECOND);
    assert_eq!(relays(&world), None, "the certificate has expired");
}

#[test]
fn an_unverified_session_carries_one_certificate_only() {
    use super::permits::sealed;
    let mut world = world(1_000_000, None);
    world.run(Duration::from_millis(100));
    let events = |world: &World, datagram: &[u8]| {
        let (host, mut count) = (&world.hosts[0], 0);
        let arrival = Arrival { received_at: world.now, from: endpoint(2), traffic_class: 0 };
        host.decapsulator.handle_datagram(&host.table, &mut datagram.to_vec(), arrival, &host.counters, &mut |_, _| {
            count += 1;
            true
        });
        count
    };
    assert_eq!(world.hosts[0].core.membership.unverified_sessions().count(), 1);
    let before = world.hosts[0].counters.counts();
    let certificate_message = Message::Certificate(b"none".to_vec());
    // Each further packet number space or queue would need memory.
    const C: u8 = encapsulate::CONTROL_QUEUE;
    for place in [(1, C), (2, C), (3, C), (0, 0), (0, 15), (0, C + 1)] {
        assert_eq!(events(&world, &sealed(&world, 2, 0, place, &certificate_message)), 0, "{place:?}");
    }
    for message in [Message::Probe, Message::SizeAsked { bytes: 1280 }, Message::Bye] {
        assert_eq!(events(&world, &sealed(&world, 2, 0, (0, C), &message)), 0);
    }
    // An envelope claims that the unverified peer is a relay without a member number.
    let hop = world.hosts[2].core.net.session(number(0)).unwrap();
    let mut envelope = Envelope::new(number(1).0, &[0], number(0).0).unwrap();
    envelope.position = 1;
    let mut relayed = vec![0; 200];
    address(&hop, (envelope, 0), &mut relayed, micros(world.now)).unwrap();
    assert_eq!(events(&world, &relayed), 0);
    let after = world.hosts[0].counters.counts();
    assert_eq!((after.frames_opened - before.frames_opened, after.relay_denied - before.relay_denied), (3, 1));
    let certificates: Vec<u32> =
        (0..5).map(|_| events(&world, &sealed(&world, 2, 0, (0, C), &certificate_message))).collect();
    assert_eq!(certificates, [1, 0, 0, 0, 0]);
    // An invalid certificate ends the session.
    world.receive(0, endpoint(2), sealed(&world, 2, 0, (0, C), &certificate_message));
    let session = world.hosts[0].core.membership.unverified_sessions().next().unwrap().local;
    let now = world.now;
    world.hosts[0].core.handle_message(now, Member(0), (session, 0), certificate_message);
    assert_eq!(world.hosts[0].core.membership.unverified_sessions().count(), 0);
}

/// Distinct keys for each unverified session.
fn keys(n: u16) -> crate::session::Keys {
    let [high, low] = n.to_be_bytes();
    let key = |of: u8| std::array::from_fn(|i| [high, low, of].get(i).copied().unwrap_or(9));
    crate::session::Keys { cipher: Cipher::preferred(), send: key(1), receive: key(2) }
}

#[test]
fn the_oldest_unverified_session_is_evicted_at_the_limit() {
    const LIMIT: u32 = 1024;
    let mut world = world(1_000_000, None);
    world.run(3 * SECOND);
    // No other unverified peer initiates.
    world.hosts[2].is_dead = true;
    world.run(4 * SECOND);
    let start = world.now;
    let unverified_sessions = |w: &World| {
        w.hosts[0].core.membership.unverified_sessions().map(|s| s.local).collect::<std::collections::BTreeSet<_>>()
    };
    let held = |w: &World| w.hosts[0].core.net.peers[&number(1)].sessions.len();
    assert!(unverified_sessions(&world).is_empty());
    // The first and the last session belong to the third member; a millisecond separates two sessions.
    for n in 1..=LIMIT + 1 {
        world.now = start + n * Duration::from_millis(1);
        let exchange = if n == 1 || n > LIMIT { identity(2).public().exchange() } else { [n as u8; 32] };
        let source = Source::Direct(endpoint(2));
        let now = world.now;
        // Descending indices: the eviction order must not follow them.
        let Core { membership, net, .. } = &mut world.hosts[0].core;
        membership.add_unverified(now, net, source, (exchange, 5000 - n, n), keys(n as u16)).unwrap();
        world.process_outputs(0);
        assert_eq!(unverified_sessions(&world).len(), n.min(LIMIT) as usize);
        let sessions = world.hosts[0].table.sessions.len();
        assert_eq!(sessions, n.min(LIMIT) as usize + held(&world), "the forwarding table holds more");
    }
    assert_eq!(unverified_sessions(&world), (5000 - LIMIT - 1..=5000 - 2).collect());
    // An evicted session cannot present a certificate.
    let certificate_message = Message::Certificate(certificate(2, 1_000_000).into_bytes());
    let now = world.now;
    for (n, is_admitted) in [(1, false), (LIMIT + 1, true)] {
        world.hosts[0].core.handle_message(now, Member(0), (5000 - n, 0), certificate_message.clone());
        assert_eq!(is_known(&world, 0, 2), is_admitted);
    }
    assert_eq!(unverified_sessions(&world).len(), LIMIT as usize - 1, "the admission frees no place");
    world.run(4 * SECOND);
    assert!(unverified_sessions(&world).is_empty());
}

#[test]
fn a_peer_has_at_most_six_sessions_including_the_one_in_use() {
    let mut world = World::new(2);
    world.run(2 * SECOND);
    let held = |w: &World| w.hosts[1].core.net.peers[&number(0)].sessions.iter().map(|s| s.called).collect::<Vec<_>>();
    let session = world.hosts[1].core.net.session(number(0)).unwrap().local;
    let key = identity(1).public();
    let first = (UTC + 100) << 16;
    for n in 0..50 {
        let cipher = Cipher::preferred();
        let (_, initiation) = begin_handshake(0, &key, 9, first + n, cipher).unwrap();
        let mut datagram = initiation.encode();
        MacKeys::of(&key).write(&mut datagram, None);
        world.receive(1, endpoint(0), datagram.to_vec());
        assert!(held(&world).len() <= 6, "{n}");
        assert_eq!(world.hosts[1].table.sessions.len(), held(&world).len());
    }
    // The most recent sessions, and the one in use.
    assert_eq!(held(&world)[1..], Vec::from_iter(first + 45..first + 50));
    assert_eq!(world.hosts[1].core.net.session(number(0)).unwrap().local, session);
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
    assert_eq!(world.flow(1, 0, SECOND), (200, 200));
}

#[test]
fn a_thousand_certificates_are_held_and_another_only_after_an_expiry() {
    const LIMIT: u16 = 1000;
    let certified = |n: u16, seconds: u64| {
        let [high, low] = n.to_be_bytes();
        let seed: [u8; 32] = std::array::from_fn(|i| [high, low, 99].get(i).copied().unwrap_or(1));
        let key = Identity::from_seed(&seed).public();
        let address = IpAddr::from(Ipv4Addr::new(10, 88, high, low));
        let (key, member) = (key.to_string(), key.member());
        let (name, until_utc_s) = (format!("n{n}"), UTC + seconds);
        let certificate = Certificate { key, name, subnets: vec![address.into()], until_utc_s };
        (member, certificate.sign(&authority()).unwrap())
    };
    let mut world = world(1_000_000, None);
    let now = world.now;
    let core = &mut world.hosts[0].core;
    let known =
        |core: &mut Core| (core.net.settings.members.get().len(), core.net.peers.len(), certificates(core, now).len());
    for n in 0..LIMIT {
        // The first certificate expires early.
        let (member, text) = certified(n, if n == 0 { 10 } else { 1_000_000 });
        core.on_certificate_advertisement(now, number(1), &text, None);
        assert!(core.net.settings.members.contains(member), "{n}");
    }
    // A member also advertises its own certificate.
    let full = (usize::from(LIMIT), usize::from(LIMIT), usize::from(LIMIT) + 1);
    assert_eq!(known(core), full);
    let (late, text) = certified(LIMIT, 1_000_000);
    core.on_certificate_advertisement(now, number(1), &text, None);
    assert!(!core.net.settings.members.contains(late));
    assert_eq!(known(core), full);
    let later = now + 11 * SECOND;
    core.expire_certificates(later);
    core.on_certificate_advertisement(later, number(1), &text, None);
    assert!(core.net.settings.members.contains(late) && !core.net.settings.members.contains(certified(0, 10).0));
    assert_eq!(known(core), full);
}

#[test]
fn unverified_sessions_without_a_certificate_expire() {
    let mut world = world(1_000_000, None);
    // One of them would initiate repeatedly.
    world.hosts[2].is_dead = true;
    world.run(SECOND);
    let now = world.now;
    for seed in 1..=255 {
        let mut unknown = joining(2, None);
        unknown.identity = Identity::from_seed(&[seed; 32]);
        let mut core = core(Arc::new(unknown), u64::from(seed), now, UTC);
        core.handle_timeout(now);
        while let Some(output) = core.poll_output() {
            if let Output::Send { to, datagram } = output {
                assert_eq!(to, endpoint(0));
                world.receive(0, "203.0.113.9:999".parse().unwrap(), datagram);
            }
        }
    }
    assert!(
        (1..=101).contains(&world.hosts[0].core.membership.unverified_sessions().count()),
        "more sessions than responses without a cookie"
    );
    world.run(4 * SECOND);
    let core = &world.hosts[0].core;
    assert_eq!((core.membership.unverified_sessions().count(), core.net.peers.len()), (0, 1));
}

#[test]
fn a_peer_that_is_not_admitted_backs_off() {
    let mut world = world(1_000_000, None);
    let initiations = |world: &mut World, span: Duration| {
        world.capture.clear();
        world.run(span);
        let is_initiation = |(from, _, datagram): &&(usize, usize, Vec<u8>)| {
            *from == 2 && wire::overlay::Kind::of(datagram) == Some(wire::overlay::Kind::Initiation)
        };
        world.capture.iter().filter(is_initiation).count()
    };
    // One, and one for each two seconds of silence, until the backoff reaches 8 s with a jitter of a quarter.
    let (first, later) = (initiations(&mut world, 20 * SECOND), initiations(&mut world, 60 * SECOND));
    assert!((2..=10).contains(&first) && (5..=10).contains(&later), "{first} {later}");
}

/// The second member has no valid endpoint of the third, which has moved and cannot initiate, as behind a NAT.
fn unreachable_third() -> World {
    let mut world = world(1_000_000, Some(certificate(2, 1_000_000)));
    world.run(4 * SECOND);
    world.set(1, 2, None);
    world.run(SECOND / 10);
    world.set(1, 2, Some(WIRE));
    for (host, of, is) in [(1, 2, Some(endpoint(7))), (2, 1, None)] {
        let now = world.now;
        let core = &mut world.hosts[host].core;
        let peer = core.net.peers.get_mut(&number(of)).unwrap();
        peer.endpoint = endpoint::PeerEndpoint::new(is.map(Endpoint::Address).as_ref(), now);
        peer.endpoint.forget_configured();
        core.net.table_changed = true;
    }
    world.run(3 * SECOND);
    assert!(!world.hosts[1].is_linked(2));
    world
}

/// Member `by` advertises the endpoint of the third member to the second.
fn advertise_endpoint(world: &mut World, by: usize, at: Option<SocketAddr>) {
    let (now, text) = (world.now, certificate(2, 1_000_000));
    world.hosts[1].core.on_certificate_advertisement(now, number(by), &text, at);
}

#[test]
fn endpoints_advertised_by_others_are_probed() {
    let mut world = unreachable_third();
    // The advertised endpoint is wrong at first. The current one is probed every eight seconds.
    advertise_endpoint(&mut world, 3, Some(endpoint(8)));
    world.run(3 * SECOND);
    advertise_endpoint(&mut world, 3, Some(endpoint(2)));
    world.run(6 * SECOND);
    assert!(world.hosts[1].is_linked(2));
    // An advertised endpoint does not replace a working one.
    advertise_endpoint(&mut world, 3, Some(endpoint(9)));
    for _ in 0..30 {
        world.run(SECOND);
        assert!(world.hosts[1].is_linked(2));
    }
}

#[test]
fn several_advertised_endpoints_are_all_probed() {
    let mut world = unreachable_third();
    // A peer behind the same NAT advertises another endpoint last, and a faulty peer advertises a new one each time.
    advertise_endpoint(&mut world, 3, Some(endpoint(2)));
    for port in 20..40 {
        advertise_endpoint(&mut world, 4, Some(endpoint(port)));
    }
    advertise_endpoint(&mut world, 5, Some(endpoint(8)));
    let now = world.hosts[1].clock.at(world.now);
    let mut probes = |after| {
        let peer = world.hosts[1].core.net.peers.get_mut(&number(2)).unwrap();
        peer.endpoint.poll_learned(now + after, peer.link.is_up())
    };
    assert_eq!(
        probes(Duration::ZERO),
        [endpoint(2), endpoint(8), endpoint(39)],
        "not the last endpoint of each member"
    );
    assert_eq!(probes(7 * SECOND), []);
    world.run(9 * SECOND);
    assert!(world.hosts[1].is_linked(2));
}

#[test]
fn an_advertised_endpoint_is_passed_on_only_after_it_worked() {
    let mut world = unreachable_third();
    let advertised = |w: &mut World| {
        let now = w.now;
        certificates(&mut w.hosts[1].core, now).into_iter().find(|i| i.0 == number(2)).unwrap().2
    };
    advertise_endpoint(&mut world, 3, Some(endpoint(8)));
    world.run(20 * SECOND);
    assert_eq!(advertised(&mut world), None, "an endpoint that never answered is advertised");
    advertise_endpoint(&mut world, 3, Some(endpoint(2)));
    world.run(10 * SECOND);
    assert_eq!(advertised(&mut world), Some(endpoint(2)));
    // The peer alternates between two addresses, ten times a second each.
    let now = world.now;
    let mut endpoints = Vec::new();
    for tick in 0..160 {
        let at = now + tick * SECOND / 20;
        world.hosts[1].core.handle_network(
            at,
            FromNetwork::EndpointChanged { member: number(2), to: endpoint(2 + tick as usize % 2) },
        );
        endpoints.push(certificates(&mut world.hosts[1].core, at).into_iter().find(|i| i.0 == number(2)).unwrap().2);
    }
    endpoints.dedup();
    assert!(endpoints.len() <= 3, "too many changes in eight seconds: {endpoints:?}");
    // A stable endpoint is advertised after the hold-down without a request.
    world.hosts[1]
        .core
        .handle_network(now + 9 * SECOND, FromNetwork::EndpointChanged { member: number(2), to: endpoint(39) });
    let core = &mut world.hosts[1].core;
    std::mem::take(&mut core.net.members_changed);
    let poll_advertisement = |core: &mut Core, after| {
        let is_advertised =
            certificates(core, now + after).into_iter().any(|i| i.0 == number(2) && i.2 == Some(endpoint(39)));
        (is_advertised, std::mem::take(&mut core.net.members_changed))
    };
    assert_eq!(poll_advertisement(core, 9 * SECOND), (false, true));
    assert_eq!(poll_advertisement(core, 15 * SECOND), (true, false));
}
