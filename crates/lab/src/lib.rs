//! Emulated topologies on one machine: hosts are network namespaces with the kernel's TCP, and the link engine forwards
//! packets between them.
//!
//! The engine records the true outcome of every packet, and its own timing errors. Each run has a verdict: valid, or
//! invalid with reasons.

pub mod capture;
mod controls;
pub mod engine;
mod error;
mod estimates;
mod experiment;
mod flow;
mod mac;
mod merge;
mod mice;
mod overlay;
mod packet_handle;
mod path;
mod path_parameters;
mod programs;
pub mod registry;
mod run;
mod selection;
mod simulate;
mod summary;
mod topology;
mod traffic;
mod transfers;
mod truth;
mod verdict;

pub use controls::{control_that_needs_bpf, lab_of_control};
pub use error::LabError;
pub use estimates::estimate_arguments;
pub use experiment::{Options, default_directory, default_workers, flow_descriptions, run_experiment, schedule_marks};
pub use merge::Merge;
pub use path::{PathOptions, run_path};
pub use run::{RunOptions, run};
pub use selection::{Place, Selection, Shard};
pub use simulate::{CONTROL_INTERVAL, SimulatedRun, check_simulated, run_simulated, simulate_run};
