//! Members that send and receive with several threads.

use super::*;

/// Frames that a thread seals and sends in one batch.
const BATCH: usize = 20;
/// Additional delay of the frames of the second thread.
const REORDERING_DELAY: Duration = Duration::from_millis(30);

/// The true loss, the largest loss that either end measured, and the last measurements.
struct Reordered {
    world: World,
    lost: f64,
    largest: f64,
    last: [f64; 2],
}

/// Two threads of the first member seal frames alternately for 10 s, numbered by two queues, and all frames of the
/// first thread overtake those of the second. Every n-th frame of the second thread is lost.
fn reordered(queues: [u8; 2], loss_period: Option<usize>) -> Reordered {
    let mut world = World::new(2);
    world.run(2 * SECOND);
    let sent = |w: &World| w.hosts[0].core.net.session(number(1)).unwrap().sent(SPACE_DIRECT);
    let (before, end) = (sent(&world), world.now + 10 * SECOND);
    let (mut by_second, mut lost, mut largest) = (0, 0, 0.0_f64);
    while world.now < end {
        for _ in 0..BATCH {
            for (thread, queue) in queues.into_iter().enumerate() {
                let packet = ipv4(inner(0), inner(1), 500);
                let (_, datagram) = world.sealed_packet(0, 1, queue, packet).unwrap();
                by_second += thread;
                if thread == 1 && loss_period.is_some_and(|n| by_second.is_multiple_of(n)) {
                    lost += 1;
                    continue;
                }
                world.number += 1;
                let arrives = world.now + WIRE.delay + REORDERING_DELAY * thread as u32;
                world.in_flight.insert((arrives, world.number), (0, 1, datagram));
            }
        }
        for _ in 0..10 {
            world.run(Duration::from_millis(5));
            largest = losses(&world).into_iter().fold(largest, f64::max);
        }
    }
    let lost = f64::from(lost) / (sent(&world) - before) as f64;
    Reordered { last: losses(&world), lost, largest, world }
}

fn losses(world: &World) -> [f64; 2] {
    let view = |host: usize, of: usize| world.hosts[host].core.link_view(number(of), world.now).unwrap();
    [view(0, 1).tx_loss, view(1, 0).rx_loss].map(Option::unwrap)
}

#[test]
fn reordering_between_threads_is_not_counted_as_loss() {
    let two = reordered([0, 1], None);
    assert_eq!(two.largest, 0.0);
    let down = |e: &&(Instant, Event)| matches!(e.1, Event::Link { up: false, .. });
    assert_eq!(two.world.hosts.iter().flat_map(|h| &h.events).filter(down).count(), 0);
    // In one packet number space overtaken frames count as lost until they arrive.
    let one = reordered([0, 0], None);
    assert!(one.largest > 0.0);
}

#[test]
fn losses_of_one_queue_are_a_share_of_the_frames_of_all_queues() {
    let two = reordered([0, 1], Some(10));
    for loss in two.last {
        // Frames in flight at the start and the end: 50 ms of 10 s.
        assert!((loss / two.lost - 1.0).abs() < 0.05, "{loss} of {}", two.lost);
    }
}

#[test]
fn threads_that_receive_the_same_datagrams_deliver_each_once() {
    let mut world = World::new(2);
    world.run(2 * SECOND);
    let packet = |n: usize| ipv4(inner(0), inner(1), 500 + n % 7);
    let sealed = (0..4000).map(|n| world.sealed_packet(0, 1, (n % 3) as u8, packet(n)).unwrap().1);
    let datagrams = Vec::from_iter(sealed);
    let host = &world.hosts[1];
    let arrival = Arrival { received_at: world.now, from: endpoint(0), traffic_class: 0 };
    let receive = || {
        let verdicts = datagrams.iter().map(|d| {
            let mut datagram = d.clone();
            host.decapsulator.handle_datagram(&host.table, &mut datagram, arrival, &host.counters, &mut |_, _| true)
        });
        verdicts.filter(|t| matches!(t, Verdict::Packet { .. })).count()
    };
    let before = host.counters.counts();
    let delivered: usize = std::thread::scope(|scope| {
        [scope.spawn(receive), scope.spawn(receive), scope.spawn(receive)].map(|t| t.join().unwrap()).iter().sum()
    });
    let after = host.counters.counts();
    assert_eq!((delivered, after.frames_opened - before.frames_opened), (4000, 4000));
    assert_eq!(after.replayed - before.replayed, 8000);
}

