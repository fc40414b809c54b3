use std::net::{IpAddr, SocketAddr};

use super::super::Message;
use super::take;

/// Context string that is signed with each record, so that a signature for another purpose is never valid for a
/// record.
pub const SIGNED_CONTEXT: &[u8] = b"longhaul gossip 4";
/// Relay rate without a limit.
pub const UNBOUNDED: u64 = u64::MAX;
/// Length in bytes of the signature in front of a record.
pub const SIGNATURE_BYTES: usize = 64;
/// Maximum bytes of a record with its signature: a certificate and its fields fit.
pub const RECORD_BYTES_MAX: usize = Message::CERTIFICATE_DATA + 160;

const LINK: u8 = 1;
const CERTIFICATE: u8 = 2;
const REFRESH: u8 = 3;
const UP: u8 = 1;
const WITH_TRAFFIC: u8 = 4;

/// A record of one originator. Its number grows, so that an older record cannot replace it: `originator` u32 |
/// `start` u64 | `number` u64 | `at_ms` u64 | kind u8 | object u32 | body of that kind, see [`RecordBody`].
#[derive(Debug, Clone, PartialEq)]
pub struct SignedRecord {
    /// Member that originated the record.
    pub originator: u32,
    /// Start counter of the originator, which loses its earlier records at a restart.
    pub start: u64,
    /// Number of the record, increasing over all starts.
    pub number: u64,
    /// Creation time on the originator's clock, whose zero is arbitrary: shows the age difference of two records.
    pub at_ms: u64,
    /// Body of the record.
    pub body: RecordBody,
}

/// Body of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordBody {
    /// State of the originator's link from `from`; without an advertisement the link is down. `flags` u8 |
    /// `relayed_bps` u64 | the advertisement.
    Link {
        /// Member at the other end.
        from: u32,
        /// Measured metrics of the link.
        advertisement: Option<LinkAdvertisement>,
        /// Maximum rate at which the originator relays the traffic of each neighbour, b/s; 0 means none;
        /// [`UNBOUNDED`] means no limit.
        relayed_bps: u64,
    },
    /// A certificate and the endpoint of its owner; an empty text withdraws it. Family u8 (0, 4, 6) | address | port
    /// u16 | text to the end.
    Certificate {
        /// Owner of the certificate.
        owner: u32,
        /// Endpoint of the owner.
        endpoint: Option<SocketAddr>,
        /// Text of the certificate.
        text: String,
    },
    /// Refreshes link records that are still valid. With many records, each part covers some of them.
    Refresh {
        /// Index of the part.
        part: u32,
        /// Distance of each record's number from the number of this record, u32 each to the end.
        distances: Vec<u32>,
    },
}

/// Metrics of a link that its receiver advertises: `rtt_us` u32 | `loss`, `low`, `high`, `frames` f32 |
/// `capacity_bps` u64 | `datagram` u16; 0 of the last two means unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkAdvertisement {
    /// Round-trip time in microseconds.
    pub rtt_us: u32,
    /// Share of lost frames, 0..=1.
    pub loss: f32,
    /// Lower end of the confidence interval of the loss.
    pub low: f32,
    /// Upper end of the confidence interval of the loss.
    pub high: f32,
    /// Number of frames in the loss estimate.
    pub frames: f32,
    /// Capacity of the link, b/s of IP.
    pub capacity_bps: Option<u64>,
    /// Largest datagram received on the link, in IP bytes.
    pub datagram: Option<u16>,
    /// Whether the originator has recently sent packets over the overlay.
    pub with_traffic: bool,
}

/// Object of a record: a later record about the same object replaces the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKey {
    /// The link from a member.
    Link(u32),
    /// The certificate of a member.
    Certificate(u32),
    /// A part of the refresh.
    Refresh(u32),
}

impl SignedRecord {
    /// Object of the record.
    pub fn key(&self) -> RecordKey {
        match self.body {
            RecordBody::Link { from, .. } => RecordKey::Link(from),
            RecordBody::Certificate { owner, .. } => RecordKey::Certificate(owner),
            RecordBody::Refresh { part, .. } => RecordKey::Refresh(part),
        }
    }

    /// Encodes the bytes to sign, which follow [`SIGNED_CONTEXT`].
    pub fn encode(&self) -> Vec<u8> {
        let mut b = self.originator.to_be_bytes().to_vec();
        for number in [self.start, self.number, self.at_ms] {
            b.extend(number.to_be_bytes());
        }
        self.body.write(&mut b);
        b
    }

