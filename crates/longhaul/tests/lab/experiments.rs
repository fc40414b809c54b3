//! Short variants of the first experiments, checked against formulas.

use results::lab::{FlowTotals, LabRecord, LabRunEnd, LinkTotals, Verdict};
use testbed::{undecided, undisturbed};

use crate::common::lab::{read, turn};
use crate::common::text;

/// Runs a scenario's short variant; gives the ends of its runs. `None`, with a note, where the machine could not carry
/// it.
fn short(name: &str, arguments: &[&str]) -> Option<(Vec<LabRunEnd>, Vec<LabRecord>)> {
    let file = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    run(name, &file, &[&["--variant", "short"], arguments].concat())
}

/// The same for any file.
pub(crate) fn run(name: &str, file: &str, arguments: &[&str]) -> Option<(Vec<LabRunEnd>, Vec<LabRecord>)> {
    let turn = turn()?;
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let mut command = turn.longhaul(&["lab", "run", file, "--out", &out.display().to_string()]);
    let output = command.args(arguments).output().unwrap();
    let shown = text(&output.stdout);
    let records = read(&out.join("records.jsonl"));
    let ends: Vec<LabRunEnd> = records
        .iter()
        .filter_map(|r| match r {
            LabRecord::RunEnd(end) => Some(end.clone()),
            _ => None,
        })
        .collect();
    let valid = ends.iter().all(|e| e.verdict == Verdict::Valid);
    assert_eq!(output.status.code(), Some(if valid { 0 } else { 1 }), "{shown}{}", text(&output.stderr));
    assert!(std::fs::read_to_string(out.join("report.html")).unwrap().contains(name));
    if valid {
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

pub(crate) fn flow<'a>(end: &'a LabRunEnd, name: &str) -> &'a FlowTotals {
    end.flows.iter().find(|f| f.flow == name).unwrap()
}

pub(crate) fn link<'a>(end: &'a LabRunEnd, from: &str) -> &'a LinkTotals {
    end.links.iter().find(|l| l.from == from).unwrap()
}

#[test]
fn cubic_gets_at_least_what_reno_gets_under_loss_and_both_are_near_the_formulas() {
    undisturbed(|| {
        let arguments = ["--set", "sweep.1.values=[1e-3]", "--set", "duration=12s"];
        let Some((_, records)) = short("loss-throughput", &arguments) else { return };
        // The second half: the first begins with slow start, which fills the link before it loses anything.
        let rate = |run| {
            let intervals = records.iter().filter_map(|r| match r {
                LabRecord::Flow(f) if f.run == run && f.start_s > 5.5 && f.end_s < 12.5 => Some(f),
                _ => None,
            });
            let (bytes, seconds) = intervals.fold((0, 0.0), |(b, s), f| (b + f.bytes, s + f.end_s - f.start_s));
            bytes as f64 * 8.0 / seconds
        };
        let (reno, cubic) = (rate(0), rate(1));
        // Segments of 8948 bytes, 187 ms, p = 0.001.
        let segment = 8.0 * 8948.0 / 0.187;
        // Mathis et al. 1997: sqrt(3/2) / sqrt(p) segments a round trip: 14.8 Mb/s.
        let mathis = segment * (1.5_f64 / 1e-3).sqrt();
        // RFC 9438 equation 5: 1.054 RTT^(3/4) / p^(3/4) segments a round trip, where that is more than Reno's: 20.4
        // Mb/s.
        let response = segment * 1.054 * (0.187_f64 / 1e-3).powf(0.75);
        println!("reno {reno} of {mathis}, cubic {cubic} of {response}");
        assert!(cubic >= 0.95 * reno, "cubic {cubic}, reno {reno}");
        // Six seconds hold some losses only: the formulas tell the magnitude.
        for (measured, formula) in [(reno, mathis), (cubic, response)] {
            assert!((1.0 / 4.0..4.0).contains(&(measured / formula)), "{measured} of {formula}");
        }
    });
}

#[test]
fn a_second_flow_takes_a_share_and_the_first_recovers() {
    undisturbed(|| {
        let Some((ends, records)) = short("intermixing", &[]) else { return };
        let end = &ends[0];
        // 100 Mb/s for 8 s; flow 2 comes at 1.33 s and leaves at 3.33 s.
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
    });
}

#[test]
fn mice_wait_behind_a_deep_queue_and_a_shallow_one_wastes_the_link() {
    undisturbed(|| {
        let Some((ends, _)) = short("bufferbloat", &[]) else { return };
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
        // 0.1 and 10 times 60 ms is the most that can wait.
        assert!(wait(shallow) <= 6_500_000, "{}", wait(shallow));
        assert!((60_000_000..=600_500_000).contains(&wait(deep)), "{}", wait(deep));
        assert!(used(shallow) < used(deep));
    });
}

