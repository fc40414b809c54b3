use std::io;
use std::path::PathBuf;

use kernel::KernelError;
use route::Member;

/// Why a member cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverlayError {
    /// A text that is no public key.
    #[error("`{0}` is no public key of a member: 32 bytes in base64, as `longhaul overlay init` prints")]
    Key(String),
    /// A key file that cannot be read or written.
    #[error("the key file {}: {source}", path.display())]
    KeyFile {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A key file that others may read.
    #[error("the key file {} may be read by others than its owner; `chmod 600` it, and make a new one if somebody has", .0.display())]
    KeyIsOpen(PathBuf),
    /// A key file with something else in it.
    #[error("the key file {} holds no key", .0.display())]
    KeyFileContents(PathBuf),
    /// An authority's list of what it has signed that cannot be read or written.
    #[error("the list of what the authority has signed, {}: {source}; nothing is certified without it", path.display())]
    SignedList {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// One with something else in it.
    #[error("line {line} of {} is no certificate that was signed; nothing is certified before it is put right", path.display())]
    SignedListContents {
        /// Where.
        path: PathBuf,
        /// Of the list, from 1.
        line: usize,
    },
    /// Two keys of one number.
    #[error("another key of the member number {number} was certified, {key} for {name} (see {}): members could not tell the two apart; make another key", path.display())]
    NumberTaken {
        /// By which members name it.
        number: Member,
        /// The one that was certified.
        key: String,
        /// Whose that is.
        name: String,
        /// The list that has it.
        path: PathBuf,
    },
    /// No randomness.
    #[error("the system gives no random bytes")]
    Random,
    /// Settings that cannot be read.
    #[error("the settings {}: {source}", path.display())]
    SettingsFile {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Settings that are none.
    #[error("the settings {}: {what}", path.display())]
    Settings {
        /// Where.
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
    /// A system call.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A system call of the tunnel device, a thread or the control socket.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Something that a member cannot do without came to an end while it ran.
    #[error("the member cannot go on: {what}: {why}")]
    Ended {
        /// What was being done.
        what: String,
        /// Why it ended.
        why: String,
    },
    /// There is nobody to ask.
    #[error("no member runs with these settings ({}): {source}", path.display())]
    NotRunning {
        /// Its control socket.
        path: PathBuf,
        /// Why it cannot be reached.
        source: io::Error,
    },
    /// Who asks may not.
    #[error("this user may not ask the member at {}: {source}; ask as root, or as the user that it runs as", path.display())]
    NotAllowed {
        /// Its control socket.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// A member runs and does not answer.
    #[error("the member at {} does not answer: it is too busy, or ends; try again", .0.display())]
    NoAnswer(PathBuf),
    /// A member was asked to end and is still there.
    #[error("the member at {} has not ended yet", .0.display())]
    StillThere(PathBuf),
    /// What a running member said.
    #[error("{0}")]
    Refused(String),
}

impl OverlayError {
    /// Whether the settings themselves are wrong, so that trying again changes nothing.
    pub fn is_of_settings(&self) -> bool {
        matches!(self, Self::Settings { .. })
    }

    /// For `map_err`: names what was tried.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
