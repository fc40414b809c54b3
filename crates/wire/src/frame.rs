//! Framing of the control connection: length u32 | kind u8 | payload, network order; the length counts the payload.

/// Length of a frame header in bytes.
pub const FRAME_HEADER_BYTES: usize = 5;

/// Longest payload in bytes before a session is accepted, which limits the server's memory for an unauthenticated
/// client.
pub const HANDSHAKE_BYTES_MAX: usize = 16 * 1024;

/// Longest payload in bytes within an accepted session; the final report with its timelines is the longest.
pub const SESSION_BYTES_MAX: usize = 4 * 1024 * 1024;

const JSON: u8 = 0;
const PING: u8 = 1;
const PONG: u8 = 2;
const PING_BYTES: usize = 16;
const PONG_BYTES: usize = 32;

/// First half of a clock exchange (the four timestamps of RFC 5905 §8), in nanoseconds on the requesting end's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockPing {
    /// Identifies the exchange; the answer repeats it.
    pub id: u64,
    /// Time at which the ping was sent, on the requesting end's clock.
    pub t1: u64,
}

/// Second half of a clock exchange, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockPong {
    /// As in the ping.
    pub id: u64,
    /// As in the ping.
    pub t1: u64,
    /// Time at which the ping arrived, on the answering end's clock.
    pub t2: u64,
    /// Time at which the pong was sent, on the answering end's clock.
    pub t3: u64,
}

impl ClockPing {
    /// Encodes the whole frame without allocation, so that little time passes between reading the clock and sending.
    pub fn encode(&self) -> [u8; FRAME_HEADER_BYTES + PING_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES + PING_BYTES];
        fill(&mut bytes, &[&header(PING_BYTES as u32, PING), &self.id.to_be_bytes(), &self.t1.to_be_bytes()]);
        bytes
    }
}

impl ClockPong {
    /// Encodes the whole frame without allocation, so that little time passes between reading the clock and sending.
    pub fn encode(&self) -> [u8; FRAME_HEADER_BYTES + PONG_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES + PONG_BYTES];
        let [id, t1, t2, t3] = [self.id, self.t1, self.t2, self.t3].map(u64::to_be_bytes);
        fill(&mut bytes, &[&header(PONG_BYTES as u32, PONG), &id, &t1, &t2, &t3]);
        bytes
    }
}

/// One unit on the control connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A message ([`crate::Message`]) in JSON, not yet parsed.
    Json(Vec<u8>),
    /// First half of a clock exchange.
    ClockPing(ClockPing),
    /// Second half of a clock exchange.
    ClockPong(ClockPong),
}

/// Bytes that are not a frame; the connection cannot be resynchronised and must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A payload longer than the present maximum.
    #[error("frame of {length} bytes; at most {max} are allowed")]
    TooLong {
        /// Length in the header, or of the frame to be sent.
        length: u64,
        /// The maximum in bytes.
        max: usize,
    },
    /// A kind that this version does not know.
    #[error("frame of unknown kind {0}")]
    UnknownKind(u8),
    /// A clock frame of the wrong length.
    #[error("clock frame of kind {kind} has the wrong length {length}")]
    ClockLength {
        /// The kind.
        kind: u8,
        /// Length in the header.
        length: u64,
    },
}

/// Encodes a frame.
///
/// # Errors
/// [`FrameError::TooLong`]: longer than [`SESSION_BYTES_MAX`], for which the peer would close the connection.
pub fn encode_frame(frame: &Frame) -> Result<Vec<u8>, FrameError> {
    match frame {
        Frame::Json(payload) => {
            let too_long = FrameError::TooLong { length: payload.len() as u64, max: SESSION_BYTES_MAX };
            let length = u32::try_from(payload.len()).map_err(|_| too_long)?;
            if payload.len() > SESSION_BYTES_MAX {
                return Err(too_long);
            }
            Ok([&header(length, JSON)[..], payload].concat())
        }
        Frame::ClockPing(ping) => Ok(ping.encode().to_vec()),
        Frame::ClockPong(pong) => Ok(pong.encode().to_vec()),
    }
}

fn header(length: u32, kind: u8) -> [u8; FRAME_HEADER_BYTES] {
    let [a, b, c, d] = length.to_be_bytes();
    [a, b, c, d, kind]
}

fn fill(bytes: &mut [u8], parts: &[&[u8]]) {
    bytes.iter_mut().zip(parts.iter().copied().flatten()).for_each(|(to, from)| *to = *from);
}

