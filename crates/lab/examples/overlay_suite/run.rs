//! All runs of the suite in parallel threads. The metrics do not depend on the number of threads.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lab::SimulatedRun;
use scenario::Scenario;

use crate::cases::{Case, Setting};
use crate::metrics::{self, goodput_bps};
use crate::report::Report;

/// A run with the CPU time that it took.
type Timed = (SimulatedRun, Duration);

/// Runs all cases with each of the seeds. `overrides` change the cases, not their oracles.
pub(crate) fn run(
    cases: &[Case],
    overrides: &[(String, String)],
    seeds: Range<u64>,
    jobs: usize,
) -> Result<Report, Box<dyn Error>> {
    let mut settings: Vec<&Setting> = Vec::new();
    for setting in cases.iter().flat_map(|c| c.oracle.iter().chain([&c.setting])) {
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    let is_oracle = |setting: &Setting| cases.iter().any(|c| c.oracle.as_ref() == Some(setting));
    let changes = |setting| if is_oracle(setting) { &[] } else { overrides };
    let scenarios: Vec<Scenario> = settings.iter().map(|s| read(s, changes(s))).collect::<Result<_, _>>()?;
    let runs = run_all(&scenarios, seeds.clone(), jobs)?;
    let of = |setting: &Setting| {
        let index = settings.iter().position(|s| *s == setting)?;
        Some((scenarios.get(index)?, runs.get(index)?))
    };
    let mut report = Report { first_seed: seeds.start, ..Report::default() };
    for case in cases {
        let Some((scenario, runs)) = of(&case.setting) else { continue };
        let oracle = case.oracle.as_ref().and_then(of).and_then(|(scenario, runs)| {
            let rates: Vec<f64> = runs.iter().filter_map(|(run, _)| goodput_bps(scenario, run)).collect();
            (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
        });
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (run, cpu) in runs {
            for (name, value) in metrics::of_run(case, scenario, run, (*cpu, oracle)) {
                values.entry(name).or_default().push(value);
            }
        }
        report.order.push(case.name.to_owned());
        report.scenarios.insert(case.name.to_owned(), values);
    }
    report.add_means();
    Ok(report)
}

/// Reads the scenario of a setting, with intervals that are short enough for the times of a failure.
fn read(setting: &Setting, further: &[(String, String)]) -> Result<Scenario, Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(setting.file);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let own = setting.overrides.iter().chain([&("record.interval", "100ms")]);
    let own = own.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let overrides = own.chain(further.iter().cloned()).collect();
    let options = scenario::Options { overrides, variant: setting.variant.map(str::to_owned), repeat: None };
    let experiment = scenario::read(&path, &text, &options, &|_| Err("the suite reads no further file".to_owned()))?;
    let first = experiment.scenarios.into_iter().next();
    first.ok_or_else(|| format!("{} has no scenario", setting.file).into())
}

/// The runs of each scenario in the order of the seeds.
fn run_all(scenarios: &[Scenario], seeds: Range<u64>, jobs: usize) -> Result<Vec<Vec<Timed>>, Box<dyn Error>> {
    let all = (0..scenarios.len()).flat_map(|s| seeds.clone().map(move |seed| (s, seed)));
    let mut tasks: Vec<(usize, u64)> = all.collect();
    // The runs with many members take the longest: no thread starts one at the end.
    tasks.sort_by_key(|(s, _)| Reverse(scenarios[*s].nodes.len()));
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, tasks.len().max(1)) {
            scope.spawn(|| {
                while let Some((index, seed)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
                    let begin = kernel::thread_cpu();
                    let result = lab::simulate_run(&scenarios[index], seed);
                    let timed = result.map(|run| (run, kernel::thread_cpu().saturating_sub(begin)));
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push(((index, seed), timed));
                    eprint!("\r{} of {} runs ", done.len(), tasks.len());
                }
            });
        }
    });
    eprintln!();
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(task, _)| *task);
    let mut runs: Vec<Vec<Timed>> = scenarios.iter().map(|_| Vec::new()).collect();
    for ((index, seed), timed) in done {
        let name = &scenarios[index].name;
        let variant = scenarios[index].variant.as_deref().unwrap_or("no variant");
        runs[index].push(timed.map_err(|e| format!("{name}, {variant}, seed {seed}: {e}"))?);
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    #[test]
    fn the_simulator_has_every_part_of_every_scenario_and_oracle() {
        let cases = cases::all();
        assert!(cases.len() >= 20);
        for setting in cases.iter().flat_map(|c| c.oracle.iter().chain([&c.setting])) {
            let scenario = read(setting, &[]).unwrap_or_else(|e| panic!("{setting:?}: {e}"));
            assert!(scenario.overlay.is_some(), "{setting:?}");
            assert_eq!(sim::unsupported(&scenario), [], "{setting:?}");
            let seconds = scenario.duration.as_secs();
            assert!((60..=360).contains(&seconds), "{setting:?}: {seconds} s");
        }
    }

    #[test]
    fn names_are_unique_and_the_best_routes_in_order() {
        let cases = cases::all();
        for (number, case) in cases.iter().enumerate() {
            assert!(cases[..number].iter().all(|c| c.name != case.name), "{}", case.name);
            assert!(case.best.is_sorted_by(|a, b| a.0 < b.0), "{}", case.name);
        }
    }

    /// CPU times vary; all other metrics are functions of the seeds.
    #[test]
    fn the_number_of_threads_does_not_change_a_metric() {
        let mut case = cases::all().into_iter().find(|c| c.name == "dies").unwrap();
        let shorter = [("duration", "6s"), ("schedule.0.at", "3s"), ("flows.datagrams.start", "1s")];
        case.setting.overrides.extend(shorter);
        case.setting.overrides.extend([("flows.datagrams.stop", "2s"), ("flows.transfers.start", "1s")]);
        case.setting.overrides.push(("flows.transfers.stop", "2s"));
        case.oracle = None;
        let metrics = |jobs| {
            let mut report = run(&[case.clone()], &[], 1..4, jobs).unwrap();
            let mut metrics = report.scenarios.remove("dies").unwrap();
            assert!(metrics.remove("cpu").is_some());
            metrics
        };
        let one = metrics(1);
        assert_eq!(one["goodput_bps"].len(), 3);
        assert_eq!(one, metrics(3));
    }
}
