//! Joint verdict of the streams of one rate.

use super::parameters::Parameters;
use super::stream::{Stream, Trend};
use crate::samples::mean;

/// Loss of a stream from which on its rate exceeds the available bandwidth, whatever its delays (1.3.2).
const HEAVY_LOSS_MIN: f64 = 0.15;

/// Loss from which on a stream is lossy (1.3.2).
const LOSSY_MIN: f64 = 0.03;

/// Verdict of the streams of one rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The rate exceeds the available bandwidth.
    Increasing,
    /// The rate is below the available bandwidth.
    NoTrend,
    /// The available bandwidth varies around the rate.
    Grey,
}

/// The streams of one rate.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Fleet {
    trends: Vec<Trend>,
    /// Departure rates in b/s.
    rates: Vec<f64>,
    streams: u32,
    received: u32,
    lossy: u32,
    broken: u32,
    is_aborted: bool,
    any_arrived: bool,
}

impl Fleet {
    /// Creates a fleet of at most this many streams.
    pub(super) fn of(streams: u32) -> Self {
        Self { streams, ..Self::default() }
    }

    pub(super) fn add(&mut self, stream: Stream) {
        self.received += 1;
        self.any_arrived |= stream.any_arrived;
        self.broken += u32::from(stream.is_broken);
        self.lossy += u32::from(stream.loss >= LOSSY_MIN);
        self.is_aborted |= stream.loss >= HEAVY_LOSS_MIN;
        self.rates.extend(stream.rate);
        self.trends.extend(stream.trends);
    }

    /// Whether no further stream is needed.
    pub(super) fn is_over(&self, p: &Parameters) -> bool {
        let agree = |trend| self.trends.iter().all(|t| *t == trend);
        let unanimous =
            p.unanimous.is_some_and(|n| self.trends.len() >= n) && (agree(Trend::Increasing) || agree(Trend::Flat));
        // Enough to decide a full fleet: no further stream can change the verdict.
        let majority = self.count(Trend::Increasing).max(self.count(Trend::Flat));
        let decided = p.unanimous.is_some() && majority as f64 >= p.share * f64::from(self.streams);
        self.is_aborted || self.received >= self.streams || unanimous || decided
    }

    /// `None` if fewer than half of the streams could be evaluated.
    pub(super) fn verdict(&self, p: &Parameters) -> Option<Verdict> {
        if self.is_aborted || (self.lossy > 0 && self.lossy * 2 >= self.received) {
            return Some(Verdict::Increasing);
        }
        let evaluated = self.trends.len();
        // Streams that were not sent because the others had decided are not missing.
        if evaluated == 0 || evaluated * 2 < self.received as usize {
            return None;
        }
        let decides = |trend| self.count(trend) as f64 >= p.share * evaluated as f64;
        Some(match () {
            () if decides(Trend::Increasing) => Verdict::Increasing,
            () if decides(Trend::Flat) => Verdict::NoTrend,
            () => Verdict::Grey,
        })
    }

    fn count(&self, trend: Trend) -> usize {
        self.trends.iter().filter(|t| **t == trend).count()
    }

    /// Mean departure rate of its streams in b/s; `None` if none left.
    pub(super) fn rate(&self) -> Option<f64> {
        mean(self.rates.iter().copied())
    }

    /// Rate of the fastest stream in b/s: the limit of an undisturbed sender.
    pub(super) fn fastest(&self) -> Option<f64> {
        self.rates.iter().copied().max_by(f64::total_cmp)
    }

    /// Whether the sender paused in most of its streams.
    pub(super) fn is_broken(&self) -> bool {
        self.broken * 2 > self.received
    }

    /// Whether no packet arrived.
    pub(super) fn is_silent(&self) -> bool {
        !self.any_arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(trends: &[Trend], losses: &[f64]) -> Fleet {
        let mut fleet = Fleet::of(12);
        for (i, trend) in trends.iter().enumerate() {
            let loss = losses.get(i).copied().unwrap_or(0.0);
            let (trends, rate) = (vec![*trend], Some(1e6));
            fleet.add(Stream {
                trends,
                loss,
                rate,
                batches: 100,
                is_batched: false,
                is_broken: false,
                any_arrived: true,
            });
        }
        fleet
    }

    fn mix(rising: usize, flat: usize) -> Vec<Trend> {
        let mut trends = vec![Trend::Increasing; rising];
        trends.extend(vec![Trend::Flat; flat]);
        trends.resize(12, Trend::Unclear);
        trends
    }

    #[test]
    fn the_deciding_share_is_that_of_the_release() {
        let verdict = |rising, flat, p: Parameters| fleet(&mix(rising, flat), &[]).verdict(&p);
        let (modern, old) = (Parameters::modern(), Parameters::faithful());
        // 8 of 12 are 0.67: enough since 2003, not in 2002; 9 are 0.75.
        assert_eq!(verdict(8, 4, modern), Some(Verdict::Increasing));
        assert_eq!(verdict(8, 4, old), Some(Verdict::Grey));
        assert_eq!(verdict(0, 9, old), Some(Verdict::NoTrend));
        assert_eq!(verdict(7, 5, modern), Some(Verdict::Grey));
        assert_eq!(verdict(0, 0, modern), Some(Verdict::Grey), "all unclear");
    }

    #[test]
    fn loss_indicates_that_the_rate_is_too_high() {
        let p = Parameters::modern();
        let f = fleet(&[Trend::Flat; 2], &[0.0, 0.15]);
        assert!(f.is_over(&p) && f.verdict(&p) == Some(Verdict::Increasing));
        assert_eq!(fleet(&mix(0, 12), &[0.04; 6]).verdict(&p), Some(Verdict::Increasing), "half are lossy");
        assert_eq!(fleet(&mix(0, 12), &[0.04; 5]).verdict(&p), Some(Verdict::NoTrend));
    }

    #[test]
    fn a_clear_fleet_ends_early_and_one_of_2002_does_not() {
        let five = fleet(&[Trend::Flat; 5], &[]);
        assert!(five.is_over(&Parameters::modern()) && !five.is_over(&Parameters::faithful()));
        assert!(
            !fleet(&[Trend::Flat, Trend::Flat, Trend::Unclear, Trend::Flat, Trend::Flat], &[])
                .is_over(&Parameters::modern())
        );
    }

    #[test]
    fn streams_that_could_not_be_evaluated_give_no_verdict() {
        let mut f = fleet(&[Trend::Flat; 5], &[]);
        for _ in 0..7 {
            let trends = Vec::new();
            let rate = None;
            f.add(Stream {
                trends,
                loss: 0.0,
                rate,
                batches: 0,
                is_batched: false,
                is_broken: true,
                any_arrived: true,
            });
        }
        assert_eq!(f.verdict(&Parameters::faithful()), None);
        assert!(f.is_broken());
    }
}
