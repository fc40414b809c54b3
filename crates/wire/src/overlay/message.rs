use super::{u32_at, u64_at};

/// Most bytes of a message, so that it fits a frame on every path that carries IPv6.
pub const MESSAGE_MAX: usize = 1100;

/// Most lanes in one report.
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

/// Bytes of a lane in a report.
const LANE: usize = 40;
/// Bytes of a gossip piece before its data.
const GOSSIP_HEADER: usize = 9;

/// What arrived in one lane so far, as its receiver counted: sender and receiver both take losses and delays from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneReport {
    /// Lane of the session.
    pub lane: u8,
    /// Frames that its sender had sent by the latest of them that arrived, as their numbers tell, queue by queue.
    pub sent: u64,
    /// Frames received since the session began, duplicates not counted.
    pub received: u64,
    /// Bytes of the packets in them: what the members' hosts sent each other, not what the members did.
    pub bytes: u64,
    /// `sent` of the frame that arrived last.
    pub echo: u32,
    /// How long that frame had been here when this was written, microseconds.
    pub held: u32,
    /// Largest one-way delay since the report before, less the least of the session, microseconds: the queue on the way.
    pub queued: u32,
}

/// What members tell each other inside sealed frames.
///
/// One byte of kind, then fields of fixed length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// What arrived here of what the receiver sent.
    Report(Vec<LaneReport>),
    /// Nothing but to be counted: filler where traffic is too thin to know a path by.
    Probe,
    /// A piece of a message of the gossip.
    Gossip {
        /// Number of the message, so that its pieces are put together.
        number: u32,
        /// Index of this piece.
        piece: u16,
        /// Number of pieces.
        pieces: u16,
        /// The piece.
        data: Vec<u8>,
    },
    /// Asks whether a datagram of this size arrives; the rest of the frame is filler.
    SizeAsked {
        /// IP bytes of the datagram.
        bytes: u16,
    },
    /// It did.
    SizeSeen {
        /// As asked.
        bytes: u16,
    },
    /// The sender makes no larger datagrams for the link to the receiver.
    SizeIs {
        /// IP bytes of the datagram.
        bytes: u16,
    },
    /// The sender leaves: its links are to be taken as gone at once.
    Bye,
    /// One packet of a train, whose distances on arrival tell what the link carries; the rest of the frame is filler.
    Train {
        /// Number of the train, which grows.
        number: u32,
        /// Index of this packet.
        index: u16,
        /// Packets of the train.
        count: u16,
    },
    /// What a train told.
    TrainSeen {
        /// Number of the train.
        number: u32,
        /// From the first arrival to the last, microseconds.
        span: u32,
        /// Rate at which it came, b/s of IP; 0: too little of it came to tell.
        bps: u64,
    },
    /// Who the sender is, as the overlay's authority says.
    Certificate(Vec<u8>),
}

impl Message {
    /// The bytes. A report of more than [`REPORTS_MAX`] lanes is cut, and data longer than fits.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Report(lanes) => {
                let mut b = vec![REPORT];
                for lane in lanes.iter().take(REPORTS_MAX) {
                    lane.write(&mut b);
                }
                b
            }
            Self::Probe => vec![PROBE],
            Self::Gossip { number, piece, pieces, data } => {
                let mut b = vec![GOSSIP];
                b.extend(number.to_be_bytes());
                b.extend(piece.to_be_bytes());
                b.extend(pieces.to_be_bytes());
                b.extend(data.iter().take(MESSAGE_MAX - GOSSIP_HEADER));
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

    /// Reads a message; `None` when it is none. Messages that end in filler are read to their end.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let size = |rest: &[u8]| rest.first_chunk().map(|b| u16::from_be_bytes(*b));
        match *kind {
            REPORT => {
                let whole = rest.len().is_multiple_of(LANE) && rest.len() <= LANE * REPORTS_MAX;
                let lanes = rest.chunks_exact(LANE).map(LaneReport::read).collect::<Option<Vec<_>>>();
                lanes.filter(|_| whole).map(Self::Report)
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
        let (header, data) = rest.split_first_chunk::<{ GOSSIP_HEADER - 1 }>()?;
        let number = u32_at(header, 0)?;
        let (piece, pieces) = (u16::from_be_bytes([header[4], header[5]]), u16::from_be_bytes([header[6], header[7]]));
        (piece < pieces).then(|| Self::Gossip { number, piece, pieces, data: data.to_vec() })
    }

    /// Most bytes of data in one gossip piece.
    pub const GOSSIP_DATA: usize = MESSAGE_MAX - GOSSIP_HEADER;

    /// Most bytes of a certificate.
    pub const CERTIFICATE_DATA: usize = MESSAGE_MAX - 1;
}

impl LaneReport {
    fn write(&self, b: &mut Vec<u8>) {
        b.extend(u32::from(self.lane).to_be_bytes());
        b.extend(self.sent.to_be_bytes());
        b.extend(self.received.to_be_bytes());
        b.extend(self.bytes.to_be_bytes());
        b.extend(self.echo.to_be_bytes());
        b.extend(self.held.to_be_bytes());
        b.extend(self.queued.to_be_bytes());
    }

    fn read(b: &[u8]) -> Option<Self> {
        Some(Self {
            lane: u8::try_from(u32_at(b, 0)?).ok()?,
            sent: u64_at(b, 4)?,
            received: u64_at(b, 12)?,
            bytes: u64_at(b, 20)?,
            echo: u32_at(b, 28)?,
            held: u32_at(b, 32)?,
            queued: u32_at(b, 36)?,
        })
    }
}
