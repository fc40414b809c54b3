//! First-in, first-out queue of packets.

use std::collections::VecDeque;

use units::Instant;

use crate::impairments::Outcome;
use crate::train::Run;

/// A run of queued packets with equal outcomes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) run: Run,
    pub(crate) arrival: Instant,
    pub(crate) outcome: Outcome,
}

impl Waiting {
    /// Whether `next` continues the train with the same size and outcome.
    pub(crate) fn is_followed_by(&self, next: &Self) -> bool {
        self.run.slot == next.run.slot
            && self.run.next() == next.run.first
            && self.run.bytes == next.run.bytes
            && self.outcome == next.outcome
    }
}

/// Order and length of the queue. The limit and the discipline decide about admission and drops.
///
/// An entry is a run, so that the memory depends on the number of trains and not of packets.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    runs: VecDeque<Waiting>,
    packets: u64,
    /// The sum wraps: 2^64 bytes need trains that no sender has, and must not cause a panic.
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

    /// First run.
    pub(crate) fn head(&self) -> Option<&Waiting> {
        self.runs.front()
    }

    /// Runs of segments at the head that continue the train of `run`: number, and IP bytes of each.
    pub(crate) fn runs_after(&self, run: Run) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut next = run.next();
        (0..self.runs.len()).map_while(move |i| {
            let follower = self.runs[i].run;
            let follows = follower.slot == run.slot && follower.first == next;
            next = follower.next();
            follows.then_some((follower.count, follower.bytes))
        })
    }

    /// Wire bytes of all queued packets; `wire` converts the IP bytes of one packet.
    pub(crate) fn wire_bytes(&self, wire: impl Fn(u32) -> u32) -> u64 {
        self.runs.iter().fold(0, |sum, w| sum.wrapping_add(u64::from(wire(w.run.bytes)) * u64::from(w.run.count)))
    }

    pub(crate) fn push(&mut self, w: Waiting) {
        self.packets += u64::from(w.run.count);
        self.bytes = self.bytes.wrapping_add(w.run.total());
        self.largest = self.largest.max(w.run.bytes);
        self.runs.push_back(w);
    }

    /// Removes up to `count` packets of the first run.
    pub(crate) fn pop(&mut self, count: u32) -> Option<Waiting> {
        let head = self.runs.front_mut()?;
        let popped = Waiting { run: head.run.split(count), ..*head };
        if head.run.count == 0 {
            self.runs.pop_front();
        }
        self.packets -= u64::from(popped.run.count);
        self.bytes = self.bytes.wrapping_sub(popped.run.total());
        Some(popped)
    }
}
