//! Simulated runs against arithmetic.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod estimates;
mod network;
mod transfers;

use std::path::Path;

use scenario::Scenario;
use sim::World;
use units::Duration;

/// The first point of an experiment.
fn read(text: &str) -> Scenario {
    let read = scenario::read(Path::new("x.toml"), text, &scenario::Options::default(), &|_| Err(String::new()));
    read.unwrap_or_else(|e| panic!("{e}")).scenarios.remove(0)
}

fn world(text: &str) -> World {
    World::new(&read(text), 1).unwrap()
}

/// Bytes that a flow receives within a span of whole seconds.
fn bytes_between(world: &mut World, flow: usize, from_s: u64, to_s: u64) -> f64 {
    world.run_until(Duration::from_secs(from_s));
    let before = world.flow(flow).bytes;
    world.run_until(Duration::from_secs(to_s));
    (world.flow(flow).bytes - before) as f64
}
