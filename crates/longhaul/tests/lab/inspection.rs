//! `longhaul lab status`, `shell` and `gc` while labs run.

use std::process::Output;

use crate::common::host::Host;
use crate::common::lab::{Turn, turn_of_root};
use crate::common::text;

fn lab(turn: &Turn, arguments: &[&str]) -> Output {
    turn.longhaul(&[&["lab"], arguments].concat()).output().unwrap()
}

#[test]
fn a_running_lab_is_listed_and_its_nodes_can_be_entered() {
    let Some(turn) = turn_of_root() else { return };
    let host = Host::now();
    assert_eq!(text(&lab(&turn, &["status"]).stdout), "no lab is running\n");
    let path = turn.path(&["--rtt", "10ms"]);
    let shown = text(&lab(&turn, &["status"]).stdout);
    assert!(shown.contains(&format!("{} path (running): near, far", path.child.id())), "{shown}");
    let json = text(&lab(&turn, &["status", "--json"]).stdout);
    let entry: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(entry["lab"]["pid"], path.child.id());

    let inside =
        lab(&turn, &["shell", "far", "--", "hostname; echo $LONGHAUL_NODE; getent hosts near; ls /sys/class/net"]);
    let shown = text(&inside.stdout);
    assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), ["far", "far", "10.0.0.1", "near", "lo", "path"]);
    assert_eq!(lab(&turn, &["shell", "far", "--", "exit 5"]).status.code(), Some(5));
    let wrong = lab(&turn, &["shell", "middle", "--", "true"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("no running lab has a node `middle`; nodes are: near, far"));

    assert_eq!(text(&lab(&turn, &["gc"]).stdout), "nothing to remove\n");
    let ended = path.end();
    assert!(ended.status.success() || !ended.valid(), "{}", ended.message);
    assert_eq!(turn.entries(), 0);
    assert_eq!(Host::now(), host);
}

#[test]
fn two_labs_run_concurrently() {
    let Some(turn) = turn_of_root() else { return };
    let (slow, fast) = (turn.path(&["--rtt", "400ms"]), turn.path(&["--rtt", "2ms"]));
    let wrong = lab(&turn, &["shell", "near", "--", "true"]);
    assert_eq!(wrong.status.code(), Some(2));
    let message = text(&wrong.stderr);
    assert!(message.contains("--lab") && message.contains(&slow.child.id().to_string()), "{message}");
    // Same addresses, different paths: a handshake takes one round trip.
    let connect = |lab: &crate::common::lab::Lab| {
        let start = std::time::Instant::now();
        let refused = lab.node("near").run(|| std::net::TcpStream::connect(("10.0.0.2", 9)).is_err()).unwrap();
        assert!(refused, "nothing listens on this port");
        start.elapsed().as_millis()
    };
    assert!((400..1400).contains(&connect(&slow)));
    assert!((2..400).contains(&connect(&fast)));
    let chosen = lab(&turn, &["shell", "near", "--lab", &fast.child.id().to_string(), "--", "hostname"]);
    assert_eq!(text(&chosen.stdout), "near\n");
    // The end of one lab does not affect the other.
    fast.end();
    assert!((400..1400).contains(&connect(&slow)));
    slow.end();
    assert_eq!(turn.entries(), 0);
}

#[test]
fn gc_removes_stale_entries_and_does_not_kill_a_process_with_a_reused_number() {
    let Some(turn) = turn_of_root() else { return };
    // A new process with the number of an earlier keeper.
    let mut innocent = std::process::Command::new("sleep").arg("100").spawn().unwrap();
    let process = |pid| serde_json::json!({ "pid": pid, "started_ticks": 1 });
    let entry = serde_json::json!({
        "name": "old", "lab": process(innocent.id()), "keeper": process(innocent.id()),
        "start_utc_s": 0, "directory": "nowhere", "nodes": [],
    });
    std::fs::write(turn.registry().join("1.json"), entry.to_string()).unwrap();
    std::fs::write(turn.registry().join("2.json"), "{").unwrap();
    let shown = text(&lab(&turn, &["gc"]).stdout);
    assert!(shown.contains("removed the entry of old") && shown.contains("which is not a valid entry"), "{shown}");
    assert_eq!(shown.lines().count(), 2, "{shown}");
    assert_eq!(turn.entries(), 0);
    assert!(innocent.try_wait().unwrap().is_none(), "the process still runs");
    innocent.kill().unwrap();
    innocent.wait().unwrap();
}
