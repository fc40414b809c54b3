use units::{Bytes, Rate};

use super::NtpTime;
use crate::fields::{FieldError, bounded, decimal_fields, window};
use crate::proposal::{PROPOSAL_BYTES_MAX, Progress, Proposal, port_number};

/// A server's refusal of a UDP test.
pub const UDP_REFUSAL: &[u8; 3] = b"u:-";

/// Length of the header of a test datagram in bytes.
pub const THRULAY_DATAGRAM_HEADER_BYTES: usize = 24;

/// Length of the nonce in a response, in bytes.
const NONCE_BYTES: usize = 8;

/// Version of IP, for the length of its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersion {
    /// 20 bytes without options (RFC 791).
    V4,
    /// 40 bytes without extensions (RFC 8200).
    V6,
}

impl IpVersion {
    /// Bytes of the IP and UDP headers in front of a payload: thrulay counts them in its packet size.
    pub const fn udp_overhead(self) -> Bytes {
        match self {
            Self::V4 => Bytes::new(28),
            Self::V6 => Bytes::new(48),
        }
    }

    /// Payload of a packet of `packet_size`; `None` when the packet cannot hold the test header or exceeds the
    /// maximum of UDP.
    pub fn udp_payload(self, packet_size: Bytes) -> Option<Bytes> {
        // Largest UDP payload: 65 535 minus the headers that count towards the 16-bit length of IP (or of UDP).
        let max = match self {
            Self::V4 => 65_507,
            Self::V6 => 65_527,
        };
        let payload = packet_size.as_u64().checked_sub(self.udp_overhead().as_u64())?;
        (THRULAY_DATAGRAM_HEADER_BYTES as u64..=max).contains(&payload).then_some(Bytes::new(payload))
    }
}

/// thrulay's unit of a packet rate: packets of `packet_size` (headers included) in 1000 s at `rate`, rounded down.
pub fn rate_per_1000s(rate: Rate, packet_size: Bytes) -> u64 {
    let bits = u128::from(packet_size.as_u64().max(1)) * 8;
    u64::try_from(u128::from(rate.as_bps()) * 1000 / bits).unwrap_or(u64::MAX)
}

/// Terms of a UDP test that both ends agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpTerms {
    /// UDP port at which the server receives.
    pub server_port: u16,
    /// Length of a packet, IP and UDP headers included.
    pub packet_size: Bytes,
    /// Packets in 1000 seconds.
    pub rate_per_1000s: u64,
    /// Packets in the test; sequence numbers are below it.
    pub packets: u64,
    /// First bytes of each datagram; any values, NUL and `+` among them.
    pub nonce: [u8; NONCE_BYTES],
}

/// A server's answer to a UDP proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UdpAnswer {
    /// Refused.
    Refused,
    /// Granted, perhaps with changes.
    Granted(UdpTerms),
}

impl UdpTerms {
    /// The client's proposal of these terms.
    pub fn proposal(&self, client_port: u16) -> Proposal {
        let &Self { packet_size, rate_per_1000s, packets, .. } = self;
        Proposal::ThrulayUdp { client_port, packet_size, rate_per_1000s, packets }
    }

    /// Encodes the server's answer: `<server_port>:<packet_size>:<rate>:<npackets>:`, the nonce, `+`.
    pub fn encode_response(&self) -> Vec<u8> {
        let Self { server_port, packet_size, rate_per_1000s, packets, nonce } = self;
        let text = format!("{server_port}:{}:{rate_per_1000s}:{packets}:", packet_size.as_u64());
        [text.as_bytes(), nonce, b"+"].concat()
    }
}

