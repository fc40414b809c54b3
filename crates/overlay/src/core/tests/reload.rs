//! Reloading the settings of a running member.

use super::membership::{authority, certificate, is_known, joining};
use super::*;
use crate::core::reload::Reloaded;
use crate::settings::HostPort;

/// Settings of a member that lists these peers.
fn listing(own: usize, peers: &[usize]) -> Settings {
    let settings = settings(own, 4);
    settings.members.change(|all| all.retain(|m, _| peers.iter().any(|o| number(*o) == *m)));
    settings
}

/// Running members that list these peers each.
fn world(lists_of: &[&[usize]]) -> World {
    let mut world = World::new(lists_of.len());
    for (index, peers) in lists_of.iter().enumerate() {
        world.hosts[index] = Host::new(listing(index, peers), 60 + index as u64, world.now);
    }
    world.run(4 * SECOND);
    world
}

fn reload(world: &mut World, index: usize, new: &Settings) -> Result<Reloaded, String> {
    let now = world.now;
    let reloaded = world.hosts[index].core.reload(now, new);
    world.process_outputs(index);
    reloaded
}

fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_member_listed_later_is_admitted_without_effect_on_others() {
    let mut world = world(&[&[1], &[0], &[0, 1]]);
    assert!(world.hosts[0].is_linked(1) && !is_known(&world, 0, 2) && !world.hosts[2].is_linked(0));
    let session = world.hosts[0].core.net.session(number(1)).unwrap().local;
    for (index, peers) in [(0, [1, 2]), (1, [0, 2])] {
        let reloaded = reload(&mut world, index, &listing(index, &peers)).unwrap();
        assert_eq!(reloaded, Reloaded { added: names(&["m2"]), ..Reloaded::default() });
    }
    // The initiation is immediate; that of the new member itself would follow within 8 s.
    world.run(2 * SECOND);
    assert!(world.hosts[0].is_linked(2) && world.hosts[2].is_linked(1));
    assert_eq!(world.hosts[0].routes, [inner(2).into()]);
    for (from, to) in [(0, 2), (2, 0), (0, 1)] {
        assert_eq!(world.flow(from, to, SECOND), (200, 200), "{from} {to}");
    }
    assert_eq!(world.hosts[0].core.net.session(number(1)).unwrap().local, session);
    let is_lost = |(_, e): &(Instant, Event)| matches!(e, Event::Link { up: false, .. } | Event::Left { .. });
    assert!(!world.hosts[0].events.iter().any(is_lost), "{:?}", world.hosts[0].events);
}

#[test]
fn a_member_no_longer_listed_is_removed_at_once() {
    let mut world = world(&[&[1, 2], &[0, 2], &[0, 1]]);
    assert!(world.hosts[0].is_linked(2));
    let reloaded = reload(&mut world, 0, &listing(0, &[1])).unwrap();
    assert_eq!(reloaded, Reloaded { removed: names(&["m2"]), ..Reloaded::default() });
    // Messages in flight are not answered, and its frames are not accepted.
    let delivered = world.hosts[0].delivered.len();
    world.send_packet(2, 0, inner(2), 100);
    world.run(SECOND);
    assert_eq!(world.hosts[0].delivered.len(), delivered);
    assert!(!is_known(&world, 0, 2) && world.hosts[0].table.owner(inner(2)).is_none());
    // The departure was announced to the removed member.
    assert!(!world.hosts[2].is_linked(0) && world.hosts[2].core.net.session(number(0)).is_none());
    world.run(20 * SECOND);
    let is_rejected =
        |(_, e): &(Instant, Event)| matches!(e, Event::PeerRejected { why, .. } if why.contains("no `[[member]]`"));
    assert!(world.hosts[0].events.iter().any(is_rejected), "its initiation is not reported");
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
}

