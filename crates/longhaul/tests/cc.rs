//! `longhaul cc`, checked against the kernel's list of congestion controls.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests are tests too; notes of skipped ones")]

mod common;

use std::process::{Command, Output};

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

/// Names of controls that are unique to this process; the controls are unloaded when dropped.
struct OwnControls(Vec<String>);

impl OwnControls {
    /// Returns `None`, with a note, without root.
    fn new(test: char, families: &[&str]) -> Option<Self> {
        or_skip(kernel::new_namespace())?;
        Some(Self(families.iter().map(|f| format!("{f}_{}{test}", std::process::id())).collect()))
    }
}

impl Drop for OwnControls {
    fn drop(&mut self) {
        for name in self.0.iter().filter(|n| has(n)) {
            let _ = cc(&["unload", name]);
        }
    }
}

#[test]
fn a_loaded_control_is_listed_with_its_parameters_until_it_is_unloaded() {
    let Some(own) = OwnControls::new('a', &["fast", "htcp"]) else { return };
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
    let second = cc(&["unload", fast]);
    assert!(second.status.code() == Some(2) && text(&second.stderr).contains("longhaul has loaded no fast"));
}

#[test]
fn invalid_arguments_are_reported_and_nothing_is_loaded() {
    let Some(own) = OwnControls::new('b', &["fast", "htcp"]) else { return };
    let [fast, htcp] = own.0.as_slice() else { panic!() };
    for (arguments, message) in [
        (vec!["load", "cubic_x"], "use fast or htcp"),
        (vec!["load", fast, "--param", "alpha=-1"], "alpha=-1: write a whole number of packets from 1 to"),
        (vec!["load", fast, "--param", "alpha"], "expected KEY=VALUE"),
        (vec!["load", fast, htcp, "--param", "alpha=20"], "htcp has no parameter `alpha`; it has rtt_scaling"),
        (vec!["load", "fast_with_a_long_name"], "at most 15 characters"),
        (vec!["load", "fast-a200"], "with a suffix such as fast_a200"),
        (vec!["show", "vegas-of-old"], "unknown congestion control vegas-of-old; known: "),
        (vec!["unload", "../../ops"], "longhaul has loaded no ../../ops"),
    ] {
        let refused = cc(&arguments);
        let error = text(&refused.stderr);
        assert!(refused.status.code() == Some(2) && error.contains(message), "{arguments:?}: {error}");
    }
    assert!(!has(fast) && !has(htcp), "no control is loaded if the parameter of one is invalid");
}

/// Loads a control in a mount namespace that ends with the loader and has its own /sys, as under `ip netns exec`.
fn load_in_ended_namespace(name: &str) {
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--mount",
        "sh",
        "-c",
        "umount -l /sys && mount -t sysfs sysfs /sys && exec \"$0\" cc load \"$1\" -p alpha=200",
    ]);
    let loaded = unshare.args([env!("CARGO_BIN_EXE_longhaul"), name]).output().unwrap();
    assert!(loaded.status.success(), "{}", text(&loaded.stderr));
}

#[test]
fn a_control_loaded_in_an_ended_mount_namespace_is_listed_and_unloaded() {
    let Some(own) = OwnControls::new('m', &["fast"]) else { return };
    let [fast] = own.0.as_slice() else { panic!() };
    load_in_ended_namespace(fast);
    assert!(has(fast), "the registration belongs to the whole host");
    let listed = controls(&cc(&["list", "--json"]));
    let found = listed.iter().find(|c| c.name == *fast).unwrap();
    assert_eq!(found.origin, CcOrigin::Longhaul);
    assert!(found.parameters.iter().any(|p| p.key == "alpha" && p.value == "200"), "{:?}", found.parameters);
    assert!(found.age_s.is_some_and(|s| s < 600.0), "{:?}", found.age_s);
    let twice = cc(&["load", fast]);
    assert!(text(&twice.stderr).contains("is loaded already"), "{}", text(&twice.stderr));
    let unloaded = cc(&["unload", fast]);
    assert!(unloaded.status.success(), "{}", text(&unloaded.stderr));
    assert!(!has(fast));
}

#[test]
fn gc_unloads_the_control_of_an_ended_lab() {
    if OwnControls::new('g', &[]).is_none() {
        return;
    }
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    // Named like the control of a lab, by the lab's process number.
    let (ended_control, running_control) = (format!("fast_{}_0", ended.id()), format!("fast_{}_0", std::process::id()));
    let _own = OwnControls(vec![ended_control.clone(), running_control.clone()]);
    load_in_ended_namespace(&ended_control);
    load_in_ended_namespace(&running_control);
    let state = tempfile::tempdir().unwrap();
    let gc = longhaul().args(["lab", "gc"]).env("LONGHAUL_STATE", state.path()).output().unwrap();
    assert!(gc.status.success(), "{}", text(&gc.stderr));
    assert!(
        text(&gc.stdout).contains(&format!("unloaded the congestion control {ended_control}\n")),
        "{}",
        text(&gc.stdout)
    );
    assert!(!has(&ended_control) && has(&running_control), "the control of a running process stays");
    // It can be unloaded by its name.
    assert!(cc(&["unload", &running_control]).status.success() && !has(&running_control));
}
