//! Members that send and receive by several threads.

use super::*;

/// Frames that a thread seals and sends together.
const BATCH: usize = 20;
/// How much longer what the second thread has sealed takes.
const LATER: Duration = Duration::from_millis(30);

/// What was sent and lost, and the largest loss that either end saw meanwhile and the last.
struct Overtaken {
    world: World,
    lost: f64,
    largest: f64,
    last: [f64; 2],
}

/// Two threads of the first member seal at the same time, frame by frame, and what the second of them has sealed is
/// overtaken by all that the first has: by these queues, for 10 s. Of what the second thread sends, each of so many is
/// lost.
fn overtaken(queues: [u8; 2], lost_each: Option<usize>) -> Overtaken {
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
                if thread == 1 && lost_each.is_some_and(|n| by_second.is_multiple_of(n)) {
                    lost += 1;
                    continue;
                }
                world.number += 1;
                let arrives = world.now + WIRE.delay + LATER * thread as u32;
                world.flying.insert((arrives, world.number), (0, 1, datagram));
            }
        }
        for _ in 0..10 {
            world.run(Duration::from_millis(5));
            largest = losses(&world).into_iter().fold(largest, f64::max);
        }
    }
    let lost = f64::from(lost) / (sent(&world) - before) as f64;
    Overtaken { last: losses(&world), lost, largest, world }
}

fn losses(world: &World) -> [f64; 2] {
    let view = |host: usize, of: usize| world.hosts[host].core.link_view(number(of), world.now).unwrap();
    [view(0, 1).tx_loss, view(1, 0).rx_loss].map(Option::unwrap)
}

#[test]
fn what_one_thread_overtakes_of_another_is_no_loss() {
    let two = overtaken([0, 1], None);
    assert_eq!(two.largest, 0.0);
    let down = |e: &&(Instant, Event)| matches!(e.1, Event::Link { up: false, .. });
    assert_eq!(two.world.hosts.iter().flat_map(|h| &h.events).filter(down).count(), 0);
    // Numbered together they are taken for lost until they come.
    let one = overtaken([0, 0], None);
    assert!(one.largest > 0.0);
}

#[test]
fn what_is_lost_of_one_queue_counts_among_the_frames_of_all() {
    let two = overtaken([0, 1], Some(10));
    for loss in two.last {
        // What was on its way at either end of the time: 50 ms of 10 s.
        assert!((loss / two.lost - 1.0).abs() < 0.05, "{loss} of {}", two.lost);
    }
}

#[test]
fn of_threads_that_get_the_same_datagrams_one_delivers_each() {
    let mut world = World::new(2);
    world.run(2 * SECOND);
    let packet = |n: usize| ipv4(inner(0), inner(1), 500 + n % 7);
    let sealed = (0..4000).map(|n| world.sealed_packet(0, 1, (n % 3) as u8, packet(n)).unwrap().1);
    let datagrams = Vec::from_iter(sealed);
    let host = &world.hosts[1];
    let arrival = Arrival { received_at: world.now, from: endpoint(0), traffic_class: 0 };
    let take = || {
        let taken = datagrams.iter().map(|d| {
            let mut datagram = d.clone();
            host.decapsulator.handle_datagram(&host.table, &mut datagram, arrival, &host.counters, &mut |_, _| true)
        });
        taken.filter(|t| matches!(t, Verdict::Packet { .. })).count()
    };
    let before = host.counters.counts();
    let delivered: usize = std::thread::scope(|scope| {
        [scope.spawn(take), scope.spawn(take), scope.spawn(take)].map(|t| t.join().unwrap()).iter().sum()
    });
    let after = host.counters.counts();
    assert_eq!((delivered, after.frames_opened - before.frames_opened), (4000, 4000));
    assert_eq!(after.replayed - before.replayed, 8000);
}

#[test]
fn a_frame_is_of_no_other_queue_than_it_was_sealed_for() {
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
    // There are 33, of which one is its own. What the controlling thread has numbered so has come, and is not even
    // looked at.
    let refused = [after.auth_failed - before.auth_failed, after.replayed - before.replayed];
    assert_eq!((refused, after.malformed - before.malformed), ([31, 1], 223));
    assert_eq!(after.frames_opened, before.frames_opened);
}

#[test]
fn what_comes_twice_and_in_any_order_is_delivered_once() {
    for relays in [0, 1] {
        let mut world = World::new(2 + relays);
        if relays > 0 {
            world.set(0, 1, None);
        }
        world.run(3 * SECOND);
        let first_hop = if relays > 0 { 2 } else { 1 };
        let mut prng = Prng::new(11);
        let replayed = |w: &World| w.hosts.iter().map(|h| h.counters.counts().replayed).sum::<u64>();
        let (before, begin) = (replayed(&world), world.hosts[1].delivered.len());
        // Ten in each millisecond, of which each copy takes up to 50 ms longer: among 500 numbers, far from the end of
        // the window.
        for packet in 0..5000_u32 {
            let mut bytes = ipv4(inner(0), inner(1), 100);
            bytes[20..24].copy_from_slice(&packet.to_be_bytes());
            let (_, datagram) = world.sealed_packet(0, 1, (packet % 3) as u8, bytes).unwrap();
            for _ in 0..2 {
                world.number += 1;
                let arrives = world.now + WIRE.delay + Duration::from_millis(50).mul_f64(prng.unit());
                world.flying.insert((arrives, world.number), (0, first_hop, datagram.clone()));
            }
            world.run(Duration::from_micros(100));
        }
        world.run(SECOND);
        let number = |bytes: &Vec<u8>| u32::from_be_bytes(bytes[20..24].try_into().unwrap());
        let mut came = Vec::from_iter(world.hosts[1].delivered[begin..].iter().map(number));
        assert!(!came.is_sorted(), "they do overtake each other");
        came.sort_unstable();
        assert!(came.iter().copied().eq(0..5000), "{relays}: {} came", came.len());
        assert_eq!(replayed(&world) - before, 5000, "{relays}: the first who gets the second copy drops it");
    }
}

#[test]
fn flows_are_spread_by_what_ways_are_worth_now() {
    let mut world = World::new(4);
    world.hosts[0] = Host::new(Settings { single_path: false, ..settings(0, 4) }, 5, world.now);
    world.set(0, 1, None);
    let lossy = |loss| Some(Wire { loss, ..WIRE });
    for relay in [2, 3] {
        world.set(relay, 1, lossy(0.002));
    }
    world.run(40 * SECOND);
    let last_checked = |world: &World| {
        let (table, paths) = (&world.hosts[0].table, world.hosts[0].core.routes(number(1)));
        let last_checked = &table.peers[table.index[&number(1)]].routes;
        assert_eq!(last_checked.len(), paths.len());
        last_checked
            .iter()
            .zip(paths)
            .map(|(last_checked, path)| (last_checked.weight, path.weight))
            .collect::<Vec<_>>()
    };
    assert_eq!(last_checked(&world).len(), 2);
    let second = world.hosts[0].core.routes(number(1))[1].path.first_hop();
    let relay = (2..4).find(|i| number(*i) == second).unwrap();
    // By CUBIC's p^-0.75 it gets 0.35 of what it did: less, and not so little that it is given up.
    world.set(relay, 1, lossy(0.008));
    world.run(40 * SECOND);
    let shares = last_checked(&world);
    assert!(shares.len() == 2 && shares[1].1 < 0.35, "{shares:?}");
    assert!(shares.iter().all(|(last_checked, is)| (last_checked - is).abs() <= 0.1), "{shares:?}");
}
