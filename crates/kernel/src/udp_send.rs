use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use socket2::SockAddr;

use crate::control::Control;
use crate::option::get_int;
use crate::{KernelError, Op};

/// Maximum number of datagrams sent in one call: some tens of microseconds of kernel time, so that their send times
/// stay true.
pub const SEND_BATCH: usize = 32;

/// Result of sending a batch of datagrams.
#[derive(Debug)]
pub enum BatchSent {
    /// The kernel took this number of them, in order; at least one.
    Taken(usize),
    /// The send buffer is full: wait until the socket is writable.
    Full,
    /// The kernel refused the first one, for a reason that may pass (a firewall, no route, an ICMP error about an
    /// earlier datagram).
    Refused(io::Error),
}

/// Sends datagrams to the connected peer without blocking, each one of `headers` followed by `body`; at most
/// [`SEND_BATCH`] of them.
pub fn send_batch<const H: usize>(socket: &UdpSocket, headers: &[[u8; H]], body: &[u8]) -> BatchSent {
    let count = headers.len().min(SEND_BATCH);
    // SAFETY: all-zero is valid for these plain C structures.
    let (mut iovs, mut msgs): ([[libc::iovec; 2]; SEND_BATCH], [libc::mmsghdr; SEND_BATCH]) =
        unsafe { (zeroed(), zeroed()) };
    for ((header, iov), msg) in headers.iter().zip(&mut iovs).zip(&mut msgs) {
        iov[0] = libc::iovec { iov_base: header.as_ptr().cast_mut().cast(), iov_len: H };
        iov[1] = libc::iovec { iov_base: body.as_ptr().cast_mut().cast(), iov_len: body.len() };
        msg.msg_hdr.msg_iov = iov.as_mut_ptr();
        msg.msg_hdr.msg_iovlen = 2;
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the first `count` headers point to live iovecs, whose memory sendmmsg only reads.
    let rc = unsafe { libc::sendmmsg(socket.as_raw_fd(), msgs.as_mut_ptr(), count as libc::c_uint, flags as _) };
    if rc > 0 {
        return BatchSent::Taken(rc as usize);
    }
    let e = io::Error::last_os_error();
    match e.raw_os_error() {
        _ if rc == 0 => BatchSent::Full,
        Some(libc::EAGAIN | libc::EINTR) => BatchSent::Full,
        _ => BatchSent::Refused(e),
    }
}

/// Sends one datagram from the address `from` of this host (IP_PKTINFO, IPV6_PKTINFO), as an answer must leave from
/// the address that received the request. A socket on all addresses would leave the choice to the routing table.
/// `false` when the kernel refused it for now.
///
/// # Errors
/// `from` is no longer an address of this host, or the socket is of another family.
pub fn send_datagram_from(socket: &UdpSocket, from: IpAddr, to: SocketAddr, data: &[u8]) -> Result<bool, KernelError> {
    let local = socket.local_addr().map_err(|e| KernelError::new(Op::Send, to, e))?;
    // A dual-stack socket addresses IPv4 peers by mapped addresses.
    let (from, to) = match to {
        SocketAddr::V4(v4) if local.is_ipv6() => (mapped(from), SocketAddr::new(mapped((*v4.ip()).into()), v4.port())),
        SocketAddr::V4(_) => (from, to),
        SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some() => (mapped(from), to),
        SocketAddr::V6(_) => (from, to),
    };
    let name = SockAddr::from(to);
    let mut control = Control::new();
    let mut iov = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    // SAFETY: all-zero is a valid msghdr (null pointers, zero lengths).
    let mut msg: libc::msghdr = unsafe { zeroed() };
    msg.msg_name = name.as_ptr().cast_mut().cast();
    msg.msg_namelen = name.len();
    msg.msg_iov = &raw mut iov;
    msg.msg_iovlen = 1;
    match from {
        IpAddr::V4(v4) => {
            let source = libc::in_addr { s_addr: u32::from_ne_bytes(v4.octets()) };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: libc::in_addr { s_addr: 0 } };
            control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
        IpAddr::V6(v6) => {
            let info = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: v6.octets() }, ipi6_ifindex: 0 };
            control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
    }
    control.attach(&mut msg);
    // SAFETY: name, iovec and control buffer are live for the call, which only reads them.
    let rc = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const msg, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    if rc >= 0 {
        return Ok(true);
    }
    let e = io::Error::last_os_error();
    match e.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ECONNREFUSED | libc::EINTR | libc::EPERM) => Ok(false),
        _ => Err(KernelError::new(Op::Send, to, e)),
    }
}

