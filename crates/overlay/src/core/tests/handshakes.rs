//! Handshakes on long paths, with members that cannot initiate, and with damaged datagrams.

use super::*;
use wire::overlay::{Kind, MAC_BYTES};

/// The numbers of datagrams of a kind that each member has sent.
fn sent(world: &World, kind: Kind) -> [usize; 2] {
    [0, 1].map(|of| world.capture.iter().filter(|(from, _, d)| *from == of && Kind::of(d) == Some(kind)).count())
}

#[test]
fn the_first_response_is_accepted_after_a_retransmission() {
    let mut world = World::new(2);
    // Over a geostationary satellite: initiations are sent after 0, 0.3 and 0.75 s, and the response to the first
    // arrives after 0.6 s.
    world.set(0, 1, Some(Wire { delay: Duration::from_millis(300), ..WIRE }));
    world.run(Duration::from_millis(650));
    let has_session = |w: &World, of: usize| w.hosts[of].core.net.session(number(1 - of)).is_some();
    assert!(has_session(&world, 0) || has_session(&world, 1), "no response was accepted");
    // The key confirmation, and the first reports.
    world.run(Duration::from_millis(350));
    let initiations = sent(&world, Kind::Initiation);
    world.run(SECOND);
    assert!(world.hosts[0].is_linked(1) && world.hosts[1].is_linked(0));
    world.run(5 * SECOND);
    assert_eq!(sent(&world, Kind::Initiation), initiations, "a member initiates again");
    world.flow(0, 1, SECOND);
    // Packets in flight.
    world.run(SECOND / 2);
    assert_eq!(world.hosts[1].delivered.len(), 200);
}

#[test]
fn a_member_that_cannot_initiate_responds_to_the_first_initiation() {
    for initiator in [0, 1] {
        let mut world = World::new(2);
        world.set(0, 1, Some(Wire { delay: Duration::from_millis(20), ..WIRE }));
        let responder = 1 - initiator;
        world.hosts[responder] = Host::waiting(responder, 4711, world.now);
        // A round trip and the key confirmation.
        world.run(Duration::from_millis(100));
        assert!(
            world.hosts[initiator].is_linked(responder) && world.hosts[responder].is_linked(initiator),
            "{initiator} initiates"
        );
        let initiations = sent(&world, Kind::Initiation);
        assert_eq!((initiations[initiator], initiations[responder]), (1, 0));
    }
}

/// Copies of a datagram with each of its first bytes damaged in turn, and truncated to each length.
fn damaged(datagram: &[u8], first: usize) -> impl Iterator<Item = Vec<u8>> + '_ {
    let flipped = (0..first).map(|at| {
        let mut copy = datagram.to_vec();
        copy[at] ^= 1 << (at % 8);
        copy
    });
    flipped.chain((0..datagram.len()).map(|length| datagram[..length].to_vec()))
}

/// The last datagram of a kind that a member has sent.
fn last(world: &World, from: usize, kind: Kind) -> Vec<u8> {
    let found = world.capture.iter().rev().find(|(f, _, d)| *f == from && Kind::of(d) == Some(kind));
    found.map(|(_, _, d)| d.clone()).unwrap_or_else(|| panic!("member {from} has sent no {kind:?}"))
}

#[test]
fn damaged_handshakes_are_rejected_and_the_originals_accepted() {
    let mut world = World::new(2);
    // The link is down: only datagrams handed over here arrive.
    world.set(0, 1, None);
    world.hosts[1] = Host::waiting(1, 4711, world.now);
    world.run(Duration::from_millis(10));
    let initiation = last(&world, 0, Kind::Initiation);
    // The MAC2, at the end, is verified under load only, and never in a response.
    for datagram in damaged(&initiation, initiation.len() - MAC_BYTES) {
        world.receive(1, endpoint(0), datagram);
    }
    assert_eq!(sent(&world, Kind::Response), [0, 0]);
    assert!(world.hosts[1].core.net.peers[&number(0)].sessions.is_empty());
    world.receive(1, endpoint(0), initiation);
    let response = last(&world, 1, Kind::Response);
    for datagram in damaged(&response, response.len() - MAC_BYTES) {
        world.receive(0, endpoint(1), datagram);
    }
    assert!(world.hosts[0].core.net.session(number(1)).is_none());
    world.receive(0, endpoint(1), response);
    assert!(world.hosts[0].core.net.session(number(1)).is_some());
}

#[test]
fn a_damaged_cookie_is_rejected_and_the_original_accepted() {
    let mut world = World::new(2);
    world.set(0, 1, None);
    world.hosts[1] = Host::waiting(1, 4711, world.now);
    // Enough initiations from one address to require a cookie.
    let key = identity(1).public();
    for n in 1..300 {
        let cipher = Cipher::preferred();
        let (_, initiation) = begin_handshake(0, &key, n, UTC << 16, cipher).unwrap();
        let mut datagram = initiation.encode().to_vec();
        MacKeys::of(&key).write(&mut datagram, None);
        world.receive(1, endpoint(0), datagram);
    }
    world.run(Duration::from_millis(10));
    let initiation = last(&world, 0, Kind::Initiation);
    world.receive(1, endpoint(0), initiation);
    let cookie = last(&world, 1, Kind::Cookie);
    let initiations = sent(&world, Kind::Initiation)[0];
    for datagram in damaged(&cookie, cookie.len()) {
        world.receive(0, endpoint(1), datagram);
    }
    world.run(Duration::from_millis(30));
    assert_eq!(sent(&world, Kind::Initiation)[0], initiations);
    world.receive(0, endpoint(1), cookie);
    world.run(Duration::from_millis(30));
    assert_eq!(sent(&world, Kind::Initiation)[0], initiations + 1, "no initiation with the cookie");
    let responses = sent(&world, Kind::Response)[1];
    world.receive(1, endpoint(0), last(&world, 0, Kind::Initiation));
    assert_eq!(sent(&world, Kind::Response)[1], responses + 1, "no response to the initiation with the cookie");
}
