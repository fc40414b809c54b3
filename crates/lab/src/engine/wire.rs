use link::Direction;
use units::Instant;

use super::plan::{Exit, WirePlan};
use crate::capture::Tap;
use crate::packet_handle::PacketHandle;

/// One direction of a link in operation.
pub(crate) struct Wire {
    pub(crate) model: Direction<PacketHandle>,
    pub(crate) exit: Exit,
    pub(crate) seed: u64,
    pub(crate) tap: Option<Tap>,
    /// Lateness of each delivery of this interval, in nanoseconds.
    pub(crate) lateness: Vec<u32>,
    /// Packets that the emulator lost in this interval.
    pub(crate) lost: u64,
    /// Bytes held at the last update.
    pub(crate) held: u64,
}

impl Wire {
    pub(crate) fn new(plan: WirePlan, now: Instant) -> Self {
        Self {
            model: Direction::new(now, plan.seed, plan.settings),
            exit: plan.exit,
            seed: plan.seed,
            tap: plan.tap,
            lateness: Vec::new(),
            lost: 0,
            held: 0,
        }
    }
}
