//! A synthetic test run as written by the drivers: the input of this crate's tests.
//!
//! Records are built from JSON, so that a new field does not change every test.

use results::{DelayHistogram, DelaySummary, Direction, EndRecord, IntervalRecord, Record, SCHEMA, StartRecord};
use serde_json::{Value, json};

/// Parameters of a synthetic run.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) intervals: u64,
    pub(crate) interval_s: f64,
    pub(crate) streams: u32,
    pub(crate) directions: Vec<Direction>,
    pub(crate) rate_bps: f64,
    pub(crate) base_rtt_ms: f64,
    /// Queue in the sender's socket buffer and on the path, at full rate.
    pub(crate) queue_ms: (f64, f64),
    pub(crate) udp: bool,
    pub(crate) histograms: bool,
    pub(crate) congestion_control: &'static str,
    pub(crate) limit: &'static str,
    pub(crate) target: &'static str,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            intervals: 30,
            interval_s: 1.0,
            streams: 2,
            directions: vec![Direction::Up],
            rate_bps: 941.4e6,
            base_rtt_ms: 48.2,
            queue_ms: (41.2, 8.4),
            udp: false,
            histograms: true,
            congestion_control: "cubic",
            limit: "receive_window",
            target: "dtn2.example.net",
        }
    }
}

/// A small deterministic generator; the fixture must not change from run to run.
struct Noise(u64);

impl Noise {
    /// Uniform in 0..1 (Knuth's MMIX constants).
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / f64::from(1_u32 << 24)
    }

    /// Skewed to the right, with mean near 1, as queueing delays are.
    fn skewed(&mut self) -> f64 {
        0.7 + 0.3 * -(1.0 - self.next()).max(1e-6).ln()
    }
}

/// The state of the made-up path in one interval.
struct Moment {
    start_s: f64,
    end_s: f64,
    load: f64,
    retransmits: u64,
    limit: &'static str,
}

fn moment(s: &Scenario, i: u64) -> Moment {
    let (start_s, end_s) = (i as f64 * s.interval_s, (i + 1) as f64 * s.interval_s);
    let ramp = 1.0 - (-end_s / 0.9).exp();
    let since_loss = start_s - 12.0;
    let recovering = (0.0..6.0).contains(&since_loss);
    let dip = if recovering { 0.55 + 0.075 * since_loss } else { 1.0 };
    let limit = match start_s {
        b if b < 2.0 => "congestion_window",
        _ if recovering => "loss",
        b if b > 24.0 => "sender_cpu",
        _ => s.limit,
    };
    let retransmits = if recovering && since_loss < s.interval_s { 87 } else { 0 };
    Moment { start_s, end_s, load: ramp * dip, retransmits, limit }
}

/// Stages of the delay: socket buffer, qdisc, network, receiver's application.
type StageHistograms = [DelayHistogram; 4];

fn sample(s: &Scenario, m: &Moment, noise: &mut Noise, stages: &mut StageHistograms, total: &mut DelayHistogram) {
    let load = m.load * m.load;
    let ms = [
        s.queue_ms.0 * load * noise.skewed(),
        0.03 * noise.skewed(),
        s.base_rtt_ms + s.queue_ms.1 * load * noise.skewed(),
        0.4 * noise.skewed(),
    ];
    let nanos = ms.map(|ms| (ms * 1e6) as u64);
    for (h, ns) in stages.iter_mut().zip(nanos) {
        h.record_nanos(ns);
    }
    total.record_nanos(nanos.iter().sum());
}

fn summary(h: &DelayHistogram, keep_histogram: bool) -> Option<DelaySummary> {
    let mut summary = h.summary()?;
    if !keep_histogram {
        summary.histogram.clear();
    }
    Some(summary)
}

fn decomposition(stages: &StageHistograms, s: &Scenario) -> Value {
    let of = |i: usize| summary(&stages[i], s.histograms);
    json!({ "samples": stages[0].count(), "socket_buffer": of(0), "qdisc": of(1), "network": of(2), "receiver_app": of(3) })
}

fn one_way(s: &Scenario, load: f64) -> Value {
    let base = s.base_rtt_ms * 0.5e6;
    let queue = s.queue_ms.1 * load * 1e6;
    json!({
        "min_ns": base as i64, "p50_ns": (base + queue) as i64, "p95_ns": (base + queue * 1.6) as i64,
        "p99_ns": (base + queue * 2.1) as i64, "max_ns": (base + queue * 3.0) as i64, "count": 500, "bound_ns": 412_000,
    })
}

