//! Settings that are read again while a member runs.

use super::membership::{authority, certificate, joins, knows};
use super::*;
use crate::core::reload::Reloaded;
use crate::settings::HostPort;

/// Settings of a member that lists these others.
fn lists(own: usize, peers: &[usize]) -> Settings {
    let settings = settings(own, 4);
    settings.members.change(|all| all.retain(|m, _| peers.iter().any(|o| number(*o) == *m)));
    settings
}

/// Members that list these of each other, and run.
fn world(lists_of: &[&[usize]]) -> World {
    let mut world = World::new(lists_of.len());
    for (index, peers) in lists_of.iter().enumerate() {
        world.hosts[index] = Host::new(lists(index, peers), 60 + index as u64, world.now);
    }
    world.run(4 * SECOND);
    world
}

fn reload(world: &mut World, index: usize, new: &Settings) -> Result<Reloaded, String> {
    let now = world.now;
    let reloaded = world.hosts[index].core.reload(now, new);
    world.settle(index);
    reloaded
}

fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn who_is_listed_later_is_a_member_and_the_others_notice_nothing() {
    let mut world = world(&[&[1], &[0], &[0, 1]]);
    assert!(world.hosts[0].is_linked(1) && !knows(&world, 0, 2) && !world.hosts[2].is_linked(0));
    let session = world.hosts[0].core.net.session(number(1)).unwrap().local;
    for (index, peers) in [(0, [1, 2]), (1, [0, 2])] {
        let reloaded = reload(&mut world, index, &lists(index, &peers)).unwrap();
        assert_eq!(reloaded, Reloaded { added: names(&["m2"]), ..Reloaded::default() });
    }
    // It is called at once, and has been calling each 8 s.
    world.run(2 * SECOND);
    assert!(world.hosts[0].is_linked(2) && world.hosts[2].is_linked(1));
    assert_eq!(world.hosts[0].routes, [inner(2).into()]);
    for (from, to) in [(0, 2), (2, 0), (0, 1)] {
        assert_eq!(world.flow(from, to, SECOND), (200, 200), "{from} {to}");
    }
    assert_eq!(world.hosts[0].core.net.session(number(1)).unwrap().local, session);
    let down = |(_, e): &(Instant, Event)| matches!(e, Event::Link { up: false, .. } | Event::Left { .. });
    assert!(!world.hosts[0].events.iter().any(down), "{:?}", world.hosts[0].events);
}

#[test]
fn who_is_listed_no_more_is_out_at_once() {
    let mut world = world(&[&[1, 2], &[0, 2], &[0, 1]]);
    assert!(world.hosts[0].is_linked(2));
    let reloaded = reload(&mut world, 0, &lists(0, &[1])).unwrap();
    assert_eq!(reloaded, Reloaded { removed: names(&["m2"]), ..Reloaded::default() });
    // What is on its way there is not answered any more, and what it sends not heard.
    let delivered = world.hosts[0].delivered.len();
    world.send_packet(2, 0, inner(2), 100);
    world.run(SECOND);
    assert_eq!(world.hosts[0].delivered.len(), delivered);
    assert!(!knows(&world, 0, 2) && world.hosts[0].table.owner(inner(2)).is_none());
    // The other end was told.
    assert!(!world.hosts[2].is_linked(0) && world.hosts[2].core.net.session(number(0)).is_none());
    world.run(20 * SECOND);
    let refused =
        |(_, e): &(Instant, Event)| matches!(e, Event::PeerRejected { why, .. } if why.contains("no `[[member]]`"));
    assert!(world.hosts[0].events.iter().any(refused), "it calls, and is told of");
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
}

