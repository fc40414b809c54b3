use super::{u32_at, u64_at};

/// Maximum length of a message in bytes, so that it fits a frame on every path that supports IPv6.
pub const MESSAGE_MAX: usize = 1100;

/// Maximum number of packet number spaces in one report.
pub const REPORTS_MAX: usize = 24;

const REPORT: u8 = 1;
const PROBE: u8 = 2;
const GOSSIP: u8 = 3;
const SIZE_ASKED: u8 = 4;
const SIZE_SEEN: u8 = 5;
const BYE: u8 = 6;
const TRAIN: u8 = 7;
const TRAIN_SEEN: u8 = 8;
const CERTIFICATE: u8 = 9;
const SIZE_IS: u8 = 10;

/// Length in bytes of the entry of one packet number space in a report.
const SPACE_REPORT_BYTES: usize = 40;
/// Length in bytes of a gossip piece before its data.
const GOSSIP_HEADER_BYTES: usize = 9;

/// Receiver's counters of one packet number space, from which both ends derive losses and delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpaceReport {
    /// Packet number space of the session.
    pub space: u8,
    /// Frames sent up to the latest frame that arrived, derived from the sequence numbers of each queue.
    pub sent: u64,
    /// Frames received since the session started, without duplicates.
    pub received: u64,
    /// Payload bytes of the packets in these frames: traffic between the members' hosts, without overlay messages.
    pub bytes: u64,
    /// `sent` of the frame that arrived last.
    pub echo: u32,
    /// Time between the arrival of that frame and this report, in microseconds.
    pub held: u32,
    /// Largest one-way delay since the previous report, minus the smallest of the session, in microseconds: the
    /// queueing delay of the path.
    pub queued: u32,
}

/// Messages between members, carried inside sealed frames.
///
/// A message is one byte of kind, then fields of fixed length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Counters of the frames that arrived from the receiver of this message.
    Report(Vec<SpaceReport>),
    /// A filler that is only counted, sent where traffic is too sparse to measure a path.
    Probe,
    /// A piece of a gossip message.
    Gossip {
        /// Number of the message, for reassembly.
        number: u32,
        /// Index of this piece.
        piece: u16,
        /// Number of pieces.
        pieces: u16,
        /// The piece.
        data: Vec<u8>,
    },
    /// PMTU probe: asks whether a datagram of this size arrives; the rest of the frame is filler.
    SizeAsked {
        /// IP bytes of the datagram.
        bytes: u16,
    },
    /// Acknowledges a PMTU probe.
    SizeSeen {
        /// Size from the probe, in IP bytes.
        bytes: u16,
    },
    /// The sender limits its datagrams on the link to the receiver to this size.
    SizeIs {
        /// IP bytes of the datagram.
        bytes: u16,
    },
    /// The sender leaves: its links count as down at once.
    Bye,
    /// One packet of a packet train, whose spacing on arrival measures the link's capacity; the rest of the frame is
    /// filler.
    Train {
        /// Number of the train, which grows.
        number: u32,
        /// Index of this packet.
        index: u16,
        /// Packets of the train.
        count: u16,
    },
    /// Measurement of a packet train.
    TrainSeen {
        /// Number of the train.
        number: u32,
        /// Time from the first arrival to the last, in microseconds.
        span: u32,
        /// Arrival rate, b/s of IP; 0 when too few packets arrived.
        bps: u64,
    },
    /// The sender's certificate, signed by the overlay's authority.
    Certificate(Vec<u8>),
}

