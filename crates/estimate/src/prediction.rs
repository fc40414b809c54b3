//! What one long TCP transfer will get, from what probes told of the path.

mod lost;

use results::estimate::{PredictionBound, TransferPrediction};
use units::{Bytes, Duration, Rate};

pub use self::lost::{LossOver, Lost};
use crate::choice::Belief;
use crate::history::Prediction;
use crate::model::{
    PathParameters, Reno, TIMEOUT_BEYOND_RTT, cubic_share, cubic_with_timeouts, ideal_completion, pftk, reno_share,
};
use crate::probe::{Interval, Path};
use crate::samples::rate;

/// Congestion controls of which it is known how they answer to loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// CUBIC (RFC 9438).
    Cubic,
    /// Reno (RFC 5681).
    Reno,
    /// BBR, version 1: loss of a few per cent does not slow it down.
    Bbr,
}

impl Control {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cubic, Self::Reno, Self::Bbr];

    /// Name as Linux has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }
}

/// What is known of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathState {
    /// Of the narrow link, in bits of IP packets; absent when no method told it.
    pub capacity: Option<Interval>,
    /// What is left, in bits of IP packets.
    pub available: Interval,
    /// Without queues.
    pub round_trip: Duration,
    /// How long a packet waits at most that still finds room in the queue of the narrow link: the buffer as time. Absent when
    /// no probe saw that queue full; it may then be of any length.
    pub queue: Option<Duration>,
    /// Of probes that came one by one: what a burst loses says nothing of the path.
    pub loss: Option<Lost>,
    /// Largest window, the receiver's or the socket's.
    pub window: Option<Bytes>,
    /// What earlier transfers with the same congestion control let expect, in payload.
    pub earlier: Option<Prediction>,
    /// Data in a segment.
    pub mss: Bytes,
    /// The segment as an IP packet.
    pub packet: Bytes,
}

impl PathState {
    /// Of a path that was probed, for segments as long as its packets, of IPv4 and TCP with timestamps. Neither loss nor a
    /// window nor a short queue bounds it.
    pub fn new(path: &Path, capacity: Option<Interval>, available: Interval) -> Self {
        Self {
            capacity,
            available,
            round_trip: path.round_trip.max(ROUND_TRIP_MIN),
            queue: None,
            loss: None,
            window: None,
            earlier: None,
            mss: Bytes::new(path.mtu.saturating_sub(TCP_HEADERS).into()),
            packet: Bytes::new(path.mtu.into()),
        }
    }
}

/// Headers of IPv4 and TCP with timestamps.
const TCP_HEADERS: u32 = 52;

/// No round trip is shorter; what a clock reads as zero is not.
const ROUND_TRIP_MIN: Duration = Duration::from_micros(1);

/// Loss at which BBR still goes at the full rate: version 1 leaves it alone up to the gain of its probing, a quarter, less
/// what is retransmitted.
const BBR_BEARS: f64 = 0.15;

/// Goodput in the long run and, for a transfer of that size, the time with slow start.
///
/// - The link: what is left of it, in payload. Where less than half of the capacity is left, the load may be TCP that gives
///   way: one such flow would leave half. Then the value is the geometric mean of both, and half is the upper end.
/// - The queue of the link, where it is known: Reno and CUBIC fill it, lose what overflows and then leave the link idle in
///   part where it is short ([`reno_share`], [`cubic_share`]). That is so for a single transfer; beside others, whose windows swing at
///   other times, a shorter queue does (Appenzeller et al. 2004, §3), so the upper end is without it. BBR does not
///   wait for an overflow.
/// - Loss: PFTK for Reno, the response function with timeouts for CUBIC, with the count of losses give or take its standard error. No
///   loss among the probes bounds nothing: a hundred of them cannot see what slows a fast transfer down. Losses of echoed
///   probes are taken for half of the round trip's; the interval then reaches from all to nothing of them.
/// - The window over the round trip.
///
/// The least of them is the answer. Earlier transfers, where there were any and their interval meets that of the probes, are
/// taken together with it ([`Belief::and`]): ours, after the hybrid of history and probes that the predictors of He, Dovrolis,
/// Ammar (2005) ask for. Where the intervals do not meet the path has changed, and the probes are of now. The choice where the load is unknown is ours; no probe here tells TCP from others.
pub fn predict(path: &PathState, control: Control, transfer: Option<Bytes>) -> TransferPrediction {
    let share = path.mss.as_u64() as f64 / path.packet.as_u64().max(1) as f64;
    let [value, low, high] = left_to_tcp(path).map(|bps| bps * share);
    let used = |bps: f64| bps * used_of_link(path, control, bps);
    let link = [used(value), used(low), high];
    let bounds = [
        Some((link, PredictionBound::Link)),
        path.loss.and_then(|l| by_loss(path, control, l)).map(|b| (b, PredictionBound::Loss)),
        path.window.map(|w| {
            let bps = w.as_u64() as f64 * 8.0 / path.round_trip.as_secs_f64().max(1e-9);
            ([bps; 3], PredictionBound::Window)
        }),
    ];
    let least = |i: usize| bounds.iter().flatten().map(|(b, _)| b[i]).fold(f64::INFINITY, f64::min);
    let probed = [least(0), least(1), least(2)];
    let together = path.earlier.as_ref().and_then(|e| with_earlier(probed, e));
    let [value, low, high] = together.unwrap_or(probed).map(rate);
    let bound = bounds.iter().flatten().min_by(|a, b| a.0[0].total_cmp(&b.0[0])).map_or(PredictionBound::Link, |b| b.1);
    let time = |goodput: Rate| transfer.and_then(|bytes| completion(path, bytes, goodput)).map(units::nanos);
    TransferPrediction {
        congestion_control: control.name().to_owned(),
        goodput_bps: value.as_bps(),
        low_bps: low.as_bps(),
        high_bps: high.as_bps(),
        bound,
        earlier_transfers: path.earlier.filter(|_| together.is_some()).map(|e| e.samples as u64),
        bytes: transfer.map(Bytes::as_u64),
        completion_ns: time(value),
        completion_low_ns: time(high),
        completion_high_ns: time(low),
    }
}

