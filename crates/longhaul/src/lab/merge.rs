//! `longhaul lab merge`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use lab::{Merge, Place};
use results::lab::{LabRecord, Verdict};

use super::NEGATIVE_RESULT;
use super::cli::MergeOptions;
use super::run::{Sink, create_directory, write_page};
use crate::output::print_message;

/// Maximum number of points that the message on missing runs names.
const NAMED_POINTS_MAX: usize = 20;

pub(crate) fn run(options: &MergeOptions) -> anyhow::Result<ExitCode> {
    let merge = Merge::open(&options.parts)?;
    let records = create_directory(&options.out)?;
    let missing = (!merge.missing().is_empty()).then(|| missing_text(merge.missing(), merge.planned()));
    let notes = merge.notes().to_vec();
    let mut sink = Sink::new(&records)?;
    let mut name = None;
    let merged = merge.write(&options.out, &mut |record| {
        if let LabRecord::Experiment(e) = record {
            name = Some(e.name.clone());
        }
        sink.take(record);
    });
    sink.finish()?;
    let summary = merged?;
    let page = write_page(&records, &options.out, name.as_deref().unwrap_or("experiment"))?;
    notes.iter().chain(&missing).for_each(|note| print_message(note));
    print_message(&format!("report: {}\nrecords: {}", page.display(), records.display()));
    let is_good = summary.verdict == Verdict::Valid && missing.is_none();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(NEGATIVE_RESULT) })
}

/// `incomplete: 3 of 8 runs are missing: point 0 (repetitions 0, 1), point 2 (repetition 1)`.
fn missing_text(missing: &[Place], planned: u64) -> String {
    let mut points: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for place in missing {
        points.entry(place.point).or_default().push(place.repetition.to_string());
    }
    let named: Vec<String> = points
        .iter()
        .take(NAMED_POINTS_MAX)
        .map(|(point, all)| {
            format!("point {point} (repetition{} {})", if all.len() == 1 { "" } else { "s" }, all.join(", "))
        })
        .collect();
    let more = match points.len() - named.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let are = if missing.len() == 1 { "is" } else { "are" };
    format!("incomplete: {} of {planned} runs {are} missing: {}{more}", missing.len(), named.join(", "))
}
