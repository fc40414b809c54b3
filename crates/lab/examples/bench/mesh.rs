//! A network of 50 nodes and 100 slow links, as a user would run it.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Bench;

const NODES: usize = 50;

/// Length of a chord in nodes of the ring.
const CHORD: usize = 7;

/// A ring with a chord from each node. Each link has one flow, alternating between TCP and UDP at nine tenths of the
/// rate.
fn scenario(seconds: u64) -> Result<String, std::fmt::Error> {
    let mut text = format!("about = \"100 links at once\"\nduration = \"{seconds}s\"\n");
    let names: Vec<String> = (0..NODES).map(|n| format!("\"n{n}\"")).collect();
    writeln!(text, "nodes = [{}]", names.join(", "))?;
    writeln!(text, "[defaults]\nrate = \"1Mb/s\"\ndelay = \"5ms\"\nqueue = \"50ms\"")?;
    let links = (0..NODES).flat_map(|n| [(n, (n + 1) % NODES), (n, (n + CHORD) % NODES)]);
    for (number, (a, b)) in links.enumerate() {
        writeln!(text, "[links.l{number}]\nbetween = [\"n{a}\", \"n{b}\"]")?;
        writeln!(text, "[flows.f{number}]\nfrom = \"n{a}\"\nto = \"n{b}\"")?;
        if number % 2 == 0 {
            writeln!(text, "congestion_control = \"cubic\"")?;
        } else {
            writeln!(text, "protocol = \"udp\"\nrate = \"900kb/s\"")?;
        }
    }
    Ok(text)
}

pub(crate) fn run(bench: &Bench) -> io::Result<()> {
    println!("\n## 50 nodes, 100 links of 1 Mb/s with a flow each\n");
    let directory = std::env::temp_dir().join(format!("longhaul-bench-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let outcome = run_in(bench, &directory);
    fs::remove_dir_all(&directory)?;
    outcome
}

fn run_in(bench: &Bench, directory: &std::path::Path) -> io::Result<()> {
    let file = directory.join("mesh.toml");
    fs::write(&file, scenario(20).map_err(io::Error::other)?)?;
    let out = directory.join("out");
    let mut command = Command::new(&bench.binary);
    command.args(["lab", "run"]).arg(&file).arg("--out").arg(&out);
    let output = command.stdin(Stdio::null()).output()?;
    let records = find(&out)?;
    let of = |kind: &'static str| records.iter().filter(move |r| r["record"] == kind);
    let Some(end) = of("run_end").next() else {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(format!("the run has no end: {errors}")));
    };
    let ms = |ns: &Value| ns.as_f64().unwrap_or(f64::NAN) / 1e6;
    let machine = of("engine").filter_map(|e| e["machine_cpu"].as_f64()).fold(0.0, f64::max);
    let reasons = end["verdict"]["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let flows = end["flows"].as_array().into_iter().flatten();
    let slowest = flows.filter_map(|f| f["throughput_bps"].as_f64()).fold(f64::INFINITY, f64::min);
    println!("| verdict | lateness p50, p99, max ms | busiest worker | machine, at most | slowest flow kb/s |");
    println!("|---|--:|--:|--:|--:|");
    println!(
        "| {} {} | {:.3}, {:.3}, {:.3} | {:.0} % | {:.0} % | {:.0} |",
        end["verdict"]["state"].as_str().unwrap_or_default(),
        reasons.collect::<Vec<_>>().join("; "),
        ms(&end["lateness"]["p50_ns"]),
        ms(&end["lateness"]["p99_ns"]),
        ms(&end["lateness"]["max_ns"]),
        end["busiest_worker"].as_f64().unwrap_or(f64::NAN) * 100.0,
        machine * 100.0,
        slowest / 1e3,
    );
    Ok(())
}

/// All records that a lab run wrote.
fn find(out: &std::path::Path) -> io::Result<Vec<Value>> {
    let mut records = Vec::new();
    for entry in fs::read_dir(out)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "jsonl") {
            records.extend(fs::read_to_string(&path)?.lines().filter_map(|l| serde_json::from_str(l).ok()));
        }
    }
    Ok(records)
}
