use serde::{Deserialize, Serialize};
use units::Instant;

/// Model of a remote clock: its offset and drift against the local one, each with its maximum error.
///
/// The offset is `theta(t) = remote(t) - local(t)`, taken to be linear in time. As long as it is, the truth lies within
/// [`bound_at`](Self::bound_at) of [`offset_at`](Self::offset_at) at every local time, also before and after the data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockModel {
    /// Local time to which offset and bound refer: the time at which the bound over all data is smallest.
    pub reference: Instant,
    /// Remote minus local clock at `reference`.
    pub offset_ns: i64,
    /// Drift of the remote clock against the local one, parts per million; positive when the remote clock is faster.
    pub drift_ppm: f64,
    /// Maximum error of the offset at `reference`.
    pub bound_ns: u64,
    /// Maximum error of the drift, parts per million.
    pub drift_bound_ppm: f64,
}

impl ClockModel {
    /// Remote minus local clock in nanoseconds when the local clock shows `local`.
    pub fn offset_at(&self, local: Instant) -> i64 {
        // `as` saturates and takes NaN for zero, so a model from a hostile peer stays harmless.
        let moved_ns = (local.nanos_since(self.reference) as f64 * self.drift()).round() as i64;
        self.offset_ns.saturating_add(moved_ns)
    }

    /// Maximum error of [`offset_at`](Self::offset_at) in nanoseconds; it grows away from the reference by the drift's
    /// error.
    pub fn bound_at(&self, local: Instant) -> u64 {
        let distance_ns = local.nanos_since(self.reference).unsigned_abs() as f64;
        self.bound_ns.saturating_add((distance_ns * self.drift_bound_ppm.abs() / 1e6).ceil() as u64)
    }

    /// The local time at which the remote clock shows `remote`, limited to the clock's range.
    ///
    /// The error is that of [`bound_at`](Self::bound_at) the result.
    pub fn to_local(&self, remote: Instant) -> Instant {
        // remote = local + offset + drift (local - reference), solved for local - reference.
        let at_reference = i128::from(self.reference.as_nanos()) + i128::from(self.offset_ns);
        let remote_since_ns = i128::from(remote.as_nanos()) - at_reference;
        let drift = self.drift();
        let correction_ns = (remote_since_ns as f64 * drift / (1.0 + drift)).round() as i128;
        let local_ns = i128::from(self.reference.as_nanos()) + remote_since_ns - correction_ns;
        Instant::from_nanos(u64::try_from(local_ns.max(0)).unwrap_or(u64::MAX))
    }

    /// The model from the other end's point of view: its local clock is this model's remote clock.
    #[must_use]
    pub fn inverted(&self) -> Self {
        let drift = self.drift();
        let reference_ns = i128::from(self.reference.as_nanos()) + i128::from(self.offset_ns);
        Self {
            reference: Instant::from_nanos(u64::try_from(reference_ns.max(0)).unwrap_or(u64::MAX)),
            offset_ns: self.offset_ns.saturating_neg(),
            // local = remote - offset - drift (local - reference) gives the slope -drift / (1 + drift).
            drift_ppm: -drift / (1.0 + drift) * 1e6,
            // The two clocks' times of one event differ by up to `bound`, over which the drift moves far less than 1 ns
            // for any bound below a second; the nanosecond covers the rounding.
            bound_ns: self.bound_ns.saturating_add(1),
            drift_bound_ppm: self.drift_bound_ppm * (1.0 + 4.0 * super::feasible::DRIFT_MAX),
        }
    }

    /// The drift as a ratio; zero for impossible values, so that a hostile model never divides by a number near zero.
    fn drift(&self) -> f64 {
        let drift = self.drift_ppm / 1e6;
        if drift.abs() <= 0.5 { drift } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: ClockModel = ClockModel {
        reference: Instant::from_nanos(1_000_000_000_000),
        offset_ns: -500_000_000,
        drift_ppm: 50.0,
        bound_ns: 100,
        drift_bound_ppm: 2.0,
    };

    #[test]
    fn offset_and_bound_move_with_the_distance_from_the_reference() {
        // 10 s later: 50 ppm are 500 us, 2 ppm are 20 us.
        let later = Instant::from_nanos(1_010_000_000_000);
        assert_eq!(MODEL.offset_at(later), -499_500_000);
        assert_eq!(MODEL.bound_at(later), 20_100);
        let earlier = Instant::from_nanos(990_000_000_000);
        assert_eq!(MODEL.offset_at(earlier), -500_500_000);
        assert_eq!(MODEL.bound_at(earlier), 20_100);
    }

    #[test]
    fn to_local_undoes_the_offset() {
        for local_ns in [1_000_000_000_u64, 999_999_999_999, 1_000_000_000_000, 50_000_000_000_000] {
            let local = Instant::from_nanos(local_ns);
            let remote = Instant::from_nanos(local_ns.saturating_add_signed(MODEL.offset_at(local)));
            assert!(MODEL.to_local(remote).nanos_since(local).abs() <= 1, "{local_ns}");
            let there = MODEL.inverted();
            assert!((there.offset_at(remote) + MODEL.offset_at(local)).abs() <= 2, "{local_ns}");
        }
        // 999.5 s before the reference on the remote clock are 999.5 / 1.00005 s before it on the local one.
        assert_eq!(MODEL.to_local(Instant::ZERO), Instant::from_nanos(1_000_000_000_000 - 999_450_027_499));
    }

    #[test]
    fn a_hostile_model_is_harmless() {
        for drift_ppm in [f64::NAN, f64::INFINITY, -1e6, 1e300] {
            for offset_ns in [i64::MIN, i64::MAX] {
                let reference = Instant::from_nanos(u64::MAX);
                let m = ClockModel { drift_ppm, offset_ns, drift_bound_ppm: drift_ppm, reference, bound_ns: u64::MAX };
                for at in [Instant::ZERO, reference] {
                    let _ = (m.offset_at(at), m.bound_at(at), m.to_local(at), m.inverted().to_local(at));
                }
            }
        }
    }

    #[test]
    fn a_model_travels_unchanged() {
        let text = serde_json::to_string(&MODEL).unwrap();
        assert_eq!(serde_json::from_str::<ClockModel>(&text).unwrap(), MODEL);
    }
}
