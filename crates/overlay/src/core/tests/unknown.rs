//! What a member does and says before anything was measured.

use super::status::status;
use super::*;
use crate::status::Question;

/// Whether any link of the world has a capacity that somebody knows.
fn is_measured(world: &World) -> bool {
    let count = world.hosts.len();
    let pairs = (0..count).flat_map(|a| (0..count).map(move |b| (a, b))).filter(|(a, b)| a != b);
    let view = |(a, b): (usize, usize)| world.hosts[a].core.link_view(number(b), world.now).unwrap();
    pairs.map(view).any(|v| v.tx_capacity_bps.is_some() || v.rx_capacity_bps.is_some())
}

#[test]
fn before_any_measurement_all_flows_go_direct_and_no_rate_is_made_up() {
    // Three members on one bridge. Without trains nothing tells what their links carry.
    let mut world = World::new(3);
    world.without_trains = true;
    let unset = |i| Settings { capacity: None, ..settings(i, 3) };
    world.hosts = (0..3).map(|i| Host::new(unset(i), i as u64 + 77, BEGIN)).collect();
    // From the first choice on, in whatever order links come up.
    for _ in 0..50 {
        world.run(Duration::from_millis(20));
        let paths = [1, 2].map(|to| world.hosts[0].paths(to));
        assert!(paths.iter().all(|paths| paths.is_empty() || *paths == ["direct"]), "{paths:?}");
    }
    assert!(!is_measured(&world));
    assert_eq!([1, 2].map(|to| world.hosts[0].paths(to)), [["direct"], ["direct"]]);
    let host = &world.hosts[0];
    let ask = |question| status(host, Vec::new()).answer(&question, &host.core, world.now);
    for member in ask(Question::Status)["members"].as_array().unwrap() {
        let path = &member["routes"][0];
        assert!(path["predicted_bps"].is_null() && path["weight"] == 1.0, "{path}");
        assert!(member["link"].get("tx_capacity_bps").is_none());
    }
    let why = ask(Question::Why { destination: "m1".to_owned() });
    let text = why["text"].as_str().unwrap();
    assert!(text.contains("uses direct") && text.contains("rate unknown") && !text.contains("Gb/s"), "{text}");
    assert!(!why["explanation"].to_string().contains("17356"), "{why}");
}

#[test]
fn where_links_are_as_fast_as_trains_can_tell_nothing_goes_by_a_detour() {
    let mut world = World::new(3);
    world.run(10 * SECOND);
    assert!(is_measured(&world));
    for _ in 0..60 {
        world.run(SECOND);
        assert_eq!([1, 2].map(|to| world.hosts[0].paths(to)), [["direct"], ["direct"]]);
    }
}
