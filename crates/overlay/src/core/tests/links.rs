//! What links carry, by trains and by sizes.

use wire::overlay::SPACE_PROBES;

use super::*;

const MBPS: u64 = 1_000_000;

/// Two members on wires of these rates, from the first to the second and back, whose settings tell nothing of it.
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
fn trains_tell_both_ends_what_the_link_carries_each_way() {
    for (there, back) in [(MBPS, 10 * MBPS), (100 * MBPS, 20 * MBPS), (1000 * MBPS, 1000 * MBPS)] {
        let mut world = pair(there, back);
        world.run(20 * SECOND);
        for (told, truth) in capacities(&world).into_iter().zip([there, back, back, there]) {
            // The wire is exact; probes that come in between take a packet of some.
            let told = told.unwrap() as f64 / truth as f64;
            assert!((told - 1.0).abs() < 0.02, "{there} and {back}: {told}");
        }
    }
}

#[test]
fn a_link_that_becomes_slower_is_known_to_be_so() {
    for slower in [20, 33] {
        let mut world = pair(100 * MBPS, 100 * MBPS);
        world.run(60 * SECOND);
        world.wires.insert((0, 1), Wire { rate: Some(slower * MBPS), ..WIRE });
        // The next train comes within 45 s, and one that is off is followed by others as soon as they are paid for, in
        // 2 s.
        world.run(60 * SECOND);
        let [to, ..] = capacities(&world);
        assert!((to.unwrap() as f64 / (slower * MBPS) as f64 - 1.0).abs() < 0.02, "{slower}: {to:?}");
    }
}

#[test]
fn a_link_that_becomes_much_faster_is_known_to_be_so() {
    for before in [1, 10, 300] {
        let mut world = pair(before * MBPS, before * MBPS);
        world.run(100 * SECOND);
        let [to, ..] = capacities(&world);
        assert!((to.unwrap() as f64 / (before * MBPS) as f64 - 1.0).abs() < 0.05, "{before}: {to:?}");
        for pair in [(0, 1), (1, 0)] {
            world.wires.insert(pair, Wire { rate: Some(1000 * MBPS), ..WIRE });
        }
        // The next train comes within 45 s; each longer one is paid for by what the one before showed, in 2 s.
        world.run(90 * SECOND);
        let [to, ..] = capacities(&world);
        assert!((to.unwrap() as f64 / 1e9 - 1.0).abs() < 0.05, "{before}: {to:?}");
    }
}

/// When the first member sent trains, for a span, during which all tell what the link carries.
fn trains(world: &mut World, span: Duration, carries: u64) -> Vec<Instant> {
    let view = |w: &World| w.hosts[0].core.link_view(number(1), w.now).unwrap();
    let (mut sent, mut times, end) = (view(world).capacity_probes, Vec::new(), world.now + span);
    while world.now < end {
        world.run(Duration::from_millis(20));
        let now = view(world).capacity_probes;
        times.extend((now > sent).then_some(world.now));
        sent = now;
        for told in capacities(world) {
            let told = told.unwrap() as f64 / carries as f64;
            assert!((told - 1.0).abs() < 0.02, "{told}");
        }
    }
    times
}

