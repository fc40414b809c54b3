use link::Direction;
use units::Instant;

use super::plan::{Exit, WirePlan};
use crate::capture::Tap;
use crate::parcel::Parcel;

/// One direction of a link at work.
pub(crate) struct Wire {
    pub(crate) model: Direction<Parcel>,
    pub(crate) exit: Exit,
    pub(crate) seed: u64,
    pub(crate) tap: Option<Tap>,
    /// How late packets were handed over in this interval, nanoseconds.
    pub(crate) lateness: Vec<u32>,
    /// Packets that the emulator lost in this interval.
    pub(crate) lost: u64,
    /// Bytes held when last looked.
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
