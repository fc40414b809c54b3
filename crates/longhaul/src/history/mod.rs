//! `longhaul history`.

pub(crate) mod cli;
pub(crate) mod memory;
mod records;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use archive::{Archive, Filter, Place, VARIABLE};
use report::history::{HistoryReport, write_history};
use results::history::{HISTORY_SCHEMA, HistoryRecord, HistoryStart};

use crate::output::{json_line, output_name, print_message, write_history_page};
use crate::record_file::RecordFile;
use crate::standard_output::standard_output;
use crate::target::check_distinct;
use crate::whole_file::WholeFile;
use cli::HistoryOptions;
use records::{Query, records};

/// Exit status when the history has no matching entry.
const NEGATIVE_RESULT: u8 = 1;

pub(crate) fn run(options: &HistoryOptions) -> anyhow::Result<ExitCode> {
    let file = match Archive::default_path() {
        Place::File(file) => file,
        Place::Off => return Ok(nothing(&format!("the history is disabled: {VARIABLE} is `off`"))),
        Place::NoHome => bail!("cannot find the home directory for the history; set {VARIABLE} to a file"),
    };
    let Some(mut archive) = Archive::open_existing(&file)? else {
        let hint = "`longhaul test`, `estimate` and `choose` create it";
        return Ok(nothing(&format!("the history {} does not exist yet; {hint}", file.display())));
    };
    match &options.host {
        Some(host) if options.forget => forget(&mut archive, host),
        _ => show(&archive, options),
    }
}

fn nothing(text: &str) -> ExitCode {
    print_message(text);
    ExitCode::from(NEGATIVE_RESULT)
}

fn show(archive: &Archive, options: &HistoryOptions) -> anyhow::Result<ExitCode> {
    let (seconds, nanos) = kernel::utc_seconds();
    let now_s = seconds as f64 + f64::from(nanos) / 1e9;
    let filter = Filter {
        host: options.host.clone(),
        quantity: options.quantity.map(Into::into),
        since_s: options.since.map(|age| now_s - age.as_secs_f64()),
        ..Filter::default()
    };
    let start = HistoryRecord::Start(start(archive, &filter, now_s));
    let query = Query { archive, filter, now_s, with_entries: options.host.is_some() };
    let found = records(&query)?;
    if found.is_empty() {
        return unknown(archive, options);
    }
    let all: Vec<HistoryRecord> = std::iter::once(start).chain(found).collect();
    write(options, all)?;
    Ok(ExitCode::SUCCESS)
}

fn start(archive: &Archive, filter: &Filter, now_s: f64) -> HistoryStart {
    HistoryStart {
        schema: HISTORY_SCHEMA.to_owned(),
        version: measure::VERSION.to_owned(),
        time_utc: measure::utc_now(),
        at_utc_s: now_s,
        file: archive.file().display().to_string(),
        host: filter.host.clone(),
        since_utc_s: filter.since_s,
        quantity: filter.quantity,
    }
}

/// Reports that no entry matches: none of the host, or none within --since and --quantity.
fn unknown(archive: &Archive, options: &HistoryOptions) -> anyhow::Result<ExitCode> {
    let (of_host, list) = match &options.host {
        Some(host) => (format!(" of a path to {host}"), "; `longhaul history` lists the known paths"),
        None => (String::new(), ""),
    };
    let file = archive.file().display();
    let is_narrowed = options.since.is_some() || options.quantity.is_some();
    let any = Filter { host: options.host.clone(), ..Filter::default() };
    if is_narrowed && !archive.paths(&any)?.is_empty() {
        return Ok(nothing(&format!("{file} has no entry{of_host} that matches --since and --quantity")));
    }
    Ok(nothing(&format!("{file} has no entry{of_host}{list}")))
}

fn forget(archive: &mut Archive, host: &str) -> anyhow::Result<ExitCode> {
    let paths = archive.paths(&Filter { host: Some(host.to_owned()), ..Filter::default() })?;
    if paths.is_empty() {
        let file = archive.file().display();
        return Ok(nothing(&format!(
            "{file} has no entry of a path to {host}; `longhaul history` lists the known paths"
        )));
    }
    let entries = paths.iter().map(|p| archive.forget(&p.path)).sum::<Result<usize, _>>()?;
    let count = |n: usize, one: &str, many: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {many}") };
    let text = format!("deleted {} of {}", count(entries, "entry", "entries"), count(paths.len(), "path", "paths"));
    writeln!(standard_output(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}

fn write(options: &HistoryOptions, all: Vec<HistoryRecord>) -> anyhow::Result<()> {
    check_distinct(&[("--json", options.json.as_deref()), ("--report", options.report.as_deref())])?;
    let to_stdout = options.json.as_deref().is_some_and(|p| p == Path::new("-"));
    if let Some(path) = &options.json {
        let mut out: Box<dyn Write> =
            if to_stdout { Box::new(standard_output()) } else { Box::new(RecordFile::open(path)?) };
        all.iter()
            .try_for_each(|record| json_line(&mut out, record))
            .and_then(|()| out.flush())
            .with_context(|| format!("cannot write {}", output_name(path)))?;
    }
    let report = HistoryReport::from_records(all);
    if let Some(path) = &options.report {
        page(options, path, &report)?;
    }
    if !to_stdout {
        write_history(&mut standard_output(), &report)?;
    }
    Ok(())
}

fn page(options: &HistoryOptions, path: &Path, report: &HistoryReport) -> anyhow::Result<()> {
    let title = format!("longhaul history {}", options.host.as_deref().unwrap_or_default());
    write_history_page(WholeFile::open(path)?, report, title.trim_end())
}
