//! What a relay passes on, and for whom.

use wire::overlay::{ENVELOPE_BYTES, TAG_BYTES};

use super::*;

/// IP bytes of the datagrams of [`hand_over`].
const BYTES: usize = 1000;
/// A relay's bound at which its bucket holds 64 KiB, the least that it may.
const SLOW: Rate = Rate::from_bps(1_000_000);

/// The last one of these members passes on by these settings.
fn world(count: usize, relay: bool, relay_rate: Option<Rate>) -> World {
    let mut world = World::new(count);
    let last = count - 1;
    world.hosts[last] = Host::new(Settings { relay, relay_rate, ..settings(last, count) }, 3, world.now);
    world
}

fn not_relayed(world: &World, index: usize) -> u64 {
    world.hosts[index].counters.counts().not_relayed
}

/// A member hands `relay` datagrams to pass on, which by its word `origin` has sent over `relays`. Says how many went on.
fn hand_over(world: &mut World, from: usize, relay: usize, origin: Member, relays: &[usize], count: usize) -> usize {
    let (to, destination) = (relay, number(1));
    let numbers: Vec<u32> = relays.iter().map(|r| number(*r).0).collect();
    let hop = world.hosts[from].mesh.session(number(to)).unwrap();
    let went_on = |w: &World| w.seen.iter().filter(|(a, b, d)| (*a, *b) == (to, 1) && d.len() + 28 == BYTES).count();
    let before = went_on(world);
    for _ in 0..count {
        let mut envelope = Envelope::new(origin.0, &numbers, destination.0).unwrap();
        envelope.position = relays.len() as u8 - 1;
        let mut datagram = vec![0; BYTES - 28];
        assert!(datagram.len() > ENVELOPE_BYTES + TAG_BYTES);
        address(&hop, (envelope, 0), &mut datagram, micros(world.now)).unwrap();
        world.receive(to, endpoint(from), datagram);
    }
    went_on(world) - before
}

#[test]
fn who_does_not_relay_passes_nothing_on() {
    let mut world = world(3, false, None);
    world.run(3 * SECOND);
    assert_eq!(hand_over(&mut world, 0, 2, number(0), &[2], 10), 0);
    assert_eq!(not_relayed(&world, 2), 10);
}

#[test]
fn no_more_is_passed_on_for_a_member_than_the_settings_say() {
    let mut world = world(4, true, Some(SLOW));
    world.run(3 * SECOND);
    let burst = 65_536 / BYTES;
    assert_eq!(hand_over(&mut world, 0, 3, number(0), &[3], 200), burst);
    assert_eq!(not_relayed(&world, 3) as usize, 200 - burst);
    assert_eq!(hand_over(&mut world, 2, 3, number(2), &[3], 200), burst, "each has its own");
    // 1 Mb/s for 200 ms.
    world.run(Duration::from_millis(200));
    let later = hand_over(&mut world, 0, 3, number(0), &[3], 200);
    assert!((24..=25).contains(&later), "{later}");
}

#[test]
fn a_member_has_no_more_by_naming_others_nor_have_they_less() {
    let mut world = world(4, true, Some(SLOW));
    world.run(3 * SECOND);
    let burst = 65_536 / BYTES;
    // It was handed over by the second relay, so that who sent it is only what that one says.
    let named = hand_over(&mut world, 2, 3, number(0), &[2, 3], 200);
    let own = hand_over(&mut world, 2, 3, number(2), &[3], 200);
    assert_eq!((named, own), (burst, 0));
    assert_eq!(hand_over(&mut world, 0, 3, number(0), &[3], 200), burst);
}

#[test]
fn for_strangers_nothing_is_passed_on() {
    let mut world = world(4, true, None);
    world.run(3 * SECOND);
    let before = not_relayed(&world, 3);
    for stranger in [Member(0), Member(12_345)] {
        assert_eq!(hand_over(&mut world, 2, 3, stranger, &[2, 3], 10), 0, "{stranger}");
    }
    assert_eq!(not_relayed(&world, 3), before + 20);
    assert_eq!(hand_over(&mut world, 2, 3, number(0), &[2, 3], 10), 10);
}

#[test]
fn members_that_only_three_relays_connect_talk_over_all_of_them() {
    let mut world = World::new(5);
    // A chain: each reaches its neighbours only.
    for (a, b) in (0..5).flat_map(|a| (a + 2..5).map(move |b| (a, b))) {
        world.set(a, b, None);
    }
    world.run(60 * SECOND);
    let (sent, came) = world.flow(0, 4, SECOND);
    assert!(sent > 190 && came == sent, "{came} of {sent}");
    let way = world.hosts[0].mesh.ways(number(4))[0].path;
    assert_eq!(way.relays(), [1, 2, 3].map(number));
}
