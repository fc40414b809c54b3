//! No peer fills the control queue alone.

use wire::overlay::{ENVELOPE_BYTES, TAG_BYTES};

use super::*;
use crate::permits::Permit;

type Queue = Vec<(FromNetwork, Permit)>;

/// Handles a datagram as a member's thread does, while the control queue is not served.
fn receive(world: &World, to: usize, from: usize, mut datagram: Vec<u8>, queue: &mut Queue) {
    let host = &world.hosts[to];
    let arrival = Arrival { received_at: world.now, from: endpoint(from), traffic_class: 0 };
    host.decapsulator.handle_datagram(&host.table, &mut datagram, arrival, &host.counters, &mut |event, permit| {
        queue.push((event, permit));
        true
    });
}

/// A message in its own frame, in a packet number space and queue of the sender.
pub(super) fn sealed(world: &World, from: usize, to: usize, (space, queue): (u8, u8), message: &Message) -> Vec<u8> {
    let session = world.hosts[from].core.net.session(number(to)).unwrap();
    let path = Path::direct(number(to));
    let line = FrameSealer { own: number(from), path, space, queue, to: endpoint(to), end: &session, hop: &session };
    encapsulate::message(&line, &message.encode(), micros(world.now)).unwrap()
}

fn overflow(world: &World, index: usize) -> u64 {
    world.hosts[index].counters.counts().control_queue_full
}

#[test]
fn a_peer_that_floods_the_control_queue_leaves_permits_for_others() {
    let mut world = World::new(3);
    world.run(SECOND);
    let (mut queue, message) = (Queue::new(), Message::SizeAsked { bytes: 1280 });
    for round in 1..=2 {
        for _ in 0..1000 {
            receive(&world, 0, 1, sealed(&world, 1, 0, (0, 0), &message), &mut queue);
        }
        assert_eq!((queue.len(), overflow(&world, 0)), (64, round * (1000 - 64)));
        // Packet trains have separate permits: as many as a packet train has packets.
        for index in 0..320 {
            receive(
                &world,
                0,
                1,
                sealed(&world, 1, 0, (0, 0), &Message::Train { number: 9, index, count: 320 }),
                &mut queue,
            );
        }
        assert_eq!((queue.len(), overflow(&world, 0)), (64 + 320, round * (1000 - 64)));
        receive(&world, 0, 2, sealed(&world, 2, 0, (0, 0), &message), &mut queue);
        assert_eq!(queue.len(), 64 + 320 + 1, "no permit for the other member");
        // The queue is served.
        queue.clear();
    }
}

#[test]
fn initiations_of_unknown_peers_do_not_displace_responses() {
    let mut world = World::new(2);
    world.hosts[1].is_dead = true;
    world.run(Duration::from_millis(50));
    let pending = world.hosts[0].core.net.peers[&number(1)].handshakes.latest_pending().unwrap();
    let mut initiation = wire::overlay::Initiation { sender: 1, noise: [3; 104] }.encode();
    MacKeys::of(&identity(0).public()).write(&mut initiation, None);
    let mut queue = Queue::new();
    (0..1000).for_each(|_| receive(&world, 0, 1, initiation.to_vec(), &mut queue));
    let initiations = queue.len();
    assert_eq!(overflow(&world, 0), 1000 - initiations as u64);
    let cookie = wire::overlay::Cookie { receiver: pending, sealed: [3; 44] }.encode();
    receive(&world, 0, 1, cookie.to_vec(), &mut queue);
    assert_eq!(queue.len(), initiations + 1);
}

#[test]
fn a_peer_that_moves_constantly_is_followed_at_most_ten_times_a_second() {
    let mut world = World::new(2);
    world.run(SECOND);
    let mut moves = 0;
    for n in 0..500 {
        world.now = world.now + Duration::from_millis(1);
        let now = world.now;
        let before = world.hosts[0].core.net.peers[&number(1)].endpoint.current;
        let to = SocketAddr::new(Ipv4Addr::new(198, 51, 100, 1).into(), 1000 + n);
        world.hosts[0].core.handle_network(now, FromNetwork::EndpointChanged { member: number(1), to });
        moves += u32::from(world.hosts[0].core.net.peers[&number(1)].endpoint.current != before);
    }
    assert_eq!(moves, 5);
}

#[test]
fn forged_source_routes_do_not_displace_messages_of_a_member() {
    let mut world = World::new(3);
    world.run(SECOND);
    let mut queue = Queue::new();
    let hop = world.hosts[2].core.net.session(number(0)).unwrap();
    // The third member relays a frame of the second with a different source route each time.
    for forged in 1..=1000 {
        let frame = sealed(&world, 1, 0, (3, 0), &Message::Probe);
        let mut envelope = Envelope::new(number(1).0, &[forged, number(2).0], number(0).0).unwrap();
        envelope.position = 2;
        let mut datagram = [&[0; ENVELOPE_BYTES][..], &frame, &[0; TAG_BYTES]].concat();
        address(&hop, (envelope, relay_queue(0)), &mut datagram, micros(world.now)).unwrap();
        receive(&world, 0, 2, datagram, &mut queue);
    }
    assert!((1..=16).contains(&queue.len()), "{}", queue.len());
    let before = queue.len();
    for _ in 0..64 {
        receive(&world, 0, 1, sealed(&world, 1, 0, (0, 0), &Message::SizeAsked { bytes: 1280 }), &mut queue);
    }
    assert_eq!(queue.len() - before, 64);
}
