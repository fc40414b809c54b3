//! Records of the calls of `longhaul estimate` in a simulated run, in the files that the calls write in any run.

use std::fs;
use std::path::Path;
use std::time::Duration;

use results::Direction;
use results::estimate::{ESTIMATE_SCHEMA, EstimateRecord, EstimateStart};
use results::lab::ProgramEnd;
use scenario::{EstimateCall, Scenario};
use sim::{EstimateEnd, EstimateEvent};

use crate::LabError;
use crate::flow::PORT;

/// Records and end of each call.
pub(super) struct Calls {
    calls: Vec<(Vec<EstimateRecord>, Option<EstimateEnd>)>,
}

impl Calls {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self { calls: scenario.estimates.iter().map(|_| (Vec::new(), None)).collect() }
    }

    /// Adds an event of the call with this index.
    pub(super) fn add(&mut self, scenario: &Scenario, index: usize, event: EstimateEvent) {
        let (records, end) = &mut self.calls[index];
        match event {
            EstimateEvent::Started { at, path } => {
                records.push(EstimateRecord::Start(start(scenario, &scenario.estimates[index], at, &path)));
            }
            EstimateEvent::Result(result) => records.push(EstimateRecord::Estimate(*result)),
            EstimateEvent::Prediction(prediction) => records.push(EstimateRecord::Prediction(*prediction)),
            EstimateEvent::Ended(reason) => *end = Some(reason),
        }
    }

    /// Writes the output of each call below the directory of the run.
    pub(super) fn write(&self, scenario: &Scenario, directory: &Path) -> Result<(), LabError> {
        if self.calls.is_empty() {
            return Ok(());
        }
        fs::create_dir_all(directory).map_err(LabError::file(directory))?;
        for ((records, _), call) in self.calls.iter().zip(&scenario.estimates) {
            let path = directory.join(format!("{}.out", call.name));
            let lines: Result<Vec<String>, _> = records.iter().map(serde_json::to_string).collect();
            let text = lines.map(|l| l.iter().map(|line| format!("{line}\n")).collect::<String>());
            text.map_err(std::io::Error::from).and_then(|t| fs::write(&path, t)).map_err(LabError::file(&path))?;
        }
        Ok(())
    }

    /// The ends of the calls, with the exit status that the program would have.
    pub(super) fn ends(&self, scenario: &Scenario) -> Vec<ProgramEnd> {
        let end = |((_, end), call): (&(Vec<EstimateRecord>, Option<EstimateEnd>), &EstimateCall)| {
            let status = match end {
                Some(EstimateEnd::Complete) => "0",
                Some(EstimateEnd::NoValue) => "1",
                Some(EstimateEnd::Unreachable) => "2",
                // A run that the user interrupts has calls without an end.
                Some(EstimateEnd::Stopped) | None => "stopped by the lab",
            };
            ProgramEnd {
                program: call.name.clone(),
                node: scenario.nodes[call.from].name.clone(),
                status: status.to_owned(),
                failed: *end == Some(EstimateEnd::Unreachable),
            }
        };
        self.calls.iter().zip(&scenario.estimates).map(end).collect()
    }
}

fn start(scenario: &Scenario, call: &EstimateCall, at: Duration, path: &estimate::probe::Path) -> EstimateStart {
    let server = &scenario.nodes[call.to];
    EstimateStart {
        schema: ESTIMATE_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        time_utc: utc(at),
        host: server.name.clone(),
        address: format!("{}:{PORT}", server.ipv4),
        direction: if call.reverse { Direction::Down } else { Direction::Up },
        round_trip_ns: units::nanos(path.round_trip),
        mtu_bytes: path.mtu,
        budget_bytes: call.budget.map(units::Bytes::as_u64),
        notes: Vec::new(),
    }
}

/// Time since the start of a run in the form of a time of day (RFC 3339): a simulated run starts in 1970. A run takes a
/// week at most.
fn utc(at: Duration) -> String {
    let (seconds, day) = (at.as_secs() % 86_400, at.as_secs() / 86_400 + 1);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("1970-01-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", at.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_run_has_the_form_of_a_time_of_day() {
        assert_eq!(utc(Duration::from_millis(1500)), "1970-01-01T00:00:01.500Z");
        assert_eq!(utc(Duration::from_secs(86_400 + 3600 + 61)), "1970-01-02T01:01:01.000Z");
    }
}
