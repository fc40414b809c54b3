use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use units::Bytes;

use crate::control::{self, Control};
use crate::option::set_int;
use crate::udp::{address, stamp_arrivals, stamp_in};
use crate::{KernelError, Op};

/// Buffer size in bytes that holds the result of any receive call: the most that the kernel coalesces.
pub const DATAGRAMS_ROOM: usize = 65_536;

/// Datagrams received in one call, coalesced by the kernel (UDP_GRO): all from one sender and of one length, except
/// the last.
#[derive(Debug, Clone, Copy)]
pub struct DatagramsReceived {
    /// Total bytes.
    pub length: usize,
    /// Bytes of each datagram except the last.
    pub each: usize,
    /// The sender's address.
    pub from: SocketAddr,
    /// The traffic class of the datagrams: DSCP and, in the lowest two bits, ECN.
    pub class: u8,
    /// Time at which this host's kernel received the first datagram (CLOCK_REALTIME ns, SO_TIMESTAMPNS); absent when
    /// the kernel gives no stamp.
    pub realtime_ns: Option<u64>,
}

/// A UDP socket that sends and receives many datagrams in a call (UDP_SEGMENT, UDP_GRO). It never fragments:
/// datagrams larger than the path MTU are refused.
///
/// It does not use quinn-udp, which supports only two of the eight bits of the traffic class.
#[derive(Debug)]
pub struct Datagrams {
    socket: UdpSocket,
    segment: AtomicBool,
    v6: bool,
}

impl Datagrams {
    /// Binds to `local`; on `::` the socket also serves IPv4. `buffer` is requested in both directions. `segment`
    /// enables segmentation offload on sending; `coalesce` enables coalescing on receiving.
    ///
    /// # Errors
    /// Names the operation and the address.
    pub fn bind(local: SocketAddr, buffer: Bytes, segment: bool, coalesce: bool) -> Result<Self, KernelError> {
        Self::bind_as(local, buffer, (segment, coalesce), false)
    }

