use std::io;
use std::path::PathBuf;

use kernel::KernelError;

/// Reason why settings could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// The kernel refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A file of longhaul could not be accessed.
    #[error("{doing} {}: {source}", path.display())]
    File {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The caller lacks the privilege.
    #[error("changing this network's settings needs CAP_NET_ADMIN: run as root; `tune check` and --dry-run do not")]
    Unprivileged,
    /// Another process changes the settings.
    #[error("another process of longhaul is changing these settings (lock {}); wait for it to end", .0.display())]
    Busy(PathBuf),
    /// A journal that this version cannot parse.
    #[error("cannot read the journal {}: {why}; nothing was changed", path.display())]
    Journal {
        /// Path of the journal.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// A file that longhaul did not write.
    #[error("longhaul did not write {} and leaves it unchanged; remove it, or omit --persist", .0.display())]
    ForeignFile(PathBuf),
    /// Files in /etc apply to the host only.
    #[error("--persist applies to the host's own network only; this network namespace ends with its processes")]
    NotTheHost,
    /// There is no such device.
    #[error("there is no network device `{name}`; devices are: {}", known.join(", "))]
    NoDevice {
        /// The requested name.
        name: String,
        /// The devices of this network namespace.
        known: Vec<String>,
    },
    /// Earlier changes are in force.
    #[error(
        "changes by `longhaul tune` are in force: run `longhaul tune undo` first, to compare with the original values"
    )]
    InForce,
}

impl TuneError {
    pub(super) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }
}
