//! What the streams of one rate say together.

use super::parameters::Parameters;
use super::stream::{Stream, Trend};
use crate::samples::mean;

/// Loss of a stream from which on its rate is above what is left, whatever the delays say (1.3.2).
const HEAVY_LOSS: f64 = 0.15;

/// Loss from which on a stream is lossy (1.3.2).
const SOME_LOSS: f64 = 0.03;

/// What the streams of one rate say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The rate is above what is left of the path.
    Increasing,
    /// It is below.
    NoTrend,
    /// What is left varies around it.
    Grey,
}

/// The streams of one rate.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Fleet {
    trends: Vec<Trend>,
    /// Rates at which they left in b/s.
    rates: Vec<f64>,
    streams: u32,
    taken: u32,
    lossy: u32,
    broken: u32,
    is_aborted: bool,
    came: bool,
}

impl Fleet {
    /// Of so many streams at most.
    pub(super) fn of(streams: u32) -> Self {
        Self { streams, ..Self::default() }
    }

    pub(super) fn take(&mut self, stream: Stream) {
        self.taken += 1;
        self.came |= stream.came;
        self.broken += u32::from(stream.is_broken);
        self.lossy += u32::from(stream.loss >= SOME_LOSS);
        self.is_aborted |= stream.loss >= HEAVY_LOSS;
        self.rates.extend(stream.rate);
        self.trends.extend(stream.trends);
    }

    /// Whether no further stream is needed.
    pub(super) fn is_over(&self, p: &Parameters) -> bool {
        let agree = |trend| self.trends.iter().all(|t| *t == trend);
        let unanimous =
            p.unanimous.is_some_and(|n| self.trends.len() >= n) && (agree(Trend::Increasing) || agree(Trend::Flat));
        // As many as decide a full fleet: no stream can change it any more.
        let most = self.count(Trend::Increasing).max(self.count(Trend::Flat));
        let decided = p.unanimous.is_some() && most as f64 >= p.share * f64::from(self.streams);
        self.is_aborted || self.taken >= self.streams || unanimous || decided
    }

    /// `None` when fewer than half of the streams could be judged.
    pub(super) fn verdict(&self, p: &Parameters) -> Option<Verdict> {
        if self.is_aborted || (self.lossy > 0 && self.lossy * 2 >= self.taken) {
            return Some(Verdict::Increasing);
        }
        let judged = self.trends.len();
        // Streams that were not sent, for the others had decided, are not missing.
        if judged == 0 || judged * 2 < self.taken as usize {
            return None;
        }
        let decides = |trend| self.count(trend) as f64 >= p.share * judged as f64;
        Some(match () {
            () if decides(Trend::Increasing) => Verdict::Increasing,
            () if decides(Trend::Flat) => Verdict::NoTrend,
            () => Verdict::Grey,
        })
    }

    fn count(&self, trend: Trend) -> usize {
        self.trends.iter().filter(|t| **t == trend).count()
    }

    /// Mean rate at which its streams left in b/s; `None` when none did.
    pub(super) fn rate(&self) -> Option<f64> {
        mean(self.rates.iter().copied())
    }

    /// Rate of the fastest stream in b/s: what the sender can do when nothing else keeps it.
    pub(super) fn fastest(&self) -> Option<f64> {
        self.rates.iter().copied().max_by(f64::total_cmp)
    }

    /// Whether the sender paused in most of its streams.
    pub(super) fn is_broken(&self) -> bool {
        self.broken * 2 > self.taken
    }

    /// Whether nothing came.
    pub(super) fn is_silent(&self) -> bool {
        !self.came
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
            fleet.take(Stream { trends, loss, rate, batches: 100, is_batched: false, is_broken: false, came: true });
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
    fn the_share_that_decides_is_that_of_the_release() {
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
    fn loss_says_that_the_rate_is_too_high() {
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
    fn streams_that_could_not_be_judged_leave_no_verdict() {
        let mut f = fleet(&[Trend::Flat; 5], &[]);
        for _ in 0..7 {
            let trends = Vec::new();
            let rate = None;
            f.take(Stream { trends, loss: 0.0, rate, batches: 0, is_batched: false, is_broken: true, came: true });
        }
        assert_eq!(f.verdict(&Parameters::faithful()), None);
        assert!(f.is_broken());
    }
}