/// Splits a byte stream into frames; holds at most one frame, of at most the present maximum length.
///
/// An invalid header is rejected when its fifth byte arrives, before any payload is stored. Memory grows with the
/// received bytes, not with the length in a header. After an error no further bytes are accepted.
///
/// ```
/// # use wire::{Frame, FrameReader, HANDSHAKE_BYTES_MAX, encode_frame};
/// # fn main() -> Result<(), wire::FrameError> {
/// # let received = encode_frame(&Frame::Json(b"{}".to_vec()))?;
/// let mut reader = FrameReader::new(HANDSHAKE_BYTES_MAX);
/// let mut rest = &received[..];
/// while !rest.is_empty() {
///     let taken = reader.feed(rest);
///     rest = &rest[taken..];
///     while let Some(frame) = reader.next()? {
///         assert_eq!(frame, Frame::Json(b"{}".to_vec()));
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FrameReader {
    max: usize,
    header: [u8; FRAME_HEADER_BYTES],
    header_len: usize,
    payload: Vec<u8>,
    error: Option<FrameError>,
}

impl FrameReader {
    /// Creates a reader that accepts payloads of at most `max` bytes.
    pub fn new(max: usize) -> Self {
        Self { max, header: [0; FRAME_HEADER_BYTES], header_len: 0, payload: Vec::new(), error: None }
    }

    /// Changes the maximum, for frames whose header is not complete yet.
    pub fn set_max(&mut self, max: usize) {
        self.max = max;
    }

    /// Takes bytes up to the end of the current frame and returns their number; feed the rest after
    /// [`next`](Self::next).
    ///
    /// Takes none while a whole frame waits. After an error all bytes are taken and dropped, so that a loop over the
    /// input ends; `next` returns the error.
    #[must_use = "the bytes that were not taken have to be fed again"]
    pub fn feed(&mut self, data: &[u8]) -> usize {
        if self.error.is_some() {
            return data.len();
        }
        let missing = self.header.get_mut(self.header_len..).unwrap_or_default();
        let head = missing.len().min(data.len());
        fill(missing, &[data]);
        if head > 0 {
            self.header_len += head;
            if self.header_len == FRAME_HEADER_BYTES && self.check_header().is_err() {
                return data.len();
            }
        }
        let Some(length) = self.payload_length() else { return head };
        let body = data.get(head..).unwrap_or_default();
        let wanted = length.saturating_sub(self.payload.len());
        let body = body.get(..wanted).unwrap_or(body);
        self.payload.extend_from_slice(body);
        head + body.len()
    }

    /// Returns the frame, once it is complete.
    ///
    /// # Errors
    /// The stream does not consist of frames, or a frame is too long; every later call returns the same error.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator would end at `None`; this one goes on after more input"
    )]
    pub fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.payload_length() != Some(self.payload.len()) {
            return Ok(None);
        }
        let payload = core::mem::take(&mut self.payload);
        let [.., kind] = self.header;
        self.header_len = 0;
        Ok(decode_payload(kind, payload))
    }

    /// Number of buffered bytes: those of one frame, header included.
    pub fn buffered(&self) -> usize {
        self.header_len + self.payload.len()
    }

    /// Length of the payload according to the header, once the header is complete.
    fn payload_length(&self) -> Option<usize> {
        let [a, b, c, d, _] = self.header;
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        (self.header_len == FRAME_HEADER_BYTES).then_some(length)
    }

    fn check_header(&mut self) -> Result<(), FrameError> {
        let [a, b, c, d, kind] = self.header;
        let length = u64::from(u32::from_be_bytes([a, b, c, d]));
        let checked = match kind {
            JSON if length > self.max as u64 => Err(FrameError::TooLong { length, max: self.max }),
            PING if length != PING_BYTES as u64 => Err(FrameError::ClockLength { kind, length }),
            PONG if length != PONG_BYTES as u64 => Err(FrameError::ClockLength { kind, length }),
            JSON | PING | PONG => Ok(()),
            other => Err(FrameError::UnknownKind(other)),
        };
        self.error = checked.err();
        checked
    }
}

/// Decodes a payload whose kind and length were checked with the header; such a payload never yields `None`.
fn decode_payload(kind: u8, payload: Vec<u8>) -> Option<Frame> {
    let word = |index: usize| {
        let bytes = payload.get(index * 8..index * 8 + 8)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    };
    match kind {
        PING => Some(Frame::ClockPing(ClockPing { id: word(0)?, t1: word(1)? })),
        PONG => Some(Frame::ClockPong(ClockPong { id: word(0)?, t1: word(1)?, t2: word(2)?, t3: word(3)? })),
        _ => Some(Frame::Json(payload)),
    }
}

#[cfg(test)]
mod tests;
