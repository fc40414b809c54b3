//! Formulas that include timeouts: PFTK and its descendants.

use super::{checked, rate};
use units::{Bytes, Duration, Rate};

/// Minimum excess of Linux's retransmission timeout over the round trip (`TCP_RTO_MIN`).
pub const TIMEOUT_BEYOND_RTT: Duration = Duration::from_millis(200);

/// Average window of CUBIC with random losses, over `(RTT/p)^(3/4)` (Poojary and Sharma, "An asymptotic approximation
/// of TCP CUBIC", arXiv:1510.08496, for C = 0.4 and beta = 0.7). With evenly spaced losses the factor is 1.0541 (RFC
/// 9438 §5.1).
const RANDOM_CUBIC: f64 = 1.3004;
/// Average window of CUBIC in its Reno-friendly region with random losses, over `1/sqrt(p)`. The region adds `3 (1 -
/// beta) / (1 + beta)` segments per round trip. The chain of Ott, Kemperman and Mathis ("The stationary behavior of
/// ideal TCP congestion avoidance", 1996; 1.3098 for Reno) gives the value for these two numbers.
const RANDOM_FRIENDLY: f64 = 1.274;

/// Parameters of a Reno sender and its path, for formulas with timeouts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reno {
    /// Data in a segment.
    pub mss: Bytes,
    /// Round trip, queues included.
    pub rtt: Duration,
    /// Loss events per segment, `0 < p < 1`: losses within one round trip are one event.
    pub loss: f64,
    /// Retransmission timeout before any backoff (`T0`).
    pub timeout: Duration,
    /// Segments per acknowledgement (`b`): 1, or 2 with delayed acknowledgements.
    pub segments_per_ack: f64,
    /// Maximum window in segments, the receiver's (`Wm`); `None` without a limit.
    pub window: Option<f64>,
}

impl Reno {
    fn is_defined(&self) -> Option<()> {
        let is_positive = |x: f64| x > 0.0 && x.is_finite();
        let window = self.window.is_none_or(is_positive);
        (checked(self.loss)? < 1.0 && is_positive(self.segments_per_ack) && window && self.timeout > Duration::ZERO)
            .then_some(())
    }

    fn largest(&self) -> f64 {
        self.window.unwrap_or(f64::INFINITY)
    }
}

/// Reno's send rate with timeouts, approximately: the smaller of `Wm / R` and
/// `1 / (R sqrt(2bp/3) + T0 min(1, 3 sqrt(3bp/8)) p (1 + 32 p^2))` segments (Padhye, Firoiu, Towsley and Kurose,
/// "Modeling TCP throughput: a simple model and its empirical validation", SIGCOMM 1998; equation 2.1 of Strauss's
/// thesis, 2002).
pub fn pftk_approximate(reno: Reno) -> Option<Rate> {
    reno.is_defined()?;
    let Reno { loss: p, segments_per_ack: b, .. } = reno;
    let rtt = reno.rtt.as_secs_f64();
    let halving = rtt * (2.0 * b * p / 3.0).sqrt();
    let waiting = reno.timeout.as_secs_f64() * timeout_share(b, p) * p * (1.0 + 32.0 * p * p);
    rate(reno.mss, reno.rtt, (rtt / (halving + waiting)).min(reno.largest()))
}

/// `3 sqrt(3bp/8)`, the share of loss events that end in a timeout; at most all.
fn timeout_share(b: f64, p: f64) -> f64 {
    (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0)
}

/// Reno's send rate with timeouts, in full (the same paper).
pub fn pftk(reno: Reno) -> Option<Rate> {
    full(reno, |window, timeouts, p| window + timeouts / (1.0 - p))
}

/// Reno's throughput with timeouts: the segments that arrive, without lost ones (the same authors, "Modeling TCP Reno
/// performance", IEEE/ACM Transactions on Networking, 2000).
pub fn pftk_received(reno: Reno) -> Option<Rate> {
    full(reno, |window, timeouts, _| window / 2.0 + timeouts)
}