#[test]
fn a_changed_endpoint_is_applied_as_an_address_and_as_a_host_name() {
    let mut world = World::new(2);
    let at = |to: Option<Endpoint>| {
        let settings = settings(0, 2);
        settings.members.change(|all| all.values_mut().for_each(|m| m.endpoint = to.clone()));
        settings
    };
    // The peer cannot initiate.
    world.hosts[0] = Host::new(at(Some(Endpoint::Address(endpoint(3)))), 1, world.now);
    world.hosts[1] = Host::waiting(1, 2, world.now);
    world.run(4 * SECOND);
    assert!(!world.hosts[0].is_linked(1));
    let name: Endpoint = "m1.test".parse().unwrap();
    let reloaded = reload(&mut world, 0, &at(Some(name))).unwrap();
    assert_eq!(reloaded, Reloaded { changed: names(&["m1"]), ..Reloaded::default() });
    world.run(Duration::from_millis(100));
    assert!(world.hosts[0].lookups.iter().any(|(_, member, name)| *member == number(1) && name == "m1.test:5460"));
    // The former endpoint is not used, and a result for another name is ignored.
    let endpoint_of = |world: &World| world.hosts[0].core.net.peers[&number(1)].endpoint.current;
    assert_eq!(endpoint_of(&world), None);
    let resolve = |world: &mut World, host: &str| {
        let (now, name) = (world.now, HostPort { host: host.to_owned(), port: 5460 });
        world.hosts[0].core.handle_addresses(now, (number(1), &name), Ok(vec![endpoint(1)]));
        world.run(SECOND);
        world.hosts[0].is_linked(1)
    };
    assert!(!resolve(&mut world, "before.test") && endpoint_of(&world).is_none());
    assert!(resolve(&mut world, "m1.test"));
    // A working link persists whatever the configured endpoint.
    let sent = world.hosts[0].core.net.session(number(1)).unwrap().local;
    let elsewhere = at(Some(Endpoint::Address(endpoint(3))));
    reload(&mut world, 0, &elsewhere).unwrap();
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
    assert_eq!(world.hosts[0].core.net.session(number(1)).unwrap().local, sent);
    // Equal settings change nothing.
    assert_eq!(reload(&mut world, 0, &elsewhere).unwrap(), Reloaded::default());
}

#[test]
fn subnets_move_from_one_member_to_another() {
    let net: ipnet::IpNet = "10.8.0.0/16".parse().unwrap();
    let behind = |owner: usize| {
        let settings = listing(0, &[1, 2]);
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
        assert_eq!(world.hosts[0].routes, [net], "host routes that remain are added again");
        // Only the new owner may send from the subnet.
        for (from, delivered) in [(owner, 1), (3 - owner, 0)] {
            world.hosts[0].delivered.clear();
            world.send_packet(from, 0, net.network(), 100);
            world.run(SECOND);
            assert_eq!(world.hosts[0].delivered.len(), delivered, "{owner} {from}");
        }
    }
}

#[test]
fn rejected_settings_change_nothing() {
    let mut world = world(&[&[1], &[0]]);
    let new = |change: &dyn Fn(&mut Settings)| {
        let mut settings = listing(0, &[1, 2]);
        change(&mut settings);
        settings
    };
    let net: ipnet::IpNet = "2001:db8::/48".parse().unwrap();
    for (settings, fragment) in [
        (new(&|s| s.addresses.push("10.77.0.99".parse().unwrap())), "`addresses`"),
        (new(&|s| s.subnets.push(net)), "`subnets`"),
        (new(&|s| s.authority = Some(authority().public())), "`ca_public_key`"),
        (new(&|s| s.identity = identity(5)), "`key`"),
        (new(&|s| (s.certificate, s.certified_until_utc_s) = (Some(certificate(0, 1)), Some(UTC + 1))), "has expired"),
    ] {
        let why = reload(&mut world, 0, &settings).unwrap_err();
        assert!(why.contains(fragment), "{why}");
        assert!(!is_known(&world, 0, 2) && is_known(&world, 0, 1), "{fragment}");
    }
    // Keys that take effect at the next start are reported, and the others applied.
    let later = |s: &mut Settings| {
        s.as_written.insert("eta".to_owned(), 0.4.into());
        s.secret = [9; 32];
    };
    let reloaded = reload(&mut world, 0, &new(&later)).unwrap();
    assert_eq!((reloaded.added, reloaded.at_next_start), (names(&["m2"]), names(&["eta", "network_secret"])));
}

