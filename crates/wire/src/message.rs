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

pub use bounds::{BoundsError, HELLO_FILL_MAX, MAX_LIST, MAX_SAMPLES, MAX_TEXT};

/// One message. Fields that a reader does not know are ignored, types that it does not know are [`Message::Unknown`].
///
/// Control connection: `hello` -> `challenge` -> `request` -> `accept`, then data connections (`join` -> `joined`) or
/// UDP address validation and `udp_ready`, then `start` -> `started` -> any number of `interval`, `samples`, `clock`
/// -> `stop` at will -> `finished` -> `bye`. `refuse` answers a request that is not granted, `failed` ends a test that broke.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "a handful of messages per second; boxing would only burden readers")]
pub enum Message {
    /// Client: first message of a control connection.
    Hello {
        /// Highest version of the native protocol that the client speaks.
        version: u32,
        /// Name and version of the program.
        software: String,
        /// Random, fresh for each connection.
        #[serde(with = "crate::hex")]
        nonce: [u8; 16],
        /// Repeated in the challenge: shows whether segments of its size pass in both directions. At most [`crate::HELLO_FILL_MAX`] bytes.
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
        /// Whether the server grants tests only to those who prove the key.
        key_required: bool,
        /// The hello's.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        fill: String,
    },
    /// Client: asks for a test.
    Request {
        /// The test; see [`crate::validate_plan`].
        plan: TestPlan,
        /// The client's proof over both nonces and the plan ([`crate::client_proof`]).
        #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::hex::option")]
        proof: Option<[u8; 32]>,
    },
    /// Server: the test may begin as soon as its data connections stand.
    Accept {
        /// Names the session in joins and datagrams.
        #[serde(with = "crate::hex")]
        session: [u8; 8],
        /// What is granted; differs from what was asked where a note says so.
        plan: TestPlan,
        /// What was changed and why, in words.
        #[serde(default)]
        notes: Vec<String>,
        /// The server's settings.
        host: HostReport,
        /// Port for test datagrams; zero for TCP tests.
        #[serde(default)]
        udp_port: u16,
        /// The server's proof that it has the key ([`crate::server_proof`]). It comes after the client's own, so that a stranger gets
        /// nothing on which to try guesses of the key.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::hex::option")]
        proof: Option<[u8; 32]>,
    },
    /// Server: not granted; the connection closes.
    Refuse {
        /// For the program.
        code: RefuseCode,
        /// For the user.
        reason: String,
    },
    /// Client: all data connections stand, begin.
    Start {
        /// The client's model of the two clocks, as `estimate` writes it; opaque here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock: Option<serde_json::Value>,
    },
    /// Server: the load began.
    Started {
        /// When, on the server's clock.
        at: Instant,
    },
    /// Client: a better model of the two clocks.
    Clock {
        /// As `estimate` writes it; opaque here.
        model: serde_json::Value,
    },
    /// Client: the server answered the proof of this client's UDP address. Reserved: the server knows by itself.
    UdpReady,
    /// Client: end the load now and report.
    Stop,
    /// Either end: what it saw in one interval.
    Interval(Box<IntervalRecord>),
    /// Receiver of bulk bytes: when sampled blocks arrived.
    Samples {
        /// The stream.
        stream: u32,
        /// In order of arrival, at most [`MAX_SAMPLES`].
        samples: Vec<RemoteSample>,
    },
    /// Sender of datagrams: all that a stream will send is sent. The receiver then knows what to wait for; without this
    /// word it waits by the clock.
    Sent {
        /// The stream.
        stream: u32,
        /// Datagrams, numbered from 0.
        datagrams: u64,
    },
    /// Client of a probing session: send these packets to my address.
    SendTrain {
        /// Number of the train.
        train: u16,
        /// At most [`crate::MAX_TRAIN`] of them.
        departures: Vec<ProbeDeparture>,
    },
    /// Server of a probing session: the packets have left.
    TrainDeparted {
        /// Number of the train.
        train: u16,
        /// When each left, on the server's clock; absent: it could not be sent.
        sent_ns: Vec<Option<u64>>,
    },
    /// Client of a probing session: I have sent a train, tell what comes of it.
    TrainSent {
        /// Number of the train.
        train: u16,
        /// How many packets.
        packets: u16,
        /// For how long nothing must come before what is missing is lost.
        settle_ns: u64,
    },
    /// Server of a probing session: what came.
    TrainArrived {
        /// Number of the train.
        train: u16,
        /// When each packet came first, on the server's clock; absent: it did not.
        received_ns: Vec<Option<u64>>,
        /// How often the clock of the packet stamps was set since the session began.
        clock_steps: u64,
    },
    /// Server: the load is over.
    Finished(Box<Finished>),
    /// Server: the test broke; what was measured before may still follow.
    Failed {
        /// What happened.
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
        /// Which way its bulk bytes go.
        direction: Direction,
        /// The client's proof that the connection is its own ([`crate::join_proof`]).
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
    /// A message of a later version; to be passed over. It cannot be sent.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// Why a server does not grant a test or a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefuseCode {
    /// As many tests run as the server allows.
    Busy,
    /// As many tests or connections of this address as the server allows.
    TooManyFromAddress,
    /// The address is not on the server's list.
    NotAllowed,
    /// The proof is wrong: another key.
    BadKey,
    /// The server asks for a key and there was no proof.
    KeyRequired,
    /// The test would last longer than the server allows.
    TooLong,
    /// The rate is higher than the server allows.
    RateTooHigh,
    /// The request is malformed or contradicts itself.
    BadRequest,
    /// The server cannot do what was asked.
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
    /// The code in words, for messages.
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

/// When a sampled block reached the receiver; both on the receiver's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteSample {
    /// Number of the block.
    pub block: u32,
    /// When its header arrived in the kernel; absent when the kernel gave no stamp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_ns: Option<u64>,
    /// When the application read it.
    pub read_ns: u64,
}

/// One packet of a train that a server is asked to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeDeparture {
    /// How long after the first packet of the train.
    pub after_ns: u64,
    /// Length with headers of IP and UDP.
    pub bytes: u32,
}

