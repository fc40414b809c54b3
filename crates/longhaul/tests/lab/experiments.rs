//! Short variants of the first experiments, checked against formulas: in the simulator where the subject is TCP, on the
//! kernel where it is the kernel.

use std::path::Path;
use std::process::Output;

use results::lab::{FlowTotals, LabRecord, LabRunEnd, LinkStatistics, Verdict};
use testbed::{undecided, undisturbed};

use crate::common::lab::{read, turn};
use crate::common::{longhaul, text};

/// Arguments for the short variant of a scenario.
fn short<'a>(name: &str, arguments: &[&'a str]) -> (String, Vec<&'a str>) {
    let file = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    (file, [&["--variant", "short"], arguments].concat())
}

/// Simulates the short variant of a scenario and returns the end records of its runs and all records.
fn simulate(name: &str, arguments: &[&str]) -> (Vec<LabRunEnd>, Vec<LabRecord>) {
    let (file, arguments) = short(name, arguments);
    simulate_file(name, &file, &arguments)
}

/// Simulates any experiment file and returns the end records of its runs and all records.
pub(crate) fn simulate_file(name: &str, file: &str, arguments: &[&str]) -> (Vec<LabRunEnd>, Vec<LabRecord>) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let mut command = longhaul();
    command.args(["lab", "run", file, "--simulate", "--out", &out.display().to_string()]).args(arguments);
    let (ends, records) = results(name, &out, &command.output().unwrap());
    assert!(ends.iter().all(|e| e.verdict == Verdict::Valid));
    (ends, records)
}

/// Runs any experiment file and returns the end records of its runs and all records. Returns `None`, with a note, if
/// the emulation was not valid.
pub(crate) fn run(name: &str, file: &str, arguments: &[&str]) -> Option<(Vec<LabRunEnd>, Vec<LabRecord>)> {
    let turn = turn()?;
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let mut command = turn.longhaul(&["lab", "run", file, "--out", &out.display().to_string()]);
    let (ends, records) = results(name, &out, &command.args(arguments).output().unwrap());
    if ends.iter().all(|e| e.verdict == Verdict::Valid) {
        return Some((ends, records));
    }
    let invalid = ends.iter().filter_map(|e| match &e.verdict {
        Verdict::Invalid { reasons } => Some(reasons.join("; ")),
        Verdict::Valid => None,
    });
    let reasons: Vec<String> = invalid.collect();
    assert!(reasons.iter().all(|b| !b.is_empty()));
    undecided(&format!("{name}: {}", reasons.join("; ")));
    None
}

/// The end records of all runs, and all records. The exit status and the page must be there, too.
fn results(name: &str, out: &Path, output: &Output) -> (Vec<LabRunEnd>, Vec<LabRecord>) {
    let records = read(&out.join("records.jsonl"));
    let ends = records.iter().filter_map(|r| if let LabRecord::RunEnd(end) = r { Some(end.clone()) } else { None });
    let ends: Vec<LabRunEnd> = ends.collect();
    let valid = ends.iter().all(|e| e.verdict == Verdict::Valid);
    let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(if valid { 0 } else { 1 }), "{shown}");
    assert!(std::fs::read_to_string(out.join("report.html")).unwrap().contains(name));
    (ends, records)
}

pub(crate) fn flow<'a>(end: &'a LabRunEnd, name: &str) -> &'a FlowTotals {
    end.flows.iter().find(|f| f.flow == name).unwrap()
}

pub(crate) fn link<'a>(end: &'a LabRunEnd, from: &str) -> &'a LinkStatistics {
    end.links.iter().find(|l| l.from == from).unwrap()
}

