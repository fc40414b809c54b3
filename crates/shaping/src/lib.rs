//! Shaping: a policy as users write it, and the traffic control objects that implement it on a device.
//!
//! Inputs: a [`Policy`] and the properties of the device. Outputs: a [`Plan`], in objects of `tc`. Contract: the crate
//! is pure.

mod device;
mod plan;
mod policy;
mod size;
mod u32_match;

pub use device::{Device, Facilities};
pub use plan::{ClassPlan, IFB_QUEUE, IngressPlan, LeafPlan, Plan, PlanError, SidePlan, handle, plan};
pub use policy::{Accounting, Class, Direction, Match, Policy, Queue, QueueKind, Side, SizeLimits, Traffic};
