//! Utilisation of a link by a single transfer that loses only the packets that overflow the link's own queue.
//!
//! The window oscillates between `beta (BDP + B)` and `BDP + B`. BDP is the data that the link carries in a round trip
//! without a queue, and `B` is the capacity of its queue: at `BDP + B` a packet finds the queue full. While the window
//! is below the BDP, the link is partly idle; above it, the link is full. If `beta (BDP + B) >= BDP`, the link is never
//! idle. That requires a queue of one BDP for Reno (Villamizar, Song 1994; Appenzeller, Keslassy, McKeown, *Sizing
//! router buffers*, SIGCOMM 2004, §2), and of 3/7 of it for CUBIC.
//!
//! Below, `top = (BDP + B) / BDP = 1 + B/RTT`, with `B` as the time in which the link drains its queue.

use units::Duration;

use super::{CUBIC_BETA, CUBIC_C};

/// Multiplicative decrease factor of Reno (RFC 5681 §3.2).
const RENO_BETA: f64 = 0.5;

/// Growth of CUBIC's window per round trip in its Reno-friendly region, in segments (RFC 9438 §4.3).
const FRIENDLY_GROWTH: f64 = 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA);

/// Share of a link that one Reno transfer uses, 0.75 to 1. `queue` is the time in which the link drains its full queue;
/// `round_trip` is without a queue. `None` without a round trip.
pub fn reno_share(round_trip: Duration, queue: Duration) -> Option<f64> {
    Some(linear(top(round_trip, queue)?, RENO_BETA))
}

/// Share of a link that one CUBIC transfer uses, 0.85 to 1. `packets` is the number that the link carries in a round
/// trip without a queue.
///
/// The window follows RFC 9438's cubic function (§4.2) or, if that returns to the top earlier, its Reno-friendly line
/// (§4.3): on paths of few packets or of short round trips.
pub fn cubic_share(packets: f64, round_trip: Duration, queue: Duration) -> Option<f64> {
    let top = top(round_trip, queue)?;
    let climb = (packets * top * (1.0 - CUBIC_BETA) / CUBIC_C).cbrt();
    let friendly_climb = packets * round_trip.as_secs_f64() * linear_climb(top, CUBIC_BETA) / FRIENDLY_GROWTH;
    let is_defined = packets > 0.0 && packets.is_finite();
    is_defined.then(|| if friendly_climb < climb { linear(top, CUBIC_BETA) } else { cubic(top, CUBIC_BETA) })
}

/// Maximum window over the BDP.
fn top(round_trip: Duration, queue: Duration) -> Option<f64> {
    (!round_trip.is_zero()).then(|| 1.0 + queue.as_secs_f64() / round_trip.as_secs_f64())
}

/// Time from the bottom to the top of the window if it grows by a BDP in each round trip, in round trips without a
/// queue.
///
/// Below the BDP a round trip is one: `1 - bottom`. Above it is as long as the window is large, which is the integral
/// of
/// `w` from 1 to `top`.
fn linear_climb(top: f64, beta: f64) -> f64 {
    (1.0 - beta * top).max(0.0) + (top.powi(2) - (beta * top).max(1.0).powi(2)) / 2.0
}

/// Utilisation with a window of linear growth per round trip. Below the BDP it carries `(1 - bottom^2) / 2` in `1 -
/// bottom`, above it all of `(top^2 - 1) / 2`. The result is `(top^2 - bottom^2) / (2 (1 - bottom) + top^2 - 1)`; for
/// Reno `3/4` without a queue.
fn linear(top: f64, beta: f64) -> f64 {
    let bottom = beta * top;
    if bottom >= 1.0 {
        return 1.0;
    }
    (top.powi(2) - bottom.powi(2)) / (2.0 * linear_climb(top, beta))
}

