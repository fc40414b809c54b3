//! Output of the programs of a run that called `longhaul estimate --json`.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use anyhow::Context;
use results::estimate::{EstimateRecord, EstimateResult, EstimateStart, TransferPrediction};
use results::{EstimateReader, is_estimate_record, without_mark};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// One call of `longhaul estimate`.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) start: EstimateStart,
    pub(super) results: Vec<EstimateResult>,
    pub(super) predictions: Vec<TransferPrediction>,
}

impl Call {
    /// Start of the first method in seconds since 1970 UTC; `None` if the record has no valid time.
    pub(super) fn start_utc_s(&self) -> Option<f64> {
        let time = OffsetDateTime::parse(&self.start.time_utc, &Rfc3339).ok()?;
        Some(time.unix_timestamp_nanos() as f64 / 1e9)
    }
}

/// Reads the calls in a program's output, in order; empty if the output has no such records.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Call>> {
    let name = || path.display().to_string();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
    };
    let mut source = BufReader::new(file);
    let mut first = Vec::new();
    source.read_until(b'\n', &mut first).with_context(name)?;
    if !is_estimate_record(without_mark(&first).trim_ascii()) {
        return Ok(Vec::new());
    }
    of(Read::chain(first.as_slice(), source)).with_context(name)
}

/// Splits records into calls, each of which starts with a start record.
pub(super) fn of(source: impl BufRead) -> anyhow::Result<Vec<Call>> {
    let mut calls: Vec<Call> = Vec::new();
    // The reader skips an incomplete last line, left when the lab stops a method.
    for record in EstimateReader::new(source) {
        match (record?, calls.last_mut()) {
            (EstimateRecord::Start(start), _) => {
                calls.push(Call { start, results: Vec::new(), predictions: Vec::new() });
            }
            (EstimateRecord::Estimate(result), Some(call)) => call.results.push(result),
            (EstimateRecord::Prediction(prediction), Some(call)) => call.predictions.push(prediction),
            // Expected values belong to no method.
            (EstimateRecord::Expected(_) | EstimateRecord::Estimate(_) | EstimateRecord::Prediction(_), _) => {}
        }
    }
    Ok(calls)
}
