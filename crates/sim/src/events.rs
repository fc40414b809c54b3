//! The event set: at most one pending event for each source.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::Instant;

/// Origin of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// A change of the schedule.
    Schedule,
    /// A wire.
    Wire(u32),
    /// A TCP connection.
    Connection(u32),
    /// A flow of datagrams.
    Datagrams(u32),
    /// A stream of small transfers.
    Mice(u32),
    /// The start or stop of a flow.
    Flow(u32),
    /// The member of an overlay at a node.
    Member(u32),
    /// A call of `longhaul estimate`.
    Estimate(u32),
}

/// Pending events in the order of their times; events at one time are in the order in which they were scheduled.
///
/// A source that schedules an earlier event replaces its pending one. The replaced entry remains and is skipped.
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, Source)>>,
    sequence: u64,
    pending: [Vec<u64>; 8],
}

/// Marks a source without a pending event.
const NONE: u64 = u64::MAX;

impl Events {
    /// Schedules the next event of a source; a time after its pending event leaves that in place, and the source
    /// schedules again when it is handled.
    pub(crate) fn schedule(&mut self, source: Source, at: Instant) {
        let at = at.as_nanos();
        let pending = self.pending(source);
        if at >= *pending {
            return;
        }
        *pending = at;
        self.sequence += 1;
        self.heap.push(Reverse((at, self.sequence, source)));
    }

    /// Time of the next event.
    pub(crate) fn next(&mut self) -> Option<Instant> {
        loop {
            let Reverse((at, _, source)) = *self.heap.peek()?;
            if *self.pending(source) == at {
                return Some(Instant::from_nanos(at));
            }
            self.heap.pop();
        }
    }

    /// Takes the next event at or before `until`.
    pub(crate) fn take(&mut self, until: Instant) -> Option<(Instant, Source)> {
        let at = self.next().filter(|at| *at <= until)?;
        let Reverse((_, _, source)) = self.heap.pop()?;
        *self.pending(source) = NONE;
        Some((at, source))
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    fn pending(&mut self, source: Source) -> &mut u64 {
        let (kind, index) = match source {
            Source::Schedule => (0, 0),
            Source::Wire(index) => (1, index),
            Source::Connection(index) => (2, index),
            Source::Datagrams(index) => (3, index),
            Source::Mice(index) => (4, index),
            Source::Flow(index) => (5, index),
            Source::Member(index) => (6, index),
            Source::Estimate(index) => (7, index),
        };
        let (all, index) = (&mut self.pending[kind], index as usize);
        if all.len() <= index {
            all.resize(index + 1, NONE);
        }
        &mut all[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_scheduling() {
        let at = Instant::from_nanos;
        let mut events = Events::default();
        events.schedule(Source::Wire(1), at(20));
        events.schedule(Source::Wire(0), at(20));
        events.schedule(Source::Connection(0), at(30));
        // A later time does not replace the pending event, an earlier one does.
        events.schedule(Source::Connection(0), at(40));
        events.schedule(Source::Connection(0), at(10));
        let mut taken = Vec::new();
        while let Some((time, source)) = events.take(at(100)) {
            taken.push((time.as_nanos(), source));
        }
        assert_eq!(taken, [(10, Source::Connection(0)), (20, Source::Wire(1)), (20, Source::Wire(0))]);
        assert_eq!(events.take(at(100)), None);
    }
}
