//! Joining by a seed and a certificate.

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

/// Settings that name nobody but the first member, and that one nobody.
pub(super) fn joins(own: usize, certificate: Option<String>) -> Settings {
    let settings = settings(own, 3);
    settings.members.change(|all| all.retain(|m, _| own != 0 && *m == number(0)));
    Settings { authority: Some(authority().public()), certificate, ..settings }
}

fn world(seconds: u64, last: Option<String>) -> World {
    let mut world = World::new(3);
    let all = [joins(0, Some(certificate(0, seconds))), joins(1, Some(certificate(1, seconds))), joins(2, last)];
    for (index, settings) in all.into_iter().enumerate() {
        world.hosts[index] = Host::new(settings, 40 + index as u64, world.now);
    }
    world
}

pub(super) fn knows(world: &World, a: usize, b: usize) -> bool {
    world.hosts[a].core.net.settings.members.contains(number(b))
}

#[test]
fn who_knows_one_member_and_has_a_certificate_knows_all_soon() {
    let mut world = world(1_000_000, Some(certificate(2, 1_000_000)));
    world.run(4 * SECOND);
    for (a, b) in [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0)] {
        assert!(knows(&world, a, b), "{a} {b}");
        assert!(world.hosts[a].is_linked(b), "{a} {b}");
    }
    assert_eq!(world.flow(2, 1, SECOND), (200, 200));
    let joined = |e: &&(Instant, Event)| matches!(e.1, Event::Joined { .. });
    assert_eq!(world.hosts[0].events.iter().filter(joined).count(), 2);
}

#[test]
fn who_comes_by_a_certificate_hears_of_those_whom_its_seed_lists() {
    let mut world = World::new(3);
    let authority = Some(authority().public());
    for own in [0, 1] {
        let settings = settings(own, 2);
        let certificate = Some(certificate(own, 1_000_000));
        let settings = Settings { authority, certificate, ..settings };
        world.hosts[own] = Host::new(settings, 40 + own as u64, world.now);
    }
    world.hosts[2] = Host::new(joins(2, Some(certificate(2, 1_000_000))), 42, world.now);
    world.run(6 * SECOND);
    assert!(knows(&world, 2, 1) && knows(&world, 1, 2));
    assert_eq!(world.flow(2, 1, SECOND), (200, 200));
    // The settings bind longer than what was shown.
    assert!(world.hosts[0].core.membership.certified.keys().eq([&number(2)]));
}

#[test]
fn a_key_that_calls_like_that_of_a_member_is_not_taken_for_one() {
    let mut world = world(1_000_000, Some(certificate(2, 1_000_000)));
    world.run(4 * SECOND);
    // The other point of the curve with the same first coordinate (RFC 8032, section 5.1.2): the same key to X25519
    // (RFC 7748).
    let mut twin = BASE64.decode(identity(2).public().to_string()).unwrap();
    twin[31] ^= 0x80;
    let twin: PublicKey = BASE64.encode(twin).parse().unwrap();
    assert_eq!(twin.exchange(), identity(2).public().exchange());
    assert_ne!(twin.member(), number(2));
    let (key, name) = (twin.to_string(), "twin".to_owned());
    let last_checked = Certificate { key, name, subnets: Vec::new(), until_utc_s: UTC + 1_000_000 };
    let text = last_checked.sign(&authority()).unwrap();
    world.hosts[0].core.on_certificate_advertisement(world.now, number(1), &text, None);
    assert!(!world.hosts[0].core.net.settings.members.contains(twin.member()));
    world.run(SECOND);
    assert!(refusals(&world, 0).iter().any(|why| why.contains("m2")), "{:?}", refusals(&world, 0));
}

