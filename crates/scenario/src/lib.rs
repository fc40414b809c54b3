//! The experiment file: nodes, links, LANs, schedule, flows and programs; read, checked and resolved.
//!
//! Inputs: the text of a TOML file and overrides. Outputs: [`Scenario`]s in which every name is known and every
//! quantity has a type, or [`Problem`]s with file, line and a hint. Contract: the crate is pure (it reads files that a
//! scenario refers to through a function argument), and no text causes a panic.

mod congestion;
mod describe;
mod dotted;
mod estimates;
mod experiment;
mod files;
mod flows;
mod mice;
mod model;
mod overlay;
mod parameters;
mod patch;
mod path_segments;
mod policy;
mod problem;
mod programs;
mod published;
mod quantity;
mod routes;
mod schedule;
mod section;
mod sizes;
mod sweep;
mod topology;
mod tree;
mod wires;

pub use describe::{describe, describe_difference};
pub use experiment::{Options, read};
pub use model::{
    Change, EstimateCall, Experiment, Extent, Flow, Lan, Link, LinkDirection, Medium, Metric, Mice, Model, Node,
    Overlay, Plot, Program, PublishedValue, Record, Route, Scenario, Transport, Validity,
};
pub use path_segments::PathSegment;
pub use policy::{UserByName, code_point, read_policy};
pub use problem::{Problem, Problems};
pub use sizes::{Published, Sizes};
pub use wires::{SWITCH, Wire, link_wire};