#[test]
fn cubic_is_at_least_as_fast_as_reno_under_loss_and_both_are_near_the_formulas() {
    let arguments = ["--set", "sweep.1.values=[1e-3]", "--set", "duration=12s"];
    let (_, records) = simulate("loss-throughput", &arguments);
    // Only the second half counts: the first half has slow start, which fills the link before the first loss.
    let rate = |run| {
        let intervals = records.iter().filter_map(|r| match r {
            LabRecord::Flow(f) if f.run == run && f.start_s > 5.5 && f.end_s < 12.5 => Some(f),
            _ => None,
        });
        let (bytes, seconds) = intervals.fold((0, 0.0), |(b, s), f| (b + f.bytes, s + f.end_s - f.start_s));
        bytes as f64 * 8.0 / seconds
    };
    let (reno, cubic) = (rate(0), rate(1));
    // Segments of 8948 bytes, an RTT of 187 ms, a loss probability p of 0.001.
    let segment = 8.0 * 8948.0 / 0.187;
    // Mathis et al. 1997: sqrt(3/2) / sqrt(p) segments per round trip: 14.8 Mb/s.
    let mathis = segment * (1.5_f64 / 1e-3).sqrt();
    // RFC 9438 equation 5: 1.054 RTT^(3/4) / p^(3/4) segments per round trip, if that is more than Reno's: 20.4
    // Mb/s.
    let response = segment * 1.054 * (0.187_f64 / 1e-3).powf(0.75);
    println!("reno {reno} of {mathis}, cubic {cubic} of {response}");
    assert!(cubic >= 0.95 * reno, "cubic {cubic}, reno {reno}");
    // Six seconds have few losses, so the formulas give only the order of magnitude.
    for (measured, formula) in [(reno, mathis), (cubic, response)] {
        assert!((1.0 / 4.0..4.0).contains(&(measured / formula)), "{measured} of {formula}");
    }
}

#[test]
fn a_second_flow_takes_a_share_and_the_first_recovers() {
    let (ends, records) = simulate("intermixing", &[]);
    let end = &ends[0];
    // The link has 100 Mb/s for 8 s; flow 2 runs from 1.33 s to 3.33 s.
    let mean = |name: &str, from: f64, to: f64| {
        let intervals = records.iter().filter_map(|r| match r {
            LabRecord::Flow(f) if f.flow == name && f.start_s >= from && f.end_s <= to => Some(f),
            _ => None,
        });
        let (bytes, seconds) = intervals.fold((0, 0.0), |(b, s), f| (b + f.bytes, s + f.end_s - f.start_s));
        bytes as f64 * 8.0 / seconds
    };
    let second = flow(end, "flow2");
    assert!(second.throughput_bps.unwrap() > 5_000_000, "{second:?}");
    let after = mean("flow1", 4.9, 8.2);
    println!("flow 2 {:?}, flow 1 after it {after}", second.throughput_bps);
    // 100 Mb/s x 8948 / 9038 = 99.0 Mb/s.
    assert!((80e6..99.5e6).contains(&after), "{after}");
    let utilisation = link(end, "sender").utilisation.unwrap();
    assert!((0.6..=1.0).contains(&utilisation), "{utilisation}");
}

#[test]
fn a_deep_queue_delays_mice_and_a_shallow_one_wastes_capacity() {
    let (ends, _) = simulate("bufferbloat", &[]);
    let [shallow, deep] = ends.as_slice() else { panic!("{} runs", ends.len()) };
    let median = |end| flow(end, "web").completion.as_ref().unwrap().p50_ns;
    let wait = |end| link(end, "server").wait.as_ref().unwrap().p95_ns;
    let used = |end| link(end, "server").utilisation.unwrap();
    println!(
        "mice {} {}, wait {} {}, used {} {}",
        median(shallow),
        median(deep),
        wait(shallow),
        wait(deep),
        used(shallow),
        used(deep)
    );
    assert!(median(deep) > median(shallow));
    // The maximum queueing delays are 0.1 and 10 times 60 ms.
    assert!(wait(shallow) <= 6_500_000, "{}", wait(shallow));
    assert!((60_000_000..=600_500_000).contains(&wait(deep)), "{}", wait(deep));
    assert!(used(shallow) < used(deep));
}

#[test]
fn a_mouse_on_an_idle_link_takes_the_time_of_slow_start() {
    // 100 kB are 70 segments of 1448 bytes, sent in windows of 10, 20 and 40. With the handshake this takes four
    // round trips of 60 ms; at 50 Mb/s, 100 kB take at least 16 ms.
    let arguments =
        ["--set", "flows.elephant.bytes=1kB", "--set", "sweep.0.values=[\"1 bdp\"]", "--set", "duration=4s"];
    let (ends, _) = simulate("bufferbloat", &arguments);
    let completion = flow(&ends[0], "web").completion.clone().unwrap();
    assert!((180_000_000..320_000_000).contains(&completion.p50_ns), "{}", completion.p50_ns);
}

/// Experiment with transfers of web sizes and no other traffic. Their load is 3 % of the link, so they rarely overlap.
const LONE_TRANSFERS: &str = r#"
duration = "10s"
nodes = ["server", "client"]
[links.path]
between = ["server", "client"]
rate = "100Mb/s"
delay = "93.5ms"
queue = "1 bdp"
[mice.web]
from = "server"
to = "client"
bytes = { distribution = "web-search", most = "1MB" }
load = 0.03
stop = "8s"
"#;

