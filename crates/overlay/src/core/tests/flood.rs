//! Handshakes and flows during a flood of initiations.

use super::*;
use crate::session::REKEY_AFTER;
use wire::overlay::Initiation;

/// A flood of 1000 initiations/s.
fn flood(world: &mut World, to: usize, span: Duration) -> (usize, usize) {
    flood_of(1, world, to, span)
}

/// Sends initiations to a member, as every host can that knows its public key: a mean number per millisecond, each from
/// another address. Meanwhile both members send a packet every 5 ms over the best route, if any. Returns the numbers of
/// packets sent and delivered.
fn flood_of(per_ms: u32, world: &mut World, to: usize, span: Duration) -> (usize, usize) {
    let delivered = |w: &World| w.hosts.iter().map(|h| h.delivered.len()).sum::<usize>();
    let (before, end, mut sent) = (delivered(world), world.now + span, 0);
    let keys = MacKeys::of(&identity(to).public());
    while world.now < end {
        let start = world.now;
        let mut at =
            Vec::from_iter((0..5 * per_ms).map(|_| Duration::from_nanos((world.prng.number() % 5_000_000).into())));
        at.sort_unstable();
        for at in at {
            let sender = world.prng.number();
            let mut forged = Initiation { sender, noise: [sender as u8; 104] }.encode();
            keys.write(&mut forged, None);
            let from = Ipv4Addr::from_bits(0xc612_0000 | sender & 0x1_ffff);
            world.run((start + at).saturating_since(world.now));
            world.receive(to, SocketAddr::new(from.into(), 1024 + sender as u16 / 2), forged.to_vec());
        }
        world.run((start + Duration::from_millis(5)).saturating_since(world.now));
        for (a, b) in [(0, 1), (1, 0)] {
            sent += usize::from(world.send_packet(a, b, inner(a), 500));
        }
    }
    (sent, delivered(world) - before)
}

/// The local and the remote index of a member's session with the other.
fn session(world: &World, of: usize) -> Option<(u32, u32)> {
    world.hosts[of].core.net.session(number(1 - of)).map(|s| (s.local, s.remote))
}

/// The number of initiations with a MAC2 that a member has sent.
fn with_cookie(world: &World, from: usize) -> usize {
    let is_one = |d: &[u8]| d[0] == 0xb1 && d[d.len() - 16..] != [0; 16];
    world.capture.iter().filter(|(f, _, d)| *f == from && is_one(d)).count()
}

#[test]
fn a_member_that_starts_during_a_flood_gets_a_session_by_a_cookie() {
    for restarts in [false, true] {
        let mut world = World::new(2);
        // The flooded member cannot initiate, so that only its peer can start a handshake.
        world.hosts[1] = Host::waiting(1, 4711, world.now);
        world.hosts[0].is_dead = !restarts;
        world.run(2 * SECOND);
        assert_eq!(world.hosts[1].core.net.session(number(0)).is_some(), restarts);
        flood(&mut world, 1, SECOND);
        assert_eq!(with_cookie(&world, 0), 0);
        let before = world.hosts[1].core.net.session(number(0)).map(|s| s.local);
        world.hosts[0] = Host::new(settings(0, 2), 4712, world.now);
        // Two round trips of 20 ms, half of one for the key confirmation, and two ticks of 20 ms: less than the 225 ms
        // until a retransmission at the earliest.
        flood(&mut world, 1, Duration::from_millis(220));
        assert_eq!(with_cookie(&world, 0), 1, "{restarts}");
        let (local, remote) = session(&world, 1).unwrap();
        assert!(Some(local) != before && session(&world, 0) == Some((remote, local)), "{restarts}");
        // The first reports of the link.
        flood(&mut world, 1, SECOND);
        let (sent, received) = flood(&mut world, 1, SECOND);
        // As many packets are in flight at the start as at the end.
        assert_eq!((sent, received), (400, 400), "{restarts}");
    }
}

#[test]
fn a_rekey_during_a_flood_loses_no_packet() {
    let mut world = World::new(2);
    for index in 0..2 {
        // A low capacity keeps the number of probes low: the test runs for two minutes.
        let slow = Settings { capacity: Some(Rate::from_bps(1_000_000)), ..settings(index, 2) };
        world.hosts[index] = Host::new(slow, 5 + index as u64, world.now);
    }
    world.run(REKEY_AFTER - 2 * SECOND);
    let session = |w: &World, of: usize| w.hosts[of].core.net.session(number(1 - of)).unwrap();
    let initiator = (0..2).find(|i| session(&world, *i).initiator).unwrap();
    let first = session(&world, initiator);
    let (sent, _) = flood(&mut world, 1 - initiator, 4 * SECOND);
    // Packets in flight.
    world.run(Duration::from_millis(100));
    assert_eq!([sent, world.hosts.iter().map(|h| h.delivered.len()).sum()], [1600; 2]);
    assert_eq!(with_cookie(&world, initiator), 1);
    let [next, peer] = [initiator, 1 - initiator].map(|of| session(&world, of));
    // The last initiator rekeys with the first cookie; the responder would rekey ten seconds later.
    assert!(next.initiator && next.local != first.local && next.local == peer.remote);
    let late = next.born.saturating_since(first.born + REKEY_AFTER);
    assert!(late < Duration::from_millis(220), "{late:?}");
}

#[test]
fn a_known_address_gets_a_cookie_at_once_during_a_flood_and_an_unknown_one_soon() {
    // 10,000/s is five times the limit of replies to unknown addresses. At 3000/s an initiator at an unknown address
    // gets a reply with a probability of two thirds for each attempt, the third of which follows after 0.75 s.
    for (is_known, per_ms, within) in [(true, 10, 220), (false, 3, 1500)] {
        let mut world = World::new(2);
        world.hosts[1] = Host::waiting(1, 4711, world.now);
        world.hosts[0].is_dead = !is_known;
        world.run(2 * SECOND);
        flood_of(per_ms, &mut world, 1, SECOND);
        world.hosts[0] = Host::new(settings(0, 2), 4712, world.now);
        flood_of(per_ms, &mut world, 1, Duration::from_millis(within));
        let (local, remote) = session(&world, 1).unwrap();
        assert_eq!(session(&world, 0), Some((remote, local)), "{per_ms} per millisecond");
    }
}
