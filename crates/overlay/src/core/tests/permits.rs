//! Nobody fills the queue of the controlling thread alone.

use wire::overlay::{ENVELOPE_BYTES, TAG_BYTES};

use super::*;
use crate::permits::Permit;

type Queue = Vec<(FromNetwork, Permit)>;

/// What a member's thread does with a datagram, as long as nobody handles what it tells.
fn take(world: &World, to: usize, from: usize, mut datagram: Vec<u8>, queue: &mut Queue) {
    let host = &world.hosts[to];
    let arrival = Arrival { came: world.now, from: endpoint(from), traffic_class: 0 };
    host.decapsulator.take(&host.table, &mut datagram, arrival, &host.counters, &mut |event, place| {
        queue.push((event, place));
        true
    });
}

/// A message in a frame of its own, as this queue of the sender numbers it.
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
fn a_member_that_never_stops_talking_leaves_room_for_others() {
    let mut world = World::new(3);
    world.run(SECOND);
    let (mut queue, chatter) = (Queue::new(), Message::SizeAsked { bytes: 1280 });
    for round in 1..=2 {
        for _ in 0..1000 {
            take(&world, 0, 1, sealed(&world, 1, 0, (0, 0), &chatter), &mut queue);
        }
        assert_eq!((queue.len(), overflow(&world, 0)), (64, round * (1000 - 64)));
        // Its trains have places of their own: as many as one has packets.
        for index in 0..320 {
            take(
                &world,
                0,
                1,
                sealed(&world, 1, 0, (0, 0), &Message::Train { number: 9, index, count: 320 }),
                &mut queue,
            );
        }
        assert_eq!((queue.len(), overflow(&world, 0)), (64 + 320, round * (1000 - 64)));
        take(&world, 0, 2, sealed(&world, 2, 0, (0, 0), &chatter), &mut queue);
        assert_eq!(queue.len(), 64 + 320 + 1, "another member");
        // They have been handled.
        queue.clear();
    }
}

#[test]
fn calls_of_strangers_keep_no_answer_to_an_own_call_out() {
    let mut world = World::new(2);
    world.hosts[1].is_dead = true;
    world.run(Duration::from_millis(50));
    let open = world.hosts[0].core.net.peers[&number(1)].handshakes.latest_pending().unwrap();
    let mut call = wire::overlay::Initiation { sender: 1, noise: [3; 104] }.encode();
    MacKeys::of(&identity(0).public()).write(&mut call, None);
    let mut queue = Queue::new();
    (0..1000).for_each(|_| take(&world, 0, 1, call.to_vec(), &mut queue));
    let calls = queue.len();
    assert_eq!(overflow(&world, 0), 1000 - calls as u64);
    let cookie = wire::overlay::Cookie { receiver: open, sealed: [3; 44] }.encode();
    take(&world, 0, 1, cookie.to_vec(), &mut queue);
    assert_eq!(queue.len(), calls + 1);
}

#[test]
fn who_says_that_it_moves_all_the_time_is_followed_ten_times_a_second() {
    let mut world = World::new(2);
    world.run(SECOND);
    let mut moves = 0;
    for n in 0..500 {
        world.now = world.now + Duration::from_millis(1);
        let now = world.now;
        let before = world.hosts[0].core.net.peers[&number(1)].endpoint.current;
        let to = SocketAddr::new(Ipv4Addr::new(198, 51, 100, 1).into(), 1000 + n);
        world.hosts[0].core.handle_network(now, FromNetwork::Moved { member: number(1), to });
        moves += u32::from(world.hosts[0].core.net.peers[&number(1)].endpoint.current != before);
    }
    assert_eq!(moves, 5);
}

#[test]
fn ways_that_relays_make_up_keep_nothing_out_that_a_member_says() {
    let mut world = World::new(3);
    world.run(SECOND);
    let mut queue = Queue::new();
    let hop = world.hosts[2].core.net.session(number(0)).unwrap();
    // The third one passes on what the second has sealed, by another way each time.
    for made_up in 1..=1000 {
        let frame = sealed(&world, 1, 0, (3, 0), &Message::Probe);
        let mut envelope = Envelope::new(number(1).0, &[made_up, number(2).0], number(0).0).unwrap();
        envelope.position = 2;
        let mut datagram = [&[0; ENVELOPE_BYTES][..], &frame, &[0; TAG_BYTES]].concat();
        address(&hop, (envelope, relay_queue(0)), &mut datagram, micros(world.now)).unwrap();
        take(&world, 0, 2, datagram, &mut queue);
    }
    assert!((1..=16).contains(&queue.len()), "{}", queue.len());
    let before = queue.len();
    for _ in 0..64 {
        take(&world, 0, 1, sealed(&world, 1, 0, (0, 0), &Message::SizeAsked { bytes: 1280 }), &mut queue);
    }
    assert_eq!(queue.len() - before, 64);
}