impl Message {
    /// Encodes the message. A report of more than [`REPORTS_MAX`] packet number spaces is truncated, as is data that
    /// does not fit.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Report(spaces) => {
                let mut b = vec![REPORT];
                for space in spaces.iter().take(REPORTS_MAX) {
                    space.write(&mut b);
                }
                b
            }
            Self::Probe => vec![PROBE],
            Self::Gossip { number, piece, pieces, data } => {
                let mut b = vec![GOSSIP];
                b.extend(number.to_be_bytes());
                b.extend(piece.to_be_bytes());
                b.extend(pieces.to_be_bytes());
                b.extend(data.iter().take(MESSAGE_MAX - GOSSIP_HEADER_BYTES));
                b
            }
            Self::SizeAsked { bytes } => [&[SIZE_ASKED], &bytes.to_be_bytes()[..]].concat(),
            Self::SizeSeen { bytes } => [&[SIZE_SEEN], &bytes.to_be_bytes()[..]].concat(),
            Self::SizeIs { bytes } => [&[SIZE_IS], &bytes.to_be_bytes()[..]].concat(),
            Self::Bye => vec![BYE],
            Self::Train { number, index, count } => {
                [&[TRAIN], &number.to_be_bytes()[..], &index.to_be_bytes(), &count.to_be_bytes()].concat()
            }
            Self::TrainSeen { number, span, bps } => {
                [&[TRAIN_SEEN], &number.to_be_bytes()[..], &span.to_be_bytes(), &bps.to_be_bytes()].concat()
            }
            Self::Certificate(text) => {
                [&[CERTIFICATE], text.get(..text.len().min(Self::CERTIFICATE_DATA)).unwrap_or_default()].concat()
            }
        }
    }

    /// Decodes a message; `None` when it is malformed. Messages that end in filler are read to their end.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let size = |rest: &[u8]| rest.first_chunk().map(|b| u16::from_be_bytes(*b));
        match *kind {
            REPORT => {
                let whole =
                    rest.len().is_multiple_of(SPACE_REPORT_BYTES) && rest.len() <= SPACE_REPORT_BYTES * REPORTS_MAX;
                let spaces = rest.chunks_exact(SPACE_REPORT_BYTES).map(SpaceReport::read).collect::<Option<Vec<_>>>();
                spaces.filter(|_| whole).map(Self::Report)
            }
            PROBE => Some(Self::Probe),
            GOSSIP => Self::gossip(rest).filter(|_| bytes.len() <= MESSAGE_MAX),
            SIZE_ASKED => size(rest).map(|bytes| Self::SizeAsked { bytes }),
            SIZE_SEEN => size(rest).map(|bytes| Self::SizeSeen { bytes }),
            SIZE_IS => size(rest).map(|bytes| Self::SizeIs { bytes }),
            BYE => Some(Self::Bye),
            TRAIN => Self::train(rest),
            TRAIN_SEEN => {
                Some(Self::TrainSeen { number: u32_at(rest, 0)?, span: u32_at(rest, 4)?, bps: u64_at(rest, 8)? })
            }
            CERTIFICATE if rest.len() <= Self::CERTIFICATE_DATA => Some(Self::Certificate(rest.to_vec())),
            _ => None,
        }
    }

    fn train(rest: &[u8]) -> Option<Self> {
        let (b, _filler) = rest.split_first_chunk::<8>()?;
        let (index, count) = (u16::from_be_bytes([b[4], b[5]]), u16::from_be_bytes([b[6], b[7]]));
        (index < count).then_some(Self::Train { number: u32_at(b, 0)?, index, count })
    }

    fn gossip(rest: &[u8]) -> Option<Self> {
        let (header, data) = rest.split_first_chunk::<{ GOSSIP_HEADER_BYTES - 1 }>()?;
        let number = u32_at(header, 0)?;
        let (piece, pieces) = (u16::from_be_bytes([header[4], header[5]]), u16::from_be_bytes([header[6], header[7]]));
        (piece < pieces).then(|| Self::Gossip { number, piece, pieces, data: data.to_vec() })
    }

    /// Maximum bytes of data in one gossip piece.
    pub const GOSSIP_DATA: usize = MESSAGE_MAX - GOSSIP_HEADER_BYTES;

    /// Maximum bytes of a certificate.
    pub const CERTIFICATE_DATA: usize = MESSAGE_MAX - 1;
}

impl SpaceReport {
    fn write(&self, b: &mut Vec<u8>) {
        b.extend(u32::from(self.space).to_be_bytes());
        b.extend(self.sent.to_be_bytes());
        b.extend(self.received.to_be_bytes());
        b.extend(self.bytes.to_be_bytes());
        b.extend(self.echo.to_be_bytes());
        b.extend(self.held.to_be_bytes());
        b.extend(self.queued.to_be_bytes());
    }

    fn read(b: &[u8]) -> Option<Self> {
        Some(Self {
            space: u8::try_from(u32_at(b, 0)?).ok()?,
            sent: u64_at(b, 4)?,
            received: u64_at(b, 12)?,
            bytes: u64_at(b, 20)?,
            echo: u32_at(b, 28)?,
            held: u32_at(b, 32)?,
            queued: u32_at(b, 36)?,
        })
    }
}
