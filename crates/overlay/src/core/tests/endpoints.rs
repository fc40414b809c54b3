//! Members whose endpoint is a name.

use super::*;
use crate::settings::HostPort;

/// Two members of which the first knows the other by a name, and the other does not know where the first is.
fn world() -> World {
    let mut world = World::new(2);
    for (own, endpoint) in [(0, Some("east.example.net".parse().unwrap())), (1, None)] {
        let settings = settings(own, 2);
        settings.members.change(|all| all.values_mut().for_each(|m| m.endpoint = endpoint.clone()));
        world.hosts[own] = Host::new(settings, 4711, world.now);
    }
    world
}

fn answer(world: &mut World, found: Result<Vec<SocketAddr>, String>) {
    let (now, name) = (world.now, HostPort { host: "east.example.net".to_owned(), port: crate::DEFAULT_PORT });
    world.hosts[0].core.handle_addresses(now, (number(1), &name), found);
}

/// The names that could not be looked up, as it was told, and why.
fn unresolved(world: &World) -> Vec<(String, String)> {
    let mut told = Vec::new();
    for (_, event) in &world.hosts[0].events {
        if let Event::Unresolved { endpoint, why, .. } = event {
            told.push((endpoint.clone(), why.clone()));
        }
    }
    told
}

fn are_linked(world: &World) -> bool {
    world.hosts[0].is_linked(1) && world.hosts[1].is_linked(0)
}

#[test]
fn a_name_is_looked_up_until_its_member_is_reached() {
    let mut world = world();
    // A resolver that takes a minute is asked once.
    world.run(60 * SECOND);
    let asked: Vec<_> = world.hosts[0].asked.iter().map(|(_, member, name)| (*member, name.as_str())).collect();
    assert_eq!(asked, [(number(1), "east.example.net:5460")]);
    assert!(world.seen.is_empty(), "and nobody is called");
    for (why, told) in [("no network", 1), ("no network", 1), ("no such name", 2), ("no network", 3)] {
        let before = world.hosts[0].asked.len();
        answer(&mut world, Err(why.to_owned()));
        world.run(7 * SECOND);
        assert_eq!(world.hosts[0].asked.len(), before, "not at once");
        world.run(2 * SECOND);
        assert_eq!(world.hosts[0].asked.len(), before + 1);
        let all = unresolved(&world);
        let last = ("east.example.net:5460".to_owned(), why.to_owned());
        assert_eq!((all.len(), all.last()), (told, Some(&last)), "what is known is not said again");
    }
    answer(&mut world, Ok(Vec::new()));
    world.run(9 * SECOND);
    assert_eq!(unresolved(&world).last().unwrap().1, "it has no address");
    answer(&mut world, Ok(vec![endpoint(1)]));
    // The call, its answer, a probe and its report: two round trips of 20 ms, and a look at the links.
    world.run(Duration::from_millis(100));
    assert!(are_linked(&world));
    let asked = world.hosts[0].asked.len();
    world.run(600 * SECOND);
    assert_eq!(world.hosts[0].asked.len(), asked, "who is reached is not looked up");
}

#[test]
fn of_several_addresses_the_one_is_found_that_works() {
    // Nobody is at the first two.
    let mut world = world();
    world.run(Duration::from_millis(10));
    answer(&mut world, Ok(vec![endpoint(7), endpoint(8), endpoint(1)]));
    // Calls after 0, 0.3 and 0.75 s, each up to a quarter later.
    world.run(Duration::from_millis(1100));
    assert!(are_linked(&world));
    assert_eq!(world.hosts[0].core.net.peers[&number(1)].endpoint.current, Some(endpoint(1)));
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
}

#[test]
fn a_member_is_found_where_its_name_leads_after_it_has_moved() {
    let mut world = world();
    world.run(Duration::from_millis(10));
    answer(&mut world, Ok(vec![endpoint(1)]));
    world.run(5 * SECOND);
    assert!(are_linked(&world));
    // It goes, and its name leads elsewhere, and then back to where it is started anew, and knows nobody.
    let asked = world.hosts[0].asked.len();
    world.hosts[1].is_dead = true;
    world.run(10 * SECOND);
    assert_eq!(world.hosts[0].asked.len(), asked + 1, "it no longer answers");
    answer(&mut world, Ok(vec![endpoint(9)]));
    world.run(Duration::from_millis(50));
    assert_eq!(world.hosts[0].core.net.peers[&number(1)].endpoint.current, Some(endpoint(9)));
    world.hosts[1] = Host::waiting(1, 4712, world.now);
    world.run(60 * SECOND);
    assert!(!world.hosts[1].is_linked(0));
    // It is called at once, though the calls before had come to be rare.
    answer(&mut world, Ok(vec![endpoint(1)]));
    world.run(Duration::from_millis(100));
    assert!(are_linked(&world));
}

#[test]
fn who_is_reached_over_a_relay_is_looked_up_and_called_directly_all_the_same() {
    for addresses in [vec![endpoint(1)], vec![endpoint(8), endpoint(9), endpoint(1)]] {
        let mut world = World::new(3);
        for (own, endpoint) in [(0, Some("east.example.net".parse().unwrap())), (1, None)] {
            let settings = settings(own, 3);
            let peer = number(1 - own);
            settings.members.change(|all| all.get_mut(&peer).unwrap().endpoint = endpoint);
            world.hosts[own] = Host::new(settings, 4711, world.now);
        }
        // The resolver takes its time.
        world.run(5 * SECOND);
        assert!(!world.hosts[0].is_linked(1));
        assert_eq!(world.hosts[0].paths(1), [format!("via {}", number(2))]);
        // Where the first addresses lead nobody hears the probes, and the next is tried when the name has been looked
        // up again, after 8 and 16 s.
        for _ in 0..addresses.len() {
            answer(&mut world, Ok(addresses.clone()));
            world.run(20 * SECOND);
        }
        assert!(are_linked(&world));
        assert_eq!(world.hosts[0].core.net.peers[&number(1)].endpoint.current, Some(endpoint(1)));
    }
}

#[test]
fn who_was_seen_elsewhere_is_still_called_where_the_settings_say() {
    let elsewhere = SocketAddr::from(([192, 0, 2, 250], 5460));
    // The other one cannot call, and answers at one of both addresses only.
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
            assert!(are_linked(&world), "where the settings say");
        } else {
            let before = world.seen.len();
            let calls = |w: &World| w.hosts[0].core.net.peers[&number(1)].endpoint.current;
            let mut called = Vec::new();
            for _ in 0..30 {
                world.run(SECOND);
                called.extend(calls(&world));
            }
            assert!(called.contains(&elsewhere) && called.contains(&endpoint(1)), "in turns: {called:?}");
            assert!(world.seen.len() > before);
        }
    }
}
