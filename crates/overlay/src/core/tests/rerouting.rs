//! Rerouting after changes of loss, beside flows and across rekeys.

use wire::overlay::SPACE_PROBES;

use super::*;

const MBPS: u64 = 1_000_000;
const TICK: Duration = Duration::from_millis(50);

/// Members with a configured capacity only, on links that the caller sets.
fn members(count: usize, seed: u64, capacity: Option<u64>) -> World {
    let mut world = World::new(count);
    world.prng = Prng::new(seed);
    let now = world.now;
    for index in 0..count {
        let settings = Settings { capacity: capacity.map(Rate::from_bps), ..settings(index, count) };
        world.hosts[index] = Host::new(settings, 100 * seed + index as u64, now);
    }
    world
}

/// The paper's topology *Forward* (Mark et al. 2008, figure 2) with one relay: the last member is reachable directly
/// over a satellite of 45 Mb/s, or over the second member and a satellite of 3 Mb/s. No capacity is configured.
fn forward(seed: u64) -> World {
    let mut world = members(3, seed, None);
    world.set(0, 1, Some(Wire { delay: Duration::from_micros(100), rate: Some(100 * MBPS), ..WIRE }));
    satellites(&mut world, [0.0, 0.0]);
    world
}

fn satellites(world: &mut World, [direct, relayed]: [f64; 2]) {
    let wire = |ms, mbps, loss| Wire { delay: Duration::from_millis(ms), rate: Some(mbps * MBPS), loss, ..WIRE };
    world.set(0, 2, Some(wire(150, 45, direct)));
    world.set(1, 2, Some(wire(270, 3, relayed)));
}

/// A connection from the first member to the last: a burst of packets of 1300 bytes in each tick, half as many
/// acknowledgements, and the flow report of the node.
fn connection(world: &mut World, span: Duration, mut packets: impl FnMut(&World) -> usize) {
    let (last, end) = (world.hosts.len() - 1, world.now + span);
    while world.now < end {
        let count = packets(world);
        for (from, to, count, bytes) in [(0, last, count, 1300), (last, 0, count.div_ceil(2), 60)] {
            (0..count).for_each(|_| {
                world.send_packet(from, to, inner(from), bytes);
            });
        }
        let best = world.hosts[0].core.routes(number(last)).first().map(|w| w.path);
        let now = world.now;
        world.hosts[0].core.handle_flows(now, &best.map_or(Vec::new(), |path| vec![(path, 1)]));
        world.run(TICK);
        world.capture.clear();
    }
}

/// Times of the first member's changes of the best route to the last, seconds.
fn changes(world: &World, since: Instant) -> Vec<f64> {
    let last = number(world.hosts.len() - 1);
    let is_route = |e: &Event| matches!(e, Event::Route(d) if d.destination == last && d.place == 0);
    let found = world.hosts[0].events.iter().filter(|(at, e)| *at >= since && is_route(e));
    found.map(|(at, _)| at.saturating_since(since).as_secs_f64()).collect()
}

#[test]
fn the_round_trip_of_a_link_is_independent_of_the_path_of_the_reports() {
    let mut world = forward(1);
    satellites(&mut world, [0.0, 0.05]);
    // Both ends of the slow satellite use a route over the first member, which carries reports of all frames as well. A
    // frame over the slow satellite whose report returns over the fast one has a shorter round trip.
    for _ in 0..600 {
        for (from, to) in [(1, 2), (2, 1)] {
            world.send_packet(from, to, inner(from), 500);
        }
        world.run(2 * TICK);
    }
    for (from, to) in [(1, 2), (2, 1)] {
        assert_eq!(world.hosts[from].paths(to), [format!("via {}", number(0))]);
    }
    let rtt_ms = |a: usize, b: usize| {
        let view = world.hosts[a].core.link_view(number(b), world.now).unwrap();
        view.rtt_us.unwrap() as f64 / 1e3
    };
    // Twice 150 and 270 ms, and the serialization of some packets.
    for (a, b, truth) in [(0, 2, 300.0), (2, 0, 300.0), (1, 2, 540.0), (2, 1, 540.0)] {
        assert!((truth..truth + 3.0).contains(&rtt_ms(a, b)), "{a} {b}: {} ms", rtt_ms(a, b));
    }
}

