use std::io;
use std::path::PathBuf;

use kernel::KernelError;
use route::Member;

/// Error of a member.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverlayError {
    /// A text is not a public key.
    #[error("`{0}` is not a public key; write the 32 bytes in base64 that `longhaul overlay init` prints")]
    Key(String),
    /// A key file cannot be read or written.
    #[error("cannot access the key file {}: {source}", path.display())]
    KeyFile {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A key file is accessible to other users.
    #[error(
        "the key file {path} is accessible to other users; run `chmod 600 {path}`, and generate a new key if one of \
         them can have read it",
        path = .0.display()
    )]
    KeyIsOpen(PathBuf),
    /// A key file has no valid key.
    #[error("the key file {} has no valid key; generate one with `longhaul overlay init`", .0.display())]
    KeyFileContents(PathBuf),
    /// The list of signed certificates cannot be read or written.
    #[error("cannot access the list of signed certificates {}: {source}; nothing was signed", path.display())]
    SignedList {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The list of signed certificates is malformed.
    #[error("line {line} of {} is not a signed certificate; nothing was signed; correct the line", path.display())]
    SignedListContents {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
    },
    /// Another key with the same member number was certified before.
    #[error(
        "the member number {number} of this key is that of another key, {key}, certified for {name} (see {}); generate \
         another key",
        path.display()
    )]
    NumberTaken {
        /// Member number of both keys.
        number: Member,
        /// The certified key.
        key: String,
        /// Name of its owner.
        name: String,
        /// Path of the list of signed certificates.
        path: PathBuf,
    },
    /// The operating system provides no random bytes.
    #[error("cannot read random bytes from the operating system")]
    Random,
    /// The settings cannot be read.
    #[error("the settings {}: {source}", path.display())]
    SettingsFile {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The settings are invalid.
    #[error("the settings {}: {what}", path.display())]
    Settings {
        /// Path of the file.
        path: PathBuf,
        /// Location and cause of the error.
        what: String,
    },
    /// A system call of the kernel crate failed.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// An operation on the tunnel device, a thread or the control socket failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A component of the running member stopped.
    #[error("the member cannot continue: {what}: {why}")]
    Ended {
        /// The component.
        what: String,
        /// Cause.
        why: String,
    },
    /// No member listens on the control socket.
    #[error("no member is running with these settings ({}): {source}", path.display())]
    NotRunning {
        /// Path of the control socket.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// This user may not use the control socket.
    #[error(
        "no access to the control socket {}: {source}; run this command as root or as the user of the member",
        path.display()
    )]
    NotAllowed {
        /// Path of the control socket.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The member did not answer in time.
    #[error("the member at {} does not answer: it is overloaded or stops; try again", .0.display())]
    NoAnswer(PathBuf),
    /// The member did not stop in time.
    #[error("the member at {} has not stopped yet; check its log", .0.display())]
    StillThere(PathBuf),
    /// Error that a running member reported.
    #[error("{0}")]
    Refused(String),
}

impl OverlayError {
    /// Whether the settings are invalid, so that a retry cannot succeed.
    pub fn is_of_settings(&self) -> bool {
        matches!(self, Self::Settings { .. })
    }

    /// For `map_err`: adds the operation to the error.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
