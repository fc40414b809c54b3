//! `longhaul shape`.

pub(crate) mod cli;
mod records;
mod show;

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use host::shape::{self, InstallOptions, JournalFile, Restored};
use results::shape::{ShapeRecord, ShapeState};
use shaping::{Accounting, Class, Plan, Policy, Queue, QueueKind, Side, SizeLimits};

use crate::standard_output::standard_output;
use cli::{
    ApplyOptions, ClearOptions, ConstantOptions, Direction, Installing, PlanOptions, ShapeCommand, ShapeOptions,
};

/// Maximum queueing delay, as in a policy file; senders time out at longer delays.
const QUEUE_MAX: Duration = Duration::from_secs(60);

/// Exit status when a device differs from its policy.
const NEGATIVE_RESULT: u8 = 1;

pub(crate) fn run(options: ShapeOptions) -> anyhow::Result<ExitCode> {
    host::state::directory();
    match options.command {
        ShapeCommand::Plan(options) => plan(&options),
        ShapeCommand::Apply(options) => apply(&options),
        ShapeCommand::Constant(options) => constant(&options),
        ShapeCommand::Show(options) => show::run(&options),
        ShapeCommand::Confirm(options) => confirm(&options.device),
        ShapeCommand::Clear(options) => clear(&options),
        ShapeCommand::Guard { device, id } => {
            shape::watch(&device, id)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn read_policy(file: &Path, device: Option<&str>) -> anyhow::Result<Policy> {
    let text = crate::input::read_text(file)?;
    scenario::read_policy(file, &text, device, &kernel::user_by_name)
        .map_err(|problems| anyhow::anyhow!(problems.annotated()))
}

fn plan(options: &PlanOptions) -> anyhow::Result<ExitCode> {
    let policy = read_policy(&options.file, options.device.as_deref())?;
    print(&shape::plan_here(&policy)?, options.json)?;
    Ok(ExitCode::SUCCESS)
}

fn print(plan: &Plan, json: bool) -> anyhow::Result<()> {
    let mut all = vec![ShapeRecord::Policy(records::policy(plan, ShapeState::Planned))];
    all.extend(records::classes(plan));
    all.extend(records::commands(plan));
    let mut out = standard_output();
    if json {
        records::write_json(&all, &mut out)?;
    } else {
        report::shape::write_shape(&all, &mut out)?;
    }
    Ok(())
}

fn apply(options: &ApplyOptions) -> anyhow::Result<ExitCode> {
    let policy = read_policy(&options.file, options.device.as_deref())?;
    install(&policy, &options.installing)
}

fn constant(options: &ConstantOptions) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(options.queue <= QUEUE_MAX, "--queue is out of range (at most {} s)", QUEUE_MAX.as_secs());
    let side = || Side {
        rate: options.rate,
        classes: vec![Class {
            name: "all".to_owned(),
            parent: None,
            rate: options.rate,
            ceiling: options.rate,
            priority: 0,
            queue: Queue { limit: options.queue, kind: QueueKind::Best },
            burst: None,
            matches: Vec::new(),
        }],
        default: 0,
    };
    let policy = Policy {
        device: options.device.clone(),
        accounting: Accounting::Frame,
        sizes: SizeLimits::default(),
        egress: (options.direction != Direction::Ingress).then(side),
        ingress: (options.direction != Direction::Egress).then(side),
    };
    install(&policy, &options.installing)
}

fn install(policy: &Policy, installing: &Installing) -> anyhow::Result<ExitCode> {
    let options = InstallOptions {
        replace: installing.replace,
        confirm_within: installing.confirm,
        for_time: installing.for_time,
    };
    if installing.dry_run {
        let would_be = shape::dry_run(policy, options)?;
        print(&would_be.plan, false)?;
        writeln!(io::stderr(), "{}: {} planned, none made", policy.device, changes(would_be.changes))?;
        return Ok(ExitCode::SUCCESS);
    }
    let undone = shape::undo_overdue()?;
    let installed = shape::install(policy, options)?;
    let mut out = io::stderr().lock();
    for device in undone {
        writeln!(out, "{device}: the previous policy had expired and was removed first")?;
    }
    let done = match installed.changes {
        0 => "no change was necessary".to_owned(),
        n => format!("{} made and verified", changes(n)),
    };
    writeln!(out, "{}: {done}", policy.device)?;
    if installed.lifted {
        writeln!(out, "{}: the previous time limit no longer applies", policy.device)?;
    }
    if let Some(time) = installing.confirm {
        let (device, seconds) = (&policy.device, time.as_secs_f64());
        writeln!(out, "{device}: will be undone in {seconds} s unless confirmed by `longhaul shape confirm {device}`")?;
    }
    if let Some(time) = installing.for_time {
        writeln!(out, "{}: will be undone after {} s", policy.device, time.as_secs_f64())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn changes(count: usize) -> String {
    if count == 1 { "1 change".to_owned() } else { format!("{count} changes") }
}

fn confirm(device: &str) -> anyhow::Result<ExitCode> {
    let journal = shape::confirm(&JournalFile::of(device)?)?;
    let mut out = io::stderr().lock();
    match journal.until {
        None => writeln!(out, "{device}: kept until `shape clear`")?,
        Some(at) => {
            let left = at.saturating_since(kernel::now()).as_secs();
            writeln!(out, "{device}: kept for {left} s, as applied with --for")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn clear(options: &ClearOptions) -> anyhow::Result<ExitCode> {
    let journal_files: Vec<JournalFile> = if options.all {
        JournalFile::all()?
    } else {
        options.devices.iter().map(|d| JournalFile::of(d)).collect::<Result<_, _>>()?
    };
    let mut out = io::stderr().lock();
    let mut code = ExitCode::SUCCESS;
    for journal_file in &journal_files {
        let device = journal_file.device();
        match shape::clear(journal_file)? {
            Restored::AsBefore => writeln!(out, "{device}: restored to its previous configuration")?,
            Restored::DeviceGone => writeln!(out, "{device} no longer exists; its auxiliary devices are removed")?,
            Restored::LeftAlone(what) => {
                writeln!(out, "{device} has {what}, installed by another program after longhaul; not changed")?;
                code = ExitCode::from(NEGATIVE_RESULT);
            }
        }
    }
    if journal_files.is_empty() {
        writeln!(out, "longhaul shapes no device")?;
    }
    Ok(code)
}
