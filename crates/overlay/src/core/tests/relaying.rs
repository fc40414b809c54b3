//! Relaying: permission, rate limits and forwarding.

use wire::overlay::{CLASS_ELEPHANT, ENVELOPE_BYTES, Kind, SEALED_BYTES, SPACE_RELAYED, Sealed, TAG_BYTES};

use super::*;
use crate::session::Number;

/// Size of the datagrams of [`relay_datagrams`], IP bytes.
const BYTES: usize = 1000;
/// A rate limit at which a relay's token bucket holds 64 KiB, its minimum.
const SLOW: Rate = Rate::from_bps(1_000_000);

/// Members of which the last one relays by these settings.
fn world(count: usize, relay: bool, relay_rate: Option<Rate>) -> World {
    let mut world = World::new(count);
    let last = count - 1;
    world.hosts[last] = Host::new(Settings { relay, relay_rate, ..settings(last, count) }, 3, world.now);
    world
}

fn relay_denied(world: &World, index: usize) -> u64 {
    world.hosts[index].counters.counts().relay_denied
}

/// Sends datagrams to `relay` whose envelopes name `origin` and `relays`. Returns how many were forwarded.
fn relay_datagrams(
    world: &mut World,
    from: usize,
    relay: usize,
    origin: Member,
    relays: &[usize],
    count: usize,
) -> usize {
    let (to, destination) = (relay, number(1));
    let numbers: Vec<u32> = relays.iter().map(|r| number(*r).0).collect();
    let hop = world.hosts[from].core.net.session(number(to)).unwrap();
    let forwarded =
        |w: &World| w.capture.iter().filter(|(a, b, d)| (*a, *b) == (to, 1) && d.len() + 28 == BYTES).count();
    let before = forwarded(world);
    for _ in 0..count {
        let mut envelope = Envelope::new(origin.0, &numbers, destination.0).unwrap();
        envelope.position = relays.len() as u8 - 1;
        let mut datagram = vec![0; BYTES - 28];
        assert!(datagram.len() > ENVELOPE_BYTES + TAG_BYTES);
        address(&hop, (envelope, 0), &mut datagram, micros(world.now)).unwrap();
        world.receive(to, endpoint(from), datagram);
    }
    forwarded(world) - before
}

#[test]
fn a_member_with_relaying_disabled_forwards_nothing() {
    let mut world = world(3, false, None);
    world.run(3 * SECOND);
    assert_eq!(relay_datagrams(&mut world, 0, 2, number(0), &[2], 10), 0);
    assert_eq!(relay_denied(&world, 2), 10);
}

#[test]
fn disabled_relaying_is_advertised_and_respected() {
    let mut world = World::new(4);
    world.set(0, 1, None);
    // The path over the third member has a lower delay than the path over the fourth.
    world.set(0, 3, Some(Wire { delay: 2 * WIRE.delay, ..WIRE }));
    let with_relaying = |relay| Settings { relay, ..settings(2, 4) };
    world.hosts[2] = Host::new(with_relaying(false), 3, world.now);
    world.run(5 * SECOND);
    assert_eq!(world.hosts[0].paths(1), [format!("via {}", number(3))]);
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
    assert_eq!(relay_denied(&world, 2), 0);
    world.hosts[2] = Host::new(with_relaying(true), 4, world.now);
    // The gain, a third of the round trip time, is below the switch margin: the route changes only when the current one
    // fails.
    world.run(5 * SECOND);
    world.set(0, 3, None);
    world.flow(0, 1, SECOND);
    assert_eq!(world.hosts[0].paths(1), [format!("via {}", number(2))]);
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
}

#[test]
fn relayed_traffic_is_limited_for_each_member() {
    let mut world = world(4, true, Some(SLOW));
    world.run(3 * SECOND);
    let burst = 65_536 / BYTES;
    assert_eq!(relay_datagrams(&mut world, 0, 3, number(0), &[3], 200), burst);
    let counts = world.hosts[3].counters.counts();
    assert_eq!((counts.relay_rate_limited as usize, counts.relay_denied), (200 - burst, 0));
    assert_eq!(relay_datagrams(&mut world, 2, 3, number(2), &[3], 200), burst, "the limit is shared");
    // 1 Mb/s for 200 ms.
    world.run(Duration::from_millis(200));
    let later = relay_datagrams(&mut world, 0, 3, number(0), &[3], 200);
    assert!((24..=25).contains(&later), "{later}");
}