#[test]
fn what_a_guest_has_said_cannot_be_said_again_by_the_member() {
    let mut world = world(1_000_000, Some(certificate(2, 1_000_000)));
    world.run(4 * SECOND);
    // The certificate was in the first frame of the guest, and the session is still the same.
    let session = world.hosts[0].core.net.session(number(2)).unwrap().local.to_be_bytes();
    let last_checked =
        |(from, to, d): &&(usize, usize, Vec<u8>)| (*from, *to, d[0]) == (2, 0, 0xb4) && d[4..8] == session;
    let (_, _, first) = world.seen.iter().find(last_checked).unwrap().clone();
    let before = world.hosts[0].counters.counts();
    world.receive(0, endpoint(2), first);
    let after = world.hosts[0].counters.counts();
    assert_eq!((after.replayed - before.replayed, after.frames_opened - before.frames_opened), (1, 0));
}

#[test]
fn without_a_certificate_that_holds_nobody_gets_in() {
    let over = {
        let mut c: Certificate = Certificate::verify(&certificate(2, 10), &authority().public(), 0).unwrap();
        c.until_utc_s = UTC - 1;
        c.sign(&authority()).unwrap()
    };
    let forged = certificate(2, 10).replace("m2", "m3");
    let peers = certificate(1, 1000);
    let all = [
        (None, ""),
        (Some(over), "expired"),
        (Some(forged), "not that of the certificate authority"),
        (Some(peers), "another key"),
    ];
    for (last, word) in all {
        let mut world = world(1_000_000, last.clone());
        world.run(4 * SECOND);
        assert!(!knows(&world, 0, 2) && !knows(&world, 1, 2), "{word}");
        assert!(world.hosts[0].core.net.session(number(2)).is_none());
        assert!(knows(&world, 0, 1) && world.hosts[0].is_linked(1), "the others do not mind");
        let why = refusals(&world, 0);
        assert!(why.iter().all(|w| w.contains(word)) && why.is_empty() == last.is_none(), "{word}: {why:?}");
    }
}

/// Why somebody was not let in, as a member told it.
fn refusals(world: &World, index: usize) -> Vec<String> {
    let why = |e: &Event| if let Event::PeerRejected { why, .. } = e { Some(why.clone()) } else { None };
    world.hosts[index].events.iter().filter_map(|(_, e)| why(e)).collect()
}

#[test]
fn what_is_wrong_between_two_members_is_told() {
    // Another secret; and a member that the other one does not list.
    let other_secret = Settings { secret: [8; 32], ..settings(1, 2) };
    let nobody = settings(1, 2);
    nobody.members.change(|all| all.clear());
    let silent = "no answer to handshakes at 192.0.2.2:5460";
    let unlike =
        [(other_secret, "secret", "`network_secret` the same"), (nobody, "no `[[member]]` has its key", silent)];
    for (settings, word, direct) in unlike {
        let mut world = World::new(2);
        world.hosts[1] = Host::new(settings, 9, world.now);
        world.run(200 * SECOND);
        let told = [refusals(&world, 0), refusals(&world, 1)].concat();
        assert!((2..=10).contains(&told.len()) && told.iter().all(|why| why.contains(word)), "{told:?}");
        let lines = world.hosts[0].core.unreachable_reasons(world.now, number(1));
        assert!(lines[0].contains(direct) && lines[1].contains("no member advertises a link to it"), "{lines:?}");
    }
}

#[test]
fn nobody_gets_the_subnets_of_another_by_a_certificate() {
    let thief = Certificate {
        key: identity(2).public().to_string(),
        name: "thief".to_owned(),
        subnets: vec![inner(1).into()],
        until_utc_s: UTC + 1000,
    };
    let mut world = world(1_000_000, None);
    world.run(4 * SECOND);
    let settings = joins(2, Some(thief.sign(&authority()).unwrap()));
    world.hosts[2] = Host::new(settings, 9, world.now);
    world.run(4 * SECOND);
    assert!(!knows(&world, 0, 2) && knows(&world, 0, 1));
}

