//! Metrics of all runs, as a table and as a file.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::metrics::{METRICS, Metric};

/// Values of one metric, one for each seed.
pub(crate) type Values = Vec<f64>;

/// Name of the row with the means over all scenarios.
pub(crate) const ALL: &str = "mean of all";

/// The metrics of all runs: by scenario and metric the value for each seed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Seed of the first value of each scenario.
    pub(crate) first_seed: u64,
    /// Names of the scenarios in the order of the suite.
    pub(crate) order: Vec<String>,
    pub(crate) scenarios: BTreeMap<String, BTreeMap<String, Values>>,
}

impl Report {
    pub(crate) fn read(file: &Path) -> Result<Self, Box<dyn Error>> {
        let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        Ok(serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?)
    }

    pub(crate) fn write(&self, file: &Path) -> Result<(), Box<dyn Error>> {
        fs::write(file, serde_json::to_string(self)? + "\n").map_err(|e| format!("{}: {e}", file.display()))?;
        Ok(())
    }

    /// Adds a row with the mean of each metric over the scenarios that have it, for each seed.
    pub(crate) fn add_means(&mut self) {
        let mut means = BTreeMap::new();
        for metric in &METRICS {
            let rows: Vec<&Values> = self.scenarios.values().filter_map(|s| s.get(metric.name)).collect();
            let seeds = rows.iter().map(|values| values.len()).min().unwrap_or(0);
            let mean = |seed: usize| rows.iter().map(|values| values[seed]).sum::<f64>() / rows.len() as f64;
            if seeds > 0 {
                means.insert(metric.name.to_owned(), (0..seeds).map(mean).collect());
            }
        }
        self.order.push(ALL.to_owned());
        self.scenarios.insert(ALL.to_owned(), means);
    }

    /// The Markdown table: means over the seeds with half the 95 % confidence interval.
    pub(crate) fn table(&self) -> String {
        let titles: Vec<&str> = METRICS.iter().map(|m| m.title).collect();
        let mut text = format!("| scenario | {} |\n|---|{}\n", titles.join(" | "), "---|".repeat(METRICS.len()));
        for name in &self.order {
            let Some(metrics) = self.scenarios.get(name) else { continue };
            let cells = METRICS.iter().map(|m| metrics.get(m.name).map_or(String::new(), |v| cell(m, v)));
            // Writing to a text does not fail.
            let _ = writeln!(text, "| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
        }
        text
    }
}

fn cell(metric: &Metric, values: &[f64]) -> String {
    let Some(estimate) = estimate::confidence(values) else { return String::new() };
    let digits = metric.digits;
    let mean = format!("{:.digits$}", estimate.mean * metric.scale);
    match estimate.half_width.map(|half| format!("{:.digits$}", half * metric.scale)) {
        Some(half) if half.chars().any(|c| ('1'..='9').contains(&c)) => format!("{mean} +/- {half}"),
        Some(_) | None => mean,
    }
}
