//! `longhaul shape show`.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use host::shape::{self, InstallationState, JournalFile, Reading, ShapeError};
use kernel::Netlink;
use results::shape::{ShapeFlows, ShapePolicy, ShapeRecord, ShapeState};
use shaping::SidePlan;

use super::cli::ShowOptions;
use super::{NEGATIVE_RESULT, records};
use crate::standard_output::standard_output;

/// Averaging time of the rates of a single reading, without --interval.
const SINGLE_READING_INTERVAL: Duration = Duration::from_millis(200);

/// Device to show.
struct Shown {
    installation: InstallationState,
    /// Previous readings, one per direction.
    before: Vec<Reading>,
}

pub(crate) fn run(options: &ShowOptions) -> anyhow::Result<ExitCode> {
    shape::undo_overdue()?;
    let journal_files: Vec<JournalFile> = if options.devices.is_empty() {
        JournalFile::all()?
    } else {
        options.devices.iter().map(|d| JournalFile::of(d)).collect::<Result<_, _>>()?
    };
    if journal_files.is_empty() {
        return Err(ShapeError::NoneInstalled.into());
    }
    let mut netlink = Netlink::open()?;
    let mut shown = Vec::new();
    for journal_file in &journal_files {
        shown.push(Shown { installation: shape::installation_state(journal_file)?, before: Vec::new() });
    }
    // Rates need two readings; the first one is not shown.
    for device in &mut shown {
        read(device, &mut netlink)?;
    }
    kernel::sleep_for(options.interval.unwrap_or(SINGLE_READING_INTERVAL));
    for device in &mut shown {
        let mut all = vec![ShapeRecord::Policy(policy(&device.installation))];
        all.extend(records::classes(&device.installation.plan));
        all.extend(read(device, &mut netlink)?);
        print(&all, options.json, true)?;
    }
    if let Some(interval) = options.interval {
        follow(&mut shown, interval, options, &mut netlink)?;
    }
    let as_planned = shown.iter().all(|d| d.installation.differences.is_empty());
    Ok(if as_planned { ExitCode::SUCCESS } else { ExitCode::from(NEGATIVE_RESULT) })
}

fn follow(shown: &mut [Shown], interval: Duration, options: &ShowOptions, netlink: &mut Netlink) -> anyhow::Result<()> {
    kernel::Shutdown::install()?;
    let mut next = kernel::now();
    // The first reading is one of them.
    for _ in 1..options.count.unwrap_or(u64::MAX) {
        // Scheduling from the previous due time avoids drift.
        next = next + interval;
        while kernel::now() < next {
            if kernel::Shutdown::requests() > 0 {
                return Ok(());
            }
            kernel::sleep_for(next.saturating_since(kernel::now()).min(Duration::from_millis(100)));
        }
        for device in shown.iter_mut() {
            let all = read(device, netlink)?;
            if !print(&all, options.json, false)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Prints the records. Returns whether a reader is left for more.
fn print(all: &[ShapeRecord], json: bool, whole: bool) -> io::Result<bool> {
    let mut out = standard_output();
    match (json, whole) {
        (true, _) => records::write_json(all, &mut out),
        (false, true) => report::shape::write_shape(all, &mut out),
        (false, false) => report::shape::write_counters(all, &mut out),
    }?;
    Ok(!out.is_closed())
}

fn policy(installation: &InstallationState) -> ShapePolicy {
    let state = if installation.differences.is_empty() { ShapeState::Installed } else { ShapeState::Disturbed };
    let left = installation.journal.deadline().map(|at| at.saturating_since(kernel::now()).as_secs_f64());
    ShapePolicy {
        differences: installation.differences.clone(),
        undone_in_s: left,
        awaits_confirmation: installation.journal.confirm_by.is_some(),
        ..records::policy(&installation.plan, state)
    }
}

/// Counters since the previous reading, and flow counts of the BPF programs.
fn read(device: &mut Shown, netlink: &mut Netlink) -> anyhow::Result<Vec<ShapeRecord>> {
    let name = device.installation.journal.device.clone();
    let (utc, nanos) = kernel::utc_seconds();
    let utc_s = utc as f64 + f64::from(nanos) / 1e9;
    let (mut all, mut readings) = (Vec::new(), Vec::new());
    for (at, side) in records::sides(&device.installation.plan).enumerate() {
        let now = shape::read(netlink, side)?;
        let before = device.before.get(at);
        let seconds = before.map_or(0.0, |b| now.at.saturating_since(b.at).as_secs_f64());
        all.extend(records::counters(side, &name, (before, seconds), &now, utc_s));
        all.extend(flows(netlink, side, &name)?.map(ShapeRecord::Flows));
        readings.push(now);
    }
    device.before = readings;
    Ok(all)
}

fn flows(netlink: &mut Netlink, side: &SidePlan, device: &str) -> anyhow::Result<Option<ShapeFlows>> {
    let Some(program) = shape::program(netlink, side)?.filter(|_| side.rules.is_some()) else { return Ok(None) };
    let counted = bpf::counters(program)?;
    Ok(Some(ShapeFlows {
        device: device.to_owned(),
        direction: records::traffic_direction(side.direction),
        mice: counted.mice,
        elephants: counted.elephants,
        flows_max: u64::from(counted.flow_entries),
        run_ns: counted.run_time.filter(|r| r.runs > 0).map(|r| r.total_ns as f64 / r.runs as f64),
    }))
}