#[test]
fn the_sixty_millisecond_mouse_of_an_idle_link_takes_what_slow_start_takes() {
    undisturbed(|| {
        // 100 kB in segments of 1448 bytes: 70, by windows of 10, 20, 40: with the handshake four round trips of 60 ms,
        // and 100 kB at 50 Mb/s take 16 ms at least.
        let arguments =
            ["--set", "flows.elephant.bytes=1kB", "--set", "sweep.0.values=[\"1 bdp\"]", "--set", "duration=4s"];
        let Some((ends, _)) = short("bufferbloat", &arguments) else { return };
        let completion = flow(&ends[0], "web").completion.clone().unwrap();
        assert!((180_000_000..320_000_000).contains(&completion.p50_ns), "{}", completion.p50_ns);
    });
}

/// Transfers of web sizes with nothing beside them; 3 % of the link, so that they hardly meet.
const ALONE: &str = r#"
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
fn alone_on_the_way_a_transfer_of_any_size_takes_its_ideal_time() {
    undisturbed(|| {
        let directory = tempfile::tempdir().unwrap();
        let file = crate::file(directory.path(), ALONE);
        let Some((ends, records)) = run("small", &file, &[]) else { return };
        let web = flow(&ends[0], "web");
        let slowdown = web.slowdown.unwrap();
        assert!(slowdown.count >= 10 && web.incomplete == Some(0), "{slowdown:?}");
        // The formula is a lower bound but for the clock's reading; threads that wake late and transfers that meet add
        // a little.
        assert!((0.999..1.05).contains(&slowdown.p50), "{slowdown:?}");
        for t in records.iter().filter_map(|r| if let LabRecord::Transfer(t) = r { Some(t) } else { None }) {
            assert!(t.completion_ns.unwrap() as f64 > 0.999 * t.ideal_ns.unwrap() as f64, "{t:?}");
        }
    });
}

#[test]
fn twenty_elephants_come_and_go_and_mice_wait_behind_them() {
    undisturbed(|| {
        let Some((ends, _)) = short("mice-and-elephants", &[]) else { return };
        let end = &ends[0];
        let elephants = end.flows.iter().filter(|f| f.flow.starts_with("elephant-"));
        assert!(elephants.clone().all(|f| f.throughput_bps > Some(0) && f.packets > Some(0)));
        assert_eq!(elephants.count(), 20);
        let traffic = end.traffic.as_ref().unwrap();
        // Headers and slow start take their share of 50 Mb/s; what is not worth half of it was no load.
        assert!((25_000_000..50_000_000).contains(&traffic.goodput_bps), "{traffic:?}");
        assert_eq!(traffic.goodput_bps, traffic.flows_bps + traffic.mice_bps);
        assert!(traffic.jain.is_some_and(|index| (1.0 / 20.0..1.0).contains(&index)), "{traffic:?}");
        let web = flow(end, "web");
        assert!(web.sizes.len() == 3 && web.slowdown.unwrap().p50 > 1.2, "{:?}", web.slowdown);
    });
}

#[test]
fn a_paced_flow_is_constant_and_its_window_is_enough_for_its_rate() {
    undisturbed(|| {
        let Some((ends, _)) = short("constant-flow", &[]) else { return };
        let constant = flow(&ends[0], "constant");
        println!("{constant:?}");
        // 20 Mb/s are paced with headers.
        assert!((18_500_000..20_200_000).contains(&constant.steady_bps.unwrap()));
        assert!(constant.settled_s.unwrap() < 2.0 && constant.variation_1s.unwrap() < 0.05);
        assert!(constant.window_ratio.unwrap() > 0.95, "a window below the throughput: {:?}", constant.window_ratio);
    });
}

#[test]
fn after_one_loss_on_a_long_path_htcp_and_fast_are_back_long_before_reno() {
    undisturbed(|| {
        let Some((_, records)) = short("loss-recovery", &[]) else { return };
        // 258 packets fill the path. The loss is seen after five round trips of slow start, and repaired in the next.
        let repaired_s = 7.0 * 0.187;
        let intervals = |run: u32| {
            let own = records.iter().filter_map(move |r| match r {
                LabRecord::Flow(f) if f.run == run && f.start_s >= repaired_s && f.end_s < 8.3 => Some(f),
                _ => None,
            });
            own.map(|f| (f.end_s, f.throughput_bps as f64 / (98e6 * 8948.0 / 8968.0))).collect::<Vec<_>>()
        };
        let back = |run| intervals(run).into_iter().find(|(_, share)| *share > 0.9).map(|(end_s, _)| end_s);
        let (reno, htcp, fast) = (intervals(0), back(2).unwrap(), back(3).unwrap());
        println!("Reno {reno:?}, CUBIC back at {:?} s, H-TCP {htcp} s, FAST {fast} s", back(1));
        // Half of the path's packets and one more each round trip: 63 % after 8 s, 90 % after 20 s.
        assert!(reno.iter().all(|(_, share)| *share < 0.75), "{reno:?}");
        // From a half to 90 % are 104 packets. The integral of H-TCP's increase is as much after 2.4 s. FAST adds up to
        // half of alpha, 50 packets, every other round trip, where bursts of seven packets of 0.72 ms each are a queue
        // for it: three times, 1.2 s. An interval of half a second is full of it up to a second later.
        assert!(htcp < repaired_s + 3.5 && fast < repaired_s + 3.5, "H-TCP {htcp}, FAST {fast}");
    });
}
