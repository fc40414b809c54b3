//! Short texts before and after a test. Old peers read each with one `recv`, so each leaves in one write.

use std::net::TcpStream;

use kernel::Received;
use units::Instant;
use wire::{FieldError, Progress};

use crate::MeasureError;

/// Writes a text in one piece. No other data is in flight, so the socket has room for it.
pub(super) fn send(socket: &TcpStream, peer: &str, text: &[u8]) -> Result<(), MeasureError> {
    match kernel::send_some(socket, text, false)? {
        Received::Bytes(n) if n == text.len() => Ok(()),
        Received::Bytes(_) | Received::Nothing | Received::End => {
            Err(MeasureError::protocol(peer, "it leaves no room for a few bytes"))
        }
    }
}

/// Reads a text that `parse` recognises. In this protocol, no data follows the text before this end sends again.
pub(super) fn read<T>(
    socket: &TcpStream,
    peer: &str,
    deadline: Instant,
    during: &'static str,
    parse: impl Fn(&[u8]) -> Result<Progress<T>, FieldError>,
) -> Result<T, MeasureError> {
    let start = kernel::now();
    let (mut got, mut chunk) = (Vec::new(), [0; 256]);
    loop {
        match kernel::read_some(socket, &mut chunk)? {
            Received::Bytes(n) => got.extend_from_slice(&chunk[..n]),
            Received::End => return Err(MeasureError::Closed { peer: peer.to_owned(), during }),
            Received::Nothing => {
                let now = kernel::now();
                if now >= deadline {
                    let after = deadline.saturating_since(start);
                    return Err(MeasureError::Silent { peer: peer.to_owned(), after, during });
                }
                kernel::wait(socket, false, deadline.saturating_since(now))?;
            }
        }
        // The parsers limit the length of the collected text.
        match parse(&got).map_err(|e| MeasureError::protocol(peer, e))? {
            Progress::Complete { value, consumed } if consumed == got.len() => return Ok(value),
            Progress::Complete { .. } => {
                return Err(MeasureError::protocol(peer, "it sent more than the answer to the proposal"));
            }
            Progress::Incomplete => {}
        }
    }
}

/// Whether the peer closed the connection without notice: thrulay clients end a TCP test with unread echoes.
pub(crate) fn is_disconnect(error: &kernel::KernelError) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}
