//! The messages of the native protocol, as JSON in frames of kind 0.

mod bounds;
#[cfg(test)]
mod tests;

use results::{BufferGrant, Direction, HostReport, IntervalRecord, TestPlan};
use serde::{Deserialize, Serialize};
use units::Instant;

use crate::finished::Finished;
use crate::frame::{Frame, FrameError, encode_frame};
use crate::text::json_has_control;

pub use bounds::{BoundsError, HELLO_FILL_BYTES_MAX, LIST_ENTRIES_MAX, SAMPLES_MAX, TEXT_BYTES_MAX};

/// One message. A reader ignores unknown fields and maps unknown types to [`Message::Unknown`].
///
/// Control connection: `hello` -> `challenge` -> `request` -> `accept`, then data connections (`join` -> `joined`) or
/// UDP address validation and `udp_ready`, then `start` -> `started` -> any number of `interval`, `samples`, `clock`
/// -> optionally `stop` -> `finished` -> `bye`. `refuse` rejects a request; `failed` ends a test that broke.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "a handful of messages per second; boxing would only burden readers")]
pub enum Message {
    /// Client: first message of a control connection.
    Hello {
        /// Highest version of the native protocol that the client supports.
        version: u32,
        /// Name and version of the program.
        software: String,
        /// Random, fresh for each connection.
        #[serde(with = "crate::hex")]
        nonce: [u8; 16],
        /// Filler that the challenge repeats: shows whether segments of its size pass in both directions. At most
        /// [`crate::HELLO_FILL_BYTES_MAX`] bytes.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        fill: String,
    },
    /// Server: answer to hello.
    Challenge {
        /// Name and version of the program.
        software: String,
        /// Random, fresh for each connection.
        #[serde(with = "crate::hex")]
        nonce: [u8; 16],
        /// Whether the server grants tests only to clients that prove the key.
        key_required: bool,
        /// The filler of the hello.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        fill: String,
    },
    /// Client: requests a test.
    Request {
        /// The test; see [`crate::validate_plan`].
        plan: TestPlan,
        /// The client's proof over both nonces and the plan ([`crate::client_proof`]).
        #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::hex::option")]
        proof: Option<[u8; 32]>,
    },
    /// Server: the test may start as soon as its data connections are established.
    Accept {
        /// Identifies the session in joins and datagrams.
        #[serde(with = "crate::hex")]
        session: [u8; 8],
        /// The granted plan; a note explains each difference from the requested one.
        plan: TestPlan,
        /// Notes for the user: what was changed and why.
        #[serde(default)]
        notes: Vec<String>,
        /// The server's settings.
        host: HostReport,
        /// Port for test datagrams; zero for TCP tests.
        #[serde(default)]
        udp_port: u16,
        /// The server's proof that it holds the key ([`crate::server_proof`]). It follows the client's proof, so that
        /// an unauthenticated client gets no material for guessing the key.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::hex::option")]
        proof: Option<[u8; 32]>,
    },
    /// Server: the request is refused; the connection closes.
    Refuse {
        /// Machine-readable reason.
        code: RefuseCode,
        /// Human-readable reason.
        reason: String,
    },
    /// Client: all data connections are established; the test starts.
    Start {
        /// The client's model of the two clocks, as `estimate` writes it; opaque here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock: Option<serde_json::Value>,
    },
    /// Server: the load started.
    Started {
        /// Time of the start, on the server's clock.
        at: Instant,
    },
    /// Client: a better model of the two clocks.
    Clock {
        /// As `estimate` writes it; opaque here.
        model: serde_json::Value,
    },
    /// Client: the server confirmed this client's UDP address. Reserved: the server needs no such message.
    UdpReady,
    /// Client: end the load now and report.
    Stop,
    /// Either end: its measurements of one interval.
    Interval(Box<IntervalRecord>),
    /// Receiver of bulk bytes: arrival times of sampled blocks.
    Samples {
        /// The stream.
        stream: u32,
        /// In order of arrival, at most [`SAMPLES_MAX`].
        samples: Vec<RemoteSample>,
    },
    /// Sender of datagrams: all datagrams of a stream have been sent. The receiver then knows how many to expect;
    /// without this message it waits for a fixed time.
    Sent {
        /// The stream.
        stream: u32,
        /// Datagrams, numbered from 0.
        datagrams: u64,
    },
    /// Client of a probing session: requests these packets.
    SendTrain {
        /// Number of the train.
        train: u16,
        /// At most [`crate::TRAIN_PACKETS_MAX`] of them.
        departures: Vec<ProbeDeparture>,
    },
    /// Server of a probing session: the packets have been sent.
    TrainDeparted {
        /// Number of the train.
        train: u16,
        /// Departure time of each packet, on the server's clock; absent when it could not be sent.
        sent_ns: Vec<Option<u64>>,
    },
    /// Client of a probing session: a train was sent; requests a report on its arrival.
    TrainSent {
        /// Number of the train.
        train: u16,
        /// Number of packets.
        packets: u16,
        /// Time without an arrival after which missing packets count as lost, in ns.
        settle_ns: u64,
    },
    /// Server of a probing session: arrivals of a train.
    TrainArrived {
        /// Number of the train.
        train: u16,
        /// First arrival time of each packet, on the server's clock; absent when it did not arrive.
        received_ns: Vec<Option<u64>>,
        /// Number of steps of the clock of the packet stamps since the session started.
        clock_steps: u64,
    },
    /// Server: the load is over.
    Finished(Box<Finished>),
    /// Server: the test broke; earlier measurements may still follow.
    Failed {
        /// Human-readable reason.
        reason: String,
    },
    /// Client: the session is over.
    Bye,
    /// Client: first message of a data connection; the stream's bytes follow the answer.
    Join {
        /// As accepted.
        #[serde(with = "crate::hex")]
        session: [u8; 8],
        /// Number of the stream, unique in its session.
        stream: u32,
        /// Direction of its bulk bytes.
        direction: Direction,
        /// The client's proof that the connection belongs to it ([`crate::join_proof`]).
        #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::hex::option")]
        proof: Option<[u8; 32]>,
    },
    /// Server: the connection belongs to the session.
    Joined {
        /// Socket buffers at the server.
        buffers: BufferGrant,
        /// Congestion control in force at the server.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        congestion_control: Option<String>,
        /// Maximum segment size at the server.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mss_bytes: Option<u64>,
    },
    /// A message type of a later version, to be ignored. It cannot be sent.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// Reason for which a server refuses a test or a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefuseCode {
    /// The server already runs its maximum number of tests.
    Busy,
    /// The client's address already has its maximum number of tests or connections.
    TooManyFromAddress,
    /// The client's address is not on the server's list.
    NotAllowed,
    /// The proof is wrong: the client has another key.
    BadKey,
    /// The server requires a key and the request had no proof.
    KeyRequired,
    /// The test would exceed the server's maximum duration.
    TooLong,
    /// The rate exceeds the server's maximum.
    RateTooHigh,
    /// The request is malformed or contradicts itself.
    BadRequest,
    /// The server does not support the request.
    Unsupported,
    /// The server is stopping.
    ShuttingDown,
    /// The client did not prove that it receives at its UDP address.
    AddressNotProven,
    /// A reason of a later version.
    #[serde(other)]
    Other,
}

