//! A second host with the key of a member, such as a restored snapshot or a standby with the same settings.

use super::*;

/// Sends a packet every 5 ms in both directions between two hosts until a time. Returns for each direction the send
/// times of lost packets.
fn lost(world: &mut World, (a, b): (usize, usize), until: Instant) -> [Vec<Instant>; 2] {
    let mut lost = [Vec::new(), Vec::new()];
    // The duplicate has the addresses of the original member.
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
        let received: std::collections::BTreeSet<u32> = world.hosts[to].delivered.iter().map(number).collect();
        lost.extend((0..).zip(&sent).filter(|(n, _)| !received.contains(n)).map(|(_, at)| *at));
    }
    lost
}

#[test]
fn a_temporary_duplicate_identity_costs_at_most_a_second() {
    for seed in 0..4 {
        let mut world = World::new(3);
        // Without gossip no member reports the duplicate identity.
        world.without_gossip = true;
        world.run(3 * SECOND);
        world.hosts.push(Host::new(settings(2, 3), 900 + seed, world.now));
        for peer in 0..2 {
            world.set(3, peer, Some(WIRE));
        }
        let until = world.now + 15 * SECOND;
        let both = lost(&mut world, (0, 2), until);
        assert!(world.hosts[3].core.net.session(number(0)).is_some(), "{seed}: the duplicate has no session");
        world.hosts[3].is_dead = true;
        let until = world.now + 20 * SECOND;
        let after = lost(&mut world, (0, 2), until);
        let all = both.iter().zip(&after).map(|(a, b)| a.len() + b.len()).collect::<Vec<_>>();
        // One second of a flow of 200 packets/s.
        assert!(all.iter().all(|lost| *lost <= 200), "{seed}: {both:?} and {after:?}");
    }
}

#[test]
fn a_duplicate_replaces_the_original_after_its_failure() {
    let mut world = World::new(3);
    world.without_gossip = true;
    world.run(3 * SECOND);
    world.hosts.push(Host::new(settings(2, 3), 900, world.now));
    for peer in 0..2 {
        world.set(3, peer, Some(WIRE));
    }
    world.run(5 * SECOND);
    world.hosts[2].is_dead = true;
    // The silence of the original is detected, and the duplicate initiates again: until then its handshakes were
    // answered, but its session was not used.
    world.run(10 * SECOND);
    assert!(world.hosts[3].is_linked(0) && world.hosts[3].is_linked(1));
    world.hosts[3].delivered.clear();
    let until = world.now + SECOND;
    let lost = lost(&mut world, (0, 3), until);
    assert!(lost[1].is_empty(), "{lost:?}");
}
