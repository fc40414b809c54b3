//! `longhaul report`.

use std::fs::File;
use std::io::{BufReader, stdin};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use report::Run;
use results::{Record, read_records};

use crate::cli::ReportOptions;
use crate::output::{beside, write_page};

pub(crate) fn run(options: &ReportOptions) -> anyhow::Result<ExitCode> {
    let mut runs = Vec::new();
    for path in &options.files {
        runs.extend(load(path)?);
    }
    let title = options.title.clone().unwrap_or_else(|| "longhaul report".to_owned());
    write_page(beside(&options.output)?, &options.output, &runs, &title)?;
    Ok(ExitCode::SUCCESS)
}

/// The runs in a file: one for each start record.
fn load(path: &Path) -> anyhow::Result<Vec<Run>> {
    let records = if path == Path::new("-") {
        read_records(stdin().lock())
    } else {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        read_records(BufReader::new(file))
    };
    let records = records.with_context(|| path.display().to_string())?;
    let mut tests: Vec<Vec<Record>> = Vec::new();
    for record in records {
        if matches!(record, Record::Start(_)) || tests.is_empty() {
            tests.push(Vec::new());
        }
        if let Some(test) = tests.last_mut() {
            test.push(record);
        }
    }
    let stem = path.file_stem().map_or_else(|| "run".to_owned(), |s| s.to_string_lossy().into_owned());
    let many = tests.len() > 1;
    tests
        .into_iter()
        .enumerate()
        .map(|(i, test)| {
            let name = if many { format!("{stem} {}", i + 1) } else { stem.clone() };
            Run::from_records(&name, test).with_context(|| path.display().to_string())
        })
        .collect()
}