#[test]
fn a_member_is_found_at_another_address_and_by_a_name() {
    let mut world = World::new(2);
    let at = |to: Option<Endpoint>| {
        let settings = settings(0, 2);
        settings.members.change(|all| all.values_mut().for_each(|m| m.endpoint = to.clone()));
        settings
    };
    // The other one waits to be called.
    world.hosts[0] = Host::new(at(Some(Endpoint::Address(endpoint(3)))), 1, world.now);
    world.hosts[1] = Host::waiting(1, 2, world.now);
    world.run(4 * SECOND);
    assert!(!world.hosts[0].is_linked(1));
    let name: Endpoint = "m1.test".parse().unwrap();
    let reloaded = reload(&mut world, 0, &at(Some(name))).unwrap();
    assert_eq!(reloaded, Reloaded { changed: names(&["m1"]), ..Reloaded::default() });
    world.run(Duration::from_millis(100));
    assert!(world.hosts[0].asked.iter().any(|(_, member, name)| *member == number(1) && name == "m1.test:5460"));
    // Nobody is called where it was before; and what is found for another name is no matter.
    let called = |world: &World| world.hosts[0].core.net.peers[&number(1)].endpoint.current;
    assert_eq!(called(&world), None);
    let found = |world: &mut World, host: &str| {
        let (now, name) = (world.now, HostPort { host: host.to_owned(), port: 5460 });
        world.hosts[0].core.handle_addresses(now, (number(1), &name), Ok(vec![endpoint(1)]));
        world.run(SECOND);
        world.hosts[0].is_linked(1)
    };
    assert!(!found(&mut world, "before.test") && called(&world).is_none());
    assert!(found(&mut world, "m1.test"));
    // A link that works goes on, wherever its other end should be.
    let sent = world.hosts[0].core.net.session(number(1)).unwrap().local;
    let elsewhere = at(Some(Endpoint::Address(endpoint(3))));
    reload(&mut world, 0, &elsewhere).unwrap();
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
    assert_eq!(world.hosts[0].core.net.session(number(1)).unwrap().local, sent);
    // The same again is nothing.
    assert_eq!(reload(&mut world, 0, &elsewhere).unwrap(), Reloaded::default());
}

#[test]
fn subnets_go_from_one_member_to_another() {
    let net: ipnet::IpNet = "10.8.0.0/16".parse().unwrap();
    let behind = |owner: usize| {
        let settings = lists(0, &[1, 2]);
        settings.members.change(|all| all.get_mut(&number(owner)).unwrap().subnets.push(net));
        settings
    };
    let mut world = world(&[&[1, 2], &[0, 2], &[0, 1]]);
    for (owner, changed) in [(1, &["m1"][..]), (2, &["m1", "m2"])] {
        let mut reloaded = reload(&mut world, 0, &behind(owner)).unwrap();
        reloaded.changed.sort();
        assert_eq!(reloaded, Reloaded { changed: names(changed), ..Reloaded::default() });
        let table = &world.hosts[0].table;
        assert!(table.owner(net.network()).is_some() && table.owner(net.network()) == table.owner(inner(owner)));
        assert_eq!(world.hosts[0].routes, [net], "those that stay are there already");
        // From there alone.
        for (from, delivered) in [(owner, 1), (3 - owner, 0)] {
            world.hosts[0].delivered.clear();
            world.send_packet(from, 0, net.network(), 100);
            world.run(SECOND);
            assert_eq!(world.hosts[0].delivered.len(), delivered, "{owner} {from}");
        }
    }
}

#[test]
fn what_cannot_be_taken_changes_nothing() {
    let mut world = world(&[&[1], &[0]]);
    let new = |change: &dyn Fn(&mut Settings)| {
        let mut settings = lists(0, &[1, 2]);
        change(&mut settings);
        settings
    };
    let net: ipnet::IpNet = "2001:db8::/48".parse().unwrap();
    for (settings, word) in [
        (new(&|s| s.addresses.push("10.77.0.99".parse().unwrap())), "`addresses`"),
        (new(&|s| s.subnets.push(net)), "`subnets`"),
        (new(&|s| s.authority = Some(authority().public())), "`ca_public_key`"),
        (new(&|s| s.identity = identity(5)), "`key`"),
        (new(&|s| (s.certificate, s.certified_until_utc_s) = (Some(certificate(0, 1)), Some(UTC + 1))), "has expired"),
    ] {
        let why = reload(&mut world, 0, &settings).unwrap_err();
        assert!(why.contains(word), "{why}");
        assert!(!knows(&world, 0, 2) && knows(&world, 0, 1), "{word}");
    }
    // What counts at the next start is told, and the rest is taken.
    let later = |s: &mut Settings| {
        s.as_written.insert("eta".to_owned(), 0.4.into());
        s.secret = [9; 32];
    };
    let reloaded = reload(&mut world, 0, &new(&later)).unwrap();
    assert_eq!((reloaded.added, reloaded.at_next_start), (names(&["m2"]), names(&["eta", "network_secret"])));
}

