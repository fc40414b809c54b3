//! Bulk flows: `longhaul test` in one node to `longhaul serve` in another, started by the lab's clock.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use estimate::steadiness::{self, settled};
use results::lab::{FlowDescription, FlowInterval, FlowTotals};
use results::{BufferGrant, Completion, EndRecord, IntervalRecord, Record, Role, read_records};
use scenario::{Extent, Flow, Scenario, Transport};
use units::{Bytes, Instant};

use crate::path_parameters::overlay_delay;
use crate::traffic::received;

/// Port of the servers in the nodes.
pub(crate) const PORT: u16 = 5003;

/// Time that a test needs before its load on a path without delay: two processes, and 24 clock exchanges 10 ms apart.
const LEAD_TIME: Duration = Duration::from_millis(1500);

/// Round trips that it needs in addition: connections, greeting, plan, proof, clocks, data connections, start.
const LEAD_ROUND_TRIPS: u32 = 12;

/// Additional time on lossy paths: a lost SYN or reply costs a timeout of a second or more.
const LEAD_TIME_WITH_LOSS: Duration = Duration::from_secs(5);

/// Time from the launch of a flow's test to the start of the flow.
pub(crate) fn lead(scenario: &Scenario, flow: &Flow) -> Duration {
    let loses = scenario
        .links
        .iter()
        .any(|l| [&l.forward, &l.backward].iter().any(|s| s.loss != link::Loss::None || !s.loss_list.is_empty()));
    LEAD_TIME + round_trip(scenario, flow) * LEAD_ROUND_TRIPS + if loses { LEAD_TIME_WITH_LOSS } else { Duration::ZERO }
}

/// Propagation delay of the path in both directions.
pub(crate) fn round_trip(scenario: &Scenario, flow: &Flow) -> Duration {
    let overlay = scenario.overlay.as_ref().filter(|_| flow.overlay);
    let delay = |from, to| match overlay {
        Some(overlay) => overlay_delay(scenario, overlay, from, to),
        None => scenario.path_delay(from, to),
    };
    delay(flow.from, flow.to).unwrap_or_default() + delay(flow.to, flow.from).unwrap_or_default()
}

/// Maximum number of unsent bytes in a flow's socket. After a loss, autotuned buffers hold megabytes more than the
/// window, and a slow flow would continue for many seconds after its end. The value is 1 ms at 8 Gb/s, enough for a
/// sender that is woken in time.
const UNSENT_BYTES_MAX: u64 = 1 << 20;

/// Arguments of `longhaul` for a flow, without those that differ between runs.
pub(crate) fn arguments(scenario: &Scenario, flow: &Flow) -> Vec<String> {
    let to = &scenario.nodes[flow.to];
    let overlay = scenario.overlay.as_ref().filter(|_| flow.overlay).and_then(|o| o.address_of(flow.to));
    let address = match overlay {
        Some(address) => address.to_string(),
        None if flow.ipv6 => to.ipv6.to_string(),
        None => to.ipv4.to_string(),
    };
    let mut all = vec!["test".to_owned(), address];
    let mut add = |name: &str, value: String| all.extend([name.to_owned(), value]);
    match flow.extent {
        Extent::Duration(d) => add("--time", format!("{}ns", d.as_nanos())),
        Extent::Bytes(b) => add("--bytes", b.as_u64().to_string()),
    }
    add("--interval", format!("{}ns", scenario.record.interval.as_nanos()));
    add("--streams", flow.streams.to_string());
    let rate = flow.rate.map(|r| format!("{}b/s", r.as_bps()));
    match (flow.transport, rate) {
        (Transport::Tcp, Some(rate)) => add("--pacing", rate),
        (Transport::UdpConstant | Transport::UdpPoisson, Some(rate)) => add("--udp", rate),
        (_, None) => {}
    }
    if let Some(name) = &flow.congestion_control {
        add("--congestion", name.clone());
    }
    let numbers = [
        ("--window", flow.window.map(|b| b.as_u64())),
        ("--block", flow.block.map(|b| b.as_u64())),
        ("--mss", flow.mss.map(u64::from)),
        ("--dscp", flow.dscp.map(u64::from)),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            add(name, value.to_string());
        }
    }
    match flow.transport {
        Transport::Tcp => add("--notsent-lowat", UNSENT_BYTES_MAX.to_string()),
        Transport::UdpPoisson => all.push("--poisson".to_owned()),
        Transport::UdpConstant => {}
    }
    all
}

/// Description of a flow, sufficient to repeat it by hand.
pub(crate) fn describe(scenario: &Scenario, flow: &Flow) -> FlowDescription {
    let transport = match flow.transport {
        Transport::Tcp => format!("TCP {}", flow.congestion_control.as_deref().unwrap_or("cubic")),
        Transport::UdpConstant => "UDP, constant rate".to_owned(),
        Transport::UdpPoisson => "UDP, Poisson".to_owned(),
    };
    let extent = match flow.extent {
        Extent::Duration(d) => format!("for {} s", d.as_secs_f64()),
        Extent::Bytes(b) => format!("{b}"),
    };
    FlowDescription {
        flow: flow.name.clone(),
        from: scenario.nodes[flow.from].name.clone(),
        to: scenario.nodes[flow.to].name.clone(),
        settings: format!("{transport}, from {} s, {extent}", flow.start.as_secs_f64()),
        command: Some(format!("longhaul {}", arguments(scenario, flow).join(" "))),
        overlay: flow.overlay,
    }
}

