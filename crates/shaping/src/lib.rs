//! Shaping: a policy that people write, and the traffic control objects that carry it out on a device.
//!
//! Inputs: a [`Policy`] and what is known of the device. Outputs: a [`Plan`], in objects of `tc`. Contract: the crate is pure.

mod device;
mod plan;
mod policy;
mod size;
mod words;

pub use device::{Device, Facilities};
pub use plan::{ClassPlan, IFB_QUEUE, IngressPlan, LeafPlan, Plan, PlanError, SidePlan, handle, plan};
pub use policy::{Accounting, Class, Direction, Match, Policy, Queue, QueueKind, Side, SizeLimits, Traffic};
