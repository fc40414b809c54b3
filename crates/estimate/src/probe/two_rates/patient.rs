//! Whether what is left is left for long: a path may pass much at once, and what follows at another rate (a token bucket). Trains of some packets do not
//! see the end of it. One of hundreds does, and where the path is what it seems to be, it disturbs nobody: it comes at less than what is left.

use units::{Bytes, Duration, Rate};

use crate::probe::curve::ArrivalCurve;
use crate::probe::{Interval, Path, Train, TrainObservation};
use crate::samples::rate;

/// Bytes of such a train, and how long it takes, at most.
const MOST: Bytes = Bytes::new(256_000);
const LONGEST: Duration = Duration::from_secs(1);

/// Less would tell little more than the trains before.
const LEAST: Bytes = Bytes::new(64_000);

/// Rate of the train over what is left.
const RATE: f64 = 0.9;

/// Two trains that end at rates that far apart met others, not a bucket: what one of them says is no more certain.
pub(super) const APART: f64 = 1.15;

/// What such trains told: where its first part came as it was sent and the rest clearly slower, the rate of the rest in b/s.
#[derive(Debug, Default)]
pub(super) struct SustainedRateCheck {
    seen: Vec<Option<f64>>,
    /// What trains came at that came clearly slower than they were sent, at most, in b/s.
    slowed: Vec<f64>,
}

impl SustainedRateCheck {
    /// The next one, of at most `spare` bytes, if there is anything to ask: others slow a train down once, a bucket each time.
    pub(super) fn train(&self, path: &Path, left: f64, spare: Option<Bytes>) -> Option<Train> {
        if !matches!(self.seen[..], [] | [Some(_)]) {
            return None;
        }
        let at = rate((left * RATE).min(path.fastest()));
        let bytes = MOST.min(at.bytes_in(LONGEST)).min(spare.unwrap_or(MOST));
        let packets = u32::try_from(bytes.as_u64() / u64::from(path.mtu.max(1))).ok()?;
        (bytes >= LEAST && at > Rate::ZERO).then(|| Train::at_rate(packets, path.mtu, at))
    }

    pub(super) fn note(&mut self, passage: &TrainObservation) {
        let awake = passage.without_first();
        let sent = awake.dispersion().and_then(|d| d.sent_rate()).map(|r| r.as_bps() as f64);
        self.seen.push(sent.and_then(|sent| ArrivalCurve::of(&awake).behind_bucket(sent)));
        let delivered = awake.delivered_at_most();
        self.slowed.extend(delivered.zip(sent).and_then(|(came, sent)| (came * APART < sent).then_some(came)));
    }

    /// Whether the last one met a bucket.
    pub(super) fn is_bucket(&self) -> bool {
        matches!(self.seen[..], [.., Some(_)])
    }

    /// What the path passes in the long run at most, where it passes less than it seemed to: the rest of the only train that met a
    /// bucket, give or take what others do to one, or what the fastest train came at that was slowed down.
    pub(super) fn most(&self) -> Option<Rate> {
        let rest = self.seen.last().copied().flatten().map(|rest| rest * APART);
        let slowed = self.slowed.iter().copied().max_by(f64::total_cmp);
        rest.or(slowed).map(rate)
    }

    /// What the path passes in the long run, if it passes more at first.
    pub(super) fn behind_bucket(&self) -> Option<Interval> {
        let [Some(a), Some(b)] = self.seen[..] else { return None };
        let (low, high) = (a.min(b), a.max(b));
        (high <= low * APART).then(|| Interval::from_bps(f64::midpoint(low, high), low, high))
    }
}