impl core::fmt::Display for RefuseCode {
    /// Writes the code as text for messages.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Busy => "busy",
            Self::TooManyFromAddress => "too many from this address",
            Self::NotAllowed => "not allowed",
            Self::BadKey => "bad key",
            Self::KeyRequired => "key required",
            Self::TooLong => "too long",
            Self::RateTooHigh => "rate too high",
            Self::BadRequest => "bad request",
            Self::Unsupported => "unsupported",
            Self::ShuttingDown => "shutting down",
            Self::AddressNotProven => "address not proven",
            Self::Other => "another reason",
        })
    }
}

/// Arrival of a sampled block at the receiver, on the receiver's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteSample {
    /// Number of the block.
    pub block: u32,
    /// Arrival time of its header in the kernel; absent when the kernel gave no stamp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_ns: Option<u64>,
    /// Time at which the application read it.
    pub read_ns: u64,
}

/// One packet of a train that a server is requested to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeDeparture {
    /// Departure time after the first packet of the train, in ns.
    pub after_ns: u64,
    /// Length in bytes, with the headers of IP and UDP.
    pub bytes: u32,
}

/// A message that cannot be decoded or encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Not JSON, or not of the form of its type.
    #[error("message is malformed: {0}")]
    Json(#[from] serde_json::Error),
    /// A string with control characters, which the other end's terminal would interpret.
    #[error("message contains control characters")]
    Control,
    /// A list or text longer than allowed, or a plan that no test can follow.
    #[error("message is out of bounds: {0}")]
    Bounds(#[from] BoundsError),
    /// A message longer than a frame may be.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl Message {
    /// Decodes the payload of a [`Frame::Json`] and checks every length in it.
    ///
    /// Plans are not checked here: a server answers an invalid one with [`RefuseCode::BadRequest`] and the text of
    /// [`crate::PlanError`].
    ///
    /// # Errors
    /// The peer does not follow this protocol; the caller counts the message and closes the connection.
    pub fn decode(json: &[u8]) -> Result<Self, MessageError> {
        let message: Self = serde_json::from_slice(json)?;
        message.check(&String::from_utf8_lossy(json))?;
        Ok(message)
    }

    /// Encodes the message as JSON that [`decode`](Self::decode) accepts.
    ///
    /// Numbers must be finite: JSON has no infinity, and a reader would reject the `null` in its place.
    ///
    /// # Errors
    /// [`Message::Unknown`], a list or text that is too long, or control characters in a text.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        let json = serde_json::to_string(self)?;
        self.check(&json)?;
        Ok(json.into_bytes())
    }

    /// Name of the message's type, for error texts.
    pub fn name(&self) -> String {
        let debug = format!("{self:?}");
        debug.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default().to_lowercase()
    }

    /// Encodes the message as a whole frame.
    ///
    /// # Errors
    /// As [`encode`](Self::encode), or longer than [`crate::SESSION_BYTES_MAX`].
    pub fn encode_frame(&self) -> Result<Vec<u8>, MessageError> {
        Ok(encode_frame(&Frame::Json(self.encode()?))?)
    }

    fn check(&self, json: &str) -> Result<(), MessageError> {
        if json_has_control(json) {
            return Err(MessageError::Control);
        }
        Ok(bounds::check(self)?)
    }
}
