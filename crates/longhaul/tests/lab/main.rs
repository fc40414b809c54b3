//! `longhaul lab`: options, exit statuses, experiments, faults.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::unwrap_in_result,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests are tests too; measured values are shown on demand"
)]

#[path = "../common/mod.rs"]
mod common;

mod comparison;
mod controls;
mod experiments;
mod faults;
mod inherited;
mod inspection;
mod merge;
mod path;
mod recovery;
mod refusals;
mod rootless;
mod simulate;
mod simulated_overlay;
mod virtual_time;

/// Experiment of one second with two nodes, a link and a program, without flows.
const SMALL: &str = r#"
duration = "1s"
nodes = ["left", "right"]
[links.cable]
between = ["left", "right"]
rate = "10Mb/s"
delay = "5ms"
[programs.ping]
node = "left"
command = "getent hosts right"
"#;

/// Writes an experiment file into a directory.
fn file(directory: &std::path::Path, toml: &str) -> String {
    let path = directory.join("small.toml");
    std::fs::write(&path, toml).unwrap();
    path.display().to_string()
}
