//! FAST TCP and H-TCP over emulated paths: in the kernel, and their shares in the simulator.

use results::lab::{LabRecord, LabRunEnd};
use testbed::undisturbed;

use crate::experiments::{flow, link, run, simulate_file};

fn has_longhaul_control() -> bool {
    let all = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    all.split_whitespace().any(|name| name.starts_with("fast_") || name.starts_with("htcp_"))
}

/// Path of the experiments. 20 Mb/s are 1626 packets of 1538 bytes per second, or 65 packets in a round trip of 40 ms.
const PATH: &str = r#"
nodes = ["left", "right"]
[links.path]
between = ["left", "right"]
rate = "20Mb/s"
delay = "20ms"
queue = "2000 packets"
"#;

/// Runs an experiment; `None`, with a note, if the emulation was not valid.
fn experiment(toml: &str) -> Option<(LabRunEnd, Vec<LabRecord>)> {
    let directory = tempfile::tempdir().unwrap();
    let (mut ends, records) = run("small", &crate::file(directory.path(), toml), &[])?;
    Some((ends.pop().unwrap(), records))
}

/// Simulates an experiment.
fn simulated(toml: &str) -> (LabRunEnd, Vec<LabRecord>) {
    let directory = tempfile::tempdir().unwrap();
    let (mut ends, records) = simulate_file("small", &crate::file(directory.path(), toml), &[]);
    (ends.pop().unwrap(), records)
}

/// Returns the queue length on the link from a node, in packets: the mean of the medians of all intervals that start
/// after `after_s`.
fn queued(records: &[LabRecord], from: &str, after_s: f64) -> f64 {
    let own = records.iter().filter_map(|r| match r {
        // The last packet of each block is not full, so the mean packet size converts bytes to packets.
        LabRecord::Link(l) if l.statistics.from == from && l.start_s >= after_s => {
            let s = &l.statistics;
            Some(s.queue.p50_bytes as f64 * s.delivered.packets as f64 / s.delivered.bytes as f64)
        }
        _ => None,
    });
    let (sum, count) = own.fold((0.0, 0.0), |(s, n), q| (s + q, n + 1.0));
    sum / count
}

#[test]
fn fast_fills_the_path_and_keeps_alpha_packets_in_its_queue() {
    undisturbed(|| {
        let flows = "[congestion.fast_test]\nalpha = 30\n[flows.one]\nfrom = \"left\"\nto = \"right\"\ncongestion_control = \"fast_test\"\n";
        let Some((end, records)) = experiment(&format!("duration = \"12s\"\n{PATH}{flows}")) else { return };
        let steady = flow(&end, "one").steady_bps.unwrap() as f64;
        let queue = queued(&records, "left", 5.5);
        println!("{steady} b/s, {queue} packets queued");
        // 20 Mb/s x 1448 / 1538.
        assert!(steady > 0.98 * 20e6 * 1448.0 / 1538.0, "{steady}");
        assert!((queue / 30.0 - 1.0).abs() < 0.15, "{queue} packets queued, expected 30");
        assert_eq!(link(&end, "left").dropped.queue, 0);
        assert!(!has_longhaul_control(), "no control remains in the kernel");
    });
}

/// Returns the goodput of a flow in intervals that start after `after_s`, in bits per second.
fn rate(records: &[LabRecord], flow: &str, after_s: f64) -> f64 {
    let own = records.iter().filter_map(|r| match r {
        LabRecord::Flow(f) if f.flow == flow && f.start_s >= after_s => {
            Some((f.bytes as f64 * 8.0, f.end_s - f.start_s))
        }
        _ => None,
    });
    // The intervals differ in length, so their rates are not averaged.
    let (bits, time) = own.fold((0.0, 0.0), |(bits, time), (b, t)| (bits + b, time + t));
    bits / time
}

fn fast_flow(name: &str, more: &str) -> String {
    format!("[flows.{name}]\nfrom = \"left\"\nto = \"right\"\ncongestion_control = \"fast_test\"\n{more}\n")
}

#[test]
fn fast_flows_that_start_together_share_equally_and_queue_alpha_each() {
    let flows: String = ["a", "b", "c", "d"].map(|name| fast_flow(name, "")).concat();
    let toml = format!("duration = \"14s\"\n{PATH}[congestion.fast_test]\nalpha = 15\n{flows}");
    let (end, records) = simulated(&toml);
    let rates = ["a", "b", "c", "d"].map(|name| rate(&records, name, 5.5));
    let squares: f64 = rates.iter().map(|r| r * r).sum();
    let jain = rates.iter().sum::<f64>().powi(2) / (4.0 * squares);
    let queue = queued(&records, "left", 5.5);
    println!("{rates:?} b/s, Jain's index {jain}, {queue} packets queued");
    assert!(jain > 0.95, "{rates:?}");
    // Each flow keeps alpha packets in the queue, plus a few more: the first packets of the other flows inflate its
    // base delay.
    assert!((55.0..=90.0).contains(&queue), "{queue} packets queued, expected 4 x 15");
    assert_eq!(link(&end, "left").dropped.queue, 0);
}

#[test]
fn a_late_fast_flow_overestimates_the_base_delay_and_gets_more() {
    let flows = format!("{}{}", fast_flow("first", ""), fast_flow("late", "start = \"4s\""));
    let toml = format!("duration = \"12s\"\n{PATH}[congestion.fast_test]\nalpha = 30\n{flows}");
    let (_, records) = simulated(&toml);
    // Three seconds are fifty round trips.
    let [first, late] = ["first", "late"].map(|name| rate(&records, name, 7.0));
    println!("{first} and {late} b/s: {}", late / first);
    // The late flow includes the alpha packets of the first in its base delay: x1 : x2 = 1 : (1 + x2 / C), so x2 =
    // 1.62 x1 (Low, Peterson, Wang, "Understanding Vegas", 2002, section V). The queue of the first flow is not
    // exactly alpha at the start of the late one.
    assert!((1.3..2.2).contains(&(late / first)), "{late} to {first}");
}

