/// A range of bytes of the stream: `start` is the first byte, `end` the byte after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeqRange {
    /// First byte.
    pub start: u64,
    /// Byte after the last.
    pub end: u64,
}

impl SeqRange {
    /// Number of bytes; zero if `end` is not after `start`.
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether the range has no byte.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Segments that a sender hands to its device as one packet (segmentation offload), or a part of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segments {
    /// First byte. The stream starts at 0 and does not wrap.
    pub seq: u64,
    /// Bytes of payload, above zero. Each segment but the last has `mss` bytes.
    pub bytes: u64,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Whether these bytes were sent before.
    pub is_retransmission: bool,
    /// Timestamp of the sender in milliseconds (TSval of RFC 7323; TCP_TS_HZ in the kernel).
    pub timestamp_ms: u64,
}

impl Segments {
    /// Byte after the last.
    pub const fn end(&self) -> u64 {
        self.seq.saturating_add(self.bytes)
    }

    /// Number of segments.
    pub const fn count(&self) -> u64 {
        self.bytes.div_ceil(if self.mss == 0 { 1 } else { self.mss as u64 })
    }
}

/// Number of SACK blocks that fit beside timestamps (RFC 2018, 3).
const BLOCKS_MAX: usize = 3;

/// SACK blocks of an acknowledgement, the most recent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [SeqRange; BLOCKS_MAX],
    count: u8,
}

impl SackBlocks {
    /// Adds a block; ignored when there is no space.
    pub fn push(&mut self, block: SeqRange) {
        if let Some(place) = self.blocks.get_mut(usize::from(self.count)) {
            *place = block;
            self.count += 1;
        }
    }

    /// The blocks.
    pub fn as_slice(&self) -> &[SeqRange] {
        self.blocks.get(..usize::from(self.count)).unwrap_or_default()
    }
}

/// An acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ack {
    /// Next byte that the receiver expects.
    pub cumulative: u64,
    /// First byte beyond the receive window.
    pub window_end: u64,
    /// Ranges received beyond `cumulative` (RFC 2018).
    pub sack: SackBlocks,
    /// Range that arrived twice (D-SACK, RFC 2883). It takes the place of one block on the wire.
    pub duplicate: Option<SeqRange>,
    /// Echoed timestamp in milliseconds (TSecr of RFC 7323).
    pub echo_ms: u64,
}