/// Settings with a certificate that expires after these seconds.
fn certified(own: usize, seconds: u64) -> Settings {
    let settings = joining(own, Some(certificate(own, seconds)));
    Settings { certified_until_utc_s: Some(UTC + seconds), ..settings }
}

#[test]
fn a_renewed_certificate_is_presented_without_a_restart_and_its_expiry_reported() {
    const DAY: u64 = 24 * 3600;
    let mut world = World::new(3);
    for (index, seconds) in [(0, 7 * DAY + 10), (1, DAY + 10), (2, 40)] {
        world.hosts[index] = Host::new(certified(index, seconds), 80 + index as u64, world.now);
    }
    let reported = |world: &World, index: usize| -> Vec<u64> {
        let of = |e: &Event| if let Event::CertificateEnds { in_s } = e { Some(*in_s) } else { None };
        world.hosts[index].events.iter().filter_map(|(_, e)| of(e)).collect()
    };
    // Reports are due at the start for a week or less, and one week and one day before the expiry.
    world.run(5 * SECOND);
    assert_eq!([0, 1, 2].map(|index| reported(&world, index)), [vec![], vec![DAY + 10], vec![40]]);
    world.run(15 * SECOND);
    assert!(matches!(reported(&world, 0)[..], [in_s] if in_s.abs_diff(7 * DAY) <= 1), "{:?}", reported(&world, 0));
    assert!(matches!(reported(&world, 1)[..], [_, in_s] if in_s.abs_diff(DAY) <= 1), "{:?}", reported(&world, 1));
    let reloaded = reload(&mut world, 2, &certified(2, 1000)).unwrap();
    let until = Some(UTC + 1000);
    assert_eq!(reloaded, Reloaded { certificate: true, certified_until_utc_s: until, ..Reloaded::default() });
    assert_eq!(world.hosts[2].core.certified_until_utc_s(), until);
    world.run(60 * SECOND);
    assert!(is_known(&world, 0, 2) && is_known(&world, 1, 2), "the renewed certificate is not in use");
    assert_eq!(world.flow(2, 1, SECOND), (200, 200));
    let is_departure = |(_, e): &(Instant, Event)| matches!(e, Event::Left { .. });
    assert!(!world.hosts[0].events.iter().any(is_departure));
    world.run(Duration::from_secs(1000));
    assert_eq!(reported(&world, 2), [40, 980, 0], "not the expiry of the current certificate");
    assert!(!is_known(&world, 0, 2));
}

#[test]
fn a_listed_member_keeps_its_name_and_needs_no_certificate() {
    let mut world = World::new(3);
    for (index, seconds) in [(0, 1_000_000), (1, 30), (2, 1_000_000)] {
        world.hosts[index] = Host::new(joining(index, Some(certificate(index, seconds))), 40, world.now);
    }
    world.run(4 * SECOND);
    assert!(is_known(&world, 0, 1) && is_known(&world, 0, 2));
    let named = |lists: &[usize]| {
        let settings = listing_of_first(lists);
        settings.members.change(|all| all.get_mut(&number(1)).unwrap().name = "m2".to_owned());
        settings
    };
    let reloaded = reload(&mut world, 0, &named(&[1])).unwrap();
    assert_eq!(reloaded.changed, ["m2"]);
    let name = |index: usize| world.hosts[0].core.net.settings.name_of(number(index));
    assert_eq!((name(1), name(2)), ("m2".to_owned(), format!("m2-{}", number(2))));
    world.run(60 * SECOND);
    assert!(is_known(&world, 0, 1), "its certificate has expired");
    assert!(world.hosts[0].is_linked(1));
    // The certified name is available again.
    reload(&mut world, 0, &listing_of_first(&[1])).unwrap();
    let name = |index: usize| world.hosts[0].core.net.settings.name_of(number(index));
    assert_eq!((name(1), name(2)), ("m1".to_owned(), "m2".to_owned()));
}

