//! Benchmarks of the link engine: comparison with a copy loop in pairs, exactness, and a network of 100 links. `make
//! bench` runs it as root after the comparison with iperf3.
//!
//! Usage: `bench LONGHAUL-BINARY`. LAB_BENCH_PAIRS (5) is the number of pairs and LAB_BENCH_SECONDS (4) their duration;
//! LAB_BENCH_ONLY (all) selects some of `tcp`, `udp`, `steady`, `exact`, `delay`, `mesh`, separated by commas.
#![allow(clippy::print_stdout, reason = "the figures are this program's output")]

mod copy;
mod figures;
mod mesh;
mod path;
mod tcp;
mod udp;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use link::{Queue, QueueLimit, Settings};

/// Extent of the benchmarks.
struct Bench {
    binary: PathBuf,
    pairs: u64,
    seconds: Duration,
}

/// Settings of an engine's link with delay only and without a limit.
fn engine(delay: Duration) -> Settings {
    Settings { delay, queue: Queue { limit: QueueLimit::Unlimited, ..Queue::default() }, ..Settings::default() }
}

fn number(variable: &str, default: u64) -> io::Result<u64> {
    match std::env::var(variable) {
        Ok(text) => text.parse().map_err(|e| io::Error::other(format!("{variable}={text}: {e}"))),
        Err(_) => Ok(default),
    }
}

type Section = fn(&Bench) -> io::Result<()>;

const SECTIONS: [(&str, Section); 6] = [
    ("tcp", tcp::capacity),
    ("udp", udp::capacity),
    ("steady", udp::steady),
    ("exact", tcp::exactness),
    ("delay", udp::delay),
    ("mesh", mesh::run),
];

fn run(binary: PathBuf) -> io::Result<()> {
    let bench = Bench {
        binary,
        pairs: number("LAB_BENCH_PAIRS", 5)?,
        seconds: Duration::from_secs(number("LAB_BENCH_SECONDS", 4)?.max(1)),
    };
    let only = std::env::var("LAB_BENCH_ONLY").unwrap_or_default();
    let wanted: Vec<&str> = only.split(',').filter(|w| !w.is_empty()).collect();
    if let Some(unknown) = wanted.iter().find(|w| !SECTIONS.iter().any(|(name, _)| name == *w)) {
        return Err(io::Error::other(format!("LAB_BENCH_ONLY: there is no {unknown}")));
    }
    conditions(&bench)?;
    for (name, section) in SECTIONS {
        if wanted.is_empty() || wanted.contains(&name) {
            section(&bench)?;
        }
    }
    println!("\nload after: {}", read("/proc/loadavg"));
    Ok(())
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Prints the conditions that affect the results.
fn conditions(bench: &Bench) -> io::Result<()> {
    let cpu = read("/proc/cpuinfo");
    let model =
        cpu.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or("unknown").trim_matches(['\t', ':', ' ']);
    let cores = std::thread::available_parallelism()?;
    println!("{cores} CPUs of {model}; Linux {}", read("/proc/sys/kernel/osrelease"));
    println!("load before: {}", read("/proc/loadavg"));
    println!(
        "{} pairs of {:?} in turns, medians; one moving thread, SCHED_FIFO where allowed",
        bench.pairs, bench.seconds
    );
    Ok(())
}

#[allow(clippy::print_stderr, reason = "the one place where an error reaches the user")]
fn main() -> ExitCode {
    let Some(binary) = std::env::args_os().nth(1) else {
        eprintln!("usage: bench LONGHAUL-BINARY");
        return ExitCode::from(2);
    };
    match run(binary.into()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("lab bench: {e}");
            ExitCode::from(2)
        }
    }
}
