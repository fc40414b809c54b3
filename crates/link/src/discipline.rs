//! Drops at the head of the queue by the discipline. The limit, in `direction`, drops at the tail.

use units::Instant;

use crate::Discipline;
use crate::codel::Codel;
use crate::queue::{Queue, Waiting};

/// A queue discipline with its state.
#[derive(Debug)]
pub(crate) enum HeadDrop {
    /// No packet is dropped.
    None,
    Codel(Codel),
}

impl HeadDrop {
    pub(crate) fn new(discipline: Discipline) -> Self {
        match discipline {
            Discipline::TailDrop => Self::None,
            Discipline::CoDel { target, interval } => Self::Codel(Codel::new(target, interval)),
        }
    }

    /// Changes the parameters. An unchanged discipline keeps its state.
    pub(crate) fn change(&mut self, discipline: Discipline) {
        match (&mut *self, discipline) {
            (Self::Codel(codel), Discipline::CoDel { target, interval }) => codel.set(target, interval),
            (Self::None | Self::Codel(_), _) => *self = Self::new(discipline),
        }
    }

    /// Whether no packet is dropped.
    pub(crate) const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Next packet to transmit at `now`. The caller also calls it for an empty queue. Packets dropped before it are
    /// passed to `dropped`.
    pub(crate) fn dequeue(&mut self, queue: &mut Queue, now: Instant, dropped: impl FnMut(Waiting)) -> Option<Waiting> {
        match self {
            Self::None => queue.pop(1),
            Self::Codel(codel) => codel.dequeue(queue, now, dropped),
        }
    }
}
