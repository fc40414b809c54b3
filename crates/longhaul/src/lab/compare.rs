//! `longhaul lab compare`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use report::lab::{Agreement, LabReport, compare, write_agreement};

use super::NEGATIVE_RESULT;
use super::cli::CompareOptions;
use crate::output::write_lab_comparison_page;
use crate::report_command::{lab_name, load_lab};
use crate::standard_output::standard_output;
use crate::target::check_not_input;

pub(crate) fn run(options: &CompareOptions) -> anyhow::Result<ExitCode> {
    let given = std::iter::once(&options.reference).chain(&options.compared);
    let paths: Vec<PathBuf> = given.map(|path| records_path(path)).collect();
    if let Some(page) = &options.report {
        check_not_input(page, paths.iter().map(AsRef::as_ref))?;
    }
    let mut reports: Vec<(String, LabReport)> = Vec::new();
    for path in &paths {
        reports.push((lab_name(path), load_lab(path)?));
    }
    let mut differs = false;
    if let [(name, reference), compared @ ..] = reports.as_slice() {
        for (number, (other_name, other)) in compared.iter().enumerate() {
            let all = compare(reference, other);
            if all.is_empty() {
                bail!("{name} and {other_name} have no metric at a common point of the sweep");
            }
            if number > 0 {
                writeln!(standard_output())?;
            }
            write_agreement(standard_output(), [name, other_name], [reference, other], &all)?;
            differs |= all.iter().any(|c| c.agreement == Agreement::Differs);
        }
    }
    if let Some(page) = &options.report {
        write_lab_comparison_page(page, &with_engines(reports), "Agreement of experiments")?;
    }
    Ok(if differs { ExitCode::from(NEGATIVE_RESULT) } else { ExitCode::SUCCESS })
}

/// Names that are unique: experiments of one name are distinguished by their engine, then by a number.
fn with_engines(reports: Vec<(String, LabReport)>) -> Vec<(String, LabReport)> {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut all = Vec::new();
    for (name, report) in reports {
        let base = format!("{name} ({})", report.engine().text());
        let mut unique = base.clone();
        for number in 2.. {
            if taken.insert(unique.clone()) {
                break;
            }
            unique = format!("{base} {number}");
        }
        all.push((unique, report));
    }
    all
}

/// The records of an experiment: the file itself, or that in the directory.
fn records_path(given: &Path) -> PathBuf {
    if given.is_dir() { given.join("records.jsonl") } else { given.to_owned() }
}
