//! Paired runs, so that disturbances of the machine affect both tools.

use std::io;

use crate::{Bench, Run, Task, iperf3, longhaul};

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Prints the column headers.
pub(crate) fn print_head() {
    let ends = "CPU s/GB client, server";
    println!(
        "| load | longhaul Gb/s | iperf3 Gb/s | ratio | longhaul {ends} | iperf3 {ends} | delay samples / blocks |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
}

/// Runs the pairs and prints a row of medians. The ratio is the median of the pairs' ratios.
pub(crate) fn print(bench: &Bench, task: Task, pairs: u64) -> io::Result<()> {
    let mut runs: Vec<(Run, Run)> = Vec::new();
    for pair in 0..pairs {
        // The order alternates, so that a drift of the machine favours neither tool.
        runs.push(if pair % 2 == 0 {
            let ours = longhaul::run(bench, task)?;
            (ours, iperf3::run(bench, task)?)
        } else {
            let theirs = iperf3::run(bench, task)?;
            (longhaul::run(bench, task)?, theirs)
        });
    }
    let of = |f: &dyn Fn(&(Run, Run)) -> f64| median(runs.iter().map(f).collect());
    let (blocks, round_trips) = runs.iter().fold((0, 0), |sum, (r, _)| (sum.0 + r.blocks, sum.1 + r.round_trips));
    println!(
        "| {} | {:.2} | {:.2} | {:.2} | {:.3}, {:.3} | {:.3}, {:.3} | {round_trips} / {blocks} |",
        task.name,
        of(&|(a, _)| a.bps) / 1e9,
        of(&|(_, b)| b.bps) / 1e9,
        of(&|(a, b)| a.bps / b.bps),
        of(&|(a, _)| a.client_cpu_s_per_gb),
        of(&|(a, _)| a.server_cpu_s_per_gb),
        of(&|(_, b)| b.client_cpu_s_per_gb),
        of(&|(_, b)| b.server_cpu_s_per_gb),
    );
    Ok(())
}
