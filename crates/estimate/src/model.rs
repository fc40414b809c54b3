//! Rate of a long TCP transfer that loss and round trip allow, by published formulas; a reference for measurements.
//!
//! All formulas assume independent or evenly spaced losses, a window without other limits, and a transfer much longer
//! than its ramp-up. A rate above that of the narrow link only means that loss is not the limit. The result is `None`
//! where a formula is not defined: no segment, no round trip, a loss ratio outside `0 < p <= 1`.

mod overlay;
mod sawtooth;
mod timeouts;
mod transfer;

use units::{Bytes, Duration, Rate};

pub use overlay::{RON_LOSS_MIN, rate_aware, ron_score, safire};
pub use sawtooth::{cubic_share, reno_share};
pub use timeouts::{Reno, TIMEOUT_BEYOND_RTT, cubic_with_timeouts, pftk, pftk_approximate, pftk_received, tfrc};
pub use transfer::cardwell;

/// Factor of [`mathis`] for evenly spaced losses and an acknowledgement per segment: `sqrt(3/2)` (Mathis, Semke,
/// Mahdavi, Ott 1997, table 1).
pub const MATHIS_PERIODIC: f64 = 1.224_744_871_391_589;

/// Factor of [`mathis`] with an acknowledgement for every second segment: `sqrt(3/4)` (the same table).
pub const MATHIS_DELAYED_ACK: f64 = 0.866_025_403_784_438_6;

/// Factor 1, as in Mark et al. 2008 and in the rule of thumb `MSS / (RTT sqrt(p))`.
pub const MATHIS_UNIT: f64 = 1.0;

/// CUBIC's scaling constant in segments per second cubed (RFC 9438 §5).
const CUBIC_C: f64 = 0.4;

/// Multiplicative decrease factor of CUBIC (RFC 9438 §4.6).
const CUBIC_BETA: f64 = 0.7;

/// Average window of Reno times `sqrt(p)`, in segments, as in the Reno columns of RFC 9438 tables 1 and 2 (and RFC
/// 3649): [`MATHIS_PERIODIC`], rounded.
const RENO_WINDOW: f64 = 1.2;

/// Reno's bulk rate: `MSS / RTT * k / sqrt(p)` (Mathis et al. 1997, equation 3).
///
/// `loss` is the share of segments lost, as congestion events; `k` one of [`MATHIS_PERIODIC`], [`MATHIS_DELAYED_ACK`],
/// [`MATHIS_UNIT`].
pub fn mathis(mss: Bytes, rtt: Duration, loss: f64, k: f64) -> Option<Rate> {
    rate(mss, rtt, k / checked(loss)?.sqrt())
}

/// CUBIC's bulk rate: the larger of its own average window and Reno's, per round trip.
///
/// Its own window is `(C (3 + beta) / (4 (1 - beta)))^(1/4) * RTT^(3/4) / p^(3/4)`, that is `1.054 RTT^(3/4) / p^(3/4)`
/// segments (RFC 9438 §5.1, §5.2). Where Reno's is larger CUBIC runs in its Reno-friendly region (§4.3).
pub fn cubic_response(mss: Bytes, rtt: Duration, loss: f64) -> Option<Rate> {
    rate(mss, rtt, cubic_window(rtt, checked(loss)?))
}

/// Average window of CUBIC in segments.
fn cubic_window(rtt: Duration, loss: f64) -> f64 {
    let factor = (CUBIC_C * (3.0 + CUBIC_BETA) / (4.0 * (1.0 - CUBIC_BETA))).powf(0.25);
    let own = factor * (rtt.as_secs_f64() / loss).powf(0.75);
    own.max(RENO_WINDOW / loss.sqrt())
}

fn checked(loss: f64) -> Option<f64> {
    (loss > 0.0 && loss <= 1.0).then_some(loss)
}

/// Segments that a sender may send before the first acknowledgement (RFC 6928 §2; Linux: `TCP_INIT_CWND`).
const INITIAL_WINDOW: u64 = 10;

