//! Shaping: a policy that people write, and the traffic control objects that carry it out on a device.
//!
//! Inputs: a [`Policy`] and what is known of the device. Outputs: a plan, in objects of `tc`. Contract: the crate is pure.

mod policy;

pub use policy::{Accounting, Class, Match, Policy, Queue, QueueKind, Side, SizeLimits, Traffic, Way};
