//! The first bytes that a client sends: the protocol and, for thrulay, the test.

use units::Bytes;

use crate::fields::{FieldError, bounded, decimal_fields, window};

/// The native hello: a test type that thrulay does not know, so that an old server closes and the client falls back.
///
/// The number is [`NATIVE_VERSION`]. Framed messages follow in both directions ([`crate::frame`]).
pub const HELLO: &[u8] = b"thrulay/2:L:2+";

/// Version of the native protocol. Version 2: the server proves its key after the client has.
pub const NATIVE_VERSION: u32 = 2;

/// Longest proposal in bytes. The longest meaningful one has 95 (four 20-digit numbers and their frame).
pub const PROPOSAL_BYTES_MAX: usize = 128;

const PREFIX: &[u8] = b"thrulay/2:";

/// Progress of parsing a self-delimiting text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<T> {
    /// Correct so far; more bytes are needed.
    Incomplete,
    /// Complete.
    Complete {
        /// The parsed value.
        value: T,
        /// Number of bytes of the buffer that belong to it.
        consumed: usize,
    },
}

impl<T> Progress<T> {
    /// The value, if the text is complete.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Incomplete => None,
            Self::Complete { value, .. } => Some(value),
        }
    }

    /// Converts the value.
    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> Progress<U> {
        match self {
            Self::Incomplete => Progress::Incomplete,
            Self::Complete { value, consumed } => Progress::Complete { value: f(value), consumed },
        }
    }
}

/// A client's request to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proposal {
    /// A longhaul client.
    Native {
        /// Highest version of the native protocol that the client supports.
        version: u32,
    },
    /// A thrulay client that requests a TCP test on this connection.
    ThrulayTcp {
        /// Requested socket buffers, not yet clamped.
        window: Bytes,
        /// Requested block length, not yet clamped.
        block: Bytes,
    },
    /// A thrulay client that requests a UDP test.
    ThrulayUdp {
        /// UDP port from which the client sends.
        client_port: u16,
        /// Length of a packet, IP and UDP headers included.
        packet_size: Bytes,
        /// Packets in 1000 seconds.
        rate_per_1000s: u64,
        /// Packets in the test.
        packets: u64,
    },
}

/// An invalid proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProposalError {
    /// The text does not start with `thrulay/2:`.
    #[error("proposal does not start with `thrulay/2:`")]
    NotThrulay,
    /// A test type other than `t`, `u` and `L`.
    #[error("unknown test type 0x{0:02x}; expected `t`, `u` or `L`")]
    UnknownType(u8),
    /// No `:` after the test type.
    #[error("no `:` after the test type")]
    NoSeparator,
    /// An invalid parameter.
    #[error("invalid parameters: {0}")]
    Field(#[from] FieldError),
}

impl Proposal {
    /// Encodes the proposal. thrulay's server reads it with one `recv`, so send it with one write and nothing after
    /// it.
    pub fn encode(&self) -> Vec<u8> {
        match *self {
            Self::Native { version } => format!("thrulay/2:L:{version}+"),
            Self::ThrulayTcp { window, block } => format!("thrulay/2:t:{}:{}+", window.as_u64(), block.as_u64()),
            Self::ThrulayUdp { client_port, packet_size, rate_per_1000s, packets } => {
                format!("thrulay/2:u:{client_port}:{}:{rate_per_1000s}:{packets}+", packet_size.as_u64())
            }
        }
        .into_bytes()
    }
}

/// Parses a proposal at the front of a buffer that may still grow.
///
/// At most [`PROPOSAL_BYTES_MAX`] bytes are read; invalid input is rejected at the first byte that shows it.
///
/// # Errors
/// Not a proposal; the caller closes the connection without an answer, as thrulay's own server does.
pub fn parse_proposal(buffer: &[u8]) -> Result<Progress<Proposal>, ProposalError> {
    let progress = parse_typed(window(buffer, PROPOSAL_BYTES_MAX))?;
    Ok(bounded(progress, buffer.len(), PROPOSAL_BYTES_MAX)?)
}

fn parse_typed(input: &[u8]) -> Result<Progress<Proposal>, ProposalError> {
    if !input.iter().zip(PREFIX).all(|(a, b)| a == b) {
        return Err(ProposalError::NotThrulay);
    }
    let Some((&letter, rest)) = input.get(PREFIX.len()..).and_then(<[u8]>::split_first) else {
        return Ok(Progress::Incomplete);
    };
    if !matches!(letter, b'L' | b't' | b'u') {
        return Err(ProposalError::UnknownType(letter));
    }
    let fields = match rest.split_first() {
        None => return Ok(Progress::Incomplete),
        Some((b':', fields)) => fields,
        Some(_) => return Err(ProposalError::NoSeparator),
    };
    let progress = match letter {
        b'L' => parse_native(fields)?,
        b't' => parse_tcp(fields)?,
        _ => parse_udp(fields)?,
    };
    Ok(match progress {
        Progress::Incomplete => Progress::Incomplete,
        Progress::Complete { value, consumed } => Progress::Complete { value, consumed: consumed + PREFIX.len() + 2 },
    })
}

fn parse_native(fields: &[u8]) -> Result<Progress<Proposal>, FieldError> {
    let Progress::Complete { value: [version], consumed } = decimal_fields(fields, b'+')? else {
        return Ok(Progress::Incomplete);
    };
    let version = u32::try_from(version).map_err(|_| FieldError::Range { field: "version", value: version })?;
    Ok(Progress::Complete { value: Proposal::Native { version }, consumed })
}

fn parse_tcp(fields: &[u8]) -> Result<Progress<Proposal>, FieldError> {
    Ok(decimal_fields(fields, b'+')?
        .map(|[window, block]| Proposal::ThrulayTcp { window: Bytes::new(window), block: Bytes::new(block) }))
}

fn parse_udp(fields: &[u8]) -> Result<Progress<Proposal>, FieldError> {
    let Progress::Complete { value: [port, size, rate_per_1000s, packets], consumed } = decimal_fields(fields, b'+')?
    else {
        return Ok(Progress::Incomplete);
    };
    let value = Proposal::ThrulayUdp {
        client_port: port_number(port)?,
        packet_size: Bytes::new(size),
        rate_per_1000s,
        packets,
    };
    Ok(Progress::Complete { value, consumed })
}

/// A UDP port that can be a destination: 1..=65535.
pub(crate) fn port_number(value: u64) -> Result<u16, FieldError> {
    u16::try_from(value).ok().filter(|&p| p != 0).ok_or(FieldError::Range { field: "port", value })
}

#[cfg(test)]
mod tests;