    fn bind_as(
        local: SocketAddr,
        buffer: Bytes,
        (segment, coalesce): (bool, bool),
        shares: bool,
    ) -> Result<Self, KernelError> {
        let e = |op| move |source| KernelError::new(op, local, source);
        let socket =
            Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP)).map_err(e(Op::Socket))?;
        socket.set_nonblocking(true).map_err(e(Op::Socket))?;
        if local.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
            socket.set_only_v6(false).map_err(e(Op::Socket))?;
        }
        // The kernel clamps silently to its limits; a smaller buffer only means more drops, which are counted.
        let size = usize::try_from(buffer.as_u64()).unwrap_or(usize::MAX).min(i32::MAX as usize / 2);
        socket.set_recv_buffer_size(size).map_err(e(Op::Buffers))?;
        socket.set_send_buffer_size(size).map_err(e(Op::Buffers))?;
        let fd = socket.as_raw_fd();
        // SO_*BUFFORCE goes beyond these limits with CAP_NET_ADMIN, which the owner of a tunnel device has; without
        // it the size set above holds.
        for name in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            let _ = set_int(fd, libc::SOL_SOCKET, name, i32::try_from(size).unwrap_or(i32::MAX));
        }
        if local.is_ipv6() {
            set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
                .map_err(e(Op::Socket))?;
            set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1).map_err(e(Op::Socket))?;
        }
        // On `::` for IPv4 peers; an IPv6-only socket may refuse the options.
        for (name, value) in [(libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE), (libc::IP_RECVTOS, 1)] {
            let set = set_int(fd, libc::IPPROTO_IP, name, value);
            if !local.is_ipv6() {
                set.map_err(e(Op::Socket))?;
            }
        }
        if coalesce {
            // A kernel without UDP_GRO delivers datagrams one by one.
            let _ = set_int(fd, libc::SOL_UDP, libc::UDP_GRO, 1);
        }
        stamp_arrivals(fd);
        if shares {
            set_int(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1).map_err(e(Op::Socket))?;
        }
        socket.bind(&local.into()).map_err(e(Op::Bind))?;
        Ok(Self { v6: local.is_ipv6(), socket: socket.into(), segment: AtomicBool::new(segment) })
    }

    /// Binds sockets that share `local`, at least one. The kernel assigns each sender's datagrams to one of them,
    /// always the same one (SO_REUSEPORT), so that a thread can serve each socket. With port 0 all sockets get the
    /// port that the kernel chooses for the first.
    ///
    /// # Errors
    /// As [`Self::bind`]. An address that another process uses is refused, even if that process shares it.
    pub fn bind_shared(
        local: SocketAddr,
        buffer: Bytes,
        (segment, coalesce): (bool, bool),
        count: usize,
    ) -> Result<Vec<Self>, KernelError> {
        let e = |source| KernelError::new(Op::Bind, local, source);
        // The first socket requests sharing only after it has the address, so that it cannot share with another
        // process.
        let first = Self::bind(local, buffer, segment, coalesce)?;
        let chosen = SocketAddr::new(local.ip(), first.socket.local_addr().map_err(e)?.port());
        let mut all = vec![first];
        if count > 1 {
            set_int(all[0].socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1).map_err(e)?;
        }
        for _ in 1..count {
            all.push(Self::bind_as(chosen, buffer, (segment, coalesce), true)?);
        }
        Ok(all)
    }

    /// Whether segmentation offload is in use.
    pub fn segments(&self) -> bool {
        self.segment.load(Ordering::Relaxed)
    }

    /// The underlying socket, for other socket options.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Sends `contents` without blocking, cut into datagrams of `each` bytes, the last perhaps shorter, with the
    /// traffic class `class` (DSCP and ECN). Where the kernel or the device refuses segmentation, datagrams are sent
    /// one by one from then on. Returns the number of bytes sent: all, or those of the first datagrams when a later
    /// one failed.
    ///
    /// # Errors
    /// Nothing was sent. `WouldBlock`: the socket buffer is full. `EMSGSIZE`: larger than the MTU of the device or
    /// the path. Further errors: no route, a firewall.
    pub fn send(&self, to: SocketAddr, contents: &[u8], each: usize, class: u8) -> io::Result<usize> {
        let to = self.family(to);
        let is_one = contents.len() <= each;
        if is_one || self.segments() {
            match self.send_once(to, contents, (!is_one).then_some(each), class) {
                Err(e) if !is_one && matches!(e.raw_os_error(), Some(libc::EIO | libc::EINVAL)) => {}
                done => return done.map(|()| contents.len()),
            }
        }
        let mut sent = 0;
        for datagram in contents.chunks(each.max(1)) {
            match self.send_once(to, datagram, None, class) {
                // A single datagram passes, so the kernel refuses segmentation.
                Ok(()) => self.segment.store(false, Ordering::Relaxed),
                Err(e) if sent == 0 => return Err(e),
                Err(_) => break,
            }
            sent += datagram.len();
        }
        Ok(sent)
    }

    /// One sendmsg call; with `each` the kernel segments the contents.
    fn send_once(&self, to: SocketAddr, contents: &[u8], each: Option<usize>, class: u8) -> io::Result<()> {
        let name = SockAddr::from(to);
        let mut control = Control::new();
        if to.ip().to_canonical().is_ipv4() {
            control.push(libc::IPPROTO_IP, libc::IP_TOS, libc::c_int::from(class));
        } else {
            control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::c_int::from(class));
        }
        if let Some(each) = each.and_then(|e| u16::try_from(e).ok()) {
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, each);
        }
        let mut iov = libc::iovec { iov_base: contents.as_ptr().cast_mut().cast(), iov_len: contents.len() };
        // SAFETY: all-zero is a valid msghdr (null pointers, zero lengths).
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_name = name.as_ptr().cast_mut().cast();
        message.msg_namelen = name.len();
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        control.attach(&mut message);
        // SAFETY: name, iovec and control buffer are live for the call, which only reads them.
        let sent = unsafe {
            libc::sendmsg(self.socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Receives waiting datagrams, up to [`DATAGRAMS_ROOM`] bytes, into `buffer` without blocking; `None` when there
    /// are none.
    ///
    /// # Errors
    /// Anything but an empty socket or an ICMP error about an earlier datagram.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<DatagramsReceived>> {
        let mut control = Control::new();
        let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all-zero is valid for both.
        let (mut name, mut message): (libc::sockaddr_storage, libc::msghdr) = unsafe { (zeroed(), zeroed()) };
        message.msg_name = (&raw mut name).cast();
        message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        control.offer(&mut message);
        // SAFETY: name, iovec and control buffer are writable for their stated lengths.
        let got = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        let Ok(length) = usize::try_from(got) else {
            let e = io::Error::last_os_error();
            return match e.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED) => Ok(None),
                _ => Err(e),
            };
        };
        let Some(from) = address(&name, message.msg_namelen) else { return Ok(None) };
        let from = match from.ip().to_canonical() {
            v4 @ IpAddr::V4(_) => SocketAddr::new(v4, from.port()),
            // The scope is kept: a link-local address cannot be answered without it.
            IpAddr::V6(_) => from,
        };
        let Ancillary { class, each, realtime_ns } = Ancillary::of(&message);
        Ok(Some(DatagramsReceived { length, each: each.unwrap_or(length).max(1), from, class, realtime_ns }))
    }

    /// A dual-stack socket addresses IPv4 peers by mapped addresses.
    fn family(&self, to: SocketAddr) -> SocketAddr {
        match to {
            SocketAddr::V4(v4) if self.v6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            SocketAddr::V4(_) | SocketAddr::V6(_) => to,
        }
    }
}

