//! Effects of unauthenticated senders, false advertisements and damaged datagrams.

use super::*;
use crate::session::Number;
use wire::overlay::{ENVELOPE_BYTES, SEALED_BYTES, SPACE_RELAYED, Sealed, SpaceReport, TAG_BYTES};

/// Confidentiality limit of AES-GCM: frames under one key (RFC 9001, appendix B.1.1).
const CONFIDENTIAL: u64 = 1 << 28;

#[test]
fn replayed_datagrams_have_no_effect() {
    let mut world = World::new(2);
    world.run(SECOND);
    world.flow(0, 1, SECOND);
    let recorded: Vec<_> = world.capture.iter().filter(|(_, to, _)| *to == 1).map(|(_, _, d)| d.clone()).collect();
    let delivered = world.hosts[1].delivered.len();
    let session = world.hosts[1].core.net.session(number(0)).unwrap().local;
    for datagram in recorded {
        world.receive(1, "203.0.113.9:999".parse().unwrap(), datagram);
    }
    assert_eq!(world.hosts[1].delivered.len(), delivered);
    world.run(SECOND);
    assert_eq!(world.hosts[1].core.net.session(number(0)).unwrap().local, session, "the session was replaced");
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
    assert_eq!(world.flow(1, 0, SECOND), (200, 200), "frames go to another endpoint");
}

#[test]
fn a_replayed_initiation_creates_no_session() {
    let mut world = World::new(2);
    world.run(SECOND);
    let recorded: Vec<_> = world.capture.iter().filter(|(_, _, d)| d[0] == 0xb1).cloned().collect();
    let sessions =
        |w: &World| w.hosts.iter().flat_map(|h| h.core.net.peers.values()).map(|o| o.sessions.len()).sum::<usize>();
    let before = sessions(&world);
    assert!(!recorded.is_empty());
    for (from, to, datagram) in recorded.iter().cycle().take(50) {
        world.receive(*to, endpoint(*from), datagram.clone());
    }
    assert_eq!(sessions(&world), before);
}

#[test]
fn replayed_initiations_do_not_prevent_a_handshake() {
    let mut world = World::new(2);
    world.set(0, 1, Some(Wire { delay: Duration::from_millis(100), ..WIRE }));
    // The second member cannot initiate.
    world.hosts[1] = Host::waiting(1, 7, world.now);
    // More recorded initiations of the first member than the replay filter holds.
    let key = identity(1).public();
    let recorded = (0..200).map(|n| {
        let cipher = Cipher::preferred();
        let (_, initiation) = begin_handshake(0, &key, n, (UTC - 1000) << 16, cipher).unwrap();
        let mut datagram = initiation.encode().to_vec();
        MacKeys::of(&key).write(&mut datagram, None);
        datagram
    });
    let recorded = Vec::from_iter(recorded);
    // Just below the limit of responses without a cookie: twenty in each round trip.
    for datagram in recorded.iter().cycle().take(300) {
        world.receive(1, "203.0.113.9:999".parse().unwrap(), datagram.clone());
        world.run(Duration::from_millis(11));
    }
    assert!(world.hosts[0].is_linked(1) && world.hosts[1].is_linked(0));
}

/// The first of two members, started with this wall clock.
fn first_at(utc: u64, now: Instant) -> Host {
    let mut host = Host::new(settings(0, 2), 8, now);
    host.core = core(Arc::new(settings(0, 2)), 8, now, utc);
    host.decapsulator = Decapsulator::new(MacKeys::of(&identity(0).public()), host.core.pending_handshakes(), None);
    host
}

#[test]
fn a_clock_set_back_does_not_prevent_a_handshake() {
    let mut world = World::new(2);
    world.run(3 * SECOND);
    world.hosts[0] = first_at(UTC - 100_000_000, world.now);
    world.run(8 * SECOND);
    assert!(world.hosts[0].is_linked(1) && world.hosts[1].is_linked(0));
}

