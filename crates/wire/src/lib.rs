//! Wire formats: every byte that longhaul sends to, or accepts from, the network.
//!
//! Inputs: bytes from a peer, in pieces of any size, and typed values to send. Outputs: typed values, bytes, or a
//! typed error that names the fault. The crate is pure: no I/O, no clock, no randomness (nonces are parameters). No
//! input makes it panic, and no peer can make it buffer more than the maximum that each parser states.
//!
//! Integers are in network order everywhere. A connection starts with the greeting of thrulay version 2, so that both
//! programs can talk to old peers ([`greeting`]). It continues as either thrulay ([`thrulay`]) or framed messages
//! ([`frame`], [`message`]). Bulk bytes carry block headers ([`block`]) or datagram headers ([`datagram`]).

mod address_proof;
pub mod auth;
pub mod block;
pub mod datagram;
mod fields;
pub mod finished;
pub mod frame;
#[doc(hidden)]
pub mod fuzzing;
pub mod greeting;
mod hex;
pub mod message;
mod network;
pub mod overlay;
pub mod plan;
pub mod probe;
pub mod proposal;
pub mod scanner;
mod text;
pub mod thrulay;
pub mod udp_control;

pub use address_proof::AddressSecret;
pub use auth::{
    Key, KeyError, Proof, client_proof, join_proof, server_proof, verify_client, verify_join, verify_server,
};
pub use block::{BLOCK_HEADER_BYTES, BlockHeader, FILLER};
pub use datagram::{DATAGRAM_HEADER_BYTES, DatagramHeader, is_session_name, stream_token, token_stream};
pub use fields::FieldError;
pub use finished::{EndSide, Finished, SideStream};
pub use frame::{
    ClockPing, ClockPong, FRAME_HEADER_BYTES, Frame, FrameError, FrameReader, HANDSHAKE_BYTES_MAX, SESSION_BYTES_MAX,
    encode_frame,
};
pub use greeting::{GREETING, Parsed, encode_rejection, parse_greeting, rejection_reason};
pub use message::{HELLO_FILL_BYTES_MAX, Message, MessageError, ProbeDeparture, RefuseCode, RemoteSample};
pub use network::counted_network;
pub use plan::{
    BLOCK_BYTES_MAX, DATAGRAM_BYTES_MAX, INTERVAL_NS_MIN, MSS_BYTES, PlanError, STREAMS_MAX, WINDOW_BYTES_MAX,
    canonical_json, validate_plan,
};
pub use probe::{PROBE_HEADER_BYTES, ProbeHeader, TRAIN_NUMBERS, TRAIN_PACKETS_MAX};
pub use proposal::{HELLO, NATIVE_VERSION, Progress, Proposal, ProposalError, parse_proposal};
pub use scanner::{EchoReader, HeaderScanner, SkipError};
pub use text::printable;
pub use udp_control::{UDP_CONTROL_BYTES, UdpControl};
