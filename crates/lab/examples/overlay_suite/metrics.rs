//! Metrics of one run, from its records and from what is known of the scenario.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lab::{CONTROL_INTERVAL, SimulatedRun};
use results::lab::{FlowInterval, RouteChange};
use scenario::{Extent, Flow, Scenario};

use crate::cases::{Best, Case};

/// Metrics of one run by name.
pub(crate) type Metrics = BTreeMap<String, f64>;

/// A metric of the suite.
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Factor from the value to the unit of the table.
    pub(crate) scale: f64,
    pub(crate) digits: usize,
    pub(crate) more_is_better: bool,
    /// Whether a worse value fails a comparison.
    pub(crate) is_judged: bool,
}

const fn metric(name: &'static str, title: &'static str, scale: f64, digits: usize) -> Metric {
    Metric { name, title, scale, digits, more_is_better: false, is_judged: true }
}

/// All metrics, in the order of the columns.
pub(crate) const METRICS: [Metric; 9] = [
    Metric { more_is_better: true, ..metric("goodput_bps", "goodput, Mb/s", 1e-6, 2) },
    Metric { more_is_better: true, ..metric("oracle_share", "share of oracle", 1.0, 3) },
    metric("reroute_s", "reroute, s", 1.0, 2),
    metric("false_changes", "false changes", 1.0, 1),
    metric("gap_s", "longest gap, s", 1.0, 2),
    metric("mice_p95_s", "mice p95, ms", 1e3, 0),
    metric("mice_p99_s", "mice p99, ms", 1e3, 0),
    metric("control_bps", "control, kb/s per link", 1e-3, 2),
    Metric { is_judged: false, ..metric("cpu", "CPU s per s", 1.0, 4) },
];

/// The metrics of a run that took `cpu` of CPU time. `oracle_bps`: mean goodput of the oracle.
pub(crate) fn of_run(
    case: &Case,
    scenario: &Scenario,
    run: &SimulatedRun,
    (cpu, oracle_bps): (Duration, Option<f64>),
) -> Metrics {
    let mut all = Metrics::new();
    let mut add = |name: &str, value: Option<f64>| all.extend(value.map(|v| (name.to_owned(), v)));
    let goodput = goodput_bps(scenario, run);
    add("goodput_bps", goodput);
    add("oracle_share", goodput.zip(oracle_bps).map(|(bps, oracle)| bps / oracle));
    let duration_s = scenario.duration.as_secs_f64();
    let pairs = pairs(scenario);
    add("reroute_s", reroute_s(&case.best, &pairs, &run.end.route_changes, duration_s));
    add("false_changes", Some(false_changes(&case.best, &pairs, &run.end.route_changes)));
    let bulk = overlay_flows(scenario).filter(|f| !is_mouse(f));
    add("gap_s", bulk.map(|f| gap_s(&run.flows, &f.name)).reduce(f64::max));
    let completions = completions_s(scenario, &run.flows);
    add("mice_p95_s", quantile(&completions, 0.95));
    add("mice_p99_s", quantile(&completions, 0.99));
    add("control_bps", control_bps(case, scenario, run));
    add("cpu", Some(cpu.as_secs_f64() / duration_s));
    all
}

fn overlay_flows(scenario: &Scenario) -> impl Iterator<Item = &Flow> {
    scenario.flows.iter().filter(|f| f.overlay)
}

fn is_mouse(flow: &Flow) -> bool {
    matches!(flow.extent, Extent::Bytes(_))
}

/// Sum of the goodputs of all bulk flows over the overlay.
pub(crate) fn goodput_bps(scenario: &Scenario, run: &SimulatedRun) -> Option<f64> {
    let bulk = overlay_flows(scenario).filter(|f| !is_mouse(f));
    let total = |flow: &Flow| run.end.flows.iter().find(|t| t.flow == flow.name)?.throughput_bps;
    let rates: Vec<f64> = bulk.filter_map(total).map(|bps| bps as f64).collect();
    (!rates.is_empty()).then(|| rates.iter().sum())
}