fn mapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
        IpAddr::V6(_) => ip,
    }
}

/// Datagrams dropped because the socket's receive buffer was full (SK_MEMINFO_DROPS): lost in this host, not on the
/// path. Absent where the kernel does not report it.
pub fn udp_drops(socket: &UdpSocket) -> Option<u64> {
    /// Index of the drop counter in include/uapi/linux/sock_diag.h.
    const SK_MEMINFO_DROPS: usize = 8;
    let mut info = [0_u32; 16];
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `info` is writable for `len` bytes; the kernel writes the length that it filled.
    let rc = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, info.as_mut_ptr().cast(), &raw mut len)
    };
    let filled = len as usize / size_of::<u32>();
    (rc == 0 && filled > SK_MEMINFO_DROPS).then(|| u64::from(info[SK_MEMINFO_DROPS]))
}

/// The path MTU in bytes that the kernel assumes towards the connected peer (IP_MTU, IPV6_MTU).
pub fn path_mtu(socket: &UdpSocket) -> Option<u64> {
    let v6 = socket.local_addr().ok()?.is_ipv6();
    let (level, name) = if v6 { (libc::IPPROTO_IPV6, libc::IPV6_MTU) } else { (libc::IPPROTO_IP, libc::IP_MTU) };
    u64::try_from(get_int(socket.as_raw_fd(), level, name).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{recv_batch, udp_socket};
    use std::time::Duration;
    use units::Bytes;

    fn socket(local: &str) -> UdpSocket {
        let s = udp_socket(local.parse().unwrap(), true, Bytes::new(1 << 20), None).unwrap();
        s.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        s
    }

    fn receive(socket: &UdpSocket) -> Vec<(Vec<u8>, SocketAddr)> {
        let (mut buffer, mut got) = (vec![0; 32 * 256], Vec::new());
        recv_batch(socket, &mut buffer, |d| got.push((d.data.to_vec(), d.from))).unwrap();
        got
    }

    #[test]
    fn a_batch_arrives_as_single_datagrams_in_order() {
        let (a, b) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        a.connect(b.local_addr().unwrap()).unwrap();
        let headers: Vec<[u8; 2]> = (0..5_u8).map(|i| [i, 7]).collect();
        assert!(matches!(send_batch(&a, &headers, b"body"), BatchSent::Taken(5)));
        let mut got = Vec::new();
        while got.len() < 5 {
            got.extend(receive(&b));
        }
        let expected: Vec<Vec<u8>> = (0..5_u8).map(|i| [&[i, 7][..], b"body"].concat()).collect();
        assert_eq!(got.into_iter().map(|(d, _)| d).collect::<Vec<_>>(), expected);
        assert!(path_mtu(&a).is_some_and(|mtu| mtu >= 1280));
        assert_eq!(udp_drops(&b), Some(0));
    }

    #[test]
    fn answers_leave_from_the_address_that_received_the_request() {
        for (all, requested, client) in [
            ("0.0.0.0:0", "127.0.0.2", "127.0.0.1:0"),
            ("[::]:0", "127.0.0.2", "127.0.0.1:0"),
            ("[::]:0", "::1", "[::1]:0"),
        ] {
            let (server, client) = (socket(all), socket(client));
            let to = client.local_addr().unwrap();
            assert!(send_datagram_from(&server, requested.parse().unwrap(), to, b"x").unwrap(), "{all} {requested}");
            let (_, from) = receive(&client).remove(0);
            assert_eq!(from.ip(), requested.parse::<IpAddr>().unwrap(), "{all}");
        }
    }

    #[test]
    fn datagrams_that_find_the_buffer_full_are_counted() {
        let (a, b) = (socket("127.0.0.1:0"), socket("127.0.0.1:0"));
        socket2::SockRef::from(&b).set_recv_buffer_size(4096).unwrap();
        a.connect(b.local_addr().unwrap()).unwrap();
        for _ in 0..10 {
            send_batch(&a, &[[0_u8; 1000]; 10], &[]);
        }
        assert!(udp_drops(&b).is_some_and(|n| n > 50));
    }
}
