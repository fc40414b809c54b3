//! Finds headers in byte streams that arrive in pieces. Every bulk byte passes through it: no allocation, a few steps
//! per block.

use crate::block::BLOCK_HEADER_BYTES;

const HEADER: u64 = BLOCK_HEADER_BYTES as u64;

/// A skip that would pass over part of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot skip {asked} bytes at stream position {position}: only {allowed} bytes of the body are left")]
pub struct SkipError {
    /// Stream position in bytes at which the skip starts.
    pub position: u64,
    /// Requested number of bytes.
    pub asked: u64,
    /// Maximum number of bytes.
    pub allowed: u64,
}

/// Finds the header at the front of every block of a received stream, even when a read splits it.
#[derive(Debug, Clone)]
pub struct HeaderScanner {
    block_bytes: u64,
    /// Bytes of the current block already passed, `0..block_bytes`.
    offset: u64,
    position: u64,
    header: [u8; BLOCK_HEADER_BYTES],
}

impl HeaderScanner {
    /// Creates a scanner at the start of a stream of blocks of `block_bytes`.
    ///
    /// A block is at least as long as its header: smaller lengths count as 16 (plans and proposals are checked or
    /// clamped before).
    pub fn new(block_bytes: u64) -> Self {
        Self { block_bytes: block_bytes.max(HEADER), offset: 0, position: 0, header: [0; BLOCK_HEADER_BYTES] }
    }

    /// Scans `data`, the next bytes of the stream, and calls `on_header` for each header that ends in it.
    #[inline]
    pub fn feed(&mut self, mut data: &[u8], mut on_header: impl FnMut(&[u8; BLOCK_HEADER_BYTES])) {
        while !data.is_empty() {
            let taken = match self.header.get_mut(self.offset as usize..) {
                // Offsets beyond the header use the second arm. The cast cannot wrap (32-bit hosts, blocks of 4 GiB)
                // because plans end at 16 MiB and thrulay at 1 MiB.
                Some(missing) if self.offset < HEADER => {
                    let n = missing.len().min(data.len());
                    missing.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
                    if n == missing.len() {
                        on_header(&self.header);
                    }
                    n
                }
                _ => usize::try_from(self.block_bytes - self.offset).map_or(data.len(), |left| left.min(data.len())),
            };
            self.advance(taken as u64);
            data = data.get(taken..).unwrap_or_default();
        }
    }

    /// Skips `n` bytes that the kernel discarded (MSG_TRUNC) and that must belong to the body of one block.
    ///
    /// # Errors
    /// Part of a header would be lost; nothing is skipped then.
    pub fn skip(&mut self, n: u64) -> Result<(), SkipError> {
        let allowed = self.skippable();
        if n > allowed {
            return Err(SkipError { position: self.position, asked: n, allowed });
        }
        self.advance(n);
        Ok(())
    }

    /// Number of the next bytes that are body and may be skipped; zero inside and in front of a header.
    pub fn skippable(&self) -> u64 {
        if self.offset < HEADER { 0 } else { self.block_bytes - self.offset }
    }

    /// Number of bytes until the end of the next header that is not yet complete.
    pub fn bytes_until_next_header_end(&self) -> usize {
        let bytes = if self.offset < HEADER { HEADER - self.offset } else { self.skippable().saturating_add(HEADER) };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Number of scanned or skipped bytes of the stream.
    pub fn position(&self) -> u64 {
        self.position
    }

    fn advance(&mut self, n: u64) {
        self.offset += n;
        if self.offset == self.block_bytes {
            self.offset = 0;
        }
        self.position = self.position.wrapping_add(n);
    }
}

/// Collects the echoes that return to a sender: consecutive headers, split anywhere.
#[derive(Debug, Clone)]
pub struct EchoReader(HeaderScanner);

impl Default for EchoReader {
    fn default() -> Self {
        Self::new()
    }
}

impl EchoReader {
    /// Creates a reader at the start of the echoes.
    pub fn new() -> Self {
        Self(HeaderScanner::new(HEADER))
    }

