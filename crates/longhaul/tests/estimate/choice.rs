//! `longhaul choose`.

use results::choose::{Candidate, ChooseRecord, Decision};
use testbed::undisturbed;

use crate::common::lab::turn;
use crate::common::{Serve, longhaul, text};

fn told(json: &str) -> (Vec<Candidate>, Decision) {
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

#[test]
fn the_faster_link_wins_over_the_nearer_host() {
    undisturbed(|| {
        let Some(turn) = turn() else { return };
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let file = format!("{}/../../scenarios/choose.toml", env!("CARGO_MANIFEST_DIR"));
        // The programs of the experiment call longhaul by its name.
        let built = std::path::Path::new(env!("CARGO_BIN_EXE_longhaul")).parent().unwrap();
        let path = format!("{}:{}", built.display(), std::env::var("PATH").unwrap());
        let mut command =
            turn.longhaul(&["lab", "run", &file, "--variant", "short", "--out", &out.display().to_string()]);
        command.env("PATH", path).output().unwrap();
        let printed = std::fs::read_to_string(out.join("run-0/choose.out")).unwrap();
        println!("{printed}");
        assert!(printed.ends_with("winner: far\n"), "{printed}");
        assert!(printed.contains("Best: far") && printed.contains("Connection refused"), "{printed}");
    });
}

#[test]
fn a_budget_below_one_train_leaves_it_undecided_and_nothing_follows() {
    let server = Serve::start(&[]);
    let port = server.port.to_string();
    let output = longhaul()
        .args(["choose", "127.0.0.1", "127.0.0.1@127.0.0.1", "--port", &port, "--json"])
        .args(["--budget", "10kB", "--then", "echo never"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let (candidates, decision) = told(&text(&output.stdout));
    assert!(!decision.decided && candidates.len() == 2);
    // The first train has ten packets of 1500 bytes.
    assert!(
        candidates.iter().all(|c| c.bytes == 0 && c.probability == 0.0 && c.round_trip_ns.is_some()),
        "{candidates:?}"
    );
    assert_eq!((decision.best, decision.bytes), (None, 0));
}

#[test]
fn the_command_gets_the_name_as_an_argument_and_its_status_is_the_answer() {
    let server = Serve::start(&[]);
    let port = server.port.to_string();
    // 192.0.2.1 (RFC 5737) is nobody's; from 127.0.0.1 it cannot be reached at all.
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
fn nonsense_is_refused_in_plain_words() {
    for (arguments, words) in [
        (&["alone"][..], "2 values required"),
        (&["a", "b@eth0"], "address of this host"),
        (&["a", "a"], "named twice"),
        (&["a", "b", "--confidence", "1.5"], "less than 1"),
        (&["127.0.0.1", "127.0.0.1@127.0.0.1", "--port", "1"], "no candidate can be reached"),
    ] {
        let output = longhaul().arg("choose").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(words), "{arguments:?}: {}", text(&output.stderr));
    }
}
