//! Histograms of received gaps in the style of figures 3-1 to 3-3 of *Choosing Internet Paths* (2002).

use results::estimate::{GapHistogram, SqueezedPairsResult};

/// Number of rows of a text histogram.
const ROWS: u64 = 5;

/// Maximum number of columns of a text histogram; with the label column it fits a line of 110.
const COLUMNS: u64 = 90;

/// Mark of a characteristic gap on the axis of received gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) name: &'static str,
    pub(super) at_ns: u64,
}

/// One of the two histograms of a path.
#[derive(Debug)]
pub(super) struct Drawing<'a> {
    pub(super) histogram: &'a GapHistogram,
    /// Size of the packet whose transmission time is twice the sent gap.
    pub(super) size: &'static str,
    /// Marks in the order of the axis.
    pub(super) marks: Vec<Mark>,
    /// Number of bins of the axis from zero, beyond all marks and all pairs.
    pub(super) bins: u64,
}

/// Both histograms, that of the shorter gap first; none without a capacity for the scale.
pub(super) fn drawings(squeezed: &SqueezedPairsResult) -> Vec<Drawing<'_>> {
    let (short, long) = (&squeezed.short, &squeezed.long);
    if short.sent_gap_ns == 0 || short.bin_ns == 0 || long.bin_ns == 0 {
        return Vec::new();
    }
    // The shorter gap is the transmission time of 250 bytes on the bottleneck link.
    let time = |bytes: u64| short.sent_gap_ns.saturating_mul(bytes) / 250;
    [(short, "500"), (long, "1500")].map(|(histogram, size)| Drawing::new(histogram, size, time)).into()
}

impl<'a> Drawing<'a> {
    fn new(histogram: &'a GapHistogram, size: &'static str, time: impl Fn(u64) -> u64) -> Self {
        // Gap between probes of 40 bytes (§4.1.3): with nothing between them, or a packet of 500 or 1500 bytes.
        let marks = [("b2b", time(40)), ("500B", time(540)), ("1500B", time(1540)), ("sent", histogram.sent_gap_ns)];
        let mut marks = marks.map(|(name, at_ns)| Mark { name, at_ns }).to_vec();
        marks.sort_unstable_by_key(|m| m.at_ns);
        let last = histogram.counts.iter().rposition(|n| *n > 0).map_or(0, |bin| bin as u64 + 1);
        Self { histogram, size, marks, bins: last.max(time(1700).div_ceil(histogram.bin_ns.max(1))) }
    }

    pub(super) fn pairs(&self) -> u64 {
        sum(&self.histogram.counts).saturating_add(self.histogram.above_range)
    }

    /// End of the axis.
    pub(super) const fn end_ns(&self) -> u64 {
        self.bins.saturating_mul(self.histogram.bin_ns)
    }

    /// Number of bins of a column, rounded up, so that no column lacks a bin.
    const fn bins_a_column(&self) -> u64 {
        self.bins.div_ceil(COLUMNS)
    }

    /// Rows from the top, followed by the marks: `#` for pairs, `.` for less than half a row.
    pub(super) fn rows(&self) -> Vec<String> {
        let together = usize::try_from(self.bins_a_column()).unwrap_or(usize::MAX).max(1);
        let columns: Vec<u64> = self.histogram.counts.chunks(together).map(sum).collect();
        let max = columns.iter().copied().max().unwrap_or(0).max(1);
        let row = |from_foot: u64| {
            let cell = |count: &u64| {
                // Rounded to whole rows.
                let (count, max, rows) = (u128::from(*count), u128::from(max), u128::from(ROWS));
                let height = (2 * count * rows + max) / (2 * max);
                match (height > u128::from(from_foot), from_foot == 0 && count > 0) {
                    (true, _) => '#',
                    (false, true) => '.',
                    (false, false) => ' ',
                }
            };
            columns.iter().map(cell).collect::<String>().trim_end().to_owned()
        };
        let rows = (0..ROWS).rev().map(row);
        rows.chain([self.mark_row()]).collect()
    }

    fn mark_row(&self) -> String {
        let mut line = String::new();
        for mark in &self.marks {
            let bin = mark.at_ns / self.histogram.bin_ns.max(1);
            let column = usize::try_from(bin.min(self.bins) / self.bins_a_column().max(1)).unwrap_or(0);
            // A name without room beside the previous one is omitted.
            if column > line.len() || line.is_empty() {
                line += &" ".repeat(column - line.len());
                line += &format!("^{}", mark.name);
            }
        }
        line
    }
}

/// Sum of counts, which a damaged record cannot overflow.
fn sum(counts: &[u64]) -> u64 {
    counts.iter().fold(0, |a, n| a.saturating_add(*n))
}
