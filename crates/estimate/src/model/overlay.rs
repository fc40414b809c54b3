//! Formulas that overlays have used for path selection.

use super::{MATHIS_PERIODIC, MATHIS_UNIT, checked, mathis};
use units::{Bytes, Duration, Rate};

use crate::samples::rate;

/// Loss that RON assumes for a path on which none of its 100 probes was lost (Strauss's thesis, 2002, §3.2).
pub const RON_LOSS_MIN: f64 = 0.01;

/// RON's score as a rate: `1 / (srtt sqrt(2p/3))` segments per second, with [`RON_LOSS_MIN`] if no loss was observed
/// (Strauss's thesis, 2002, equation 3.1). It is [`mathis`] with [`MATHIS_PERIODIC`].
pub fn ron_score(mss: Bytes, rtt: Duration, loss: f64) -> Option<Rate> {
    mathis(mss, rtt, if loss == 0.0 { RON_LOSS_MIN } else { loss }, MATHIS_PERIODIC)
}

/// SAFIRE's estimate for a Reno transfer: the smaller of the capacity and `MSS / (RTT sqrt(p))` (Mark et al. 2008,
/// equation 1); the capacity without loss.
pub fn safire(capacity: Rate, mss: Bytes, rtt: Duration, loss: f64) -> Option<Rate> {
    if loss == 0.0 {
        return Some(capacity);
    }
    mathis(mss, rtt, loss, MATHIS_UNIT).map(|rate| rate.min(capacity))
}

/// SAFIRE's estimate for a sender with explicit rate (TCP-ER): `0.95 C / ((1 + 25 p)(1 + 0.00274 RTT))` (Mark et al.
/// 2008, equation 2, after L. Roberts). The paper does not state the unit of the round trip; it is taken in
/// milliseconds, because in seconds it would not matter on any path.
pub fn rate_aware(capacity: Rate, rtt: Duration, loss: f64) -> Option<Rate> {
    let loss = if loss == 0.0 { 0.0 } else { checked(loss)? };
    let bps = 0.95 * capacity.as_bps() as f64 / ((1.0 + 25.0 * loss) * (1.0 + 2.74e-3 * rtt.as_secs_f64() * 1e3));
    Some(rate(bps))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);
    const MSS: Bytes = Bytes::new(1000);

    #[test]
    fn rons_score_has_a_floor_of_loss() {
        // 1 / (0.1 sqrt(2/3 x 0.01)) = 122.47 segments a second.
        let score = ron_score(MSS, RTT, 0.01).unwrap().as_bps() as f64 / 8000.0;
        assert!((score - 122.47).abs() < 0.01, "{score}");
        assert_eq!(ron_score(MSS, RTT, 0.0), ron_score(MSS, RTT, RON_LOSS_MIN));
        assert_eq!(ron_score(MSS, RTT, f64::NAN), None);
    }

    #[test]
    fn safires_formulas_are_bounded_by_the_capacity() {
        let capacity = Rate::from_bps(45_000_000);
        assert_eq!(safire(capacity, MSS, RTT, 0.0), Some(capacity));
        assert_eq!(safire(capacity, MSS, RTT, 1e-9), Some(capacity));
        // 8000 / (0.1 x 0.1).
        assert_eq!(safire(capacity, MSS, RTT, 0.01), Some(Rate::from_bps(800_000)));
        // 0.95 x 45 Mb/s / (1.25 x 1.274).
        let explicit_rate = rate_aware(capacity, RTT, 0.01).unwrap().as_bps() as f64;
        assert!((explicit_rate / (42.75e6 / 1.25 / 1.274) - 1.0).abs() < 1e-6, "{explicit_rate}");
        assert_eq!(rate_aware(capacity, RTT, 2.0), None);
    }
}
