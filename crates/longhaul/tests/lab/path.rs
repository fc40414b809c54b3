//! `longhaul lab path`.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use testbed::undisturbed;

use crate::common::host::Host;
use crate::common::lab::{Turn, read, turn};
use crate::common::text;

/// Runs `lab path` for a test that does not depend on timing: a pause of the machine does not invalidate the run.
fn path(turn: &Turn, arguments: &[&str]) -> Output {
    turn.longhaul(&[&["lab", "path", "--quiet", "--lateness", "200ms"], arguments].concat()).output().unwrap()
}

#[test]
fn the_command_gets_its_peer_and_its_exit_status_is_returned() {
    let Some(turn) = turn() else { return };
    let host = Host::now();
    let shown = path(&turn, &["--rtt", "4ms", "--", "echo $LONGHAUL_PEER; hostname; exit 7"]);
    assert_eq!(text(&shown.stdout), "10.0.0.2\nnear\n");
    assert_eq!(shown.status.code(), Some(7));
    let killed = path(&turn, &["--", "kill -TERM $$"]);
    assert_eq!(killed.status.code(), Some(128 + 15), "as in a shell");
    assert_eq!(turn.entries(), 0);
    assert_eq!(Host::now(), host);
}

#[test]
fn a_missing_command_is_reported() {
    let Some(turn) = turn() else { return };
    let output = path(&turn, &["--", "no-such-program"]);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.contains("no-such-program") && message.contains("No such file"), "{message}");
}

#[test]
fn input_and_output_are_passed_through_unchanged() {
    let Some(turn) = turn() else { return };
    let mut child = turn
        .longhaul(&["lab", "path", "--quiet", "--lateness", "200ms", "--far", "sleep 100", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let mut input = child.stdin.take().unwrap();
    let copy = sent.clone();
    let writer = std::thread::spawn(move || input.write_all(&copy).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    assert!(output.stdout == sent, "{} bytes were returned", output.stdout.len());
}

#[test]
fn a_test_to_the_far_end_runs_over_the_path() {
    undisturbed(|| {
        let Some(turn) = turn() else { return };
        let directory = tempfile::tempdir().unwrap();
        let json = directory.path().join("link.jsonl").display().to_string();
        let line = format!("{} test $LONGHAUL_PEER -t 1 --json", env!("CARGO_BIN_EXE_longhaul"));
        let shown = path(&turn, &["--rate", "20Mb/s", "--rtt", "40ms", "--json", &json, "--", &line]);
        assert!(shown.status.success(), "{}", text(&shown.stderr));
        let records = results::read_records(shown.stdout.as_slice()).unwrap();
        let received = records.iter().find_map(|r| match r {
            results::Record::End(end) => Some(end.directions[0].receiver.bytes),
            _ => None,
        });
        // The link's records count the received bytes.
        let delivered: u64 = read(json.as_ref())
            .iter()
            .map(|r| match r {
                results::lab::LabRecord::Link(l) if l.statistics.from == "near" => l.statistics.delivered.bytes,
                _ => 0,
            })
            .sum();
        // Headers of 52 bytes per 1448 are 3.6 %; retransmissions and the control connection are the rest.
        let received = received.unwrap();
        assert!(received > 1_000_000, "{received}");
        assert!(
            (received * 103 / 100..received * 115 / 100 + 100_000).contains(&delivered),
            "{delivered} of {received}"
        );
    });
}

#[test]
fn the_lateness_limit_can_be_set() {
    undisturbed(|| {
        let Some(turn) = turn() else { return };
        // No machine delivers a packet within 1 ns.
        let near = format!("{} test $LONGHAUL_PEER --bytes 100kB", env!("CARGO_BIN_EXE_longhaul"));
        let near = ["--", near.as_str()];
        let strict =
            turn.longhaul(&[&["lab", "path", "--quiet", "--lateness", "1ns"], &near[..]].concat()).output().unwrap();
        let message = text(&strict.stderr);
        assert!(strict.status.code() == Some(1) && message.contains("INVALID"), "{message}");
        assert!(path(&turn, &near).status.success());
        for wrong in ["soon", "0"] {
            let refused = turn.longhaul(&["lab", "path", "--lateness", wrong, "--", "true"]).output().unwrap();
            let message = text(&refused.stderr);
            assert!(refused.status.code() == Some(2) && message.contains("--lateness"), "{message}");
        }
    });
}

#[test]
fn a_command_can_run_at_the_far_end() {
    let Some(turn) = turn() else { return };
    let directory = tempfile::tempdir().unwrap();
    let note = directory.path().join("far");
    let far =
        format!("hostname > {0}.part; echo $LONGHAUL_PEER >> {0}.part; mv {0}.part {0}; sleep 100", note.display());
    let near = format!("while ! test -e {}; do sleep 0.01; done", note.display());
    assert!(path(&turn, &["--far", &far, "--", &near]).status.success());
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "far\n10.0.0.1\n");
}

#[test]
fn a_failed_command_at_the_far_end_makes_the_run_invalid() {
    let Some(turn) = turn() else { return };
    let output = path(&turn, &["--far", "echo far is broken >&2; exit 3", "--", "sleep 0.5"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("far is broken"), "{}", text(&output.stderr));
}

#[test]
fn iperf3_runs_over_a_path_where_it_is_installed() {
    undisturbed(|| {
        if Command::new("iperf3").arg("--version").output().is_err() {
            return;
        }
        let Some(turn) = turn() else { return };
        // A client that starts before the server prints an error; version 3.12 may end with status 0 nevertheless.
        let near = "until out=$(iperf3 -c $LONGHAUL_PEER -t 1 -J); echo \"$out\" | grep -q sum_received; do sleep 0.1; done; echo \"$out\"";
        let shown = path(&turn, &["--rate", "20Mb/s", "--rtt", "10ms", "--far", "exec iperf3 -s", "--", near]);
        assert!(shown.status.success(), "{}", text(&shown.stderr));
        let shown = text(&shown.stdout);
        let result: serde_json::Value =
            serde_json::from_str(&shown[shown.rfind("\n{").map_or(0, |at| at + 1)..]).unwrap();
        let bits = result["end"]["sum_received"]["bits_per_second"].as_f64().unwrap();
        // The maximum is 20 Mb/s x 1448 / 1538; a busy machine reaches less.
        assert!((5e6..19.3e6).contains(&bits), "{bits}");
    });
}