#[test]
fn the_predicted_rate_of_a_relayed_path_respects_the_rate_limit() {
    // The path over the fourth member has a lower delay than the path over the third, whose rate is unlimited.
    let mut world = world(4, true, Some(SLOW));
    world.set(0, 1, None);
    world.set(0, 2, Some(Wire { delay: 3 * WIRE.delay, ..WIRE }));
    world.run(5 * SECOND);
    let [short, long] = [3, 2].map(|relay| format!("via {}", number(relay)));
    assert_eq!(world.hosts[0].paths(1), std::slice::from_ref(&long));
    let predicted = |w: &World| w.hosts[0].core.routes(number(1))[0].predicted;
    assert!(predicted(&world) > SLOW);
    world.set(0, 2, None);
    world.run(2 * SECOND);
    assert_eq!((world.hosts[0].paths(1), predicted(&world)), (vec![short.clone()], SLOW));
    // The limit does not apply to traffic for the relay itself, and a relay advertises a change of its limit.
    assert!(world.hosts[0].core.routes(number(3))[0].predicted > SLOW);
    world.hosts[3] = Host::new(settings(3, 4), 9, world.now);
    world.run(20 * SECOND);
    assert_eq!(world.hosts[0].paths(1), [short]);
    assert!(predicted(&world) > SLOW);
}

#[test]
fn a_forged_origin_neither_evades_nor_consumes_a_rate_limit() {
    let mut world = world(4, true, Some(SLOW));
    world.run(3 * SECOND);
    let burst = 65_536 / BYTES;
    // A second relay hands the datagrams over, so that only that relay vouches for the origin.
    let named = relay_datagrams(&mut world, 2, 3, number(0), &[2, 3], 200);
    let own = relay_datagrams(&mut world, 2, 3, number(2), &[3], 200);
    assert_eq!((named, own), (burst, 0));
    assert_eq!(relay_datagrams(&mut world, 0, 3, number(0), &[3], 200), burst);
}

#[test]
fn nothing_is_relayed_for_unknown_origins() {
    let mut world = world(4, true, None);
    world.run(3 * SECOND);
    let before = relay_denied(&world, 3);
    for unknown in [Member(0), Member(12_345)] {
        assert_eq!(relay_datagrams(&mut world, 2, 3, unknown, &[2, 3], 10), 0, "{unknown}");
    }
    assert_eq!(relay_denied(&world, 3), before + 20);
    assert_eq!(relay_datagrams(&mut world, 2, 3, number(0), &[2, 3], 10), 10);
}

/// A packet from the first to the second member over the third, with rates in the headers of frame and envelope.
fn rated(world: &World, [frame, envelope]: [u8; 2]) -> Vec<u8> {
    let [end, hop] = [1, 2].map(|of| world.hosts[0].core.net.session(number(of)).unwrap());
    let space = world.hosts[0].table.peer(number(1)).unwrap().routes[0].space;
    let Number { sequence, .. } = end.next_number(0, space).unwrap();
    let header = Sealed {
        content: Content::Packet { partial: false },
        class: CLASS_ELEPHANT,
        queue: 0,
        space,
        receiver: end.remote,
        sequence,
        sent: micros(world.now),
        rate: frame,
    };
    let room = [0; TAG_BYTES];
    let body = [&header.encode()[..], &ipv4(inner(0), inner(1), 100), &room].concat();
    let mut datagram = [&[0; ENVELOPE_BYTES][..], &body, &room].concat();
    let end_of_frame = datagram.len() - TAG_BYTES;
    end.seal(Number { queue: 0, space, sequence }, &mut datagram[ENVELOPE_BYTES..end_of_frame]).unwrap();
    let Number { sequence, .. } = hop.next_number(0, SPACE_RELAYED).unwrap();
    let new = Envelope::new(number(0).0, &[number(2).0], number(1).0).unwrap();
    let header = Envelope { rate: envelope, receiver: hop.remote, sequence, sent: micros(world.now), ..new };
    datagram[..ENVELOPE_BYTES].copy_from_slice(&header.encode());
    hop.seal_envelope(Number { queue: 0, space: SPACE_RELAYED, sequence }, &mut datagram).unwrap();
    datagram
}