/// Ends of the flows over the overlay; without a flow, all pairs of members.
fn pairs(scenario: &Scenario) -> BTreeSet<(String, String)> {
    let name = |node: usize| scenario.nodes[node].name.clone();
    let of_flows: BTreeSet<_> = overlay_flows(scenario).map(|f| (name(f.from), name(f.to))).collect();
    if !of_flows.is_empty() {
        return of_flows;
    }
    let members = scenario.overlay.iter().flat_map(|o| &o.members);
    members.clone().flat_map(|a| members.clone().map(|b| (name(*a), name(*b)))).filter(|(a, b)| a != b).collect()
}

/// Changes of the route of a pair, in the order of their times.
fn changes_of<'a>(pair: &'a (String, String), changes: &'a [RouteChange]) -> impl Iterator<Item = &'a RouteChange> {
    changes.iter().filter(move |c| (&c.member, &c.destination) == (&pair.0, &pair.1))
}

/// Mean time from a change of the best routes until one of them is in use, at most until the next change. A pair whose
/// route remains among the best does not count; zero if none counts. `None` if the best routes do not change.
fn reroute_s(best: &[Best], pairs: &BTreeSet<(String, String)>, changes: &[RouteChange], end_s: f64) -> Option<f64> {
    let times = best.iter().map(|(at, _)| at.min(end_s)).skip(1).chain([end_s]);
    let phases: Vec<_> = best.iter().zip(times).skip(1).filter(|((from_s, _), until_s)| from_s < until_s).collect();
    let mut delays = Vec::new();
    for ((from_s, routes), until_s) in &phases {
        for pair in pairs {
            let is_best = |c: &&RouteChange| c.to.as_deref().is_some_and(|to| routes.contains(&to));
            let before = changes_of(pair, changes).filter(|c| c.at_s <= *from_s).last();
            if before.is_some_and(|c| is_best(&c)) {
                continue;
            }
            let mut later = changes_of(pair, changes).filter(|c| c.at_s > *from_s && c.at_s < *until_s);
            delays.push(later.find(is_best).map_or(*until_s, |c| c.at_s) - from_s);
        }
    }
    (!phases.is_empty()).then(|| delays.iter().sum::<f64>() / delays.len().max(1) as f64)
}

/// Number of changes from one of the best routes to another that is not; where no route is known to be best, of all
/// changes. Changes before the start of the run do not count.
fn false_changes(best: &[Best], pairs: &BTreeSet<(String, String)>, changes: &[RouteChange]) -> f64 {
    let is_false = |change: &&RouteChange| {
        let Some(from) = change.from.as_deref().filter(|_| change.at_s >= 0.0) else { return false };
        let Some((_, routes)) = best.iter().rfind(|(from_s, _)| *from_s <= change.at_s) else { return true };
        routes.contains(&from) && !change.to.as_deref().is_some_and(|to| routes.contains(&to))
    };
    pairs.iter().flat_map(|pair| changes_of(pair, changes)).filter(is_false).count() as f64
}

/// Longest time in which a flow delivered no byte, after its first one.
fn gap_s(intervals: &[FlowInterval], flow: &str) -> f64 {
    let of_flow = || intervals.iter().filter(|i| i.flow == flow);
    let spans: Vec<(f64, f64)> = of_flow().filter(|i| i.bytes > 0).map(|i| (i.start_s, i.end_s)).collect();
    let last_s = of_flow().map(|i| i.end_s).fold(0.0, f64::max);
    let starts = spans.iter().skip(1).map(|(start, _)| *start).chain([last_s]);
    spans.iter().zip(starts).map(|((_, end), next)| next - end).fold(0.0, f64::max)
}

/// Completion times of all mice; those that did not complete count until the end of the run.
fn completions_s(scenario: &Scenario, intervals: &[FlowInterval]) -> Vec<f64> {
    let took = |flow: &Flow| {
        let Extent::Bytes(bytes) = flow.extent else { return None };
        let of_flow = || intervals.iter().filter(|i| i.flow == flow.name);
        let is_complete = of_flow().map(|i| i.bytes).sum::<u64>() >= bytes.as_u64();
        let end_s = of_flow().filter(|i| i.bytes > 0).map(|i| i.end_s).fold(0.0, f64::max);
        let end_s = if is_complete { end_s } else { scenario.duration.as_secs_f64() };
        Some(end_s - flow.start.as_secs_f64())
    };
    overlay_flows(scenario).filter_map(took).collect()
}

/// The smallest value that at least a share of all values do not exceed.
fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(((values.len() as f64 * share).ceil() as usize).saturating_sub(1)).copied()
}

