//! What our own flows say of the paths that they are on.

use super::*;

fn mbps(n: u64) -> Rate {
    Rate::from_bps(n * MBPS)
}

/// Runs until this time, with this load on the northern bridge, and a southern one of this capacity.
fn until(net: &mut Domestic, end: f64, load: Load, south: u64) -> Vec<Decision> {
    let mut decided = Vec::new();
    while net.now < end - 1e-9 {
        net.report();
        let loss = net.losses[1].unwrap();
        for (from, to, loss) in [(SOURCE, SOUTH, loss), (SOUTH, EAST, 0.0)] {
            let narrow = Metrics { capacity: Some(mbps(south)), ..link(loss) };
            net.control.handle_link(at(net.now), from, to, Some(narrow)).unwrap();
        }
        net.control.handle_load(at(net.now), north(), load);
        net.now += 0.2;
        decided.extend(net.pump());
    }
    decided
}

/// The northern bridge is used, and carries this.
fn carries(policy: Policy, load: Load, south: u64) -> Domestic {
    let mut net = Domestic::new(policy);
    net.losses = [Some(0.0001), Some(0.05)];
    until(&mut net, 25.0, load, south);
    assert_eq!(net.path(), Some(north()));
    net
}

#[test]
fn what_arrives_all_the_time_is_not_sent_where_it_does_not_fit() {
    // 20 Mb/s that nobody holds back, as of UDP, where TCP would get 1.9. They are a fifth of what the path carries: it is not full.
    let load = Load { flows: 1, carried: mbps(20) };
    for (south, expected) in [(4, None), (19, None), (40, Some(south()))] {
        let mut net = carries(single(), load, south);
        net.losses = [Some(0.02), Some(0.0)];
        let decided = until(&mut net, 60.0, load, south);
        assert_eq!(decided.first().map(|d| d.to), expected.map(Some), "{south} Mb/s: {decided:?}");
        if expected.is_none() {
            let is_narrow =
                |hold: &Hold| matches!(hold, Hold::InsufficientCapacity { carried } if *carried == mbps(20));
            assert!(net.holds(super::south()).iter().any(is_narrow), "{:?}", net.holds(super::south()));
        }
    }
}

#[test]
fn a_path_that_collapses_under_our_flows_is_trusted_later_each_time() {
    let load = Load { flows: 1, carried: mbps(2) };
    let mut net = Domestic::new(Policy { hold_down: Duration::from_secs(2), jitter: 0.0, ..single() });
    net.losses = [Some(0.001), Some(0.05)];
    until(&mut net, 5.0, load, 100);
    let mut waits = Vec::new();
    for _ in 0..3 {
        net.losses[0] = Some(0.3);
        let end = net.now + 1.0;
        let left = until(&mut net, end, load, 100)[0].at;
        net.losses[0] = Some(0.001);
        while net.path() != Some(north()) {
            let end = net.now + 0.2;
            until(&mut net, end, load, 100);
        }
        waits.push(at(net.now).saturating_since(left).as_secs_f64());
        // Soon after its return.
        let end = net.now + 5.0;
        until(&mut net, end, load, 100);
    }
    assert!(waits[1] > 1.4 * waits[0] && waits[2] > waits[1], "{waits:?}");
}

