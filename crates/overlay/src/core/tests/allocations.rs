//! What the threads that move packets do for each of them needs no memory of its own.

use super::*;
use crate::encapsulate::FrameSealer;

/// From the first to the second over the third, sealed into `datagram`, passed on and opened. Says what came out.
fn over_a_relay(world: &World, line: &FrameSealer<'_>, datagram: &mut [u8]) -> Verdict {
    let now = micros(world.now);
    line.seal(datagram, Content::Packet { partial: false }, 0, now).unwrap();
    let take = |host: &Host, from: usize, datagram: &mut [u8]| {
        let arrival = Arrival { came: world.now, from: endpoint(from), traffic_class: 0 };
        host.decapsulator.take(&host.table, datagram, arrival, &host.counters, &mut |_, _| true)
    };
    let Verdict::Forward(envelope) = take(&world.hosts[2], 0, datagram) else { panic!("it is to be passed on") };
    let hop = world.hosts[2].table.peer(number(1)).and_then(|p| p.session.as_ref()).unwrap();
    address(hop, (envelope, relay_queue(0)), datagram, now).unwrap();
    take(&world.hosts[1], 2, datagram)
}

#[test]
fn nothing_is_allocated_to_seal_pass_on_and_open_a_packet() {
    let mut world = World::new(3);
    world.set(0, 1, None);
    world.run(3 * SECOND);
    let table = &world.hosts[0].table;
    let path = table.owner(inner(1)).and_then(|i| table.peers[i].routes.first()).unwrap();
    assert_eq!(path.path.relays(), [number(2)]);
    let (head, tail) = (head(&path.path), tail(&path.path));
    let packet = [vec![0; head], ipv4(inner(0), inner(1), 1300), vec![0; tail]].concat();
    let (line, mut datagram) = (path.line(table.own, 0), packet.clone());
    let mut once = || {
        datagram.copy_from_slice(&packet);
        over_a_relay(&world, &line, &mut datagram)
    };
    let first = once();
    assert!(matches!(first, Verdict::Packet { begin, end, .. } if end - begin == 1300), "{first:?}");
    let used = allocation_counter::measure(|| (0..1000).for_each(|_| assert_eq!(once(), first)));
    assert_eq!(used.count_total, 0);
}
