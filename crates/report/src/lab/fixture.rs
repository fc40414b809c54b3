//! A synthetic experiment as written by the lab: the input of this module's tests.
//!
//! Records are built from JSON, so that a new field does not change every test.

use results::DelaySummary;
use results::lab::{LAB_SCHEMA, LabRecord};
use serde_json::{Value, json};

/// Parameters of a synthetic experiment.
#[derive(Debug, Clone)]
pub(super) struct Lab {
    /// Loss ratios and congestion controls of the sweep.
    pub(super) losses: Vec<&'static str>,
    pub(super) controls: Vec<&'static str>,
    pub(super) repetitions: u32,
    pub(super) intervals: u32,
    pub(super) interval_s: f64,
    /// Number of further links besides the narrow one and its access, each with two directions.
    pub(super) side_links: usize,
    /// Number of the invalid run.
    pub(super) invalid_run: Option<u32>,
    /// Published value: packets of the first elephant.
    pub(super) published: Option<u32>,
}

impl Default for Lab {
    fn default() -> Self {
        Self {
            losses: vec!["0.0001", "0.001"],
            controls: vec!["cubic", "reno"],
            repetitions: 2,
            intervals: 40,
            interval_s: 0.5,
            side_links: 0,
            invalid_run: Some(5),
            published: None,
        }
    }
}

impl Lab {
    /// One point and one repetition, without faults.
    pub(super) fn single() -> Self {
        Self { losses: vec!["0.0001"], controls: vec!["cubic"], repetitions: 1, invalid_run: None, ..Self::default() }
    }
}

/// Rate of the narrow link.
const RATE_BPS: f64 = 100e6;

/// Reason of the invalid run.
pub(super) const REASON: &str = "lateness 99 % was 3.10 ms, the limit is 200 us";

/// A summary without the histogram, which no view of the lab reads: its encoding would take most of the tests' time.
fn delays(mean_ms: f64, phase: f64) -> DelaySummary {
    let of = |share: f64| (mean_ms * 1e6 * (share + 0.05 * phase.sin())) as u64;
    DelaySummary {
        count: 60,
        min_ns: of(0.7),
        p25_ns: of(0.85),
        p50_ns: of(0.96),
        p75_ns: of(1.1),
        p90_ns: of(1.22),
        p95_ns: of(1.3),
        p99_ns: of(1.36),
        p999_ns: of(1.4),
        max_ns: of(1.45),
        mean_ns: of(1.0),
        histogram: String::new(),
    }
}

/// State of the narrow link at a time: load of each of two flows, and filled share of the queue, each 0 to 1.
fn load(l: &Lab, t: f64, loss: &str, control: &str) -> (f64, f64, f64) {
    let loss: f64 = loss.parse().unwrap();
    let ceiling = (0.02 / loss.max(1e-6).sqrt() * if control == "cubic" { 1.3 } else { 0.8 }).min(1.0);
    let outage = if (8.0..12.0).contains(&t) { 0.35 } else { 1.0 };
    let ramp = 1.0 - (-(t + l.interval_s) / 1.2).exp();
    let all = ceiling * ramp * outage;
    let split = 0.5 + 0.12 * (t / 3.0).sin();
    (all * split, all * (1.0 - split), all * all * (0.6 + 0.3 * (t * 1.7).sin().abs()))
}

fn directions(l: &Lab) -> Vec<(String, String, String)> {
    let mut all: Vec<(String, String, String)> = Vec::new();
    let mut both = |link: String, a: &str, b: &str| {
        all.push((link.clone(), a.to_owned(), b.to_owned()));
        all.push((link, b.to_owned(), a.to_owned()));
    };
    both("path".to_owned(), "west", "east");
    both("access".to_owned(), "east", "server");
    for i in 0..l.side_links {
        both(format!("side{i}"), "west", &format!("host{i}"));
    }
    all
}

