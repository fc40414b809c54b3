//! Check of whether a path sustains its available bandwidth: a token bucket passes much data at once and the rest at
//! another rate. Trains of a few packets do not reach the end of a bucket; a train of hundreds does. On a path without
//! a bucket it does no harm, because its rate is below the available bandwidth.

use units::{Bytes, Duration, Rate};

use crate::probe::curve::ArrivalCurve;
use crate::probe::{Interval, Path, Train, TrainObservation};
use crate::samples::rate;

/// Maximum size and maximum duration of a check train.
const BYTES_MAX: Bytes = Bytes::new(256_000);
const DURATION_MAX: Duration = Duration::from_secs(1);

/// Minimum size: a smaller train adds little to the short ones.
const BYTES_MIN: Bytes = Bytes::new(64_000);

/// Rate of the train as a share of the available bandwidth.
const AVAILABLE_SHARE: f64 = 0.9;

/// Maximum ratio of the end rates of two trains behind the same bucket. A larger ratio indicates cross traffic, and a
/// single end rate is no more certain than this factor.
pub(super) const END_RATE_RATIO_MAX: f64 = 1.15;

/// Observations of check trains. If the first part of a train passed at the sent rate and the rest clearly slower, the
/// entry is the rate of the rest, in b/s.
#[derive(Debug, Default)]
pub(super) struct SustainedRateCheck {
    end_rates: Vec<Option<f64>>,
    /// Upper bounds of the received rates, in b/s, of trains that arrived clearly slower than they were sent.
    slowed: Vec<f64>,
}

impl SustainedRateCheck {
    /// The next train, of at most `spare` bytes, or `None` if another one adds nothing. Cross traffic delays one train;
    /// a bucket delays each.
    pub(super) fn train(&self, path: &Path, available: f64, spare: Option<Bytes>) -> Option<Train> {
        if !matches!(self.end_rates[..], [] | [Some(_)]) {
            return None;
        }
        let at = rate((available * AVAILABLE_SHARE).min(path.fastest()));
        let bytes = BYTES_MAX.min(at.bytes_in(DURATION_MAX)).min(spare.unwrap_or(BYTES_MAX));
        let packets = u32::try_from(bytes.as_u64() / u64::from(path.mtu.max(1))).ok()?;
        (bytes >= BYTES_MIN && at > Rate::ZERO).then(|| Train::at_rate(packets, path.mtu, at))
    }

    pub(super) fn observe(&mut self, observation: &TrainObservation) {
        let awake = observation.without_first();
        let sent = awake.dispersion().and_then(|d| d.sent_rate()).map(|r| r.as_bps() as f64);
        self.end_rates.push(sent.and_then(|sent| ArrivalCurve::of(&awake).behind_bucket(sent)));
        let delivered = awake.delivered_at_most();
        self.slowed.extend(
            delivered.zip(sent).and_then(|(received, sent)| (received * END_RATE_RATIO_MAX < sent).then_some(received)),
        );
    }

    /// Whether the last train met a bucket.
    pub(super) fn is_bucket(&self) -> bool {
        matches!(self.end_rates[..], [.., Some(_)])
    }

    /// Upper bound of the sustained rate, if it is below the estimate. It is the end rate of the only train that met a
    /// bucket, with a margin for cross traffic, or the highest rate of a delayed train.
    pub(super) fn sustained_max(&self) -> Option<Rate> {
        let rest = self.end_rates.last().copied().flatten().map(|rest| rest * END_RATE_RATIO_MAX);
        let slowed = self.slowed.iter().copied().max_by(f64::total_cmp);
        rest.or(slowed).map(rate)
    }

    /// The sustained rate behind a bucket, if two trains agree on it.
    pub(super) fn behind_bucket(&self) -> Option<Interval> {
        let [Some(a), Some(b)] = self.end_rates[..] else { return None };
        let (low, high) = (a.min(b), a.max(b));
        (high <= low * END_RATE_RATIO_MAX).then(|| Interval::from_bps(f64::midpoint(low, high), low, high))
    }
}
