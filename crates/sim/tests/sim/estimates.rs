//! Calls of `longhaul estimate` against the links that they probe.

use results::estimate::{Caveat, EstimateResult, Quantity};
use sim::{EstimateEnd, EstimateEvent};
use units::Duration;

use crate::world;

/// A path of 20 ms whose rate counts IP bytes, with these links and calls.
fn path(link: &str, calls: &str) -> String {
    format!(
        "duration = \"120s\"\nnodes = [\"a\", \"b\"]\n[links.l]\nbetween = [\"a\", \"b\"]\ndelay = \"10ms\"\n\
         queue = \"200ms\"\noverhead = \"ip\"\n{link}\n{calls}"
    )
}

fn call(name: &str, methods: &str, more: &str) -> String {
    format!("[estimates.{name}]\nfrom = \"a\"\nto = \"b\"\nmethods = \"{methods}\"\nstart = \"1s\"\n{more}\n")
}

/// All events of the first call.
fn events(text: &str) -> Vec<EstimateEvent> {
    let mut world = world(text);
    world.run_until(Duration::from_secs(120));
    world.take_estimate_events().into_iter().filter(|(index, _)| *index == 0).map(|(_, event)| event).collect()
}

fn results(events: &[EstimateEvent]) -> Vec<EstimateResult> {
    let result = |e: &EstimateEvent| match e {
        EstimateEvent::Result(result) => Some((**result).clone()),
        EstimateEvent::Started { .. } | EstimateEvent::Prediction(_) | EstimateEvent::Ended(_) => None,
    };
    events.iter().filter_map(result).collect()
}

fn rate(result: &EstimateResult, quantity: Quantity) -> f64 {
    let all = result.estimate.iter().chain(&result.other_estimates);
    let found = all.into_iter().find(|r| r.quantity == quantity).unwrap_or_else(|| panic!("{result:?}"));
    found.rate_bps as f64
}

fn end(events: &[EstimateEvent]) -> EstimateEnd {
    match events.last() {
        Some(EstimateEvent::Ended(end)) => *end,
        other => panic!("{other:?}"),
    }
}

/// Each direction has its own rate, so that a method that probed the other one would find the wrong value.
#[test]
fn the_capacity_of_an_idle_path_is_found_in_both_directions() {
    let link = "forward = { rate = \"10Mb/s\" }\nbackward = { rate = \"100Mb/s\" }";
    for (more, bps) in [("", 10e6), ("reverse = true", 100e6)] {
        let events = events(&path(link, &call("e", "two-rates pathrate adr short-adr", more)));
        let all = results(&events);
        assert_eq!(
            all.iter().map(|r| r.method.as_str()).collect::<Vec<_>>(),
            ["two-rates", "pathrate", "adr", "short-adr"]
        );
        for result in &all[..2] {
            let capacity = rate(result, Quantity::Capacity);
            assert!((capacity / bps - 1.0).abs() < 0.01, "{more}: {result:?}");
        }
        let available = rate(&all[0], Quantity::AvailableBandwidth);
        assert!((available / bps - 1.0).abs() < 0.02, "{more}: {:?}", all[0]);
        for result in &all[2..] {
            let dispersion = rate(result, Quantity::AsymptoticDispersion);
            assert!((dispersion / bps - 1.0).abs() < 0.001, "{more}: {result:?}");
        }
        assert_eq!(end(&events), EstimateEnd::Complete);
    }
}

/// 20 ms of propagation, and a probe of 90 bytes at 10 Mb/s in each direction.
#[test]
fn the_round_trip_and_the_start_are_those_of_the_path() {
    let events = events(&path("rate = \"10Mb/s\"", &call("e", "short-adr", "")));
    let Some(EstimateEvent::Started { at, path }) = events.first() else { panic!("{events:?}") };
    assert_eq!((path.round_trip, path.mtu), (Duration::from_micros(20_144), 1500));
    // One exchange, and 24 pings of which the last leaves after 230 ms.
    let expected = Duration::from_millis(1000 + 20 + 230 + 20);
    assert!((expected..expected + Duration::from_millis(1)).contains(at), "{at:?}");
}

/// A session over two satellites: the round trip is longer than any timeout of the driver without it.
#[test]
fn a_long_round_trip_is_not_taken_for_loss() {
    let text = path("", &call("e", "loss", "")).replace("delay = \"10ms\"", "delay = \"700ms\"");
    let events = events(&text);
    let Some(EstimateEvent::Started { path, .. }) = events.first() else { panic!("{events:?}") };
    assert_eq!(path.round_trip, Duration::from_millis(1400));
    assert_eq!(results(&events)[0].loss.unwrap().lost, 0, "{events:?}");
}

