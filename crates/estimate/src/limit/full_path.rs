//! Detection of a full path, whose rate is then the path's own.
//!
//! A standing queue at the bottleneck proves it: the link behind the queue never idled. The round trip then stays above
//! its minimum. A congestion control that paces by its own estimate of the bottleneck (BBR) keeps the queue short and
//! the link full; the rate is then that of the estimate.

use results::{Limit, LimitVerdict};
use units::{Bytes, Duration, Rate};

use super::evidence::Shares;
use super::rules::{CPU_SATURATED_SHARE, WINDOW_USED_SHARE_MIN, millis, percent, verdict};
use super::{ReceiverEvidence, SenderEvidence};

/// Minimum queue that counts: scheduling delays of the hosts delay a round trip by up to about as much.
const QUEUE_MIN: Duration = Duration::from_millis(1);
/// Minimum queue as a share of the smallest round trip: the delay of a long path drifts by a few per cent.
const QUEUE_SHARE_MIN: f64 = 0.05;
/// Minimum of a standing queue as a multiple of the round trip's mean deviation. Random delay variation alone puts the
/// mean nearly as far above the smallest round trip: of 10^5 normally distributed delays the smallest lies 4.3 standard
/// deviations, that is 5.3 mean deviations, below the mean. A standing queue changes slowly against its length.
const QUEUE_DEVIATIONS: f64 = 6.0;
/// Minimum number of this stream's segments in the queue. One can wait for a delayed acknowledgement instead.
const QUEUE_SEGMENTS_MIN: u64 = 4;
/// Share of the interval in which data must be outstanding.
const BUSY_MIN: f64 = 0.5;
/// Minimum share of the ideal goodput of a given link at which the link is full. Measured rates vary by a few per cent.
const LINK_FULL_SHARE: f64 = 0.95;
/// BBR's pacing gains in its steady state are 0.75 to 1.25 (draft-ietf-ccwg-bbr); a reading can catch any of them.
const BBR_GAINS: (f64, f64) = (0.75, 1.25);
/// Maximum difference between a rate over an interval and one reading of the kernel's rates, as a share.
const READING_TOLERANCE: f64 = 0.1;
/// Minimum mean share of the receive window in flight at which the window, not the path, limits a paced sender.
const WINDOW_FULL_SHARE: f64 = 0.75;
/// Minimum time limited by a window or buffer, as a share of the interval, at which bursts can explain a queue.
const WINDOW_LIMITED_SHARE: f64 = 0.25;

/// Smoothed round trips of one stream in one interval, compared with the smallest of the direction.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RoundTrips {
    /// Smallest kernel round trip of all streams of the direction so far.
    pub min: Duration,
    /// Quantile 0.2 of the smoothed round trips: four fifths of the interval had a longer one.
    pub low: Duration,
    /// Median of the smoothed round trips.
    pub median: Duration,
}

/// The verdict that the path is full, by a standing queue.
pub(super) fn standing_queue(s: &Shares<'_>, receiver: Option<&ReceiverEvidence>) -> Option<LimitVerdict> {
    let trips = s.raw.round_trips.filter(|t| !t.min.is_zero())?;
    // A host without CPU time delays acknowledgements without a queue on the path.
    let computing = s.cpu >= CPU_SATURATED_SHARE || receiver.is_some_and(|r| r.cpu() >= CPU_SATURATED_SHARE);
    if computing || s.busy.min(1.0 - s.idle) < BUSY_MIN || sends_bursts(s) {
        return None;
    }
    let deviation = Duration::from_nanos(s.raw.after.rttvar_ns).mul_f64(QUEUE_DEVIATIONS);
    let queue_min = QUEUE_MIN.max(trips.min.mul_f64(QUEUE_SHARE_MIN)).max(deviation);
    let segments_min = QUEUE_SEGMENTS_MIN.saturating_mul(s.raw.after.mss_bytes.max(1));
    let is_queue = |trip: Duration| {
        let queue = trip.saturating_sub(trips.min);
        queue >= queue_min && s.rate.bytes_in(queue).as_u64() >= segments_min
    };
    let stands = is_queue(trips.low) || (is_queue(trips.median) && reaches_delivery_rate(s));
    stands.then(|| verdict(Limit::Bottleneck, s.busy, format!("path full: {}; {}", s.rate, queue_text(s.raw, &trips))))
}

