//! Results of the small transfers.

use results::DelayHistogram;
use results::lab::{FlowTotals, SizeBin, Slowdown, Transfer};
use scenario::Scenario;

/// Ranges of sizes: name, and the first size above the range in bytes.
const RANGES: [(&str, u64); 4] =
    [("0-10kB", 10_000), ("10-100kB", 100_000), ("100kB-1MB", 1_000_001), ("over-1MB", u64::MAX)];

/// Histogram units per unit of slowdown: the histogram's relative error is the same at any scale.
const SLOWDOWN_SCALE: f64 = 1e6;

/// Completion times by stream.
pub(crate) struct Outcomes(Vec<Outcome>);

struct Outcome {
    name: String,
    bytes: u64,
    all: Times,
    by_size: [Times; RANGES.len()],
}

/// Transfers of one range of sizes.
#[derive(Default)]
struct Times {
    completion: DelayHistogram,
    slowdown: DelayHistogram,
    incomplete: u64,
}

impl Outcomes {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let outcome = |name: &String| Outcome {
            name: name.clone(),
            bytes: 0,
            all: Times::default(),
            by_size: core::array::from_fn(|_| Times::default()),
        };
        Self(scenario.mice.iter().map(|m| outcome(&m.name)).collect())
    }

    pub(crate) fn add(&mut self, transfer: &Transfer) {
        let Some(outcome) = self.0.iter_mut().find(|o| o.name == transfer.flow) else { return };
        if transfer.completion_ns.is_some() {
            outcome.bytes += transfer.bytes;
        }
        outcome.all.add(transfer);
        let range = RANGES.iter().position(|(_, beyond)| transfer.bytes < *beyond);
        if let Some(times) = range.and_then(|r| outcome.by_size.get_mut(r)) {
            times.add(transfer);
        }
    }

    pub(crate) fn totals(&self) -> impl Iterator<Item = FlowTotals> {
        self.0.iter().map(|o| FlowTotals {
            flow: o.name.clone(),
            bytes: o.bytes,
            completion: o.all.completion.summary(),
            incomplete: Some(o.all.incomplete),
            slowdown: o.all.slowdown(),
            sizes: RANGES.iter().zip(&o.by_size).filter_map(|((name, _), times)| times.bin(name)).collect(),
            ..FlowTotals::default()
        })
    }
}

impl Times {
    fn add(&mut self, transfer: &Transfer) {
        let Some(ns) = transfer.completion_ns else {
            self.incomplete += 1;
            return;
        };
        self.completion.record_nanos(ns);
        if let Some(ideal) = transfer.ideal_ns.filter(|ideal| *ideal > 0) {
            self.slowdown.record_nanos((ns as f64 / ideal as f64 * SLOWDOWN_SCALE).round() as u64);
        }
    }

    fn slowdown(&self) -> Option<Slowdown> {
        let s = self.slowdown.summary()?;
        let factor = |ns: u64| ns as f64 / SLOWDOWN_SCALE;
        Some(Slowdown {
            count: s.count,
            p50: factor(s.p50_ns),
            p95: factor(s.p95_ns),
            p99: factor(s.p99_ns),
            max: factor(s.max_ns),
        })
    }

    fn bin(&self, sizes: &str) -> Option<SizeBin> {
        let completed = self.completion.count();
        (completed + self.incomplete > 0).then(|| SizeBin {
            sizes: sizes.to_owned(),
            completed,
            incomplete: self.incomplete,
            completion: self.completion.summary(),
            slowdown: self.slowdown(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn transfer(bytes: u64, completion_ms: Option<u64>) -> Transfer {
        Transfer {
            run: 0,
            flow: "web".to_owned(),
            start_s: 0.0,
            bytes,
            completion_ns: completion_ms.map(|ms| ms * 1_000_000),
            ideal_ns: Some(100_000_000),
            error: None,
        }
    }

    #[test]
    fn transfers_are_counted_by_size_with_their_slowdown() {
        let text = "duration = \"1s\"\nnodes = [\"a\", \"b\"]\n[links.l]\nbetween = [\"a\", \"b\"]\n[mice.web]\nfrom = \"a\"\nto = \"b\"\n\
                    bytes = \"1kB\"\nevery = \"1s\"\n";
        let read = scenario::read(Path::new("x.toml"), text, &scenario::Options::default(), &|_| Err(String::new()));
        let mut outcomes = Outcomes::new(&read.unwrap_or_else(|e| panic!("{e}")).scenarios[0]);
        for (bytes, ms) in
            [(9_999, Some(100)), (10_000, Some(200)), (99_999, Some(400)), (10_000, None), (1_000_000, Some(150))]
        {
            outcomes.add(&transfer(bytes, ms));
        }
        let totals = outcomes.totals().next().unwrap();
        assert_eq!((totals.bytes, totals.incomplete), (9_999 + 10_000 + 99_999 + 1_000_000, Some(1)));
        let names: Vec<(&str, u64, u64)> =
            totals.sizes.iter().map(|b| (b.sizes.as_str(), b.completed, b.incomplete)).collect();
        assert_eq!(names, [("0-10kB", 1, 0), ("10-100kB", 2, 1), ("100kB-1MB", 1, 0)]);
        // Slowdowns of 1, 2, 4 and 1.5 over the ideal 100 ms; the error of a quantile is at most 0.1 %.
        let near = |got: f64, expected: f64| assert!((got / expected - 1.0).abs() < 2e-3, "{got} against {expected}");
        near(totals.sizes[0].slowdown.unwrap().p99, 1.0);
        near(totals.sizes[1].slowdown.unwrap().p50, 2.0);
        near(totals.slowdown.unwrap().max, 4.0);
        near(totals.slowdown.unwrap().p50, 1.5);
    }
}
