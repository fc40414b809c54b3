//! Members whose endpoint is a host name.

use super::*;
use crate::settings::HostPort;

/// Two members. The first one's endpoint of the second is a host name; the second one has no endpoint of the first.
fn world() -> World {
    let mut world = World::new(2);
    for (own, endpoint) in [(0, Some("east.example.net".parse().unwrap())), (1, None)] {
        let settings = settings(own, 2);
        settings.members.change(|all| all.values_mut().for_each(|m| m.endpoint = endpoint.clone()));
        world.hosts[own] = Host::new(settings, 4711, world.now);
    }
    world
}

fn resolve(world: &mut World, found: Result<Vec<SocketAddr>, String>) {
    let (now, name) = (world.now, HostPort { host: "east.example.net".to_owned(), port: crate::DEFAULT_PORT });
    world.hosts[0].core.handle_addresses(now, (number(1), &name), found);
}

/// Failed lookups as reported: the name and the reason.
fn unresolved(world: &World) -> Vec<(String, String)> {
    let mut unresolved = Vec::new();
    for (_, event) in &world.hosts[0].events {
        if let Event::Unresolved { endpoint, why, .. } = event {
            unresolved.push((endpoint.clone(), why.clone()));
        }
    }
    unresolved
}

fn are_linked(world: &World) -> bool {
    world.hosts[0].is_linked(1) && world.hosts[1].is_linked(0)
}

#[test]
fn a_host_name_is_looked_up_until_its_member_is_reachable() {
    let mut world = world();
    // A slow lookup is not repeated before its result.
    world.run(60 * SECOND);
    let lookups: Vec<_> = world.hosts[0].lookups.iter().map(|(_, member, name)| (*member, name.as_str())).collect();
    assert_eq!(lookups, [(number(1), "east.example.net:5460")]);
    assert!(world.capture.is_empty(), "an initiation was sent");
    for (why, count) in [("no network", 1), ("no network", 1), ("no such name", 2), ("no network", 3)] {
        let before = world.hosts[0].lookups.len();
        resolve(&mut world, Err(why.to_owned()));
        world.run(7 * SECOND);
        assert_eq!(world.hosts[0].lookups.len(), before, "the lookup is repeated too early");
        world.run(2 * SECOND);
        assert_eq!(world.hosts[0].lookups.len(), before + 1);
        let all = unresolved(&world);
        let last = ("east.example.net:5460".to_owned(), why.to_owned());
        assert_eq!((all.len(), all.last()), (count, Some(&last)), "a repeated error is not reported once");
    }
    resolve(&mut world, Ok(Vec::new()));
    world.run(9 * SECOND);
    assert_eq!(unresolved(&world).last().unwrap().1, "it has no address");
    resolve(&mut world, Ok(vec![endpoint(1)]));
    // The handshake, a probe and its report: two round trips of 20 ms, and an update of the links.
    world.run(Duration::from_millis(100));
    assert!(are_linked(&world));
    let lookups = world.hosts[0].lookups.len();
    world.run(600 * SECOND);
    assert_eq!(world.hosts[0].lookups.len(), lookups, "a reachable member is looked up");
}

#[test]
fn of_several_addresses_the_reachable_one_is_used() {
    // The first two addresses do not answer.
    let mut world = world();
    world.run(Duration::from_millis(10));
    resolve(&mut world, Ok(vec![endpoint(7), endpoint(8), endpoint(1)]));
    // Initiations after 0, 0.3 and 0.75 s, each with up to 25 % jitter.
    world.run(Duration::from_millis(1100));
    assert!(are_linked(&world));
    assert_eq!(world.hosts[0].core.net.peers[&number(1)].endpoint.current, Some(endpoint(1)));
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
}

#[test]
fn a_moved_member_is_reached_at_the_new_address_of_its_name() {
    let mut world = world();
    world.run(Duration::from_millis(10));
    resolve(&mut world, Ok(vec![endpoint(1)]));
    world.run(5 * SECOND);
    assert!(are_linked(&world));
    // The member stops. Its name resolves to another address, and then again to the original one, where it restarts
    // without known peers.
    let lookups = world.hosts[0].lookups.len();
    world.hosts[1].is_dead = true;
    world.run(10 * SECOND);
    assert_eq!(world.hosts[0].lookups.len(), lookups + 1, "an unreachable member is not looked up again");
    resolve(&mut world, Ok(vec![endpoint(9)]));
    world.run(Duration::from_millis(50));
    assert_eq!(world.hosts[0].core.net.peers[&number(1)].endpoint.current, Some(endpoint(9)));
    world.hosts[1] = Host::waiting(1, 4712, world.now);
    world.run(60 * SECOND);
    assert!(!world.hosts[1].is_linked(0));
    // A changed address resets the backoff.
    resolve(&mut world, Ok(vec![endpoint(1)]));
    world.run(Duration::from_millis(100));
    assert!(are_linked(&world));
}

#[test]
fn a_member_reachable_over_a_relay_is_still_looked_up_and_linked_directly() {
    for addresses in [vec![endpoint(1)], vec![endpoint(8), endpoint(9), endpoint(1)]] {
        let mut world = World::new(3);
        for (own, endpoint) in [(0, Some("east.example.net".parse().unwrap())), (1, None)] {
            let settings = settings(own, 3);
            let peer = number(1 - own);
            settings.members.change(|all| all.get_mut(&peer).unwrap().endpoint = endpoint);
            world.hosts[own] = Host::new(settings, 4711, world.now);
        }
        // The lookup has no result yet.
        world.run(5 * SECOND);
        assert!(!world.hosts[0].is_linked(1));
        assert_eq!(world.hosts[0].paths(1), [format!("via {}", number(2))]);
        // Probes to the first addresses are lost. The next one is used after further lookups, which follow after 8 and
        // 16 s.
        for _ in 0..addresses.len() {
            resolve(&mut world, Ok(addresses.clone()));
            world.run(20 * SECOND);
        }
        assert!(are_linked(&world));
        assert_eq!(world.hosts[0].core.net.peers[&number(1)].endpoint.current, Some(endpoint(1)));
    }
}

#[test]
fn the_configured_endpoint_is_tried_beside_a_learned_one() {
    let elsewhere = SocketAddr::from(([192, 0, 2, 250], 5460));
    // The peer cannot initiate, and answers at only one of the two addresses.
    for returns in [true, false] {
        let mut world = world();
        let settings = settings(0, 2);
        world.hosts[0] = Host::new(settings, 4711, world.now);
        world.run(3 * SECOND);
        assert!(are_linked(&world));
        world.hosts[1].is_dead = true;
        let now = world.now;
        world.hosts[0].core.handle_network(now, FromNetwork::EndpointChanged { member: number(1), to: elsewhere });
        world.run(3 * SECOND);
        if returns {
            let settings = world.hosts[1].core.net.settings.as_ref().clone();
            world.hosts[1] = Host::new(settings, 4712, world.now);
            world.run(20 * SECOND);
            assert!(are_linked(&world), "the configured endpoint is not used");
        } else {
            let before = world.capture.len();
            let endpoint_of = |w: &World| w.hosts[0].core.net.peers[&number(1)].endpoint.current;
            let mut tried = Vec::new();
            for _ in 0..30 {
                world.run(SECOND);
                tried.extend(endpoint_of(&world));
            }
            assert!(tried.contains(&elsewhere) && tried.contains(&endpoint(1)), "not both addresses: {tried:?}");
            assert!(world.capture.len() > before);
        }
    }
}