/// Whether the mean rate is about the delivery rate, which is that of the bottleneck while packets wait there.
///
/// A queue that exists for only half of the time, as with CoDel (RFC 8289: a standing queue above 5 ms is cut by single
/// drops), then costs little of the rate: the drops are the signal of the full path, not its limit.
fn reaches_delivery_rate(s: &Shares<'_>) -> bool {
    let (before, after) = (s.raw.before.delivery_rate_bps, s.raw.after.delivery_rate_bps);
    let fastest = before.max(after) as f64;
    fastest > 0.0
        && !s.raw.after.delivery_rate_app_limited
        && s.rate.as_bps() as f64 >= fastest * (1.0 - READING_TOLERANCE)
}

/// Whether the receive window or the send buffer stops the sender, so that the link idles.
///
/// Such a sender emits bursts, whose packets queue behind each other at the bottleneck. While a burst arrives, the
/// delivery rate exceeds the mean rate; on a link that is always busy both are equal.
fn sends_bursts(s: &Shares<'_>) -> bool {
    let after = &s.raw.after;
    let is_window_limited = after.delivery_rate_app_limited || s.rwnd.max(s.sndbuf) >= WINDOW_LIMITED_SHARE;
    is_window_limited && after.delivery_rate_bps as f64 > s.rate.as_bps() as f64 * (1.0 + READING_TOLERANCE)
}

/// The verdict for a sender that paces by its own estimate of the bottleneck, at the rate of that estimate.
pub(super) fn own_estimate(s: &Shares<'_>, rest: f64) -> Option<LimitVerdict> {
    if !s.raw.is_paced {
        return None;
    }
    let (before, after) = (s.raw.before.pacing_rate_bps?, s.raw.after.pacing_rate_bps?);
    let rate = s.rate.as_bps() as f64;
    let slowest = before.min(after) as f64 / BBR_GAINS.1 * (1.0 - READING_TOLERANCE);
    let fastest = before.max(after) as f64 / BBR_GAINS.0 * (1.0 + READING_TOLERANCE);
    let flight = s.in_flight() as f64 / s.raw.after.cwnd_bytes.max(1) as f64;
    // In recovery BBR lowers the window to the data in flight, so that it is full by definition.
    let is_window_full = flight >= WINDOW_USED_SHARE_MIN && s.retransmits == 0;
    if !(slowest..=fastest).contains(&rate) || is_window_full {
        return None;
    }
    let pacing = format!("{} to {}", Rate::from_bps(before.min(after)), Rate::from_bps(before.max(after)));
    let text = format!(
        "path full: {}, which is the congestion control's own estimate of the bottleneck (pacing rate {pacing}, in flight {} \
         of cwnd)",
        s.rate,
        percent(flight)
    );
    let queue = s.raw.round_trips.map_or_else(String::new, |t| format!("; {}", queue_text(s.raw, &t)));
    Some(verdict(Limit::Bottleneck, rest, text + &queue))
}

/// A paced sender reaches the receive window only in its probing phases, so that the kernel's clock counts a part of
/// the time.
pub(super) fn fills_receive_window(s: &Shares<'_>) -> bool {
    let window = s.raw.after.snd_wnd_bytes;
    let flight = s.rate.bytes_in(Duration::from_nanos(s.raw.after.srtt_ns)).as_u64();
    s.raw.is_paced && window > 0 && flight as f64 >= window as f64 * WINDOW_FULL_SHARE
}

fn queue_text(raw: &SenderEvidence, trips: &RoundTrips) -> String {
    let lost = raw.after.retransmits.saturating_sub(raw.before.retransmits);
    let losses = match lost {
        0 => "nothing lost".to_owned(),
        n => format!("{n} retransmits"),
    };
    let queue = trips.median.saturating_sub(trips.min);
    let nanos = |d: Duration| millis(units::nanos(d));
    format!("{} of queue (RTT {}, smallest {}); {losses}", nanos(queue), nanos(trips.median), nanos(trips.min))
}

/// The verdict of a direction whose link rate the user gave; `None` if the rate is below that of the link, or was set.
///
/// `payload` over `frame` is the share of the link's bytes that is goodput: segment size over MTU and framing.
pub fn full_link(rate: Rate, link: Rate, payload: Bytes, frame: Bytes, before: &LimitVerdict) -> Option<LimitVerdict> {
    if frame == Bytes::ZERO || before.limit == Limit::Pacing {
        return None;
    }
    let ideal = Rate::from_bps((link.as_bps() as f64 * payload.as_u64() as f64 / frame.as_u64() as f64) as u64);
    let reached = rate.as_bps() as f64 / ideal.as_bps().max(1) as f64;
    let cause = before.evidence.strip_prefix("path full: ").unwrap_or(&before.evidence);
    let evidence = format!("path full: {rate} of {ideal}; {cause}");
    (reached >= LINK_FULL_SHARE && ideal > Rate::ZERO).then(|| verdict(Limit::Bottleneck, reached.min(1.0), evidence))
}