/// Mean rate of the control traffic for each link of the overlay, both directions together.
fn control_bps(case: &Case, scenario: &Scenario, run: &SimulatedRun) -> Option<f64> {
    let overlay = scenario.overlay.as_ref()?;
    let pairs = overlay.members.iter().flat_map(|a| overlay.members.iter().map(move |b| (*a, *b)));
    let links = pairs.filter(|(a, b)| a < b && overlay.is_linked(*a, *b)).count();
    let interval_s = CONTROL_INTERVAL.as_secs_f64();
    let (first, end) = (case.control_from_s / interval_s, scenario.duration.as_secs_f64() / interval_s);
    let (first, end) = (first.round() as usize, end.round() as usize);
    let bytes: u64 = run.control_bytes.iter().take(end).skip(first).sum();
    Some(8.0 * bytes as f64 / ((end - first) as f64 * interval_s) / links as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEST: &[Best] = &[(0.0, &["direct"]), (40.0, &["via north"]), (80.0, &["direct"])];

    fn pairs() -> BTreeSet<(String, String)> {
        [("west".to_owned(), "east".to_owned())].into()
    }

    fn changes(all: &[(f64, Option<&str>, Option<&str>)]) -> Vec<RouteChange> {
        let change = |(at_s, from, to): &(f64, Option<&str>, Option<&str>)| RouteChange {
            at_s: *at_s,
            member: "west".to_owned(),
            destination: "east".to_owned(),
            from: from.map(str::to_owned),
            to: to.map(str::to_owned),
            reason: "better".to_owned(),
        };
        all.iter().map(change).collect()
    }

    #[test]
    fn the_reroute_time_counts_until_a_best_route_or_the_next_change() {
        let (direct, north, south) = (Some("direct"), Some("via north"), Some("via south"));
        let reroute = |all: &[(f64, Option<&str>, Option<&str>)]| reroute_s(BEST, &pairs(), &changes(all), 120.0);
        let first = (-1.0, None, direct);
        // 2 s after the first change of links over a route that is not the best, 1 s after the second.
        let all = [first, (41.0, direct, south), (42.0, south, north), (81.0, north, direct)];
        assert_eq!(reroute(&all), Some(1.5));
        assert_eq!(reroute(&[first]), Some(40.0), "until the next change; the route is the best one again then");
        assert_eq!(reroute(&[first, (30.0, direct, north)]), Some(40.0), "until the end of the run");
        assert_eq!(reroute_s(&BEST[..1], &pairs(), &changes(&[first]), 120.0), None);
    }

    #[test]
    fn a_change_away_from_the_best_route_is_false() {
        let (direct, north, south) = (Some("direct"), Some("via north"), Some("via south"));
        let all = changes(&[
            (-2.0, direct, south),
            (10.0, direct, south),
            (12.0, south, north),
            (13.0, north, direct),
            (41.0, direct, None),
            (42.0, None, north),
        ]);
        assert_eq!(false_changes(BEST, &pairs(), &all), 1.0, "that at 10 s");
        assert_eq!(false_changes(&[], &pairs(), &all), 4.0, "all that leave a route after the start");
    }

    fn interval(start_s: f64, end_s: f64, bytes: u64) -> FlowInterval {
        FlowInterval {
            run: 0,
            flow: "transfer".to_owned(),
            start_s,
            end_s,
            bytes,
            throughput_bps: 0,
            retransmits: None,
            lost: None,
            block_rtt: None,
            srtt_ns: None,
            cwnd_bytes: None,
            limit: None,
        }
    }

    #[test]
    fn a_gap_lasts_from_a_delivery_to_the_next_or_to_the_end() {
        let mut all = vec![interval(0.0, 1.0, 5), interval(1.0, 2.0, 0), interval(2.0, 3.0, 0), interval(3.0, 4.0, 5)];
        assert_eq!(gap_s(&all, "transfer"), 2.0);
        all.push(interval(4.0, 7.0, 0));
        assert_eq!(gap_s(&all, "transfer"), 3.0);
    }

    #[test]
    fn a_quantile_is_a_value_that_its_share_does_not_exceed() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!([0.95, 0.99].map(|share| quantile(&values, share)), [Some(190.0), Some(198.0)]);
        assert_eq!(quantile(&[], 0.95), None);
    }
}
