//! Emulated topologies on one machine: hosts are network namespaces with the kernel's own TCP, links are moved by our engine.
//!
//! The engine knows the truth about every packet, and its own errors: each run carries a verdict, valid or invalid because.

pub mod capture;
mod controls;
pub mod engine;
mod error;
mod experiment;
mod flow;
mod mac;
mod mice;
mod overlay;
mod parcel;
mod path;
mod programs;
pub mod registry;
mod run;
mod summary;
mod topology;
mod traffic;
mod transfers;
mod truth;
mod verdict;
mod way;

pub use controls::lab_of_control;
pub use error::LabError;
pub use experiment::{Options, default_folder, default_workers, flow_descriptions, run_experiment, schedule_marks};
pub use path::{PathOptions, run_path};
pub use run::{RunOptions, run};
