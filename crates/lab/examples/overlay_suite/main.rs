//! The overlay suite: scenarios of `scenarios/` in virtual time, each with several seeds, and their metrics.
//!
//! `make overlay-suite` runs it; docs/experiments/overlay-suite.md defines the metrics. With the metrics of an earlier
//! call it prints the differences that exceed their noise. Exit status: 0 complete, 1 a metric is worse than before, 2
//! the suite could not run.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the tables are this program's output")]

mod cases;
mod compare;
mod metrics;
mod report;
mod run;

use std::error::Error;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use report::Report;

const USAGE: &str =
    "usage: overlay_suite [--quick] [--seeds N] [--first-seed N] [--jobs N] [--only TEXT] [--set KEY=VALUE]
                     [--json FILE] [--against FILE]

  --quick         two seeds in place of five
  --seeds N       number of seeds (2-100); default 5
  --first-seed N  first seed; default 1
  --jobs N        number of threads; default the number of CPUs
  --only TEXT     run the scenarios whose name contains TEXT
  --set KEY=VALUE change a key of all scenarios but the oracles, such as overlay.single_path=true; repeatable
  --json FILE     write the metrics of all runs to FILE
  --against FILE  compare with the metrics in FILE; exit with status 1 if one is worse";

/// Options of a call.
#[derive(Default)]
struct Options {
    seeds: u64,
    first_seed: u64,
    jobs: usize,
    only: String,
    overrides: Vec<(String, String)>,
    json: Option<PathBuf>,
    against: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let mut options = Self { seeds: 5, first_seed: 1, jobs, ..Self::default() };
        let mut arguments = arguments;
        while let Some(name) = arguments.next() {
            if name == "--quick" {
                options.seeds = 2;
                continue;
            }
            let mut value = || arguments.next().ok_or_else(|| format!("{name} needs a value\n{USAGE}"));
            match name.as_str() {
                "--seeds" => options.seeds = value()?.parse()?,
                "--first-seed" => options.first_seed = value()?.parse()?,
                "--jobs" => options.jobs = value()?.parse()?,
                "--only" => options.only = value()?,
                "--set" => {
                    let text = value()?;
                    let (key, value) = text.split_once('=').ok_or_else(|| format!("--set {text} is not KEY=VALUE"))?;
                    options.overrides.push((key.to_owned(), value.to_owned()));
                }
                "--json" => options.json = Some(value()?.into()),
                "--against" => options.against = Some(value()?.into()),
                _ => return Err(format!("{name} is an unknown option\n{USAGE}").into()),
            }
        }
        if !(2..=100).contains(&options.seeds) {
            return Err(format!("--seeds {} is out of range (2-100)", options.seeds).into());
        }
        Ok(options)
    }

    fn seed_range(&self) -> Range<u64> {
        self.first_seed..self.first_seed.saturating_add(self.seeds)
    }
}

/// Runs the suite; returns whether a metric is worse than before.
fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    let before = match &options.against {
        Some(file) => Some(Report::read(file)?),
        None => None,
    };
    let cases: Vec<_> = cases::all().into_iter().filter(|case| case.name.contains(&options.only)).collect();
    if cases.is_empty() {
        return Err(format!("no scenario has a name with {}", options.only).into());
    }
    let report = run::run(&cases, &options.overrides, options.seed_range(), options.jobs)?;
    print!("{}", report.table());
    if let Some(file) = &options.json {
        report.write(file)?;
    }
    let Some(before) = before else { return Ok(false) };
    let comparison = compare::compare(&before, &report);
    print!("\n{}", compare::table(&comparison));
    Ok(comparison.iter().any(compare::Difference::is_worse))
}

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::from(1),
        Err(e) => {
            eprintln!("overlay_suite: {e}");
            ExitCode::from(2)
        }
    }
}
