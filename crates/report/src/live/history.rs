//! Past values of one direction in bounded memory.

use std::collections::BTreeMap;

use results::{IntervalRecord, Role};

use crate::pairing::Row;
use crate::summary::finite;

/// Maximum number of points; a terminal of 400 columns shows 800 dots.
const POINTS_MAX: usize = 2048;

/// Mean of the added values.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += finite(value);
        self.count += 1;
    }

    fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.count = self.count.saturating_add(other.count);
    }

    pub(crate) fn get(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// One or several neighbouring intervals.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Point {
    end_s: f64,
    received_bps: Mean,
    sent_bps: Mean,
    block_rtt_ns: Mean,
    srtt_ns: Mean,
    one_way_ns: Mean,
    pub(crate) retransmits: u64,
}

/// Quantity of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    Throughput,
    BlockRtt,
    KernelRtt,
    OneWay,
}

impl Point {
    fn add(&mut self, r: &IntervalRecord) {
        self.end_s = self.end_s.max(finite(r.end_s));
        let rate = r.throughput_bps as f64;
        match r.role {
            Role::Receiver => self.received_bps.add(rate),
            Role::Sender => {
                self.sent_bps.add(rate);
                let mut row = Row::new(r.direction);
                row.fill(r.clone());
                if let Some(ns) = row.srtt_ns() {
                    self.srtt_ns.add(ns as f64);
                }
                self.retransmits = self.retransmits.saturating_add(row.retransmits().unwrap_or(0));
            }
        }
        if let Some(d) = &r.block_rtt {
            self.block_rtt_ns.add(d.p50_ns as f64);
        }
        if let Some(d) = &r.one_way {
            self.one_way_ns.add(d.p50_ns as f64);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.end_s = self.end_s.max(other.end_s);
        self.received_bps.merge(other.received_bps);
        self.sent_bps.merge(other.sent_bps);
        self.block_rtt_ns.merge(other.block_rtt_ns);
        self.srtt_ns.merge(other.srtt_ns);
        self.one_way_ns.merge(other.one_way_ns);
        self.retransmits = self.retransmits.saturating_add(other.retransmits);
    }

    fn get(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::Throughput => self.received_bps.get().or_else(|| self.sent_bps.get()),
            Quantity::BlockRtt => self.block_rtt_ns.get(),
            Quantity::KernelRtt => self.srtt_ns.get(),
            Quantity::OneWay => self.one_way_ns.get(),
        }
    }
}

/// Points in order of time. Above the maximum, each pair of neighbours becomes one.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    points: BTreeMap<u64, Point>,
    /// Each point covers `2^shift` intervals.
    shift: u32,
}

impl History {
    pub(crate) fn add(&mut self, record: &IntervalRecord) {
        self.points.entry(record.index >> self.shift).or_default().add(record);
        while self.points.len() > POINTS_MAX && self.shift < u64::BITS - 1 {
            self.shift += 1;
            for (index, point) in core::mem::take(&mut self.points) {
                self.points.entry(index >> 1).or_default().merge(&point);
            }
        }
    }

    /// (seconds, value) of all points that have the quantity.
    pub(crate) fn series(&self, quantity: Quantity) -> Vec<(f64, f64)> {
        self.points.values().filter_map(|p| Some((p.end_s, p.get(quantity)?))).collect()
    }

    /// Retransmissions of the last `n` points.
    pub(crate) fn retransmits(&self, n: usize) -> Vec<u64> {
        let all: Vec<u64> = self.points.values().map(|p| p.retransmits).collect();
        all[all.len().saturating_sub(n)..].to_vec()
    }

    pub(crate) fn retransmits_total(&self) -> u64 {
        self.points.values().fold(0, |a, p| a.saturating_add(p.retransmits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Scenario, records};

    #[test]
    fn a_day_of_intervals_stays_small_and_keeps_its_mean() {
        let scenario = Scenario { intervals: 1, streams: 1, ..Scenario::default() };
        let Some(results::Record::Interval(mut r)) = records(&scenario).into_iter().nth(2) else { panic!() };
        assert_eq!(r.role, Role::Receiver);
        let mut h = History::default();
        for i in 0..864_000 {
            r.index = i;
            r.end_s = i as f64 / 10.0;
            r.throughput_bps = 1_000_000_000 + (i % 2);
            h.add(&r);
        }
        let series = h.series(Quantity::Throughput);
        assert!((POINTS_MAX / 2 - 1..=POINTS_MAX).contains(&series.len()), "{}", series.len());
        assert!(series.iter().all(|(_, v)| (*v - 1e9).abs() <= 1.0));
        assert!(series.windows(2).all(|w| w[0].0 < w[1].0));
    }
}