/// Ancillary data received with datagrams.
#[derive(Default)]
struct Ancillary {
    class: u8,
    /// Length of each datagram where several were coalesced.
    each: Option<usize>,
    realtime_ns: Option<u64>,
}

impl Ancillary {
    fn of(message: &libc::msghdr) -> Self {
        let mut ancillary = Self::default();
        // SAFETY: recvmsg succeeded; the values are copied out unaligned, each as the type that the kernel writes.
        unsafe {
            control::for_each(message, |level, kind, data| match (level, kind) {
                (libc::IPPROTO_IP, libc::IP_TOS) => ancillary.class = data.read(),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    ancillary.class = data.cast::<libc::c_int>().read_unaligned() as u8;
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    ancillary.each = usize::try_from(data.cast::<libc::c_int>().read_unaligned()).ok();
                }
                (level, kind) => ancillary.realtime_ns = ancillary.realtime_ns.or_else(|| stamp_in(level, kind, data)),
            });
        }
        ancillary
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Expedited forwarding (RFC 3246) with ECN capability (ECT(0)).
    const EXPEDITED_CLASS: u8 = 46 << 2 | 2;

    fn exchange(segment: bool, coalesce: bool, local: &str) -> Vec<Vec<u8>> {
        let bind = || Datagrams::bind(local.parse().unwrap(), Bytes::new(1 << 20), segment, coalesce).unwrap();
        let (a, b) = (bind(), bind());
        let mut to = b.socket().local_addr().unwrap();
        if to.ip().is_unspecified() {
            to.set_ip("127.0.0.1".parse().unwrap());
        }
        let contents: Vec<u8> = (0..2500_u32).map(|i| i as u8).collect();
        a.send(to, &contents, 1000, EXPEDITED_CLASS).unwrap();
        let (mut buffer, mut got) = (vec![0; DATAGRAMS_ROOM], Vec::new());
        while got.len() < 3 {
            crate::wait(b.socket(), false, Duration::from_secs(5)).unwrap();
            if let Some(r) = b.receive(&mut buffer).unwrap() {
                assert_eq!(
                    (r.from.port(), r.class),
                    (a.socket().local_addr().unwrap().port(), EXPEDITED_CLASS),
                    "{segment} {coalesce} {local}"
                );
                assert!(r.realtime_ns.is_some(), "{segment} {coalesce} {local}");
                got.extend(buffer[..r.length].chunks(r.each).map(<[u8]>::to_vec));
            }
        }
        assert_eq!(got.concat(), contents);
        got
    }

