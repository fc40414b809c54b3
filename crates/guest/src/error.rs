use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Last lines of an output that an error quotes.
const QUOTED_LINES: usize = 5;

/// A guest kernel that cannot be built, started or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// There is no guest kernel in the cache.
    #[error("no guest kernel at {}; build it once with `longhaul lab virtual setup`", .0.display())]
    NoImage(PathBuf),
    /// The variables of the environment name no directory for the kernel.
    #[error("no directory for the guest kernel; set XDG_CACHE_HOME or HOME")]
    NoCache,
    /// User-mode Linux exists for x86-64 only.
    #[error("the guest kernel runs on x86-64 only; this machine is {0}")]
    Architecture(&'static str),
    /// Programs that the build needs are missing.
    #[error("building the guest kernel needs {missing}; install it (Debian: `apt-get install {}`)", crate::PACKAGES)]
    Tools {
        /// Names of the missing programs.
        missing: String,
    },
    /// No source of Linux was given or found.
    #[error(
        "no source of Linux 6.1 in /usr/src; install it (Debian: `apt-get install {}`), or name an archive or \
         directory with --source",
        crate::PACKAGES
    )]
    NoSource,
    /// A step of the build failed.
    #[error("cannot build the guest kernel: {reason}; the whole output is in {}", log.display())]
    Build {
        /// Last lines of the output.
        reason: String,
        /// File with the whole output.
        log: PathBuf,
    },
    /// The kernel ended before its task.
    #[error("the guest kernel ended before its task: {0}")]
    Ended(String),
    /// The clock of the kernel follows the host's.
    #[error("this kernel runs in real time; build it with CONFIG_UML_TIME_TRAVEL_SUPPORT")]
    RealTime,
    /// The user interrupted the build or the guest twice.
    #[error("interrupted")]
    Interrupted,
    /// The guest could not store what the task wrote.
    #[error("the guest cannot write to the host: {0}")]
    WriteBack(String),
    /// The first process of the guest failed.
    #[error("cannot set up the guest: {0}")]
    Init(String),
    /// A directory cannot be made writable in the guest.
    #[error("the guest cannot write to {}; run the command in another directory, or use --out", .0.display())]
    Directory(PathBuf),
    /// A path has a character that the kernel's command line cannot hold.
    #[error("{} contains white space or a quotation mark, which the guest's command line cannot hold", .0.display())]
    Name(PathBuf),
    /// A file or process of the host failed.
    #[error("{what}: {source}")]
    Host {
        /// What was attempted, with the file.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl GuestError {
    /// Ties an error of the system to what was attempted.
    pub(crate) fn host(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Host { what, source }
    }
}

/// Last lines of a file with output, in one line; empty if there are none.
pub(crate) fn last_lines(file: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(QUOTED_LINES)..].join("; ")
}