/// Settings with a certificate that ends so soon.
fn certified(own: usize, seconds: u64) -> Settings {
    let settings = joins(own, Some(certificate(own, seconds)));
    Settings { certified_until_utc_s: Some(UTC + seconds), ..settings }
}

#[test]
fn a_later_certificate_is_shown_without_a_new_start_and_the_end_of_one_is_told() {
    const DAY: u64 = 24 * 3600;
    let mut world = World::new(3);
    for (index, seconds) in [(0, 7 * DAY + 10), (1, DAY + 10), (2, 40)] {
        world.hosts[index] = Host::new(certified(index, seconds), 80 + index as u64, world.now);
    }
    let told = |world: &World, index: usize| -> Vec<u64> {
        let of = |e: &Event| if let Event::CertificateEnds { in_s } = e { Some(*in_s) } else { None };
        world.hosts[index].events.iter().filter_map(|(_, e)| of(e)).collect()
    };
    // At the start, where it is a week or less, a week before, and a day before.
    world.run(5 * SECOND);
    assert_eq!([0, 1, 2].map(|index| told(&world, index)), [vec![], vec![DAY + 10], vec![40]]);
    world.run(15 * SECOND);
    assert!(matches!(told(&world, 0)[..], [in_s] if in_s.abs_diff(7 * DAY) <= 1), "{:?}", told(&world, 0));
    assert!(matches!(told(&world, 1)[..], [_, in_s] if in_s.abs_diff(DAY) <= 1), "{:?}", told(&world, 1));
    let reloaded = reload(&mut world, 2, &certified(2, 1000)).unwrap();
    let until = Some(UTC + 1000);
    assert_eq!(reloaded, Reloaded { certificate: true, certified_until_utc_s: until, ..Reloaded::default() });
    assert_eq!(world.hosts[2].core.certified_until_utc_s(), until);
    world.run(60 * SECOND);
    assert!(knows(&world, 0, 2) && knows(&world, 1, 2), "the first one ended 40 s ago");
    assert_eq!(world.flow(2, 1, SECOND), (200, 200));
    let gone = |(_, e): &(Instant, Event)| matches!(e, Event::Left { .. });
    assert!(!world.hosts[0].events.iter().any(gone));
    world.run(Duration::from_secs(1000));
    assert_eq!(told(&world, 2), [40, 980, 0], "of the one that it has had for 980 s");
    assert!(!knows(&world, 0, 2));
}

#[test]
fn who_is_listed_has_the_name_and_needs_no_certificate_any_more() {
    let mut world = World::new(3);
    for (index, seconds) in [(0, 1_000_000), (1, 30), (2, 1_000_000)] {
        world.hosts[index] = Host::new(joins(index, Some(certificate(index, seconds))), 40, world.now);
    }
    world.run(4 * SECOND);
    assert!(knows(&world, 0, 1) && knows(&world, 0, 2));
    let named = |lists: &[usize]| {
        let settings = lists_of_first(lists);
        settings.members.change(|all| all.get_mut(&number(1)).unwrap().name = "m2".to_owned());
        settings
    };
    let reloaded = reload(&mut world, 0, &named(&[1])).unwrap();
    assert_eq!(reloaded.changed, ["m2"]);
    let name = |index: usize| world.hosts[0].core.net.settings.name_of(number(index));
    assert_eq!((name(1), name(2)), ("m2".to_owned(), format!("m2-{}", number(2))));
    world.run(60 * SECOND);
    assert!(knows(&world, 0, 1), "its certificate is over");
    assert!(world.hosts[0].is_linked(1));
    // Its own name is free again.
    reload(&mut world, 0, &lists_of_first(&[1])).unwrap();
    let name = |index: usize| world.hosts[0].core.net.settings.name_of(number(index));
    assert_eq!((name(1), name(2)), ("m1".to_owned(), "m2".to_owned()));
}

