//! Another host that runs with the key of a member: a snapshot that was restored, a standby with the same settings.

use super::*;

/// Packets of 5 ms each between the first member and the last, both ways, until then: the times at which one was sent
/// that did not arrive.
fn lost(world: &mut World, (a, b): (usize, usize), until: Instant) -> [Vec<Instant>; 2] {
    let mut lost = [Vec::new(), Vec::new()];
    // The copy has the addresses of the member whose it is.
    let address = |host: usize| inner(host.min(2));
    let numbered = |from: usize, to: usize, n: u32| {
        let mut packet = ipv4(address(from), address(to), 500);
        packet[400..404].copy_from_slice(&n.to_be_bytes());
        packet
    };
    let mut sent = Vec::new();
    for host in [a, b] {
        world.hosts[host].delivered.clear();
    }
    for n in 0.. {
        if world.now >= until {
            break;
        }
        sent.push(world.now);
        for (from, to) in [(a, b), (b, a)] {
            if let Some((at, datagram)) = world.sealed_to(from, address(to), 0, numbered(from, to, n)) {
                world.send(from, at, datagram);
            }
        }
        world.run(Duration::from_millis(5));
    }
    world.run(Duration::from_millis(100));
    for (to, lost) in [b, a].into_iter().zip(&mut lost) {
        let number = |p: &Vec<u8>| u32::from_be_bytes([p[400], p[401], p[402], p[403]]);
        let came: std::collections::BTreeSet<u32> = world.hosts[to].delivered.iter().map(number).collect();
        lost.extend((0..).zip(&sent).filter(|(n, _)| !came.contains(n)).map(|(_, at)| *at));
    }
    lost
}

#[test]
fn a_copy_of_a_member_that_comes_and_goes_costs_it_a_second_at_most() {
    for seed in 0..4 {
        let mut world = World::new(3);
        // No two members of this world have one key, so that nobody is told of it here.
        world.without_gossip = true;
        world.run(3 * SECOND);
        world.hosts.push(Host::new(settings(2, 3), 900 + seed, world.now));
        for peer in 0..2 {
            world.set(3, peer, Some(WIRE));
        }
        let until = world.now + 15 * SECOND;
        let both = lost(&mut world, (0, 2), until);
        assert!(world.hosts[3].core.net.session(number(0)).is_some(), "{seed}: it has keys");
        world.hosts[3].is_dead = true;
        let until = world.now + 20 * SECOND;
        let after = lost(&mut world, (0, 2), until);
        let all = both.iter().zip(&after).map(|(a, b)| a.len() + b.len()).collect::<Vec<_>>();
        // Of 200 packets a second.
        assert!(all.iter().all(|lost| *lost <= 200), "{seed}: {both:?} and {after:?}");
    }
}

#[test]
fn a_copy_is_the_member_when_that_is_gone() {
    let mut world = World::new(3);
    world.without_gossip = true;
    world.run(3 * SECOND);
    world.hosts.push(Host::new(settings(2, 3), 900, world.now));
    for peer in 0..2 {
        world.set(3, peer, Some(WIRE));
    }
    world.run(5 * SECOND);
    world.hosts[2].is_dead = true;
    // Until its silence is noticed, and the next call of the copy, which nobody has answered with more than keys until
    // then.
    world.run(10 * SECOND);
    assert!(world.hosts[3].is_linked(0) && world.hosts[3].is_linked(1));
    world.hosts[3].delivered.clear();
    let until = world.now + SECOND;
    let lost = lost(&mut world, (0, 3), until);
    assert!(lost[1].is_empty(), "{lost:?}");
}