fn experiment(l: &Lab) -> Value {
    let models = json!([{ "name": "Mathis et al. 1997, k = 1.22", "x": [1e-5, 1e-4, 1e-3, 1e-2], "y": [451e6, 143e6, 45e6, 14e6] }]);
    let mut v = json!({
        "record": "experiment", "schema": LAB_SCHEMA, "version": "0.1.0", "name": "loss-against-control",
        "about": "Two bulk flows and small transfers share a path of 40 ms; random loss and the congestion control vary.",
        "start_utc_s": 1_772_366_400.0, "seed": 7, "repetitions": l.repetitions, "points": l.losses.len() * l.controls.len(),
        "overrides": [{ "key": "duration", "value": "20s" }], "privilege": "user namespace", "engine": "kernel",
        "host": { "hostname": "lab1", "version": "0.1.0", "kernel": "6.18.0", "machine": "x86_64", "cpus": 2,
            "clocksource": "tsc", "clock_resolution_ns": 1, "sysctls": { "net.core.default_qdisc": "pfifo_fast" }, "interface": {} },
    });
    if let Some(packets) = l.published {
        v["published"] = json!([{ "metric": "flow.elephant1.packets", "value": packets, "source": "table <1>" }]);
        v["variant"] = json!("half");
    }
    if l.losses.len() * l.controls.len() > 1 {
        v["plot"] = json!({ "x": "path.loss", "y": "throughput", "series": "elephant.congestion_control", "log": true, "models": models });
    }
    v
}

fn run(l: &Lab, n: u32, point: u32, repetition: u32, loss: &str, control: &str) -> Value {
    let links: Vec<Value> = directions(l)
        .into_iter()
        .map(|(link, from, to)| {
            json!({ "link": link, "from": from, "to": to, "rate_bps": 100_000_000, "delay_ns": 20_000_000,
                "settings": format!("100 Mb/s, 20 ms, queue 500 kB tail drop, loss {loss}") })
        })
        .collect();
    let flow = |name: &str, start: u32| {
        json!({ "flow": name, "from": "west", "to": "server", "settings": format!("TCP {control}, from {start} s, 1 stream"),
            "command": format!("longhaul test server --time 20s --congestion {control} --json") })
    };
    let values = if l.losses.len() * l.controls.len() > 1 {
        json!([{ "key": "path.loss", "value": loss }, { "key": "elephant.congestion_control", "value": control }])
    } else {
        json!([])
    };
    json!({
        "record": "run", "run": n, "point": point, "values": values, "repetition": repetition, "seed": 7 + repetition,
        "duration_s": f64::from(l.intervals) * l.interval_s, "start_utc_s": 1_772_366_400.0 + 21.0 * f64::from(n), "links": links,
        "flows": [flow("elephant1", 0), flow("elephant2", 0),
            { "flow": "web", "from": "west", "to": "server", "settings": "50 kB each, Poisson, 5 a second" }],
        "changes": [{ "at_s": 8.0, "text": "path: loss 0.05" }, { "at_s": 12.0, "text": format!("path: loss {loss}") }],
    })
}

/// One direction of a link, over an interval or over the run.
fn link(l: &Lab, i: usize, names: &(String, String, String), t: f64, span: f64, loss: &str, control: &str) -> Value {
    let (a, b, fill) = load(l, t, loss, control);
    let is_forward = i.is_multiple_of(2);
    let share = if is_forward { 1.0 } else { 0.02 } * if i > 3 { 0.3 / (i as f64) } else { 1.0 - 0.01 * (i as f64) };
    let bytes = ((a + b) * share * RATE_BPS * span / 8.0) as u64;
    let packets = bytes.div_ceil(1500);
    let lost = if i == 0 { (packets as f64 * if (8.0..12.0).contains(&t) { 0.05 } else { 0.002 }) as u64 } else { 0 };
    let full = if i == 0 && fill > 0.75 { packets / 200 } else { 0 };
    let queue = |q: f64| (fill * share * q * 500e3) as u64;
    let wait_ms = (fill * share * 40.0).max(0.01);
    json!({
        "link": names.0, "from": names.1, "to": names.2,
        "offered": { "packets": packets, "bytes": bytes }, "delivered": { "packets": packets - lost - full, "bytes": (packets - lost - full) * 1500 },
        "duplicated": 0, "reordered": 0,
        "dropped": { "queue": full, "codel": 0, "loss": lost, "listed": 0, "outage": 0, "mtu": 0, "emulator": 0 },
        "queue": { "p50_bytes": queue(0.5), "p95_bytes": queue(0.8), "p99_bytes": queue(0.9), "max_bytes": queue(1.0) },
        "wait": delays(wait_ms, t), "utilisation": (a + b) * share, "lateness": delays(0.03, t),
    })
}