#[test]
fn a_slow_link_uses_its_whole_probe_budget() {
    let mut world = forward(2);
    satellites(&mut world, [0.05, 0.15]);
    world.run(60 * SECOND);
    let probes = |world: &World| world.hosts[1].core.link_view(number(2), world.now).unwrap().probes as f64;
    let before = probes(&world);
    world.capture.clear();
    world.run(300 * SECOND);
    // Each path MTU probe comes with five datagrams without padding, of 43 bytes of a frame; the probe has at most 1500
    // bytes.
    let is_unpadded = |(from, to, d): &&(usize, usize, Vec<u8>)| {
        (*from, *to) == (1, 2) && d[0] == 0xb4 && d[3] == SPACE_PROBES && d.len() == 43
    };
    let mtu_probes = world.capture.iter().filter(is_unpadded).count() as f64 / 5.0;
    // Three quarters of a hundredth of 3 Mb/s. The unspent budget at the start and at the end differs by at most 30 s
    // of it, 10 %; the spacing is a Poisson process: 10,000 probes vary by 1 %. Reports are not included.
    let bytes = 69.0 * (probes(&world) - before) + mtu_probes * (5.0 * 71.0 + 1500.0);
    let share = 8.0 * bytes / 300.0 / 3e6;
    assert!((share / 0.0075 - 1.0).abs() < 0.12 && mtu_probes >= 30.0, "{share}, {mtu_probes} path MTU probes");
}

/// 50 kb/s: less than the rate of TCP at a loss of 0.15, because route control does not replace a path that carries
/// more than the predicted rate of the alternative.
fn tcp() -> impl FnMut(&World) -> usize {
    let mut tick = 0;
    move |_| {
        tick += 1;
        usize::from(tick % 4 == 0)
    }
}

#[test]
fn routes_follow_changes_of_loss_on_fast_and_slow_links() {
    let mut world = forward(3);
    connection(&mut world, 30 * SECOND, tcp());
    for (period, losses) in [[0.15, 0.01], [0.01, 0.15], [0.15, 0.01], [0.01, 0.15]].into_iter().enumerate() {
        satellites(&mut world, losses);
        let start = world.now;
        connection(&mut world, 40 * SECOND, tcp());
        // A change on the fast satellite is detected within a fraction of a second. The slow one carries 60 frames/s,
        // each of which distinguishes 0.01 from 0.15 by 0.01 ln(1/15) + 0.99 ln(0.99/0.85) = 0.124 nats: half of 3 + 2
        // ln 10 after 31 frames, 0.5 s, and half of 15 + 2 ln 10 after 80. During the alert it is probed eight times as
        // often, so that these frames and the two or three times as many that narrow the interval take 0.8 s more. The
        // path, the gossip and the confirmation add half a second each.
        let after = changes(&world, start);
        let bound = if period % 2 == 0 { 4.0 } else { 2.0 };
        assert!(after.len() == 1 && after[0] < bound, "period {period}: {after:?}");
    }
}