#[test]
fn a_certificate_ends_and_a_later_one_goes_on() {
    let mut world = world(60, Some(certificate(2, 1_000_000)));
    world.run(10 * SECOND);
    assert!(knows(&world, 0, 1) && knows(&world, 2, 1));
    assert!(world.hosts[0].routes.contains(&inner(1).into()));
    // A later one is shown with the next session, and by gossip.
    let now = world.now;
    world.hosts[2] = Host::new(joins(2, Some(certificate(2, 2_000_000))), 10, now);
    world.run(60 * SECOND);
    assert!(!knows(&world, 0, 1), "its time is over");
    assert!(world.hosts[0].paths(1).is_empty());
    assert!(!world.hosts[0].routes.contains(&inner(1).into()), "nothing goes to the tunnel for it");
    assert!(knows(&world, 0, 2) && world.hosts[0].is_linked(2));
}

/// Sets the clock of a member's host, by how many seconds it is then ahead of the world's.
fn set_clock(world: &mut World, index: usize, ahead_s: i64) {
    let utc = UTC.saturating_add_signed(ahead_s) + world.now.saturating_since(BEGIN).as_secs();
    let now = world.now;
    world.hosts[index].core.handle_wall_clock(now, Duration::from_secs(utc));
    world.settle(index);
}

fn steps(world: &World, index: usize) -> Vec<i64> {
    let by = |e: &Event| if let Event::ClockSet { by_s } = e { Some(*by_s) } else { None };
    world.hosts[index].events.iter().filter_map(|(_, e)| by(e)).collect()
}

#[test]
fn a_member_that_began_in_the_future_lets_others_in_when_its_clock_is_set_right() {
    const AHEAD: i64 = 400 * 24 * 3600;
    let mut world = world(1_000_000, Some(certificate(2, 1_000_000)));
    let own = joins(0, Some(certificate(0, 1_000_000)));
    let own = Settings { certified_until_utc_s: Some(UTC + 1_000_000), ..own };
    world.hosts[0] = Host::new(own, 40, world.now);
    set_clock(&mut world, 0, AHEAD);
    world.run(4 * SECOND);
    // One of whom it hears by gossip alone when that time comes, and one that calls.
    assert!(!knows(&world, 0, 1) && !knows(&world, 0, 2));
    let ends = |w: &World| {
        let ends = |e: &Event| if let Event::CertificateEnds { in_s } = e { Some(*in_s) } else { None };
        w.hosts[0].events.iter().filter_map(|(_, e)| ends(e)).collect::<Vec<_>>()
    };
    assert_eq!(ends(&world), [0], "so is its own");
    set_clock(&mut world, 0, 0);
    world.run(12 * SECOND);
    assert!(knows(&world, 0, 1) && knows(&world, 0, 2), "{:?}", refusals(&world, 0));
    assert!(world.hosts[0].is_linked(1) && world.hosts[0].is_linked(2));
    assert_eq!(steps(&world, 0), [AHEAD, -AHEAD]);
    assert_eq!(ends(&world), [0], "and is not told to end");
}

#[test]
fn a_member_that_began_a_day_ago_lets_nobody_stay_whose_time_is_over() {
    const BEHIND: i64 = -24 * 3600;
    let mut world = world(1_000_000, Some(certificate(2, 20)));
    set_clock(&mut world, 0, BEHIND);
    world.run(30 * SECOND);
    assert!(knows(&world, 0, 2) && world.hosts[0].is_linked(1), "by its clock there is a day left");
    assert!(!knows(&world, 1, 2));
    set_clock(&mut world, 0, 0);
    assert!(!knows(&world, 0, 2) && knows(&world, 0, 1));
    assert!(world.hosts[0].core.net.session(number(2)).is_none());
    world.run(10 * SECOND);
    assert!(!knows(&world, 0, 2));
    // A correction is followed without a word.
    set_clock(&mut world, 0, 30);
    assert_eq!(steps(&world, 0), [BEHIND, -BEHIND]);
    assert_eq!(world.hosts[0].core.membership.utc_s(world.now), UTC + 70);
}

/// The third member with what its certificate gives it.
fn gives(name: &str, subnets: &[IpNet], seconds: u64) -> String {
    let (key, subnets) = (identity(2).public().to_string(), subnets.to_vec());
    Certificate { key, name: name.to_owned(), subnets, until_utc_s: UTC + seconds }.sign(&authority()).unwrap()
}

