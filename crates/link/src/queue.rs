//! First-in, first-out queue of packets.

use std::collections::VecDeque;

use units::Instant;

use crate::impairments::Outcome;
use crate::train::{Segment, Slot};

/// A queued packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) segment: Segment,
    pub(crate) arrival: Instant,
    pub(crate) outcome: Outcome,
}

/// Consecutive segments of one train with the same size and outcome.
#[derive(Debug, Clone, Copy)]
struct Run {
    slot: Slot,
    first: u32,
    count: u32,
    bytes: u32,
    arrival: Instant,
    outcome: Outcome,
}

impl Run {
    fn takes(&self, w: &Waiting) -> bool {
        self.slot == w.segment.slot
            && self.first.wrapping_add(self.count) == w.segment.number
            && self.bytes == w.segment.bytes
            && self.outcome == w.outcome
    }
}

/// Order and length of the queue. The limit and the discipline decide about admission and drops.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    runs: VecDeque<Run>,
    packets: u64,
    bytes: u64,
    largest: u32,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Number of queued packets.
    pub(crate) const fn packets(&self) -> u64 {
        self.packets
    }

    /// Number of queued IP bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// IP bytes of the largest packet since the start.
    pub(crate) const fn largest(&self) -> u32 {
        self.largest
    }

    /// Arrival time of the first packet.
    pub(crate) fn head_arrival(&self) -> Option<Instant> {
        self.runs.front().map(|r| r.arrival)
    }

    /// Runs of segments at the head that continue the train of `s`: number, and IP bytes of each.
    pub(crate) fn runs_after(&self, s: Segment) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut next = s.number.wrapping_add(1);
        let follows = move |r: &&Run| {
            let follows = r.slot == s.slot && r.first == next;
            next = next.wrapping_add(r.count);
            follows
        };
        self.runs.iter().take_while(follows).map(|r| (r.count, r.bytes))
    }

    /// Wire bytes of all queued packets; `wire` converts the IP bytes of one packet.
    pub(crate) fn wire_bytes(&self, wire: impl Fn(u32) -> u32) -> u64 {
        self.runs.iter().map(|r| u64::from(wire(r.bytes)) * u64::from(r.count)).sum()
    }

    pub(crate) fn push(&mut self, w: Waiting) {
        self.packets += 1;
        self.bytes += u64::from(w.segment.bytes);
        self.largest = self.largest.max(w.segment.bytes);
        match self.runs.back_mut() {
            Some(run) if run.takes(&w) => run.count += 1,
            _ => {
                let Segment { slot, number, bytes } = w.segment;
                self.runs.push_back(Run {
                    slot,
                    first: number,
                    count: 1,
                    bytes,
                    arrival: w.arrival,
                    outcome: w.outcome,
                });
            }
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        let run = self.runs.front_mut()?;
        let segment = Segment { slot: run.slot, number: run.first, bytes: run.bytes };
        let waiting = Waiting { segment, arrival: run.arrival, outcome: run.outcome };
        run.first = run.first.wrapping_add(1);
        run.count -= 1;
        if run.count == 0 {
            self.runs.pop_front();
        }
        self.packets -= 1;
        self.bytes -= u64::from(segment.bytes);
        Some(waiting)
    }
}