fn tcp(s: &Scenario, m: &Moment) -> Value {
    let rtt_ms = s.base_rtt_ms + s.queue_ms.1 * m.load;
    let cwnd = s.rate_bps / f64::from(s.streams) * m.load / 8.0 * rtt_ms / 1e3;
    json!({
        "cwnd_bytes": cwnd as u64, "ssthresh_bytes": 2_000_000, "srtt_ns": (rtt_ms * 1e6) as u64, "rttvar_ns": 900_000,
        "min_rtt_ns": (s.base_rtt_ms * 1e6) as u64, "mss_bytes": 1448, "pmtu_bytes": 1500, "retransmits": m.retransmits,
        "unacked_segments": (cwnd / 1448.0) as u64, "ca_state": if m.retransmits > 0 { 3 } else { 0 },
        "bytes_sent": 1_000_000, "bytes_retransmitted": m.retransmits * 1448, "bytes_acked": 990_000, "bytes_received": 0,
        "notsent_bytes": 4_000_000, "delivery_rate_bps": (s.rate_bps * m.load) as u64, "delivery_rate_app_limited": false,
        "busy_ns": 1_000_000_000, "rwnd_limited_ns": 780_000_000, "sndbuf_limited_ns": 0, "snd_wnd_bytes": 6_291_456,
        "reorder_events": 0, "delivered_ce": 0,
    })
}

fn stream_number(s: &Scenario, direction: Direction, i: u32) -> u32 {
    let offset = s.directions.iter().position(|d| *d == direction).unwrap_or(0) as u32;
    offset * s.streams + i
}

fn interval(
    s: &Scenario,
    direction: Direction,
    i: u64,
    noise: &mut Noise,
) -> (Value, Value, StageHistograms, DelayHistogram) {
    let m = moment(s, i);
    let mut stages: StageHistograms = core::array::from_fn(|_| DelayHistogram::new());
    let mut total = DelayHistogram::new();
    for _ in 0..64 {
        sample(s, &m, noise, &mut stages, &mut total);
    }
    let rate = s.rate_bps * m.load * (0.985 + 0.03 * noise.next());
    let bytes = rate * s.interval_s / 8.0;
    let (sender, receiver) = match direction {
        Direction::Up => ("client", "server"),
        Direction::Down => ("server", "client"),
    };
    let share = |of: f64| of / f64::from(s.streams);
    let verdict =
        json!({ "limit": m.limit, "share": 0.78, "evidence": format!("{} held for 780 ms of 1.00 s", m.limit) });
    let udp =
        json!({ "received": (bytes / 1400.0) as u64, "lost": 3, "duplicates": 1, "reordered": 2, "jitter_ns": 45_000 });
    let streams = |role: &str| -> Vec<Value> {
        let one = |k| {
            let mut v = json!({ "stream": stream_number(s, direction, k), "bytes": share(bytes) as u64,
                "throughput_bps": share(rate) as u64, "cpu_s": 0.11 });
            match (role, s.udp) {
                ("sender", false) => {
                    v["tcp"] = tcp(s, &m);
                    v["retransmits"] = json!(m.retransmits);
                    v["block_rtt"] = json!(summary(&total, s.histograms));
                    v["limit"] = verdict.clone();
                }
                ("receiver", true) => v["udp"] = udp.clone(),
                _ => {}
            }
            v
        };
        (0..s.streams).map(one).collect()
    };
    let record = |end: &str, role: &str| {
        json!({ "test_id": "t-0001", "end": end, "direction": direction, "role": role, "index": i,
            "start_s": m.start_s, "end_s": m.end_s, "bytes": bytes as u64, "throughput_bps": rate as u64,
            "cpu": { "threads_s": 0.22, "busiest_thread": 0.31, "busiest_cpu": 0.52 }, "streams": streams(role) })
    };
    let (mut tx, mut rx) = (record(sender, "sender"), record(receiver, "receiver"));
    if s.udp {
        rx["udp"] = udp;
        rx["one_way"] = one_way(s, m.load);
    } else {
        let mut stages_json = decomposition(&stages, s);
        rx["decomposition"] = json!({ "samples": 64, "receiver_app": stages_json["receiver_app"].take() });
        tx["decomposition"] = stages_json;
        tx["block_rtt"] = json!(summary(&total, s.histograms));
        tx["limit"] = verdict;
        rx["one_way"] = one_way(s, m.load);
    }
    (tx, rx, stages, total)
}