    /// Reads the next bytes and calls `on_header` for each header that they complete.
    #[inline]
    pub fn feed(&mut self, data: &[u8], on_header: impl FnMut(&[u8; BLOCK_HEADER_BYTES])) {
        self.0.feed(data, on_header);
    }

    /// Number of complete headers read.
    pub fn headers(&self) -> u64 {
        self.0.position() / HEADER
    }

    /// Bytes of an incomplete header, below 16.
    pub fn pending(&self) -> usize {
        (self.0.position() % HEADER) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{BlockHeader, FILLER};
    use proptest::prelude::*;
    use units::Instant;

    fn stream(block_bytes: usize, blocks: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in 0..blocks {
            let header = BlockHeader { sent: Instant::from_nanos(u64::from(number)), number, next_sample: number };
            bytes.extend(header.encode());
            bytes.resize((number as usize + 1) * block_bytes, FILLER);
        }
        bytes
    }

    #[test]
    fn a_skip_never_swallows_a_header() {
        let mut scanner = HeaderScanner::new(100);
        assert_eq!(scanner.skip(1), Err(SkipError { position: 0, asked: 1, allowed: 0 }));
        scanner.feed(&[7; 10], |_| panic!("incomplete"));
        assert_eq!((scanner.skippable(), scanner.bytes_until_next_header_end()), (0, 6));
        scanner.feed(&[7; 6], |h| assert_eq!(h, &[7; 16]));
        assert_eq!((scanner.skippable(), scanner.bytes_until_next_header_end()), (84, 100));
        assert!(scanner.skip(85).is_err());
        assert_eq!(scanner.skip(80), Ok(()));
        assert_eq!((scanner.position(), scanner.bytes_until_next_header_end()), (96, 20));
        assert_eq!(scanner.skip(4), Ok(()));
        assert_eq!(scanner.skip(0), Ok(()));
        assert_eq!((scanner.position(), scanner.bytes_until_next_header_end()), (100, 16));
    }

    #[test]
    fn lengths_below_a_header_count_as_one() {
        let mut found = 0;
        HeaderScanner::new(0).feed(&[0; 64], |_| found += 1);
        assert_eq!(found, 4);
    }

    proptest! {
        #[test]
        fn headers_are_found_at_any_split_of_the_stream(
            block_bytes in 16_usize..200, blocks in 1_u32..20, cuts in proptest::collection::vec(1_usize..90, 1..50),
        ) {
            let bytes = stream(block_bytes, blocks);
            let mut scanner = HeaderScanner::new(block_bytes as u64);
            let (mut rest, mut numbers, mut cut) = (&bytes[..], Vec::new(), cuts.iter().cycle());
            while !rest.is_empty() {
                let n = (*cut.next().unwrap()).min(rest.len());
                let until = scanner.bytes_until_next_header_end();
                let before = numbers.len();
                scanner.feed(&rest[..n], |h| numbers.push(BlockHeader::decode(h).number));
                prop_assert_eq!(numbers.len() > before, n >= until);
                rest = &rest[n..];
                let body = scanner.skippable().min(rest.len() as u64);
                if body.is_multiple_of(3) {
                    prop_assert_eq!(scanner.skip(body), Ok(()));
                    rest = &rest[body as usize..];
                }
            }
            prop_assert_eq!(numbers, (0..blocks).collect::<Vec<_>>());
            prop_assert_eq!(scanner.position(), bytes.len() as u64);
        }

        #[test]
        fn echoes_are_complete_at_any_split(
            headers in proptest::collection::vec(any::<[u8; 16]>(), 0..20),
            cut in 1_usize..40,
        ) {
            let (mut reader, mut got) = (EchoReader::new(), Vec::new());
            for chunk in headers.concat().chunks(cut) {
                reader.feed(chunk, |h| got.push(*h));
            }
            prop_assert_eq!(reader.headers() as usize, headers.len());
            prop_assert_eq!(reader.pending(), 0);
            prop_assert_eq!(got, headers);
        }
    }
}