/// A message that cannot be read or sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Not JSON, or not of the shape of its type.
    #[error("message is malformed: {0}")]
    Json(#[from] serde_json::Error),
    /// A string with control characters, which the other end's terminal would obey.
    #[error("message contains control characters")]
    Control,
    /// A list or text longer than allowed, or a plan that no test can follow.
    #[error("message is out of bounds: {0}")]
    Bounds(#[from] BoundsError),
    /// Longer than a frame may be.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl Message {
    /// Reads the payload of a [`Frame::Json`] and checks every length in it.
    ///
    /// Plans are not judged here: a server answers a wrong one with [`RefuseCode::BadRequest`] and the words of
    /// [`crate::PlanError`].
    ///
    /// # Errors
    /// The peer does not speak this protocol; the message is to be counted and the connection closed.
    pub fn decode(json: &[u8]) -> Result<Self, MessageError> {
        let message: Self = serde_json::from_slice(json)?;
        message.check(&String::from_utf8_lossy(json))?;
        Ok(message)
    }

    /// The message as JSON; never what [`decode`](Self::decode) at the other end would refuse.
    ///
    /// Numbers must be finite: JSON has no infinity, and a reader would refuse the `null` in its place.
    ///
    /// # Errors
    /// [`Message::Unknown`], a list or text beyond its bound, control characters in a text.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        let json = serde_json::to_string(self)?;
        self.check(&json)?;
        Ok(json.into_bytes())
    }

    /// What kind of message it is, for error texts.
    pub fn name(&self) -> String {
        let debug = format!("{self:?}");
        debug.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default().to_lowercase()
    }

    /// The message as a whole frame, ready to be written.
    ///
    /// # Errors
    /// As [`encode`](Self::encode), or longer than [`crate::SESSION_MAX`].
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
