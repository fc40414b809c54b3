//! Rate and timing of probes.

use wire::overlay::SPACE_SENSOR;

use super::*;

/// Two members on a link with a low probe budget.
fn slow() -> World {
    let mut world = World::new(2);
    world.without_gossip = true;
    for index in 0..2 {
        let slow = Settings { capacity: Some(Rate::from_bps(1_000_000)), ..settings(index, 2) };
        world.hosts[index] = Host::new(slow, 5 + index as u64, world.now);
    }
    // Until the token bucket is full, so that the rate is that of the budget.
    world.run(90 * SECOND);
    world
}

fn probes(world: &World) -> u64 {
    world.hosts[0].core.link_view(number(1), world.now).unwrap().probes
}

#[test]
fn traffic_replaces_probes() {
    let mut world = slow();
    let before = probes(&world);
    world.run(60 * SECOND);
    let idle = probes(&world) - before;
    // At least ten probes/s.
    assert!(idle > 500, "{idle}");
    let before = probes(&world);
    let end = world.now + 60 * SECOND;
    while world.now < end {
        assert!(world.send_packet(0, 1, inner(0), 500));
        world.run(Duration::from_millis(1));
    }
    let busy = probes(&world) - before;
    // At 1000 packets/s a probe is sent only if two intervals end within the same millisecond: one in sixty at 18
    // probes/s.
    assert!(busy * 30 < idle, "{busy} and {idle}");
    // The budget saved meanwhile is spent first.
    world.run(60 * SECOND);
    let before = probes(&world);
    world.run(60 * SECOND);
    let again = (probes(&world) - before) as f64 / idle as f64;
    assert!((again - 1.0).abs() < 0.15, "{again}");
}

#[test]
fn gaps_between_probes_are_exponential() {
    let mut world = slow();
    let (mut gaps, mut last, mut known) = (Vec::new(), world.now, probes(&world));
    // The resolution is half a millisecond, at gaps of 60 to 100 ms.
    for _ in 0..120_000 {
        world.run(Duration::from_micros(500));
        let now = probes(&world);
        if now > known {
            gaps.push(world.now.saturating_since(last).as_secs_f64());
            // Further probes within one step.
            gaps.extend((known + 1..now).map(|_| 0.0));
            (last, known) = (world.now, now);
        }
    }
    let n = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / n;
    let deviation = (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / n).sqrt();
    // The coefficient of variation of n exponential gaps deviates from 1 by 1/sqrt(n).
    let variation = deviation / mean;
    assert!(n > 500.0 && (variation - 1.0).abs() < 4.0 / n.sqrt(), "{variation} of {n}");
    // The shares of gaps longer than one, two and three means: 1/e, 1/e^2, 1/e^3.
    for times in 1..4 {
        let share = gaps.iter().filter(|g| **g > mean * f64::from(times)).count() as f64 / n;
        let expected = (-f64::from(times)).exp();
        assert!((share - expected).abs() < 4.0 * (expected / n).sqrt(), "{times}: {share} and {expected}");
    }
}

#[test]
fn an_idle_overlay_sends_two_probes_a_second_until_any_member_sends_traffic() {
    let mut world = World::new(3);
    world.may_idle = true;
    // A terminal session or one ping per second does not count as traffic.
    let pings = |w: &mut World, seconds: u32| {
        for _ in 0..seconds {
            assert!(w.send_packet(2, 0, inner(2), 84));
            w.run(SECOND);
            w.capture.clear();
        }
    };
    let each_second = |w: &mut World, seconds: u32| {
        let before = probes(w);
        pings(w, seconds);
        (probes(w) - before) as f64 / f64::from(seconds)
    };
    world.run(3 * SECOND);
    // Three fifths of 800 probes/s until the token bucket is full.
    let at_start = each_second(&mut world, 40);
    assert!(at_start > 400.0, "{at_start}");
    pings(&mut world, 60);
    let idle = each_second(&mut world, 60);
    // Two probes/s, and one for each second without frames in a direction.
    assert!((0.5..4.0).contains(&idle) && world.hosts[0].core.is_idle(world.now), "{idle}");
    // Another member sends over its own link.
    assert_eq!(world.hosts[2].paths(1), ["direct"]);
    world.flow(2, 1, 2 * SECOND);
    let before = probes(&world);
    world.flow(2, 1, 2 * SECOND);
    let busy = (probes(&world) - before) as f64 / 2.0;
    assert!(busy > 400.0 && !world.hosts[0].core.is_idle(world.now), "{busy}");
    // The sender is idle after a minute, and the others once its last advertisement has expired.
    pings(&mut world, 75);
    let again = each_second(&mut world, 60);
    assert!((0.5..4.0).contains(&again), "{again}");
}