    /// Decodes a record with its signature in front, without verifying it. `None` when it is malformed.
    pub fn decode(signed: &[u8]) -> Option<Self> {
        let mut rest = signed.get(SIGNATURE_BYTES..)?;
        let record = Self {
            originator: u32::from_be_bytes(take(&mut rest)?),
            start: u64::from_be_bytes(take(&mut rest)?),
            number: u64::from_be_bytes(take(&mut rest)?),
            at_ms: u64::from_be_bytes(take(&mut rest)?),
            body: RecordBody::read(&mut rest)?,
        };
        rest.is_empty().then_some(record)
    }
}

impl RecordBody {
    fn write(&self, b: &mut Vec<u8>) {
        match self {
            Self::Link { from, advertisement, relayed_bps } => {
                b.push(LINK);
                b.extend(from.to_be_bytes());
                let with_traffic = advertisement.is_some_and(|a| a.with_traffic);
                let flags = [(UP, advertisement.is_some()), (WITH_TRAFFIC, with_traffic)];
                b.push(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag).sum());
                b.extend(relayed_bps.to_be_bytes());
                if let Some(advertisement) = advertisement {
                    advertisement.write(b);
                }
            }
            Self::Certificate { owner, endpoint, text } => {
                b.push(CERTIFICATE);
                b.extend(owner.to_be_bytes());
                write_endpoint(*endpoint, b);
                b.extend(text.as_bytes());
            }
            Self::Refresh { part, distances } => {
                b.push(REFRESH);
                b.extend(part.to_be_bytes());
                b.extend(distances.iter().flat_map(|n| n.to_be_bytes()));
            }
        }
    }

    fn read(rest: &mut &[u8]) -> Option<Self> {
        let [kind] = take(rest)?;
        let object = u32::from_be_bytes(take(rest)?);
        match kind {
            LINK => {
                let [flags] = take(rest)?;
                let (relayed_bps, with_traffic) = (u64::from_be_bytes(take(rest)?), flags & WITH_TRAFFIC != 0);
                let advertisement = if flags & UP == 0 {
                    None
                } else {
                    Some(LinkAdvertisement { with_traffic, ..LinkAdvertisement::read(rest)? })
                };
                Some(Self::Link { from: object, advertisement, relayed_bps })
            }
            CERTIFICATE => {
                let endpoint = read_endpoint(rest)?;
                let text = std::str::from_utf8(std::mem::take(rest)).ok()?.to_owned();
                Some(Self::Certificate { owner: object, endpoint, text })
            }
            REFRESH => {
                let mut distances = Vec::new();
                while !rest.is_empty() {
                    distances.push(u32::from_be_bytes(take(rest)?));
                }
                Some(Self::Refresh { part: object, distances })
            }
            _ => None,
        }
    }
}

impl LinkAdvertisement {
    fn write(&self, b: &mut Vec<u8>) {
        b.extend(self.rtt_us.to_be_bytes());
        for number in [self.loss, self.low, self.high, self.frames] {
            b.extend(number.to_be_bytes());
        }
        b.extend(self.capacity_bps.unwrap_or(0).to_be_bytes());
        b.extend(self.datagram.unwrap_or(0).to_be_bytes());
    }

    fn read(rest: &mut &[u8]) -> Option<Self> {
        let rtt_us = u32::from_be_bytes(take(rest)?);
        let mut number = || Some(f32::from_be_bytes(take(rest)?)).filter(|x| x.is_finite());
        let (loss, low, high, frames) = (number()?, number()?, number()?, number()?);
        let capacity_bps = Some(u64::from_be_bytes(take(rest)?)).filter(|c| *c > 0);
        let datagram = Some(u16::from_be_bytes(take(rest)?)).filter(|d| *d > 0);
        Some(Self { rtt_us, loss, low, high, frames, capacity_bps, datagram, with_traffic: false })
    }
}

fn write_endpoint(endpoint: Option<SocketAddr>, b: &mut Vec<u8>) {
    match endpoint.map(|e| e.ip()) {
        None => b.push(0),
        Some(IpAddr::V4(ip)) => {
            b.push(4);
            b.extend(ip.octets());
        }
        Some(IpAddr::V6(ip)) => {
            b.push(6);
            b.extend(ip.octets());
        }
    }
    b.extend(endpoint.iter().flat_map(|e| e.port().to_be_bytes()));
}

fn read_endpoint(rest: &mut &[u8]) -> Option<Option<SocketAddr>> {
    let [family] = take(rest)?;
    let ip = match family {
        0 => return Some(None),
        4 => IpAddr::from(take::<4>(rest)?),
        6 => IpAddr::from(take::<16>(rest)?),
        _ => return None,
    };
    Some(Some(SocketAddr::new(ip, u16::from_be_bytes(take(rest)?))))
}
