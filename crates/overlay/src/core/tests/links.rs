//! Capacity, path MTU, losses and throughput of links.

use wire::overlay::SPACE_PROBES;

use super::*;

const MBPS: u64 = 1_000_000;

/// Two members on a link with a rate for each direction, without a configured capacity.
fn pair(there: u64, back: u64) -> World {
    let mut world = World::new(2);
    let now = world.now;
    for index in 0..2 {
        let settings = Settings { capacity: None, ..settings(index, 2) };
        world.hosts[index] = Host::new(settings, 5 + index as u64, now);
    }
    world.wires =
        BTreeMap::from([((0, 1), Wire { rate: Some(there), ..WIRE }), ((1, 0), Wire { rate: Some(back), ..WIRE })]);
    world
}

fn capacities(world: &World) -> [Option<u64>; 4] {
    let view = |a: usize, b: usize| world.hosts[a].core.link_view(number(b), world.now).unwrap();
    let (a, b) = (view(0, 1), view(1, 0));
    [a.tx_capacity_bps, a.rx_capacity_bps, b.tx_capacity_bps, b.rx_capacity_bps]
}

#[test]
fn packet_trains_measure_the_capacity_of_both_directions_at_both_ends() {
    for (there, back) in [(MBPS, 10 * MBPS), (100 * MBPS, 20 * MBPS), (1000 * MBPS, 1000 * MBPS)] {
        let mut world = pair(there, back);
        world.run(20 * SECOND);
        for (measured, truth) in capacities(&world).into_iter().zip([there, back, back, there]) {
            // The link is exact; interleaved probes displace single packets of a train.
            let measured = measured.unwrap() as f64 / truth as f64;
            assert!((measured - 1.0).abs() < 0.02, "{there} and {back}: {measured}");
        }
    }
}

#[test]
fn a_decrease_of_the_capacity_is_detected() {
    for slower in [20, 33] {
        let mut world = pair(100 * MBPS, 100 * MBPS);
        world.run(60 * SECOND);
        world.wires.insert((0, 1), Wire { rate: Some(slower * MBPS), ..WIRE });
        // The next packet train follows within 45 s. After an outlier further ones follow as soon as the budget allows,
        // in 2 s.
        world.run(60 * SECOND);
        let [to, ..] = capacities(&world);
        assert!((to.unwrap() as f64 / (slower * MBPS) as f64 - 1.0).abs() < 0.02, "{slower}: {to:?}");
    }
}

#[test]
fn a_large_increase_of_the_capacity_is_detected() {
    for before in [1, 10, 300] {
        let mut world = pair(before * MBPS, before * MBPS);
        world.run(100 * SECOND);
        let [to, ..] = capacities(&world);
        assert!((to.unwrap() as f64 / (before * MBPS) as f64 - 1.0).abs() < 0.05, "{before}: {to:?}");
        for pair in [(0, 1), (1, 0)] {
            world.wires.insert(pair, Wire { rate: Some(1000 * MBPS), ..WIRE });
        }
        // The next packet train follows within 45 s. The rate that it shows pays for the next longer one in 2 s.
        world.run(90 * SECOND);
        let [to, ..] = capacities(&world);
        assert!((to.unwrap() as f64 / 1e9 - 1.0).abs() < 0.05, "{before}: {to:?}");
    }
}

/// Times at which the first member sent packet trains, while both members know the capacity.
fn trains(world: &mut World, span: Duration, capacity: u64) -> Vec<Instant> {
    let view = |w: &World| w.hosts[0].core.link_view(number(1), w.now).unwrap();
    let (mut sent, mut times, end) = (view(world).capacity_probes, Vec::new(), world.now + span);
    while world.now < end {
        world.run(Duration::from_millis(20));
        let now = view(world).capacity_probes;
        times.extend((now > sent).then_some(world.now));
        sent = now;
        for measured in capacities(world) {
            let measured = measured.unwrap() as f64 / capacity as f64;
            assert!((measured - 1.0).abs() < 0.02, "{measured}");
        }
    }
    times
}

