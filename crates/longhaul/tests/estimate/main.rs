//! `longhaul estimate` and `longhaul choose` from the user's view: results, budgets, consent, far ends that fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::unwrap_in_result,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests are tests too; figures are shown on demand"
)]

#[path = "../common/mod.rs"]
mod common;

mod bounds;
mod choice;
mod experiments;
mod formats;
mod page;
mod truth;

use std::process::Output;

use results::estimate::{EstimateRecord, EstimateResult, EstimateStart};

use crate::common::{longhaul, text};

/// Runs `longhaul estimate`, bounded in time.
fn estimate(port: u16, arguments: &[&str]) -> Output {
    longhaul().args(["estimate", "127.0.0.1", "--port", &port.to_string()]).args(arguments).output().unwrap()
}

/// The records of `--json`.
fn records(json: &[u8]) -> Vec<EstimateRecord> {
    text(json).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn results(records: &[EstimateRecord]) -> Vec<EstimateResult> {
    records
        .iter()
        .filter_map(|r| match r {
            EstimateRecord::Estimate(result) => Some(result.clone()),
            _ => None,
        })
        .collect()
}

fn start(records: &[EstimateRecord]) -> EstimateStart {
    match &records[0] {
        EstimateRecord::Start(start) => start.clone(),
        other => panic!("{other:?}"),
    }
}
