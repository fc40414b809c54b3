//! `longhaul choose`.

use results::choose::{Candidate, ChooseRecord, Decision};
use testbed::{undecided, undisturbed};

use crate::common::lab::{Turn, turn};
use crate::common::{Serve, longhaul, text};

fn parse(json: &str) -> (Vec<Candidate>, Decision) {
    let mut candidates = Vec::new();
    let mut decision = None;
    for line in json.lines() {
        match serde_json::from_str(line).unwrap() {
            ChooseRecord::Start(_) => {}
            ChooseRecord::Candidate(c) => candidates.push(c),
            ChooseRecord::Decision(d) => decision = Some(d),
        }
    }
    (candidates, decision.unwrap())
}

/// Output of the experiment's command, with `more` in the experiment's file and these changes. `None` if the emulation
/// was not valid, so that the result has no meaning.
fn chosen(turn: &Turn, more: &str, changes: &[&str]) -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let experiment = include_str!("../../../../scenarios/choose.toml");
    let file = directory.path().join("choose.toml");
    std::fs::write(&file, format!("{experiment}\n{more}")).unwrap();
    // The programs of the experiment find longhaul by its name.
    let built = std::path::Path::new(env!("CARGO_BIN_EXE_longhaul")).parent().unwrap();
    let path = format!("{}:{}", built.display(), std::env::var("PATH").unwrap());
    let mut command = turn.longhaul(&[
        "lab",
        "run",
        &file.display().to_string(),
        "--variant",
        "short",
        "--out",
        &out.display().to_string(),
    ]);
    let output = command.args(changes.iter().flat_map(|c| ["--set", c])).env("PATH", path).output().unwrap();
    println!("{}{}", text(&output.stdout), text(&output.stderr));
    let printed = std::fs::read_to_string(out.join("run-0/choose.out")).unwrap();
    println!("{printed}");
    if output.status.code() == Some(1) {
        undecided("no run was valid");
        return None;
    }
    Some(printed)
}

#[test]
fn the_faster_link_wins_over_the_nearer_host() {
    undisturbed(|| {
        let Some(turn) = turn() else { return };
        let Some(printed) = chosen(&turn, "", &[]) else { return };
        assert!(printed.ends_with("winner: far\n"), "{printed}");
        assert!(printed.contains("Best: far") && printed.contains("Connection refused"), "{printed}");
    });
}

#[test]
fn two_equal_paths_stay_undecided_and_a_slower_one_gets_fewer_probes() {
    undisturbed(|| {
        let Some(turn) = turn() else { return };
        let run = chosen(
            &turn,
            "[programs.serve-gone]\nnode = \"gone\"\ncommand = \"longhaul serve\"\n",
            &[
                // The whole budget for two of them, and the minimum of four runs for the third.
                "duration=20s",
                "links.near.rate=60Mb/s",
                "links.near.delay=20ms",
                "links.gone.rate=10Mb/s",
                "programs.choose.command=\"longhaul choose near far gone --json --then 'echo winner:'; echo status $?\"",
            ],
        );
        let Some(printed) = run else { return };
        let (records, rest): (Vec<&str>, Vec<&str>) = printed.lines().partition(|line| line.starts_with('{'));
        // The belief about a path is at least 3 % wide: a path would have to appear 7 % faster to be chosen at 0.95.
        let (candidates, decision) = parse(&records.join("\n"));
        let of = |name: &str| candidates.iter().find(|c| c.name == name).unwrap();
        assert!(of("gone").bytes * 2 < of("near").bytes.min(of("far").bytes), "{candidates:?}");
        assert!(of("gone").probability < 0.01 && decision.expected_loss < 0.05, "{candidates:?} {decision:?}");
        let (status, winner) = (rest.contains(&"status 1"), rest.iter().any(|line| line.starts_with("winner:")));
        assert_eq!((status, winner), (!decision.decided, decision.decided), "{rest:?}");
        assert!(!decision.decided, "{decision:?}");
    });
}

#[test]
fn a_budget_below_one_train_leaves_the_choice_undecided_and_runs_no_command() {
    let server = Serve::start(&[]);
    let port = server.port.to_string();
    let output = longhaul()
        .args(["choose", "127.0.0.1", "127.0.0.1@127.0.0.1", "--port", &port, "--json"])
        .args(["--budget", "10kB", "--then", "echo never"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let (candidates, decision) = parse(&text(&output.stdout));
    assert!(!decision.decided && candidates.len() == 2);
    // The first train has ten packets of 1500 bytes.
    assert!(
        candidates.iter().all(|c| c.bytes == 0 && c.probability == 0.0 && c.round_trip_ns.is_some()),
        "{candidates:?}"
    );
    assert_eq!((decision.best, decision.bytes), (None, 0));
}

#[test]
fn the_command_gets_the_name_as_an_argument_and_its_status_is_returned() {
    let server = Serve::start(&[]);
    let port = server.port.to_string();
    // 192.0.2.1 (RFC 5737) is unassigned, and unreachable from 127.0.0.1.
    let output = longhaul()
        .args([
            "choose",
            "localhost",
            "192.0.2.1@127.0.0.1",
            "-4",
            "--port",
            &port,
            "--then",
            "printf '%s;' \"$1\"; exit 7",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).ends_with("localhost;"), "{}", text(&output.stdout));
}

#[test]
fn invalid_arguments_are_refused_with_a_reason() {
    for (arguments, parts) in [
        (&["alone"][..], "2 values required"),
        (&["a", "b@eth0"], "address of this host"),
        (&["a", "a"], "listed twice"),
        (&["a", "b", "--confidence", "1.5"], "less than 1"),
        (&["127.0.0.1", "127.0.0.1@127.0.0.1", "--port", "1"], "no candidate is reachable"),
    ] {
        let output = longhaul().arg("choose").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(parts), "{arguments:?}: {}", text(&output.stderr));
    }
}
