//! Steadiness and fairness of flows, from the bytes received in intervals.
//!
//! Intervals need not align with bins: the bytes of an interval count as spread evenly over it.

/// Bytes that a flow received in an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Received {
    /// Start in seconds.
    pub start_s: f64,
    /// End in seconds.
    pub end_s: f64,
    /// Bytes.
    pub bytes: u64,
}

/// Share of its mean rate at which a flow counts as settled.
const SETTLED_SHARE: f64 = 0.9;

/// Share of a bin that can be missing at its end: threads that end intervals can wake up late.
const BIN_SLACK_SHARE: f64 = 0.01;

impl Received {
    fn rate(&self) -> f64 {
        self.bytes as f64 * 8.0 / (self.end_s - self.start_s)
    }
}

/// Time from a flow's start until the end of the first interval in which it had 90 % of its mean rate, in seconds;
/// `None` for a flow that received nothing.
pub fn settled(flow: &[Received]) -> Option<f64> {
    let (first, last) = (flow.first()?, flow.last()?);
    let bytes: f64 = flow.iter().map(|r| r.bytes as f64).sum();
    let mean = bytes * 8.0 / (last.end_s - first.start_s);
    let reached = flow.iter().find(|r| mean > 0.0 && r.rate() >= SETTLED_SHARE * mean)?;
    Some(reached.end_s - first.start_s)
}

/// Coefficient of variation of a flow's rates in whole bins of `bin_s` from `from_s` on (standard deviation over n - 1,
/// over the mean). `None` with fewer than two bins, or where the intervals are longer than the bins.
pub fn variation(flow: &[Received], from_s: f64, bin_s: f64) -> Option<f64> {
    if flow.iter().any(|r| r.end_s - r.start_s > bin_s * 1.5) {
        return None;
    }
    let rates = bins(flow, from_s, bin_s);
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n;
    let squares: f64 = rates.iter().map(|r| (r - mean).powi(2)).sum();
    (rates.len() >= 2 && mean > 0.0).then(|| (squares / (n - 1.0)).sqrt() / mean)
}

/// Jain's fairness index, `(sum x)^2 / (n sum x^2)` (Jain, Chiu, Hawe 1984): 1 if all rates are equal, 1/n if one flow
/// has everything; `None` without any rate above zero.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|r| r * r).sum();
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// Mean of Jain's index over the bins of `bin_s` (counted from zero) that at least two flows cover completely, each bin
/// for those flows alone; with the time over which it was taken. `None` without such a bin.
pub fn jain_over_time(flows: &[Vec<Received>], bin_s: f64) -> Option<(f64, f64)> {
    let mut by_bin: std::collections::BTreeMap<i64, Vec<f64>> = std::collections::BTreeMap::new();
    for flow in flows {
        let Some(first) = flow.first() else { continue };
        let number = ((first.start_s / bin_s) - BIN_SLACK_SHARE).ceil();
        for (bin, rate) in (number as i64..).zip(bins(flow, number * bin_s, bin_s)) {
            by_bin.entry(bin).or_default().push(rate);
        }
    }
    let indices: Vec<f64> = by_bin.values().filter(|rates| rates.len() > 1).filter_map(|rates| jain(rates)).collect();
    let n = indices.len() as f64;
    (!indices.is_empty()).then(|| (indices.iter().sum::<f64>() / n, n * bin_s))
}

