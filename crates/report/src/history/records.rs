//! Records grouped by path.

use results::estimate::{Layer, Quantity};
use results::history::{HistoryEntry, HistoryExpectation, HistoryPath, HistoryRecord, HistoryStart};

/// History of paths, for text and page.
#[derive(Debug, Default)]
pub struct HistoryReport {
    pub(super) start: Option<HistoryStart>,
    pub(super) paths: Vec<PathHistory>,
}

#[derive(Debug)]
pub(super) struct PathHistory {
    pub(super) path: HistoryPath,
    /// Entries, the oldest first.
    pub(super) entries: Vec<HistoryEntry>,
    pub(super) expectations: Vec<HistoryExpectation>,
}

impl HistoryReport {
    /// Creates a report from records in their written order.
    pub fn from_records(records: impl IntoIterator<Item = HistoryRecord>) -> Self {
        let mut report = Self::default();
        for record in records {
            match record {
                HistoryRecord::Start(start) => report.start = Some(start),
                HistoryRecord::Path(path) => {
                    report.paths.push(PathHistory { path, entries: Vec::new(), expectations: Vec::new() });
                }
                HistoryRecord::Entry(entry) => {
                    if let Some(path) = report.path(entry.path) {
                        path.entries.push(entry);
                    }
                }
                HistoryRecord::Expectation(expectation) => {
                    if let Some(path) = report.path(expectation.path) {
                        path.expectations.push(expectation);
                    }
                }
            }
        }
        report
    }

    fn path(&mut self, number: u32) -> Option<&mut PathHistory> {
        self.paths.iter_mut().find(|p| p.path.path == number)
    }

    pub(super) fn now_s(&self) -> f64 {
        self.start.as_ref().map_or(0.0, |start| start.at_utc_s)
    }
}

/// Quantity and layer of a chart.
pub(super) type Subject = (Quantity, Layer);

impl PathHistory {
    /// Quantities of the path in order of importance: throughput of transfers before inferred quantities.
    pub(super) fn subjects(&self) -> Vec<Subject> {
        let mut all: Vec<Subject> = Vec::new();
        let of_entries = self.entries.iter().map(|e| (e.quantity, e.layer));
        for subject in of_entries.chain(self.expectations.iter().map(|e| (e.quantity, e.layer))) {
            if !all.contains(&subject) {
                all.push(subject);
            }
        }
        all.sort_by_key(|(quantity, layer)| (rank(*quantity), *layer == Layer::Ip));
        all
    }

    pub(super) fn expectation(&self, subject: Subject) -> Option<&HistoryExpectation> {
        self.expectations.iter().find(|e| (e.quantity, e.layer) == subject)
    }

    pub(super) fn entries_of(&self, subject: Subject) -> impl Iterator<Item = &HistoryEntry> {
        self.entries.iter().filter(move |e| (e.quantity, e.layer) == subject)
    }

    /// Expectation of the most important quantity.
    pub(super) fn foremost(&self) -> Option<&HistoryExpectation> {
        self.subjects().into_iter().find_map(|subject| self.expectation(subject))
    }
}

const fn rank(quantity: Quantity) -> u8 {
    match quantity {
        Quantity::BulkTransferCapacity => 0,
        Quantity::AvailableBandwidth => 1,
        Quantity::Capacity => 2,
        Quantity::AsymptoticDispersion => 3,
        Quantity::LossLimit => 4,
    }
}