/// A Poisson load of half of the rate, on 8 seeds: the median error is that of the method, not of the host.
#[test]
fn the_available_bandwidth_beside_a_load_is_the_rest() {
    let mut errors: Vec<f64> = (0..8)
        .map(|seed| {
            let load = "[flows.load]\nfrom = \"a\"\nto = \"b\"\nprotocol = \"udp\"\nrate = \"24.526Mb/s\"\narrivals = \"poisson\"";
            let text = path("rate = \"50Mb/s\"", &(call("e", "two-rates", "") + load));
            let scenario = crate::read(&text);
            let mut world = sim::World::new(&scenario, seed).unwrap();
            world.run_until(Duration::from_secs(60));
            let all: Vec<_> = world.take_estimate_events().into_iter().map(|(_, e)| e).collect();
            rate(&results(&all)[0], Quantity::AvailableBandwidth) / 25e6 - 1.0
        })
        .collect();
    errors.sort_by(f64::total_cmp);
    assert!(errors[4].abs() < 0.05 && errors.iter().all(|e| e.abs() < 0.2), "{errors:?}");
}

#[test]
fn small_probes_find_the_loss_of_both_directions() {
    let result = &results(&events(&path("loss = \"10%\"", &call("e", "loss", ""))))[0];
    let loss = result.loss.unwrap();
    assert_eq!(loss.sent, 100);
    // 19 of 100 do not return, with a standard deviation of 3.9.
    assert!((8..=30).contains(&loss.lost), "{result:?}");
    assert_eq!(result.packets, 200, "echoes count");
}

#[test]
fn the_budget_limits_all_methods_together() {
    let all = results(&events(&path("rate = \"10Mb/s\"", &call("e", "auto adr short-tcp", "budget = \"41kB\""))));
    let bytes: Vec<u64> = all.iter().map(|r| r.bytes).collect();
    assert!(bytes[0] > 20_000 && bytes.iter().sum::<u64>() <= 41_000, "{bytes:?}");
    assert!(all[1].caveats.contains(&Caveat::BudgetSpent), "{:?}", all[1]);
    assert!((rate(&all[0], Quantity::Capacity) / 10e6 - 1.0).abs() < 0.02, "{:?}", all[0]);
}

/// The long transfer fills the link: 1448 bytes of payload in each packet of 1500 bytes.
#[test]
fn transfers_find_the_goodput_of_a_connection() {
    let events = events(&path("rate = \"20Mb/s\"", &call("e", "tcp short-tcp", "time = \"5s\"")));
    let all = results(&events);
    let long = rate(&all[0], Quantity::BulkTransferCapacity);
    assert!((long / (20e6 * 1448.0 / 1500.0) - 1.0).abs() < 0.02, "{:?}", all[0]);
    // 128 KiB in slow start: windows of 10 and 20 segments fill one round trip each; from the third on the link is
    // busy, which takes 91 segments in all. The time counts from the first data.
    let short = rate(&all[1], Quantity::BulkTransferCapacity);
    let expected = 131_072.0 * 8.0 / (2.0 * 0.02 + 61.0 * 1500.0 * 8.0 / 20e6);
    assert!((short / expected - 1.0).abs() < 0.05, "{short}, expected {expected}");
    assert_eq!(all[0].congestion_control.as_deref(), Some("cubic"));
    assert_eq!(end(&events), EstimateEnd::Complete);
}

#[test]
fn a_server_that_does_not_answer_ends_the_call_or_the_method() {
    let all = events(&path("forward = { loss = 1 }", &call("e", "adr", "")));
    assert_eq!(all, [EstimateEvent::Ended(EstimateEnd::Unreachable)]);
    // The path fails at 3 s, during the trains.
    let schedule = "[[schedule]]\nat = \"3s\"\nlink = \"l\"\nloss = 1\n";
    let all = events(&path("rate = \"1Mb/s\"", &(call("e", "pathload adr", "") + schedule)));
    for result in results(&all) {
        assert!(result.caveats.contains(&Caveat::NoAnswer) && result.error.is_some(), "{result:?}");
    }
    assert_eq!(results(&all).len(), 2);
}

#[test]
fn a_call_stops_at_its_time() {
    let all = events(&path("rate = \"10Mb/s\"", &call("e", "short-adr tcp adr", "stop = \"4s\"")));
    assert_eq!(results(&all).len(), 1, "{all:?}");
    assert_eq!(end(&all), EstimateEnd::Stopped);
}

#[test]
fn calls_side_by_side_end_as_often_as_they_start() {
    let calls: String = (0..3).map(|i| call(&format!("e{i}"), "auto loss short-tcp", "")).collect();
    let mut world = world(&path("rate = \"10Mb/s\"\nloss = 0.01", &calls));
    world.run_until(Duration::from_secs(120));
    let ends = world.take_estimate_events().into_iter().filter(|(_, e)| matches!(e, EstimateEvent::Ended(_)));
    assert_eq!(ends.map(|(index, _)| index).collect::<Vec<_>>(), [0, 1, 2]);
}