#[test]
fn a_clock_that_was_ahead_during_an_outage_does_not_prevent_a_handshake() {
    let mut world = World::new(2);
    // The second member cannot initiate.
    world.hosts[1] = Host::waiting(1, 7, world.now);
    world.hosts[0] = first_at(UTC + 100_000_000, world.now);
    world.wires.remove(&(1, 0));
    world.run(7 * SECOND);
    let sessions = |w: &World| w.hosts[1].core.net.peers.values().map(|o| o.sessions.len()).sum::<usize>();
    assert_eq!(sessions(&world), peer::SESSIONS_MAX);
    world.set(0, 1, Some(WIRE));
    world.hosts[0] = first_at(UTC, world.now);
    // The oldest session expires in less than ten seconds, and initiations are at most eight seconds apart.
    world.run(18 * SECOND);
    assert!(world.hosts[0].is_linked(1) && world.hosts[1].is_linked(0));
}

/// The numbers of datagrams that a member has rejected for any reason, and of frames that it has opened.
fn rejected_and_opened(world: &World, of: usize) -> (u64, u64) {
    let c = world.hosts[of].counters.counts();
    (
        c.malformed + c.no_session + c.auth_failed + c.replayed + c.outside_replay_window + c.handshake_unauthenticated,
        c.frames_opened,
    )
}

fn auth_failed(world: &World, of: usize) -> u64 {
    world.hosts[of].counters.counts().auth_failed
}

/// Copies of a datagram, each with one bit of these bytes flipped.
pub(super) fn flipped(datagram: &[u8], bytes: impl Iterator<Item = usize>) -> Vec<Vec<u8>> {
    let bits = bytes.flat_map(|byte| (0..8).map(move |bit| (byte, 1 << bit)));
    let flip = |(byte, bit): (usize, u8)| {
        let mut copy = datagram.to_vec();
        copy[byte] ^= bit;
        copy
    };
    bits.map(flip).collect()
}

/// Checks that a member rejects the flipped copies and all truncations of a datagram. It has not received the original,
/// so that only the tag can reveal the damage.
fn assert_rejected(world: &mut World, (from, to): (usize, usize), datagram: &[u8], flipped: Vec<Vec<u8>>) {
    let (rejected, opened) = rejected_and_opened(world, to);
    let (delivered, sent) = (world.hosts[to].delivered.len(), world.capture.len());
    let cut = (0..datagram.len()).map(|length| datagram[..length].to_vec());
    let bad = flipped.into_iter().chain(cut).collect::<Vec<_>>();
    let count = bad.len() as u64;
    for bad in bad {
        world.receive(to, endpoint(from), bad);
    }
    assert_eq!(rejected_and_opened(world, to), (rejected + count, opened), "not every rejection is counted");
    assert_eq!(
        (world.hosts[to].delivered.len(), world.capture.len()),
        (delivered, sent),
        "a damaged datagram was forwarded"
    );
}

/// Three members of which the first and the second have a path over the third only.
fn relayed() -> World {
    let mut world = World::new(3);
    world.set(0, 1, None);
    world.run(3 * SECOND);
    assert_eq!(world.hosts[0].paths(1), [format!("via {}", number(2))]);
    world
}

#[test]
fn damaged_datagrams_are_rejected() {
    let mut world = relayed();
    let (_, data) = world.sealed_packet(0, 2, 0, ipv4(inner(0), inner(2), 100)).unwrap();
    let session = world.hosts[0].core.net.session(number(2)).unwrap();
    let sealer = FrameSealer {
        own: number(0),
        path: Path::direct(number(2)),
        space: SPACE_DIRECT,
        queue: 0,
        to: endpoint(2),
        end: &session,
        hop: &session,
    };
    // The report states that all frames were received.
    let space = SpaceReport { sent: session.sent(0), received: session.sent(0), ..SpaceReport::default() };
    let report = encapsulate::message(&sealer, &Message::Report(vec![space]).encode(), micros(world.now)).unwrap();
    for (datagram, delivers) in [(data, 1), (report, 0)] {
        let all = flipped(&datagram, 0..datagram.len());
        assert_rejected(&mut world, (0, 2), &datagram, all);
        // Damage behind the header is detected by the tag only.
        let before = auth_failed(&world, 2);
        let contents = flipped(&datagram, SEALED_BYTES..datagram.len());
        let count = contents.len() as u64;
        contents.into_iter().for_each(|bad| world.receive(2, endpoint(0), bad));
        assert_eq!(auth_failed(&world, 2), before + count);
        let (delivered, (rejected, opened)) = (world.hosts[2].delivered.len(), rejected_and_opened(&world, 2));
        for _ in 0..2 {
            world.receive(2, endpoint(0), datagram.clone());
        }
        assert_eq!(world.hosts[2].delivered.len(), delivered + delivers);
        assert_eq!(
            rejected_and_opened(&world, 2),
            (rejected + 1, opened + 1),
            "the second copy is not rejected as replayed"
        );
    }
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
}