/// Rates in whole bins from `from_s` on, in bits per second.
fn bins(flow: &[Received], from_s: f64, bin_s: f64) -> Vec<f64> {
    let Some(last) = flow.last() else { return Vec::new() };
    let whole = ((last.end_s - from_s) / bin_s + BIN_SLACK_SHARE).floor();
    // At most a day of bins of 10 ms; an invalid number of bins counts as zero.
    let whole = if whole.is_finite() { whole.clamp(0.0, 1e7) as usize } else { 0 };
    let mut bits = vec![0.0; whole];
    for r in flow {
        let each = r.rate();
        let first = ((r.start_s - from_s) / bin_s).floor().max(0.0) as usize;
        let after = ((r.end_s - from_s) / bin_s).ceil().max(0.0) as usize;
        for (number, sum) in bits.iter_mut().enumerate().take(after).skip(first) {
            let start = from_s + number as f64 * bin_s;
            let overlap = r.end_s.min(start + bin_s) - r.start_s.max(start);
            *sum += if each.is_finite() { each * overlap.max(0.0) } else { 0.0 };
        }
    }
    bits.into_iter().map(|b| b / bin_s).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Intervals of `length` from `start_s` on.
    fn flow(start_s: f64, length: f64, bytes: &[u64]) -> Vec<Received> {
        let one = |(i, bytes): (usize, &u64)| {
            let start_s = start_s + i as f64 * length;
            Received { start_s, end_s: start_s + length, bytes: *bytes }
        };
        bytes.iter().enumerate().map(one).collect()
    }

    #[test]
    fn the_index_is_that_of_the_paper() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[7.0, 0.0, 0.0, 0.0]), Some(0.25));
        // (1 + 2 + 3)^2 / (3 x 14).
        assert!((jain(&[1.0, 2.0, 3.0]).unwrap() - 36.0 / 42.0).abs() < 1e-12);
        assert_eq!((jain(&[]), jain(&[0.0, 0.0])), (None, None));
    }

    #[test]
    fn flows_are_compared_while_they_share_the_path() {
        // From 0 to 4 s alone, then beside one that has a third of its rate.
        let (long, short) = (flow(0.0, 1.0, &[300; 8]), flow(4.0, 1.0, &[100; 2]));
        let (index, time) = jain_over_time(&[long.clone(), short], 1.0).unwrap();
        assert!((index - 16.0 / 20.0).abs() < 1e-9 && (time - 2.0).abs() < 1e-9, "{index} over {time}");
        // A second that a flow covers in part does not count.
        let (_, time) = jain_over_time(&[long.clone(), flow(4.5, 1.0, &[100; 2])], 1.0).unwrap();
        assert!((time - 1.0).abs() < 1e-9, "{time}");
        assert_eq!(jain_over_time(&[long, Vec::new()], 1.0), None);
    }

    #[test]
    fn a_flow_has_settled_when_it_first_has_ninety_percent_of_its_mean() {
        // Mean 840 / 10: 75.6 are enough.
        let rising = flow(3.0, 0.5, &[10, 30, 75, 76, 100, 100, 100, 100, 124, 125]);
        assert_eq!(settled(&rising), Some(2.0));
        assert_eq!((settled(&[]), settled(&flow(0.0, 1.0, &[0, 0]))), (None, None));
    }

    #[test]
    fn the_variation_is_that_of_whole_bins_of_one_length() {
        // Ten intervals of 100 ms make a bin of 1 s: sums of 1000 and 2000, mean 1500, s = 707.1.
        let tenths: Vec<u64> = [[100; 10], [200; 10]].concat();
        let seconds = variation(&flow(2.0, 0.1, &tenths), 2.0, 1.0).unwrap();
        assert!((seconds - 0.5_f64.sqrt() * 1000.0 / 1500.0).abs() < 1e-9, "{seconds}");
        assert_eq!(variation(&flow(0.0, 0.1, &[70; 50]), 0.0, 0.1).map(|v| v < 1e-9), Some(true));
        // Too long, too few.
        assert_eq!(variation(&flow(0.0, 1.0, &[1, 2, 3]), 0.0, 0.1), None);
        assert_eq!(variation(&flow(0.0, 1.0, &[1, 2, 3]), 1.5, 1.0), None);
    }

    #[test]
    fn odd_intervals_cause_no_panic() {
        for (start_s, end_s) in [(0.0, 0.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (1.0, -1.0), (0.0, 1e300)] {
            let odd = [Received { start_s, end_s, bytes: u64::MAX }, Received { start_s: 0.0, end_s: 1.0, bytes: 1 }];
            settled(&odd);
            variation(&odd, 0.0, 1.0);
            jain_over_time(&[odd.to_vec(), odd.to_vec()], 1.0);
        }
    }
}
