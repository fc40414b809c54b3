//! Summary of all runs: means with confidence intervals for each point of the sweep.

use std::collections::BTreeMap;

use results::lab::{
    Estimate, KeyValue, LabRun, LabRunEnd, LabSummary, PointSummary, RouteChange, SizeBin, Traffic, Verdict,
};
use scenario::SWITCH;

/// A finished run: its point and its last record.
pub(crate) struct Done {
    pub(crate) point: u32,
    pub(crate) repetition: u32,
    pub(crate) values: Vec<KeyValue>,
    /// Expected path changes of the overlay, if there is one.
    pub(crate) follows: Option<Follows>,
    /// Planned duration in seconds.
    pub(crate) duration: f64,
    pub(crate) end: LabRunEnd,
}

impl Done {
    pub(crate) fn new(run: &LabRun, end: LabRunEnd) -> Self {
        Self {
            point: run.point,
            repetition: run.repetition,
            values: run.values.clone(),
            follows: Follows::of(run),
            duration: run.duration_s,
            end,
        }
    }
}

/// Path changes that an overlay is expected to make.
pub(crate) struct Follows {
    /// Times at which the schedule changes links after the start, without duplicates, in seconds.
    pub(crate) changes: Vec<f64>,
    /// Member and destination of the routes that are examined: the ends of the flows over the overlay.
    pub(crate) routes: Vec<(String, String)>,
}

impl Follows {
    /// Those of a run with flows over the overlay.
    fn of(run: &LabRun) -> Option<Self> {
        let flows = run.flows.iter().filter(|f| f.overlay);
        let routes: Vec<_> = flows.map(|f| (f.from.clone(), f.to.clone())).collect();
        let mut changes: Vec<f64> = run.changes.iter().map(|c| c.at_s).filter(|at| *at > 0.0).collect();
        changes.dedup();
        (!routes.is_empty()).then_some(Self { changes, routes })
    }
}

/// The last record. Only valid runs count in the means. An invalid run that was repeated is not a reason against the
/// experiment.
pub(crate) fn summary(done: &[Done], interrupted: bool) -> LabSummary {
    let mut all_reasons = Vec::new();
    for (number, run) in done.iter().enumerate() {
        // A run that the user interrupted does not replace an earlier attempt.
        let is_again =
            |next: &Done| (next.point, next.repetition) == (run.point, run.repetition) && !next.end.interrupted;
        if !done.get(number + 1).is_some_and(is_again)
            && let Verdict::Invalid { reasons } = &run.end.verdict
        {
            all_reasons.extend(reasons.iter().map(|r| format!("run {}: {r}", run.end.run)));
        }
    }
    let valid = |d: &&Done| d.end.verdict == Verdict::Valid && !d.end.interrupted;
    let mut points: BTreeMap<u32, PointSummary> = BTreeMap::new();
    for run in done {
        points.entry(run.point).or_insert_with(|| PointSummary {
            point: run.point,
            values: run.values.clone(),
            metrics: metrics(done.iter().filter(valid).filter(|d| d.point == run.point)),
        });
    }
    LabSummary {
        verdict: if all_reasons.is_empty() { Verdict::Valid } else { Verdict::Invalid { reasons: all_reasons } },
        runs: done.len() as u32,
        valid_runs: done.iter().filter(valid).count() as u32,
        interrupted,
        points: points.into_values().collect(),
    }
}

