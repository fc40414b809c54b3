//! `longhaul tune` in separate namespaces.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use common::lab::turn;
use common::{longhaul, text};
use results::tune::{ChangeOutcome, Comparison, Judgement, TuneRecord};
use testbed::{Namespace, undisturbed};

const SCHEMA: &str = include_str!("../../../docs/schema/longhaul.tune-2.schema.json");
const NOBODY_ID: u32 = 65_534;

fn namespace() -> Option<Namespace> {
    Namespace::new().inspect_err(|e| println!("skipped: network namespaces need root: {e}")).ok()
}

/// Runs the binary in a namespace with a separate journal.
fn tune(at: &Namespace, state: &std::path::Path, arguments: &[&str]) -> Output {
    let mut command = longhaul();
    command.arg("tune").args(arguments).env("LONGHAUL_STATE", state);
    at.run(|| command.output().unwrap()).unwrap()
}

fn records(output: &Output) -> Vec<TuneRecord> {
    let validator = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    let lines = text(&output.stdout);
    let parsed = lines.lines().map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(validator.is_valid(&value), "{line}");
        serde_json::from_value(value).unwrap()
    });
    parsed.collect()
}

/// Returns every IPv4 sysctl of the namespace with its value.
fn sysctls(at: &Namespace) -> BTreeMap<String, String> {
    let listed = at.run(|| {
        let files = fs::read_dir("/proc/sys/net/ipv4").unwrap().map(|f| f.unwrap().path());
        files.filter_map(|f| Some((f.display().to_string(), fs::read_to_string(&f).ok()?))).collect()
    });
    listed.unwrap()
}

#[test]
fn the_published_schema_matches_the_code() {
    let directory = tempfile::tempdir().unwrap();
    assert!(longhaul().args(["generate", "schema"]).arg(directory.path()).status().unwrap().success());
    let made = fs::read_to_string(directory.path().join("longhaul.tune-2.schema.json")).unwrap();
    assert_eq!(made, SCHEMA, "run `make docs`");
}