fn host(name: &str, rmem_max: &str) -> Value {
    json!({
        "hostname": name, "version": "0.1.0", "kernel": "6.8.0-45-generic", "machine": "x86_64", "cpus": 8,
        "clocksource": "tsc", "clock_resolution_ns": 1,
        "sysctls": { "net.ipv4.tcp_rmem": format!("4096 131072 {rmem_max}"), "net.ipv4.tcp_wmem": "4096 16384 4194304",
            "net.core.rmem_max": rmem_max, "net.ipv4.tcp_congestion_control": "cubic", "net.core.default_qdisc": "fq" },
        "interface": { "name": "eth0", "mtu": "1500", "qdisc": "fq", "tso": "on", "gro": "on" },
    })
}

/// The start record of a scenario.
pub(crate) fn start(s: &Scenario) -> StartRecord {
    let grant = json!({ "requested_bytes": 4_194_304, "send_bytes": 8_388_608, "receive_bytes": 6_291_456 });
    let streams: Vec<Value> = s
        .directions
        .iter()
        .flat_map(|d| (0..s.streams).map(move |i| (*d, i)))
        .map(|(d, i)| {
            let mut v = json!({ "stream": stream_number(s, d, i), "direction": d, "client": format!("192.0.2.10:{}", 40000 + i),
                "server": "198.51.100.7:5003", "client_buffers": grant, "server_buffers": grant });
            if !s.udp {
                v["mss_bytes"] = json!(1448);
                v["pmtu_bytes"] = json!(1500);
                v["congestion_control"] = json!(s.congestion_control);
                v["options"] = json!(["timestamps", "sack", "wscale"]);
            }
            v
        })
        .collect();
    let value = json!({
        "schema": SCHEMA, "test_id": "t-0001", "version": "0.1.0", "time_utc": "2026-03-01T12:00:00Z", "target": s.target,
        "protocol": "longhaul/1",
        "plan": { "transport": if s.udp { "udp_poisson" } else { "tcp" }, "directions": s.directions, "streams": s.streams,
            "duration_ns": (s.intervals as f64 * s.interval_s * 1e9) as u64, "interval_ns": (s.interval_s * 1e9) as u64,
            "block_bytes": if s.udp { 1400 } else { 65536 }, "window_bytes": 4_194_304 },
        "notes": ["the server capped the window at 6.291 MB"], "streams": streams,
        "baseline_rtt_ns": (s.base_rtt_ms * 1e6) as u64, "client": host("dtn1", "6291456"), "server": host("dtn2", "134217728"),
    });
    serde_json::from_value(value).unwrap()
}

struct Whole {
    stages: StageHistograms,
    total: DelayHistogram,
    bytes: u64,
}