#[test]
fn damaged_envelopes_are_rejected_and_the_originals_forwarded() {
    let mut world = relayed();
    let packet = ipv4(inner(0), inner(1), 100);
    let (_, mut datagram) = world.sealed_packet(0, 1, 0, packet.clone()).unwrap();
    let length = datagram.len();
    // The tag of a hop covers both headers, a block of the contents, and the frame's tag.
    let covered = || (0..ENVELOPE_BYTES + SEALED_BYTES + TAG_BYTES).chain(length - TAG_BYTES..length);
    for (from, to) in [(0, 2), (2, 1)] {
        let bad = flipped(&datagram, covered());
        assert_rejected(&mut world, (from, to), &datagram, bad);
        let (sent, delivered) = (world.capture.len(), world.hosts[1].delivered.len());
        for _ in 0..2 {
            world.receive(to, endpoint(from), datagram.clone());
        }
        if to == 1 {
            assert_eq!(world.hosts[1].delivered[delivered..], *std::slice::from_ref(&packet));
        } else {
            assert_eq!(world.capture.len(), sent + 1, "not forwarded exactly once");
            // Taken before it arrives.
            (_, (_, _, datagram)) = world.in_flight.pop_last().unwrap();
        }
    }
    // A relay does not verify the rest; the destination does. Each bit needs a new datagram, because the hop accepts an
    // envelope once.
    for at in (ENVELOPE_BYTES + SEALED_BYTES + TAG_BYTES..length - TAG_BYTES)
        .flat_map(|byte| (0..8).map(move |bit| (byte, bit)))
    {
        let (_, mut datagram) = world.sealed_packet(0, 1, 0, packet.clone()).unwrap();
        datagram[at.0] ^= 1 << at.1;
        world.receive(2, endpoint(0), datagram);
        let (_, (_, _, onward)) = world.in_flight.pop_last().unwrap();
        let (before, delivered) = (auth_failed(&world, 1), world.hosts[1].delivered.len());
        world.receive(1, endpoint(2), onward);
        assert_eq!((auth_failed(&world, 1), world.hosts[1].delivered.len()), (before + 1, delivered), "{at:?}");
    }
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
}

#[test]
fn a_member_may_send_only_from_its_own_subnets() {
    let mut world = World::new(3);
    world.run(SECOND);
    for source in [inner(2), inner(1), "198.51.100.1".parse().unwrap()] {
        assert!(world.send_packet(0, 1, source, 100));
    }
    world.run(SECOND);
    assert_eq!(world.hosts[1].counters.counts().spoofed, 3);
    assert_eq!(world.hosts[1].delivered.len(), 0);
}

#[test]
fn a_wrong_network_secret_prevents_a_session() {
    let mut world = World::new(2);
    let wrong = Settings { secret: [8; 32], ..settings(0, 2) };
    world.hosts[0] = Host::new(wrong, 3, world.now);
    world.run(5 * SECOND);
    assert!(!world.hosts[0].is_linked(1) && !world.hosts[1].is_linked(0));
    assert!(world.hosts.iter().enumerate().all(|(i, h)| h.core.net.session(number(1 - i)).is_none()));
}

#[test]
fn unknown_keys_get_no_response() {
    let mut world = World::new(2);
    let now = world.now;
    // An unknown key whose owner knows the public key and the network secret.
    let mut unknown = settings(0, 2);
    unknown.identity = Identity::from_seed(&[99; 32]);
    let mut core = core(Arc::new(unknown), 3, now, UTC);
    core.handle_timeout(now);
    let Some(Output::Send { datagram, .. }) = core.poll_output() else { panic!("an initiation") };
    for (length, counted) in [(datagram.len(), 0), (datagram.len() - 1, 1)] {
        world.receive(1, endpoint(0), datagram[..length].to_vec());
        let responses = world.capture.iter().filter(|(from, _, d)| *from == 1 && d[0] != 0xb1).count();
        assert_eq!(responses, 0);
        assert_eq!(world.hosts[1].counters.counts().handshake_unauthenticated, counted);
    }
}

