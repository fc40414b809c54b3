//! FAST TCP and H-TCP in the kernel, over emulated paths.

use results::lab::{LabRecord, LabRunEnd};
use testbed::undisturbed;

use crate::experiments::{flow, link, run};

fn has_own_control() -> bool {
    let all = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    all.split_whitespace().any(|name| name.starts_with("fast_") || name.starts_with("htcp_"))
}

/// 20 Mb/s are 1626 packets of 1538 bytes a second; a round trip of 40 ms holds 65 of them.
const PATH: &str = r#"
nodes = ["left", "right"]
[links.path]
between = ["left", "right"]
rate = "20Mb/s"
delay = "20ms"
queue = "2000 packets"
"#;

/// Runs an experiment; `None`, with a note, where the machine could not carry it.
fn experiment(toml: &str) -> Option<(LabRunEnd, Vec<LabRecord>)> {
    let folder = tempfile::tempdir().unwrap();
    let (mut ends, records) = run("small", &crate::file(folder.path(), toml), &[])?;
    Some((ends.pop().unwrap(), records))
}

/// Full packets in the queue of the way from a node: mean over intervals that begin after a time of what half of the time waited.
fn queued(records: &[LabRecord], from: &str, after_s: f64) -> f64 {
    let own = records.iter().filter_map(|r| match r {
        LabRecord::Link(l) if l.from == from && l.begin_s >= after_s => Some(l.queue.p50_bytes as f64 / 1500.0),
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
        assert!((queue / 30.0 - 1.0).abs() < 0.15, "{queue} of 30");
        assert_eq!(link(&end, "left").dropped.queue, 0);
        assert!(!has_own_control(), "nothing is left in the kernel");
    });
}

#[test]
fn both_live_through_loss_reordering_a_longer_way_and_many_at_once() {
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
        let Some((end, _)) = experiment(&format!("duration = \"10s\"\n{}{flows}", PATH.replace("20Mb/s", "10Mb/s")))
        else {
            return;
        };
        let carried: Vec<u64> = end.flows.iter().map(|f| f.bytes).collect();
        println!("{carried:?}");
        assert!(carried.iter().all(|bytes| *bytes > 500_000), "{carried:?}");
        let used = link(&end, "left").utilisation.unwrap();
        assert!(used > 0.8, "{used}");
    });
}

#[test]
fn a_parameter_that_does_not_exist_is_named_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let toml = format!("duration = \"1s\"\n{PATH}[congestion.fast_x]\nbeta = 3\n");
    let output = crate::common::longhaul()
        .args(["lab", "run", "--dry-run", &crate::file(folder.path(), &toml)])
        .output()
        .unwrap();
    let said = crate::common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("congestion.fast_x.beta: fast has no parameter `beta`; it has alpha, gamma"), "{said}");
}