/// `last` gives the segments of the last round trip and of the timeouts that count, from window, share of timeouts and
/// loss.
fn full(reno: Reno, last: fn(f64, f64, f64) -> f64) -> Option<Rate> {
    reno.is_defined()?;
    let Reno { loss: p, segments_per_ack: b, .. } = reno;
    let at_loss = window_at_loss(b, p);
    let largest = reno.largest();
    let is_limited = at_loss >= largest;
    let window = at_loss.min(largest);
    let timeouts = timeouts(p, window);
    let rounds = if is_limited { b * window / 8.0 + (1.0 - p) / (p * window) + 2.0 } else { b * window / 2.0 + 1.0 };
    let waiting = timeouts * backoff(p) * reno.timeout.as_secs_f64() / (1.0 - p);
    let segments = (1.0 - p) / p + last(window, timeouts, p);
    let rtt = reno.rtt.as_secs_f64();
    rate(reno.mss, reno.rtt, segments / (rtt * rounds + waiting) * rtt)
}

/// Unlimited window at the time of a loss: `(2+b)/(3b) + sqrt(8(1-p)/(3bp) + ((2+b)/(3b))^2)`.
fn window_at_loss(b: f64, p: f64) -> f64 {
    let constant = (2.0 + b) / (3.0 * b);
    constant + (8.0 * (1.0 - p) / (3.0 * b * p) + constant * constant).sqrt()
}

/// Probability that a loss in a window of `w` ends in a timeout.
pub(super) fn timeouts(p: f64, w: f64) -> f64 {
    let arrives = 1.0 - p;
    let three = arrives.powi(3);
    ((1.0 - three) * (1.0 + three * (1.0 - arrives.powf(w - 3.0))) / (1.0 - arrives.powf(w))).clamp(0.0, 1.0)
}

/// Mean duration of a series of timeouts over the first one, times `1 - p`: they double up to 64 times.
pub(super) fn backoff(p: f64) -> f64 {
    1.0 + p + 2.0 * p.powi(2) + 4.0 * p.powi(3) + 8.0 * p.powi(4) + 16.0 * p.powi(5) + 32.0 * p.powi(6)
}

/// CUBIC's bulk rate with timeouts. Its average window carries the segments between two losses. Each loss also costs a
/// series of timeouts, as often as Reno's in [`pftk_approximate`] and as long as in [`pftk`]. The rate is `1 / (RTT / W
/// + p min(1, 3 sqrt(3p/8)) T0 f(p) / (1 - p))` segments.
///
/// `W` is the larger of `1.30 (RTT/p)^(3/4)` and `1.27 / sqrt(p)`. Losses are random here, where RFC 9438 has one in
/// each `1/p` segments ([`super::cubic_response`]: 1.054 and 1.2). A window that is hit late has then grown by more
/// than one that is hit early has lost.
///
/// The sum is this crate's own, because neither source includes timeouts. Linux reached 1.6 and 0.3 Mb/s at losses of
/// 0.05 and 0.15 in both directions over 20 ms, 0.14 and 0.065 over 300 ms, and 0.12 at 0.05 over 540 ms. The formula
/// gives 1.26, 0.27, 0.17, 0.064 and 0.12; with the RFC's windows it gives 0.10 over 540 ms.
pub fn cubic_with_timeouts(mss: Bytes, rtt: Duration, loss: f64, timeout: Duration) -> Option<Rate> {
    let p = checked(loss).filter(|p| *p < 1.0)?;
    let seconds = rtt.as_secs_f64();
    let window = (RANDOM_CUBIC * (seconds / p).powf(0.75)).max(RANDOM_FRIENDLY / p.sqrt());
    let row = timeout_share(1.0, p) * backoff(p) * timeout.as_secs_f64() / (1.0 - p);
    rate(mss, rtt, seconds / (seconds / window + p * row))
}

