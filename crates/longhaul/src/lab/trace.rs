//! `longhaul lab trace`: capacity of a link in the trace format of mahimahi.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use link::{Capacity, Trace};
use scenario::{LinkDirection, Scenario};
use units::Rate;

use super::cli::TraceOptions;
use super::read_experiment;
use crate::standard_output::standard_output;

pub(crate) fn run(options: &TraceOptions) -> anyhow::Result<ExitCode> {
    let experiment = read_experiment(&options.file, &options.set, options.variant.as_deref(), None)?;
    let scenario = experiment.scenarios.first().context("the experiment has no scenario")?;
    let Some(number) = scenario.links.iter().position(|l| l.name == options.link) else {
        let known: Vec<&str> = scenario.links.iter().map(|l| l.name.as_str()).collect();
        bail!("unknown link `{}`; links of the experiment: {}", options.link, known.join(", "));
    };
    let direction = if options.backward { LinkDirection::Backward } else { LinkDirection::Forward };
    let trace = trace(scenario, number, direction)?;
    write!(standard_output(), "{trace}")?;
    Ok(ExitCode::SUCCESS)
}

/// Converts the initial rate and the schedule to a trace of the whole run; a link that is down has rate zero.
fn trace(scenario: &Scenario, number: usize, direction: LinkDirection) -> anyhow::Result<Trace> {
    let link = &scenario.links[number];
    let mut now = if direction == LinkDirection::Forward { &link.forward } else { &link.backward };
    if let (Capacity::Trace(trace), true) = (&now.capacity, scenario.schedule.is_empty()) {
        return Ok((**trace).clone());
    }
    let mut since = Duration::ZERO;
    let mut rates = Vec::new();
    for change in scenario.schedule.iter().filter(|c| c.link == number && c.direction == direction) {
        rates.push((rate(now)?, change.at.saturating_sub(since)));
        (since, now) = (change.at, &change.settings);
    }
    rates.push((rate(now)?, scenario.duration.saturating_sub(since)));
    Ok(Trace::of_rates(&rates)?)
}

fn rate(settings: &link::Settings) -> anyhow::Result<Rate> {
    match (&settings.capacity, settings.up) {
        (_, false) => Ok(Rate::ZERO),
        (Capacity::Constant(rate), true) => Ok(*rate),
        (Capacity::Unlimited, true) => bail!("the link has no rate, which a trace needs; set `rate`"),
        (Capacity::Trace(_), true) => {
            bail!("the link has both a trace and a schedule; only one of them can be written")
        }
    }
}