/// Two paths alternate between losses of 0.05 and 0.15, at which TCP gets some 1.2 and 0.3 Mb/s over these round trips.
#[test]
fn routes_follow_a_changing_network_for_twenty_minutes() {
    let mut world = members(4, 4, Some(20 * MBPS));
    world.set(0, 3, None);
    world.set(1, 2, None);
    let bridge = |loss| Some(Wire { rate: Some(100 * MBPS), loss, ..WIRE });
    let uses = |w: &World| w.hosts[0].core.routes(number(3)).first().map(|w| w.path.first_hop());
    let (mut spans, start) = (Prng::new(5), world.now);
    let (mut lags, mut extra, mut sessions) = (Vec::new(), 0, std::collections::BTreeSet::new());
    let mut better = 1;
    while world.now < start + 1200 * SECOND {
        better = 3 - better;
        world.set(0, better, bridge(0.05));
        world.set(0, 3 - better, bridge(0.15));
        let (since, good) = (world.now, Some(number(better)));
        let span = SECOND.mul_f64(35.0 + 30.0 * spans.unit());
        connection(&mut world, span, |w| if uses(w) == good { 6 } else { 2 });
        assert_eq!(uses(&world), good, "after {:?}", world.now.saturating_since(start));
        let found = changes(&world, since);
        extra += found.len().saturating_sub(1);
        lags.extend(found.first().copied().filter(|_| since > start));
        sessions.extend(world.hosts[0].core.net.session(number(3)).map(|s| s.local));
    }
    assert!(sessions.len() >= 10, "too few rekeys: {}", sessions.len());
    lags.sort_by(f64::total_cmp);
    let (median, last) = (lags[lags.len() / 2], lags[lags.len() - 1]);
    // The goal for the median. Chance delays the detection of a loss, but by less than the suppression time before a
    // return to a path.
    assert!(lags.len() > 20 && median < 2.0 && last < 8.0, "{lags:?}");
    assert_eq!(extra, 0, "route changes without a change of the network");
    let downs = world.hosts.iter().flat_map(|h| &h.events).filter(|(_, e)| matches!(e, Event::Link { up: false, .. }));
    assert_eq!(downs.count(), 0);
}

/// The schedule of figure 4 over the two satellites (figures 7 and 8): 0.15 and 0.05 swap sides, and the better path is
/// so by a factor of 1.6 to 2.5. Returns the reroute latencies of forty changes in seconds, to the fast satellite and
/// to the slow one.
fn schedule(seed: u64) -> [Vec<f64>; 2] {
    let (mut world, mut spans) = (forward(seed), Prng::new(seed + 1));
    satellites(&mut world, [0.15, 0.05]);
    connection(&mut world, 60 * SECOND, tcp());
    let mut lags = [Vec::new(), Vec::new()];
    for period in 0..40 {
        satellites(&mut world, if period % 2 == 0 { [0.05, 0.15] } else { [0.15, 0.05] });
        let start = world.now;
        connection(&mut world, SECOND.mul_f64(50.0 + 20.0 * spans.unit()), tcp());
        let found = changes(&world, start);
        // Exactly one route change per change of the network.
        assert_eq!(found.len(), 1, "{seed}, period {period}: {found:?}");
        lags[period % 2].extend(found);
    }
    lags
}

#[test]
fn routes_follow_the_papers_satellites_within_two_seconds() {
    // Medians of twenty changes to the slow satellite vary from 1.7 to 2.8 s by chance, so that six runs are combined.
    let runs = Vec::from_iter((6..12).map(schedule));
    let [fast, slow] = [0, 1].map(|side| runs.iter().flat_map(|lags| lags[side].clone()).collect::<Vec<_>>());
    let median_of = |lags: &[f64]| {
        let mut sorted = lags.to_vec();
        sorted.sort_by(f64::total_cmp);
        // The count is even: the median is the mean of the middle two.
        (sorted[sorted.len() / 2 - 1] + sorted[sorted.len() / 2]) / 2.0
    };
    let (all, fast, slow) = (median_of(&[&fast[..], &slow].concat()), median_of(&fast), median_of(&slow));
    println!("{all} {fast} {slow}");
    // The goal. Changes to the satellite of 3 Mb/s take longer: distinguishing 0.05 from 0.15 takes 160 probes, and
    // until the other path is known to be worse the slow one gets 40 probes/s; its reports take 270 ms (1.1 to 5.3 s;
    // for the one of 45 Mb/s 1.1 to 1.6 s).
    assert!(all < 2.0 && fast < 1.6 && slow < 2.6, "{all} {fast} {slow}");
}
