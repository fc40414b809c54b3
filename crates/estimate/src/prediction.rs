//! Prediction of the goodput of one long TCP transfer from the probes of a path.

mod lost;

use results::estimate::{PredictionBound, TransferPrediction};
use units::{Bytes, Duration, Rate};

pub use self::lost::{LossCount, LossScope};
use crate::choice::Belief;
use crate::history::Prediction;
use crate::model::{
    PathParameters, Reno, TIMEOUT_BEYOND_RTT, cubic_share, cubic_with_timeouts, ideal_completion, pftk, reno_share,
};
use crate::probe::{Interval, Path};
use crate::samples::rate;

/// Congestion controls with a known response to loss.
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
    /// All congestion controls.
    pub const ALL: [Self; 3] = [Self::Cubic, Self::Reno, Self::Bbr];

    /// Name in Linux.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }
}

/// State of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathState {
    /// Capacity of the narrow link, in bits of IP packets; absent if no method measured it.
    pub capacity: Option<Interval>,
    /// Available bandwidth, in bits of IP packets.
    pub available: Interval,
    /// Round-trip time without queues.
    pub round_trip: Duration,
    /// Maximum queueing delay of the narrow link: its buffer as time. Absent if no probe saw that queue full; it can
    /// then have any length.
    pub queue: Option<Duration>,
    /// Loss of probes that were sent one by one: losses within a burst do not represent the path.
    pub loss: Option<LossCount>,
    /// Maximum window, the receiver's or the socket's.
    pub window: Option<Bytes>,
    /// Prediction from earlier transfers with the same congestion control, in payload.
    pub earlier: Option<Prediction>,
    /// Payload of a segment.
    pub mss: Bytes,
    /// The segment as an IP packet.
    pub packet: Bytes,
}