fn metrics<'a>(runs: impl Iterator<Item = &'a Done>) -> BTreeMap<String, Estimate> {
    let mut samples: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in runs {
        for (name, value) in of_run(&run.end).into_iter().chain(of_routes(run)) {
            samples.entry(name).or_default().push(value);
        }
    }
    samples.into_iter().filter_map(|(name, values)| Some((name, estimate::confidence(&values)?))).collect()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Metrics of the small transfers in one range of sizes.
fn of_bin(flow: &str, bin: &SizeBin) -> Vec<(String, f64)> {
    let completion = bin.completion.as_ref();
    let all = [
        ("completed", Some(bin.completed as f64)),
        ("incomplete", Some(bin.incomplete as f64)),
        ("completion_p50_s", completion.map(|d| seconds(d.p50_ns))),
        ("completion_p99_s", completion.map(|d| seconds(d.p99_ns))),
        ("slowdown_p50", bin.slowdown.map(|s| s.p50)),
        ("slowdown_p99", bin.slowdown.map(|s| s.p99)),
    ];
    all.into_iter().filter_map(|(name, value)| Some((format!("bin.{flow}.{}.{name}", bin.sizes), value?))).collect()
}

/// Metrics of all traffic.
fn of_traffic(t: &Traffic) -> Vec<(String, f64)> {
    let all = [
        ("goodput_bps", Some(t.goodput_bps as f64)),
        ("flows_bps", Some(t.flows_bps as f64)),
        ("mice_bps", Some(t.mice_bps as f64)),
        ("packets", Some(t.packets as f64)),
        ("jain", t.jain),
        ("utilisation", t.utilisation),
    ];
    all.into_iter().filter_map(|(name, value)| Some((format!("run.{name}"), value?))).collect()
}

/// Route changes of a run that follow changes of links: `(number of route changes, seconds from each change of a link
/// to the first route change)`.
fn followed(route_changes: &[RouteChange], follows: &Follows, duration: f64) -> (usize, Vec<f64>) {
    let is_of_flow =
        |w: &RouteChange| follows.routes.iter().any(|(from, to)| (from, to) == (&w.member, &w.destination));
    let later = route_changes.iter().filter(|w| w.from.is_some() && w.at_s >= 0.0 && is_of_flow(w));
    let (at, changes): (Vec<f64>, _) = (later.map(|w| w.at_s).collect(), &follows.changes);
    let ends = changes.iter().skip(1).copied().chain([duration]);
    let first = |(start, end): (&f64, f64)| at.iter().find(|t| *t >= start && **t < end).map(|t| t - start);
    (at.len(), changes.iter().zip(ends).filter_map(first).collect())
}

/// Metrics of the overlay.
fn of_routes(run: &Done) -> Vec<(String, f64)> {
    let Some(follows) = &run.follows else { return Vec::new() };
    let (count, delays) = followed(&run.end.route_changes, follows, run.duration);
    let changes = &follows.changes;
    let mut all = vec![("overlay.route_changes".to_owned(), count as f64)];
    let missed = changes.len() - delays.len();
    if !changes.is_empty() {
        all.push(("overlay.unanswered_link_changes".to_owned(), missed as f64));
    }
    all.extend(estimate::median(delays).map(|m| ("overlay.reroute_latency_s".to_owned(), m)));
    all
}

/// Metrics of one run by name.
fn of_run(end: &LabRunEnd) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    for flow in &end.flows {
        let kind = if flow.completion.is_some() || flow.incomplete.is_some() { "mice" } else { "flow" };
        let mut add = |name: &str, value: Option<f64>| {
            all.extend(value.map(|v| (format!("{kind}.{}.{name}", flow.flow), v)));
        };
        add("throughput_bps", flow.throughput_bps.map(|b| b as f64));
        add("steady_bps", flow.steady_bps.map(|b| b as f64));
        add("retransmits", flow.retransmits.map(|n| n as f64));
        add("rtt_p50_s", flow.kernel_srtt.as_ref().map(|d| seconds(d.p50_ns)));
        add("rtt_p95_s", flow.kernel_srtt.as_ref().map(|d| seconds(d.p95_ns)));
        add("rtt_min_s", flow.kernel_srtt.as_ref().map(|d| seconds(d.min_ns)));
        add("rtt_mean_s", flow.kernel_srtt.as_ref().map(|d| seconds(d.mean_ns)));
        add("block_rtt_min_s", flow.block_rtt.as_ref().map(|d| seconds(d.min_ns)));
        add("block_rtt_mean_s", flow.block_rtt.as_ref().map(|d| seconds(d.mean_ns)));
        add("block_rtt_p50_s", flow.block_rtt.as_ref().map(|d| seconds(d.p50_ns)));
        add("block_rtt_p95_s", flow.block_rtt.as_ref().map(|d| seconds(d.p95_ns)));
        add("completion_p50_s", flow.completion.as_ref().map(|d| seconds(d.p50_ns)));
        add("completion_p95_s", flow.completion.as_ref().map(|d| seconds(d.p95_ns)));
        add("completion_p99_s", flow.completion.as_ref().map(|d| seconds(d.p99_ns)));
        add("slowdown_p50", flow.slowdown.map(|s| s.p50));
        add("slowdown_p99", flow.slowdown.map(|s| s.p99));
        add("incomplete", flow.incomplete.map(|n| n as f64));
        add("settled_s", flow.settled_s);
        add("variation_1s", flow.variation_1s);
        add("variation_100ms", flow.variation_100ms);
        add("packets", flow.packets.map(|n| n as f64));
        add("window_ratio", flow.window_ratio);
        flow.sizes.iter().for_each(|bin| all.extend(of_bin(&flow.flow, bin)));
    }
    all.extend(end.traffic.iter().flat_map(of_traffic));
    // Directions are adjacent in pairs.
    for (number, link) in end.links.iter().enumerate().filter(|(_, l)| l.offered.packets > 0) {
        let is_lan = link.from == SWITCH || link.to == SWITCH;
        let direction = match (is_lan, number % 2) {
            (false, 0) => "forward",
            (false, _) => "backward",
            (true, 0) => "up",
            (true, _) => "down",
        };
        let mut add = |name: &str, value: Option<f64>| {
            all.extend(value.map(|v| (format!("link.{}.{direction}.{name}", link.link), v)));
        };
        add("utilisation", link.utilisation);
        add("wait_p50_s", link.wait.as_ref().map(|d| seconds(d.p50_ns)));
        add("wait_p95_s", link.wait.as_ref().map(|d| seconds(d.p95_ns)));
        add("wait_p99_s", link.wait.as_ref().map(|d| seconds(d.p99_ns)));
        add("dropped", Some(link.dropped.total() as f64));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(run: u32, repetition: u32, verdict: Verdict) -> Done {
        let end = LabRunEnd {
            run,
            verdict,
            interrupted: false,
            start_utc_s: None,
            links: Vec::new(),
            flows: Vec::new(),
            traffic: None,
            programs: Vec::new(),
            full_sockets: Vec::new(),
            route_changes: Vec::new(),
            busiest_worker: 0.0,
            stolen_cpu: None,
            lateness: None,
        };
        Done { point: 0, repetition, values: Vec::new(), follows: None, duration: 60.0, end }
    }

    #[test]
    fn route_changes_are_assigned_to_changes_of_links() {
        let change = |at_s: f64, from: Option<&str>| RouteChange {
            at_s,
            member: "west".to_owned(),
            destination: "east".to_owned(),
            from: from.map(str::to_owned),
            to: Some("direct".to_owned()),
            reason: "better".to_owned(),
        };
        let mut run = done(0, 0, Verdict::Valid);
        let routes = vec![("west".to_owned(), "east".to_owned())];
        run.follows = Some(Follows { changes: vec![10.0, 20.0, 30.0, 40.0], routes });
        // One before the start, two after the first change, none after the second, one after each of the others.
        run.end.route_changes = vec![
            change(-1.0, None),
            change(-0.5, Some("via north")),
            change(11.0, Some("via north")),
            change(15.0, Some("direct")),
            change(33.0, Some("direct")),
            change(42.0, Some("direct")),
        ];
        run.end.route_changes.push(RouteChange { member: "north".to_owned(), ..change(21.0, Some("direct")) });
        let metrics: BTreeMap<String, f64> = of_routes(&run).into_iter().collect();
        let expected = [("route_changes", 4.0), ("reroute_latency_s", 2.0), ("unanswered_link_changes", 1.0)];
        assert_eq!(metrics, expected.map(|(n, v)| (format!("overlay.{n}"), v)).into());
        run.follows = None;
        assert!(of_routes(&run).is_empty(), "no metrics without an overlay");
    }

    #[test]
    fn a_repeated_invalid_run_is_not_a_reason() {
        let late = || Verdict::Invalid { reasons: vec!["late".to_owned()] };
        let runs = [done(0, 0, late()), done(1, 0, Verdict::Valid), done(2, 1, Verdict::Valid)];
        let all = summary(&runs, false);
        assert_eq!((all.verdict, all.runs, all.valid_runs), (Verdict::Valid, 3, 2));
        let runs = [done(0, 0, late()), done(1, 0, late()), done(2, 1, Verdict::Valid)];
        let Verdict::Invalid { reasons } = summary(&runs, false).verdict else { panic!("the last attempt failed") };
        assert_eq!(reasons, ["run 1: late"]);
        let mut ended = done(1, 0, Verdict::Valid);
        ended.end.interrupted = true;
        let all = summary(&[done(0, 0, late()), ended], true);
        assert!(all.verdict != Verdict::Valid && all.valid_runs == 0, "an interrupted run replaces none");
    }
}