#[test]
fn haste_is_for_what_is_sent() {
    // Others fill the northern bridge for a moment, or for long: two, twenty or sixty reports.
    let (idle, mice) = (Load::default(), Load { flows: 0, carried: Rate::from_bps(10_000) });
    let cases = [
        (idle, idle, 0.4, None, 0.0),
        (idle, idle, 4.0, None, 0.0),
        (idle, idle, 12.0, Some((Reason::Better, 10.0)), 10.4),
        (mice, mice, 0.4, Some((Reason::Degraded, 0.0)), 0.4),
        // Who waits for a retransmission, or for the next key.
        (mice, idle, 0.4, Some((Reason::Degraded, 0.0)), 0.4),
    ];
    for (before, load, seconds, least, most) in cases {
        let mut net = carries(single(), before, 100);
        net.losses = [Some(0.2), Some(0.0001)];
        let (begin, end) = (at(net.now), net.now + seconds);
        let mut decided = until(&mut net, end, load, 100);
        net.losses[0] = Some(0.0001);
        let end = net.now + 4.0;
        decided.extend(until(&mut net, end, load, 100));
        let after = decided.first().map(|d| (d.reason, d.at.saturating_since(begin).as_secs_f64()));
        let is_as_expected = match (after, least) {
            (Some((reason, after)), Some((why, least))) => reason == why && (least..=most).contains(&after),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        assert!(is_as_expected, "{load:?} {seconds}: {after:?}");
    }
}

#[test]
fn who_begins_to_send_on_a_path_that_is_no_good_leaves_it_at_once() {
    let mut net = carries(single(), Load::default(), 100);
    net.losses = [Some(0.2), Some(0.0001)];
    let end = net.now + 4.0;
    assert_eq!(until(&mut net, end, Load::default(), 100).len(), 0);
    let (begin, end) = (at(net.now), net.now + 2.0);
    let decided = until(&mut net, end, Load { flows: 0, carried: Rate::from_bps(10_000) }, 100);
    assert_eq!(reasons(&decided), [(Some(south()), Reason::Degraded)]);
    assert!(decided[0].at <= begin + Duration::from_millis(400), "{:?}", decided[0].at);
}

#[test]
fn a_further_path_that_nothing_is_sent_on_outlasts_what_a_burst_of_others_loses_there() {
    let mice = Load { flows: 0, carried: Rate::from_bps(10_000) };
    for (load, seconds, kept) in [(Load::default(), 5.0, 2), (Load::default(), 11.0, 1), (mice, 1.0, 1)] {
        let mut net = Domestic::new(Policy::default());
        net.losses = [Some(0.0), Some(0.0)];
        net.until(20.0);
        let further = net.control.paths(EAST)[1].path;
        net.losses = if further == south() { [Some(0.0), Some(0.2)] } else { [Some(0.2), Some(0.0)] };
        let end = net.now + seconds;
        while net.now < end {
            net.control.handle_load(at(net.now), further, load);
            net.until(net.now + 0.2);
        }
        assert_eq!(net.control.paths(EAST).len(), kept, "{load:?}, {seconds} s");
    }
}

#[test]
fn a_flow_that_pauses_leaves_its_path_as_good_as_it_was() {
    // What it lost in its own queue while it filled the path, a thousandth, would let another one get 10.8 Mb/s.
    let (full, pause) = (Load { flows: 1, carried: mbps(90) }, Load { flows: 1, carried: Rate::ZERO });
    for (loss_meanwhile, expected) in [(0.001, vec![]), (0.02, vec![(Some(south()), Reason::Degraded)])] {
        let mut net = carries(single(), full, 30);
        net.losses = [Some(0.001), Some(0.0)];
        let mut decided = until(&mut net, 50.0, full, 30);
        for _ in 0..3 {
            net.losses[0] = Some(loss_meanwhile);
            let end = net.now + 3.0;
            decided.extend(until(&mut net, end, pause, 30));
            net.losses[0] = Some(0.001);
            let end = net.now + 5.0;
            decided.extend(until(&mut net, end, full, 30));
        }
        decided.truncate(expected.len().max(1));
        assert_eq!(reasons(&decided), expected, "{loss_meanwhile}");
    }
    // Who asks for nothing for longer than that says no more of it.
    let mut net = carries(single(), full, 30);
    net.losses = [Some(0.001), Some(0.0)];
    until(&mut net, 50.0, full, 30);
    let decided = until(&mut net, 70.0, pause, 30);
    assert_eq!(reasons(&decided), [(Some(south()), Reason::Degraded)]);
    assert!(decided[0].at >= at(59.0), "{:?}", decided[0].at);
}

#[test]
fn a_further_way_is_held_against_what_the_first_one_carries() {
    // Filled with 95 Mb/s, of which a thousandth is lost in its queue. Half of that would be worth a way of its own.
    let load = Load { flows: 1, carried: mbps(95) };
    for (south, ways) in [(8, 1), (60, 2)] {
        let mut net = carries(Policy::default(), load, south);
        net.losses = [Some(0.001), Some(0.0)];
        until(&mut net, 60.0, load, south);
        let paths = net.control.paths(EAST);
        assert_eq!(paths.len(), ways, "{paths:?}");
        if let [first, _] = paths {
            // A new flow gets half of the one, or the other.
            assert!((first.weight - 95.0 / (95.0 + 60.0)).abs() < 0.001, "{paths:?}");
        }
    }
}

#[test]
fn as_many_ways_are_used_as_the_policy_has() {
    let bridges = [(NORTH, 0.01), (SOUTH, 0.02), (Member(4), 0.035)];
    let mut control = Control::new(SOURCE, Policy { model: BY_ROOT, max_paths: 3, ..Policy::default() }).unwrap();
    for (bridge, _) in bridges {
        control.handle_member(at(0.0), bridge, Some(true)).unwrap();
    }
    control.handle_member(at(0.0), EAST, Some(false)).unwrap();
    let mut run = |until: f64, up: &[usize]| {
        let mut now = until - 12.0;
        while now < until {
            for (index, (bridge, loss)) in bridges.into_iter().enumerate() {
                let metrics = up.contains(&index).then(|| link(loss));
                control.handle_link(at(now), SOURCE, bridge, metrics).unwrap();
                control.handle_link(at(now), bridge, EAST, Some(link(0.0))).unwrap();
            }
            now += 0.2;
            control.handle_timeout(at(now));
        }
        let ways = control.paths(EAST).iter().map(|w| (w.path.relays()[0], (w.weight * 1000.0).round() as u32));
        ways.collect::<Vec<_>>()
    };
    // As 1 / sqrt(p): 10, 7.071 and 5.345 of 22.416, and of 15.345 and 12.416 without one of them.
    assert_eq!(run(12.0, &[0, 1, 2]), [(NORTH, 446), (SOUTH, 315), (Member(4), 238)]);
    assert_eq!(run(24.0, &[0, 2]), [(NORTH, 652), (Member(4), 348)]);
    assert_eq!(run(36.0, &[2]), [(Member(4), 1000)]);
}