#[test]
fn an_idle_link_costs_less_than_20_kilobits_a_second_and_its_failure_is_detected() {
    let mut world = World::new(11);
    world.may_idle = true;
    world.run(70 * SECOND);
    assert!(world.hosts.iter().all(|h| h.core.is_idle(world.now)));
    let links_up = |w: &World| (1..11).filter(|to| w.hosts[0].is_linked(*to)).count();
    let down = |w: &World| w.hosts[0].events.iter().filter(|(_, e)| matches!(e, Event::Link { up: false, .. })).count();
    assert_eq!((links_up(&world), down(&world)), (10, 0), "a link went down at the change of the probe rate");
    world.capture.clear();
    world.run(20 * SECOND);
    let of_first = world.capture.iter().filter(|(from, to, _)| *from == 0 || *to == 0);
    // 28 bytes of IP and UDP headers; both directions of ten links in 20 s.
    let bps = of_first.map(|(.., datagram)| (datagram.len() + 28) * 8).sum::<usize>() / 20 / 10;
    assert!(bps < 20_000, "{bps} b/s");
    assert_eq!((links_up(&world), down(&world)), (10, 0), "a link went down");
    world.set(0, 1, None);
    world.run(7 * SECOND);
    assert_eq!((links_up(&world), down(&world)), (9, 1));
    assert_eq!(world.hosts[0].paths(1).len(), 1, "no route over a relay");
    world.set(0, 1, Some(WIRE));
    world.run(3 * SECOND);
    assert_eq!(links_up(&world), 10);
}

#[test]
fn links_stay_up_and_are_measured_soon_when_an_idle_overlay_becomes_busy() {
    let mut world = World::new(4);
    world.may_idle = true;
    world.set(0, 1, Some(Wire { loss: 0.1, ..WIRE }));
    world.run(90 * SECOND);
    assert!(world.hosts.iter().all(|h| h.core.is_idle(world.now)));
    // The route may be the lossy link at first; after two seconds of traffic it leads over a relay.
    world.flow(0, 1, 3 * SECOND);
    assert_ne!(world.hosts[0].paths(1), ["direct"]);
    let (sent, arrived) = world.flow(0, 1, 2 * SECOND);
    assert_eq!(sent, arrived);
    let is_down = |(_, e): &(Instant, Event)| matches!(e, Event::Link { up: false, .. });
    assert!(world.hosts.iter().all(|h| !h.events.iter().any(is_down)));
}

#[test]
fn a_failed_link_carries_few_probes_only() {
    let mut world = World::new(3);
    world.run(3 * SECOND);
    world.set(0, 1, None);
    world.run(5 * SECOND);
    world.capture.clear();
    world.flow(0, 2, 10 * SECOND);
    let sent = world.capture.iter().filter(|(from, to, _)| (*from, *to) == (0, 1)).count();
    // Ten probes/s and occasional initiations. An excess of half has a probability below one in a million.
    assert!((50..150).contains(&sent), "{sent}");
}

/// Times of the first member's probes of the paper's loss sensor.
fn sensor_probe_times(world: &mut World, span: Duration) -> Vec<Instant> {
    let (mut times, end) = (Vec::new(), world.now + span);
    while world.now < end {
        world.capture.clear();
        world.run(Duration::from_millis(1));
        let is_one = |seen: &&(usize, usize, Vec<u8>)| seen.0 == 0 && seen.2[0] == 0xb4 && seen.2[3] == SPACE_SENSOR;
        times.extend(world.capture.iter().filter(is_one).map(|_| world.now));
    }
    times
}

#[test]
fn the_papers_sensor_sends_and_counts_its_own_periodic_probes() {
    // 500 probes in 10 s: every 20 ms.
    let sensor = LossSensor::new(Some(10 * SECOND), Some(500)).ok();
    let mut world = World::new(2);
    for index in 0..2 {
        world.hosts[index] = Host::new(Settings { sensor, ..settings(index, 2) }, 5 + index as u64, world.now);
    }
    world.run(2 * SECOND);
    let times = sensor_probe_times(&mut world, 10 * SECOND);
    assert!((499..=501).contains(&times.len()), "{}", times.len());
    let gaps = times.windows(2).map(|t| t[1].saturating_since(t[0]).as_millis());
    assert!(gaps.clone().all(|gap| (19..=21).contains(&gap)), "{:?}", gaps.collect::<Vec<_>>());

    let losses = |w: &World| {
        let view = |a: usize, b: usize| w.hosts[a].core.link_view(number(b), w.now).unwrap();
        [view(0, 1).tx_loss, view(1, 0).rx_loss].map(Option::unwrap)
    };
    // The sensor and its route control ignore losses of traffic.
    world.wires.insert((0, 1), Wire { size: 400, ..WIRE });
    for _ in 0..250 {
        (0..4).for_each(|_| assert!(world.send_packet(0, 1, inner(0), 500)));
        world.run(Duration::from_millis(100));
    }
    assert_eq!(losses(&world), [0.0; 2]);
    // After two intervals 0.3 of 1000 probes are lost, with a standard deviation of 0.015. Each end counts them itself.
    world.wires.insert((0, 1), Wire { loss: 0.3, ..WIRE });
    world.run(31 * SECOND);
    for share in losses(&world) {
        assert!((share - 0.3).abs() < 4.0 * 0.015, "{share}");
    }
}
