//! What programs of a run wrote that called `longhaul estimate --json`.

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
    /// When the first method began, in seconds since 1970 UTC; `None` when the record does not tell.
    pub(super) fn began_utc_s(&self) -> Option<f64> {
        let time = OffsetDateTime::parse(&self.start.time_utc, &Rfc3339).ok()?;
        Some(time.unix_timestamp_nanos() as f64 / 1e9)
    }
}

/// The calls in a program's output, in order; none where it wrote something else, or nothing.
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

/// The calls in records: each begins with its start.
pub(super) fn of(source: impl BufRead) -> anyhow::Result<Vec<Call>> {
    let mut calls: Vec<Call> = Vec::new();
    // A method that the lab stopped may leave half a line; the reader leaves it out.
    for record in EstimateReader::new(source) {
        match (record?, calls.last_mut()) {
            (EstimateRecord::Start(start), _) => {
                calls.push(Call { start, results: Vec::new(), predictions: Vec::new() });
            }
            (EstimateRecord::Estimate(result), Some(call)) => call.results.push(result),
            (EstimateRecord::Prediction(prediction), Some(call)) => call.predictions.push(prediction),
            // What was expected before belongs to no method.
            (EstimateRecord::Expected(_) | EstimateRecord::Estimate(_) | EstimateRecord::Prediction(_), _) => {}
        }
    }
    Ok(calls)
}
