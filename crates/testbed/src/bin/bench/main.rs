//! Benchmark of longhaul and iperf3 in pairs on one network, and of the memory of a long test. `make bench` runs it as
//! root.
//!
//! Usage: `bench LONGHAUL-BINARY`. The variables BENCH_PAIRS (5), BENCH_SECONDS (5) and BENCH_MEMORY_SECONDS (600, 0
//! disables the memory test) set the extent.
#![allow(clippy::print_stdout, reason = "the figures are this program's output")]

mod compare;
mod iperf3;
mod longhaul;
mod process;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use kernel::Usage;
use testbed::{Lan, or_skip};

/// One run of one tool.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    /// Goodput at the receiver in bits per second.
    bps: f64,
    /// CPU seconds of the whole process at each end, per 10^9 bytes received.
    client_cpu_s_per_gb: f64,
    server_cpu_s_per_gb: f64,
    /// Blocks written, and round trips measured; zero for a tool that does not measure them.
    blocks: u64,
    round_trips: u64,
}

impl Run {
    fn new(bps: f64, bytes: f64, client: Usage, server: Usage) -> Self {
        let per_gb = |u: Usage| u.cpu().as_secs_f64() / (bytes / 1e9);
        Self { bps, client_cpu_s_per_gb: per_gb(client), server_cpu_s_per_gb: per_gb(server), ..Self::default() }
    }
}

/// Task of both tools.
#[derive(Debug, Clone, Copy)]
struct Task {
    name: &'static str,
    streams: u32,
    zero_copy: bool,
    seconds: u64,
}

/// Name, number of streams, zero copy.
const LOADS: [(&str, u32, bool); 4] = [
    ("1 stream", 1, false),
    ("8 streams", 8, false),
    ("1 stream, zero copy", 1, true),
    ("8 streams, zero copy", 8, true),
];

/// Network and binary of a benchmark.
struct Bench {
    lan: Lan,
    binary: PathBuf,
    server: IpAddr,
}

fn number(variable: &str, default: u64) -> io::Result<u64> {
    match std::env::var(variable) {
        Ok(text) => text.parse().map_err(|e| io::Error::other(format!("{variable}={text}: {e}"))),
        Err(_) => Ok(default),
    }
}

fn run(binary: PathBuf) -> io::Result<()> {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return Err(io::Error::other("nothing was measured")) };
    let server = lan.server_ip();
    let bench = Bench { lan, binary, server };
    let (pairs, seconds) = (number("BENCH_PAIRS", 5)?, number("BENCH_SECONDS", 5)?);
    conditions(pairs, seconds)?;
    if pairs > 0 {
        compare::print_head();
    }
    for (name, streams, zero_copy) in LOADS.into_iter().filter(|_| pairs > 0) {
        compare::print(&bench, Task { name, streams, zero_copy, seconds }, pairs)?;
    }
    match number("BENCH_MEMORY_SECONDS", 600)? {
        0 => Ok(()),
        seconds => memory(&bench, seconds),
    }
}

/// Prints the conditions of the measurement.
fn conditions(pairs: u64, seconds: u64) -> io::Result<()> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model =
        cpu.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or("unknown").trim_matches(['\t', ':', ' ']);
    let cores = std::thread::available_parallelism()?;
    println!("{cores} CPUs of {model}; Linux {}", read("/proc/sys/kernel/osrelease").trim());
    println!("load before: {}", read("/proc/loadavg").trim());
    println!(
        "two namespaces on a veth pair, cubic, blocks of 64 KiB; {pairs} pairs of {seconds} s, in turns; medians\n"
    );
    Ok(())
}

/// Measures resident sets at the start and the end of a long test. Both ends report theirs (the start precedes the use
/// of the load's buffers). The benchmark also reads them under full load and shortly before the end.
fn memory(bench: &Bench, seconds: u64) -> io::Result<()> {
    let task = Task { name: "memory", streams: 1, zero_copy: false, seconds };
    let both = longhaul::start(bench, task)?;
    let tenth = Duration::from_secs(seconds) / 10;
    std::thread::sleep(tenth);
    let early = [both.client.resident_mib(), both.server.resident_mib()];
    std::thread::sleep(tenth * 8);
    let late = [both.client.resident_mib(), both.server.resident_mib()];
    let end = both.finish()?.0;
    let mib = |key: &str| end["memory"][key].as_f64().unwrap_or(0.0) / 1_048_576.0;
    println!("\nresident set in MiB over {seconds} s, 1 stream:\n");
    println!("| end | start of load | after a tenth | after nine tenths | end of load |");
    println!("|---|--:|--:|--:|--:|");
    for (i, who) in ["client", "server"].into_iter().enumerate() {
        let (start, stop) = (mib(&format!("{who}_rss_start_bytes")), mib(&format!("{who}_rss_end_bytes")));
        println!("| {who} | {start:.1} | {:.1} | {:.1} | {stop:.1} |", early[i], late[i]);
    }
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
            eprintln!("bench: {e}");
            ExitCode::from(2)
        }
    }
}

/// Maximum run time beyond the duration of the load.
const OVERHEAD_MAX: Duration = Duration::from_secs(40);