/// Parameters of a path that carries a single transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathParameters {
    /// Data in a full segment.
    pub mss: Bytes,
    /// Bytes that a full segment occupies on the slowest link, headers included.
    pub wire: Bytes,
    /// Round-trip time of the path without queues.
    pub round_trip: Duration,
    /// Rate of the slowest link; `None` without a limit.
    pub rate: Option<Rate>,
}

/// Minimum time in which TCP can fetch `bytes` over an otherwise empty path, from the first packet of the handshake to
/// the last byte; `None` for a path without segments.
///
/// The time includes one round trip for the handshake, and one for the request and the first answer. It also includes
/// the bytes at the rate of the slowest link, and a pause after each window that is too small to fill a round trip.
/// Windows start with 10 segments (RFC 6928) and double each round trip (RFC 5681 §3.1, an acknowledgement for each
/// segment).
///
/// This is the slow start of Cardwell, Savage and Anderson, "Modeling TCP latency" (INFOCOM 2000), §II.C, with `w1 =
/// 10` and `gamma = 2`, without loss and without a limit by the receiver. Pauses are as in Kurose and Ross's static
/// window: window `k` takes `W_k S/R` to send, and its first acknowledgement arrives after `S/R + RTT`.
pub fn ideal_completion(bytes: Bytes, path: PathParameters) -> Option<Duration> {
    let mss = path.mss.as_u64();
    let mut segments = bytes.as_u64().div_ceil(if mss == 0 { return None } else { mss });
    let round_trip = path.round_trip.as_secs_f64();
    let each = path.rate.map_or(0.0, |rate| path.wire.as_u64() as f64 * 8.0 / rate.as_bps() as f64);
    let mut time = 2.0 * round_trip + bytes.as_u64() as f64 / mss as f64 * each;
    let mut window = INITIAL_WINDOW;
    while segments > window {
        let pause = each + round_trip - window as f64 * each;
        if pause <= 0.0 {
            break;
        }
        time += pause;
        segments -= window;
        window *= 2;
    }
    Duration::try_from_secs_f64(time).ok()
}