#[test]
fn a_check_shows_the_kernels_values_and_changes_nothing() {
    let Some(at) = namespace() else { return };
    let state = tempfile::tempdir().unwrap();
    let before = sysctls(&at);
    let output = tune(&at, state.path(), &["check", "--rate", "10Gb/s", "--rtt", "100ms", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let found = records(&output);
    let rows: Vec<_> =
        found.iter().filter_map(|r| if let TuneRecord::Row(row) = r { Some(row) } else { None }).collect();
    assert!(rows.len() > 20);
    let rmem = rows.iter().find(|r| r.key == "net.ipv4.tcp_rmem").unwrap();
    let value = at.run(|| Command::new("sysctl").args(["-n", "net.ipv4.tcp_rmem"]).output().unwrap()).unwrap();
    assert_eq!(rmem.found.as_ref().unwrap(), &text(&value.stdout).split_whitespace().collect::<Vec<_>>().join(" "));
    assert_eq!(rmem.judgement, Judgement::Change);
    let summary = found.iter().find_map(|r| if let TuneRecord::Summary(s) = r { Some(s) } else { None }).unwrap();
    assert_eq!(summary.to_change as usize, rows.iter().filter(|r| r.judgement == Judgement::Change).count());
    assert_eq!(sysctls(&at), before);
    let shown = tune(&at, state.path(), &["check", "--rate", "10Gb/s"]);
    let page = text(&shown.stdout);
    assert!(page.lines().all(|l| l.chars().count() <= 120), "{page}");
    assert!(page.contains("default; set --rtt") && page.contains("belongs to the host") && !page.contains('\x1b'));
}

#[test]
fn undo_restores_the_exact_values() {
    let Some(at) = namespace() else { return };
    let state = tempfile::tempdir().unwrap();
    let before = sysctls(&at);
    let apply = ["apply", "--rate", "10Gb/s", "--rtt", "100ms", "--json"];
    let planned = tune(&at, state.path(), &[&apply[..], &["--dry-run"]].concat());
    assert!(planned.status.success());
    assert_eq!(sysctls(&at), before, "--dry-run changes nothing");
    let applied = tune(&at, state.path(), &apply);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let changed: Vec<_> = records(&applied)
        .into_iter()
        .filter_map(|r| if let TuneRecord::Change(c) = r { Some(c) } else { None })
        .inspect(|c| assert_eq!(c.outcome, ChangeOutcome::Applied))
        .collect();
    assert!(!changed.is_empty());
    for change in &changed {
        let value = at.run(|| Command::new("sysctl").args(["-n", &change.key]).output().unwrap()).unwrap();
        let value = text(&value.stdout);
        assert!(
            value.split_whitespace().eq(change.after.as_ref().unwrap().split_whitespace()),
            "{}: {value}",
            change.key
        );
    }
    let refused = tune(&at, state.path(), &["apply", "--persist"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("host's own network"), "{}", text(&refused.stderr));
    let undone = tune(&at, state.path(), &["undo"]);
    assert!(undone.status.success() && undone.stderr.is_empty(), "{}", text(&undone.stderr));
    assert_eq!(sysctls(&at), before);
    let again = tune(&at, state.path(), &["undo"]);
    assert!(again.status.success() && text(&again.stderr).contains("nothing to undo"), "{}", text(&again.stderr));
    let unknown = tune(&at, state.path(), &["apply", "net.ipv4.ip_forward"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("no setting `net.ipv4.ip_forward`"), "{}", text(&unknown.stderr));
}

#[test]
fn without_privilege_only_read_only_commands_work() {
    let Some(at) = namespace() else { return };
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let binary = directory.path().join("longhaul");
    fs::copy(env!("CARGO_BIN_EXE_longhaul"), &binary).unwrap();
    let unprivileged = |arguments: &[&str]| {
        let mut command = Command::new(&binary);
        command.arg("tune").args(arguments).uid(NOBODY_ID).gid(NOBODY_ID).current_dir("/");
        command.env("LONGHAUL_STATE", directory.path().join("state"));
        at.run(|| command.output().unwrap()).unwrap()
    };
    for arguments in [&["apply", "--rate", "10Gb/s"][..], &["undo"], &["verify", "127.0.0.1", "--rate", "10Gb/s"]] {
        let refused = unprivileged(arguments);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains("CAP_NET_ADMIN"), "{}", text(&refused.stderr));
        assert!(
            refused.stdout.is_empty() && !directory.path().join("state").exists(),
            "a rejected command must not create state"
        );
    }
    assert_eq!(unprivileged(&["check", "--rate", "10Gb/s"]).status.code(), Some(1));
    assert!(unprivileged(&["apply", "--rate", "10Gb/s", "--dry-run"]).status.success());
}

#[test]
fn verify_finds_a_larger_window_better() {
    undisturbed(|| {
        let Some(turn) = turn() else { return };
        // Half of the buffer is the window: per RTT of 20 ms this gives about 26 Mb/s of the 100. The far end sends,
        // and this end receives with the small window.
        let script = format!(
            "echo 4096 65536 131072 > /proc/sys/net/ipv4/tcp_rmem; \
         {} tune verify far net.ipv4.tcp_rmem --rate 100Mb/s --rtt 20ms -R -C cubic -t 0.4s --pairs 6 --json; \
         code=$?; cat /proc/sys/net/ipv4/tcp_rmem >&2; exit $code",
            env!("CARGO_BIN_EXE_longhaul")
        );
        let mut path = turn.longhaul(&[
            "lab",
            "path",
            "--quiet",
            "--lateness",
            "200ms",
            "--rate",
            "100Mb/s",
            "--rtt",
            "20ms",
            "--",
            &script,
        ]);
        let output = path.output().unwrap();
        let found = records(&output);
        let Some(TuneRecord::Verdict(verdict)) = found.last() else { panic!("{}", text(&output.stderr)) };
        assert_eq!(verdict.comparison, Comparison::Better, "{verdict:?}");
        let (without, with) = (verdict.without_bps.unwrap(), verdict.with_bps.unwrap());
        // The window is at most the whole buffer: 131072 bytes per 20 ms are 52.4 Mb/s.
        assert!(without.mean < 52.5e6 && with.mean > 1.5 * without.mean, "{verdict:?}");
        let order: Vec<bool> =
            found.iter().filter_map(|r| if let TuneRecord::Pair(p) = r { Some(p.with_first) } else { None }).collect();
        assert_eq!(order, [false, true, false, true, false, true], "the order of the pairs must be ABBA");
        assert!(
            text(&output.stderr).contains("4096\t65536\t131072"),
            "the setting must be restored at the end: {}",
            text(&output.stderr)
        );
    });
}

#[test]
fn the_verdict_of_a_change_without_effect_follows_the_interval() {
    undisturbed(|| {
        let Some(turn) = turn() else { return };
        let script = format!(
            "{} tune verify far net.ipv4.tcp_mtu_probing --rate 50Mb/s --rtt 5ms -C cubic -t 1s --pairs 4 --json",
            env!("CARGO_BIN_EXE_longhaul")
        );
        let output = turn
            .longhaul(&[
                "lab",
                "path",
                "--quiet",
                "--lateness",
                "200ms",
                "--rate",
                "50Mb/s",
                "--rtt",
                "5ms",
                "--",
                &script,
            ])
            .output()
            .unwrap();
        let found = records(&output);
        let Some(TuneRecord::Verdict(verdict)) = found.last() else { panic!("{}", text(&output.stderr)) };
        // The confidence interval contains the true value, zero, in only 95 of 100 runs, so the expected verdict
        // depends on it.
        let difference = verdict.difference_bps.unwrap();
        let half = difference.half_width.unwrap();
        assert_eq!(verdict.comparison == Comparison::NoDifference, difference.mean.abs() <= half, "{verdict:?}");
        assert!(difference.mean.abs() < 0.2 * verdict.without_bps.unwrap().mean, "{verdict:?}");
        assert_eq!(output.status.code(), Some(i32::from(verdict.comparison != Comparison::Better)));
    });
}
