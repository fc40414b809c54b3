//! Totals of all traffic of a run.

use std::time::Duration;

use estimate::steadiness::{Received, jain_over_time};
use results::lab::{FlowInterval, FlowTotals, LinkStatistics, Traffic};

/// Length of the bins in which flows are compared; longer recording intervals are compared as they are.
const BIN: Duration = Duration::from_secs(1);

/// The intervals of a flow in the form that the estimators take.
pub(crate) fn received(intervals: &[FlowInterval]) -> Vec<Received> {
    intervals.iter().map(|i| Received { start_s: i.start_s, end_s: i.end_s, bytes: i.bytes }).collect()
}

/// The totals; `None` for a run without flows and transfers. `interval` is the length of a recording interval.
pub(crate) fn traffic(
    flows: &[Vec<Received>],
    totals: &[FlowTotals],
    links: &[LinkStatistics],
    (duration, interval): (Duration, Duration),
) -> Option<Traffic> {
    if totals.is_empty() {
        return None;
    }
    let (mice, bulk): (Vec<&FlowTotals>, Vec<&FlowTotals>) = totals.iter().partition(|t| t.incomplete.is_some());
    let seconds = duration.as_secs_f64();
    let rate = |bytes: f64| (bytes * 8.0 / seconds).round() as u64;
    let flows_bps = rate(flows.iter().flatten().map(|r| within(r, seconds)).sum());
    let mice_bps = rate(mice.iter().map(|t| t.bytes as f64).sum());
    let fairness = jain_over_time(flows, BIN.max(interval).as_secs_f64());
    Some(Traffic {
        goodput_bps: flows_bps + mice_bps,
        flows_bps,
        mice_bps,
        packets: bulk.iter().filter_map(|t| t.packets).sum(),
        jain: fairness.map(|(index, _)| index),
        jain_over_s: fairness.map(|(_, time)| time),
        utilisation: links.iter().filter_map(|l| l.utilisation).reduce(f64::max),
    })
}

/// Bytes of an interval that arrived before the end of the run; buffered data arrives after it.
fn within(r: &Received, run_s: f64) -> f64 {
    let share = (run_s.min(r.end_s) - r.start_s.max(0.0)) / (r.end_s - r.start_s);
    if share.is_finite() { r.bytes as f64 * share.clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goodput_counts_complete_transfers_within_the_run() {
        let interval = |start_s: f64, bytes| Received { start_s, end_s: start_s + 1.0, bytes };
        // Half of the last interval is after the end of the run.
        let flows = [vec![interval(0.0, 1000), interval(1.0, 1000), interval(2.5, 1000)], vec![interval(0.0, 1000)]];
        let flow = FlowTotals { packets: Some(3), ..FlowTotals::default() };
        let mice = FlowTotals { bytes: 750, incomplete: Some(0), ..FlowTotals::default() };
        let all = traffic(&flows, &[flow.clone(), flow, mice], &[], (Duration::from_secs(3), Duration::from_secs(1)))
            .unwrap();
        assert_eq!((all.flows_bps, all.mice_bps, all.goodput_bps), (3500 * 8 / 3, 2000, 3500 * 8 / 3 + 2000));
        assert_eq!((all.packets, all.jain, all.jain_over_s), (6, Some(1.0), Some(1.0)));
        assert_eq!(traffic(&[], &[], &[], (Duration::from_secs(3), Duration::from_secs(1))), None);
    }
}
