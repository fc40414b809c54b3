//! Delay line: segments that have left the link and not yet arrived.

use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use units::Instant;

use crate::train::{Run, Slot};

/// Time within which segments of one train are delivered together, at the arrival of the last of them.
///
/// The interrupt moderation of a network card has the same effect (Intel's i40e driver: 50 µs by default), so that a
/// real receiver could not distinguish the arrivals either. It keeps the super-packets of a fast sender whole: one of
/// 64 KB takes 28 µs at 20 Gb/s.
pub const COALESCE: Duration = Duration::from_micros(50);

/// A run of segments in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flight {
    pub(crate) slot: Slot,
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) bytes: u64,
    /// Arrival of the last segment.
    pub(crate) at: Instant,
    /// Order among flights with equal arrival times.
    sequence: u64,
}

impl Flight {
    const fn order(&self) -> (Instant, u64) {
        (self.at, self.sequence)
    }
}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Flight {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

/// An open run, to which only the next segment of the same train can be added. It is the last flight in order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pub(crate) slot: Slot,
    /// Number of the segment that can join.
    pub(crate) next: u32,
    /// Arrival of the last segment so far.
    pub(crate) at: Instant,
    /// Latest arrival of a joining segment.
    pub(crate) until: Instant,
}

impl Open {
    /// Whether the first segment of `run` joins if it arrives at `at`.
    fn admits(&self, run: Run, at: Instant) -> bool {
        self.slot == run.slot && self.next == run.first && self.at <= at && at <= self.until
    }
}

/// Flights in flight, by arrival time.
#[derive(Debug, Default)]
pub(crate) struct DelayLine {
    /// Flights that arrive in the order in which they left; nearly all.
    ordered: VecDeque<Flight>,
    /// Flights that are held back, or that arrive before one that left earlier.
    strays: BinaryHeap<Reverse<Flight>>,
    /// Open run, which is the last entry of `ordered`.
    open: Option<Open>,
    sequence: u64,
}

impl DelayLine {
    /// Next flight, and whether its run is open.
    pub(crate) fn next(&self) -> Option<(&Flight, bool)> {
        let open = self.open.is_some() && self.ordered.len() == 1;
        match (self.ordered.front(), self.strays.peek()) {
            (Some(o), Some(Reverse(s))) if s < o => Some((s, false)),
            (Some(o), _) => Some((o, open)),
            (None, Some(Reverse(s))) => Some((s, false)),
            (None, None) => None,
        }
    }

    /// Removes the flight that [`Self::next`] returns.
    pub(crate) fn take(&mut self) -> Option<Flight> {
        let stray = match (self.ordered.front(), self.strays.peek()) {
            (Some(o), Some(Reverse(s))) => s < o,
            (None, _) => true,
            (Some(_), None) => false,
        };
        if stray { self.strays.pop().map(|Reverse(s)| s) } else { self.ordered.pop_front() }
    }

    /// Open run.
    pub(crate) const fn open(&self) -> Option<&Open> {
        self.open.as_ref()
    }

    /// Closes the open run.
    pub(crate) const fn close(&mut self) {
        self.open = None;
    }

    /// Latest arrival of a segment that is delivered together with the first segment of `run`, which arrives at `at`.
    pub(crate) fn last_together(&self, run: Run, at: Instant) -> Instant {
        match &self.open {
            Some(open) if open.admits(run, at) => open.until,
            _ => at + COALESCE,
        }
    }

    /// Adds segments, which join the open run if they arrive soon enough. They arrive from `first` to `at`, not later
    /// than [`Self::last_together`]. `ends`: no later segment can join them.
    pub(crate) fn push(&mut self, s: Run, first: Instant, at: Instant, ends: bool) {
        if !self.joins(s, first, at) {
            self.push_alone(s, at);
            let is_last = self.ordered.back().is_some_and(|f| f.sequence == self.sequence);
            let open = Open { slot: s.slot, next: s.next(), at, until: first + COALESCE };
            self.open = is_last.then_some(open);
        }
        if ends {
            self.open = None;
        }
    }

    /// Adds a segment as a separate flight.
    pub(crate) fn push_alone(&mut self, s: Run, at: Instant) {
        let flight = self.flight(s, at);
        match self.ordered.back() {
            Some(last) if last.at > at => self.strays.push(Reverse(flight)),
            _ => self.ordered.push_back(flight),
        }
    }

    /// Adds a held segment; other segments do not queue behind it.
    pub(crate) fn push_held(&mut self, s: Run, at: Instant) {
        let flight = self.flight(s, at);
        self.strays.push(Reverse(flight));
    }

    fn flight(&mut self, s: Run, at: Instant) -> Flight {
        self.open = None;
        self.sequence += 1;
        Flight { slot: s.slot, first: s.first, count: s.count, bytes: s.total(), at, sequence: self.sequence }
    }

    fn joins(&mut self, s: Run, first: Instant, at: Instant) -> bool {
        let (Some(open), Some(last)) = (&mut self.open, self.ordered.back_mut()) else {
            return false;
        };
        let joins = open.admits(s, first);
        if joins {
            open.next = s.next();
            open.at = at;
            last.at = at;
            last.count += s.count;
            last.bytes += s.total();
        }
        joins
    }
}