#[test]
fn a_changed_round_trip_time_causes_new_packet_trains() {
    const INTERVAL_MIN: Duration = Duration::from_secs(15);
    // The initial delay is 10 ms in each direction. A change of the round trip time by a quarter or more means another
    // link; smaller changes occur on the same one.
    for (delay, is_new_link) in [(10, false), (12, false), (8, false), (5, true), (30, true)] {
        let mut world = pair(100 * MBPS, 100 * MBPS);
        // Until the packet trains agree.
        world.run(60 * SECOND);
        let before = trains(&mut world, 100 * SECOND, 100 * MBPS);
        let gaps = |times: &[Instant]| Vec::from_iter(times.windows(2).map(|t| t[1].saturating_since(t[0])));
        // 15 to 45 s apart, at a resolution of 20 ms.
        let slack = Duration::from_millis(20);
        assert!(before.len() >= 2 && gaps(&before).iter().all(|gap| *gap + slack >= INTERVAL_MIN), "{before:?}");
        let wire = Wire { rate: Some(100 * MBPS), delay: Duration::from_millis(delay), ..WIRE };
        world.set(0, 1, Some(wire));
        let changed = world.now;
        // The minimum round trip time covers 10 to 20 s; the budget of the next packet train is available.
        let after = trains(&mut world, 35 * SECOND, 100 * MBPS);
        let all = [&before[before.len() - 1..], &after].concat();
        let early = gaps(&all).iter().filter(|gap| **gap + slack < INTERVAL_MIN).count();
        if is_new_link {
            // Two packet trains confirm the known capacity.
            assert!(early >= 1 && after.len() >= 2, "{delay} ms: {after:?}");
            let first = after[0].saturating_since(changed);
            assert!(first <= 21 * SECOND, "{delay} ms: {first:?}");
        } else {
            assert_eq!(early, 0, "{delay} ms: {after:?}");
        }
    }
}

/// The number of events of a link that went down.
fn downs(world: &World) -> usize {
    let all = world.hosts.iter().flat_map(|h| &h.events);
    all.filter(|(_, e)| matches!(e, Event::Link { up: false, .. })).count()
}

#[test]
fn a_very_lossy_link_stays_up() {
    for loss in [0.05, 0.15, 0.25] {
        let mut world = pair(2 * MBPS, 2 * MBPS);
        world.run(5 * SECOND);
        for pair in [(0, 1), (1, 0)] {
            world.wires.insert(pair, Wire { loss, ..WIRE });
        }
        for _ in 0..15 {
            world.run(60 * SECOND);
            world.capture.clear();
        }
        assert_eq!(downs(&world), 0, "{loss}");
        world.set(0, 1, None);
        world.run(SECOND);
        assert_eq!(downs(&world), 2, "the failure is not detected at both ends");
    }
}

#[test]
fn reports_of_earlier_frames_do_not_restore_a_failed_link() {
    // Reports of frames received before the failure still arrive over the third member.
    for seed in 0..10 {
        let mut world = World::new(3);
        world.run(2 * SECOND + Duration::from_millis(7 * seed));
        world.set(0, 1, None);
        world.flow(0, 1, SECOND);
        let of_link = |host: &Host, peer: usize| {
            let measured = host.events.iter().filter_map(|(_, e)| {
                let Event::Link { member, up, .. } = e else { return None };
                (*member == number(peer)).then_some(*up)
            });
            measured.collect::<Vec<_>>()
        };
        assert_eq!(
            [of_link(&world.hosts[0], 1), of_link(&world.hosts[1], 0)],
            [[true, false], [true, false]],
            "{seed}"
        );
    }
}

/// IP bytes of the first member's measurements as an observer identifies them: probes, which are frames with a message
/// of one byte, and all frames of the packet number space of packet trains and path MTU probes.
fn measurement_bytes(world: &World) -> usize {
    let is_probe = |d: &[u8]| d[0] == 0xb4 && (d[3] == SPACE_PROBES || d.len() == 40 + 1);
    world.capture.iter().filter(|(from, _, d)| *from == 0 && is_probe(d)).map(|(_, _, d)| d.len() + 28).sum()
}

