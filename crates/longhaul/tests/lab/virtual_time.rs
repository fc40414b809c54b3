//! `--virtual`: a guest kernel. Tests that need one are skipped, with a note, where `longhaul lab virtual setup` has
//! not built it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use results::lab::{LabEngine, LabRecord, Verdict};

use crate::common::lab::read;
use crate::common::{longhaul, text};
use crate::file;

/// Flow of CUBIC over a lossy link: its rate depends on every random number of the kernel and of the link.
const LOSSY: &str = r#"
duration = "3s"
nodes = ["left", "right"]
[links.cable]
between = ["left", "right"]
rate = "10Mb/s"
delay = "10ms"
loss = 0.002
[flows.bulk]
from = "left"
to = "right"
congestion_control = "cubic"
"#;

/// The guest kernel in the user's cache; `None` after a note if there is none.
fn guest() -> Option<PathBuf> {
    let image = guest::Image::in_cache(|name| std::env::var_os(name).map(PathBuf::from));
    match image.and_then(|i| i.kernel()) {
        Ok(kernel) => Some(kernel),
        Err(e) => {
            println!("SKIPPED: {e}");
            None
        }
    }
}

/// A command whose cache is below `directory`, with the guest kernel if one is given.
fn with_cache(directory: &Path, kernel: Option<&Path>) -> Command {
    let cache = directory.join("cache/longhaul/guest");
    fs::create_dir_all(&cache).unwrap();
    if let Some(kernel) = kernel {
        fs::copy(kernel, cache.join("linux")).unwrap();
    }
    let mut command = longhaul();
    command.env("XDG_CACHE_HOME", directory.join("cache")).current_dir(directory);
    command
}

fn assert_refused(output: &Output, part: &str) {
    assert_eq!(output.status.code(), Some(2), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stderr).contains(part), "{}", text(&output.stderr));
}

/// Records of an experiment without what depends on the time of day.
fn run(directory: &Path, kernel: &Path, out: &str) -> Vec<LabRecord> {
    let toml = file(directory, LOSSY);
    let output =
        with_cache(directory, Some(kernel)).args(["lab", "run", &toml, "--virtual", "--out", out]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    let mut records = read(&directory.join(out).join("records.jsonl"));
    for record in &mut records {
        match record {
            LabRecord::Experiment(e) => e.start_utc_s = 0.0,
            LabRecord::Run(r) => r.start_utc_s = None,
            LabRecord::RunEnd(e) => e.start_utc_s = None,
            _ => {}
        }
    }
    records
}

#[test]
fn equal_runs_in_virtual_time_have_equal_records() {
    let Some(kernel) = guest() else { return };
    let directory = tempfile::tempdir().unwrap();
    let first = run(directory.path(), &kernel, "first");
    assert_eq!(first, run(directory.path(), &kernel, "second"));

    let LabRecord::Experiment(experiment) = &first[0] else { panic!("{:?}", first[0]) };
    assert_eq!(experiment.engine, LabEngine::VirtualKernel);
    let end = first.iter().find_map(|r| if let LabRecord::RunEnd(e) = r { Some(e) } else { None }).unwrap();
    assert_eq!(end.verdict, Verdict::Valid);
    // CPU time costs no virtual time: packets are late by the resolution of a timer only.
    assert!(end.lateness.as_ref().unwrap().p99_ns < 10_000, "{:?}", end.lateness);
    // 10 Mb/s on the wire are 9.41 Mb/s of payload: 1448 of 1538 bytes.
    let goodput = end.flows[0].throughput_bps.unwrap();
    assert!((1_000_000..9_420_000).contains(&goodput), "{goodput}");
}

#[test]
fn a_command_in_virtual_time_writes_to_the_working_directory() {
    let Some(kernel) = guest() else { return };
    let directory = tempfile::tempdir().unwrap();
    let command =
        "cut -d' ' -f1 /proc/uptime > before; sleep 30; cut -d' ' -f1 /proc/uptime > after; echo done; exit 3";
    let output = with_cache(directory.path(), Some(&kernel))
        .args(["lab", "path", "--virtual", "--quiet", "--", command])
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(3), "done\n".to_owned()),
        "{}",
        text(&output.stderr)
    );
    let seconds = |name: &str| {
        let content = fs::read_to_string(directory.path().join(name)).unwrap();
        content.trim().parse::<f64>().unwrap()
    };
    let slept = seconds("after") - seconds("before");
    // /proc/uptime counts hundredths of a second.
    assert!((29.98..30.05).contains(&slept), "{slept}");
}

#[test]
fn virtual_time_without_a_guest_kernel_names_the_setup() {
    let directory = tempfile::tempdir().unwrap();
    let toml = file(directory.path(), LOSSY);
    let output = with_cache(directory.path(), None).args(["lab", "run", "--virtual", &toml]).output().unwrap();
    assert_refused(&output, "longhaul lab virtual setup");
}

#[test]
fn a_congestion_control_in_bpf_is_refused_in_virtual_time() {
    let directory = tempfile::tempdir().unwrap();
    let toml = file(directory.path(), &LOSSY.replace("\"cubic\"", "\"fast\""));
    let output = with_cache(directory.path(), None).args(["lab", "run", "--virtual", &toml]).output().unwrap();
    assert_refused(&output, "congestion control fast");
}

#[test]
fn a_file_that_is_no_kernel_is_not_installed() {
    let directory = tempfile::tempdir().unwrap();
    let wrong = directory.path().join("wrong");
    fs::write(&wrong, "#!/bin/sh\nexit 0\n").unwrap();
    let setup = |kernel: &Path| {
        let kernel = format!("--kernel={}", kernel.display());
        with_cache(directory.path(), None).args(["lab", "virtual", "setup", &kernel]).output().unwrap()
    };
    assert_refused(&setup(&wrong), "the guest kernel ended before its task");
    assert_refused(&setup(&directory.path().join("missing")), "missing");
    let left = fs::read_dir(directory.path().join("cache/longhaul/guest")).unwrap().count();
    assert_eq!(left, 0);
    let removed = with_cache(directory.path(), None).args(["lab", "virtual", "remove"]).output().unwrap();
    assert_eq!(text(&removed.stdout), "nothing to remove\n");
    assert!(!directory.path().join("cache/longhaul/guest").exists());
}
