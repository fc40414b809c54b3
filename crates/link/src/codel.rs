//! CoDel: controlled delay (RFC 8289).

use std::time::Duration;

use units::Instant;

use crate::queue::{Queue, Waiting};

/// Intervals after the end of a drop state during which the next drop state starts with its drop rate (RFC 8289 §5.5).
const MEMORY_INTERVALS: u32 = 16;

/// State of CoDel, with the names of RFC 8289 §5.3.
#[derive(Debug)]
pub(crate) struct Codel {
    target: Duration,
    interval: Duration,
    /// Time at which the delay will have been above target for an interval.
    first_above: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    /// Drops since the start of this drop state.
    count: u32,
    /// Value of `count` at the start of the drop state.
    last_count: u32,
}

impl Codel {
    pub(crate) const fn new(target: Duration, interval: Duration) -> Self {
        let (first_above, drop_next) = (None, Instant::ZERO);
        Self { target, interval, first_above, dropping: false, drop_next, count: 0, last_count: 0 }
    }

    pub(crate) const fn set(&mut self, target: Duration, interval: Duration) {
        self.target = target;
        self.interval = interval;
    }

    /// Next packet to transmit at `now` (RFC 8289 §5.5).
    pub(crate) fn dequeue(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        mut dropped: impl FnMut(Waiting),
    ) -> Option<Waiting> {
        let (mut head, mut above) = self.head(queue, now);
        if self.dropping {
            self.dropping = above;
            while self.dropping && now >= self.drop_next {
                head.into_iter().for_each(&mut dropped);
                self.count = self.count.saturating_add(1);
                (head, above) = self.head(queue, now);
                self.dropping = above;
                if above {
                    self.drop_next = self.control_law(self.drop_next);
                }
            }
        } else if above {
            head.into_iter().for_each(&mut dropped);
            (head, _) = self.head(queue, now);
            self.start_dropping(now);
        }
        head
    }

    /// Removes the first packet. Also returns whether the delay has been above target for an interval (RFC 8289 §5.6).
    fn head(&mut self, queue: &mut Queue, now: Instant) -> (Option<Waiting>, bool) {
        let Some(head) = queue.pop(1) else {
            self.first_above = None;
            return (None, false);
        };
        let sojourn = now.saturating_since(head.arrival);
        // On a slow link a single packet takes longer than the target, so that the rest must exceed one packet.
        if sojourn < self.target || queue.bytes() <= u64::from(queue.largest()) {
            self.first_above = None;
            return (Some(head), false);
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + self.interval);
                (Some(head), false)
            }
            Some(since) => (Some(head), now >= since),
        }
    }

    /// Starts a drop state. After a recent drop state it continues at about its drop rate (RFC 8289 §5.5).
    fn start_dropping(&mut self, now: Instant) {
        self.dropping = true;
        let recent = now.saturating_since(self.drop_next) < self.interval.saturating_mul(MEMORY_INTERVALS);
        let delta = self.count.saturating_sub(self.last_count);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.control_law(now);
        self.last_count = self.count;
    }

    /// Time of the next drop; the interval shrinks with the square root of the number of drops (RFC 8289 §4.3).
    fn control_law(&self, from: Instant) -> Instant {
        from + self.interval.div_f64(f64::from(self.count.max(1)).sqrt())
    }
}
