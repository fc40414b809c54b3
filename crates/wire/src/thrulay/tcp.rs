use units::Bytes;

use crate::fields::{FieldError, bounded, decimal_fields, window};
use crate::proposal::{PROPOSAL_BYTES_MAX, Progress, Proposal};

/// Range of block lengths that the server grants and the client accepts, in bytes.
pub const BLOCK_BYTES: core::ops::RangeInclusive<u64> = 16..=1_048_576;

/// Smallest window that the server grants and the client accepts.
pub const WINDOW_MIN: Bytes = Bytes::new(1500);

/// Terms of a TCP stream that both ends agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpTerms {
    /// In a proposal the requested socket buffers; in a response the smaller of both buffers as the kernel granted
    /// them (Linux: twice the requested size).
    pub window: Bytes,
    /// Block length.
    pub block: Bytes,
}

impl TcpTerms {
    /// The server's answer to a proposal: block clamped to [`BLOCK_BYTES`], window raised to [`WINDOW_MIN`].
    #[must_use]
    pub fn clamped(self) -> Self {
        let block = self.block.as_u64().clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end());
        Self { window: self.window.max(WINDOW_MIN), block: Bytes::new(block) }
    }

    /// The client's proposal.
    pub fn proposal(self) -> Proposal {
        Proposal::ThrulayTcp { window: self.window, block: self.block }
    }

    /// Encodes the server's answer: `<window>:<block>+`.
    pub fn encode_response(self) -> Vec<u8> {
        format!("{}:{}+", self.window.as_u64(), self.block.as_u64()).into_bytes()
    }
}

/// Parses a server's response at the front of a buffer that may still grow.
///
/// A server that could not set its window answers 4294967295 (its -1 printed as unsigned), which is accepted
/// unchanged.
///
/// # Errors
/// Not a response, or terms that the old client rejects as well: window or block out of range.
pub fn parse_tcp_response(buffer: &[u8]) -> Result<Progress<TcpTerms>, FieldError> {
    let progress = decimal_fields(window(buffer, PROPOSAL_BYTES_MAX), b'+')?;
    let progress = bounded(progress, buffer.len(), PROPOSAL_BYTES_MAX)?;
    if let Progress::Complete { value: [window, block], .. } = progress {
        if window < WINDOW_MIN.as_u64() {
            return Err(FieldError::Range { field: "window", value: window });
        }
        if !BLOCK_BYTES.contains(&block) {
            return Err(FieldError::Range { field: "block size", value: block });
        }
    }
    Ok(progress.map(|[window, block]| TcpTerms { window: Bytes::new(window), block: Bytes::new(block) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn terms(window: u64, block: u64) -> TcpTerms {
        TcpTerms { window: Bytes::new(window), block: Bytes::new(block) }
    }

    #[test]
    fn clamps_match_thrulayd() {
        assert_eq!(terms(0, 0).clamped(), terms(1500, 16));
        assert_eq!(terms(u64::MAX, u64::MAX).clamped(), terms(u64::MAX, 1_048_576));
        assert_eq!(terms(4_194_304, 65_536).clamped(), terms(4_194_304, 65_536));
    }

    #[test]
    fn terms_that_no_client_accepts_are_errors() {
        for text in ["1499:65536+", "4194304:15+", "4194304:1048577+", "+", "-1:16+", "thrulay/2-busy"] {
            assert!(parse_tcp_response(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(parse_tcp_response(b"4294967295:16+").unwrap().value(), Some(terms(4_294_967_295, 16)));
        assert_eq!(parse_tcp_response(&[b'1'; 20]), Ok(Progress::Incomplete));
        assert!(parse_tcp_response(&[b'0'; 4096]).is_err());
    }

    proptest! {
        #[test]
        fn every_clamped_response_is_accepted_at_any_split(window: u64, block: u64, echo: [u8; 16]) {
            let granted = terms(window, block).clamped();
            let bytes = granted.encode_response();
            for n in 0..bytes.len() {
                prop_assert_eq!(parse_tcp_response(&bytes[..n]), Ok(Progress::Incomplete));
            }
            let complete = Progress::Complete { value: granted, consumed: bytes.len() };
            prop_assert_eq!(parse_tcp_response(&[&bytes[..], &echo].concat()), Ok(complete));
        }
    }
}
