use units::Instant;

/// A packet train as the sending kernel hands it over: one super-packet cut into `count` segments, or one packet.
///
/// The segments arrive at the link at the same instant, one after the other. A train with `count` 0 is nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Train<P> {
    /// Handle of the packet; cloned for each delivery but the last, dropped with the last segment.
    pub payload: P,
    /// Number of segments.
    pub count: u32,
    /// IP bytes of each segment but the last.
    pub full: u32,
    /// IP bytes of the last segment.
    pub last: u32,
}

/// A run of segments of one train that arrive together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery<P> {
    /// Handle of the packet that they are part of.
    pub payload: P,
    /// Number of the first segment within its train, from 0.
    pub first: u32,
    /// How many segments.
    pub count: u32,
    /// Logical time at which the last of them arrives.
    pub at: Instant,
    /// IP bytes of all of them.
    pub bytes: u64,
}

/// One segment inside the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Where its train is kept.
    pub(crate) slot: Slot,
    /// Number within the train.
    pub(crate) number: u32,
    /// IP bytes.
    pub(crate) bytes: u32,
}

/// Place of a train in [`Trains`]. Names one train for as long as a segment of it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// Trains of which a segment is still queued or in flight.
///
/// The model moves small records; the handles of the packets stay here until their last segment is gone.
#[derive(Debug)]
pub(crate) struct Trains<P> {
    slots: Vec<Kept<P>>,
    free: Vec<Slot>,
    bytes: u128,
}

#[derive(Debug)]
struct Kept<P> {
    payload: Option<P>,
    segments: u32,
    /// Segments and copies that are still in the model.
    live: u64,
    bytes: u64,
}

impl<P: Clone> Trains<P> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), bytes: 0 }
    }

    /// IP bytes of the trains, each counted in full until its last segment is gone: that is what they occupy.
    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(u64::MAX)
    }

    /// Keeps a train; all its segments count as held.
    pub(crate) fn keep(&mut self, train: Train<P>) -> Slot {
        let bytes = u64::from(train.full) * u64::from(train.count.saturating_sub(1)) + u64::from(train.last);
        self.bytes += u128::from(bytes);
        let kept = Kept { payload: Some(train.payload), segments: train.count, live: u64::from(train.count), bytes };
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

    /// Whether it is the last segment of its train.
    pub(crate) fn is_last(&self, slot: Slot, number: u32) -> bool {
        number.checked_add(1).is_none_or(|n| n >= self.slots[slot.0 as usize].segments)
    }

    /// One segment more is held: a copy.
    pub(crate) fn copy(&mut self, slot: Slot) {
        self.slots[slot.0 as usize].live += 1;
    }

    /// `count` segments are gone.
    pub(crate) fn release(&mut self, slot: Slot, count: u32) {
        drop(self.leave(slot, count));
    }

    /// `count` segments arrive. Gives a handle; `None` never happens while segments are held.
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

    /// Takes `count` segments away, and the handle with the last of them.
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