impl PathState {
    /// Creates the state of a probed path, for segments as long as its packets, with IPv4 and TCP with timestamps.
    /// Neither loss nor a window nor a short queue limits it.
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

/// Minimum round trip; a clock can read shorter ones as zero.
const ROUND_TRIP_MIN: Duration = Duration::from_micros(1);

/// Maximum loss at which BBR keeps the full rate: version 1 ignores loss up to the gain of its probing, a quarter, less
/// the retransmissions.
const BBR_LOSS_MAX: f64 = 0.15;

/// Predicts the long-term goodput and, for a transfer of a given size, the time with slow start.
///
/// - The link: its available bandwidth, in payload. If less than half of the capacity is available, the load can be TCP
///   that yields: one such flow would leave half. The value is then the geometric mean of both, and half is the upper
///   end.
/// - The queue of the link, if it is known. Reno and CUBIC fill it, lose the overflow and then leave the link partly
///   idle if the queue is short ([`reno_share`], [`cubic_share`]). That holds for a single transfer; beside others,
///   whose windows oscillate at other times, a shorter queue suffices (Appenzeller et al. 2004, §3), so that the upper
///   end excludes this limit. BBR does not wait for an overflow.
/// - Loss: PFTK for Reno, the response function with timeouts for CUBIC, with the standard error of the loss count. No
///   loss among the probes sets no bound: a hundred of them cannot show the loss that slows a fast transfer down.
///   Losses of echoed probes are split equally over both directions; the interval then reaches from all of them to
///   none.
/// - The window over the round trip.
///
/// The smallest limit is the result. If there were earlier transfers and their interval overlaps that of the probes,
/// both are combined ([`Belief::and`]): this crate's form of the hybrid of history and probes that He, Dovrolis, Ammar
/// (2005) propose. If the intervals do not overlap the path has changed, and the probes are more recent. The treatment
/// of unknown load is this crate's own; no probe here distinguishes TCP from other traffic.
pub fn predict(path: &PathState, control: Control, transfer: Option<Bytes>) -> TransferPrediction {
    let share = path.mss.as_u64() as f64 / path.packet.as_u64().max(1) as f64;
    let [value, low, high] = available_to_tcp(path).map(|bps| bps * share);
    let used = |bps: f64| bps * link_share(path, control, bps);
    let link = [used(value), used(low), high];
    let bounds = [
        Some((link, PredictionBound::Link)),
        path.loss.and_then(|l| by_loss(path, control, l)).map(|b| (b, PredictionBound::Loss)),
        path.window.map(|w| {
            let bps = w.as_u64() as f64 * 8.0 / path.round_trip.as_secs_f64().max(1e-9);
            ([bps; 3], PredictionBound::Window)
        }),
    ];
    let lowest = |i: usize| bounds.iter().flatten().map(|(b, _)| b[i]).fold(f64::INFINITY, f64::min);
    let probed = [lowest(0), lowest(1), lowest(2)];
    let combined = path.earlier.as_ref().and_then(|e| with_earlier(probed, e));
    let [value, low, high] = combined.unwrap_or(probed).map(rate);
    let bound = bounds.iter().flatten().min_by(|a, b| a.0[0].total_cmp(&b.0[0])).map_or(PredictionBound::Link, |b| b.1);
    let time = |goodput: Rate| transfer.and_then(|bytes| completion(path, bytes, goodput)).map(units::nanos);
    TransferPrediction {
        congestion_control: control.name().to_owned(),
        goodput_bps: value.as_bps(),
        low_bps: low.as_bps(),
        high_bps: high.as_bps(),
        bound,
        earlier_transfers: path.earlier.filter(|_| combined.is_some()).map(|e| e.samples as u64),
        bytes: transfer.map(Bytes::as_u64),
        completion_ns: time(value),
        completion_low_ns: time(high),
        completion_high_ns: time(low),
    }
}

/// Combined value and ends of probes and earlier transfers; `None` if they contradict each other.
fn with_earlier([value, low, high]: [f64; 3], earlier: &Prediction) -> Option<[f64; 3]> {
    if earlier.low_bps > high || earlier.high_bps < low {
        return None;
    }
    // Four of five values lie within 1.28 standard deviations, 95 of 100 within 1.96.
    let wider = |end: f64| earlier.rate_bps * (end / earlier.rate_bps).powf(1.96 / 1.28);
    let before = Belief::new(earlier.rate_bps, wider(earlier.low_bps), wider(earlier.high_bps))?;
    Some(Belief::new(value, low, high)?.and(before).interval())
}

/// Bandwidth available to TCP: value, lower and upper end in b/s of IP packets.
fn available_to_tcp(path: &PathState) -> [f64; 3] {
    let available = path.available;
    let [value, low, high] = [available.value, available.low, available.high].map(|r| r.as_bps() as f64);
    let half = path.capacity.map_or(0.0, |c| c.value.as_bps() as f64 / 2.0);
    if value >= half {
        return [value, low, high];
    }
    // A path without available bandwidth still passes a window of one segment.
    let floor = value.max(half / 32.0);
    [(floor * half).sqrt(), low, high.max(half)]
}

/// Share of a link with this much payload in b/s that a transfer uses if it loses only the overflow of the link's
/// queue.
fn link_share(path: &PathState, control: Control, bps: f64) -> f64 {
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

fn by_loss(path: &PathState, control: Control, lost: LossCount) -> Option<[f64; 3]> {
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
                Some(Rate::from_bps((whole * if p <= BBR_LOSS_MAX { 1.0 - p } else { 0.1 }) as u64))
            }
        };
        by_formula.map(|r| r.as_bps() as f64)
    };
    let [value, max, min] = lost.shares();
    // A single loss is compatible with a loss rate of zero.
    let high = if min > 0.0 { of(min)? } else { f64::INFINITY };
    Some([of(value)?, of(max)?, high])
}

fn completion(path: &PathState, bytes: Bytes, goodput: Rate) -> Option<Duration> {
    let wire = path.mss;
    ideal_completion(bytes, PathParameters { mss: path.mss, wire, round_trip: path.round_trip, rate: Some(goodput) })
        .filter(|_| goodput > Rate::ZERO)
}

#[cfg(test)]
mod tests;