#[test]
fn a_lone_transfer_of_any_size_takes_its_ideal_time() {
    undisturbed(|| {
        let directory = tempfile::tempdir().unwrap();
        let file = crate::file(directory.path(), LONE_TRANSFERS);
        let Some((ends, records)) = run("small", &file, &[]) else { return };
        let web = flow(&ends[0], "web");
        let slowdown = web.slowdown.unwrap();
        assert!(slowdown.count >= 10 && web.incomplete == Some(0), "{slowdown:?}");
        // The formula is a lower bound, except for the clock's resolution. Late wake-ups and overlapping transfers add
        // a little.
        assert!((0.999..1.05).contains(&slowdown.p50), "{slowdown:?}");
        for t in records.iter().filter_map(|r| if let LabRecord::Transfer(t) = r { Some(t) } else { None }) {
            assert!(t.completion_ns.unwrap() as f64 > 0.999 * t.ideal_ns.unwrap() as f64, "{t:?}");
        }
    });
}

#[test]
fn mice_are_slowed_down_by_twenty_elephants() {
    let (ends, _) = simulate("mice-and-elephants", &[]);
    let end = &ends[0];
    let elephants = end.flows.iter().filter(|f| f.flow.starts_with("elephant-"));
    assert!(elephants.clone().all(|f| f.throughput_bps > Some(0) && f.packets > Some(0)));
    assert_eq!(elephants.count(), 20);
    let traffic = end.traffic.as_ref().unwrap();
    // Headers and slow start reduce the 50 Mb/s; less than half of it would mean that the load was too low.
    assert!((25_000_000..50_000_000).contains(&traffic.goodput_bps), "{traffic:?}");
    assert_eq!(traffic.goodput_bps, traffic.flows_bps + traffic.mice_bps);
    assert!(traffic.jain.is_some_and(|index| (1.0 / 20.0..1.0).contains(&index)), "{traffic:?}");
    let web = flow(end, "web");
    assert!(web.sizes.len() == 3 && web.slowdown.unwrap().p50 > 1.2, "{:?}", web.slowdown);
}

#[test]
fn a_paced_flow_is_constant_with_a_sufficient_window() {
    undisturbed(|| {
        let (file, arguments) = short("constant-flow", &[]);
        let Some((ends, _)) = run("constant-flow", &file, &arguments) else { return };
        let constant = flow(&ends[0], "constant");
        println!("{constant:?}");
        // The pacing rate of 20 Mb/s includes headers.
        assert!((18_500_000..20_200_000).contains(&constant.steady_bps.unwrap()));
        assert!(constant.settled_s.unwrap() < 2.0 && constant.variation_1s.unwrap() < 0.05);
        assert!(constant.window_ratio.unwrap() > 0.95, "a window below the throughput: {:?}", constant.window_ratio);
    });
}

#[test]
fn htcp_and_fast_recover_from_one_loss_on_a_long_path_before_reno() {
    let (_, records) = simulate("loss-recovery", &[]);
    // 258 packets fill the path. The sender detects the loss after five round trips of slow start and repairs it in
    // the next.
    let repaired_s = 7.0 * 0.187;
    let intervals = |run: u32| {
        let own = records.iter().filter_map(move |r| match r {
            LabRecord::Flow(f) if f.run == run && f.start_s >= repaired_s && f.end_s < 8.3 => Some(f),
            _ => None,
        });
        own.map(|f| (f.end_s, f.throughput_bps as f64 / (98e6 * 8948.0 / 8968.0))).collect::<Vec<_>>()
    };
    let recovery_s = |run| intervals(run).into_iter().find(|(_, share)| *share > 0.9).map(|(end_s, _)| end_s);
    let (reno, htcp, fast) = (intervals(0), recovery_s(2).unwrap(), recovery_s(3).unwrap());
    println!("Reno {reno:?}, CUBIC back at {:?} s, H-TCP {htcp} s, FAST {fast} s", recovery_s(1));
    // Reno has half of the path's packets and adds one per round trip: 63 % after 8 s, 90 % after 20 s.
    assert!(reno.iter().all(|(_, share)| *share < 0.75), "{reno:?}");
    // From half to 90 % are 104 packets. H-TCP's increase reaches this after 2.4 s. FAST adds up to half of alpha,
    // 50 packets, every other round trip, and takes bursts of seven packets of 0.72 ms each for a queue: three
    // steps, 1.2 s. An interval of 0.5 s shows the new rate up to 1 s later.
    assert!(htcp < repaired_s + 3.5 && fast < repaired_s + 3.5, "H-TCP {htcp}, FAST {fast}");
}
