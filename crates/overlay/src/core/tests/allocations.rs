//! Forwarding a packet allocates no memory.

use super::*;
use crate::encapsulate::FrameSealer;

/// Seals a packet into `datagram` and forwards it from the first to the second member over the third. Returns the
/// verdict of the second.
fn relayed(world: &World, sealer: &FrameSealer<'_>, datagram: &mut [u8]) -> Verdict {
    let now = micros(world.now);
    sealer.seal(datagram, Content::Packet { partial: false }, 0, now).unwrap();
    let receive = |host: &Host, from: usize, datagram: &mut [u8]| {
        let arrival = Arrival { received_at: world.now, from: endpoint(from), traffic_class: 0 };
        host.decapsulator.handle_datagram(&host.table, datagram, arrival, &host.counters, &mut |_, _| true)
    };
    let Verdict::Forward(envelope) = receive(&world.hosts[2], 0, datagram) else {
        panic!("the relay does not forward the packet")
    };
    let hop = world.hosts[2].table.peer(number(1)).and_then(|p| p.session.as_ref()).unwrap();
    address(hop, (envelope, relay_queue(0)), datagram, now).unwrap();
    receive(&world.hosts[1], 2, datagram)
}

#[test]
fn sealing_relaying_and_opening_a_packet_allocate_nothing() {
    let mut world = World::new(3);
    world.set(0, 1, None);
    world.run(3 * SECOND);
    let table = &world.hosts[0].table;
    let path = table.owner(inner(1)).and_then(|i| table.peers[i].routes.first()).unwrap();
    assert_eq!(path.path.relays(), [number(2)]);
    let (head, tail) = (head(&path.path), tail(&path.path));
    let packet = [vec![0; head], ipv4(inner(0), inner(1), 1300), vec![0; tail]].concat();
    let (sealer, mut datagram) = (path.sealer(table.own, 0), packet.clone());
    let mut forward = || {
        datagram.copy_from_slice(&packet);
        relayed(&world, &sealer, &mut datagram)
    };
    let first = forward();
    assert!(matches!(first, Verdict::Packet { begin, end, .. } if end - begin == 1300), "{first:?}");
    let allocated = allocation_counter::measure(|| (0..1000).for_each(|_| assert_eq!(forward(), first)));
    assert_eq!(allocated.count_total, 0);
}
