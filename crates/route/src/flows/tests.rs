use std::collections::BTreeMap;

use proptest::prelude::*;
use units::{Bytes, Duration, Instant, Rate};

use super::*;
use crate::{Member, Path, Weighted};

const SECRET: [u64; 2] = [1, 2];
const KB: Bytes = Bytes::new(1000);

fn key(n: u32) -> FlowKey {
    let address = |last: u32| core::net::IpAddr::from([10, 0, (last >> 8) as u8, last as u8]);
    FlowKey::new((address(n), 4000), (address(1), 5000), 6, 0)
}

fn path(relay: u32) -> Path {
    Path::via(&[Member(relay)], Member(9)).unwrap()
}

fn small() -> Settings {
    Settings { flows: 64, routes: 4, ..Settings::default() }
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Keeps a table for some time, calling as a driver does.
fn run(table: &mut Table, from_ms: u64, until_ms: u64) {
    (from_ms..=until_ms).step_by(10).for_each(|ms| table.maintain(at(ms)));
}

#[test]
fn each_of_the_fields_makes_a_flow() {
    let address = |last: u8| core::net::IpAddr::from([10, 0, 0, last]);
    let base = FlowKey::new((address(1), 10), (address(2), 20), 6, 0);
    let others = [
        FlowKey::new((address(3), 10), (address(2), 20), 6, 0),
        FlowKey::new((address(1), 10), (address(3), 20), 6, 0),
        FlowKey::new((address(1), 11), (address(2), 20), 6, 0),
        FlowKey::new((address(1), 10), (address(2), 21), 6, 0),
        FlowKey::new((address(1), 10), (address(2), 20), 17, 0),
        FlowKey::new((address(1), 10), (address(2), 20), 6, 46),
        FlowKey::new((address(2), 20), (address(1), 10), 6, 0),
    ];
    assert!(others.iter().all(|other| *other != base && other.hash(SECRET) != base.hash(SECRET)));
    assert_ne!(base.hash([1, 3]), base.hash(SECRET), "the secret counts");
    let mapped = "::ffff:10.0.0.1".parse().unwrap();
    assert_eq!(FlowKey::new((mapped, 10), (address(2), 20), 6, 0), base);
}

#[test]
fn a_flow_that_has_ended_is_no_elephant_and_soon_forgotten() {
    let mut table = Table::new(small());
    let (a, b) = (table.add_route(path(1)).unwrap(), table.add_route(path(2)).unwrap());
    table.maintain(at(0));
    table.assign(7, key(1), KB, a);
    table.assign(8, key(2), KB, b);
    for _ in 0..40 {
        table.lookup(7, &key(1), Bytes::new(60_000));
    }
    assert_eq!(table.active(a), Active { flows: 1, elephants: 1 });
    table.end(7, &key(1));
    table.end(9, &key(9));
    assert_eq!(
        (table.active(a), table.active(b)),
        (Active { flows: 1, elephants: 0 }, Active { flows: 1, elephants: 0 })
    );
    // What was lost is sent again, where it was sent before.
    assert_eq!(table.lookup(7, &key(1), KB), Some(Found { route: a, is_elephant: false }));
    // After six periods, as one that has sent two packets; before it was thirty.
    run(&mut table, 10, 5_500);
    assert_eq!(table.active(a).flows, 1);
    run(&mut table, 5_510, 7_000);
    assert_eq!(table.active(a).flows, 0);
}

#[test]
fn a_flow_stays_on_its_entry_and_moves_with_it() {
    let mut table = Table::new(small());
    let (a, b) = (table.add_route(path(1)).unwrap(), table.add_route(path(2)).unwrap());
    assert_eq!(table.lookup(7, &key(1), KB).map(|f| f.route), None);
    assert!(table.assign(7, key(1), KB, a));
    assert_eq!(table.lookup(7, &key(1), KB).map(|f| f.route), Some(a));
    assert_eq!(table.lookup(7, &key(2), KB).map(|f| f.route), None, "another flow of the same hash");
    table.redirect(a, path(3));
    assert_eq!(table.lookup(7, &key(1), KB).and_then(|f| table.path(f.route)), Some(path(3)));
    assert_eq!((table.active(a).flows, table.active(b).flows), (1, 0));
    // Given anew, it is counted once.
    assert!(table.assign(7, key(1), KB, b));
    assert_eq!((table.active(a).flows, table.active(b).flows), (0, 1));
}

#[test]
fn activity_decays_and_who_sends_stays() {
    let mut table = Table::new(small());
    let route = table.add_route(path(1)).unwrap();
    table.maintain(at(0));
    assert!(table.assign(1, key(1), KB, route));
    assert!(table.assign(2, key(2), KB, route));
    for second in 0..10 {
        run(&mut table, second * 1000, second * 1000 + 990);
        assert_eq!(table.lookup(2, &key(2), KB).map(|f| f.route), Some(route), "after {second} s");
        // The counter begins at five; each second takes one.
        let expected = if second < 4 { 2 } else { 1 };
        if second != 4 {
            assert_eq!(table.active(route).flows, expected, "after {second} s");
        }
    }
    assert_eq!(table.lookup(1, &key(1), KB).map(|f| f.route), None);
}

#[test]
fn a_flow_is_forgotten_after_thirty_seconds_however_much_it_has_sent() {
    let mut table = Table::new(small());
    let route = table.add_route(path(1)).unwrap();
    assert!(table.assign(1, key(1), KB, route));
    (0..10_000).for_each(|_| assert!(table.lookup(1, &key(1), KB).is_some()));
    run(&mut table, 0, 28_900);
    assert_eq!(table.active(route).flows, 1);
    run(&mut table, 28_910, 31_100);
    assert_eq!(table.active(route).flows, 0);
}

#[test]
fn a_call_goes_over_a_part_of_a_large_table() {
    let mut table = Table::new(Settings::default());
    let route = table.add_route(path(1)).unwrap();
    for n in 0..1000 {
        let key = key(n);
        assert!(table.assign(key.hash(SECRET), key, KB, route));
    }
    // Even if it is called rarely, time is not made up for at once.
    table.maintain(at(0));
    table.maintain(at(60_000));
    assert_eq!(table.active(route).flows, 1000);
    (60_000..70_000).step_by(10).for_each(|ms| table.maintain(at(ms)));
    assert_eq!(table.active(route).flows, 0);
}

#[test]
fn an_elephant_is_known_by_its_bytes() {
    let mut table = Table::new(small());
    let route = table.add_route(path(1)).unwrap();
    assert!(table.assign(1, key(1), KB, route));
    for _ in 0..999 {
        table.lookup(1, &key(1), KB);
    }
    assert_eq!(table.active(route), Active { flows: 1, elephants: 0 }, "1 MB is not more than 1 MB");
    table.lookup(1, &key(1), KB);
    assert_eq!(table.active(route), Active { flows: 1, elephants: 1 });
    run(&mut table, 0, 40_000);
    assert_eq!(table.active(route), Active::default());
}

#[test]
fn no_elephant_goes_for_a_mouse() {
    let mut table = Table::new(Settings { flows: 8, ..small() });
    let route = table.add_route(path(1)).unwrap();
    let elephant = Bytes::new(2_000_000);
    for n in 0..7 {
        assert!(table.assign(u64::from(n), key(n), elephant, route));
    }
    // One place is left for mice, whoever comes last has it.
    for n in 100..200 {
        assert!(table.assign(u64::from(n), key(n), KB, route));
        assert_eq!(table.active(route), Active { flows: 8, elephants: 7 });
    }
    assert!(table.assign(7, key(7), elephant, route));
    assert!(!table.assign(300, key(300), KB, route), "nowhere to remember it");
    assert_eq!(table.unremembered(), 1);
    assert!((0..8).all(|n| table.lookup(u64::from(n), &key(n), KB).is_some_and(|f| f.route == route)));
}

#[test]
fn the_least_active_mouse_goes_first() {
    let mut table = Table::new(Settings { flows: 8, ..small() });
    let route = table.add_route(path(1)).unwrap();
    for n in 0..8 {
        assert!(table.assign(u64::from(n), key(n), KB, route));
        if n != 3 {
            table.lookup(u64::from(n), &key(n), KB);
        }
    }
    assert!(table.assign(100, key(100), KB, route));
    let gone: Vec<u32> = (0..8).filter(|n| table.lookup(u64::from(*n), &key(*n), KB).is_none()).collect();
    assert_eq!(gone, [3]);
}

#[test]
fn routing_entries_are_bounded_and_their_flows_go_to_the_heir() {
    let mut table = Table::new(small());
    let routes: Vec<RouteId> = (1..=4).map(|n| table.add_route(path(n)).unwrap()).collect();
    assert_eq!(table.add_route(path(5)), None);
    for n in 0..10 {
        table.assign(u64::from(n), key(n), Bytes::new(2_000_000), routes[0]);
    }
    table.assign(20, key(20), KB, routes[2]);
    // Together with another one, whose flows would go to it.
    table.remove_routes(&[(routes[0], Some(routes[1])), (routes[2], Some(routes[0]))]);
    assert_eq!(table.lookup(20, &key(20), KB), None, "an heir that goes as well inherits nothing");
    assert_eq!(table.active(routes[1]), Active { flows: 10, elephants: 10 });
    assert_eq!(table.path(routes[0]), None);
    assert!(!table.assign(50, key(50), KB, routes[0]), "no such entry");
    table.remove_routes(&[(routes[1], Some(routes[0]))]);
    assert_eq!(table.lookup(1, &key(1), KB).map(|f| f.route), None, "an heir that is gone inherits nothing");
    assert_eq!(table.add_route(path(6)), Some(routes[0]), "its number is free");
}

fn weighted(weights: &[f64]) -> Vec<Weighted> {
    let of = |(i, weight): (usize, &f64)| Weighted {
        path: path(i as u32),
        place: i,
        weight: *weight,
        predicted: Rate::from_bps((*weight * 1e6) as u64),
        assumed: false,
        capacity: Rate::from_bps(1_000_000),
        carried: Rate::ZERO,
    };
    weights.iter().enumerate().map(of).collect()
}

/// Where each of many flows goes.
fn placed(paths: &[Weighted]) -> Vec<Option<usize>> {
    (0..20_000).map(|n| spread(paths, key(n).hash(SECRET)).map(|w| w.place)).collect()
}

#[test]
fn flows_are_spread_by_weight() {
    let weights = [0.5, 0.3, 0.2];
    let placed = placed(&weighted(&weights));
    for (i, weight) in weights.iter().enumerate() {
        let count = placed.iter().filter(|p| **p == Some(i)).count() as f64;
        // Binomial: four standard deviations.
        let bound = 4.0 * (20_000.0 * weight * (1.0 - weight)).sqrt();
        assert!((count - 20_000.0 * weight).abs() < bound, "{i}: {count}");
    }
}

#[test]
fn when_weights_change_only_the_difference_moves() {
    let before = placed(&weighted(&[0.5, 0.5]));
    let after = placed(&weighted(&[0.6, 0.4]));
    let moved = |from, to| before.iter().zip(&after).filter(|(b, a)| **b == Some(from) && **a == Some(to)).count();
    // A tenth of 20,000, with four standard deviations of 42; none goes the other way.
    assert!((1830..2170).contains(&moved(1, 0)), "{}", moved(1, 0));
    assert_eq!(moved(0, 1), 0);
    // A path that goes takes along its own flows only.
    let all = placed(&weighted(&[0.4, 0.3, 0.3]));
    let without = placed(&weighted(&[0.4, 0.3]));
    assert!(all.iter().zip(&without).all(|(a, w)| *a == Some(2) || a == w));
}

#[test]
fn without_a_choice_there_is_none() {
    assert_eq!(spread(&[], 1), None);
    assert_eq!(placed(&weighted(&[0.0])), vec![Some(0); 20_000]);
    assert_eq!(placed(&weighted(&[0.0, 1.0])), vec![Some(1); 20_000]);
    assert_eq!(placed(&weighted(&[0.0, 0.0])), vec![Some(0); 20_000]);
    assert_eq!(placed(&weighted(&[f64::NAN, 1.0])), vec![Some(1); 20_000]);
}

/// Two routing entries, all of so many elephants and some mice on the first.
fn crowded(elephants: u32) -> (Table, RouteId, RouteId) {
    let mut table = Table::new(Settings { flows: 1024, ..small() });
    let (a, b) = (table.add_route(path(1)).unwrap(), table.add_route(path(2)).unwrap());
    for n in 0..elephants + 20 {
        let bytes = if n < elephants { Bytes::new(2_000_000) } else { KB };
        assert!(table.assign(key(n).hash(SECRET), key(n), bytes, a));
    }
    (table, a, b)
}

/// A path on which one flow could get all of it.
fn filled(route: RouteId, mbps: u64, elsewhere: u32) -> Share {
    let all = Rate::from_bps(mbps * 1_000_000);
    Share { route, one: all, capacity: all, carried: Rate::ZERO, elsewhere }
}

#[test]
fn elephants_are_moved_to_where_their_share_is_best_and_stay_there() {
    let (mut table, a, b) = crowded(12);
    let shares = [(a, 100), (b, 50)].map(|(route, mbps)| filled(route, mbps, 0));
    let destinations = [shares.to_vec()];
    assert_eq!(table.rebalance(&destinations, 0.1), 1, "no more at once");
    let moved: usize = (0..20).map(|_| table.rebalance(&destinations, 0.1)).sum();
    // 8 and 4 have 12.5 Mb/s each. From 9 and 3, 100/9 is 11.1 and 50/4 is 12.5: more by a tenth.
    assert_eq!((table.active(a).elephants, table.active(b).elephants), (8, 4));
    assert_eq!(moved, 3);
    assert_eq!(table.active(a).flows, 28, "mice stay where they are");
}

#[test]
fn elephants_that_lose_by_chance_are_not_moved_to_where_they_lose_more() {
    // Of 100 Mb/s each, far from full: one flow gets 10 on the first, and 6 on the second, however many there are.
    let (mut table, a, b) = crowded(3);
    let share = |route, mbps: u64| Share { one: Rate::from_bps(mbps * 1_000_000), ..filled(route, 100, 0) };
    assert_eq!(table.rebalance(&[vec![share(a, 10), share(b, 6)]], 0.5), 0);
    assert_eq!(table.rebalance(&[vec![share(a, 10), share(b, 16)]], 0.5), 1, "where they lose less they are");
}

#[test]
fn an_elephant_that_fills_its_path_is_not_moved_by_its_own_losses() {
    let (mut table, a, b) = crowded(1);
    // It gets 95 of 100 Mb/s, and by what it loses a formula gives it 30; the other path has 50 and is idle.
    let own = Share { one: Rate::from_bps(30_000_000), carried: Rate::from_bps(95_000_000), ..filled(a, 100, 0) };
    assert_eq!(table.rebalance(&[vec![own, filled(b, 50, 0)]], 0.5), 0);
    let alone = Share { carried: Rate::ZERO, ..own };
    assert_eq!(table.rebalance(&[vec![alone, filled(b, 50, 0)]], 0.5), 1, "without its word it would be");
}

#[test]
fn paths_that_flows_fill_are_shared_by_what_they_hold() {
    // What is predicted for one flow is then a share already.
    let (mut table, a, b) = crowded(12);
    for _ in 0..20 {
        let share = |route, mbps| {
            let n = table.active(route).elephants.max(1);
            Share { one: Rate::from_bps(mbps * 1_000_000 / u64::from(n)), ..filled(route, mbps, 0) }
        };
        let shares = vec![share(a, 100), share(b, 50)];
        table.rebalance(&[shares], 0.1);
    }
    assert_eq!((table.active(a).elephants, table.active(b).elephants), (8, 4));
}

#[test]
fn flows_of_other_destinations_are_left_alone() {
    let (mut table, a, b) = crowded(4);
    let other = table.add_route(path(3)).unwrap();
    let shares = [b, other].map(|route| filled(route, 1, 0));
    assert_eq!(table.rebalance(&[shares.to_vec()], 0.0), 0);
    assert_eq!(table.active(a).elephants, 4);
}

#[test]
fn of_each_destination_one_elephant_is_moved_wherever_it_is_in_a_large_table() {
    let mut table = Table::new(Settings::default());
    let routes: Vec<RouteId> = (1..=6).map(|n| table.add_route(path(n)).unwrap()).collect();
    // Three destinations with two routing entries each; four elephants are on each first one, all others mice.
    for n in 0..20_000 {
        let (route, bytes) =
            if n % 5000 < 3 { (routes[2 * (n as usize % 5000)], Bytes::new(2_000_000)) } else { (routes[0], KB) };
        table.assign(key(n).hash(SECRET), key(n), bytes, route);
    }
    let share = |route: &RouteId| filled(*route, 1, 0);
    let destinations: Vec<Vec<Share>> = routes.chunks(2).map(|pair| pair.iter().map(share).collect()).collect();
    let elephants = |table: &Table| routes.iter().map(|r| table.active(*r).elephants).collect::<Vec<_>>();
    assert_eq!(elephants(&table), [4, 0, 4, 0, 4, 0]);
    assert_eq!(table.rebalance(&destinations, 0.5), 3);
    assert_eq!(elephants(&table), [3, 1, 3, 1, 3, 1]);
    // Half of it would be 1.5 times a third, not more.
    assert_eq!(table.rebalance(&destinations, 0.5), 0);
}

#[test]
fn tables_that_know_of_each_other_share_two_paths_evenly() {
    // Of two queues each has three elephants on the first of two equal paths.
    let mut tables = [crowded(3), crowded(3)];
    let on = |tables: &[(Table, RouteId, RouteId); 2], other: usize| {
        let (table, a, b) = &tables[other];
        [table.active(*a).elephants, table.active(*b).elephants]
    };
    for turn in 0..10 {
        let elsewhere = on(&tables, 1 - turn % 2);
        let (table, a, b) = &mut tables[turn % 2];
        let shares = [(*a, elsewhere[0]), (*b, elsewhere[1])];
        let shares = shares.map(|(route, elsewhere)| filled(route, 1, elsewhere));
        table.rebalance(&[shares.to_vec()], 0.1);
    }
    let [one, other] = [on(&tables, 0), on(&tables, 1)];
    assert_eq!([one[0] + other[0], one[1] + other[1]], [3, 3]);
}

#[derive(Debug, Clone)]
enum Step {
    Packet(u32, u64),
    Maintain(u64),
    Redirect(usize, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0_u32..60, prop_oneof![Just(100_u64), Just(600_000)]).prop_map(|(n, bytes)| Step::Packet(n, bytes)),
        1 => (0_u64..3000).prop_map(Step::Maintain),
        1 => (0_usize..3, 0_u32..9).prop_map(|(route, relay)| Step::Redirect(route, relay)),
    ];
    proptest::collection::vec(step, 0..300)
}

