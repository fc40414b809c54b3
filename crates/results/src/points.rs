//! The points of an experiment's sweep, which `longhaul lab run --list --json` prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lab::KeyValue;

/// Name and version of the format of a list of points.
pub const POINTS_SCHEMA: &str = "longhaul.points/1";

/// Points of an experiment's sweep: the document of `longhaul lab run FILE --list --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPoints {
    /// Name and version of this format: `longhaul.points/1`.
    pub schema: String,
    /// Name of the experiment.
    pub name: String,
    /// Seed of the first repetition; repetition n has this value plus n.
    pub seed: u64,
    /// Points with selected runs, in order.
    pub points: Vec<SweepPoint>,
}

/// A point of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPoint {
    /// Number of the point, from 0.
    pub point: u32,
    /// Values of the sweep at this point; empty without a sweep.
    pub values: Vec<KeyValue>,
    /// Selected repetitions, from 0: all without `--shard`.
    pub repetitions: Vec<u32>,
    /// Planned duration of a run in seconds.
    pub duration_s: f64,
}
