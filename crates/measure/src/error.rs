use std::time::Duration;

use kernel::KernelError;
use wire::{FrameError, Message, MessageError, PlanError, RefuseCode};

/// Reason why a test could not start or ended early.
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
        /// Name as given by the user.
        host: String,
        /// `IPv4`, `IPv6` or `IP`.
        family: &'static str,
        /// Error of the resolver.
        detail: String,
    },
    /// A link-local address without the name of its device.
    #[error("{0} is link-local and needs the device of this host that it is behind: {0}%device, as in {0}%eth0")]
    NeedsDevice(std::net::IpAddr),
    /// The peer responds, but not with the protocol of longhaul or thrulay.
    #[error("{address} is not a longhaul or thrulay server: {detail}")]
    NotAServer {
        /// Address of the peer.
        address: String,
        /// Observed response or error.
        detail: String,
    },
    /// The server rejected the client in its greeting.
    #[error("{address} refuses: {reason}")]
    Rejected {
        /// Address of the server.
        address: String,
        /// Reason given by the server.
        reason: String,
    },
    /// The server refused the session.
    #[error("{address} refuses ({code}): {reason}")]
    Refused {
        /// Address of the server.
        address: String,
        /// Code given by the server.
        code: RefuseCode,
        /// Reason given by the server.
        reason: String,
    },
    /// The peer violated the protocol.
    #[error("{peer} broke the protocol: {detail}")]
    Protocol {
        /// Name or address of the peer.
        peer: String,
        /// Description of the violation.
        detail: String,
    },
    /// The peer closed the connection.
    #[error("{peer} closed the connection {during}")]
    Closed {
        /// Name or address of the peer.
        peer: String,
        /// Phase of the test.
        during: &'static str,
    },
    /// The peer stopped responding.
    #[error("{peer} sent nothing for {:.0} s {during}", .after.as_secs_f64())]
    Silent {
        /// Name or address of the peer.
        peer: String,
        /// Time without a message.
        after: Duration,
        /// Phase of the test.
        during: &'static str,
    },
    /// The server responds on TCP, but no UDP datagram passes.
    #[error(
        "no answer on UDP port {} of {} for {} s, while its TCP port answers: is UDP filtered on the path?",
        .server.port(), .server.ip(), .after.as_secs()
    )]
    UdpBlocked {
        /// Destination of the datagrams.
        server: std::net::SocketAddr,
        /// Time without an answer.
        after: Duration,
    },
    /// The server holds no pre-shared key or another one.
    #[error("{0} does not hold the same pre-shared key (--key-file)")]
    ServerKey(String),
    /// The server requires a pre-shared key.
    #[error("{0} requires a pre-shared key; give it with --key-file")]
    KeyRequired(String),
    /// The user stopped the test before it had a result.
    #[error("stopped before the start of the test")]
    Interrupted,
    /// The other end does not support the request.
    #[error("{0}")]
    Unsupported(String),
}

impl MeasureError {
    pub(crate) fn protocol(peer: impl ToString, detail: impl ToString) -> Self {
        Self::Protocol { peer: peer.to_string(), detail: detail.to_string() }
    }

    /// Converts a message that the current state does not accept; a refusal keeps its code and reason.
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
