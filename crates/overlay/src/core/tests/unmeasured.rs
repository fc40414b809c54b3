//! Routes and reports before the first measurement.

use super::status::status;
use super::*;
use crate::status::Question;

/// Whether the capacity of any link was measured.
fn is_measured(world: &World) -> bool {
    let count = world.hosts.len();
    let pairs = (0..count).flat_map(|a| (0..count).map(move |b| (a, b))).filter(|(a, b)| a != b);
    let view = |(a, b): (usize, usize)| world.hosts[a].core.link_view(number(b), world.now).unwrap();
    pairs.map(view).any(|v| v.tx_capacity_bps.is_some() || v.rx_capacity_bps.is_some())
}

#[test]
fn before_any_measurement_routes_are_direct_and_no_rate_is_reported() {
    // Three members on one bridge; without packet trains the capacity of the links remains unknown.
    let mut world = World::new(3);
    world.without_trains = true;
    let unset = |i| Settings { capacity: None, ..settings(i, 3) };
    world.hosts = (0..3).map(|i| Host::new(unset(i), i as u64 + 77, START)).collect();
    // From the first selection on, whatever the order in which links come up.
    for _ in 0..50 {
        world.run(Duration::from_millis(20));
        let paths = [1, 2].map(|to| world.hosts[0].paths(to));
        assert!(paths.iter().all(|paths| paths.is_empty() || *paths == ["direct"]), "{paths:?}");
    }
    assert!(!is_measured(&world));
    assert_eq!([1, 2].map(|to| world.hosts[0].paths(to)), [["direct"], ["direct"]]);
    let host = &world.hosts[0];
    let query = |question| status(host, Vec::new()).answer(&question, &host.core, world.now);
    for member in query(Question::Status)["members"].as_array().unwrap() {
        let path = &member["routes"][0];
        assert!(path["predicted_bps"].is_null() && path["weight"] == 1.0, "{path}");
        assert!(member["link"].get("tx_capacity_bps").is_none());
    }
    let why = query(Question::Why { destination: "m1".to_owned() });
    let text = why["text"].as_str().unwrap();
    assert!(text.contains("uses direct") && text.contains("rate unknown") && !text.contains("Gb/s"), "{text}");
    assert!(!why["explanation"].to_string().contains("17356"), "{why}");
}

#[test]
fn links_at_the_limit_of_the_capacity_measurement_cause_no_relayed_route() {
    let mut world = World::new(3);
    world.run(10 * SECOND);
    assert!(is_measured(&world));
    for _ in 0..60 {
        world.run(SECOND);
        assert_eq!([1, 2].map(|to| world.hosts[0].paths(to)), [["direct"], ["direct"]]);
    }
}