/// Settings of the certified first member that lists these peers.
fn listing_of_first(peers: &[usize]) -> Settings {
    let certificate = Some(certificate(0, 1_000_000));
    Settings { authority: Some(authority().public()), certificate, ..listing(0, peers) }
}

#[test]
fn a_certified_member_no_longer_listed_returns_with_its_certificate() {
    let mut world = World::new(3);
    for index in 0..3 {
        world.hosts[index] = Host::new(joining(index, Some(certificate(index, 1_000_000))), 40, world.now);
    }
    world.run(4 * SECOND);
    let (all, one) = (listing_of_first(&[1, 2]), listing_of_first(&[1]));
    assert_eq!(
        reload(&mut world, 0, &all).unwrap(),
        Reloaded::default(),
        "a change without a difference between listed and certified members"
    );
    // The removed member cannot initiate; the other member advertised its certificate long ago.
    world.set(0, 2, None);
    world.run(4 * SECOND);
    reload(&mut world, 0, &one).unwrap();
    world.run(4 * SECOND);
    assert!(is_known(&world, 0, 2));
    assert_eq!(world.flow(2, 0, SECOND), (200, 200));
}

#[test]
fn a_listed_member_takes_the_subnets_of_a_certified_one() {
    let mut world = World::new(4);
    for index in [0, 1, 2] {
        world.hosts[index] = Host::new(joining(index, Some(certificate(index, 60))), 40, world.now);
    }
    world.run(4 * SECOND);
    // The same host with another key, under the same or another name.
    for name in ["m2", "again"] {
        let settings = listing_of_first(&[1, 3]);
        settings.members.change(|all| {
            let again = all.get_mut(&number(3)).unwrap();
            (again.name, again.subnets) = (name.to_owned(), vec![inner(2).into()]);
        });
        reload(&mut world, 0, &settings).unwrap();
        let table = &world.hosts[0].table;
        assert!(!is_known(&world, 0, 2) && table.owner(inner(2)) == table.index.get(&number(3)).copied(), "{name}");
        assert!(world.hosts[0].routes.contains(&inner(2).into()));
    }
    // Neither the expiry nor another presentation of the certificate restores it.
    world.run(70 * SECOND);
    assert!(is_known(&world, 0, 3) && !is_known(&world, 0, 2));
    assert!(world.hosts[0].routes.contains(&inner(2).into()));
}

#[test]
fn a_member_removed_together_with_its_relay_is_notified() {
    let mut world = world(&[&[1, 2], &[0, 2], &[0, 1]]);
    for (relay, remote) in [(1, 2), (2, 1)] {
        world.set(0, remote, None);
        world.set(0, relay, Some(WIRE));
        world.run(30 * SECOND);
        assert_eq!(world.flow(0, remote, SECOND), (200, 200));
        reload(&mut world, 0, &listing(0, &[])).unwrap();
        // A datagram over the relay takes 20 ms.
        world.run(Duration::from_millis(30));
        for peer in [relay, remote] {
            assert!(world.hosts[peer].core.net.session(number(0)).is_none(), "{peer}");
        }
        reload(&mut world, 0, &listing(0, &[1, 2])).unwrap();
    }
}

