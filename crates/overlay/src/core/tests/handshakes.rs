//! Handshakes on long paths, by members who cannot call, and with damaged datagrams.

use super::*;
use wire::overlay::{Kind, MAC_BYTES};

/// How many datagrams of this kind each has sent.
fn sent(world: &World, kind: Kind) -> [usize; 2] {
    [0, 1].map(|of| world.seen.iter().filter(|(from, _, d)| *from == of && Kind::of(d) == Some(kind)).count())
}

#[test]
fn the_first_answer_counts_though_it_comes_after_the_next_call() {
    let mut world = World::new(2);
    // Over a geostationary satellite: calls go out after 0, 0.3 and 0.75 s, and the answer to the first comes after
    // 0.6.
    world.set(0, 1, Some(Wire { delay: Duration::from_millis(300), ..WIRE }));
    world.run(Duration::from_millis(650));
    let has_session = |w: &World, of: usize| w.hosts[of].core.net.session(number(1 - of)).is_some();
    assert!(has_session(&world, 0) || has_session(&world, 1), "one of them has been answered");
    // The frame that shows the other end that keys are right, and the first reports.
    world.run(Duration::from_millis(350));
    let calls = sent(&world, Kind::Initiation);
    world.run(SECOND);
    assert!(world.hosts[0].is_linked(1) && world.hosts[1].is_linked(0));
    world.run(5 * SECOND);
    assert_eq!(sent(&world, Kind::Initiation), calls, "and nobody calls again");
    world.flow(0, 1, SECOND);
    // What is on its way.
    world.run(SECOND / 2);
    assert_eq!(world.hosts[1].delivered.len(), 200);
}

#[test]
fn who_cannot_call_answers_the_first_call() {
    for caller in [0, 1] {
        let mut world = World::new(2);
        world.set(0, 1, Some(Wire { delay: Duration::from_millis(20), ..WIRE }));
        let waits = 1 - caller;
        world.hosts[waits] = Host::waiting(waits, 4711, world.now);
        // A round trip, and the frame by which the other end sees that keys are right.
        world.run(Duration::from_millis(100));
        assert!(world.hosts[caller].is_linked(waits) && world.hosts[waits].is_linked(caller), "{caller} calls");
        let calls = sent(&world, Kind::Initiation);
        assert_eq!((calls[caller], calls[waits]), (1, 0));
    }
}

/// The datagram with each of its first bytes damaged in turn, and cut after each length.
fn damaged(datagram: &[u8], first: usize) -> impl Iterator<Item = Vec<u8>> + '_ {
    let flipped = (0..first).map(|at| {
        let mut copy = datagram.to_vec();
        copy[at] ^= 1 << (at % 8);
        copy
    });
    flipped.chain((0..datagram.len()).map(|length| datagram[..length].to_vec()))
}

/// The last datagram of this kind that `from` sent.
fn last(world: &World, from: usize, kind: Kind) -> Vec<u8> {
    let found = world.seen.iter().rev().find(|(f, _, d)| *f == from && Kind::of(d) == Some(kind));
    found.map(|(_, _, d)| d.clone()).unwrap_or_else(|| panic!("{from} has sent no {kind:?}"))
}

#[test]
fn damaged_handshakes_do_nothing_and_the_originals_do() {
    let mut world = World::new(2);
    // Nothing arrives but what is handed over here.
    world.set(0, 1, None);
    world.hosts[1] = Host::waiting(1, 4711, world.now);
    world.run(Duration::from_millis(10));
    let initiation = last(&world, 0, Kind::Initiation);
    // The second code, at the end, is looked at under load only, and in an answer never.
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
fn a_damaged_cookie_is_no_cookie_and_the_original_is() {
    let mut world = World::new(2);
    world.set(0, 1, None);
    world.hosts[1] = Host::waiting(1, 4711, world.now);
    // So many calls from one address at once that it is asked to show that it is there.
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
    let calls = sent(&world, Kind::Initiation)[0];
    for datagram in damaged(&cookie, cookie.len()) {
        world.receive(0, endpoint(1), datagram);
    }
    world.run(Duration::from_millis(30));
    assert_eq!(sent(&world, Kind::Initiation)[0], calls);
    world.receive(0, endpoint(1), cookie);
    world.run(Duration::from_millis(30));
    assert_eq!(sent(&world, Kind::Initiation)[0], calls + 1, "it calls at once, with the cookie");
    let responses = sent(&world, Kind::Response)[1];
    world.receive(1, endpoint(0), last(&world, 0, Kind::Initiation));
    assert_eq!(sent(&world, Kind::Response)[1], responses + 1, "and that is answered");
}
