use std::collections::VecDeque;
use std::iter;

use units::{Duration, Instant};

use super::ClockModel;
use super::envelope::{COORDINATE_MAX, Envelope, Point};
use super::feasible::{DRIFT_MAX, Feasible, Range};

/// Maximum number of exchanges kept for a restart after a clock step. More would hardly narrow the bound over so short
/// a time.
const RECENT_MAX: usize = 128;

/// Maximum duration of a valid exchange. Longer ones give no useful offset; the limit keeps hostile numbers small.
const EXCHANGE_NS_MAX: u64 = 3_600_000_000_000;

/// Iterations of the search for the reference: each leaves two thirds, so 60 leave 3 us of a day.
const SEARCH_ITERATIONS: u32 = 60;

/// One request and reply between the two clocks, as in NTP (RFC 5905 §8: T1 to T4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Departure of the request, local clock.
    pub local_send: Instant,
    /// Arrival of the request, remote clock.
    pub remote_receive: Instant,
    /// Departure of the reply, remote clock.
    pub remote_send: Instant,
    /// Arrival of the reply, local clock.
    pub local_receive: Instant,
}

impl Exchange {
    /// Time on the path, without the remote turnaround; `None` if no two real clocks can show these times.
    fn round_trip(&self) -> Option<Duration> {
        let whole_ns =
            u64::try_from(self.local_receive.nanos_since(self.local_send)).ok().filter(|w| *w <= EXCHANGE_NS_MAX)?;
        let remote_ns = u64::try_from(self.remote_send.nanos_since(self.remote_receive)).ok()?;
        // The turnaround is on the other clock: it can appear longer than the whole by the drift and the clocks'
        // resolution.
        let tolerance_ns = (whole_ns as f64 * 2.0 * DRIFT_MAX) as u64 + 2;
        (remote_ns <= whole_ns.saturating_add(tolerance_ns))
            .then(|| Duration::from_nanos(whole_ns.saturating_sub(remote_ns)))
    }
}

/// Estimates a remote clock's offset and drift from exchanges, with a bound that holds for any queueing and asymmetry.
///
/// An exchange bounds the offset from both sides on any path. The request was received after it was sent, so
/// `theta(local_send) <= remote_receive - local_send`, and the reply likewise gives `theta(local_receive) >=
/// remote_send - local_receive`. The estimator keeps all lines `theta(t) = a + b t` that satisfy all of these, with |b|
/// of at most 200 ppm, the tolerance of two crystals. It reports the middle of the feasible offsets, and no drift as
/// long as that is feasible.
#[derive(Debug, Clone, Default)]
pub struct ClockEstimator {
    lines: Option<Lines>,
    recent: VecDeque<Exchange>,
    idle_rtt: Option<Duration>,
    exchanges: u64,
    rejected: u64,
    steps: u64,
}

impl ClockEstimator {
    /// Creates an estimator without exchanges.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one exchange. The order does not matter, except that after a clock step the newest ones count.
    ///
    /// An exchange that no two clocks can show (a reply before its request), or that takes over an hour, is ignored and
    /// counted.
    pub fn handle_exchange(&mut self, exchange: Exchange) {
        let Some(round_trip) = exchange.round_trip() else {
            self.rejected += 1;
            return;
        };
        self.exchanges += 1;
        self.idle_rtt = Some(self.idle_rtt.map_or(round_trip, |r| r.min(round_trip)));
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(exchange);
        match &mut self.lines {
            None => self.lines = Lines::around(&exchange),
            Some(lines) => {
                if !lines.add(&exchange) {
                    self.steps += 1;
                    self.restart();
                }
            }
        }
    }

    /// The best model of the clocks; `None` before the first exchange.
    pub fn model(&self) -> Option<ClockModel> {
        self.lines.as_ref().map(Lines::model)
    }

    /// Smallest round trip of all exchanges, without the remote turnaround.
    pub fn idle_rtt(&self) -> Option<Duration> {
        self.idle_rtt
    }

    /// Exchanges used.
    pub fn exchanges(&self) -> u64 {
        self.exchanges
    }

    /// Exchanges ignored because no two clocks can show such times.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Number of times at which no linear model fitted all exchanges: a clock was stepped, or slewed by more than the
    /// bound.
    ///
    /// From then on the model rests on the newest exchanges only and does not cover the time before the step.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Rebuilds the lines from the newest exchange backwards, as far as the exchanges agree.
    fn restart(&mut self) {
        let Some(newest) = self.recent.back() else { return };
        let mut lines = Lines::around(newest);
        let mut agreeing = 0;
        for exchange in self.recent.iter().rev() {
            // A contradicting bound stays in the envelope, so try on a copy.
            let mut extended = lines.clone();
            if !extended.as_mut().is_some_and(|l| l.add(exchange)) {
                break;
            }
            lines = extended;
            agreeing += 1;
        }
        // Exchanges that disagree precede the step and would spoil the next restart.
        self.recent.drain(..self.recent.len() - agreeing);
        self.lines = lines;
    }
}