#[test]
fn probes_of_all_kinds_stay_within_their_budget() {
    // On slower links the minimum of ten probes/s takes most of the budget.
    for (mbps, with_traffic) in [(2, false), (2, true), (3, false), (10, true), (100, false)] {
        let rate = mbps * MBPS;
        let mut world = pair(rate, rate);
        let (start, mut bytes) = (world.now, 0);
        // Losses that change repeatedly would cause additional probes.
        for period in 0..24 {
            let loss = if period % 2 == 0 { 0.05 } else { 0.15 };
            for wire in world.wires.values_mut() {
                wire.loss = loss;
            }
            for _ in 0..25 * 20 {
                if with_traffic {
                    world.send_packet(0, 1, inner(0), 500);
                }
                world.run(SECOND / 20);
            }
            bytes += measurement_bytes(&world);
            world.capture.clear();
        }
        // 1 %, half of the initial budget, and half a minute of packet trains on credit.
        let passed = world.now.saturating_since(start).as_secs_f64();
        let share = bytes as f64 * 8.0 / passed / rate as f64;
        assert!(share < 0.01 * (passed + 15.0 + 30.0 * 0.25) / passed, "{mbps} Mb/s: {share}");
        assert!(share > 0.004 || mbps == 100, "{mbps} Mb/s: {share}");
    }
}

#[test]
fn losses_are_attributed_to_their_direction() {
    let mut world = World::new(3);
    world.run(3 * SECOND);
    world.wires.insert((1, 0), Wire { loss: 0.15, ..WIRE });
    world.flow(0, 1, 10 * SECOND);
    assert_eq!(
        [world.hosts[0].paths(1), world.hosts[1].paths(0)],
        [["direct".to_owned()], [format!("via {}", number(2))]]
    );
    assert_eq!((world.flow(0, 1, SECOND), world.flow(1, 0, SECOND)), ((200, 200), (200, 200)));
    let losses = |a: usize, b: usize| {
        let view = world.hosts[a].core.link_view(number(b), world.now).unwrap();
        (view.tx_loss.unwrap(), view.rx_loss.unwrap())
    };
    // With some thousand probes, four standard deviations of 0.15 are 0.03.
    for ((clean, lossy), host) in [
        (losses(0, 1), 0),
        (
            {
                let (to, from) = losses(1, 0);
                (from, to)
            },
            1,
        ),
    ] {
        assert!(clean < 0.001 && (lossy - 0.15).abs() < 0.03, "{host}: {clean} {lossy}");
    }
}

#[test]
fn losses_between_other_members_are_attributed_to_their_direction() {
    let mut world = World::new(4);
    world.set(0, 1, None);
    // The path over the third member has a lower delay than the path over the fourth.
    world.set(0, 3, Some(Wire { delay: 2 * WIRE.delay, ..WIRE }));
    world.run(3 * SECOND);
    let paths = |w: &World| [w.hosts[0].paths(1), w.hosts[1].paths(0)].map(|w| w.first().cloned());
    let [short, long] = [2, 3].map(|relay| Some(format!("via {}", number(relay))));
    assert_eq!(paths(&world), [short.clone(), short.clone()]);
    world.wires.insert((2, 1), Wire { loss: 0.15, ..WIRE });
    world.run(10 * SECOND);
    assert_eq!(paths(&world), [long, short]);
}

#[test]
fn a_unidirectional_flow_over_relays_is_reported_well_enough_to_keep_its_route() {
    // Packets flow in one direction; only reports return.
    let mut world = World::new(4);
    world.set(0, 1, None);
    world.run(3 * SECOND);
    let paths = |w: &World| [w.hosts[0].paths(1), w.hosts[1].paths(0)];
    let before = paths(&world);
    for _ in 0..20 {
        assert_eq!(world.flow(0, 1, SECOND), (200, 200));
        assert_eq!(paths(&world), before);
        world.capture.clear();
    }
    assert!(world.hosts.iter().all(|h| h.core.link_state.suspected.is_empty()));
}