#[test]
fn an_exhausted_session_is_replaced_and_no_sequence_number_is_reused() {
    use crate::session::FRAMES_MAX;
    let mut world = World::new(2);
    world.run(2 * SECOND);
    let before = world.hosts[0].core.net.session(number(1)).unwrap();
    before.use_up(0, CONFIDENTIAL + 1);
    world.run(SECOND);
    let after = world.hosts[0].core.net.session(number(1)).unwrap();
    assert_ne!(before.local, after.local, "the session has no successor");
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));

    // Without a successor the limit still holds.
    after.use_up(0, FRAMES_MAX - 1);
    let next = || after.next_number(0, 0).map(|n| n.sequence);
    assert_eq!([next(), next()], [Some(FRAMES_MAX - 1), None]);
    let sealer = FrameSealer {
        own: number(0),
        path: Path::direct(number(1)),
        space: 0,
        queue: 0,
        to: endpoint(1),
        end: &after,
        hop: &after,
    };
    assert!(encapsulate::message(&sealer, &Message::Probe.encode(), 0).is_none());
}

/// Sequence numbers above the limit.
const ABOVE_LIMIT: [u64; 5] = [crate::session::FRAMES_MAX, crate::session::FRAMES_MAX + 1, 1 << 33, 1 << 48, u64::MAX];

/// A frame with a packet from the first to the second member, sealed correctly with this sequence number.
fn numbered(world: &World, sequence: u64) -> Vec<u8> {
    let session = world.hosts[0].core.net.session(number(1)).unwrap();
    let header = Sealed {
        content: Content::Packet { partial: false },
        class: 0,
        queue: 0,
        space: SPACE_DIRECT,
        receiver: session.remote,
        sequence,
        sent: micros(world.now),
        rate: 127,
    };
    let mut frame = [&header.encode()[..], &ipv4(inner(0), inner(1), 100), &[0; TAG_BYTES]].concat();
    session.seal(Number { queue: 0, space: SPACE_DIRECT, sequence }, &mut frame).unwrap();
    frame
}

#[test]
fn a_frame_with_a_sequence_number_above_the_limit_is_rejected() {
    let mut world = World::new(2);
    world.run(2 * SECOND);
    let malformed = |w: &World| w.hosts[1].counters.counts().malformed;
    for (rejected, sequence) in (1..).zip(ABOVE_LIMIT) {
        let frame = numbered(&world, sequence);
        world.receive(1, endpoint(0), frame);
        assert_eq!((malformed(&world), world.hosts[1].delivered.len()), (rejected, 0), "{sequence}");
    }
    // The replay window has not moved.
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
    // The largest valid number is accepted: the others were rejected for their number only.
    let frame = numbered(&world, crate::session::FRAMES_MAX - 1);
    world.receive(1, endpoint(0), frame);
    assert_eq!((malformed(&world), world.hosts[1].delivered.len()), (ABOVE_LIMIT.len() as u64, 201));
}

#[test]
fn an_envelope_with_a_sequence_number_above_the_limit_is_not_forwarded() {
    let mut world = relayed();
    let hop = world.hosts[0].core.net.session(number(2)).unwrap();
    let (_, sealed) = world.sealed_packet(0, 1, 0, ipv4(inner(0), inner(1), 100)).unwrap();
    let numbered = |sequence: u64| {
        let mut datagram = sealed.clone();
        let envelope = Envelope { sequence, ..Envelope::decode(&datagram).unwrap() };
        datagram[..ENVELOPE_BYTES].copy_from_slice(&envelope.encode());
        hop.seal_envelope(Number { queue: 0, space: SPACE_RELAYED, sequence }, &mut datagram).unwrap();
        datagram
    };
    let state = |w: &World| (w.hosts[2].counters.counts().malformed, w.capture.len());
    let (malformed, sent) = state(&world);
    for (rejected, sequence) in (1..).zip(ABOVE_LIMIT) {
        world.receive(2, endpoint(0), numbered(sequence));
        assert_eq!(state(&world), (malformed + rejected, sent), "{sequence}");
    }
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
    let (malformed, sent) = state(&world);
    world.receive(2, endpoint(0), numbered(crate::session::FRAMES_MAX - 1));
    assert_eq!(state(&world), (malformed, sent + 1));
}