fn direction_end(s: &Scenario, direction: Direction, w: &Whole) -> Value {
    let duration = s.intervals as f64 * s.interval_s;
    let rate = if duration > 0.0 { w.bytes as f64 * 8.0 / duration } else { 0.0 };
    let totals = |cpu: f64| {
        json!({ "bytes": w.bytes, "duration_s": duration, "throughput_bps": rate as u64, "cpu_s": cpu,
            "cpu_s_per_gb": cpu / (w.bytes as f64 / 1e9).max(1e-9) })
    };
    let streams: Vec<Value> = (0..s.streams)
        .map(|k| {
            let n = w.bytes / u64::from(s.streams);
            json!({ "stream": stream_number(s, direction, k), "sent_bytes": n, "received_bytes": n,
                "throughput_bps": rate as u64 / u64::from(s.streams), "retransmits": 87,
                "block_rtt": if s.udp { None } else { summary(&w.total, s.histograms) } })
        })
        .collect();
    let mut v = json!({
        "direction": direction, "throughput_bps": rate as u64, "sender": totals(3.1), "receiver": totals(4.4),
        "agreement": { "sent_bytes": w.bytes, "received_bytes": w.bytes, "echoed_blocks": w.bytes / 65536, "agree": true },
        "one_way": one_way(s, 1.0), "limits": {}, "loss_episode_count": 0, "streams": streams,
    });
    if s.udp {
        v["udp"] = udp_end(w.bytes / 1400);
        return v;
    }
    v["block_rtt"] = json!(summary(&w.total, s.histograms));
    v["kernel_min_rtt_ns"] = json!((s.base_rtt_ms * 1e6) as u64);
    v["kernel_srtt"] = json!(summary(&w.stages[2], s.histograms));
    v["one_way_return"] = one_way(s, 0.1);
    v["decomposition"] = decomposition(&w.stages, s);
    v["limits"] = json!({ s.limit: 0.55, "loss": 0.2, "sender_cpu": 0.2, "congestion_window": 0.05 });
    v["rfc6349"] = json!({ "path_mtu_bytes": 1500, "path_mtu_verified": true, "baseline_rtt_ns": (s.base_rtt_ms * 1e6) as u64,
        "bottleneck_bps": 1_000_000_000, "bottleneck_given": true, "bdp_bytes": 6_025_000, "ideal_throughput_bps": 941_482_444,
        "transfer_time_ratio": 1.09, "tcp_efficiency_percent": 99.98, "mean_rtt_ns": 54_100_000, "buffer_delay_percent": 12.2,
        "connections_needed": 2 });
    v["ramp_up"] = json!({ "steady_bps": 938_000_000, "time_to_90_s": 2.0, "time_to_90_rtts": 41.5, "bytes_to_90": 171_000_000,
        "resolution_s": 0.1 });
    v["loss_episodes"] = json!([
        { "stream": 0, "start_s": 12.0, "retransmits": 87, "depth": 0.45, "recovery_s": 6.0, "recovery_rtts": 124.5 },
        { "stream": 1, "start_s": 12.1, "retransmits": 87, "depth": 0.3 }]);
    v["loss_episode_count"] = json!(2);
    v
}

fn udp_end(n: u64) -> Value {
    json!({ "sent": n, "received": n - 90, "lost": 90, "loss_ratio": 90.0 / n as f64, "duplicates": 30,
        "duplicate_ratio": 30.0 / n as f64, "reordered": 60, "reordered_ratio": 60.0 / n as f64, "n_reordering": [60, 12, 1],
        "loss_runs": { "1": 40, "2": 10, "30": 1 }, "jitter_ns": 45_000, "tmax_ns": 3_000_000_000_u64, "send_errors": 0,
        "sender_lag_max_ns": 180_000, "sender_late": 2 })
}

/// Complete record stream of a scenario.
pub(crate) fn records(s: &Scenario) -> Vec<Record> {
    let mut noise = Noise(7);
    let mut out = vec![Record::Start(start(s))];
    let mut whole: Vec<Whole> = s
        .directions
        .iter()
        .map(|_| Whole {
            stages: core::array::from_fn(|_| DelayHistogram::new()),
            total: DelayHistogram::new(),
            bytes: 0,
        })
        .collect();
    for i in 0..s.intervals {
        for (direction, w) in s.directions.iter().zip(&mut whole) {
            let (tx, rx, stages, total) = interval(s, *direction, i, &mut noise);
            w.stages.iter_mut().zip(&stages).for_each(|(a, b)| a.merge(b));
            w.total.merge(&total);
            w.bytes += rx["bytes"].as_u64().unwrap();
            out.push(Record::Interval(serde_json::from_value::<IntervalRecord>(tx).unwrap()));
            out.push(Record::Interval(serde_json::from_value::<IntervalRecord>(rx).unwrap()));
        }
    }
    let directions: Vec<Value> = s.directions.iter().zip(&whole).map(|(d, w)| direction_end(s, *d, w)).collect();
    let end = json!({
        "test_id": "t-0001", "completion": { "state": "complete" }, "directions": directions,
        "clock": { "offset_ns": -1_234_567, "bound_ns": 412_000, "drift_ppm": 3.2, "drift_bound_ppm": 0.9,
            "exchanges_before": 50, "exchanges_during": 300, "exchanges_after": 50,
            "idle_rtt_before_ns": 48_200_000, "idle_rtt_after_ns": 48_300_000 },
        "memory": { "client_rss_start_bytes": 12_000_000, "client_rss_end_bytes": 12_400_000,
            "server_rss_start_bytes": 11_000_000, "server_rss_end_bytes": 11_100_000 },
        "warnings": ["the sender's CPU was 97 % busy from 24 s on: the generator, not the path, may be the limit"],
    });
    out.push(Record::End(serde_json::from_value::<EndRecord>(end).unwrap()));
    out
}
