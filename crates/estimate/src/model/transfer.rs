//! Transfers that end before their rate is steady.

use super::timeouts::{Reno, backoff, pftk, timeouts};
use units::{Bytes, Duration};

/// Mean time in which Reno carries `bytes`, handshake included, with a first window of `first` segments. It consists of
/// slow start until the first loss, the recovery from that loss, and the rest at [`pftk`]'s rate (Cardwell, Savage and
/// Anderson, "Modeling TCP latency", INFOCOM 2000, §II).
///
/// Without loss (`reno.loss` 0) only slow start and the window count. Delayed acknowledgements slow the growth
/// (`segments_per_ack`); the first acknowledgement is immediate, as in Linux. `None` where the formulas are not
/// defined.
pub fn cardwell(bytes: Bytes, reno: Reno, first: f64) -> Option<Duration> {
    let (mss, p) = (reno.mss.as_u64(), reno.loss);
    let is_defined =
        mss > 0 && (0.0..1.0).contains(&p) && first >= 1.0 && reno.segments_per_ack > 0.0 && !reno.rtt.is_zero();
    let window = reno.window.unwrap_or(f64::INFINITY);
    if !is_defined || window < 1.0 {
        return None;
    }
    let all = (bytes.as_u64() as f64 / mss as f64).ceil();
    let rtt = reno.rtt.as_secs_f64();
    // Segments before the first loss; all of them without loss.
    let started = if p > 0.0 { ((1.0 - (1.0 - p).powf(all)) * (1.0 - p) / p + 1.0).min(all) } else { all };
    let growth = 1.0 + 1.0 / reno.segments_per_ack;
    let reached = started * (growth - 1.0) / growth + first / growth;
    let slow_start = if reached <= window {
        rtt * (started * (growth - 1.0) / first + 1.0).log(growth)
    } else {
        // The window grows to the receiver's, then stays constant.
        let while_growing = (growth * window - first) / (growth - 1.0);
        rtt * ((window / first).log(growth) + 1.0 + (started - while_growing).max(0.0) / window)
    };
    let repaired = 1.0 - (1.0 - p).powf(all);
    let by_timeout = if p > 0.0 { timeouts(p, reached.min(window)) } else { 0.0 };
    let timeout = backoff(p) * reno.timeout.as_secs_f64() / (1.0 - p);
    let repair = repaired * (by_timeout * timeout + (1.0 - by_timeout) * rtt);
    let rest = if all > started { (all - started) * mss as f64 * 8.0 / pftk(reno)?.as_bps() as f64 } else { 0.0 };
    Duration::try_from_secs_f64(rtt + slow_start + repair + rest).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reno(loss: f64) -> Reno {
        let (rtt, timeout) = (Duration::from_millis(100), Duration::from_millis(400));
        Reno { mss: Bytes::new(1000), rtt, loss, timeout, segments_per_ack: 1.0, window: None }
    }

    fn seconds(kilobytes: u64, reno: Reno) -> f64 {
        cardwell(Bytes::new(kilobytes * 1000), reno, 10.0).unwrap().as_secs_f64()
    }

    #[test]
    fn without_loss_windows_double() {
        // 10 + 20 + 40 = 70 segments in three round trips, one more for the handshake.
        assert!((seconds(70, reno(0.0)) - 0.4).abs() < 1e-9);
        // 10 (2^10 - 1).
        assert!((seconds(10_230, reno(0.0)) - 1.1).abs() < 1e-9);
        // With delayed acknowledgements 10, 15, 22.5 segments: 47.5 in three round trips.
        let slower = Reno { segments_per_ack: 2.0, ..reno(0.0) };
        assert!((cardwell(Bytes::new(47_500), slower, 10.0).unwrap().as_secs_f64() - 0.4).abs() < 0.005);
    }

    #[test]
    fn a_receivers_window_limits_the_rate_after_slow_start() {
        // 10, 20, 40, then 40 per round trip: 70 + 40 x 100 segments.
        let limited = Reno { window: Some(40.0), ..reno(0.0) };
        assert!((seconds(4070, limited) - (0.1 + 0.3 + 10.0)).abs() < 0.11, "{}", seconds(4070, limited));
    }

    #[test]
    fn a_long_transfer_has_the_steady_rate_and_a_short_one_rarely_meets_a_loss() {
        let steady = pftk(reno(0.01)).unwrap().as_bps() as f64;
        let long = 8e9 / seconds(1_000_000, reno(0.01));
        assert!((long / steady - 1.0).abs() < 0.01, "{long} against {steady}");
        let (with, without) = (seconds(10, reno(0.001)), seconds(10, reno(0.0)));
        assert!(with > without && with < without * 1.1, "{with} against {without}");
    }

    #[test]
    fn undefined_parameters_give_no_time() {
        let bytes = Bytes::new(1000);
        for broken in [
            Reno { mss: Bytes::ZERO, ..reno(0.1) },
            Reno { rtt: Duration::ZERO, ..reno(0.1) },
            Reno { loss: 1.0, ..reno(0.1) },
            Reno { loss: f64::NAN, ..reno(0.1) },
            Reno { window: Some(0.5), ..reno(0.1) },
        ] {
            assert_eq!(cardwell(bytes, broken, 10.0), None, "{broken:?}");
        }
        assert_eq!(cardwell(bytes, reno(0.1), 0.0), None);
        assert_eq!(cardwell(Bytes::ZERO, reno(0.0), 10.0), Some(Duration::from_millis(100)));
    }
}