/// Largest packet on the best route, bytes.
fn packet_max(world: &World, from: usize, to: usize) -> Option<usize> {
    world.hosts[from].table.peer(number(to))?.routes.first().map(|w| w.mtu)
}

#[test]
fn an_ethernet_carries_packets_of_the_default_mtu_over_relays() {
    let mut world = World::new(3);
    world.set(0, 2, None);
    // Before the path MTU is known and afterwards: on a smaller one every TCP segment would be sent in two datagrams.
    for _ in 0..10 {
        world.run(2 * SECOND);
        assert_eq!([packet_max(&world, 0, 1), packet_max(&world, 0, 2)], [Some(usize::from(crate::DEFAULT_MTU)); 2]);
    }
}

#[test]
fn the_packet_size_follows_the_mtu_of_each_path() {
    let mut world = World::new(3);
    let now = world.now;
    for index in 0..3 {
        world.hosts[index] = Host::new(Settings { mtu: 8800, ..settings(index, 3) }, 5 + index as u64, now);
    }
    world.set(0, 1, Some(Wire { size: 9000, ..WIRE }));
    world.set(0, 2, Some(Wire { size: 1400, ..WIRE }));
    world.set(1, 2, None);
    world.run(20 * SECOND);
    // Less IPv4, UDP, and 40 bytes of the frame; the search ends at a resolution of 8 bytes.
    assert_eq!(packet_max(&world, 0, 1), Some(8800));
    assert!((1324..=1332).contains(&packet_max(&world, 0, 2).unwrap()), "{:?}", packet_max(&world, 0, 2));
    // After an oversize error of the device the path MTU is known within a second.
    world.set(0, 1, Some(Wire { size: 1400, ..WIRE }));
    let now = world.now;
    world.hosts[0].core.handle_oversize(now);
    world.run(SECOND);
    assert!(packet_max(&world, 0, 1).unwrap() <= 1332, "{:?}", packet_max(&world, 0, 1));
    world.set(0, 1, Some(Wire { size: 9000, ..WIRE }));
    world.run(10 * SECOND);
    // Over the first member: the MTU of its link to the last, less 48 bytes of IPv6 and UDP and 96 of envelope and
    // frame.
    assert!((1248..=1256).contains(&packet_max(&world, 1, 2).unwrap()), "{:?}", packet_max(&world, 1, 2));
}

#[test]
fn a_relayed_path_follows_a_decrease_of_the_mtu_of_a_link() {
    let mut world = World::new(3);
    world.set(1, 2, None);
    // Halfway between two validations of the path MTU.
    world.run(25 * SECOND);
    assert_eq!(packet_max(&world, 1, 2), Some(usize::from(crate::DEFAULT_MTU)));
    // No error reports the change. The losses of a flow of 2 Mb/s make the relay validate the path MTU of the link, and
    // it advertises the result.
    world.set(0, 2, Some(Wire { size: 1400, ..WIRE }));
    let narrowed = world.now;
    while packet_max(&world, 1, 2).is_none_or(|m| m > 1400 - 48 - 96) {
        assert!(world.now < narrowed + 3 * SECOND, "{:?}", packet_max(&world, 1, 2));
        world.send_packet(1, 2, inner(1), usize::from(crate::DEFAULT_MTU));
        world.run(Duration::from_millis(5));
    }
    // The rest of the search, and the end of the link's suspicion.
    world.run(10 * SECOND);
    assert!((1248..=1256).contains(&packet_max(&world, 1, 2).unwrap()), "{:?}", packet_max(&world, 1, 2));
}

