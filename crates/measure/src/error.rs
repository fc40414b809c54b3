use std::time::Duration;

use kernel::KernelError;
use wire::{FrameError, Message, MessageError, PlanError, RefuseCode};

/// Why a test could not be made or was broken off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// A system call failed.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The plan contradicts itself.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The name has no address of the wanted family.
    #[error("{host} has no {family} address: {detail}")]
    Resolve {
        /// As the user gave it.
        host: String,
        /// `IPv4`, `IPv6` or `IP`.
        family: &'static str,
        /// What the resolver said.
        detail: String,
    },
    /// A link-local address of which the device is not named.
    #[error("{0} is link-local and needs the device of this host that it is behind: {0}%device, as in {0}%eth0")]
    NeedsDevice(std::net::IpAddr),
    /// The peer answers, but not as longhaul or thrulay do.
    #[error("{address} is not a longhaul or thrulay server: {detail}")]
    NotAServer {
        /// Who was asked.
        address: String,
        /// What it sent or did.
        detail: String,
    },
    /// The server turned the client away in its greeting.
    #[error("{address} refuses: {reason}")]
    Rejected {
        /// Who refused.
        address: String,
        /// Its words.
        reason: String,
    },
    /// The server refused the session.
    #[error("{address} refuses ({code}): {reason}")]
    Refused {
        /// Who refused.
        address: String,
        /// Its code.
        code: RefuseCode,
        /// Its words.
        reason: String,
    },
    /// The peer sent what the protocol does not allow here.
    #[error("{peer} broke the protocol: {detail}")]
    Protocol {
        /// Which end.
        peer: String,
        /// What was wrong.
        detail: String,
    },
    /// The peer closed the connection.
    #[error("{peer} closed the connection {during}")]
    Closed {
        /// Which end.
        peer: String,
        /// In which phase.
        during: &'static str,
    },
    /// The peer no longer answers.
    #[error("{peer} sent nothing for {:.0} s {during}", .after.as_secs_f64())]
    Silent {
        /// Which end.
        peer: String,
        /// How long it was waited.
        after: Duration,
        /// In which phase.
        during: &'static str,
    },
    /// The server is there, but datagrams do not pass.
    #[error(
        "no answer on UDP port {} of {} for {} s, while its TCP port answers: is UDP filtered on the way?",
        .server.port(), .server.ip(), .after.as_secs()
    )]
    UdpBlocked {
        /// Where they were sent.
        server: std::net::SocketAddr,
        /// How long.
        after: Duration,
    },
    /// The server holds no or another pre-shared key.
    #[error("{0} does not hold the same pre-shared key (--key-file)")]
    ServerKey(String),
    /// The server wants a pre-shared key.
    #[error("{0} requires a pre-shared key; give it with --key-file")]
    KeyRequired(String),
    /// The user stopped before there was anything to report.
    #[error("stopped before the test began")]
    Interrupted,
    /// What the other end cannot do.
    #[error("{0}")]
    Unsupported(String),
}

impl MeasureError {
    pub(crate) fn protocol(peer: impl ToString, detail: impl ToString) -> Self {
        Self::Protocol { peer: peer.to_string(), detail: detail.to_string() }
    }

    /// A message that does not belong here; a refusal keeps its code and words.
    pub(crate) fn unexpected(peer: &str, message: Message) -> Self {
        match message {
            Message::Refuse { code, reason } => Self::Refused { address: peer.to_owned(), code, reason },
            Message::Failed { reason } => Self::protocol(peer, reason),
            other => Self::protocol(peer, format!("unexpected message {}", other.name())),
        }
    }

    pub(crate) fn frame(peer: &str) -> impl Fn(FrameError) -> Self {
        move |e| Self::protocol(peer, e)
    }

    pub(crate) fn message(peer: &str) -> impl Fn(MessageError) -> Self {
        move |e| Self::protocol(peer, e)
    }
}