/// Path of a flow's records.
pub(crate) fn records_path(directory: &Path, flow: &Flow) -> PathBuf {
    directory.join(format!("flow-{}.jsonl", flow.name))
}

/// Arguments of `longhaul` that differ between runs.
pub(crate) fn run_arguments(directory: &Path, flow: &Flow, start: Instant, seed: u64) -> Vec<String> {
    let mut all = vec![
        "--start-at-ns".to_owned(),
        start.as_nanos().to_string(),
        format!("--json={}", records_path(directory, flow).display()),
        "--title".to_owned(),
        flow.name.clone(),
    ];
    if flow.transport == Transport::UdpPoisson {
        all.extend(["--seed".to_owned(), seed.to_string()]);
    }
    all
}

/// The result of a flow.
pub(crate) struct Outcome {
    pub(crate) intervals: Vec<FlowInterval>,
    pub(crate) totals: FlowTotals,
    /// Time from the planned to the actual start.
    pub(crate) late: Duration,
    /// Requested and granted window, if the kernel granted less than requested.
    pub(crate) cut_window: Option<(Bytes, Bytes)>,
}

/// Reads a flow's records. `failure` is the output of its process, if it failed.
pub(crate) fn read(flow: &Flow, run_start: Instant, run: u32, directory: &Path, failure: Option<String>) -> Outcome {
    let failed = |reason: String| Outcome {
        intervals: Vec::new(),
        totals: FlowTotals { flow: flow.name.clone(), failure: Some(reason), ..FlowTotals::default() },
        late: Duration::ZERO,
        cut_window: None,
    };
    let path = records_path(directory, flow);
    let records = File::open(&path).map_err(|e| e.to_string());
    let records = records.and_then(|f| read_records(BufReader::new(f)).map_err(|e| e.to_string()));
    let records = match (records, failure.clone()) {
        (Ok(records), _) => records,
        (Err(_), Some(failure)) => return failed(failure),
        (Err(e), None) => return failed(format!("no records: {e}")),
    };
    let intervals: Vec<&IntervalRecord> = records
        .iter()
        .filter_map(|r| match r {
            Record::Interval(i) => Some(i),
            Record::Start(_) | Record::End(_) => None,
        })
        .collect();
    let end = records.iter().find_map(|r| match r {
        Record::End(e) => Some(e),
        Record::Start(_) | Record::Interval(_) => None,
    });
    // All nodes share the machine's clock.
    let start = end.and_then(|e| e.load_start);
    let server = start.map_or(run_start + flow.start, |b| Instant::from_nanos(b.server_ns));
    let origin_s = server.nanos_since(run_start) as f64 / 1e9;
    let receiver = intervals.iter().filter(|i| i.role == Role::Receiver);
    let intervals: Vec<FlowInterval> = receiver
        .map(|r| {
            let sender = intervals.iter().find(|s| s.role == Role::Sender && s.index == r.index);
            interval(flow, run, r, sender.copied(), origin_s)
        })
        .collect();
    let mut totals = totals(flow, &intervals, end, failure);
    totals.packets = packets(&records, totals.bytes);
    let late = start.map(|b| Instant::from_nanos(b.client_ns).saturating_since(run_start + flow.start));
    let window = records.iter().find_map(|r| match r {
        Record::Start(s) => cut_window(flow, s.streams.iter().flat_map(|s| [s.client_buffers, s.server_buffers])),
        Record::Interval(_) | Record::End(_) => None,
    });
    Outcome { intervals, totals, late: late.unwrap_or_default(), cut_window: window }
}

/// The requested window and the smallest granted buffer, if a buffer is smaller. Linux grants double, for its own
/// bookkeeping. The default buffers of a UDP test are not checked.
fn cut_window(flow: &Flow, grants: impl Iterator<Item = BufferGrant>) -> Option<(Bytes, Bytes)> {
    let requested = flow.window.filter(|_| flow.transport == Transport::Tcp)?;
    let granted = grants.map(|g| Bytes::new(g.send_bytes.min(g.receive_bytes) / 2)).min()?;
    (granted < requested).then_some((requested, granted))
}