    #[test]
    fn sockets_that_share_an_address_divide_the_senders_and_exclude_other_processes() {
        let bind = |local: SocketAddr| Datagrams::bind_shared(local, Bytes::new(1 << 16), (true, true), 3);
        let shared = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let local = shared[0].socket().local_addr().unwrap();
        assert!(shared.iter().all(|s| s.socket().local_addr().unwrap() == local));
        let senders: Vec<UdpSocket> = (0..60).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        for sender in senders.iter().chain(&senders) {
            sender.send_to(b"x", local).unwrap();
        }
        let mut buffer = vec![0; DATAGRAMS_ROOM];
        let mut received: Vec<Vec<SocketAddr>> = Vec::new();
        for socket in &shared {
            let mut from = Vec::new();
            // On loopback a sent datagram has arrived when the send call returns. Equal datagrams of one sender are
            // coalesced.
            while let Some(r) = socket.receive(&mut buffer).unwrap() {
                from.extend(std::iter::repeat_n(r.from, r.length));
            }
            received.push(from);
        }
        assert_eq!(received.concat().len(), 120, "{received:?}");
        assert!(received.iter().all(|from| from.len() > 10), "each socket receives some: {received:?}");
        for sender in senders {
            let from = sender.local_addr().unwrap();
            let by = received.iter().filter(|r| r.contains(&from)).count();
            assert_eq!(by, 1, "one socket receives from {from}");
        }
        assert!(bind(local).is_err(), "a second process cannot bind");
    }

    #[test]
    fn a_refused_segmentation_falls_back_to_single_datagrams_for_good() {
        let v4 = ("127.0.0.1:0", libc::SOL_SOCKET, libc::SO_NO_CHECK);
        let v6 = ("[::1]:0", libc::SOL_UDP, libc::UDP_NO_CHECK6_TX);
        for (local, level, no_checksums) in [v4, v6] {
            let bind = |coalesce| Datagrams::bind(local.parse().unwrap(), Bytes::new(1 << 20), true, coalesce).unwrap();
            let (from, to) = (bind(false), bind(true));
            let address = to.socket().local_addr().unwrap();
            let contents: Vec<u8> = (0..20_500_u32).map(|i| (i / 1000 * 31 + i % 251) as u8).collect();
            let mut buffer = vec![0; DATAGRAMS_ROOM];
            // On loopback a sent datagram has arrived when the send call returns.
            let mut calls = || {
                assert_eq!(from.send(address, &contents, 1000, EXPEDITED_CLASS).unwrap(), contents.len());
                let mut calls = Vec::new();
                while let Some(r) = to.receive(&mut buffer).unwrap() {
                    calls.push(buffer[..r.length].to_vec());
                }
                assert!(calls.concat() == contents, "{local}: all, each once and in order");
                calls.len()
            };
            assert_eq!((calls(), from.segments()), (1, true), "{local}");
            // Linux refuses to segment datagrams without a checksum (EINVAL). Over IPv6 the receiver must allow a
            // zero checksum.
            let without_checksums = |on| set_int(from.socket.as_raw_fd(), level, no_checksums, on);
            set_int(to.socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_NO_CHECK6_RX, 1).unwrap();
            without_checksums(1).unwrap();
            assert_eq!((calls(), from.segments()), (21, false), "{local}");
            without_checksums(0).unwrap();
            assert_eq!((calls(), from.segments()), (21, false), "{local}: segmentation is not tried again");
        }
    }

    #[test]
    fn datagrams_keep_their_boundaries_with_and_without_offloads() {
        for (segment, coalesce) in [(true, true), (true, false), (false, true), (false, false)] {
            for local in ["127.0.0.1:0", "[::]:0", "[::1]:0"] {
                let lengths: Vec<usize> = exchange(segment, coalesce, local).iter().map(Vec::len).collect();
                assert_eq!(lengths, [1000, 1000, 500], "{segment} {coalesce} {local}");
            }
        }
    }
}