/// The rate of `window` segments of `mss` per round trip.
fn rate(mss: Bytes, rtt: Duration, window: f64) -> Option<Rate> {
    let bps = mss.as_u64() as f64 * 8.0 * window / rtt.as_secs_f64();
    // A cast to u64 would silently turn a rate beyond any host's into u64::MAX.
    (bps > 0.0 && bps < 9.0e18).then(|| Rate::from_bps(bps.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS_187: Duration = Duration::from_millis(187);

    fn mbps(rate: Option<Rate>) -> f64 {
        rate.unwrap().as_bps() as f64 / 1e6
    }

    #[test]
    fn reno_over_the_transatlantic_path_has_the_computed_rates() {
        // 8948 B * 8 / 187 ms = 382.8 kb/s, over sqrt(p): Mark et al. 2008 take k = 1.
        for (loss, expected) in [(1e-6, 383.0), (1e-5, 121.0), (1e-4, 38.3), (1e-3, 12.1), (1e-2, 3.83)] {
            let got = mbps(mathis(Bytes::new(8948), MS_187, loss, MATHIS_UNIT));
            assert!((got / expected - 1.0).abs() < 2e-3, "{loss}: {got} against {expected}");
            let periodic = mbps(mathis(Bytes::new(8948), MS_187, loss, MATHIS_PERIODIC));
            assert!((periodic / got - 1.5_f64.sqrt()).abs() < 1e-5);
        }
        assert!((MATHIS_DELAYED_ACK.powi(2) - 0.75).abs() < 1e-12);
    }

    #[test]
    fn cubic_has_the_windows_of_the_rfcs_tables() {
        // RFC 9438 table 1 (RTT 0.1 s) and table 2 (RTT 0.01 s), column C = 0.4.
        let table_1 = [(1e-2, 12.0), (1e-3, 38.0), (1e-4, 187.0), (1e-5, 1054.0), (1e-6, 5926.0), (1e-7, 33_325.0)];
        let table_2 = [(1e-4, 120.0), (1e-5, 379.0), (1e-6, 1200.0), (1e-7, 5926.0), (1e-8, 33_325.0)];
        for (rtt_ms, table) in [(100, &table_1[..]), (10, &table_2[..])] {
            for (loss, segments) in table {
                let got = cubic_window(Duration::from_millis(rtt_ms), *loss);
                assert!((got - segments).abs() <= 0.5, "{rtt_ms} ms, {loss}: {got} against {segments}");
            }
        }
    }

    #[test]
    fn the_rate_is_the_window_each_round_trip() {
        // 187.4 segments of 1460 B every 100 ms.
        let got = mbps(cubic_response(Bytes::new(1460), Duration::from_millis(100), 1e-4));
        assert!((got / (187.4 * 1460.0 * 8.0 / 0.1 / 1e6) - 1.0).abs() < 1e-3, "{got}");
    }

    /// A path with an MTU of 1500 and timestamps, on Ethernet.
    fn path(rate: Option<u64>) -> PathParameters {
        PathParameters {
            mss: Bytes::new(1448),
            wire: Bytes::new(1538),
            round_trip: MS_187,
            rate: rate.map(Rate::from_bps),
        }
    }

    #[test]
    fn without_a_limit_a_transfer_takes_the_round_trips_of_slow_start() {
        // Segments in 1, 2, 3, ... windows from 10: up to 10, 30, 70, 150. One round trip more for the handshake.
        for (segments, round_trips) in [(1, 2), (10, 2), (11, 3), (30, 3), (31, 4), (70, 4), (71, 5), (150, 5)] {
            let got = ideal_completion(Bytes::new(segments * 1448), path(None)).unwrap();
            let expected = MS_187 * round_trips;
            assert!(got.abs_diff(expected) < Duration::from_nanos(10), "{segments}: {got:?} against {expected:?}");
        }
    }

    #[test]
    fn at_a_rate_a_transfer_waits_for_its_bytes_and_less_for_its_windows() {
        // 100 kB at 100 Mb/s: 123.04 us a segment, 69.061 of them 8.4972 ms. Pauses of 187 ms - 9 x 123.04 us and of
        // 187 ms - 19 x 123.04 us. Sum with two round trips: 753.052 ms.
        let got = ideal_completion(Bytes::new(100_000), path(Some(100_000_000))).unwrap();
        assert!((got.as_secs_f64() - 0.753_052).abs() < 1e-6, "{got:?}");
        // 1 Mb/s: ten segments of 12.304 ms are 123 ms, the second window fills the round trip: one pause of 76.264 ms.
        let got = ideal_completion(Bytes::new(1_448_000), path(Some(1_000_000))).unwrap();
        assert!((got.as_secs_f64() - (0.374 + 12.304 + 0.076_264)).abs() < 1e-6, "{got:?}");
        // One byte takes no noticeable time.
        let got = ideal_completion(Bytes::new(1), path(Some(1_000_000_000))).unwrap();
        assert!((got.as_secs_f64() - 0.374).abs() < 1e-6, "{got:?}");
    }

    #[test]
    fn an_invalid_path_gives_no_time_and_no_amount_of_bytes_a_panic() {
        assert_eq!(ideal_completion(Bytes::new(1), PathParameters { mss: Bytes::ZERO, ..path(None) }), None);
        ideal_completion(Bytes::new(u64::MAX), path(None));
        ideal_completion(Bytes::new(u64::MAX), PathParameters { wire: Bytes::new(u64::MAX), ..path(Some(1)) });
        assert_eq!(ideal_completion(Bytes::new(u64::MAX), path(Some(0))), None);
    }

    #[test]
    fn undefined_parameters_give_no_rate() {
        let (mss, rtt) = (Bytes::new(1460), Duration::from_millis(10));
        for loss in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(mathis(mss, rtt, loss, 1.0), None, "{loss}");
            assert_eq!(cubic_response(mss, rtt, loss), None, "{loss}");
        }
        assert_eq!(mathis(mss, Duration::ZERO, 0.01, 1.0), None);
        assert_eq!(mathis(Bytes::ZERO, rtt, 0.01, 1.0), None);
        assert_eq!(mathis(mss, rtt, 0.01, f64::NAN), None);
        assert_eq!(cubic_response(mss, Duration::ZERO, 0.01), None);
        assert!(cubic_response(Bytes::new(u64::MAX), Duration::from_nanos(1), 1e-300).is_none());
    }
}