#[test]
fn control_traffic_is_not_counted_as_throughput() {
    let mut world = World::new(2);
    let throughput = |world: &World| world.hosts[0].core.net.peers[&number(1)].link.throughput(world.now).as_bps();
    world.run(5 * SECOND);
    assert_eq!(throughput(&world), 0, "probes are counted");
    // A packet of 1000 bytes every 10 ms without loss: 800 kb/s.
    for _ in 0..300 {
        assert!(world.send_packet(0, 1, inner(0), 1000));
        world.run(Duration::from_millis(10));
    }
    let measured = throughput(&world) as f64;
    assert!((measured / 800_000.0 - 1.0).abs() < 0.1, "{measured}");
}

#[test]
fn the_throughput_is_measured_across_a_rekey() {
    let mut world = World::new(2);
    let throughput =
        |world: &World| world.hosts[0].core.net.peers[&number(1)].link.throughput(world.now).as_bps() as f64;
    world.run(SECOND);
    let (mut measured, start) = (Vec::new(), world.now);
    while world.now < start + crate::session::REKEY_AFTER + 10 * SECOND {
        assert!(world.send_packet(0, 1, inner(0), 1000));
        world.run(Duration::from_millis(10));
        measured.push(throughput(&world));
    }
    // 800 kb/s from two seconds after the start, with one report more or less at the change of sessions.
    let (min, max) = measured[200..].iter().fold((f64::MAX, 0_f64), |(l, m), t| (l.min(*t), m.max(*t)));
    assert!(min > 600_000.0 && max < 1_000_000.0, "{min} to {max}");
}

#[test]
fn losses_before_an_idle_period_of_a_path_cause_no_later_suspicion() {
    // The seed decides whether the first frame is a packet, or a probe, which has its own packet number space.
    for seed in [1, 2, 6, 11] {
        let mut world = World::new(4);
        world.prng = Prng::new(seed);
        world.set(0, 2, None);
        world.set(0, 3, Some(Wire { loss: 0.05, ..WIRE }));
        world.set(1, 3, None);
        let over = |w: &World, relay: usize| w.hosts[0].paths(2).first() == Some(&format!("via {}", number(relay)));
        world.flow(0, 2, 20 * SECOND);
        assert!(over(&world, 1), "{:?}", world.hosts[0].paths(2));
        world.set(1, 2, None);
        world.flow(0, 2, 5 * SECOND);
        assert!(over(&world, 3), "{:?}", world.hosts[0].paths(2));
        world.set(1, 2, Some(WIRE));
        let mut paths = vec![over(&world, 1)];
        for _ in 0..300 {
            world.flow(0, 2, Duration::from_millis(200));
            paths.push(over(&world, 1));
            let suspected_links = world.hosts[0].core.link_state.suspected.values();
            assert!(
                !suspected_links.into_iter().any(|s| matches!(s.evidence, link_state::Evidence::Worse { .. })),
                "{paths:?}"
            );
        }
        let changes = paths.windows(2).filter(|w| w[0] != w[1]).count();
        assert_eq!((paths.last(), changes), (Some(&true), 1), "not exactly one return ({seed})");
    }
}

#[test]
fn a_relayed_path_is_restored_with_its_links() {
    // Frames lost on the failed link are no evidence against the other link. An advertisement that a link is up again
    // replaces one that it is down.
    for failed in [&[(0, 1)][..], &[(1, 2)], &[(0, 1), (1, 2)]] {
        let mut world = World::new(3);
        world.set(0, 2, None);
        world.run(3 * SECOND);
        let (sent, arrived) = world.flow(0, 2, SECOND);
        assert!(sent > 190 && sent == arrived, "{arrived} of {sent}");
        failed.iter().for_each(|(a, b)| world.set(*a, *b, None));
        world.flow(0, 2, 1500 * Duration::from_millis(1));
        assert_eq!(world.hosts[0].paths(2), [""; 0], "a route over a failed link");
        failed.iter().for_each(|(a, b)| world.set(*a, *b, Some(WIRE)));
        let start = world.now;
        while world.hosts[0].paths(2).is_empty() || world.hosts[2].paths(0).is_empty() {
            world.run(Duration::from_millis(50));
            assert!(world.now.saturating_since(start) < SECOND, "{failed:?}");
        }
    }
}