#[test]
fn an_exhausted_session_of_a_hop_is_replaced_and_no_sequence_number_is_reused() {
    use crate::session::FRAMES_MAX;
    let mut world = relayed();
    let hops = |w: &World| [(0, 2), (2, 1)].map(|(a, b)| w.hosts[a].core.net.session(number(b)).unwrap());
    let before = hops(&world);
    before.iter().for_each(|hop| hop.use_up(SPACE_RELAYED, CONFIDENTIAL + 1));
    // Packets flow during the rekey.
    assert_eq!(world.flow(0, 1, SECOND), (200, 200));
    let after = hops(&world);
    assert!(before.iter().zip(&after).all(|(b, a)| b.local != a.local), "a session has no successor");

    // Without successors the limit still holds, at the origin and at the relay.
    after.iter().for_each(|hop| hop.use_up(SPACE_RELAYED, FRAMES_MAX - 1));
    let sealed = |w: &World| w.sealed_packet(0, 1, 0, ipv4(inner(0), inner(1), 100)).map(|(_, d)| d);
    let mut last = sealed(&world).unwrap();
    assert_eq!(Envelope::decode(&last).unwrap().sequence, FRAMES_MAX - 1);
    assert!(sealed(&world).is_none());
    let onward = Envelope { position: 1, ..Envelope::decode(&last).unwrap() };
    assert!(address(&after[1], (onward, 0), &mut last, 0).is_some());
    assert_eq!(Envelope::decode(&last).unwrap().sequence, FRAMES_MAX - 1);
    let written = last.clone();
    assert!(address(&after[1], (onward, 0), &mut last, 0).is_none());
    assert_eq!(last, written);
}

#[test]
fn offset_drift_and_wraparound_of_clocks_have_no_effect() {
    // Each clock has its own offset and drift. Frames carry 32 bits of it, and those of two members wrap around during
    // the flow, one after the other.
    let wraps_in = |s: u64| Duration::from_micros(u64::from(u32::MAX)) - Duration::from_secs(1000 + s);
    let day = Duration::from_secs(86_400);
    let clocks = [(wraps_in(5), 0), (wraps_in(7), 100), (30 * day, 50)].map(|(ahead, ppm)| HostClock { ahead, ppm });
    let mut world = World::new(3);
    for (index, clock) in clocks.into_iter().enumerate() {
        world.hosts[index] = Host::with_clock(settings(index, 3), index as u64, world.now, clock);
    }
    world.run(2 * SECOND);
    for _ in 0..30 {
        assert_eq!(world.flow(0, 1, 2 * SECOND), (400, 400));
        for (host, peer) in [(0, 1), (1, 0), (2, 0), (0, 2)] {
            let core = &world.hosts[host].core;
            let now = clocks[host].at(world.now);
            let view = core.link_view(number(peer), now).unwrap();
            // An echo is held for a tenth of a second, of which 100 ppm are 10 us.
            let off = view.rtt_us.unwrap().abs_diff(20_000);
            assert!(view.up && off <= 20 && view.tx_loss == Some(0.0), "{host} {peer}: {off} us off");
            // The drift over two windows of 10 s is 2 ms.
            assert!(
                view.queueing_delay_us.is_some_and(|us| us <= 2_200),
                "{host} {peer}: {:?} us",
                view.queueing_delay_us
            );
            let oldest = core.advertisements(now).map(|(.., age)| age).max().unwrap();
            assert!(oldest < 6 * SECOND, "{host}: {oldest:?}");
        }
    }
    world.set(0, 1, None);
    world.flow(0, 1, SECOND);
    assert_eq!(world.flow(0, 1, SECOND), (200, 200), "no route over the third member within a second");
}