#[test]
fn a_later_certificate_gives_and_takes_subnets() {
    let [kept, gone, new]: [IpNet; 3] =
        [inner(2).into(), "10.8.0.0/16".parse().unwrap(), "10.9.0.0/16".parse().unwrap()];
    let mut world = world(1_000_000, Some(gives("before", &[kept, gone], 1000)));
    world.run(4 * SECOND);
    let owner = |world: &World, net: IpNet| world.hosts[0].table.owner(net.network());
    assert!(owner(&world, gone).is_some() && owner(&world, new).is_none());
    let now = world.now;
    world.hosts[2] = Host::new(joins(2, Some(gives("after", &[kept, new], 2000))), 10, now);
    world.run(10 * SECOND);
    for host in [0, 1] {
        assert_eq!(world.hosts[host].core.net.settings.name_of(number(2)), "after");
        let has = |net| world.hosts[host].routes.contains(&net);
        assert!(has(kept) && !has(gone) && has(new), "{:?}", world.hosts[host].routes);
    }
    assert!(owner(&world, gone).is_none() && owner(&world, new) == owner(&world, kept));
    // It sends from what it has now, and from what it had no more.
    for (net, delivered) in [(new, 1), (gone, 0)] {
        world.hosts[0].delivered.clear();
        world.send_packet(2, 0, net.network(), 100);
        world.run(SECOND);
        assert_eq!(world.hosts[0].delivered.len(), delivered, "{net}");
    }
    // An earlier one does not bring it back, nor does one with what is somebody else's.
    for (subnets, seconds) in [([kept, gone], 1500), ([kept, inner(1).into()], 3000)] {
        let now = world.now;
        world.hosts[2] = Host::new(joins(2, Some(gives("thief", &subnets, seconds))), 11, now);
        world.run(10 * SECOND);
        assert!(owner(&world, gone).is_none() && owner(&world, new).is_some());
        assert_eq!(world.hosts[0].core.net.settings.name_of(number(2)), "after");
    }
}

#[test]
fn who_is_called_as_somebody_else_is_has_his_number_behind_it() {
    let mut world = world(1_000_000, Some(gives("m1", &[inner(2).into()], 1000)));
    world.run(4 * SECOND);
    let of = |index: usize| world.hosts[0].core.net.settings.name_of(number(index));
    let mut names = [of(1), of(2)];
    // Who came first has the name.
    names.sort();
    let later = [1, 2].map(number).into_iter().find(|m| names[1] == format!("m1-{m}"));
    assert!(names[0] == "m1" && later.is_some(), "{names:?}");
}

#[test]
fn who_comes_back_with_a_certificate_is_asked_anew_whether_it_relays() {
    let mut world = world(1_000_000, Some(gives("m2", &[inner(2).into()], 20)));
    world.run(4 * SECOND);
    let relays = |world: &World| world.hosts[0].core.routing.relayed_bps(number(2));
    assert_eq!(relays(&world), Some(wire::overlay::gossip::UNBOUNDED));
    world.run(30 * SECOND);
    assert_eq!(relays(&world), None, "its time is over");
}