/// TFRC's allowed rate: the approximation with an acknowledgement per segment, a timeout of four round trips, and no
/// bound on the share of timeouts (RFC 5348 §3.1).
pub fn tfrc(mss: Bytes, rtt: Duration, loss: f64) -> Option<Rate> {
    let p = checked(loss)?;
    let timeouts = 4.0 * 3.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
    rate(mss, rtt, 1.0 / ((2.0 * p / 3.0).sqrt() + timeouts))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: Bytes = Bytes::new(1000);

    fn reno(loss: f64) -> Reno {
        let (rtt, timeout) = (Duration::from_millis(100), Duration::from_millis(400));
        Reno { mss: MSS, rtt, loss, timeout, segments_per_ack: 2.0, window: None }
    }

    /// Segments of 1000 bytes per second.
    fn segments(rate: Option<Rate>) -> f64 {
        rate.unwrap().as_bps() as f64 / 8000.0
    }

    #[test]
    fn the_rates_are_those_of_the_equations() {
        // Computed independently of this code, with T0 = 4 R, b = 2: 79.43 and 77.85 segments a second at one loss in a
        // hundred.
        assert!((segments(pftk_approximate(reno(0.01))) - 79.431).abs() < 0.01);
        assert!((segments(pftk(reno(0.01))) - 77.846).abs() < 0.01);
        // Full over approximate formula, in per cent.
        for (loss, expected) in [(1e-5, -0.09), (1e-4, -0.28), (1e-3, -0.86), (1e-2, -1.99), (5e-2, 2.5)] {
            let ratio = segments(pftk(reno(loss))) / segments(pftk_approximate(reno(loss)));
            assert!((100.0 * (ratio - 1.0) - expected).abs() < 0.02, "{loss}: {ratio}");
        }
    }

    #[test]
    fn with_few_losses_timeouts_do_not_matter() {
        // sqrt(3 / (2 b p)) / R with b = 2: Mathis with delayed acknowledgements.
        let mathis = super::super::mathis(MSS, reno(1e-8).rtt, 1e-8, super::super::MATHIS_DELAYED_ACK);
        assert!((segments(pftk(reno(1e-8))) / segments(mathis) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn a_receivers_window_bounds_the_rate() {
        let limited = |loss| Reno { window: Some(20.0), ..reno(loss) };
        // 20 segments every 100 ms.
        assert!((segments(pftk_approximate(limited(1e-6))) - 200.0).abs() < 1e-3);
        let full = segments(pftk(limited(1e-6)));
        assert!((195.0..=200.0).contains(&full), "{full}");
        assert_eq!(pftk(limited(0.05)), pftk(reno(0.05)), "a window that is never reached does not limit");
    }

    #[test]
    fn fewer_segments_arrive_than_are_sent() {
        for loss in [1e-4, 1e-3, 1e-2, 0.1, 0.3] {
            let (sent, arrived) = (segments(pftk(reno(loss))), segments(pftk_received(reno(loss))));
            // At least the losses are missing.
            assert!(arrived <= sent * (1.0 - loss * 0.5), "{loss}: {arrived} of {sent}");
        }
    }

    /// Average windows over many losses at random, by the windows' own equations: CUBIC's `C (t - K)^3 + Wmax` (RFC
    /// 9438 §4.2) and additive increase.
    #[test]
    fn random_losses_leave_larger_windows_than_evenly_spaced_ones() {
        use rand_chacha::ChaCha8Rng;
        use rand_chacha::rand_core::{RngCore, SeedableRng};
        const LOSSES: usize = 60_000;
        let mut draws = ChaCha8Rng::seed_from_u64(1);
        let mut between = || -(1.0 - f64::from(draws.next_u32()) / 2.0_f64.powi(32)).ln();

        // In units of 1/sqrt(p) segments: a window of w ends a series of n segments with x = sqrt((beta w)^2 + 2 a n),
        // after (x - beta w) / a round trips.
        let (beta, increase) = (0.7, 3.0 * (1.0 - 0.7) / (1.0 + 0.7));
        let (mut window, mut rounds) = (1.0_f64, 0.0);
        for _ in 0..LOSSES {
            let first = beta * window;
            window = (first * first + 2.0 * increase * between()).sqrt();
            rounds += (window - first) / increase;
        }
        let friendly = LOSSES as f64 / rounds;
        // The error of 60,000 exponential draws is 0.4 %.
        assert!((friendly / RANDOM_FRIENDLY - 1.0).abs() < 0.01, "{friendly}");

        // In units in which p = RTT = 1: then (RTT/p)^(3/4) is 1. Segments until t are the integral of the window.
        let (mut window_max, mut sent, mut time) = (1.0_f64, 0.0, 0.0);
        for _ in 0..LOSSES {
            let (n, k) = (between(), (window_max * (1.0 - beta) / 0.4_f64).cbrt());
            let until = |t: f64| 0.1 * ((t - k).powi(4) - k.powi(4)) + window_max * t;
            let (mut low, mut high) = (0.0, 64.0);
            while high - low > 1e-6 {
                let middle = (low + high) / 2.0;
                if until(middle) < n { low = middle } else { high = middle }
            }
            window_max += 0.4 * (high - k).powi(3);
            (sent, time) = (sent + n, time + high);
        }
        let cubic = sent / time;
        assert!((cubic / RANDOM_CUBIC - 1.0).abs() < 0.015, "{cubic}");
    }

    #[test]
    fn cubic_waits_for_timeouts_where_windows_are_small() {
        let rate = |loss, ms, timeout_ms| {
            let (rtt, timeout) = (Duration::from_millis(ms), Duration::from_millis(timeout_ms));
            segments(cubic_with_timeouts(MSS, rtt, loss, timeout))
        };
        // Computed independently. W = 1.274 / sqrt(0.15) = 3.2895 in 20 ms: 6.0800 ms a segment; a series of 0.7115 x
        // 1.2141 x 220 ms / 0.85.
        assert!((rate(0.15, 20, 220) - 25.24).abs() < 0.05, "{}", rate(0.15, 20, 220));
        assert!((rate(0.05, 20, 220) - 117.2).abs() < 0.1, "{}", rate(0.05, 20, 220));
        // Few losses end in a timeout: the windows of RFC 9438's table 1, 187 and 5926 segments every 100 ms, by 1.3004
        // / 1.0541.
        for (loss, window) in [(1e-4, 187.0), (1e-6, 5926.0)] {
            let expected = window * 10.0 * 1.3004 / 1.0541;
            assert!((rate(loss, 100, 300) / expected - 1.0).abs() < 0.01, "{loss}: {}", rate(loss, 100, 300));
        }
        // A timeout costs time with any window.
        assert!(rate(0.05, 20, 400) < rate(0.05, 20, 220));
    }

    #[test]
    fn tfrc_is_the_approximation_with_its_own_constants() {
        // RFC 5348: s / (R (sqrt(2p/3) + 12 sqrt(3p/8) p (1 + 32 p^2))) at p = 0.01, R = 100 ms: 112.3 segments a
        // second.
        assert!((segments(tfrc(MSS, Duration::from_millis(100), 0.01)) - 112.332).abs() < 0.01);
        let one = Reno { segments_per_ack: 1.0, ..reno(0.001) };
        let of = segments(tfrc(MSS, one.rtt, one.loss)) / segments(pftk_approximate(one));
        assert!((of - 1.0).abs() < 1e-9);
    }

    #[test]
    fn undefined_parameters_give_no_rate() {
        for loss in [0.0, 1.0, -1.0, f64::NAN] {
            assert_eq!(pftk(reno(loss)), None);
            assert_eq!(pftk_approximate(reno(loss)), None);
        }
        for broken in [
            Reno { segments_per_ack: 0.0, ..reno(0.1) },
            Reno { window: Some(0.0), ..reno(0.1) },
            Reno { timeout: Duration::ZERO, ..reno(0.1) },
            Reno { rtt: Duration::ZERO, ..reno(0.1) },
        ] {
            assert_eq!(pftk(broken), None, "{broken:?}");
            assert_eq!(pftk_received(broken), None, "{broken:?}");
        }
        for (rtt, loss) in [(Duration::ZERO, 0.1), (Duration::from_millis(1), 0.0), (Duration::from_millis(1), 1.0)] {
            assert_eq!(cubic_with_timeouts(MSS, rtt, loss, rtt), None, "{rtt:?} {loss}");
        }
        assert_eq!(tfrc(MSS, Duration::ZERO, 0.1), None);
    }
}