#[test]
fn constant_changes_of_an_advertised_mtu_cause_few_tables() {
    let mut world = World::new(3);
    world.run(3 * SECOND);
    let mut now = world.now;
    let core = &mut world.hosts[0].core;
    let is_link =
        |(from, to, ..): &(Member, Member, LinkAdvertisement, Duration)| (*from, *to) == (number(1), number(2));
    let (.., advertisement, _) = core.advertisements(now).find(is_link).unwrap();
    let mut tables = 0;
    // Shorter than the link timeout: no other member sends.
    for n in 0..400 {
        now = now + Duration::from_millis(1);
        core.on_advertisement(
            now,
            (number(1), number(2)),
            Some(LinkAdvertisement { datagram: Some(1400 + n % 2), ..advertisement }),
            u64::MAX,
        );
        core.handle_timeout(now);
        while core.poll_output().is_some() {}
        tables += usize::from(core.table().is_some());
    }
    assert!((3..=6).contains(&tables), "{tables} tables in 0.4 s");
}

#[test]
fn unsolicited_responses_do_not_reach_the_core() {
    let mut world = World::new(2);
    // Without responses the first initiation remains pending.
    world.set(0, 1, None);
    world.hosts[1].is_dead = true;
    world.run(Duration::from_millis(50));
    let pending = world.hosts[0].core.net.peers[&number(1)].handshakes.latest_pending().unwrap();
    let [mut reached, mut handshake_unauthenticated] = [0, 0];
    for (receiver, counts) in [(pending, true), (pending ^ 1, false), (0, false)] {
        let mut cookie = wire::overlay::Cookie { receiver, sealed: [3; 44] }.encode();
        let mut response = wire::overlay::Response { sender: 9, receiver, noise: [3; 56] }.encode();
        MacKeys::of(&identity(0).public()).write(&mut response, None);
        for datagram in [&mut cookie[..], &mut response[..]] {
            let host = &mut world.hosts[0];
            let arrival = Arrival { received_at: world.now, from: endpoint(1), traffic_class: 0 };
            host.decapsulator.handle_datagram(&host.table, datagram, arrival, &host.counters, &mut |_, _| {
                reached += 1;
                true
            });
            handshake_unauthenticated += u64::from(!counts);
        }
    }
    assert_eq!((reached, world.hosts[0].counters.counts().handshake_unauthenticated), (2, handshake_unauthenticated));
    // A second response to a completed handshake does not reach it either.
    world.hosts[1].is_dead = false;
    world.set(0, 1, Some(WIRE));
    world.run(3 * SECOND);
    let initiator = (0..2).find(|i| world.hosts[*i].core.net.session(number(1 - i)).unwrap().initiator).unwrap();
    let receiver = world.hosts[initiator].core.net.session(number(1 - initiator)).unwrap().local;
    let before = world.hosts[initiator].counters.counts().handshake_unauthenticated;
    let cookie = wire::overlay::Cookie { receiver, sealed: [3; 44] }.encode();
    world.receive(initiator, endpoint(1 - initiator), cookie.to_vec());
    assert_eq!(world.hosts[initiator].counters.counts().handshake_unauthenticated, before + 1);
}

#[test]
fn a_flood_of_handshakes_leaves_room_for_reports() {
    let mut world = World::new(2);
    world.run(SECOND);
    let host = &mut world.hosts[0];
    let mut initiation = wire::overlay::Initiation { sender: 1, noise: [3; 104] }.encode();
    MacKeys::of(&identity(0).public()).write(&mut initiation, None);
    let arrival = Arrival { received_at: world.now, from: endpoint(1), traffic_class: 0 };
    let mut queue = Vec::new();
    for round in 1..=2 {
        for _ in 0..1000 {
            host.decapsulator.handle_datagram(
                &host.table,
                &mut initiation,
                arrival,
                &host.counters,
                &mut |e, permit| {
                    queue.push((e, permit));
                    true
                },
            );
        }
        // Handshakes get 256 of the 2048 permits of the control queue.
        assert_eq!(queue.len(), 256);
        assert_eq!(host.counters.counts().control_queue_full, round * (1000 - 256));
        // The queue is served.
        queue.clear();
    }
}
