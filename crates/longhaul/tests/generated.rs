//! Files generated from the command definition, and help texts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

mod common;

use std::path::Path;

use common::{longhaul, text};

/// Compares a text with the committed one; `LONGHAUL_BLESS=1 cargo test` rewrites it.
fn assert_committed(name: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help").join(name);
    if std::env::var_os("LONGHAUL_BLESS").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert_eq!(made, committed, "the help changed: review it and run `LONGHAUL_BLESS=1 cargo test -p longhaul`");
}

#[test]
fn the_help_matches_the_reviewed_snapshots() {
    for (name, arguments) in [
        ("longhaul.txt", &["--help"][..]),
        ("serve.txt", &["serve", "--help"]),
        ("test.txt", &["test", "--help"]),
        ("report.txt", &["report", "--help"]),
        ("generate.txt", &["generate", "--help"]),
        ("lab.txt", &["lab", "--help"]),
        ("lab-run.txt", &["lab", "run", "--help"]),
        ("lab-merge.txt", &["lab", "merge", "--help"]),
        ("lab-compare.txt", &["lab", "compare", "--help"]),
        ("lab-path.txt", &["lab", "path", "--help"]),
        ("lab-shell.txt", &["lab", "shell", "--help"]),
        ("lab-status.txt", &["lab", "status", "--help"]),
        ("lab-gc.txt", &["lab", "gc", "--help"]),
        ("lab-trace.txt", &["lab", "trace", "--help"]),
        ("lab-virtual.txt", &["lab", "virtual", "--help"]),
        ("overlay.txt", &["overlay", "--help"]),
        ("overlay-init.txt", &["overlay", "init", "--help"]),
        ("overlay-up.txt", &["overlay", "up", "--help"]),
        ("overlay-peer-add.txt", &["overlay", "peer", "add", "--help"]),
        ("overlay-ca.txt", &["overlay", "ca", "--help"]),
        ("overlay-ca-init.txt", &["overlay", "ca", "init", "--help"]),
        ("overlay-ca-sign.txt", &["overlay", "ca", "sign", "--help"]),
        ("overlay-replay.txt", &["overlay", "replay", "--help"]),
        ("overlay-status.txt", &["overlay", "status", "--help"]),
        ("overlay-routes.txt", &["overlay", "routes", "--help"]),
        ("overlay-flows.txt", &["overlay", "flows", "--help"]),
        ("overlay-why.txt", &["overlay", "why", "--help"]),
        ("overlay-events.txt", &["overlay", "events", "--help"]),
        ("overlay-reload.txt", &["overlay", "reload", "--help"]),
        ("overlay-down.txt", &["overlay", "down", "--help"]),
        ("shape.txt", &["shape", "--help"]),
        ("shape-plan.txt", &["shape", "plan", "--help"]),
        ("shape-apply.txt", &["shape", "apply", "--help"]),
        ("shape-constant.txt", &["shape", "constant", "--help"]),
        ("shape-show.txt", &["shape", "show", "--help"]),
        ("shape-confirm.txt", &["shape", "confirm", "--help"]),
        ("shape-clear.txt", &["shape", "clear", "--help"]),
        ("cc.txt", &["cc", "--help"]),
        ("cc-list.txt", &["cc", "list", "--help"]),
        ("cc-load.txt", &["cc", "load", "--help"]),
        ("cc-unload.txt", &["cc", "unload", "--help"]),
        ("cc-show.txt", &["cc", "show", "--help"]),
        ("model.txt", &["model", "--help"]),
        ("estimate.txt", &["estimate", "--help"]),
        ("evaluate.txt", &["evaluate", "--help"]),
        ("choose.txt", &["choose", "--help"]),
        ("history.txt", &["history", "--help"]),
        ("trace.txt", &["trace", "--help"]),
        ("tune.txt", &["tune", "--help"]),
        ("tune-check.txt", &["tune", "check", "--help"]),
        ("tune-apply.txt", &["tune", "apply", "--help"]),
        ("tune-undo.txt", &["tune", "undo", "--help"]),
        ("tune-verify.txt", &["tune", "verify", "--help"]),
    ] {
        let out = longhaul().args(arguments).output().unwrap();
        let help = text(&out.stdout);
        assert!(help.lines().all(|l| l.chars().count() <= 110), "{name} is wider than 110 columns");
        assert_committed(name, &help);
    }
}

#[test]
fn man_pages_of_file_formats_have_all_keys_of_the_reference() {
    let directory = tempfile::tempdir().unwrap();
    let out = longhaul().args(["generate", "man"]).arg(directory.path()).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    for (name, page, keys_min) in [
        ("longhaul-overlay.5", "overlay.md", 100),
        ("longhaul-experiment.5", "experiment-file.md", 50),
        ("longhaul-policy.5", "policy-file.md", 20),
    ] {
        let man = std::fs::read_to_string(directory.path().join(name)).unwrap().replace("\\-", "-");
        let reference = std::fs::read_to_string(docs.join(page)).unwrap();
        // Keys are the code in the first column of a table.
        let first = |line: &str| line.strip_prefix("| `").and_then(|rest| rest.split('`').next()).map(str::to_owned);
        // A code span that starts with a backtick is not a key.
        let keys: Vec<String> = reference.lines().filter_map(first).filter(|key| !key.is_empty()).collect();
        assert!(keys.len() > keys_min, "{page}: {}", keys.len());
        for key in keys {
            assert!(man.contains(&format!("\\fB{key}\\fR")), "{key} of {page}");
        }
        for heading in reference.lines().filter_map(|l| l.strip_prefix("## ")) {
            let heading = heading.replace('`', "").to_uppercase();
            assert!(man.contains(&heading), "{heading} of {page}");
        }
        assert!(!man.contains("](") && !man.contains("**"), "{name} has Markdown syntax");
    }
}

#[test]
fn man_pages_and_completions_have_every_option() {
    let directory = tempfile::tempdir().unwrap();
    for what in ["man", "completions"] {
        let out = longhaul().args(["generate", what]).arg(directory.path()).output().unwrap();
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    // roff writes a hyphen as `\-`.
    let man = read("longhaul-test.1").replace("\\-", "-");
    let bash = read("longhaul.bash");
    let help = text(&longhaul().args(["test", "--help"]).output().unwrap().stdout);
    let options: Vec<&str> = help
        .split(|c: char| c.is_whitespace() || ",[=]".contains(c))
        .filter(|w| w.starts_with("--") && w.len() > 4)
        .collect();
    assert!(options.len() > 20);
    for option in options {
        let option = option.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        assert!(man.contains(option), "{option} is not in the man page");
        assert!(bash.contains(option), "{option} is not in the completions");
    }
    for name in ["longhaul.1", "longhaul-serve.1", "_longhaul", "longhaul.fish"] {
        assert!(!read(name).is_empty());
    }
}
