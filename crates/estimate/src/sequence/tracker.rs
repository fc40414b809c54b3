use results::{UdpInterval, UdpSummary};
use units::{Duration, Instant};

use super::loss::{Novelty, Window};
use super::reordering::NReordering;
use super::sent_losses::SentLosses;

/// Classification of the arrival of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// New, with a number above all before.
    InOrder,
    /// New, with a number below one that arrived before (RFC 4737 §3.3, Type-P-Reordered).
    Reordered,
    /// A copy of one that arrived before.
    Duplicate,
    /// More than 65 536 behind the highest: new or a copy cannot be decided. It stays counted as lost.
    LateBeyondWindow,
    /// A number that the plan does not contain.
    Rejected,
}

/// Counts the arrivals of a stream of datagrams numbered from zero, in bounded memory.
#[derive(Debug, Clone)]
pub struct SequenceTracker {
    planned_max: u64,
    window: Window,
    n_reordering: NReordering,
    jitter: Jitter,
    received: u64,
    duplicates: u64,
    reordered: u64,
    late_beyond_window: u64,
    rejected: u64,
    reported: UdpInterval,
    sent_losses: Option<SentLosses>,
}

impl SequenceTracker {
    /// Creates a tracker for at most `planned_max` datagrams, numbered `0..planned_max`.
    pub fn new(planned_max: u64) -> Self {
        Self {
            planned_max,
            window: Window::new(),
            n_reordering: NReordering::default(),
            jitter: Jitter::default(),
            received: 0,
            duplicates: 0,
            reordered: 0,
            late_beyond_window: 0,
            rejected: 0,
            reported: UdpInterval::default(),
            sent_losses: None,
        }
    }

    /// Also counts losses by the `interval` in which they were sent, for datagrams that are sent `gap` apart on
    /// average.
    pub fn with_intervals(mut self, interval: Duration, gap: Duration) -> Self {
        self.sent_losses = Some(SentLosses::new(interval, gap));
        self
    }

    /// Counts the datagram `seq`, sent at `sent` on the sender's clock and received at `received` on the local clock.
    pub fn handle(&mut self, seq: u64, sent: Instant, received: Instant) -> Arrival {
        if seq >= self.planned_max {
            self.rejected += 1;
            return Arrival::Rejected;
        }
        let arrival = match self.window.insert(seq) {
            Novelty::Highest => Arrival::InOrder,
            Novelty::FillsGap => Arrival::Reordered,
            Novelty::Before => {
                self.duplicates += 1;
                return Arrival::Duplicate;
            }
            Novelty::BeyondWindow => {
                self.late_beyond_window += 1;
                return Arrival::LateBeyondWindow;
            }
        };
        if let Some(losses) = &mut self.sent_losses {
            if arrival == Arrival::Reordered {
                losses.on_late(sent);
            } else {
                losses.on_highest(seq, sent);
            }
        }
        self.received += 1;
        self.reordered += u64::from(arrival == Arrival::Reordered);
        self.n_reordering.handle(seq);
        self.jitter.handle(sent, received);
        arrival
    }

    /// Datagrams received, copies not counted.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Datagrams too far behind the highest to distinguish new ones from copies.
    pub fn late_beyond_window(&self) -> u64 {
        self.late_beyond_window
    }

    /// Datagrams with a number that the plan does not contain.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// The counts since the last call.
    ///
    /// Datagrams that fill an older gap lower the loss of their interval, not below zero. The remainder is offset
    /// against the next losses, so that the intervals never sum to more than was missing at some time.
    pub fn interval(&mut self) -> UdpInterval {
        let total = UdpInterval {
            received: self.received,
            lost: (self.window.next() - self.received).max(self.reported.lost),
            duplicates: self.duplicates,
            reordered: self.reordered,
            jitter_ns: self.jitter.nanos(),
        };
        let before = core::mem::replace(&mut self.reported, total);
        let now = &self.reported;
        UdpInterval {
            received: now.received - before.received,
            lost: now.lost - before.lost,
            duplicates: now.duplicates - before.duplicates,
            reordered: now.reordered - before.reordered,
            jitter_ns: now.jitter_ns,
        }
    }

    /// The summary of the whole stream. `sent_total` is the sender's count; without it, the count ends at the highest
    /// number seen.
    ///
    /// The sender's own values (errors, lag, lateness) and the waiting time stay zero, for the caller to fill in.
    pub fn finish(self, sent_total: Option<u64>) -> UdpSummary {
        let sent = sent_total.unwrap_or_else(|| self.window.next());
        let lost = sent.saturating_sub(self.received);
        let behind = sent.saturating_sub(self.window.next());
        let lost_by_interval = self.sent_losses.map_or_else(Vec::new, |l| l.finish(behind));
        UdpSummary {
            sent,
            received: self.received,
            lost,
            loss_ratio: ratio(lost, sent),
            duplicates: self.duplicates,
            duplicate_ratio: ratio(self.duplicates, sent),
            reordered: self.reordered,
            reordered_ratio: ratio(self.reordered, self.received),
            n_reordering: self.n_reordering.into_counts(),
            loss_runs: self.window.finish(sent),
            jitter_ns: self.jitter.nanos(),
            lost_by_interval,
            ..UdpSummary::default()
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Interarrival jitter (RFC 3550 §6.4.1): `D = (Rj - Ri) - (Sj - Si)`, `J += (|D| - J) / 16`, in the order of arrival.
#[derive(Debug, Clone, Default)]
struct Jitter {
    ns: f64,
    /// Difference of the clocks plus delay of the previous datagram.
    transit_ns: Option<i64>,
    is_measured: bool,
}

impl Jitter {
    fn handle(&mut self, sent: Instant, received: Instant) {
        let transit_ns = received.nanos_since(sent);
        if let Some(before) = self.transit_ns.replace(transit_ns) {
            self.is_measured = true;
            self.ns += (transit_ns.wrapping_sub(before).unsigned_abs() as f64 - self.ns) / 16.0;
        }
    }

    /// Absent before the second datagram: a difference needs two.
    fn nanos(&self) -> Option<u64> {
        self.is_measured.then(|| self.ns.round() as u64)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
