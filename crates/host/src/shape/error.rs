use std::io;
use std::path::{Path, PathBuf};

use bpf::BpfError;
use kernel::KernelError;
use shaping::PlanError;

/// Why a device is not shaped, or not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// A question or change that the kernel refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// There is no such device.
    #[error("there is no device {device}; devices are: {known}")]
    NoDevice {
        /// As asked for.
        device: String,
        /// Those that there are.
        known: String,
    },
    /// The policy needs what this host has not.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The program was not loaded.
    #[error(transparent)]
    Program(#[from] BpfError),
    /// Somebody else shapes the device.
    #[error(
        "{device} has {what}, which longhaul did not install; --replace takes its place, and `shape clear` brings it back"
    )]
    Foreign {
        /// The device.
        device: String,
        /// What it has.
        what: String,
    },
    /// What is on the device could not be brought back.
    #[error(
        "{device} has {what}, which longhaul could not bring back: {why}; remove it yourself with `tc` if it is not needed"
    )]
    NotRestorable {
        /// The device.
        device: String,
        /// What it has.
        what: String,
        /// What went wrong in the attempt.
        why: String,
    },
    /// A device of the name that is needed exists.
    #[error("a device {name} exists, which is needed for what comes in; longhaul did not make it: remove or rename it")]
    NameTaken {
        /// Its name.
        name: String,
    },
    /// Another process changes the same device.
    #[error("another process of longhaul is changing {device}; wait for it to end")]
    Busy {
        /// The device.
        device: String,
    },
    /// The kernel refused a plan in rehearsal; the device was not touched.
    #[error("the kernel does not take this plan; {device} was not touched: {source}")]
    Rehearsal {
        /// The device.
        device: String,
        /// What it said.
        source: KernelError,
    },
    /// The kernel refused a part of the change, or has it otherwise than planned; what was before is back.
    #[error("{device} could not be shaped as planned, and is as it was before: {why}")]
    Undone {
        /// The device.
        device: String,
        /// What differed or was refused.
        why: String,
    },
    /// Likewise, but something is there that is not recognised as ours, and was left.
    #[error(
        "{device} could not be shaped as planned: {why}. It has {left}, which does not look like longhaul's and was left alone: see `tc qdisc show dev {device}`"
    )]
    Left {
        /// The device.
        device: String,
        /// What differed or was refused.
        why: String,
        /// What is there.
        left: String,
    },
    /// The device went away.
    #[error("{device} disappeared while it was being changed")]
    Gone {
        /// The device.
        device: String,
    },
    /// There is nothing to undo or show.
    #[error("{device} is not shaped by longhaul")]
    NotInstalled {
        /// The device.
        device: String,
    },
    /// No device is shaped.
    #[error("no device of this network namespace is shaped by longhaul")]
    NoneInstalled,
    /// Nothing waits to be confirmed.
    #[error("nothing on {device} waits to be confirmed")]
    NothingToConfirm {
        /// The device.
        device: String,
    },
    /// The time to confirm was over.
    #[error("the time to confirm the policy of {device} was over, and its guard was gone; it is undone now")]
    TooLate {
        /// The device.
        device: String,
    },
    /// The notes about what was before cannot be kept or read.
    #[error("{}: {source}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The host itself refused.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// What went wrong.
        source: io::Error,
    },
}

impl ShapeError {
    pub(super) fn state(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::State { path, source }
    }

    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
