//! What members can do while somebody floods one of them with initiations.

use super::*;
use crate::session::REKEY_AFTER;
use wire::overlay::Initiation;

/// A flood of a thousand initiations a second.
fn flood(world: &mut World, to: usize, span: Duration) -> (usize, usize) {
    flood_of(1, world, to, span)
}

/// Sends a member initiations that anybody can make who knows its public key, so many a millisecond in the mean, each
/// from another address, for a span; meanwhile there are flows of a packet each 5 ms both ways, wherever there is a
/// way. Says how many packets were sent and how many came.
fn flood_of(each_ms: u32, world: &mut World, to: usize, span: Duration) -> (usize, usize) {
    let delivered = |w: &World| w.hosts.iter().map(|h| h.delivered.len()).sum::<usize>();
    let (before, end, mut sent) = (delivered(world), world.now + span, 0);
    let keys = MacKeys::of(&identity(to).public());
    while world.now < end {
        let begin = world.now;
        let mut at =
            Vec::from_iter((0..5 * each_ms).map(|_| Duration::from_nanos((world.prng.number() % 5_000_000).into())));
        at.sort_unstable();
        for at in at {
            let sender = world.prng.number();
            let mut forged = Initiation { sender, noise: [sender as u8; 104] }.encode();
            keys.write(&mut forged, None);
            let from = Ipv4Addr::from_bits(0xc612_0000 | sender & 0x1_ffff);
            world.run((begin + at).saturating_since(world.now));
            world.receive(to, SocketAddr::new(from.into(), 1024 + sender as u16 / 2), forged.to_vec());
        }
        world.run((begin + Duration::from_millis(5)).saturating_since(world.now));
        for (a, b) in [(0, 1), (1, 0)] {
            sent += usize::from(world.send_packet(a, b, inner(a), 500));
        }
    }
    (sent, delivered(world) - before)
}

/// The numbers of the session that one of two members has with the other: its own and the other's.
fn session(world: &World, of: usize) -> Option<(u32, u32)> {
    world.hosts[of].core.net.session(number(1 - of)).map(|s| (s.local, s.remote))
}

/// Initiations that a member sent with the code under a cookie.
fn with_cookie(world: &World, from: usize) -> usize {
    let is_one = |d: &[u8]| d[0] == 0xb1 && d[d.len() - 16..] != [0; 16];
    world.seen.iter().filter(|(f, _, d)| *f == from && is_one(d)).count()
}

#[test]
fn who_begins_during_a_flood_gets_a_session_by_a_cookie() {
    for restarts in [false, true] {
        let mut world = World::new(2);
        // The flooded one never calls, so that it must be called.
        world.hosts[1] = Host::waiting(1, 4711, world.now);
        world.hosts[0].is_dead = !restarts;
        world.run(2 * SECOND);
        assert_eq!(world.hosts[1].core.net.session(number(0)).is_some(), restarts);
        flood(&mut world, 1, SECOND);
        assert_eq!(with_cookie(&world, 0), 0);
        let before = world.hosts[1].core.net.session(number(0)).map(|s| s.local);
        world.hosts[0] = Host::new(settings(0, 2), 4712, world.now);
        // Two round trips of 20 ms, half of one that shows that the caller has the keys, and two ticks of 20 ms: sooner
        // than a second attempt, which is made after 225 ms at least.
        flood(&mut world, 1, Duration::from_millis(220));
        assert_eq!(with_cookie(&world, 0), 1, "{restarts}");
        let (local, remote) = session(&world, 1).unwrap();
        assert!(Some(local) != before && session(&world, 0) == Some((remote, local)), "{restarts}");
        // The link's first reports.
        flood(&mut world, 1, SECOND);
        let (sent, came) = flood(&mut world, 1, SECOND);
        // What is on its way when the time begins and ends is the same.
        assert_eq!((sent, came), (400, 400), "{restarts}");
    }
}

#[test]
fn keys_are_renewed_during_a_flood_without_a_lost_packet() {
    let mut world = World::new(2);
    for index in 0..2 {
        // Few probes: nothing else happens for two minutes.
        let slow = Settings { capacity: Some(Rate::from_bps(1_000_000)), ..settings(index, 2) };
        world.hosts[index] = Host::new(slow, 5 + index as u64, world.now);
    }
    world.run(REKEY_AFTER - 2 * SECOND);
    let session = |w: &World, of: usize| w.hosts[of].core.net.session(number(1 - of)).unwrap();
    let caller = (0..2).find(|i| session(&world, *i).initiator).unwrap();
    let first = session(&world, caller);
    let (sent, _) = flood(&mut world, 1 - caller, 4 * SECOND);
    // What is on its way.
    world.run(Duration::from_millis(100));
    assert_eq!([sent, world.hosts.iter().map(|h| h.delivered.len()).sum()], [1600; 2]);
    assert_eq!(with_cookie(&world, caller), 1);
    let [next, peer] = [caller, 1 - caller].map(|of| session(&world, of));
    // By who began the last, with the first cookie: the other one would begin after ten seconds more.
    assert!(next.initiator && next.local != first.local && next.local == peer.remote);
    let late = next.born.saturating_since(first.born + REKEY_AFTER);
    assert!(late < Duration::from_millis(220), "{late:?}");
}

#[test]
fn who_is_where_it_was_gets_a_cookie_at_once_however_large_a_flood_is_and_others_do_soon() {
    // Of ten thousand a second, five times what is sent to addresses that are nobody's; and of three thousand for who
    // calls from elsewhere, so that each of its calls is answered with two thirds of probability, the third after 0.75
    // s.
    for (is_known, each_ms, within) in [(true, 10, 220), (false, 3, 1500)] {
        let mut world = World::new(2);
        world.hosts[1] = Host::waiting(1, 4711, world.now);
        world.hosts[0].is_dead = !is_known;
        world.run(2 * SECOND);
        flood_of(each_ms, &mut world, 1, SECOND);
        world.hosts[0] = Host::new(settings(0, 2), 4712, world.now);
        flood_of(each_ms, &mut world, 1, Duration::from_millis(within));
        let (local, remote) = session(&world, 1).unwrap();
        assert_eq!(session(&world, 0), Some((remote, local)), "{each_ms} in a millisecond");
    }
}