/// The feasible lines, in coordinates near the data so that 64-bit floats keep their nanoseconds.
#[derive(Debug, Clone)]
struct Lines {
    origin: Instant,
    offset_origin_ns: i64,
    offset_max_ns: f64,
    /// Upper bounds of the offset.
    upper: Envelope,
    /// Lower bounds of the offset, negated.
    lower: Envelope,
    feasible: Feasible,
    first_ns: f64,
    last_ns: f64,
}

impl Lines {
    /// The lines that one exchange allows; `None` if even alone it allows no clocks.
    fn around(exchange: &Exchange) -> Option<Self> {
        let width_ns = exchange.local_receive.nanos_since(exchange.local_send) as f64;
        // The exchange itself confines the offset to less than its whole duration, plus the effect of the drift.
        let offset_max_ns = width_ns * 1.01 + 10.0;
        let mut lines = Self {
            origin: exchange.local_send,
            offset_origin_ns: exchange.remote_receive.nanos_since(exchange.local_send),
            offset_max_ns,
            upper: Envelope::default(),
            lower: Envelope::default(),
            feasible: Feasible::between(offset_max_ns, iter::empty(), iter::empty())?,
            first_ns: 0.0,
            last_ns: width_ns,
        };
        lines.add(exchange).then_some(lines)
    }

    /// Applies the exchange's two bounds; `false` if no line satisfies them together with all others.
    fn add(&mut self, exchange: &Exchange) -> bool {
        let upper = self.point(exchange.remote_receive, exchange.local_send);
        let lower = self.point(exchange.remote_send, exchange.local_receive);
        let far = |p: &Point| p.t.unsigned_abs().max(p.y.unsigned_abs()) > COORDINATE_MAX.unsigned_abs();
        if far(&upper) || far(&lower) {
            return false;
        }
        self.first_ns = self.first_ns.min(upper.t as f64);
        self.last_ns = self.last_ns.max(lower.t as f64);
        let tighter = [self.upper.insert(upper), self.lower.insert(Point { y: -lower.y, ..lower })];
        !tighter.contains(&true) || self.recompute()
    }

    /// Starts from all corners, so that rounding errors cannot accumulate over a long test.
    fn recompute(&mut self) -> bool {
        let upper = self.upper.points().iter().map(|p| (p.t as f64, p.y as f64));
        let lower = self.lower.points().iter().map(|p| (p.t as f64, -p.y as f64));
        match Feasible::between(self.offset_max_ns, upper, lower) {
            Some(feasible) => self.feasible = feasible,
            None => return false,
        }
        true
    }

    fn point(&self, remote: Instant, local: Instant) -> Point {
        // Subtracts before the conversion to floats: offsets between arbitrary origins exceed their 53 bits.
        Point { t: local.nanos_since(self.origin), y: remote.nanos_since(local).wrapping_sub(self.offset_origin_ns) }
    }

    fn model(&self) -> ClockModel {
        let drift = self.feasible.drift();
        // The line to report: without drift as long as such a line is feasible, and then in the middle of those.
        // Asymmetric exchanges behind a queue pull the middle of all lines to one side, but not these, which idle ones
        // have settled.
        let flat = self.feasible.offsets_without_drift().map(Range::middle);
        let value = |t: f64| flat.unwrap_or_else(|| self.feasible.offset_at(t).middle());
        let error = |t: f64| {
            let range = self.feasible.offset_at(t);
            (range.high - value(t)).max(value(t) - range.low)
        };
        // Whole nanoseconds, so that the offset is that of the reported reference.
        let at_ns = self.best_reference(drift.error(), error).round();
        let reference_ns = i128::from(self.origin.as_nanos()) + at_ns as i128;
        ClockModel {
            reference: Instant::from_nanos(u64::try_from(reference_ns.max(0)).unwrap_or(u64::MAX)),
            offset_ns: self.offset_origin_ns.wrapping_add(value(at_ns).round() as i64),
            drift_ppm: drift.value() * 1e6,
            // One more for the rounding of the offset.
            bound_ns: error(at_ns).ceil() as u64 + 1,
            drift_bound_ppm: drift.error() * 1e6,
        }
    }

    /// The time at which the worst bound over the data is smallest. That bound is convex in time, hence the ternary
    /// search: the ends of the feasible offsets are extremes of linear functions, and so is the distance.
    fn best_reference(&self, drift_error: f64, error: impl Fn(f64) -> f64) -> f64 {
        let worst_bound = |t: f64| error(t) + drift_error * (t - self.first_ns).max(self.last_ns - t);
        let (mut low, mut high) = (self.first_ns, self.last_ns);
        for _ in 0..SEARCH_ITERATIONS {
            let third = (high - low) / 3.0;
            if worst_bound(low + third) <= worst_bound(high - third) {
                high -= third;
            } else {
                low += third;
            }
        }
        f64::midpoint(low, high)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
