use std::io;
use std::path::PathBuf;

use kernel::KernelError;

/// Why settings could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// The kernel refused.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Files of longhaul itself.
    #[error("{doing} {}: {source}", path.display())]
    File {
        /// What was attempted.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The caller may not.
    #[error(
        "changing this network's settings needs CAP_NET_ADMIN: run as root; `longhaul tune check` and --dry-run need no right"
    )]
    Unprivileged,
    /// Another process is at it.
    #[error("another longhaul changes this network's settings at present (lock {})", .0.display())]
    Busy(PathBuf),
    /// A journal that this version does not understand.
    #[error("the journal {} cannot be read: {why}; nothing was changed", path.display())]
    Journal {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file of somebody else's.
    #[error("{} was not written by longhaul and is left as it is; remove it or do without --persist", .0.display())]
    ForeignFile(PathBuf),
    /// Files in /etc speak of the host only.
    #[error("--persist is for the host's own network; this is a namespace that ends with its processes")]
    NotTheHost,
    /// There is no such device.
    #[error("there is no network device `{name}`; there are: {}", known.join(", "))]
    NoDevice {
        /// The name asked for.
        name: String,
        /// Devices that there are.
        known: Vec<String>,
    },
    /// A change that was made before is in force.
    #[error("changes by `longhaul tune` are in force: run `longhaul tune undo` first, to compare with what was before")]
    InForce,
}

impl TuneError {
    pub(super) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }
}
