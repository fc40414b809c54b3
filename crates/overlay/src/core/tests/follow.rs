//! Losses that change are followed, beside flows and across changes of keys.

use wire::overlay::SPACE_PROBES;

use super::*;

const MBPS: u64 = 1_000_000;
const TICK: Duration = Duration::from_millis(50);

/// Members who are told no more of their links than this, on wires that are yet to be set.
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

/// The paper's topology *Forward* (Mark et al. 2008, figure 2) with one relay: to the last member directly over a
/// satellite of 45 Mb/s, or over the second member and one of 3 Mb/s. Nobody is told a capacity.
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

/// A connection from the first member to the last: in each tick so many packets of 1300 bytes at once, half as many
/// answers, and what the node tells of it.
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
        world.seen.clear();
    }
}

/// Seconds after which the first member changed its way to the last.
fn changes(world: &World, since: Instant) -> Vec<f64> {
    let last = number(world.hosts.len() - 1);
    let is_route = |e: &Event| matches!(e, Event::Route(d) if d.destination == last && d.place == 0);
    let found = world.hosts[0].events.iter().filter(|(at, e)| *at >= since && is_route(e));
    found.map(|(at, _)| at.saturating_since(since).as_secs_f64()).collect()
}

#[test]
fn a_round_trip_is_that_of_the_link_whichever_way_the_answer_takes() {
    let mut world = forward(1);
    satellites(&mut world, [0.0, 0.05]);
    // The two ends of the slow satellite send to each other over the first member, and are told of all frames by that
    // way, too: there by the slow satellite, back by the other is a shorter way round.
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
    // Twice 150 and 270 ms, and some packets' time on the wire.
    for (a, b, truth) in [(0, 2, 300.0), (2, 0, 300.0), (1, 2, 540.0), (2, 1, 540.0)] {
        assert!((truth..truth + 3.0).contains(&rtt_ms(a, b)), "{a} {b}: {} ms", rtt_ms(a, b));
    }
}

#[test]
fn a_slow_link_gets_all_the_probes_that_it_pays_for() {
    let mut world = forward(2);
    satellites(&mut world, [0.05, 0.15]);
    world.run(60 * SECOND);
    let probes = |world: &World| world.hosts[1].core.link_view(number(2), world.now).unwrap().probes as f64;
    let before = probes(&world);
    world.seen.clear();
    world.run(300 * SECOND);
    // With each trial of a size go five datagrams that have none, 43 bytes of a frame, and it has 1500 at most.
    let is_companion = |(from, to, d): &&(usize, usize, Vec<u8>)| {
        (*from, *to) == (1, 2) && d[0] == 0xb4 && d[3] == SPACE_PROBES && d.len() == 43
    };
    let trials = world.seen.iter().filter(is_companion).count() as f64 / 5.0;
    // Three quarters of a hundredth of 3 Mb/s. What is saved of that at the begin and at the end differs by 30 s of it
    // at most, 10 %; the spacing is Poisson's: 10,000 vary by 1 %. Reports are sent besides.
    let bytes = 69.0 * (probes(&world) - before) + trials * (5.0 * 71.0 + 1500.0);
    let share = 8.0 * bytes / 300.0 / 3e6;
    assert!((share / 0.0075 - 1.0).abs() < 0.12 && trials >= 30.0, "{share}, {trials} trials");
}

/// 50 kb/s: less than what TCP gets at a loss of 0.15. A way that carries more is not left for one that promises less
/// than that.
fn tcp() -> impl FnMut(&World) -> usize {
    let mut tick = 0;
    move |_| {
        tick += 1;
        usize::from(tick % 4 == 0)
    }
}

#[test]
fn losses_are_followed_on_fast_and_on_slow_links() {
    let mut world = forward(3);
    connection(&mut world, 30 * SECOND, tcp());
    for (period, losses) in [[0.15, 0.01], [0.01, 0.15], [0.15, 0.01], [0.01, 0.15]].into_iter().enumerate() {
        satellites(&mut world, losses);
        let begin = world.now;
        connection(&mut world, 40 * SECOND, tcp());
        // The fast satellite tells within a fraction of a second. On the slow one 60 frames a second come, of which
        // each tells 0.01 from 0.15 by 0.01 ln(1/15) + 0.99 ln(0.99/0.85) = 0.124 nats: half of 3 + 2 ln 10 after 31 of
        // them, 0.5 s, and half of 15 + 2 ln 10 after 80; but as soon as it is in doubt it is probed eight times as
        // often, so that these and the two or three times as many by which the interval is narrow enough take 0.8 s
        // more. Then half a second each for the way, the gossip and the confirmation.
        let after = changes(&world, begin);
        let most = if period % 2 == 0 { 4.0 } else { 2.0 };
        assert!(after.len() == 1 && after[0] < most, "period {period}: {after:?}");
    }
}

