//! A dynamic experiment of the paper on the kernel, on a shorter time scale. `lab/simulated_overlay.rs` tests decisions
//! and rates in the simulator.

use results::lab::Verdict;
use serde_json::Value;
use testbed::{undecided, undisturbed};

use crate::common::lab::{Ended, turn};

/// Runs the short variant of a scenario with further arguments. Returns `None` if labs are impossible on this host or
/// the emulation was not valid.
fn short(scenario: &str, arguments: &[&str]) -> Option<Ended> {
    let turn = turn()?;
    let ended = turn.run(scenario, &[&["--variant", "short"], arguments].concat()).end();
    let Verdict::Invalid { reasons } = &ended.end.verdict else { return Some(ended) };
    undecided(&reasons.join("; "));
    None
}

/// Returns the primary routes from `west0` to a node since the start of the flow: time in seconds, and names of the
/// relays.
fn primary_routes(ended: &Ended, to: &str) -> Vec<(f64, Vec<String>)> {
    let file = ended.directory.path().join("out/run-0/overlay-west0.jsonl");
    let events: Vec<Value> =
        std::fs::read_to_string(file).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let name = |number: &Value| {
        let session = events.iter().find(|e| e["event"] == "session" && e["member"] == *number);
        session.map_or_else(String::new, |e| e["name"].as_str().unwrap().to_owned())
    };
    let is_first = |e: &&Value| e["event"] == "route" && e["rank"] == 0 && name(&e["destination"]) == to;
    let route = |e: &Value| {
        let relays = e["to"]["relays"].as_array().map(|all| all.iter().map(name).collect());
        (e["utc_s"].as_f64().unwrap() - ended.end.start_utc_s.unwrap(), relays.unwrap_or_default())
    };
    events.iter().filter(is_first).map(route).filter(|(at, _)| *at > 0.0).collect()
}

#[test]
fn the_short_domestic_scenario_uses_its_bridges() {
    undisturbed(|| {
        let Some(ended) = short(include_str!("../../../../scenarios/overlay-domestic.toml"), &[]) else { return };
        // Each route uses one of the two bridges. In such a short run the first losses decide which one: the hold-down
        // keeps the flow from a path that it has left for 10 s.
        let routes = primary_routes(&ended, "east0");
        assert!(!routes.is_empty(), "no route was chosen");
        assert!(routes.iter().all(|(_, relays)| *relays == ["north"] || *relays == ["south"]), "{routes:?}");
        let transfer = ended.end.flows.iter().find(|f| f.flow == "transfer").unwrap();
        assert!(transfer.throughput_bps.is_some_and(|b| b > 0), "{transfer:?}");
    });
}