#[test]
fn a_relay_no_longer_listed_is_avoided_at_once() {
    let mut world = world(&[&[1, 2], &[0, 2], &[0, 1]]);
    world.set(0, 2, None);
    world.run(4 * SECOND);
    assert_eq!(world.flow(0, 2, SECOND), (200, 200));
    reload(&mut world, 0, &listing(0, &[2])).unwrap();
    world.run(Duration::from_millis(100));
    assert!(world.hosts[0].paths(2).is_empty(), "a route without its relay");
    world.set(0, 2, Some(WIRE));
    world.run(10 * SECOND);
    assert_eq!(world.flow(0, 2, SECOND), (200, 200));
}

#[test]
fn a_disabled_direct_link_leaves_no_due_timer() {
    let mut world = World::new(3);
    let sensor = LossSensor::new(None, None).ok();
    let of = || Settings { sensor, ..listing(0, &[1, 2]) };
    world.hosts[0] = Host::new(of(), 60, world.now);
    world.run(4 * SECOND);
    let new = of();
    new.members.change(|all| all.get_mut(&number(1)).unwrap().direct = false);
    reload(&mut world, 0, &new).unwrap();
    world.run(4 * SECOND);
    assert!(world.hosts[0].core.poll_timeout() > world.now, "a timer is always due");
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
}

#[test]
fn a_refused_key_is_removed_at_once_and_admitted_again_after_the_refusal() {
    let mut world = World::new(3);
    for index in 0..3 {
        let settings = joining(index, Some(certificate(index, 1_000_000)));
        world.hosts[index] = Host::new(settings, 40 + index as u64, world.now);
    }
    world.run(4 * SECOND);
    assert!(is_known(&world, 0, 2) && is_known(&world, 1, 2) && world.hosts[0].is_linked(2));
    let refusing = |index: usize, refuse: &[usize]| {
        let refuse = refuse.iter().map(|i| identity(*i).public()).collect();
        Settings { refuse, ..joining(index, Some(certificate(index, 1_000_000))) }
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
    assert!(!is_known(&world, 0, 2) && world.hosts[0].core.net.session(number(2)).is_none());
    assert!(world.hosts[0].table.owner(inner(2)).is_none());
    world.hosts[0].delivered.clear();
    world.hosts[0].events.clear();
    // The refused member continues to initiate, and the member that does not refuse it continues to advertise it.
    world.run(20 * SECOND);
    assert!(!is_known(&world, 0, 2) && is_known(&world, 1, 2));
    assert!(world.hosts[0].core.membership.unverified_sessions().next().is_none(), "an unverified session was created");
    let is_refused =
        |(_, e): &(Instant, Event)| matches!(e, Event::PeerRejected { why, .. } if why.contains("`refuse`"));
    assert!(world.hosts[0].events.iter().any(is_refused), "{:?}", world.hosts[0].events);
    let now = world.now;
    assert!(
        !certificates(&mut world.hosts[0].core, now).iter().any(|(of, ..)| *of == number(2)),
        "its certificate is advertised"
    );
    let advertised =
        &world.hosts[0].core.advertisements(now).filter(|(from, to, ..)| [*from, *to].contains(&number(2))).count();
    assert_eq!(*advertised, 0, "its links are advertised");
    let reloaded = reload(&mut world, 0, &refusing(0, &[])).unwrap();
    assert_eq!((reloaded.not_refused, reloaded.refused), (vec![key], Vec::new()));
    world.run(12 * SECOND);
    assert!(is_known(&world, 0, 2) && world.hosts[0].is_linked(2));
}

#[test]
fn a_key_refused_from_the_start_is_admitted_by_no_advertisement() {
    let mut world = World::new(3);
    for index in 0..3 {
        let mut settings = joining(index, Some(certificate(index, 1_000_000)));
        if index == 1 {
            settings.refuse = vec![identity(2).public()];
        }
        world.hosts[index] = Host::new(settings, 40 + index as u64, world.now);
    }
    world.run(6 * SECOND);
    assert!(is_known(&world, 0, 1) && is_known(&world, 0, 2) && is_known(&world, 1, 0) && !is_known(&world, 1, 2));
}