/// The first member of those with certificates, that lists these others.
fn lists_of_first(peers: &[usize]) -> Settings {
    let certificate = Some(certificate(0, 1_000_000));
    Settings { authority: Some(authority().public()), certificate, ..lists(0, peers) }
}

#[test]
fn who_has_a_certificate_and_is_listed_no_more_comes_back_by_it() {
    let mut world = World::new(3);
    for index in 0..3 {
        world.hosts[index] = Host::new(joins(index, Some(certificate(index, 1_000_000))), 40, world.now);
    }
    world.run(4 * SECOND);
    let (all, one) = (lists_of_first(&[1, 2]), lists_of_first(&[1]));
    assert_eq!(
        reload(&mut world, 0, &all).unwrap(),
        Reloaded::default(),
        "what the lines say is what certificates say"
    );
    // It cannot call, and the other one has said long ago that it is a member.
    world.set(0, 2, None);
    world.run(4 * SECOND);
    reload(&mut world, 0, &one).unwrap();
    world.run(4 * SECOND);
    assert!(knows(&world, 0, 2));
    assert_eq!(world.flow(2, 0, SECOND), (200, 200));
}

#[test]
fn who_is_listed_has_the_subnets_that_another_has_by_a_certificate() {
    let mut world = World::new(4);
    for index in [0, 1, 2] {
        world.hosts[index] = Host::new(joins(index, Some(certificate(index, 60))), 40, world.now);
    }
    world.run(4 * SECOND);
    // The same host with another key, and perhaps with the same name.
    for name in ["m2", "again"] {
        let settings = lists_of_first(&[1, 3]);
        settings.members.change(|all| {
            let again = all.get_mut(&number(3)).unwrap();
            (again.name, again.subnets) = (name.to_owned(), vec![inner(2).into()]);
        });
        reload(&mut world, 0, &settings).unwrap();
        let table = &world.hosts[0].table;
        assert!(!knows(&world, 0, 2) && table.owner(inner(2)) == table.index.get(&number(3)).copied(), "{name}");
        assert!(world.hosts[0].routes.contains(&inner(2).into()));
    }
    // Its certificate ends, or is shown again.
    world.run(70 * SECOND);
    assert!(knows(&world, 0, 3) && !knows(&world, 0, 2));
    assert!(world.hosts[0].routes.contains(&inner(2).into()));
}

#[test]
fn who_goes_together_with_his_relay_is_told_as_well() {
    let mut world = world(&[&[1, 2], &[0, 2], &[0, 1]]);
    for (near, far) in [(1, 2), (2, 1)] {
        world.set(0, far, None);
        world.set(0, near, Some(WIRE));
        world.run(30 * SECOND);
        assert_eq!(world.flow(0, far, SECOND), (200, 200));
        reload(&mut world, 0, &lists(0, &[])).unwrap();
        // A datagram over the relay takes 20 ms.
        world.run(Duration::from_millis(30));
        for peer in [near, far] {
            assert!(world.hosts[peer].core.net.session(number(0)).is_none(), "{peer}");
        }
        reload(&mut world, 0, &lists(0, &[1, 2])).unwrap();
    }
}

#[test]
fn a_relay_that_is_listed_no_more_is_left_at_once() {
    let mut world = world(&[&[1, 2], &[0, 2], &[0, 1]]);
    world.set(0, 2, None);
    world.run(4 * SECOND);
    assert_eq!(world.flow(0, 2, SECOND), (200, 200));
    reload(&mut world, 0, &lists(0, &[2])).unwrap();
    world.run(Duration::from_millis(100));
    assert!(world.hosts[0].paths(2).is_empty(), "there is no other way");
    world.set(0, 2, Some(WIRE));
    world.run(10 * SECOND);
    assert_eq!(world.flow(0, 2, SECOND), (200, 200));
}

