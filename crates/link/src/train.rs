use units::Instant;

/// A packet train as the sending kernel passes it to the device: one super-packet of `count` segments, or one packet.
///
/// The segments arrive at the link one after the other at the same time. A train with `count` 0 is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Train<P> {
    /// Handle of the packet, cloned for each delivery except the last, and dropped with the last segment.
    pub payload: P,
    /// Number of segments.
    pub count: u32,
    /// IP bytes of each segment except the last.
    pub full: u32,
    /// IP bytes of the last segment.
    pub last: u32,
}

/// A run of segments of one train that arrive together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery<P> {
    /// Handle of the train's packet.
    pub payload: P,
    /// Number of the first segment within its train, from 0.
    pub first: u32,
    /// Number of segments.
    pub count: u32,
    /// Logical arrival time of the last segment.
    pub at: Instant,
    /// Total IP bytes of the segments.
    pub bytes: u64,
}

/// Consecutive segments of one train with equal sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Slot of the train.
    pub(crate) slot: Slot,
    /// Number of the first segment within the train.
    pub(crate) first: u32,
    /// Number of segments.
    pub(crate) count: u32,
    /// IP bytes of each segment.
    pub(crate) bytes: u32,
}

impl Run {
    /// Removes the first `count` segments, or all if there are fewer, and returns them.
    pub(crate) fn split(&mut self, count: u32) -> Self {
        let head = Self { count: count.min(self.count), ..*self };
        self.first += head.count;
        self.count -= head.count;
        head
    }

    /// Number of the segment that follows the run.
    pub(crate) const fn next(&self) -> u32 {
        self.first + self.count
    }

    /// IP bytes of all segments.
    pub(crate) const fn total(&self) -> u64 {
        self.count as u64 * self.bytes as u64
    }
}

/// Index of a train in [`Trains`], valid while a segment of the train is in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// Trains with a segment in the queue or in flight.
///
/// The model moves small records. The handles of the packets remain here until their last segment has left.
#[derive(Debug)]
pub(crate) struct Trains<P> {
    slots: Vec<StoredTrain<P>>,
    free: Vec<Slot>,
    bytes: u128,
}

#[derive(Debug)]
struct StoredTrain<P> {
    payload: Option<P>,
    segments: u32,
    /// Segments and copies in the model.
    live: u64,
    bytes: u64,
}

impl<P: Clone> Trains<P> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), bytes: 0 }
    }

    /// Total IP bytes of the trains, each counted in full until its last segment has left.
    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(u64::MAX)
    }

    /// Stores a train; all its segments count as live.
    pub(crate) fn store(&mut self, train: Train<P>) -> Slot {
        let bytes = u64::from(train.full) * u64::from(train.count.saturating_sub(1)) + u64::from(train.last);
        self.bytes += u128::from(bytes);
        let kept =
            StoredTrain { payload: Some(train.payload), segments: train.count, live: u64::from(train.count), bytes };
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot.0 as usize] = kept;
                slot
            }
            None => {
                self.slots.push(kept);
                // 2^32 trains would need 200 GB for their records alone.
                Slot((self.slots.len() - 1) as u32)
            }
        }
    }

    /// Whether the train has no segment after the run.
    pub(crate) fn is_last(&self, run: Run) -> bool {
        run.next() >= self.slots[run.slot.0 as usize].segments
    }

    /// Adds a copy of a segment.
    pub(crate) fn copy(&mut self, slot: Slot) {
        self.slots[slot.0 as usize].live += 1;
    }

    /// Removes `count` dropped segments.
    pub(crate) fn release(&mut self, slot: Slot, count: u32) {
        drop(self.leave(slot, count));
    }

    /// Removes `count` delivered segments and returns a handle. `None` does not occur while segments are live.
    pub(crate) fn deliver(&mut self, slot: Slot, count: u32) -> Option<P> {
        match self.slots[slot.0 as usize].live > u64::from(count) {
            true => {
                let payload = self.slots[slot.0 as usize].payload.clone();
                self.release(slot, count);
                payload
            }
            false => self.leave(slot, count),
        }
    }

    /// Removes `count` segments, and returns the handle with the last of them.
    fn leave(&mut self, slot: Slot, count: u32) -> Option<P> {
        let kept = &mut self.slots[slot.0 as usize];
        kept.live = kept.live.saturating_sub(u64::from(count));
        if kept.live > 0 {
            return None;
        }
        self.bytes -= u128::from(kept.bytes);
        self.free.push(slot);
        kept.payload.take()
    }
}