#[test]
fn a_relay_leaves_rates_and_class_unchanged() {
    let mut world = World::new(3);
    world.set(0, 1, None);
    world.run(3 * SECOND);
    for rates in [[0, 0], [17, 42], [42, 17], [127, 127], [255, 254]] {
        let datagram = rated(&world, rates);
        let delivered = world.hosts[1].delivered.len();
        world.receive(2, endpoint(0), datagram.clone());
        let (from, to, onward) = world.capture.last().unwrap().clone();
        assert_eq!((from, to), (2, 1));
        assert_eq!(Envelope::decode(&onward).map(|e| (e.position, e.rate)), Some((1, rates[1])));
        let frame = &onward[ENVELOPE_BYTES..onward.len() - TAG_BYTES];
        assert_eq!(frame, &datagram[ENVELOPE_BYTES..datagram.len() - TAG_BYTES]);
        assert_eq!(Sealed::decode(&frame[..SEALED_BYTES]).map(|h| (h.class, h.rate)), Some((2, rates[0])));
        world.run(Duration::from_millis(20));
        assert_eq!(world.hosts[1].delivered.len(), delivered + 1, "{rates:?}");
    }
}

#[test]
fn members_connected_by_three_relays_only_use_all_of_them() {
    let mut world = World::new(5);
    // A chain: each member has links to its neighbours only.
    for (a, b) in (0..5).flat_map(|a| (a + 2..5).map(move |b| (a, b))) {
        world.set(a, b, None);
    }
    world.run(60 * SECOND);
    let (sent, received) = world.flow(0, 4, SECOND);
    assert!(sent > 190 && received == sent, "{received} of {sent}");
    let path = world.hosts[0].core.routes(number(4))[0].path;
    assert_eq!(path.relays(), [1, 2, 3].map(number));
}

#[test]
fn an_unused_relayed_path_carries_no_frames() {
    let mut world = World::new(3);
    let envelopes = |w: &mut World, span| {
        w.capture.clear();
        w.run(span);
        w.capture.iter().filter(|(_, _, d)| Kind::of(d) == Some(Kind::Envelope)).count()
    };
    world.set(0, 1, None);
    world.run(3 * SECOND);
    let (sent, received) = world.flow(0, 1, 2 * SECOND);
    assert_eq!(received, sent);
    world.set(0, 1, Some(WIRE));
    world.run(40 * SECOND);
    assert_eq!(world.hosts[0].paths(1), ["direct"]);
    // Before the rekey after 120 s.
    assert_eq!(envelopes(&mut world, 20 * SECOND), 0, "reports of reports");
    // Without replies to their probes of the direct link, both members probe the relayed path every second: a probe, a
    // report of it and a report of that report, each over two hops. Neither takes the other to be down.
    world.set(0, 1, None);
    world.run(10 * SECOND);
    let sessions = |w: &World| w.hosts[0].core.net.session(number(1)).map(|s| s.local);
    let before = sessions(&world);
    world.without_gossip = true;
    world.run(SECOND);
    assert!(envelopes(&mut world, 3 * SECOND) <= 3 * 2 * 3 * 2);
    world.without_gossip = false;
    world.run(SECOND);
    assert_eq!(sessions(&world), before);
    let (sent, received) = world.flow(0, 1, 2 * SECOND);
    assert_eq!(received, sent);
}

#[test]
fn a_disabled_direct_link_carries_no_datagrams() {
    // Direct links are disabled at both ends, or at one.
    for disabled in [&[(0, 2), (2, 0)][..], &[(2, 0)]] {
        let mut world = World::new(3);
        for (own, peer) in disabled {
            let settings = settings(*own, 3);
            settings.members.change(|all| all.get_mut(&number(*peer)).unwrap().direct = false);
            world.hosts[*own] = Host::new(settings, 4711, world.now);
        }
        // A slow satellite behind the relay, on which handshakes are lost and retried over other paths, and a good
        // direct link that is disabled.
        world.set(1, 2, Some(Wire { delay: Duration::from_millis(270), loss: 0.15, ..WIRE }));
        world.run(10 * SECOND);
        assert_eq!(world.hosts[0].paths(2), [format!("via {}", number(1))]);
        let (sent, arrived) = world.flow(0, 2, 60 * SECOND);
        // Of 12,000 packets 0.15 are lost, and the last 36 are in flight; four standard deviations are 156.
        assert_eq!(sent, 12_000);
        assert!((10_000..=10_360).contains(&arrived), "{arrived}");
        // Long enough for a rekey.
        world.run(200 * SECOND);
        let directly = |(from, to, _): &&(usize, usize, Vec<u8>)| disabled.contains(&(*from, *to));
        let found: Vec<_> =
            world.capture.iter().filter(directly).map(|(from, to, d)| (*from, *to, Kind::of(d))).collect();
        assert!(found.is_empty(), "{} datagrams, as {:?}", found.len(), &found[..found.len().min(8)]);
    }
}
