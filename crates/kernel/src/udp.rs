use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use units::Bytes;

use crate::control::{self, Control};
use crate::option::{set_dscp, set_int};
use crate::{Clocks, KernelError, Op};

/// Maximum number of datagrams received in one call.
const BATCH_DATAGRAMS_MAX: usize = 32;

/// One datagram as received.
#[derive(Debug, Clone, Copy)]
pub struct UdpReceived<'a> {
    /// Payload; longer datagrams are truncated to the buffer.
    pub data: &'a [u8],
    /// The sender's address.
    pub from: SocketAddr,
    /// Time at which this host's kernel received it (CLOCK_REALTIME ns, SO_TIMESTAMPNS); absent when the kernel gives
    /// no stamp.
    pub realtime_ns: Option<u64>,
}

/// Opens a UDP socket on `local`, with kernel receive stamps and a receive buffer of `buffer`.
///
/// `share` lets several sockets use the port (SO_REUSEADDR): connected ones receive their peer's datagrams.
///
/// # Errors
/// Names the operation and the address.
pub fn udp_socket(local: SocketAddr, share: bool, buffer: Bytes, dscp: Option<u8>) -> Result<UdpSocket, KernelError> {
    let e = |op| move |source| KernelError::new(op, local, source);
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP)).map_err(e(Op::Socket))?;
    if local.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        socket.set_only_v6(false).map_err(e(Op::Socket))?;
    }
    if share {
        socket.set_reuse_address(true).map_err(e(Op::Socket))?;
    }
    // The kernel clamps silently to rmem_max; the caller reads back and reports the granted size.
    let size = usize::try_from(buffer.as_u64()).unwrap_or(usize::MAX).min(i32::MAX as usize / 2);
    socket.set_recv_buffer_size(size).map_err(e(Op::Buffers))?;
    socket.set_send_buffer_size(size).map_err(e(Op::Buffers))?;
    if let Some(dscp) = dscp {
        set_dscp(socket.as_raw_fd(), dscp, local).map_err(e(Op::Dscp))?;
    }
    stamp_arrivals(socket.as_raw_fd());
    socket.bind(&local.into()).map_err(e(Op::Bind))?;
    Ok(socket.into())
}

/// Datagrams dropped in this thread's network namespace because a socket's receive buffer was full (`RcvbufErrors` of
/// UDP over IPv4 and IPv6); zero where the kernel does not report it.
pub fn full_socket_drops() -> u64 {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    full_sockets_v4(&read("snmp")) + full_sockets_v6(&read("snmp6"))
}

/// Parses a line of names, then one of values: `Udp: InDatagrams ... RcvbufErrors ...`.
fn full_sockets_v4(snmp: &str) -> u64 {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.find(|(name, _)| *name == "RcvbufErrors").and_then(|(_, n)| n.parse().ok()).unwrap_or(0)
}

/// Parses lines with a name and a value each.
fn full_sockets_v6(snmp6: &str) -> u64 {
    let value = snmp6.lines().find_map(|line| line.strip_prefix("Udp6RcvbufErrors"));
    value.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

/// Sends one datagram, to `to` or to the connected peer. `false` when the send buffer was full or the kernel refused
/// it for now.
///
/// # Errors
/// Anything but a full buffer or an ICMP error about an earlier datagram.
pub fn send_datagram(socket: &UdpSocket, to: Option<SocketAddr>, data: &[u8]) -> Result<bool, KernelError> {
    let sent = match to {
        Some(to) => socket.send_to(data, to),
        None => socket.send(data),
    };
    match sent {
        Ok(_) => Ok(true),
        Err(e) => match e.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ECONNREFUSED | libc::EINTR) => Ok(false),
            _ => Err(KernelError::new(Op::Send, to.map_or_else(|| "peer".to_owned(), |a| a.to_string()), e)),
        },
    }
}

