//! Programs, and what to record.

use std::time::Duration;

use crate::model::{Program, Record, Validity};
use crate::problem::Fault;
use crate::quantity;
use crate::section::{Item, Section};
use crate::topology::Topology;
use crate::tree::{Kind, Value};

/// Minimum sampling interval: below it the sampling would affect the results (crate `wire`, module `plan`).
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// Default capture length in bytes: all headers of a TCP segment with options, over IPv6, too.
const SNAP_BYTES_DEFAULT: u32 = 128;
/// Size of the longest IP packet in bytes (RFC 791 §3.1).
const SNAP_BYTES_MAX: u32 = 65_535;

/// Reads one program.
pub(crate) fn read(name: String, item: &Item<'_>, topology: &Topology, run: Option<Duration>) -> Option<Program> {
    if let Err(fault) = quantity::check_name(&name) {
        item.complain(fault);
    }
    let mut section = item.section()?;
    let node = section.required("node", "name the node it runs in").and_then(|i| topology.node(&i));
    let command = section.required("command", "write command = [\"iperf3\", \"-s\"]").and_then(|i| command(&i));
    let start = time(&mut section, "start", run, true);
    let stop = time(&mut section, "stop", run, false);
    if stop.is_some_and(|stop| stop <= start.unwrap_or_default()) {
        section.complain(Fault::new("stops before it starts", "both count from the start of the run"));
    }
    let environment = section.item("env").map_or_else(Vec::new, |item| item.named());
    let env = environment.into_iter().filter_map(|(key, item)| {
        if key.is_empty() || key.contains(['=', '\0']) {
            item.complain(Fault::new("is not a valid name of a variable", "leave out `=`"));
        }
        Some((key, item.read(without_nul)?))
    });
    let env = env.collect();
    section.finish();
    Some(Program { name, node: node?, command: command?, start, stop, env })
}

fn time(section: &mut Section<'_>, key: &'static str, run: Option<Duration>, starts: bool) -> Option<Duration> {
    let item = section.item(key)?;
    let time = item.read(quantity::duration)?;
    let text = crate::describe::duration;
    if let Some(run) = run.filter(|run| time > *run || starts && time == *run) {
        let message = format!("{} is after the end of the run of {}", text(time), text(run));
        item.complain(Fault::new(message, "make it earlier, or the duration of the run longer"));
    }
    Some(time)
}

/// Reads a list of arguments, or one text for the shell.
fn command(item: &Item<'_>) -> Option<Vec<String>> {
    if let Kind::Text(line) = &item.value.kind {
        item.read(without_nul)?;
        if !line.trim().is_empty() {
            return Some(vec!["/bin/sh".to_owned(), "-c".to_owned(), line.clone()]);
        }
    }
    let arguments: Vec<String> = item.one_or_more().iter().filter_map(|i| i.read(without_nul)).collect();
    if arguments.first().is_none_or(|program| program.trim().is_empty()) {
        item.complain(Fault::new("does not name a program", "write command = [\"iperf3\", \"-s\"]"));
        return None;
    }
    Some(arguments)
}

fn without_nul(value: &Value) -> Result<String, Fault> {
    let text = quantity::as_text(value)?;
    if text.contains('\0') {
        return Err(Fault::new("contains a zero byte", "the kernel would cut it off there"));
    }
    Ok(text)
}

/// Reads `[record]`.
pub(crate) fn read_record(item: Option<Item<'_>>, topology: &Topology, run: Option<Duration>) -> Record {
    let mut record = Record { interval: Duration::from_secs(1), pcapng: Vec::new(), snap: SNAP_BYTES_DEFAULT };
    let interval = run.map_or(record.interval, |run| run.min(record.interval));
    record.interval = interval.max(INTERVAL_MIN);
    let Some(mut section) = item.and_then(|item| item.section()) else { return record };
    if let Some(item) = section.item("interval") {
        record.interval = item.read(|value| interval_within(value, run)).unwrap_or(record.interval);
    }
    if let Some(item) = section.item("pcapng") {
        record.pcapng = match quantity::text(item.value) {
            Ok(all) if all == "all" => (0..topology.links.len()).collect(),
            _ => item.items().iter().filter_map(|i| topology.link(i)).collect(),
        };
        record.pcapng.sort_unstable();
        record.pcapng.dedup();
    }
    let snap = |value: &Value| {
        if value.kind.as_text() == Some("all") {
            return Ok(SNAP_BYTES_MAX);
        }
        quantity::whole_u32(64..=SNAP_BYTES_MAX)(value)
            .map_err(|f| Fault { hint: format!("{}, or \"all\"", f.hint), ..f })
    };
    record.snap = section.read("snap", snap).unwrap_or(SNAP_BYTES_DEFAULT);
    section.finish();
    record
}

fn interval_within(value: &Value, run: Option<Duration>) -> Result<Duration, Fault> {
    let text = crate::describe::duration;
    match quantity::duration(value)? {
        short if short < INTERVAL_MIN => {
            Err(Fault::new(format!("an interval of {} is too short", text(short)), "at least 10ms"))
        }
        long if run.is_some_and(|run| long > run) => {
            Err(Fault::new(format!("an interval of {} is longer than the run", text(long)), "make it shorter"))
        }
        interval => Ok(interval),
    }
}

/// Reads `[validity]`.
pub(crate) fn read_validity(item: Option<Item<'_>>) -> Validity {
    let Some(mut section) = item.and_then(|item| item.section()) else { return Validity::default() };
    let lateness_p99 = section.read("lateness_p99", quantity::positive_duration);
    let stolen_cpu = section.read("stolen_cpu", quantity::probability);
    section.finish();
    Validity { lateness_p99, stolen_cpu }
}