/// Between two ways of which one loses 0.05 and the other 0.15, in turns, TCP gets some 1.2 and 0.3 Mb/s over these
/// round trips.
#[test]
fn a_changing_network_is_followed_for_twenty_minutes() {
    let mut world = members(4, 4, Some(20 * MBPS));
    world.set(0, 3, None);
    world.set(1, 2, None);
    let bridge = |loss| Some(Wire { rate: Some(100 * MBPS), loss, ..WIRE });
    let uses = |w: &World| w.hosts[0].core.routes(number(3)).first().map(|w| w.path.first_hop());
    let (mut spans, begin) = (Prng::new(5), world.now);
    let (mut lags, mut extra, mut sessions) = (Vec::new(), 0, std::collections::BTreeSet::new());
    let mut better = 1;
    while world.now < begin + 1200 * SECOND {
        better = 3 - better;
        world.set(0, better, bridge(0.05));
        world.set(0, 3 - better, bridge(0.15));
        let (since, good) = (world.now, Some(number(better)));
        let span = SECOND.mul_f64(35.0 + 30.0 * spans.unit());
        connection(&mut world, span, |w| if uses(w) == good { 6 } else { 2 });
        assert_eq!(uses(&world), good, "after {:?}", world.now.saturating_since(begin));
        let found = changes(&world, since);
        extra += found.len().saturating_sub(1);
        lags.extend(found.first().copied().filter(|_| since > begin));
        sessions.extend(world.hosts[0].core.net.session(number(3)).map(|s| s.local));
    }
    assert!(sessions.len() >= 10, "keys have changed: {}", sessions.len());
    lags.sort_by(f64::total_cmp);
    let (median, last) = (lags[lags.len() / 2], lags[lags.len() - 1]);
    // The goal for the median. By chance a loss is known later, but not by as much as route control takes before it
    // comes back to a way.
    assert!(lags.len() > 20 && median < 2.0 && last < 8.0, "{lags:?}");
    assert_eq!(extra, 0, "changes that the network did not have");
    let downs = world.hosts.iter().flat_map(|h| &h.events).filter(|(_, e)| matches!(e, Event::Link { up: false, .. }));
    assert_eq!(downs.count(), 0);
}

/// The schedule of figure 4 over the two satellites (figures 7 and 8): as 0.15 and 0.05 change sides, so does the
/// better way, by 1.6 to 2.5 times. Gives the seconds after which each of forty changes was followed, to the fast
/// satellite and to the slow one.
fn schedule(seed: u64) -> [Vec<f64>; 2] {
    let (mut world, mut spans) = (forward(seed), Prng::new(seed + 1));
    satellites(&mut world, [0.15, 0.05]);
    connection(&mut world, 60 * SECOND, tcp());
    let mut lags = [Vec::new(), Vec::new()];
    for period in 0..40 {
        satellites(&mut world, if period % 2 == 0 { [0.05, 0.15] } else { [0.15, 0.05] });
        let begin = world.now;
        connection(&mut world, SECOND.mul_f64(50.0 + 20.0 * spans.unit()), tcp());
        let found = changes(&world, begin);
        // None is missed, and none made for nothing.
        assert_eq!(found.len(), 1, "{seed}, period {period}: {found:?}");
        lags[period % 2].extend(found);
    }
    lags
}

#[test]
fn the_papers_satellites_are_followed_within_two_seconds() {
    // Medians of twenty changes to the slow satellite differ from 1.7 to 2.8 s by chance, so that six such are counted
    // together.
    let runs = Vec::from_iter((6..12).map(schedule));
    let [fast, slow] = [0, 1].map(|side| runs.iter().flat_map(|lags| lags[side].clone()).collect::<Vec<_>>());
    let of = |lags: &[f64]| {
        let mut sorted = lags.to_vec();
        sorted.sort_by(f64::total_cmp);
        // As many each way: the median lies between two.
        (sorted[sorted.len() / 2 - 1] + sorted[sorted.len() / 2]) / 2.0
    };
    let (all, fast, slow) = (of(&[&fast[..], &slow].concat()), of(&fast), of(&slow));
    println!("{all} {fast} {slow}");
    // The goal. To the satellite of 3 Mb/s it takes longer: 160 probes tell 0.05 from 0.15, and until the other one is
    // seen to have become worse it gets 40 a second; then its end is 270 ms away (1.1 to 5.3 s; to the one of 45 Mb/s
    // 1.1 to 1.6 s).
    assert!(all < 2.0 && fast < 1.6 && slow < 2.6, "{all} {fast} {slow}");
}
