//! RON's score from the round trips and losses of small probes (Andersen, *Resilient Overlay Networks*, 2001; *Choosing
//! Internet Paths*, 2002, §3.2 and §4.1.1).

use results::estimate::{Caveat, ProbeLoss, Quantity};
use units::{Bytes, Duration, Rate};

use super::{Departure, Interval, Method, Outcome, Path, Step, Train, TrainObservation};
use crate::draw;
use crate::model::{Reno, pftk, ron_score};

/// The method: 100 echoed probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RonProbes {
    path: Path,
    /// Minimum number of losses for a result; RON *lossonly* requires three (§4.1.1).
    lost_min: usize,
    /// Whether a loss of 1 % is assumed if no probe was lost (§4.1.1).
    assumes_loss: bool,
    mean_gap: Duration,
    spread: Duration,
    sent: bool,
    seen: Option<Seen>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    lost: usize,
    sent: usize,
    smoothed: Option<Duration>,
}

/// Probes per measurement.
const PROBES: u32 = 100;

/// Length with headers, which leaves four bytes for the probe itself.
const BYTES: u32 = 32;

/// Minimum of the timeout beyond the round trip (Linux: `TCP_RTO_MIN`).
const VARIATION_MIN: Duration = Duration::from_millis(200);

/// Upper limit of the expected losses at 95 % if none was observed: `1 - 0.05^(1/n)` of n probes is about 3/n.
const UNSEEN_MAX: f64 = 3.0;

/// Weight of the previous value in the smoothed round trip.
const SMOOTHING_WEIGHT: f64 = 0.9;

impl RonProbes {
    /// As in 2002: a probe every 10 s on average, uniform between 7 and 13 s; 1000 s in all.
    pub fn faithful(path: Path) -> Self {
        Self { assumes_loss: true, ..Self::spaced(path, Duration::from_secs(10), Duration::from_secs(3)) }
    }

    /// The same number of probes within about ten seconds or ten round trips. Loss bursts count as fewer events.
    pub fn quick(path: Path) -> Self {
        let mean = (path.round_trip / 10).max(Duration::from_millis(100));
        Self::spaced(path, mean, mean * 3 / 10)
    }

    fn spaced(path: Path, mean_gap: Duration, spread: Duration) -> Self {
        Self { path, lost_min: 0, assumes_loss: false, mean_gap, spread, sent: false, seen: None }
    }

    /// Requires three lost probes for a result: the score then rests on a measured loss rate (§4.1.1).
    #[must_use]
    pub fn loss_only(mut self) -> Self {
        self.lost_min = 3;
        self
    }

    /// Whether losses are so frequent that a transfer mostly waits for timeouts, which the score does not model. A
    /// model with timeouts then gives less than half of the score.
    fn is_timeout_limited(&self, ratio: f64, round_trip: Duration, score: Rate) -> bool {
        let with_timeouts = pftk(Reno {
            mss: Bytes::new(self.path.mtu.into()),
            rtt: round_trip,
            loss: ratio,
            timeout: round_trip + VARIATION_MIN,
            segments_per_ack: 1.0,
            window: None,
        });
        with_timeouts.is_some_and(|rate| rate.as_bps() < score.as_bps() / 2)
    }

    fn train(&self) -> Train {
        let mut after = Duration::ZERO;
        let departures = (0..PROBES).map(|i| {
            let departure = Departure { after, bytes: BYTES };
            let off = (2.0 * draw(self.path.seed, i.into()) - 1.0) * self.spread.as_secs_f64();
            after += Duration::from_secs_f64((self.mean_gap.as_secs_f64() + off).max(0.0));
            departure
        });
        Train::new(departures.collect()).echoed()
    }
}

impl Method for RonProbes {
    fn next(&mut self) -> Step {
        if self.sent {
            return Step::Done(self.so_far());
        }
        self.sent = true;
        Step::Send { train: self.train(), pause: Duration::ZERO }
    }

    fn observe(&mut self, observation: &TrainObservation) {
        let smoothed = observation.round_trips().into_iter().flatten().fold(None, |smoothed, rtt| {
            let old: Duration = smoothed.unwrap_or(rtt);
            Some(old.mul_f64(SMOOTHING_WEIGHT) + rtt.mul_f64(1.0 - SMOOTHING_WEIGHT))
        });
        self.seen = Some(Seen { lost: observation.lost(), sent: observation.sent(), smoothed });
    }

    fn so_far(&self) -> Outcome {
        let nothing = |caveat| Outcome::nothing(Quantity::BulkTransferCapacity, caveat);
        let Some(Seen { lost, sent, smoothed }) = self.seen else { return nothing(Caveat::TooFewSamples) };
        let loss = Some(ProbeLoss { lost: lost as u64, sent: sent as u64 });
        let Some(smoothed) = smoothed else { return nothing(Caveat::NoAnswer) };
        if lost < self.lost_min {
            return Outcome { loss, ..nothing(Caveat::TooFewSamples) };
        }
        let score = |losses: f64| {
            // The score is in packets; the thesis converts it for packets of the size of the MTU (§6.3).
            ron_score(Bytes::new(self.path.mtu.into()), smoothed, losses / sent.max(1) as f64)
        };
        if lost == 0 && !self.assumes_loss {
            let lower_bound = score(UNSEEN_MAX).map(Interval::at_least);
            let caveats = [Caveat::TooFewSamples, Caveat::LowerBound];
            return Outcome { loss, ..Outcome::of(Quantity::LossLimit, lower_bound) }.with_caveats(caveats);
        }
        // The standard error of a count of n losses is sqrt(n).
        let spread = (lost as f64).sqrt().max(1.0);
        let (few, many) = ((lost as f64 - spread).max(0.0), lost as f64 + spread);
        let interval = score(lost as f64).map(|value| {
            let low = score(many).unwrap_or(value).min(value);
            Interval { value, low, high: score(few).unwrap_or(value).max(value) }
        });
        let ratio = lost as f64 / sent.max(1) as f64;
        let caveats = [
            (lost == 0, Caveat::TooFewSamples),
            (interval.is_some_and(|i| self.is_timeout_limited(ratio, smoothed, i.value)), Caveat::UpperBound),
        ];
        let caveats = caveats.into_iter().filter(|(is, _)| *is).map(|(_, caveat)| caveat);
        Outcome { loss, ..Outcome::of(Quantity::BulkTransferCapacity, interval) }.with_caveats(caveats)
    }
}