/// Utilisation with a window that follows CUBIC's function of time. With `u` from 1 at the loss to 0 at the next, the
/// window is `top (1 - (1 - beta) u^3)`. It is below the BDP while `u > since = ((1 - 1/top) / (1 - beta))^(1/3)`, and
/// the missing part is the integral of 1 less the window from `since` to 1. Without a queue the result is `(3 + beta) /
/// 4`, as in RFC 9438 §5.1.
fn cubic(top: f64, beta: f64) -> f64 {
    let since = ((1.0 - top.recip()) / (1.0 - beta)).cbrt();
    if since >= 1.0 {
        return 1.0;
    }
    1.0 - ((1.0 - top) * (1.0 - since) + top * (1.0 - beta) * (1.0 - since.powi(4)) / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn near(value: Option<f64>, expected: f64) {
        // Expected values are written with five digits.
        assert!((value.unwrap() - expected).abs() < 1e-5, "{value:?} is not {expected}");
    }

    #[test]
    fn without_a_queue_the_link_carries_the_mean_of_the_sawtooth() {
        // Half to all of the BDP on a line; for CUBIC (3 + 0.7) / 4.
        near(reno_share(RTT, Duration::ZERO), 0.75);
        near(cubic_share(10_000.0, RTT, Duration::ZERO), 0.925);
        // Ten packets at 100 ms grow along the line from 0.7 to 1: 18 round trips of it are 0.6 s, the cubic needs 2 s.
        near(cubic_share(10.0, RTT, Duration::ZERO), 0.85);
    }

    #[test]
    fn half_a_queue_gives_most_of_the_gain_of_a_whole_one() {
        // A window of 0.75 to 1.5 BDP: (2.25 - 0.5625) / (0.5 + 1.25).
        near(reno_share(RTT, ms(50)), 1.6875 / 1.75);
        // 0.77 to 1.1 BDP: below it for u > (0.1/1.1 / 0.3)^(1/3) = 0.67163, where 1 - 1.1 + 0.33 u^3 is missing:
        // 0.0825 (1 - 0.20347) - 0.1 (1 - 0.67163) = 0.03288.
        near(cubic_share(10_000.0, RTT, ms(10)), 0.96713);
    }

    #[test]
    fn the_rule_of_thumb_fills_the_link_and_a_shorter_queue_does_not() {
        near(reno_share(RTT, ms(100)), 1.0);
        assert!(reno_share(RTT, ms(99)).unwrap() < 1.0);
        // 0.7 x 10/7 = 1: 42.86 ms.
        near(cubic_share(10_000.0, RTT, ms(43)), 1.0);
        assert!(cubic_share(10_000.0, RTT, ms(42)).unwrap() < 1.0);
    }

    #[test]
    fn the_formula_agrees_with_a_simulation_of_the_windows() {
        // A thousand segments in flight and one more per round trip, which the queueing delay lengthens: Reno by RFC
        // 5681.
        for queue in [0_u32, 100, 400, 800, 1500] {
            let (bdp, top) = (1000.0_f64, 1000.0 + f64::from(queue));
            let (mut window, mut carried, mut time) = (top / 2.0, 0.0, 0.0);
            while window < top {
                carried += window;
                time += window.max(bdp) / bdp;
                window += 1.0;
            }
            let simulated = carried / (time * bdp);
            let share = reno_share(Duration::from_secs(1), Duration::from_millis(queue.into())).unwrap();
            // One window of a thousand more or less.
            assert!((share - simulated).abs() < 1e-3, "{queue}: {share} against {simulated}");
        }
    }

    #[test]
    fn a_longer_queue_never_reduces_the_share() {
        for packets in [2.0, 30.0, 300.0, 10_000.0] {
            let shares = |queue: u64| [reno_share(RTT, ms(queue)), cubic_share(packets, RTT, ms(queue))];
            for queue in 0..200 {
                for (less, more) in shares(queue).into_iter().zip(shares(queue + 1)) {
                    assert!(less.unwrap() <= more.unwrap() + 1e-12 && more.unwrap() <= 1.0, "{packets} {queue}");
                }
            }
        }
    }

    #[test]
    fn undefined_parameters_give_no_share() {
        assert_eq!(reno_share(Duration::ZERO, RTT), None);
        for packets in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(cubic_share(packets, RTT, RTT), None, "{packets}");
        }
        assert_eq!(reno_share(Duration::from_nanos(1), Duration::MAX), Some(1.0));
        assert_eq!(cubic_share(1.0, Duration::from_nanos(1), Duration::MAX), Some(1.0));
    }
}