#[test]
fn of_who_is_not_known_nothing_is_taken_but_one_certificate() {
    use super::permits::sealed;
    let mut world = world(1_000_000, None);
    world.run(Duration::from_millis(100));
    let told = |world: &World, datagram: &[u8]| {
        let (host, mut told) = (&world.hosts[0], 0);
        let arrival = Arrival { received_at: world.now, from: endpoint(2), traffic_class: 0 };
        host.decapsulator.handle_datagram(&host.table, &mut datagram.to_vec(), arrival, &host.counters, &mut |_, _| {
            told += 1;
            true
        });
        told
    };
    assert_eq!(world.hosts[0].core.membership.unverified_sessions().count(), 1);
    let before = world.hosts[0].counters.counts();
    let last_checked = Message::Certificate(b"none".to_vec());
    // Other packet number spaces and queues would each take memory.
    const C: u8 = encapsulate::CONTROL_QUEUE;
    for place in [(1, C), (2, C), (3, C), (0, 0), (0, 15), (0, C + 1)] {
        assert_eq!(told(&world, &sealed(&world, 2, 0, place, &last_checked)), 0, "{place:?}");
    }
    for message in [Message::Probe, Message::SizeAsked { bytes: 1280 }, Message::Bye] {
        assert_eq!(told(&world, &sealed(&world, 2, 0, (0, C), &message)), 0);
    }
    // By its own word it is a relay whose number is that of nobody.
    let hop = world.hosts[2].core.net.session(number(0)).unwrap();
    let mut envelope = Envelope::new(number(1).0, &[0], number(0).0).unwrap();
    envelope.position = 1;
    let mut relayed = vec![0; 200];
    address(&hop, (envelope, 0), &mut relayed, micros(world.now)).unwrap();
    assert_eq!(told(&world, &relayed), 0);
    let after = world.hosts[0].counters.counts();
    assert_eq!((after.frames_opened - before.frames_opened, after.relay_denied - before.relay_denied), (3, 1));
    let certificates: Vec<u32> = (0..5).map(|_| told(&world, &sealed(&world, 2, 0, (0, C), &last_checked))).collect();
    assert_eq!(certificates, [1, 0, 0, 0, 0]);
    // One that does not hold ends it.
    world.receive(0, endpoint(2), sealed(&world, 2, 0, (0, C), &last_checked));
    let session = world.hosts[0].core.membership.unverified_sessions().next().unwrap().local;
    let now = world.now;
    world.hosts[0].core.handle_message(now, Member(0), (session, 0), last_checked);
    assert_eq!(world.hosts[0].core.membership.unverified_sessions().count(), 0);
}

/// Keys of a guest's session; no two have the same.
fn keys(n: u16) -> crate::session::Keys {
    let [high, low] = n.to_be_bytes();
    let key = |of: u8| std::array::from_fn(|i| [high, low, of].get(i).copied().unwrap_or(9));
    crate::session::Keys { cipher: Cipher::preferred(), send: key(1), receive: key(2) }
}

#[test]
fn of_more_guests_than_there_is_room_for_the_first_must_go() {
    const MOST: u32 = 1024;
    let mut world = world(1_000_000, None);
    world.run(3 * SECOND);
    // Nobody else calls.
    world.hosts[2].is_dead = true;
    world.run(4 * SECOND);
    let begin = world.now;
    let unverified_sessions = |w: &World| {
        w.hosts[0].core.membership.unverified_sessions().map(|s| s.local).collect::<std::collections::BTreeSet<_>>()
    };
    let held = |w: &World| w.hosts[0].core.net.peers[&number(1)].sessions.len();
    assert!(unverified_sessions(&world).is_empty());
    // The first and the last are the same third member; a millisecond lies between two.
    for n in 1..=MOST + 1 {
        world.now = begin + n * Duration::from_millis(1);
        let exchange = if n == 1 || n > MOST { identity(2).public().exchange() } else { [n as u8; 32] };
        let source = Source::Direct(endpoint(2));
        let now = world.now;
        // Numbers against the order in which they come, so that these tell nothing.
        let Core { membership, net, .. } = &mut world.hosts[0].core;
        membership.add_unverified(now, net, source, (exchange, 5000 - n, n), keys(n as u16)).unwrap();
        world.settle(0);
        assert_eq!(unverified_sessions(&world).len(), n.min(MOST) as usize);
        let sessions = world.hosts[0].table.sessions.len();
        assert_eq!(sessions, n.min(MOST) as usize + held(&world), "nor do the threads have more");
    }
    assert_eq!(unverified_sessions(&world), (5000 - MOST - 1..=5000 - 2).collect());
    // Whoever had to go may show what it likes.
    let last_checked = Message::Certificate(certificate(2, 1_000_000).into_bytes());
    let now = world.now;
    for (n, gets_in) in [(1, false), (MOST + 1, true)] {
        world.hosts[0].core.handle_message(now, Member(0), (5000 - n, 0), last_checked.clone());
        assert_eq!(knows(&world, 0, 2), gets_in);
    }
    assert_eq!(unverified_sessions(&world).len(), MOST as usize - 1, "that makes room for another");
    world.run(4 * SECOND);
    assert!(unverified_sessions(&world).is_empty());
}

