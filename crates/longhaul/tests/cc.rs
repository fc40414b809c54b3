//! `longhaul cc`: the kernel's own list of congestion controls is the witness.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests are tests too; notes of skipped ones")]

mod common;

use std::process::Output;

use common::{longhaul, text};
use results::cc::{CcControl, CcOrigin, CcRecord};
use testbed::or_skip;

fn cc(arguments: &[&str]) -> Output {
    longhaul().arg("cc").args(arguments).output().unwrap()
}

fn has(name: &str) -> bool {
    let all = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    all.split_whitespace().any(|n| n == name)
}

fn controls(output: &Output) -> Vec<CcControl> {
    let records = text(&output.stdout);
    let records = records.lines().map(|l| serde_json::from_str::<CcRecord>(l).unwrap());
    records.filter_map(|r| if let CcRecord::Control(c) = r { Some(c) } else { None }).collect()
}

/// Names of this process's own, unloaded at the end; `None`, with a note, without root.
struct Own(Vec<String>);

impl Own {
    fn new(test: char, families: &[&str]) -> Option<Self> {
        or_skip(kernel::new_namespace())?;
        Some(Self(families.iter().map(|f| format!("{f}_{}{test}", std::process::id())).collect()))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        for name in self.0.iter().filter(|n| has(n)) {
            let _ = cc(&["unload", name]);
        }
    }
}

#[test]
fn what_is_loaded_is_listed_with_its_parameters_and_gone_when_it_is_unloaded() {
    let Some(own) = Own::new('a', &["fast", "htcp"]) else { return };
    let [fast, htcp] = own.0.as_slice() else { panic!() };
    let loaded = cc(&["load", fast, "--param", "alpha=200", "--param", "gamma=0.25"]);
    assert!(loaded.status.success(), "{}", text(&loaded.stderr));
    assert!(cc(&["load", htcp, "-p", "rtt_scaling=off"]).status.success());
    assert!(has(fast) && has(htcp));
    let listed = controls(&cc(&["list", "--json"]));
    let found = |name: &str| listed.iter().find(|c| c.name == name).unwrap();
    let value = |name: &str, key: &str| found(name).parameters.iter().find(|p| p.key == key).unwrap().value.clone();
    assert_eq!(
        (value(fast, "alpha"), value(fast, "gamma"), value(htcp, "rtt_scaling")),
        ("200".into(), "0.25".into(), "off".into())
    );
    assert_eq!((found(fast).origin, found("cubic").origin), (CcOrigin::Longhaul, CcOrigin::Kernel));
    assert!(found(fast).age_s.unwrap() < 60.0 && found(fast).unprivileged);
    let shown = text(&cc(&["show", fast]).stdout);
    assert!(shown.contains("FAST TCP") && shown.contains("packets that a flow keeps queued"), "{shown}");

    let twice = cc(&["load", fast]);
    assert_eq!(twice.status.code(), Some(2));
    assert!(text(&twice.stderr).contains("is loaded already"), "{}", text(&twice.stderr));
    assert!(cc(&["unload", fast, htcp]).status.success());
    assert!(!has(fast) && !has(htcp));
    let gone = cc(&["unload", fast]);
    assert!(gone.status.code() == Some(2) && text(&gone.stderr).contains("longhaul has loaded no fast"));
}

#[test]
fn what_is_wrong_is_said_and_nothing_is_loaded() {
    let Some(own) = Own::new('b', &["fast", "htcp"]) else { return };
    let [fast, htcp] = own.0.as_slice() else { panic!() };
    for (arguments, said) in [
        (vec!["load", "cubic_x"], "names are fast or htcp"),
        (vec!["load", fast, "--param", "alpha=-1"], "alpha=-1: write a whole number of packets from 1 to"),
        (vec!["load", fast, "--param", "alpha"], "write KEY=VALUE"),
        (vec!["load", fast, htcp, "--param", "alpha=20"], "htcp has no parameter `alpha`; it has rtt_scaling"),
        (vec!["load", "fast_with_a_long_name"], "at most 15 letters"),
        (vec!["load", "fast-a200"], "go on after an underscore: fast_a200"),
        (vec!["show", "vegas-of-old"], "there is no congestion control vegas-of-old; there are"),
        (vec!["unload", "../../ops"], "longhaul has loaded no ../../ops"),
    ] {
        let refused = cc(&arguments);
        let error = text(&refused.stderr);
        assert!(refused.status.code() == Some(2) && error.contains(said), "{arguments:?}: {error}");
    }
    assert!(!has(fast) && !has(htcp), "the wrong parameter of one kept all from being loaded");
}
