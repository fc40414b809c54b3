use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::{KernelError, Op};

/// Result of a non-blocking read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Number of bytes that were moved.
    Bytes(usize),
    /// The socket has no data (or no room) now.
    Nothing,
    /// The peer closed its side (reads only).
    End,
}

/// Events for which [`wait`] woke up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Woken {
    /// Data or the end of the stream can be read.
    pub readable: bool,
    /// The socket accepts data.
    pub writable: bool,
    /// The error queue holds entries (timestamps), or the connection failed.
    pub error: bool,
}

pub(crate) fn moved(op: Op, rc: isize, zero: Received) -> Result<Received, KernelError> {
    if rc > 0 {
        return Ok(Received::Bytes(rc as usize));
    }
    if rc == 0 {
        return Ok(zero);
    }
    let e = io::Error::last_os_error();
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Received::Nothing),
        _ => Err(KernelError::new(op, "peer", e)),
    }
}

/// Writes as much as fits, without blocking. With `more` the next write follows at once (MSG_MORE): the kernel then
/// holds the tail back to fill a whole segment instead of sending a short one at the end of each block.
///
/// # Errors
/// The connection failed.
pub fn send_some(socket: &TcpStream, data: &[u8], more: bool) -> Result<Received, KernelError> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
    // SAFETY: `data` is readable for its length during the call.
    let rc = unsafe { libc::send(socket.as_raw_fd(), data.as_ptr().cast(), data.len(), flags) };
    moved(Op::Send, rc, Received::Nothing)
}

/// Expected continuation of a write, which determines when the kernel sends its last segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// The next write, at once (MSG_MORE).
    More,
    /// No write follows immediately.
    Flush,
    /// A write that must not share a packet buffer with the last byte (MSG_EOR, where all fits): the next write
    /// starts a new buffer.
    ///
    /// Use it for the write before [`send_stamped`](crate::send_stamped). A kernel that fills up the previous buffer
    /// moves the first bytes of the next buffer into it, but not the request for their stamps (tcp_grow_skb in
    /// net/ipv4/tcp_output.c, Linux 6.9). The stamps would then be those of later bytes.
    End,
}

/// SIOCOUTQNSD of include/uapi/linux/sockios.h.
const SIOCOUTQNSD: libc::Ioctl = 0x894b;

/// Bytes in a TCP socket that the kernel has not yet sent for the first time.
///
/// # Errors
/// The socket is not a TCP socket.
pub fn unsent_bytes(socket: &TcpStream) -> Result<u64, KernelError> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQNSD writes one int, for which `bytes` is valid.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCOUTQNSD, &raw mut bytes) };
    if rc < 0 { Err(KernelError::last(Op::Unsent, "peer")) } else { Ok(u64::try_from(bytes).unwrap_or(0)) }
}

/// Like [`send_some`], for `head` followed by `body` (writev).
///
/// # Errors
/// The connection failed.
pub fn send_pair(socket: &TcpStream, head: &[u8], body: &[u8], tail: Tail) -> Result<Received, KernelError> {
    let follows = match tail {
        Tail::More => libc::MSG_MORE,
        Tail::Flush => 0,
        Tail::End => libc::MSG_EOR,
    };
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | follows;
    let part = |data: &[u8]| libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    let mut parts = [part(head), part(body)];
    // SAFETY: all-zero is valid for this plain C structure.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    // SAFETY: both parts are readable for their lengths during the call, and sendmsg writes to neither.
    let rc = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) };
    moved(Op::Send, rc, Received::Nothing)
}

/// Reads the available bytes, without blocking.
///
/// # Errors
/// The connection failed.
pub fn read_some(socket: &TcpStream, buffer: &mut [u8]) -> Result<Received, KernelError> {
    // SAFETY: `buffer` is writable for its length during the call.
    let rc = unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
    moved(Op::Receive, rc, Received::End)
}

/// Discards up to `len` bytes in the kernel without copying them (MSG_TRUNC on TCP, tcp(7)), without blocking.
///
/// # Errors
/// The connection failed.
pub fn discard(socket: &TcpStream, len: usize) -> Result<Received, KernelError> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing, so a null buffer is allowed for any length.
    let rc = unsafe { libc::recv(socket.as_raw_fd(), std::ptr::null_mut(), len, flags) };
    moved(Op::Receive, rc, Received::End)
}

/// Waits until the socket is readable, or writable if requested, or has an error, or `timeout` has passed.
///
/// # Errors
/// poll(2) failed for another reason than a signal.
pub fn wait(socket: &impl AsRawFd, for_write: bool, timeout: Duration) -> Result<Woken, KernelError> {
    poll(socket, libc::POLLIN | if for_write { libc::POLLOUT } else { 0 }, timeout)
}

/// Waits until the socket is writable or has an error, or `timeout` has passed; readable data does not end the wait.
///
/// # Errors
/// poll(2) failed for another reason than a signal.
pub fn wait_for_room(socket: &impl AsRawFd, timeout: Duration) -> Result<Woken, KernelError> {
    poll(socket, libc::POLLOUT, timeout)
}

fn poll(socket: &impl AsRawFd, events: libc::c_short, timeout: Duration) -> Result<Woken, KernelError> {
    let mut p = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    let t = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: one valid pollfd and a valid timespec; a null signal mask leaves the mask alone.
    let rc = unsafe { libc::ppoll(&raw mut p, 1, &raw const t, std::ptr::null()) };
    if rc < 0 {
        let e = io::Error::last_os_error();
        if e.kind() == io::ErrorKind::Interrupted {
            return Ok(Woken::default());
        }
        return Err(KernelError::new(Op::Poll, "peer", e));
    }
    Ok(Woken {
        readable: p.revents & (libc::POLLIN | libc::POLLHUP | libc::POLLRDHUP) != 0,
        writable: p.revents & libc::POLLOUT != 0,
        error: p.revents & libc::POLLERR != 0,
    })
}

/// A file in memory whose pages are sent without copying (sendfile).
#[derive(Debug)]
pub struct SendFile {
    file: OwnedFd,
    len: usize,
}

impl SendFile {
    /// A file of `len` bytes of `filler`.
    ///
    /// # Errors
    /// No memory, or memfd_create is not permitted.
    pub fn new(len: usize, filler: u8) -> Result<Self, KernelError> {
        // SAFETY: the name is a valid C string; the flags are defined for memfd_create.
        let fd = unsafe { libc::memfd_create(c"longhaul-block".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(KernelError::last(Op::SendFile, "memfd"));
        }
        // SAFETY: `fd` was just returned by the kernel and nothing else owns it.
        let file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        io::Write::write_all(&mut &file, &vec![filler; len]).map_err(|e| KernelError::new(Op::SendFile, "memfd", e))?;
        Ok(Self { file: file.into(), len })
    }

    /// Sends up to `len` bytes of the file from `offset` on, as much as fits, without copying.
    ///
    /// The socket must be non-blocking.
    ///
    /// # Errors
    /// The connection failed.
    pub fn send(&self, socket: &TcpStream, offset: usize, len: usize) -> Result<Received, KernelError> {
        let mut at = offset as libc::off_t;
        let len = len.min(self.len.saturating_sub(offset));
        // SAFETY: both descriptors are open; `at` is a valid off_t to update.
        let rc = unsafe { libc::sendfile(socket.as_raw_fd(), self.file.as_raw_fd(), &raw mut at, len) };
        moved(Op::SendFile, rc, Received::Nothing)
    }
}
