//! Cost of the classifier per packet, by number of rules and flows. Needs root.
//!
//! ```sh
//! cargo run -p bpf --example cost
//! ```
//!
//! Each packet is compared with all rules and matches only the last one, which tests the flow's size. Packets alternate
//! between flows. The kernel measures the time (BPF run-time statistics).
#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::error::Error;

use bpf::{Classifier, Rule, RunTimeStatistics, Settings, counters};
use shaping::{Match, SizeLimits, Traffic};
use tc::Handle;

const RULES: [u16; 5] = [0, 1, 10, 100, 1000];
const FLOWS: [u16; 5] = [1, 10, 100, 1_000, 10_000];
/// Packets per round: at least two for each flow.
const PACKETS: u32 = 20_000;
/// Number of rounds; odd, so that there is a median.
const ROUNDS: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let _statistics = RunTimeStatistics::enable()?;
    println!("nanoseconds a packet, median of {ROUNDS} rounds of {PACKETS} packets\n");
    println!("| rules before the size | {} | one flow, in a row |", FLOWS.map(|n| format!("{n} flows")).join(" | "));
    println!("|--:|{}--:|", "--:|".repeat(FLOWS.len()));
    println!("| no rule at all | {} | {} |", row(&settings(None))?.join(" | "), single_flow(&settings(None))?);
    for rules in RULES {
        let settings = settings(Some(rules));
        println!("| {rules} | {} | {} |", row(&settings)?.join(" | "), single_flow(&settings)?);
    }
    Ok(())
}

/// Settings with `unmet` rules that no packet matches, followed by one rule for elephants and one for mice.
fn settings(unmet: Option<u16>) -> Settings {
    let other = |n: u16| Match { protocol: Some(6), to_ports: vec![n + 1..=n + 1], ..Match::default() };
    let size = |size| Match { size: Some(size), ..Match::default() };
    let matches = unmet
        .map(|unmet| (0..unmet).map(other).chain([size(Traffic::Elephant), size(Traffic::Mouse)]).collect::<Vec<_>>());
    let rules = matches.unwrap_or_default().into_iter().map(|matches| Rule { class: Handle::new(1, 2), matches });
    Settings { rules: rules.collect(), default: Handle::new(1, 1), sizes: SizeLimits::default() }
}

/// Cost by number of flows.
fn row(settings: &Settings) -> Result<Vec<String>, Box<dyn Error>> {
    FLOWS
        .iter()
        .map(|&flows| Ok(median(settings, |classifier| alternate_flows(classifier, flows))?.to_string()))
        .collect()
}

/// Cost while program and flow stay in the CPU's caches.
fn single_flow(settings: &Settings) -> Result<u64, Box<dyn Error>> {
    median(settings, |classifier| {
        classifier.try_frame(&frame(0), PACKETS)?;
        Ok(())
    })
}

fn alternate_flows(classifier: &Classifier, flows: u16) -> Result<(), Box<dyn Error>> {
    let frames: Vec<Vec<u8>> = (0..flows).map(frame).collect();
    for frame in frames.iter().cycle().take(PACKETS as usize) {
        classifier.try_frame(frame, 1)?;
    }
    Ok(())
}

/// Median of the rounds' mean times. An extra round at the start creates the flows.
fn median(
    settings: &Settings,
    round: impl Fn(&Classifier) -> Result<(), Box<dyn Error>>,
) -> Result<u64, Box<dyn Error>> {
    let classifier = Classifier::load(settings)?;
    round(&classifier)?;
    let mut before = time(&classifier)?;
    let mut means = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        round(&classifier)?;
        let after = time(&classifier)?;
        means.push((after.total_ns - before.total_ns) / (after.runs - before.runs));
        before = after;
    }
    means.sort_unstable();
    Ok(means[ROUNDS / 2])
}

fn time(classifier: &Classifier) -> Result<bpf::RunTime, Box<dyn Error>> {
    counters(classifier.id())?.run_time.ok_or_else(|| "the kernel has not timed the classifier".into())
}

/// A TCP packet over IPv4 of 1000 bytes; the source port identifies the flow.
fn frame(flow: u16) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x08, 0x00, 0x45, 0, 0x03, 0xda, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend((20_000 + flow).to_be_bytes());
    frame.extend([0xea, 0x60]);
    frame.resize(1000, 0);
    frame
}