/// One interval on the run's clock; the intervals of the receiver start at `origin_s`.
fn interval(flow: &Flow, run: u32, r: &IntervalRecord, s: Option<&IntervalRecord>, origin_s: f64) -> FlowInterval {
    let states = || s.into_iter().flat_map(|s| &s.streams).filter_map(|s| s.tcp.as_ref());
    let streams = states().count() as u64;
    FlowInterval {
        run,
        flow: flow.name.clone(),
        start_s: origin_s + r.start_s,
        end_s: origin_s + r.end_s,
        bytes: r.bytes,
        throughput_bps: r.throughput_bps,
        retransmits: s.and_then(|s| s.streams.iter().map(|s| s.retransmits).sum()),
        lost: r.udp.as_ref().map(|u| u.lost),
        block_rtt: s.and_then(|s| s.block_rtt.clone()),
        srtt_ns: states().map(|t| t.srtt_ns).sum::<u64>().checked_div(streams),
        cwnd_bytes: (streams > 0).then(|| states().map(|t| t.cwnd_bytes).sum()),
        limit: s.and_then(|s| s.limit.as_ref()).map(|l| l.limit.name().to_owned()),
    }
}

fn totals(flow: &Flow, intervals: &[FlowInterval], end: Option<&EndRecord>, failure: Option<String>) -> FlowTotals {
    let direction = end.and_then(|e| e.directions.first());
    let failed = end.and_then(|e| match &e.completion {
        Completion::Failed { reason } => Some(reason.clone()),
        Completion::Complete | Completion::Interrupted => None,
    });
    let cut_short = end.is_none().then(|| failure.unwrap_or_else(|| "the test did not finish".to_owned()));
    let main = direction.and_then(|d| d.limits.iter().max_by(|a, b| a.1.total_cmp(b.1)));
    let base = of_intervals(&flow.name, intervals);
    FlowTotals {
        bytes: direction.map_or(base.bytes, |d| d.receiver.bytes),
        throughput_bps: direction.map(|d| d.throughput_bps),
        steady_bps: direction.and_then(|d| d.ramp_up.as_ref()).map(|r| r.steady_bps),
        retransmits: direction.filter(|d| d.udp.is_none()).map(|d| d.streams.iter().map(|s| s.retransmits).sum()),
        kernel_srtt: direction.and_then(|d| d.kernel_srtt.clone()),
        block_rtt: direction.and_then(|d| d.block_rtt.clone()),
        limit: main.map(|(limit, _)| limit.name().to_owned()),
        failure: failed.or(cut_short),
        ..base
    }
}

/// The totals that follow from the intervals of a flow.
pub(crate) fn of_intervals(name: &str, intervals: &[FlowInterval]) -> FlowTotals {
    let received = received(intervals);
    let settled_s = settled(&received);
    let from_s = received.first().map_or(0.0, |r| r.start_s) + settled_s.unwrap_or_default();
    FlowTotals {
        flow: name.to_owned(),
        bytes: intervals.iter().map(|i| i.bytes).sum(),
        variation: variation(intervals),
        settled_s,
        variation_1s: steadiness::variation(&received, from_s, 1.0),
        variation_100ms: steadiness::variation(&received, from_s, 0.1),
        window_ratio: window_ratio(intervals, from_s),
        ..FlowTotals::default()
    }
}

/// Number of segments for these bytes, by the segment size of the sender's socket; for UDP the number of datagrams
/// received.
fn packets(records: &[Record], bytes: u64) -> Option<u64> {
    let intervals = || {
        records.iter().filter_map(|r| match r {
            Record::Interval(i) => Some(i),
            Record::Start(_) | Record::End(_) => None,
        })
    };
    let senders = intervals().filter(|i| i.role == Role::Sender).flat_map(|i| &i.streams);
    let mss = senders.filter_map(|s| s.tcp.as_ref()).map(|t| t.mss_bytes).max().filter(|mss| *mss > 0);
    let datagrams = || intervals().filter(|i| i.role == Role::Receiver).map(|i| Some(i.udp.as_ref()?.received)).sum();
    mss.map_or_else(datagrams, |mss| Some(bytes.div_ceil(mss)))
}

/// Median of window / (round trip x throughput) over the intervals from a time on.
fn window_ratio(intervals: &[FlowInterval], from_s: f64) -> Option<f64> {
    let ratio = |i: &FlowInterval| {
        let (window, round_trip) = (i.cwnd_bytes? as f64 * 8.0, i.srtt_ns.filter(|ns| *ns > 0)? as f64 / 1e9);
        (i.throughput_bps > 0).then(|| window / round_trip / i.throughput_bps as f64)
    };
    let mut all: Vec<f64> = intervals.iter().filter(|i| i.start_s >= from_s - 1e-6).filter_map(ratio).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

/// Coefficient of variation of the interval rates, without the first and last interval, which are partial.
fn variation(intervals: &[FlowInterval]) -> Option<f64> {
    let whole = intervals.get(1..intervals.len().saturating_sub(1)).filter(|w| w.len() >= 2)?;
    let n = whole.len() as f64;
    let mean = whole.iter().map(|i| i.throughput_bps as f64).sum::<f64>() / n;
    let variance = whole.iter().map(|i| (i.throughput_bps as f64 - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean > 0.0).then(|| variance.sqrt() / mean)
}

#[cfg(test)]
mod tests;