#[test]
fn the_window_does_not_grow_beyond_the_receiver_limit() {
    undisturbed(|| {
        let flows: String = ["fast_test", "htcp"]
            .map(|name| fast_flow(name, "window = \"20kB\"").replace("\"fast_test\"", &format!("\"{name}\"")))
            .concat();
        let Some((end, records)) =
            experiment(&format!("duration = \"6s\"\n{PATH}[congestion.fast_test]\nalpha = 30\n{flows}"))
        else {
            return;
        };
        for name in ["fast_test", "htcp"] {
            let goodput = rate(&records, name, 1.5);
            let windows = records.iter().filter_map(|r| match r {
                LabRecord::Flow(f) if f.flow == name => f.cwnd_bytes,
                _ => None,
            });
            let largest = windows.max().unwrap();
            println!("{name}: {goodput} b/s, congestion window at most {largest} B");
            // Linux doubles the 20 kB and advertises the part without bookkeeping, at least 20 kB per 40 ms. It never
            // withdraws the initial window of 64 kB, which shrinks over seconds (CUBIC reaches 7.7 to 11.6 Mb/s).
            assert!((3.4e6..13.2e6).contains(&goodput), "{name}: {goodput}");
            // tcp_is_cwnd_limited lets the window grow in slow start while it is below twice the largest flight, here
            // the initial 64 kB, and tcp_slow_start adds all bytes of one acknowledgement: another 64 kB at most. A
            // control that ignored the limit would double the window every 40 ms.
            assert!(largest <= 3 * 65_536, "{name}: {largest}");
        }
        assert_eq!(link(&end, "left").dropped.queue, 0);
    });
}

#[test]
fn ecn_marks_slow_both_controls_without_loss() {
    undisturbed(|| {
        // The router marks one packet in fifty (RFC 3168): about one in a round trip of 65 packets.
        let toml = r#"
duration = "6s"
[nodes]
left = { sysctl = { "net.ipv4.tcp_ecn" = 1 } }
middle = {}
right = { sysctl = { "net.ipv4.tcp_ecn" = 1 } }
[links.near]
between = ["left", "middle"]
delay = "10ms"
[links.path]
between = ["middle", "right"]
rate = "40Mb/s"
delay = "10ms"
queue = "2000 packets"
[programs.marks]
node = "middle"
command = '''exec nft -f - <<'RULES'
table ip marks {
  chain forward {
    type filter hook forward priority 0
    ip ecn ect0 numgen random mod 50 == 0 ip ecn set ce
  }
}
RULES'''
[flows.fast]
from = "left"
to = "right"
start = "500ms"
congestion_control = "fast"
[flows.htcp]
from = "left"
to = "right"
start = "500ms"
congestion_control = "htcp"
"#;
        let Some((end, records)) = experiment(toml) else { return };
        let [fast, htcp] = ["fast", "htcp"].map(|name| rate(&records, name, 2.0));
        println!("{fast} and {htcp} b/s");
        // H-TCP increases like Reno at such rates: by the formula of Mathis it sends 8.7 packets in a round trip of 41
        // ms, or 2.5 Mb/s. FAST halves its window as often and recovers sooner, but leaves a part of the 38 Mb/s
        // unused.
        assert!((0.5e6..8e6).contains(&htcp), "{htcp}");
        assert!((2e6..28e6).contains(&fast), "{fast}");
        assert!(["fast", "htcp"].iter().all(|name| flow(&end, name).retransmits == Some(0)));
    });
}

#[test]
fn both_controls_survive_loss_reordering_a_longer_path_and_many_streams() {
    undisturbed(|| {
        let flows = r#"
[congestion.fast]
alpha = 5
[[schedule]]
link = "path"
at = "2s"
loss = 0.01
reorder = { probability = 0.01, by = "3ms" }
[[schedule]]
link = "path"
at = "5s"
delay = "60ms"
[flows.fast]
from = "left"
to = "right"
streams = 100
congestion_control = "fast"
[flows.htcp]
from = "left"
to = "right"
streams = 100
congestion_control = "htcp"
"#;
        // The queue holds half a second. With two more seconds, the control connections, which share the queue, would
        // time out after 20 s of losses.
        let path = PATH.replace("20Mb/s", "10Mb/s").replace("2000 packets", "300 packets");
        let Some((end, _)) = experiment(&format!("duration = \"10s\"\n{path}{flows}")) else { return };
        let received_bytes: Vec<u64> = end.flows.iter().map(|f| f.bytes).collect();
        println!("{received_bytes:?}");
        assert!(received_bytes.iter().all(|bytes| *bytes > 500_000), "{received_bytes:?}");
        let used = link(&end, "left").utilisation.unwrap();
        assert!(used > 0.8, "{used}");
    });
}

#[test]
fn an_unknown_parameter_is_reported_with_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let toml = format!("duration = \"1s\"\n{PATH}[congestion.fast_x]\nbeta = 3\n");
    let output = crate::common::longhaul()
        .args(["lab", "run", "--dry-run", &crate::file(directory.path(), &toml)])
        .output()
        .unwrap();
    let message = crate::common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("congestion.fast_x.beta: fast has no parameter `beta`; it has alpha, gamma"), "{message}");
}