proptest! {
    /// Against a map without bounds: what the table remembers is right, what it counts is there, and no elephant is lost before its time.
    #[test]
    fn the_table_is_a_map_that_may_forget_mice(steps in steps()) {
        let settings = Settings { flows: 16, routes: 3, ..Settings::default() };
        let mut table = Table::new(settings);
        let routes: Vec<RouteId> = (0..3).map(|n| table.add_route(path(n)).unwrap()).collect();
        let mut known: BTreeMap<u32, (RouteId, u64)> = BTreeMap::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Packet(n, bytes) => {
                    let (key, bytes) = (key(n), Bytes::new(bytes));
                    let hash = key.hash(SECRET);
                    match table.lookup(hash, &key, bytes) {
                        Some(found) => {
                            let (given, sent) = known.get_mut(&n).expect("given before");
                            prop_assert_eq!(found.route, *given);
                            *sent += bytes.as_u64();
                        }
                        None => {
                            let route = routes[n as usize % 3];
                            known.remove(&n);
                            if table.assign(hash, key, bytes, route) {
                                known.insert(n, (route, bytes.as_u64()));
                            }
                        }
                    }
                }
                Step::Maintain(ms) => {
                    now += ms;
                    table.maintain(at(now));
                }
                Step::Redirect(route, relay) => table.redirect(routes[route], path(relay)),
            }
            let count = |is: &dyn Fn(&table::Entry) -> bool| table.entries.iter().flatten().filter(|e| is(e)).count();
            for route in &routes {
                let active = table.active(*route);
                prop_assert_eq!(active.flows as usize, count(&|e| e.route == *route));
                prop_assert_eq!(active.elephants as usize, count(&|e| e.route == *route && e.is_elephant));
            }
            // Time alone takes elephants.
            if now == 0 {
                let elephants = known.values().filter(|(_, sent)| *sent > 1_000_000).count();
                prop_assert_eq!(count(&|e| e.is_elephant), elephants);
            }
        }
    }
}