fn with(mut v: Value, more: Value) -> Value {
    let (Value::Object(v_fields), Value::Object(more)) = (&mut v, more) else { return v };
    v_fields.extend(more);
    v
}

fn intervals(l: &Lab, n: u32, loss: &str, control: &str, late_ms: f64) -> Vec<Value> {
    let mut out = Vec::new();
    for k in 0..l.intervals {
        let (start, end) = (f64::from(k) * l.interval_s, f64::from(k + 1) * l.interval_s);
        let (a, b, fill) = load(l, start, loss, control);
        let times = json!({ "run": n, "start_s": start, "end_s": end });
        for (i, names) in directions(l).iter().enumerate() {
            let v = link(l, i, names, start, l.interval_s, loss, control);
            out.push(with(with(v, times.clone()), json!({ "record": "link" })));
        }
        for (name, share) in [("elephant1", a), ("elephant2", b)] {
            let bps = share * RATE_BPS * 0.94;
            let rtt = delays(40.0 + 40.0 * fill, start);
            let v = json!({ "record": "flow", "flow": name, "bytes": (bps * l.interval_s / 8.0) as u64, "throughput_bps": bps as u64,
                "retransmits": 2, "block_rtt": rtt, "srtt_ns": ((40.0 + 30.0 * fill) * 1e6) as u64,
                "cwnd_bytes": (bps / 8.0 * (0.04 + 0.03 * fill)) as u64, "limit": "loss" });
            out.push(with(v, times.clone()));
        }
        let mut mouse =
            json!({ "record": "transfer", "run": n, "flow": "web", "start_s": start + 0.1, "bytes": 50_000 });
        if k % 17 == 16 {
            mouse["error"] = json!("reset by peer");
        } else {
            mouse["completion_ns"] = json!(((160.0 + 120.0 * fill + 37.0 * f64::from(k % 5)) * 1e6) as u64);
        }
        out.push(mouse);
        out.push(with(
            json!({ "record": "engine", "worker_cpu": [0.31 + 0.2 * fill, 0.12], "machine_cpu": 0.62 + 0.2 * fill,
                "lateness": delays(late_ms, start), "arrival_uncertainty": delays(0.02, start), "scheduling": "SCHED_FIFO", "held_bytes": 600_000 }),
            times,
        ));
    }
    out
}

fn slowdown(p50: f64) -> Value {
    json!({ "count": 38, "p50": p50, "p95": p50 * 2.0, "p99": p50 * 2.5, "max": p50 * 3.0 })
}

fn bin(sizes: &str, completed: u64, incomplete: u64, mean_ms: f64, factor: f64) -> Value {
    json!({ "sizes": sizes, "completed": completed, "incomplete": incomplete, "completion": delays(mean_ms, 1.0), "slowdown": slowdown(factor) })
}

fn run_end(l: &Lab, n: u32, loss: &str, control: &str) -> Value {
    let duration = f64::from(l.intervals) * l.interval_s;
    let links: Vec<Value> =
        directions(l).iter().enumerate().map(|(i, names)| link(l, i, names, 15.0, duration, loss, control)).collect();
    let (a, b, fill) = load(l, 15.0, loss, control);
    let flow = |name: &str, share: f64| {
        let bps = share * RATE_BPS * 0.9;
        json!({ "flow": name, "bytes": (bps * duration / 8.0) as u64, "throughput_bps": bps as u64, "steady_bps": (bps * 1.03) as u64,
            "variation": 0.12, "settled_s": 1.5, "variation_1s": 0.081, "packets": (bps * duration / 8.0 / 1448.0) as u64,
            "window_ratio": 1.04, "retransmits": 214, "kernel_srtt": delays(40.0 + 30.0 * fill, 1.0), "block_rtt": delays(40.0 + 40.0 * fill, 1.0), "limit": "loss" })
    };
    let is_invalid = l.invalid_run == Some(n);
    let verdict =
        if is_invalid { json!({ "state": "invalid", "reasons": [REASON] }) } else { json!({ "state": "valid" }) };
    json!({
        "record": "run_end", "run": n, "verdict": verdict, "interrupted": false, "links": links,
        "flows": [flow("elephant1", a), flow("elephant2", b),
            { "flow": "web", "bytes": 1_900_000, "completion": delays(220.0, 2.0), "incomplete": 2, "slowdown": slowdown(3.0),
                "sizes": [bin("0-10kB", 20, 0, 180.0, 2.5), bin("10-100kB", 18, 2, 260.0, 3.5)] }],
        "traffic": { "goodput_bps": ((a + b) * RATE_BPS * 0.9) as u64 + 760_000, "flows_bps": ((a + b) * RATE_BPS * 0.9) as u64,
            "mice_bps": 760_000, "packets": 123_456, "jain": 0.9512, "jain_over_s": duration, "utilisation": a + b },
        "programs": [{ "program": "capture", "node": "east", "status": "stopped at the end of the run", "failed": false }],
        "busiest_worker": if is_invalid { 0.97 } else { 0.49 }, "lateness": delays(if is_invalid { 2.4 } else { 0.03 }, 0.0),
    })
}

