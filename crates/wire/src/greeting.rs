//! The first bytes of a connection, which the server sends.

use crate::text::printable;

/// The server's greeting when it accepts a connection (thrulay version 2; reference 1.2).
pub const GREETING: &[u8; 10] = b"thrulay/2+";

/// Longest rejection in bytes, reason included.
pub const REJECTION_BYTES_MAX: usize = 500;

/// Prefix shared by greeting and rejection.
const INDICATOR: &[u8] = b"thrulay/2";

/// Result of parsing the bytes received so far from a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// The start of a greeting; more bytes are needed.
    Incomplete,
    /// The server accepts the connection; `consumed` bytes belong to the greeting.
    Accepted {
        /// Length of the greeting.
        consumed: usize,
    },
    /// The server refuses and closes after a reason in free text; read to the end, then see [`rejection_reason`].
    Rejected,
    /// Some other protocol.
    NotThrulay,
}

/// Parses the greeting at the front of a buffer that may still grow; decides as early as the bytes allow.
pub fn parse_greeting(buffer: &[u8]) -> Parsed {
    if !buffer.iter().zip(INDICATOR).all(|(a, b)| a == b) {
        return Parsed::NotThrulay;
    }
    match buffer.get(INDICATOR.len()) {
        None => Parsed::Incomplete,
        Some(b'+') => Parsed::Accepted { consumed: GREETING.len() },
        Some(_) => Parsed::Rejected,
    }
}

/// Encodes a rejection with its reason, to be sent in place of the greeting before the server closes.
///
/// The old client prints the text unchanged, so bytes outside printable ASCII become `?`. The result has at most
/// [`REJECTION_BYTES_MAX`] bytes.
pub fn encode_rejection(reason: &str) -> Vec<u8> {
    let mut bytes = Vec::from(INDICATOR);
    bytes.push(b'-');
    let room = REJECTION_BYTES_MAX - bytes.len();
    bytes.extend(reason.chars().map(|c| if matches!(c, ' '..='~') { c as u8 } else { b'?' }).take(room));
    bytes
}

/// The reason in a rejection, safe to print; at most [`REJECTION_BYTES_MAX`] bytes of the buffer are read.
///
/// `None` when the buffer is not a rejection.
pub fn rejection_reason(buffer: &[u8]) -> Option<String> {
    if parse_greeting(buffer) != Parsed::Rejected {
        return None;
    }
    let end = buffer.len().min(REJECTION_BYTES_MAX);
    let reason = buffer.get(INDICATOR.len()..end).unwrap_or_default();
    // The protocol allows any tenth byte but +: this program sends `-`, another server may start its text there.
    let reason = reason.strip_prefix(b"-").unwrap_or(reason);
    Some(printable(&String::from_utf8_lossy(reason)).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_recognised_at_every_prefix() {
        for n in 0..GREETING.len() {
            assert_eq!(parse_greeting(&GREETING[..n]), Parsed::Incomplete, "{n}");
        }
        assert_eq!(parse_greeting(GREETING), Parsed::Accepted { consumed: 10 });
        assert_eq!(parse_greeting(b"thrulay/2+rest"), Parsed::Accepted { consumed: 10 });
    }

    #[test]
    fn the_first_byte_distinguishes_other_protocols() {
        for other in [&b"SSH-2.0-"[..], b"t\0", b"thrulay/3+", b"220 mail"] {
            assert_eq!(parse_greeting(other), Parsed::NotThrulay);
        }
    }

    #[test]
    fn a_rejection_keeps_its_reason_without_control_characters() {
        let bytes = encode_rejection("busy: 2 tests run\x1b[2J until ä");
        assert_eq!(parse_greeting(&bytes), Parsed::Rejected);
        assert_eq!(rejection_reason(&bytes).unwrap(), "busy: 2 tests run?[2J until ?");
        assert_eq!(rejection_reason(b"thrulay/2 go \x1b[0m away\n").unwrap(), "go ?[0m away");
        assert_eq!(rejection_reason(GREETING), None);
        assert_eq!(encode_rejection(&"x".repeat(9999)).len(), REJECTION_BYTES_MAX);
        assert!(rejection_reason(&[b"thrulay/2-".as_slice(), &[0xff; 9999]].concat()).unwrap().chars().count() <= 500);
    }
}
