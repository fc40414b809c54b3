use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use units::Bytes;

use crate::{KernelError, Op};

/// Room for whatever one call receives: as much as the kernel puts together.
pub const DATAGRAMS_ROOM: usize = 65_536;

/// Datagrams that came in one call, put together by the kernel (UDP_GRO): all from one sender, of one length but the last.
#[derive(Debug, Clone, Copy)]
pub struct DatagramsReceived {
    /// Bytes of all.
    pub length: usize,
    /// Bytes of each but the last.
    pub each: usize,
    /// Who sent them.
    pub from: SocketAddr,
    /// The two ECN bits that they came with.
    pub ecn: u8,
}

/// A UDP socket that sends and receives many datagrams in a call (UDP_SEGMENT, UDP_GRO), over quinn-udp. Never fragments: what is larger
/// than the path's MTU is refused.
#[derive(Debug)]
pub struct Datagrams {
    socket: UdpSocket,
    state: UdpSocketState,
    segment: bool,
    v6: bool,
}

impl Datagrams {
    /// Binds to `local`; on `::` it serves IPv4, too. `buffer` is asked for in both directions. `segment`: hand many datagrams to the kernel
    /// at once; `coalesce`: take many at once.
    ///
    /// # Errors
    /// Names the operation and the address.
    pub fn bind(local: SocketAddr, buffer: Bytes, segment: bool, coalesce: bool) -> Result<Self, KernelError> {
        let e = |op| move |source| KernelError::new(op, local, source);
        let socket =
            Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP)).map_err(e(Op::Socket))?;
        if local.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
            socket.set_only_v6(false).map_err(e(Op::Socket))?;
        }
        // The kernel clamps silently to its limits; with less room there are merely more drops, which are counted.
        let size = usize::try_from(buffer.as_u64()).unwrap_or(usize::MAX).min(i32::MAX as usize / 2);
        socket.set_recv_buffer_size(size).map_err(e(Op::Buffers))?;
        socket.set_send_buffer_size(size).map_err(e(Op::Buffers))?;
        // Beyond these limits with CAP_NET_ADMIN, which the owner of a tunnel device has; without it the above holds.
        for name in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            set_int(&socket, libc::SOL_SOCKET, name, i32::try_from(size).unwrap_or(i32::MAX));
        }
        socket.bind(&local.into()).map_err(e(Op::Bind))?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).map_err(e(Op::Socket))?;
        // quinn-udp 0.6.3 asks for receive stamps, which leave no room for the ECN bits in its control buffer (MSG_CTRUNC).
        set_int(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0);
        if !coalesce {
            // Where the kernel does not know it, it is off already.
            set_int(&socket, libc::SOL_UDP, libc::UDP_GRO, 0);
        }
        Ok(Self { v6: local.is_ipv6(), socket: socket.into(), state, segment })
    }

    /// Whether the kernel still takes many datagrams at once.
    pub fn segments(&self) -> bool {
        self.segment && self.state.max_gso_segments() > 1
    }

    /// The socket, for what else can be asked of one.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Sends `contents`, cut into datagrams of `each` bytes, the last perhaps shorter, marked with the two bits of `ecn`. Does not wait.
    /// Where the kernel or the device refuses many at once, they are sent one by one, then and later.
    ///
    /// # Errors
    /// `WouldBlock`: the socket is full, nothing or only the first of them were sent. `EMSGSIZE`: larger than the device's or the path's
    /// MTU. Others: no route, a firewall.
    pub fn send(&self, to: SocketAddr, contents: &[u8], each: usize, ecn: u8) -> io::Result<()> {
        let destination = self.family(to);
        let ecn = EcnCodepoint::from_bits(ecn);
        let many = contents.len() > each;
        if many && self.segments() {
            let transmit = Transmit { destination, ecn, contents, segment_size: Some(each), src_ip: None };
            match self.state.try_send(UdpSockRef::from(&self.socket), &transmit) {
                Err(e) if matches!(e.raw_os_error(), Some(libc::EIO | libc::EINVAL)) => {}
                done => return done,
            }
        }
        for contents in contents.chunks(each.max(1)) {
            let transmit = Transmit { destination, ecn, contents, segment_size: None, src_ip: None };
            self.state.try_send(UdpSockRef::from(&self.socket), &transmit)?;
        }
        Ok(())
    }

    /// Takes what is waiting, up to [`DATAGRAMS_ROOM`] bytes, into `room`; `None` when there is nothing. Does not wait.
    ///
    /// # Errors
    /// Anything but an empty socket or an ICMP error about an earlier datagram.
    pub fn receive(&self, room: &mut [u8]) -> io::Result<Option<DatagramsReceived>> {
        let mut meta = [RecvMeta::default()];
        let mut buffers = [IoSliceMut::new(room)];
        match self.state.recv(UdpSockRef::from(&self.socket), &mut buffers, &mut meta) {
            Ok(0) => Ok(None),
            Ok(_) => {
                let [m] = meta;
                let from = SocketAddr::new(m.addr.ip().to_canonical(), m.addr.port());
                let ecn = m.ecn.map_or(0, |e| e as u8);
                Ok(Some(DatagramsReceived { length: m.len, each: m.stride.max(1), from, ecn }))
            }
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// A dual-stack socket speaks with IPv4 peers in mapped addresses.
    fn family(&self, to: SocketAddr) -> SocketAddr {
        match to {
            SocketAddr::V4(v4) if self.v6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            SocketAddr::V4(_) | SocketAddr::V6(_) => to,
        }
    }
}

/// Sets an option that takes an int; what the kernel refuses stays as it is.
fn set_int(socket: &Socket, level: libc::c_int, name: libc::c_int, value: i32) {
    // SAFETY: the value is readable, and its size is passed.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        );
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

    fn exchange(segment: bool, coalesce: bool, local: &str) -> Vec<Vec<u8>> {
        let bind = || Datagrams::bind(local.parse().unwrap(), Bytes::new(1 << 20), segment, coalesce).unwrap();
        let (a, b) = (bind(), bind());
        let mut to = b.socket().local_addr().unwrap();
        if to.ip().is_unspecified() {
            to.set_ip("127.0.0.1".parse().unwrap());
        }
        let contents: Vec<u8> = (0..2500_u32).map(|i| i as u8).collect();
        a.send(to, &contents, 1000, 2).unwrap();
        let (mut room, mut got) = (vec![0; DATAGRAMS_ROOM], Vec::new());
        while got.len() < 3 {
            crate::wait(b.socket(), false, Duration::from_secs(5)).unwrap();
            if let Some(r) = b.receive(&mut room).unwrap() {
                assert_eq!(
                    (r.from.port(), r.ecn),
                    (a.socket().local_addr().unwrap().port(), 2),
                    "{segment} {coalesce} {local}"
                );
                got.extend(room[..r.length].chunks(r.each).map(<[u8]>::to_vec));
            }
        }
        assert_eq!(got.concat(), contents);
        got
    }

    #[test]
    fn datagrams_arrive_as_they_were_cut_with_and_without_offloads() {
        for (segment, coalesce) in [(true, true), (true, false), (false, true), (false, false)] {
            for local in ["127.0.0.1:0", "[::]:0"] {
                let lengths: Vec<usize> = exchange(segment, coalesce, local).iter().map(Vec::len).collect();
                assert_eq!(lengths, [1000, 1000, 500], "{segment} {coalesce} {local}");
            }
        }
    }
}