#[test]
fn a_member_has_six_sessions_at_most_and_keeps_the_one_that_works() {
    let mut world = World::new(2);
    world.run(2 * SECOND);
    let held = |w: &World| w.hosts[1].core.net.peers[&number(0)].sessions.iter().map(|s| s.called).collect::<Vec<_>>();
    let session = world.hosts[1].core.net.session(number(0)).unwrap().local;
    let key = identity(1).public();
    let begin = (UTC + 100) << 16;
    for n in 0..50 {
        let cipher = Cipher::preferred();
        let (_, initiation) = begin_handshake(0, &key, 9, begin + n, cipher).unwrap();
        let mut datagram = initiation.encode();
        MacKeys::of(&key).write(&mut datagram, None);
        world.receive(1, endpoint(0), datagram.to_vec());
        assert!(held(&world).len() <= 6, "{n}");
        assert_eq!(world.hosts[1].table.sessions.len(), held(&world).len());
    }
    // Those that were called for last, and the one in use.
    assert_eq!(held(&world)[1..], Vec::from_iter(begin + 45..begin + 50));
    assert_eq!(world.hosts[1].core.net.session(number(0)).unwrap().local, session);
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
    assert_eq!(world.flow(1, 0, SECOND), (200, 200));
}

#[test]
fn a_thousand_certificates_are_taken_and_no_more_until_one_ends() {
    const MOST: u16 = 1000;
    let introduced = |n: u16, seconds: u64| {
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
    for n in 0..MOST {
        // The first one ends soon.
        let (member, text) = introduced(n, if n == 0 { 10 } else { 1_000_000 });
        core.on_certificate_advertisement(now, number(1), &text, None);
        assert!(core.net.settings.members.contains(member), "{n}");
    }
    // Its own is told besides.
    let full = (usize::from(MOST), usize::from(MOST), usize::from(MOST) + 1);
    assert_eq!(known(core), full);
    let (late, text) = introduced(MOST, 1_000_000);
    core.on_certificate_advertisement(now, number(1), &text, None);
    assert!(!core.net.settings.members.contains(late));
    assert_eq!(known(core), full);
    let later = now + 11 * SECOND;
    core.expire_certificates(later);
    core.on_certificate_advertisement(later, number(1), &text, None);
    assert!(core.net.settings.members.contains(late) && !core.net.settings.members.contains(introduced(0, 10).0));
    assert_eq!(known(core), full);
}

#[test]
fn those_who_only_call_are_forgotten() {
    let mut world = world(1_000_000, None);
    // One of them calls again and again.
    world.hosts[2].is_dead = true;
    world.run(SECOND);
    let now = world.now;
    for seed in 1..=255 {
        let mut stranger = joins(2, None);
        stranger.identity = Identity::from_seed(&[seed; 32]);
        let mut core = core(Arc::new(stranger), u64::from(seed), now, UTC);
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
        "no more than are answered without a cookie"
    );
    world.run(4 * SECOND);
    let core = &world.hosts[0].core;
    assert_eq!((core.membership.unverified_sessions().count(), core.net.peers.len()), (0, 1));
}

#[test]
fn who_is_answered_and_not_admitted_calls_ever_more_rarely() {
    let mut world = world(1_000_000, None);
    let calls = |world: &mut World, span: Duration| {
        world.seen.clear();
        world.run(span);
        let is_call = |(from, _, datagram): &&(usize, usize, Vec<u8>)| {
            *from == 2 && wire::overlay::Kind::of(datagram) == Some(wire::overlay::Kind::Initiation)
        };
        world.seen.iter().filter(is_call).count()
    };
    // One, and one each two seconds in which nothing comes, until the wait grows to 8 s and a quarter.
    let (first, later) = (calls(&mut world, 20 * SECOND), calls(&mut world, 60 * SECOND));
    assert!((2..=10).contains(&first) && (5..=10).contains(&later), "{first} {later}");
}

/// The second member does not know where the third is, which has moved and cannot call, as behind a NAT.
fn lost() -> World {
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

/// The second member hears from `by` where the third is.
fn tell(world: &mut World, by: usize, at: Option<SocketAddr>) {
    let (now, text) = (world.now, certificate(2, 1_000_000));
    world.hosts[1].core.on_certificate_advertisement(now, number(by), &text, at);
}

#[test]
fn a_member_is_looked_for_where_others_say_that_it_is() {
    let mut world = lost();
    // One is wrong, and then right: it is asked there each eight seconds.
    tell(&mut world, 3, Some(endpoint(8)));
    world.run(3 * SECOND);
    tell(&mut world, 3, Some(endpoint(2)));
    world.run(6 * SECOND);
    assert!(world.hosts[1].is_linked(2));
    // What works is not given up for what somebody says.
    tell(&mut world, 3, Some(endpoint(9)));
    for _ in 0..30 {
        world.run(SECOND);
        assert!(world.hosts[1].is_linked(2));
    }
}

#[test]
fn of_several_addresses_that_others_tell_each_is_asked() {
    let mut world = lost();
    // Who is behind the same NAT says it last, and somebody who lies says another one each time.
    tell(&mut world, 3, Some(endpoint(2)));
    for lie in 20..40 {
        tell(&mut world, 4, Some(endpoint(lie)));
    }
    tell(&mut world, 5, Some(endpoint(8)));
    let now = world.hosts[1].clock.at(world.now);
    let mut asks = |after| {
        let peer = world.hosts[1].core.net.peers.get_mut(&number(2)).unwrap();
        peer.endpoint.poll_learned(now + after, peer.link.is_up())
    };
    assert_eq!(asks(Duration::ZERO), [endpoint(2), endpoint(8), endpoint(39)], "of each the last");
    assert_eq!(asks(7 * SECOND), []);
    world.run(9 * SECOND);
    assert!(world.hosts[1].is_linked(2));
}

#[test]
fn what_others_say_is_theirs_to_pass_on() {
    let mut world = lost();
    let told = |w: &mut World| {
        let now = w.now;
        certificates(&mut w.hosts[1].core, now).into_iter().find(|i| i.0 == number(2)).unwrap().2
    };
    tell(&mut world, 3, Some(endpoint(8)));
    world.run(20 * SECOND);
    assert_eq!(told(&mut world), None, "nobody was ever there");
    tell(&mut world, 3, Some(endpoint(2)));
    world.run(10 * SECOND);
    assert_eq!(told(&mut world), Some(endpoint(2)));
    // It sends from two places in turn, ten times a second each.
    let now = world.now;
    let mut words = Vec::new();
    for tick in 0..160 {
        let at = now + tick * SECOND / 20;
        world.hosts[1].core.handle_network(
            at,
            FromNetwork::EndpointChanged { member: number(2), to: endpoint(2 + tick as usize % 2) },
        );
        words.push(certificates(&mut world.hosts[1].core, at).into_iter().find(|i| i.0 == number(2)).unwrap().2);
    }
    words.dedup();
    assert!(words.len() <= 3, "within eight seconds: {words:?}");
    // Where it stays is told in the end, without being asked for.
    world.hosts[1]
        .core
        .handle_network(now + 9 * SECOND, FromNetwork::EndpointChanged { member: number(2), to: endpoint(39) });
    let core = &mut world.hosts[1].core;
    std::mem::take(&mut core.net.members_changed);
    let tells = |core: &mut Core, after| {
        let told = certificates(core, now + after).into_iter().any(|i| i.0 == number(2) && i.2 == Some(endpoint(39)));
        (told, std::mem::take(&mut core.net.members_changed))
    };
    assert_eq!(tells(core, 9 * SECOND), (false, true));
    assert_eq!(tells(core, 15 * SECOND), (true, false));
}
