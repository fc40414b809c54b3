//! The experiment file: nodes, links, LANs, schedule, flows, programs; read, checked and resolved.
//!
//! Inputs: the text of a TOML file and overrides. Outputs: [`Scenario`]s in which every name is known and every quantity has a
//! type, or [`Problem`]s that name file, line and the mend. Contract: the crate is pure (files that a scenario refers to are asked for
//! through a function), and no text causes a panic.

mod model;

pub use model::{
    Change, Experiment, Extent, Flow, Lan, Link, Medium, Metric, Mice, Model, Node, Plot, Program, Record, Route,
    Scenario, Transport, Validity, Way,
};
