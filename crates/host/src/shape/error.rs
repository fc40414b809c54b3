use std::io;
use std::path::{Path, PathBuf};

use bpf::BpfError;
use kernel::KernelError;
use shaping::PlanError;

/// Reason why a device is not shaped, or not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// The kernel refused a query or a change.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// There is no such device.
    #[error("there is no device {device}; devices are: {known}")]
    NoDevice {
        /// The requested device.
        device: String,
        /// The devices of this network namespace.
        known: String,
    },
    /// The policy needs a facility that this host lacks.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The BPF program was not loaded.
    #[error(transparent)]
    Program(#[from] BpfError),
    /// Another program shapes the device.
    #[error(
        "{device} has {what}, which longhaul did not install; --replace replaces it, and `shape clear` restores it"
    )]
    Foreign {
        /// The device.
        device: String,
        /// Present traffic control of the device.
        what: String,
    },
    /// The present traffic control of the device cannot be saved and restored.
    #[error(
        "{device} has {what}, which longhaul could not restore in a trial: {why}; remove it with `tc` if it is not needed"
    )]
    NotRestorable {
        /// The device.
        device: String,
        /// Present traffic control of the device.
        what: String,
        /// Reason why restoring failed in a trial.
        why: String,
    },
    /// A device with the name of the IFB device exists already.
    #[error("the device {name}, whose name the IFB device needs, exists and is not longhaul's: remove or rename it")]
    NameTaken {
        /// Name of the device.
        name: String,
    },
    /// Another process of longhaul changes the same device.
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
        /// The kernel's error.
        source: KernelError,
    },
    /// The kernel refused a part of the change, or its state differs from the plan; the earlier state is restored.
    #[error("{device} could not be shaped as planned, and is as it was before: {why}")]
    Undone {
        /// The device.
        device: String,
        /// The difference or refusal.
        why: String,
    },
    /// As [`ShapeError::Undone`], but the device has traffic control that is not recognised as longhaul's, and was
    /// left.
    #[error(
        "{device} could not be shaped as planned: {why}. It has {left}, which longhaul did not install and leaves unchanged: \
         see `tc qdisc show dev {device}`"
    )]
    Left {
        /// The device.
        device: String,
        /// The difference or refusal.
        why: String,
        /// Present traffic control of the device.
        left: String,
    },
    /// The device was removed.
    #[error("{device} disappeared while it was being changed")]
    Gone {
        /// The device.
        device: String,
    },
    /// longhaul does not shape the device.
    #[error("{device} is not shaped by longhaul")]
    NotInstalled {
        /// The device.
        device: String,
    },
    /// longhaul shapes no device.
    #[error("no device of this network namespace is shaped by longhaul")]
    NoneInstalled,
    /// No policy waits for confirmation.
    #[error("{device}: no policy waits for confirmation")]
    NothingToConfirm {
        /// The device.
        device: String,
    },
    /// The time limit for the confirmation has passed.
    #[error("the time limit to confirm the policy of {device} has passed; the policy is now undone")]
    TooLate {
        /// The device.
        device: String,
    },
    /// The state file about the earlier traffic control cannot be written or read.
    #[error("{}: {source}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// The I/O error.
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
