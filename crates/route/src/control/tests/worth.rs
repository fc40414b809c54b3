//! What a path is worth beside others, and how sure that must be.

use super::*;

fn mbps(n: u64) -> Rate {
    Rate::from_bps(n * MBPS)
}

#[test]
fn a_path_that_carries_a_hundredth_of_what_it_was_chosen_for_has_collapsed() {
    for known in [true, false] {
        let mut net = Domestic::new(single());
        net.losses = [Some(0.05), Some(0.002)];
        net.capacities = [link(0.0).capacity.filter(|_| known); 2];
        net.until(20.0);
        net.losses[0] = Some(0.0);
        assert_eq!(net.until(22.0).last().unwrap().to, Some(north()));
        let mut decided = Vec::new();
        while net.now < 27.0 {
            net.report();
            let slow = Metrics { capacity: Some(mbps(1)), ..link(0.0) };
            net.control.handle_link(at(net.now), SOURCE, NORTH, Some(slow)).unwrap();
            net.now += 0.2;
            decided.extend(net.pump());
        }
        // Where nobody had known what it carries nothing was promised, and the last change must be past.
        let expected = if known { vec![(Some(south()), Reason::Degraded)] } else { Vec::new() };
        assert_eq!(reasons(&decided), expected, "{known}");
    }
}

#[test]
fn a_sender_in_luck_on_a_link_that_it_does_not_fill_does_not_speak_for_others() {
    let policy = Policy::default();
    let mut graph = Graph::new(policy.unknown_capacity);
    graph.set_member(NORTH, true);
    // Of 100 Mb/s a quarter is filled; where nobody knows what a link carries, it may be.
    for (carried, capacity, counts) in
        [(3, Some(100), false), (24, Some(100), false), (25, Some(100), true), (3, None, true)]
    {
        let metrics = Metrics { capacity: capacity.map(mbps), ..link(0.05) };
        graph.set(SOURCE, NORTH, metrics);
        graph.set(NORTH, EAST, metrics);
        let judged = judge::judge(&policy, metrics, None, 1);
        let mut used = Use::new(0, north(), at(0.0), &judged);
        used.note_load(at(1.0), &policy, Load { flows: 2, carried: mbps(carried) });
        let mut route = Route::default();
        route.uses.push(used);
        let routes = BTreeMap::from([(EAST, route)]);
        let shares = Shares::of(&routes, (&graph, SOURCE), at(1.0), &policy);
        let expected = counts.then(|| Rate::from_bps(carried * MBPS / 2));
        assert_eq!(shares.on((SOURCE, NORTH), NORTH), expected, "{carried} of {capacity:?}");
        assert_eq!(shares.on((SOURCE, NORTH), EAST), None, "its own");
        assert_eq!(shares.without_losses(&graph).is_some(), counts);
    }
}

#[test]
fn a_way_over_a_link_that_our_flows_fill_is_taken_for_what_they_get() {
    // Ten flows to the north fill the link there; what they lose is their own. By it and on to the east one would get as much as each of them, and the southern
    // bridge gives less.
    let mut net = Domestic::new(single());
    net.losses = [Some(0.02), Some(0.012)];
    net.until(5.0);
    assert_eq!(net.path(), Some(south()));
    let mut decided = Vec::new();
    while net.now < 30.0 {
        net.control.handle_load(at(net.now), Path::direct(NORTH), Load { flows: 10, carried: mbps(95) });
        decided.extend(net.until(net.now + 0.2));
    }
    assert_eq!(reasons(&decided), [(Some(north()), Reason::Better)]);
}

#[test]
fn a_shorter_way_is_told_as_such_and_is_no_refuge() {
    // The bridge has collapsed: the straight link, which is no better than that, can wait as if it had not.
    let mut net = Domestic::new(single());
    net.losses = [Some(0.0001), Some(0.05)];
    net.until(20.0);
    let mut decided = Vec::new();
    while net.now < 40.0 {
        if net.now > 25.0 {
            net.losses[0] = Some(0.02);
            let straight = Metrics { rtt: Duration::from_millis(38), ..link(0.0203) };
            net.control.handle_link(at(net.now), SOURCE, EAST, Some(straight)).unwrap();
        }
        decided.extend(net.until(net.now + 0.2));
    }
    assert_eq!(reasons(&decided), [(Some(Path::direct(EAST)), Reason::FewerHops)]);
    assert!(decided[0].at >= at(25.5), "confirmed first: {:?}", decided[0].at);
    let inputs = decided[0].inputs;
    let [to, from] = [inputs.to, inputs.from].map(|j| j.unwrap().predicted.as_bps() as f64);
    assert!(to < (1.0 + inputs.margin) * from, "it is not better by the margin: {inputs:?}");
}

#[test]
fn a_further_way_is_not_given_up_for_one_bad_report() {
    for (bad, ways) in [(0.2, 2), (0.8, 1)] {
        let mut net = Domestic::new(Policy { model: BY_ROOT, ..Policy::default() });
        net.losses = [Some(0.005), Some(0.006)];
        net.until(12.0);
        let further = net.control.paths(EAST)[1].path;
        assert_eq!(further, south());
        net.losses[1] = Some(0.3);
        net.until(12.0 + bad);
        net.losses[1] = Some(0.006);
        net.until(13.2);
        assert_eq!(net.control.paths(EAST).len(), ways, "bad for {bad} s");
    }
}

#[test]
fn what_a_further_way_was_measured_by_is_told() {
    let mut net = Domestic::new(Policy { model: BY_ROOT, ..Policy::default() });
    net.losses = [Some(0.005), Some(0.006)];
    let mut further = Vec::new();
    while net.now < 20.0 {
        if net.now > 12.0 {
            net.losses[1] = Some(0.5);
        }
        net.report();
        net.now += 0.2;
        while let Some(due) = net.control.poll_timeout().filter(|due| *due <= at(net.now)) {
            net.control.handle_timeout(due);
        }
        let all = core::iter::from_fn(|| net.control.poll_decision());
        further.extend(all.filter(|d| d.destination == EAST && d.place == 1));
    }
    let [first, removed] = &further[..] else { panic!("{further:?}") };
    // Half of what the first one is worth, and a quarter.
    let bps = |rate: Option<Rate>| rate.unwrap().as_bps();
    assert!(bps(first.inputs.required).abs_diff(2 * bps(removed.inputs.required)) <= 2, "{further:?}");
    assert!(first.inputs.to.unwrap().utility[1] >= first.inputs.required.unwrap());
    assert!(removed.inputs.from.unwrap().utility[1] < removed.inputs.required.unwrap());
    assert_eq!((removed.reason, removed.inputs.flows), (Reason::Removed, Some(0)));
}

#[test]
fn the_explanation_says_that_the_papers_policy_keeps_a_failed_path() {
    let mut net = Domestic::new(Policy { link_timeout: Duration::from_secs(5), ..Policy::safire_2008() });
    net.losses = [Some(0.05), Some(0.15)];
    net.until(30.0);
    net.losses = [Some(0.15), Some(0.05)];
    net.until(32.0);
    net.losses[1] = None;
    net.until(33.0);
    assert_eq!(net.path(), Some(south()), "it has failed, and is kept");
    assert!(matches!(net.holds(north())[..], [Hold::HoldDown { .. }]), "{:?}", net.holds(north()));
}