#[test]
fn a_frame_is_rejected_in_another_queue() {
    let mut world = World::new(2);
    world.run(2 * SECOND);
    let (_, datagram) = world.sealed_packet(0, 1, 0, ipv4(inner(0), inner(1), 500)).unwrap();
    let counts = |w: &World| w.hosts[1].counters.counts();
    let before = counts(&world);
    for queue in 1..=255 {
        let mut moved = datagram.clone();
        moved[2] = queue;
        world.receive(1, endpoint(0), moved);
    }
    let after = counts(&world);
    // 33 queues exist, one of which is the frame's own. The frame's number in the control queue was received before,
    // and is rejected without a check of the tag.
    let rejected = [after.auth_failed - before.auth_failed, after.replayed - before.replayed];
    assert_eq!((rejected, after.malformed - before.malformed), ([31, 1], 223));
    assert_eq!(after.frames_opened, before.frames_opened);
}

#[test]
fn duplicated_and_reordered_packets_are_delivered_once() {
    for relays in [0, 1] {
        let mut world = World::new(2 + relays);
        if relays > 0 {
            world.set(0, 1, None);
        }
        world.run(3 * SECOND);
        let first_hop = if relays > 0 { 2 } else { 1 };
        let mut prng = Prng::new(11);
        let replayed = |w: &World| w.hosts.iter().map(|h| h.counters.counts().replayed).sum::<u64>();
        let (before, first) = (replayed(&world), world.hosts[1].delivered.len());
        // Ten packets per millisecond, each copy of which has up to 50 ms of additional delay: a reordering of 500
        // numbers, well inside the replay window.
        for packet in 0..5000_u32 {
            let mut bytes = ipv4(inner(0), inner(1), 100);
            bytes[20..24].copy_from_slice(&packet.to_be_bytes());
            let (_, datagram) = world.sealed_packet(0, 1, (packet % 3) as u8, bytes).unwrap();
            for _ in 0..2 {
                world.number += 1;
                let arrives = world.now + WIRE.delay + Duration::from_millis(50).mul_f64(prng.unit());
                world.in_flight.insert((arrives, world.number), (0, first_hop, datagram.clone()));
            }
            world.run(Duration::from_micros(100));
        }
        world.run(SECOND);
        let number = |bytes: &Vec<u8>| u32::from_be_bytes(bytes[20..24].try_into().unwrap());
        let mut received = Vec::from_iter(world.hosts[1].delivered[first..].iter().map(number));
        assert!(!received.is_sorted(), "no packet was reordered");
        received.sort_unstable();
        assert!(received.iter().copied().eq(0..5000), "{relays}: {} delivered", received.len());
        assert_eq!(replayed(&world) - before, 5000, "{relays}: duplicates are not dropped at the first hop");
    }
}

#[test]
fn flows_are_distributed_by_the_current_weights_of_the_routes() {
    let mut world = World::new(4);
    world.hosts[0] = Host::new(Settings { single_path: false, ..settings(0, 4) }, 5, world.now);
    world.set(0, 1, None);
    let lossy = |loss| Some(Wire { loss, ..WIRE });
    for relay in [2, 3] {
        world.set(relay, 1, lossy(0.002));
    }
    world.run(40 * SECOND);
    let weights = |world: &World| {
        let (table, paths) = (&world.hosts[0].table, world.hosts[0].core.routes(number(1)));
        let table_routes = &table.peers[table.index[&number(1)]].routes;
        assert_eq!(table_routes.len(), paths.len());
        table_routes.iter().zip(paths).map(|(entry, path)| (entry.weight, path.weight)).collect::<Vec<_>>()
    };
    assert_eq!(weights(&world).len(), 2);
    let second = world.hosts[0].core.routes(number(1))[1].path.first_hop();
    let relay = (2..4).find(|i| number(*i) == second).unwrap();
    // By CUBIC's p^-0.75 the path gets 0.35 of its earlier rate: less, but enough to remain in use.
    world.set(relay, 1, lossy(0.008));
    world.run(40 * SECOND);
    let shares = weights(&world);
    assert!(shares.len() == 2 && shares[1].1 < 0.35, "{shares:?}");
    assert!(shares.iter().all(|(applied, selected)| (applied - selected).abs() <= 0.1), "{shares:?}");
}