/// Value and ends of what probes and earlier transfers say together; `None` where they contradict each other.
fn with_earlier([value, low, high]: [f64; 3], earlier: &Prediction) -> Option<[f64; 3]> {
    if earlier.low_bps > high || earlier.high_bps < low {
        return None;
    }
    // Four of five values lie within 1.28 standard deviations, 95 of 100 within 1.96.
    let wider = |end: f64| earlier.rate_bps * (end / earlier.rate_bps).powf(1.96 / 1.28);
    let before = Belief::new(earlier.rate_bps, wider(earlier.low_bps), wider(earlier.high_bps))?;
    Some(Belief::new(value, low, high)?.and(before).interval())
}

/// Value, lower and upper end in b/s of IP packets.
fn left_to_tcp(path: &PathState) -> [f64; 3] {
    let left = path.available;
    let [value, low, high] = [left.value, left.low, left.high].map(|r| r.as_bps() as f64);
    let half = path.capacity.map_or(0.0, |c| c.value.as_bps() as f64 / 2.0);
    if value >= half {
        return [value, low, high];
    }
    // A path of which nothing is left still lets a window of a segment through.
    let least = value.max(half / 32.0);
    [(least * half).sqrt(), low, high.max(half)]
}

/// Share of a link that carries so much payload in b/s which a transfer uses that loses only what overflows its queue.
fn used_of_link(path: &PathState, control: Control, bps: f64) -> f64 {
    let Some(queue) = path.queue else { return 1.0 };
    let bytes = |time: Duration| bps * time.as_secs_f64() / 8.0;
    // A window that never fills the queue loses nothing there.
    if path.window.is_some_and(|w| (w.as_u64() as f64) < bytes(path.round_trip) + bytes(queue)) {
        return 1.0;
    }
    let segments = bytes(path.round_trip) / path.mss.as_u64().max(1) as f64;
    let share = match control {
        Control::Reno => reno_share(path.round_trip, queue),
        Control::Cubic => cubic_share(segments, path.round_trip, queue),
        Control::Bbr => None,
    };
    share.unwrap_or(1.0)
}

fn by_loss(path: &PathState, control: Control, lost: Lost) -> Option<[f64; 3]> {
    if lost.lost == 0 || lost.sent == 0 {
        return None;
    }
    let timeout = path.round_trip + TIMEOUT_BEYOND_RTT;
    let of = |share: f64| {
        let p = share.clamp(1e-9, 0.99);
        let by_formula = match control {
            Control::Cubic => cubic_with_timeouts(path.mss, path.round_trip, p, timeout),
            Control::Reno => pftk(Reno {
                mss: path.mss,
                rtt: path.round_trip,
                loss: p,
                timeout,
                segments_per_ack: 2.0,
                window: None,
            }),
            Control::Bbr => {
                let whole = path.capacity.unwrap_or(path.available).value.as_bps() as f64;
                Some(Rate::from_bps((whole * if p <= BBR_BEARS { 1.0 - p } else { 0.1 }) as u64))
            }
        };
        by_formula.map(|r| r.as_bps() as f64)
    };
    let [value, most, least] = lost.shares();
    // A single loss may as well have been none.
    let high = if least > 0.0 { of(least)? } else { f64::INFINITY };
    Some([of(value)?, of(most)?, high])
}

fn completion(path: &PathState, bytes: Bytes, goodput: Rate) -> Option<Duration> {
    let wire = path.mss;
    ideal_completion(bytes, PathParameters { mss: path.mss, wire, round_trip: path.round_trip, rate: Some(goodput) })
        .filter(|_| goodput > Rate::ZERO)
}

#[cfg(test)]
mod tests;
