//! Filler bytes behind the headers, shared by all streams of the process, so that a stream's block needs no memory.

use std::net::TcpStream;
use std::sync::{LazyLock, OnceLock};

use kernel::{KernelError, Received, SendFile, Tail};
use wire::{BLOCK_HEADER_BYTES as HEADER_LEN, FILLER};

/// Filler bytes that one call can send: 1 MiB, 16 times the default block. Longer blocks need several calls.
const LEN: usize = 1 << 20;

static BUFFER: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![FILLER; LEN].into_boxed_slice());

static FILE: OnceLock<SendFile> = OnceLock::new();

/// Source of the bytes behind a block's header.
#[derive(Debug, Clone, Copy)]
pub(super) enum Filler<'a> {
    /// Memory, copied into the kernel.
    Buffer(&'static [u8]),
    /// Bytes behind the block's header, as read from a disk.
    Disk(&'a [u8]),
    /// The page cache, sent without a copy.
    File(&'static SendFile),
}

impl Filler<'_> {
    /// Returns the filler of the process, created at the first use.
    ///
    /// # Errors
    /// `zero_copy` is set and the memory file cannot be created.
    pub(super) fn get(zero_copy: bool) -> Result<Self, KernelError> {
        if !zero_copy {
            return Ok(Self::Buffer(&BUFFER));
        }
        if let Some(file) = FILE.get() {
            return Ok(Self::File(file));
        }
        // Two threads may both create a file; the later one is closed.
        let made = SendFile::new(LEN, FILLER)?;
        Ok(Self::File(FILE.get_or_init(|| made)))
    }

    /// Offers the next `want` bytes, at least one, of a block of `len` bytes of which `done` are written. One call may
    /// send fewer bytes.
    ///
    /// # Errors
    /// The connection failed.
    pub(super) fn send(
        self,
        socket: &TcpStream,
        header: &[u8; HEADER_LEN],
        (len, done): (usize, usize),
        want: usize,
        tail: Tail,
    ) -> Result<Received, KernelError> {
        let start = done.min(HEADER_LEN);
        let head = &header[start..(done + want).min(len).clamp(start, HEADER_LEN)];
        let body = (want - head.len()).min(LEN);
        let tail = if head.len() + body < want { Tail::More } else { tail };
        match self {
            Self::Buffer(filler) => kernel::send_pair(socket, head, &filler[..body], tail),
            Self::Disk(data) => {
                let data = data.get(done.saturating_sub(HEADER_LEN)..).unwrap_or_default();
                kernel::send_pair(socket, head, &data[..body.min(data.len())], tail)
            }
            Self::File(_) if !head.is_empty() => {
                kernel::send_pair(socket, head, &[], if len - done > head.len() { Tail::More } else { tail })
            }
            // sendfile has no flags: a separate write sends the last byte of a packet buffer.
            Self::File(_) if tail == Tail::End && body == 1 => kernel::send_pair(socket, &[FILLER], &[], tail),
            Self::File(file) => file.send(socket, 0, if tail == Tail::End { body - 1 } else { body }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    /// Sends one block in as many calls as necessary and returns the received bytes.
    fn send_block(filler: Filler<'_>, len: usize, tail: Tail) -> Vec<u8> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            other.read_to_end(&mut got).unwrap();
            got
        });
        let header: [u8; HEADER_LEN] = std::array::from_fn(|i| i as u8);
        let mut done = 0;
        while done < len {
            match filler.send(&socket, &header, (len, done), len - done, tail).unwrap() {
                Received::Bytes(n) => done += n,
                _ => {
                    kernel::wait(&socket, true, std::time::Duration::from_secs(1)).unwrap();
                }
            }
        }
        drop(socket);
        reader.join().unwrap()
    }

    #[test]
    fn a_block_of_any_length_consists_of_header_and_filler() {
        let mut whole = vec![FILLER; 16 << 20];
        (0..HEADER_LEN).for_each(|i| whole[i] = i as u8);
        for zero_copy in [false, true] {
            let filler = Filler::get(zero_copy).unwrap();
            for len in [1, HEADER_LEN, HEADER_LEN + 1, LEN, LEN + HEADER_LEN, LEN + HEADER_LEN + 1, 16 << 20] {
                for tail in [Tail::More, Tail::Flush, Tail::End] {
                    assert!(
                        send_block(filler, len, tail) == whole[..len],
                        "{len} bytes, zero copy {zero_copy}, {tail:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_partly_sent_header_is_completed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        let header: [u8; HEADER_LEN] = std::array::from_fn(|i| i as u8);
        for zero_copy in [false, true] {
            let filler = Filler::get(zero_copy).unwrap();
            let sent = filler.send(&socket, &header, (HEADER_LEN, 5), HEADER_LEN - 5, Tail::Flush).unwrap();
            assert_eq!(sent, Received::Bytes(HEADER_LEN - 5));
            let mut got = [0; HEADER_LEN - 5];
            other.read_exact(&mut got).unwrap();
            assert_eq!(got, header[5..]);
        }
    }
}