/// Receives up to 32 waiting datagrams, none longer than `buffer.len() / 32`; returns their number. Blocks only if
/// the socket is blocking, until its read timeout.
///
/// # Errors
/// Anything but an empty socket or an ICMP error about an earlier datagram.
pub fn recv_batch(
    socket: &UdpSocket,
    buffer: &mut [u8],
    mut each: impl FnMut(UdpReceived<'_>),
) -> Result<usize, KernelError> {
    let size = buffer.len() / BATCH_DATAGRAMS_MAX;
    let mut controls = [Control::new(); BATCH_DATAGRAMS_MAX];
    // SAFETY: all-zero is valid for these plain C structures.
    let (mut names, mut iovs, mut msgs): (
        [libc::sockaddr_storage; BATCH_DATAGRAMS_MAX],
        [libc::iovec; BATCH_DATAGRAMS_MAX],
        [libc::mmsghdr; BATCH_DATAGRAMS_MAX],
    ) = unsafe { (zeroed(), zeroed(), zeroed()) };
    for i in 0..BATCH_DATAGRAMS_MAX {
        iovs[i] = libc::iovec { iov_base: buffer[i * size..].as_mut_ptr().cast(), iov_len: size };
        let h = &mut msgs[i].msg_hdr;
        h.msg_name = (&raw mut names[i]).cast();
        h.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        h.msg_iov = &raw mut iovs[i];
        h.msg_iovlen = 1;
        controls[i].offer(h);
    }
    // SAFETY: every header points to live buffers of the stated lengths, disjoint from each other.
    let rc = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            msgs.as_mut_ptr(),
            BATCH_DATAGRAMS_MAX as libc::c_uint,
            libc::MSG_WAITFORONE as _,
            std::ptr::null_mut(),
        )
    };
    if rc < 0 {
        let e = io::Error::last_os_error();
        return match e.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED) => Ok(0),
            _ => Err(KernelError::new(Op::Receive, "udp", e)),
        };
    }
    let got = rc as usize;
    for i in 0..got {
        let Some(from) = address(&names[i], msgs[i].msg_hdr.msg_namelen) else { continue };
        let len = (msgs[i].msg_len as usize).min(size);
        let realtime_ns = stamp(&msgs[i].msg_hdr);
        each(UdpReceived { data: &buffer[i * size..i * size + len], from, realtime_ns });
    }
    Ok(got)
}

/// Converts the address that the kernel wrote, `len` bytes of it.
pub(crate) fn address(storage: &libc::sockaddr_storage, len: libc::socklen_t) -> Option<SocketAddr> {
    // SAFETY: the storage was filled by the kernel with an address of `len` bytes; socket2 copies it.
    let a = unsafe {
        SockAddr::try_init(|to, to_len| {
            std::ptr::copy_nonoverlapping(storage, to.cast(), 1);
            *to_len = len;
            Ok(())
        })
    };
    a.ok().and_then(|((), a)| a.as_socket())
}

/// Enables receive stamps for datagrams (SO_TIMESTAMPNS). A failure is ignored: the stamps are then absent.
pub(crate) fn stamp_arrivals(socket: RawFd) {
    let _ = set_int(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
}

/// CLOCK_REALTIME in ns, if this control message is a stamp.
///
/// # Safety
/// `data` must point to the data of a control message of this level and type.
pub(crate) unsafe fn stamp_in(level: i32, kind: i32, data: *const u8) -> Option<u64> {
    if (level, kind) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
        return None;
    }
    // SAFETY: by contract the kernel wrote a timespec there, which is copied out unaligned.
    let t = unsafe { data.cast::<libc::timespec>().read_unaligned() };
    Some(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

fn stamp(msg: &libc::msghdr) -> Option<u64> {
    let mut stamp = None;
    // SAFETY: recvmmsg filled the header, and the pointer is that of the message's data.
    unsafe { control::for_each(msg, |level, kind, data| stamp = stamp.or_else(|| stamp_in(level, kind, data))) };
    stamp
}

impl UdpReceived<'_> {
    /// Arrival time on the monotonic clock; the present time when the kernel gave no stamp.
    pub fn arrived(&self, clocks: &Clocks) -> units::Instant {
        self.realtime_ns.map_or_else(crate::now, |ns| clocks.monotonic(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_that_find_a_socket_full_are_counted() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = full_socket_drops();
        // net.core.rmem_default is a quarter of a megabyte, or some megabytes.
        for _ in 0..20_000 {
            sender.send_to(&[0; 1000], receiver.local_addr().unwrap()).unwrap();
        }
        assert!(full_socket_drops() > before + 1000, "{before} {}", full_socket_drops());
    }

    #[test]
    fn counters_are_found_by_their_name() {
        let snmp = "Tcp: A RcvbufErrors\nTcp: 1 2\nUdp: InDatagrams RcvbufErrors X\nUdp: 5 77 6\nUdpLite: RcvbufErrors\nUdpLite: 9\n";
        assert_eq!(full_sockets_v4(snmp), 77);
        assert_eq!(full_sockets_v6("Udp6InDatagrams  1\nUdp6RcvbufErrors                \t12\n"), 12);
        assert_eq!((full_sockets_v4("Udp: A\n"), full_sockets_v6("nothing")), (0, 0));
    }
}
