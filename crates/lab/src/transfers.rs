//! What became of the small transfers.

use results::DelayHistogram;
use results::lab::{FlowTotals, Transfer};
use scenario::Scenario;

/// Completion times by stream.
pub(crate) struct Outcomes(Vec<Outcome>);

struct Outcome {
    name: String,
    bytes: u64,
    completion: DelayHistogram,
    incomplete: u64,
}

impl Outcomes {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let outcome =
            |name: &String| Outcome { name: name.clone(), bytes: 0, completion: DelayHistogram::new(), incomplete: 0 };
        Self(scenario.mice.iter().map(|m| outcome(&m.name)).collect())
    }

    pub(crate) fn add(&mut self, transfer: &Transfer) {
        let Some(outcome) = self.0.iter_mut().find(|o| o.name == transfer.flow) else { return };
        match transfer.completion_ns {
            Some(ns) => {
                outcome.completion.record_nanos(ns);
                outcome.bytes += transfer.bytes;
            }
            None => outcome.incomplete += 1,
        }
    }

    pub(crate) fn totals(&self) -> impl Iterator<Item = FlowTotals> {
        self.0.iter().map(|o| FlowTotals {
            flow: o.name.clone(),
            bytes: o.bytes,
            completion: o.completion.summary(),
            incomplete: Some(o.incomplete),
            ..FlowTotals::default()
        })
    }
}