/// Parses a server's answer to a UDP proposal at the front of a buffer that may still grow.
///
/// # Errors
/// Not an answer. The client checks whether the terms suit it (packet size, rate).
pub fn parse_udp_response(buffer: &[u8]) -> Result<Progress<UdpAnswer>, FieldError> {
    let seen = window(buffer, PROPOSAL_BYTES_MAX);
    if seen.starts_with(UDP_REFUSAL) {
        return Ok(Progress::Complete { value: UdpAnswer::Refused, consumed: UDP_REFUSAL.len() });
    }
    if UDP_REFUSAL.starts_with(seen) {
        return Ok(Progress::Incomplete);
    }
    let progress = parse_terms(seen)?;
    Ok(bounded(progress, buffer.len(), PROPOSAL_BYTES_MAX)?.map(UdpAnswer::Granted))
}

fn parse_terms(seen: &[u8]) -> Result<Progress<UdpTerms>, FieldError> {
    let Progress::Complete { value: [port, size, rate_per_1000s, packets], consumed } = decimal_fields(seen, b':')?
    else {
        return Ok(Progress::Incomplete);
    };
    let server_port = port_number(port)?;
    let Some((&nonce, rest)) = seen.get(consumed..).and_then(<[u8]>::split_first_chunk::<NONCE_BYTES>) else {
        return Ok(Progress::Incomplete);
    };
    match rest.first() {
        None => Ok(Progress::Incomplete),
        Some(b'+') => {
            let value = UdpTerms { server_port, packet_size: Bytes::new(size), rate_per_1000s, packets, nonce };
            Ok(Progress::Complete { value, consumed: consumed + NONCE_BYTES + 1 })
        }
        Some(&found) => Err(FieldError::Byte { found, expected: '+' }),
    }
}

/// The client's message on TCP after its last packet: `+<npackets>:`.
pub fn encode_end(packets: u64) -> Vec<u8> {
    format!("+{packets}:").into_bytes()
}

/// Parses the client's end message: the number of packets that it sent.
///
/// # Errors
/// Not an end message.
pub fn parse_end(buffer: &[u8]) -> Result<Progress<u64>, FieldError> {
    let Some((&first, rest)) = window(buffer, PROPOSAL_BYTES_MAX).split_first() else {
        return Ok(Progress::Incomplete);
    };
    if first != b'+' {
        return Err(FieldError::Byte { found: first, expected: '+' });
    }
    Ok(match bounded(decimal_fields(rest, b':')?, buffer.len(), PROPOSAL_BYTES_MAX)? {
        Progress::Incomplete => Progress::Incomplete,
        Progress::Complete { value: [packets], consumed } => {
            Progress::Complete { value: packets, consumed: consumed + 1 }
        }
    })
}

/// Header of a test datagram: nonce 8 bytes | sequence u64 | time u64 in network order; [`crate::FILLER`] follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThrulayDatagram {
    /// Nonce from the server's answer; datagrams with another nonce are not counted.
    pub nonce: [u8; NONCE_BYTES],
    /// Sequence number of the packet, from 0; packets with a number at or above the agreed number of packets are not
    /// counted.
    pub sequence: u64,
    /// Send time on the sender's clock.
    pub sent: NtpTime,
}

impl ThrulayDatagram {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; THRULAY_DATAGRAM_HEADER_BYTES] {
        let mut bytes = [0; THRULAY_DATAGRAM_HEADER_BYTES];
        let (nonce, rest) = bytes.split_at_mut(8);
        let (sequence, sent) = rest.split_at_mut(8);
        nonce.copy_from_slice(&self.nonce);
        sequence.copy_from_slice(&self.sequence.to_be_bytes());
        sent.copy_from_slice(&self.sent.to_bits().to_be_bytes());
        bytes
    }

    /// Decodes the header of a received datagram; `None` when it is too short.
    pub fn decode(datagram: &[u8]) -> Option<Self> {
        let (nonce, rest) = datagram.split_first_chunk::<8>()?;
        let (sequence, rest) = rest.split_first_chunk::<8>()?;
        let (sent, _filler) = rest.split_first_chunk::<8>()?;
        Some(Self {
            nonce: *nonce,
            sequence: u64::from_be_bytes(*sequence),
            sent: NtpTime::from_bits(u64::from_be_bytes(*sent)),
        })
    }
}

#[cfg(test)]
mod tests;