#[test]
fn a_round_trip_that_is_another_has_trains_sent_anew() {
    const SELDOM: Duration = Duration::from_secs(15);
    // Of 10 ms each way. A quarter of the round trip of 20 ms more or less is another link, and less is what happens on
    // the same.
    for (delay, is_another) in [(10, false), (12, false), (8, false), (5, true), (30, true)] {
        let mut world = pair(100 * MBPS, 100 * MBPS);
        // They agree.
        world.run(60 * SECOND);
        let before = trains(&mut world, 100 * SECOND, 100 * MBPS);
        let gaps = |times: &[Instant]| Vec::from_iter(times.windows(2).map(|t| t[1].saturating_since(t[0])));
        // 15 to 45 s apart, as known to 20 ms.
        let slack = Duration::from_millis(20);
        assert!(before.len() >= 2 && gaps(&before).iter().all(|gap| *gap + slack >= SELDOM), "{before:?}");
        let wire = Wire { rate: Some(100 * MBPS), delay: Duration::from_millis(delay), ..WIRE };
        world.set(0, 1, Some(wire));
        let changed = world.now;
        // The least round trip is that of 10 to 20 s; the budget of the next train was paid for long ago.
        let after = trains(&mut world, 35 * SECOND, 100 * MBPS);
        let all = [&before[before.len() - 1..], &after].concat();
        let soon = gaps(&all).iter().filter(|gap| **gap + slack < SELDOM).count();
        if is_another {
            // Two of now confirm what was known.
            assert!(soon >= 1 && after.len() >= 2, "{delay} ms: {after:?}");
            let first = after[0].saturating_since(changed);
            assert!(first <= 21 * SECOND, "{delay} ms: {first:?}");
        } else {
            assert_eq!(soon, 0, "{delay} ms: {after:?}");
        }
    }
}

/// How often members said that the link between them went down.
fn downs(world: &World) -> usize {
    let all = world.hosts.iter().flat_map(|h| &h.events);
    all.filter(|(_, e)| matches!(e, Event::Link { up: false, .. })).count()
}

#[test]
fn a_link_that_loses_much_is_not_taken_for_one_that_is_down() {
    for loss in [0.05, 0.15, 0.25] {
        let mut world = pair(2 * MBPS, 2 * MBPS);
        world.run(5 * SECOND);
        for pair in [(0, 1), (1, 0)] {
            world.wires.insert(pair, Wire { loss, ..WIRE });
        }
        for _ in 0..15 {
            world.run(60 * SECOND);
            world.seen.clear();
        }
        assert_eq!(downs(&world), 0, "{loss}");
        world.set(0, 1, None);
        world.run(SECOND);
        assert_eq!(downs(&world), 2, "both ends notice it");
    }
}

#[test]
fn what_arrived_before_a_link_went_down_does_not_bring_it_back() {
    // Over the third member come reports of what had arrived by the link before.
    for seed in 0..10 {
        let mut world = World::new(3);
        world.run(2 * SECOND + Duration::from_millis(7 * seed));
        world.set(0, 1, None);
        world.flow(0, 1, SECOND);
        let of_link = |host: &Host, peer: usize| {
            let told = host.events.iter().filter_map(|(_, e)| {
                let Event::Link { member, up, .. } = e else { return None };
                (*member == number(peer)).then_some(*up)
            });
            told.collect::<Vec<_>>()
        };
        assert_eq!(
            [of_link(&world.hosts[0], 1), of_link(&world.hosts[1], 0)],
            [[true, false], [true, false]],
            "{seed}"
        );
    }
}

/// IP bytes of what the first member has sent for no other reason than to find something out, by what every listener
/// sees: probes, which are frames of a message of one byte, and all in the packet number space of trains and trials.
fn probing(world: &World) -> usize {
    let is_probe = |d: &[u8]| d[0] == 0xb4 && (d[3] == SPACE_PROBES || d.len() == 40 + 1);
    world.seen.iter().filter(|(from, _, d)| *from == 0 && is_probe(d)).map(|(_, _, d)| d.len() + 28).sum()
}

#[test]
fn probes_of_all_kinds_stay_within_their_budget() {
    // (On slower ones the ten probes a second that each link has take most of it.)
    for (mbps, with_traffic) in [(2, false), (2, true), (3, false), (10, true), (100, false)] {
        let rate = mbps * MBPS;
        let mut world = pair(rate, rate);
        let (begin, mut bytes) = (world.now, 0);
        // Losses that change all the time: nothing is looked at more closely.
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
            bytes += probing(&world);
            world.seen.clear();
        }
        // A hundredth, what half of the savings holds at the begin, and half a minute of trains that are not paid for
        // yet.
        let passed = world.now.saturating_since(begin).as_secs_f64();
        let share = bytes as f64 * 8.0 / passed / rate as f64;
        assert!(share < 0.01 * (passed + 15.0 + 30.0 * 0.25) / passed, "{mbps} Mb/s: {share}");
        assert!(share > 0.004 || mbps == 100, "{mbps} Mb/s: {share}");
    }
}