fn summary(l: &Lab, runs: u32) -> Value {
    let mut points = Vec::new();
    for (p, (loss, control)) in sweep(l).into_iter().enumerate() {
        let (a, b, fill) = load(l, 15.0, loss, control);
        let invalid_here = l.invalid_run.is_some_and(|n| n / l.repetitions == p as u32);
        let n = l.repetitions - u32::from(invalid_here);
        let mean = |v: f64, w: f64| {
            let mut e = json!({ "mean": v, "runs": n });
            if n > 1 {
                e["half_width"] = json!(v * w);
            }
            e
        };
        let mut metrics = json!({
            "flow.elephant1.throughput_bps": mean(a * RATE_BPS * 0.9, 0.08), "flow.elephant2.throughput_bps": mean(b * RATE_BPS * 0.9, 0.11),
            "mice.web.completion_p50_s": mean(0.16 + 0.1 * fill, 0.05), "mice.web.slowdown_p99": mean(7.5, 0.1),
            "bin.web.0-10kB.slowdown_p99": mean(6.25, 0.1), "run.goodput_bps": mean((a + b) * RATE_BPS * 0.9, 0.05),
            "run.jain": mean(0.9512, 0.01), "flow.elephant1.packets": mean(a * 1e5, 0.08),
        });
        for (link, path_direction) in
            [("path", "forward"), ("path", "backward"), ("access", "forward"), ("access", "backward")]
        {
            let share = if path_direction == "forward" { 1.0 } else { 0.02 };
            metrics[format!("link.{link}.{path_direction}.wait_p95_s")] = mean(0.05 * fill * share, 0.1);
            metrics[format!("link.{link}.{path_direction}.utilisation")] = mean((a + b) * share, 0.02);
            metrics[format!("link.{link}.{path_direction}.dropped")] =
                mean(if (link, path_direction) == ("path", "forward") { 337.5 } else { 0.0 }, 0.2);
        }
        let values = if sweep(l).len() > 1 {
            json!([{ "key": "path.loss", "value": loss }, { "key": "elephant.congestion_control", "value": control }])
        } else {
            json!([])
        };
        points.push(json!({ "point": p, "values": values, "metrics": if n > 0 { metrics } else { json!({}) } }));
    }
    let verdict = match l.invalid_run {
        Some(n) => json!({ "state": "invalid", "reasons": [format!("run {n}: {REASON}")] }),
        None => json!({ "state": "valid" }),
    };
    json!({ "record": "summary", "verdict": verdict, "runs": runs, "valid_runs": runs - u32::from(l.invalid_run.is_some()),
        "interrupted": false, "points": points })
}

fn sweep(l: &Lab) -> Vec<(&'static str, &'static str)> {
    l.losses.iter().flat_map(|loss| l.controls.iter().map(move |c| (*loss, *c))).collect()
}

/// Complete record stream of an experiment.
pub(super) fn records(l: &Lab) -> Vec<LabRecord> {
    let mut all = vec![experiment(l)];
    let mut n = 0;
    for (point, (loss, control)) in sweep(l).into_iter().enumerate() {
        for repetition in 0..l.repetitions {
            all.push(run(l, n, point as u32, repetition, loss, control));
            let late_ms = if l.invalid_run == Some(n) { 2.4 } else { 0.03 };
            all.extend(intervals(l, n, loss, control, late_ms));
            all.push(run_end(l, n, loss, control));
            n += 1;
        }
    }
    all.push(summary(l, n));
    all.into_iter().map(|v| serde_json::from_value(v).unwrap()).collect()
}