#[test]
fn a_member_that_is_no_longer_reached_directly_keeps_nobody_busy() {
    let mut world = World::new(3);
    let sensor = LossSensor::new(None, None).ok();
    let of = || Settings { sensor, ..lists(0, &[1, 2]) };
    world.hosts[0] = Host::new(of(), 60, world.now);
    world.run(4 * SECOND);
    let new = of();
    new.members.change(|all| all.get_mut(&number(1)).unwrap().direct = false);
    reload(&mut world, 0, &new).unwrap();
    world.run(4 * SECOND);
    assert!(world.hosts[0].core.poll_timeout() > world.now, "it would be called again and again");
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
}

#[test]
fn a_key_that_is_refused_from_now_on_is_out_at_once_and_in_again_when_it_is_not() {
    let mut world = World::new(3);
    for index in 0..3 {
        let joins = joins(index, Some(certificate(index, 1_000_000)));
        world.hosts[index] = Host::new(joins, 40 + index as u64, world.now);
    }
    world.run(4 * SECOND);
    assert!(knows(&world, 0, 2) && knows(&world, 1, 2) && world.hosts[0].is_linked(2));
    let refusing = |index: usize, refuse: &[usize]| {
        let refuse = refuse.iter().map(|i| identity(*i).public()).collect();
        Settings { refuse, ..joins(index, Some(certificate(index, 1_000_000))) }
    };
    let key = identity(2).public().to_string();
    let reloaded = reload(&mut world, 0, &refusing(0, &[2])).unwrap();
    let expected = Reloaded {
        removed: names(&["m2"]),
        refused: vec![key.clone()],
        certified_until_utc_s: reloaded.certified_until_utc_s,
        ..Reloaded::default()
    };
    assert_eq!(reloaded, expected);
    assert!(!knows(&world, 0, 2) && world.hosts[0].core.net.session(number(2)).is_none());
    assert!(world.hosts[0].table.owner(inner(2)).is_none());
    world.hosts[0].delivered.clear();
    world.hosts[0].events.clear();
    // It goes on calling, and the other one, who does not refuse it, goes on telling of it.
    world.run(20 * SECOND);
    assert!(!knows(&world, 0, 2) && knows(&world, 1, 2));
    assert!(
        world.hosts[0].core.membership.unverified_sessions().next().is_none(),
        "it gets no session to show a certificate in"
    );
    let told = |(_, e): &(Instant, Event)| matches!(e, Event::PeerRejected { why, .. } if why.contains("`refuse`"));
    assert!(world.hosts[0].events.iter().any(told), "{:?}", world.hosts[0].events);
    let now = world.now;
    assert!(
        !certificates(&mut world.hosts[0].core, now).iter().any(|(of, ..)| *of == number(2)),
        "nor is it passed on"
    );
    let passed =
        &world.hosts[0].core.advertisements(now).filter(|(from, to, ..)| [*from, *to].contains(&number(2))).count();
    assert_eq!(*passed, 0, "what it says of links counts for nothing");
    let reloaded = reload(&mut world, 0, &refusing(0, &[])).unwrap();
    assert_eq!((reloaded.not_refused, reloaded.refused), (vec![key], Vec::new()));
    world.run(12 * SECOND);
    assert!(knows(&world, 0, 2) && world.hosts[0].is_linked(2));
}

#[test]
fn who_is_refused_from_the_start_is_no_member_by_anybodys_word() {
    let mut world = World::new(3);
    for index in 0..3 {
        let mut joins = joins(index, Some(certificate(index, 1_000_000)));
        if index == 1 {
            joins.refuse = vec![identity(2).public()];
        }
        world.hosts[index] = Host::new(joins, 40 + index as u64, world.now);
    }
    world.run(6 * SECOND);
    assert!(knows(&world, 0, 1) && knows(&world, 0, 2) && knows(&world, 1, 0) && !knows(&world, 1, 2));
}