#[test]
fn losses_of_one_direction_are_that_direction_s() {
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
    // Some thousand probes: four deviations of 0.15 are 0.03.
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
fn losses_of_one_direction_between_others_are_that_direction_s_too() {
    let mut world = World::new(4);
    world.set(0, 1, None);
    // Over the third it is nearer than over the fourth.
    world.set(0, 3, Some(Wire { delay: 2 * WIRE.delay, ..WIRE }));
    world.run(3 * SECOND);
    let paths = |w: &World| [w.hosts[0].paths(1), w.hosts[1].paths(0)].map(|w| w.first().cloned());
    let [near, far] = [2, 3].map(|relay| Some(format!("via {}", number(relay))));
    assert_eq!(paths(&world), [near.clone(), near.clone()]);
    world.wires.insert((2, 1), Wire { loss: 0.15, ..WIRE });
    world.run(10 * SECOND);
    assert_eq!(paths(&world), [far, near]);
}

#[test]
fn who_only_answers_over_relays_is_told_enough_to_go_on() {
    // All packets go one way; what comes back are reports.
    let mut world = World::new(4);
    world.set(0, 1, None);
    world.run(3 * SECOND);
    let paths = |w: &World| [w.hosts[0].paths(1), w.hosts[1].paths(0)];
    let before = paths(&world);
    for _ in 0..20 {
        assert_eq!(world.flow(0, 1, SECOND), (200, 200));
        assert_eq!(paths(&world), before);
        world.seen.clear();
    }
    assert!(world.hosts.iter().all(|h| h.core.link_state.suspected.is_empty()));
}

/// Largest packet on the best way.
fn most(world: &World, from: usize, to: usize) -> Option<usize> {
    world.hosts[from].table.peer(number(to))?.routes.first().map(|w| w.mtu)
}

#[test]
fn an_ethernet_carries_packets_of_the_usual_mtu_over_relays_too() {
    let mut world = World::new(3);
    world.set(0, 2, None);
    // Before sizes are known, and when all are: a way that carried less then would cut each segment of TCP in two.
    for _ in 0..10 {
        world.run(2 * SECOND);
        assert_eq!([most(&world, 0, 1), most(&world, 0, 2)], [Some(usize::from(crate::DEFAULT_MTU)); 2]);
    }
}

#[test]
fn packets_are_cut_to_what_each_way_carries() {
    let mut world = World::new(3);
    let now = world.now;
    for index in 0..3 {
        world.hosts[index] = Host::new(Settings { mtu: 8800, ..settings(index, 3) }, 5 + index as u64, now);
    }
    world.set(0, 1, Some(Wire { size: 9000, ..WIRE }));
    world.set(0, 2, Some(Wire { size: 1400, ..WIRE }));
    world.set(1, 2, None);
    world.run(20 * SECOND);
    // Less IPv4, UDP, and the frame's 40 bytes; sizes are found to 8 bytes.
    assert_eq!(most(&world, 0, 1), Some(8800));
    assert!((1324..=1332).contains(&most(&world, 0, 2).unwrap()), "{:?}", most(&world, 0, 2));
    // A device that takes less, and says so: within a second it is known.
    world.set(0, 1, Some(Wire { size: 1400, ..WIRE }));
    let now = world.now;
    world.hosts[0].core.handle_oversize(now);
    world.run(SECOND);
    assert!(most(&world, 0, 1).unwrap() <= 1332, "{:?}", most(&world, 0, 1));
    world.set(0, 1, Some(Wire { size: 9000, ..WIRE }));
    world.run(10 * SECOND);
    // Over the first member: what its link to the last carries, less IPv6's 48 and the envelope's 96 bytes.
    assert!((1248..=1256).contains(&most(&world, 1, 2).unwrap()), "{:?}", most(&world, 1, 2));
}

#[test]
fn a_way_over_a_relay_follows_a_link_that_became_narrower() {
    let mut world = World::new(3);
    world.set(1, 2, None);
    // Half way between two confirmations.
    world.run(25 * SECOND);
    assert_eq!(most(&world, 1, 2), Some(usize::from(crate::DEFAULT_MTU)));
    // Without a word to anybody: what is lost of a flow of 2 Mb/s has the relay look at the link's size, and it says
    // what it found.
    world.set(0, 2, Some(Wire { size: 1400, ..WIRE }));
    let narrowed = world.now;
    while most(&world, 1, 2).is_none_or(|m| m > 1400 - 48 - 96) {
        assert!(world.now < narrowed + 3 * SECOND, "{:?}", most(&world, 1, 2));
        world.send_packet(1, 2, inner(1), usize::from(crate::DEFAULT_MTU));
        world.run(Duration::from_millis(5));
    }
    // The rest of the search, and of the time for which the link is suspected of its losses.
    world.run(10 * SECOND);
    assert!((1248..=1256).contains(&most(&world, 1, 2).unwrap()), "{:?}", most(&world, 1, 2));
}

#[test]
fn what_members_say_to_each_other_is_no_traffic_that_a_way_carries() {
    let mut world = World::new(2);
    let carried = |world: &World| world.hosts[0].core.net.peers[&number(1)].link.throughput(world.now).as_bps();
    world.run(5 * SECOND);
    assert_eq!(carried(&world), 0, "800 probes a second are half a megabit");
    // A packet of 1000 bytes each 10 ms, of which the wire loses none: 800 kb/s.
    for _ in 0..300 {
        assert!(world.send_packet(0, 1, inner(0), 1000));
        world.run(Duration::from_millis(10));
    }
    let told = carried(&world) as f64;
    assert!((told / 800_000.0 - 1.0).abs() < 0.1, "{told}");
}

#[test]
fn what_a_way_carries_is_known_across_a_change_of_keys() {
    let mut world = World::new(2);
    let carried = |world: &World| world.hosts[0].core.net.peers[&number(1)].link.throughput(world.now).as_bps() as f64;
    world.run(SECOND);
    let (mut told, begin) = (Vec::new(), world.now);
    while world.now < begin + crate::session::REKEY_AFTER + 10 * SECOND {
        assert!(world.send_packet(0, 1, inner(0), 1000));
        world.run(Duration::from_millis(10));
        told.push(carried(&world));
    }
    // 800 kb/s all the time, two seconds after the begin; and a report more or less where one session takes over.
    let (least, most) = told[200..].iter().fold((f64::MAX, 0_f64), |(l, m), t| (l.min(*t), m.max(*t)));
    assert!(least > 600_000.0 && most < 1_000_000.0, "{least} to {most}");
}

#[test]
fn what_was_lost_before_a_way_rested_is_not_held_against_it_later() {
    // By chance what comes first is a packet, or a probe, which has numbers of its own.
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
        assert_eq!((paths.last(), changes), (Some(&true), 1), "back, once ({seed})");
    }
}

#[test]
fn a_way_over_a_relay_is_there_again_with_the_link_to_the_relay() {
    // What is sent while one link is dark is not answered, and says nothing about the other one; and who has said that
    // its link was down is heard when it says that it is up.
    for dark in [&[(0, 1)][..], &[(1, 2)], &[(0, 1), (1, 2)]] {
        let mut world = World::new(3);
        world.set(0, 2, None);
        world.run(3 * SECOND);
        let (sent, got) = world.flow(0, 2, SECOND);
        assert!(sent > 190 && sent == got, "{got} of {sent}");
        dark.iter().for_each(|(a, b)| world.set(*a, *b, None));
        world.flow(0, 2, 1500 * Duration::from_millis(1));
        assert_eq!(world.hosts[0].paths(2), [""; 0], "nowhere to go");
        dark.iter().for_each(|(a, b)| world.set(*a, *b, Some(WIRE)));
        let begin = world.now;
        while world.hosts[0].paths(2).is_empty() || world.hosts[2].paths(0).is_empty() {
            world.run(Duration::from_millis(50));
            assert!(world.now.saturating_since(begin) < SECOND, "{dark:?}");
        }
    }
}
