use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use units::{Bytes, Rate};

use crate::{KernelError, LocalAddress, Op};

/// Socket options of a data connection. An absent option keeps the kernel's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataOptions {
    /// SO_SNDBUF and SO_RCVBUF in bytes; absent keeps autotuning on.
    pub window: Option<Bytes>,
    /// Whether `window` may exceed net.core.wmem_max and rmem_max where the process may raise those (CAP_NET_ADMIN).
    /// Set it only for requests of this host's user: a peer must not make the kernel hold more than its administrator
    /// allows.
    pub beyond_limits: bool,
    /// Congestion control by name.
    pub congestion_control: Option<String>,
    /// SO_MAX_PACING_RATE.
    pub pacing: Option<Rate>,
    /// Differentiated services code point, 0..=63.
    pub dscp: Option<u8>,
    /// TCP_MAXSEG.
    pub mss: Option<u32>,
}

/// Target and limits of a connection attempt.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// Peer address.
    pub target: SocketAddr,
    /// Local address to bind to.
    pub bind: Option<LocalAddress>,
    /// Timeout of the attempt.
    pub timeout: Duration,
}

/// Sizes of the socket buffers as granted by the kernel; Linux reads back double the value that was set, for its own
/// bookkeeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffers {
    /// SO_SNDBUF.
    pub send: Bytes,
    /// SO_RCVBUF.
    pub receive: Bytes,
}

pub(crate) fn set_int<T>(fd: RawFd, level: i32, name: i32, value: T) -> io::Result<()> {
    // SAFETY: `value` is readable for its size during the call; callers pass the integer type that the option takes.
    let rc = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), size_of::<T>() as libc::socklen_t) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn get_int(fd: RawFd, level: i32, name: i32) -> io::Result<i32> {
    let mut value = 0_i32;
    let mut size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: `value` is writable for the stated size during the call.
    let rc = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut size) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

fn apply(socket: &Socket, options: &DataOptions, peer: SocketAddr) -> Result<(), KernelError> {
    let fd = socket.as_raw_fd();
    let e = |op| move |source| KernelError::new(op, peer, source);
    if let Some(name) = &options.congestion_control {
        socket.set_tcp_congestion(name.as_bytes()).map_err(e(Op::CongestionControl))?;
    }
    if let Some(window) = options.window {
        let size = usize::try_from(window.as_u64()).unwrap_or(usize::MAX).min(i32::MAX as usize / 2);
        socket.set_send_buffer_size(size).map_err(e(Op::Buffers))?;
        socket.set_recv_buffer_size(size).map_err(e(Op::Buffers))?;
        if options.beyond_limits {
            force_buffers(socket, size);
        }
    }
    if let Some(rate) = options.pacing {
        set_int(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate.as_bytes_per_second()).map_err(e(Op::Pacing))?;
    }
    if let Some(dscp) = options.dscp {
        set_dscp(fd, dscp, peer).map_err(e(Op::Dscp))?;
    }
    if let Some(mss) = options.mss {
        set_int(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, mss).map_err(e(Op::Mss))?;
    }
    Ok(())
}

/// Sets the buffers beyond net.core.wmem_max and rmem_max where the process may (CAP_NET_ADMIN). Without the
/// capability the limits hold, and the caller sees the result in [`buffers`].
fn force_buffers(socket: &Socket, size: usize) {
    let forced = [(socket.send_buffer_size(), libc::SO_SNDBUFFORCE), (socket.recv_buffer_size(), libc::SO_RCVBUFFORCE)];
    for (granted, option) in forced {
        // Linux grants double the requested value.
        if granted.is_ok_and(|granted| granted < 2 * size) {
            let _ = set_int(socket.as_raw_fd(), libc::SOL_SOCKET, option, i32::try_from(size).unwrap_or(i32::MAX));
        }
    }
}

/// Sets the DSCP on a socket of either family; an IPv6 socket may also carry IPv4-mapped traffic, which follows
/// IP_TOS.
pub(crate) fn set_dscp(fd: RawFd, dscp: u8, peer: SocketAddr) -> io::Result<()> {
    let tos = i32::from(dscp) << 2;
    let v4 = set_int(fd, libc::IPPROTO_IP, libc::IP_TOS, tos);
    match peer {
        SocketAddr::V4(_) => v4,
        SocketAddr::V6(a) if a.ip().to_ipv4_mapped().is_some() => v4,
        SocketAddr::V6(_) => set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos),
    }
}

/// Applies the options to a connection that a listener accepted.
///
/// # Errors
/// Names the option that the kernel refused.
pub fn apply_data_options(stream: &TcpStream, options: &DataOptions) -> Result<(), KernelError> {
    let peer = stream.peer_addr().map_err(|e| KernelError::new(Op::Receive, "peer", e))?;
    apply(&socket2::SockRef::from(stream), options, peer)?;
    if let Some(window) = options.window {
        open_window(stream, window).map_err(|source| KernelError::new(Op::Buffers, peer, source))?;
    }
    Ok(())
}

/// Lets the advertised window grow to the size of the buffer. The handshake fixed its bound by the buffer of that
/// time, 64 kB by default. Not all kernels raise it with a buffer that is set later (Linux 6.18 does, 6.1 does not),
/// and autotuning, which would, is off then.
fn open_window(stream: &TcpStream, window: Bytes) -> io::Result<()> {
    let wanted = i32::try_from(window.as_u64()).unwrap_or(i32::MAX);
    let fd = stream.as_raw_fd();
    if get_int(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP)? < wanted {
        set_int(fd, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, wanted)?;
    }
    Ok(())
}

/// Connects. The options are set before the handshake, so that window scale, MSS and congestion control follow them.
///
/// The congestion control must not be changed later: BBR enables the socket's internal pacing for the socket's life.
///
/// # Errors
/// Names the operation and the address.
pub fn connect(to: &ConnectOptions, options: &DataOptions) -> Result<TcpStream, KernelError> {
    let target = to.target;
    let e = |op| move |source| KernelError::new(op, target, source);
    let socket = Socket::new(Domain::for_address(target), Type::STREAM, Some(Protocol::TCP)).map_err(e(Op::Socket))?;
    apply(&socket, options, target)?;
    if let Some(address) = to.bind {
        let local = address.with_port(0);
        socket.bind(&local.into()).map_err(|source| KernelError::new(Op::Bind, local, source))?;
    }
    socket.connect_timeout(&target.into(), to.timeout).map_err(e(Op::Connect))?;
    Ok(socket.into())
}

/// Listens on all addresses of both families, or on one address.
///
/// Accepted sockets inherit a congestion control without pacing (cubic, else reno), so that a congestion control
/// chosen later starts clean.
///
/// # Errors
/// Names the operation and the address.
pub fn listen(address: Option<LocalAddress>, port: u16) -> Result<TcpListener, KernelError> {
    // Hosts without IPv6 (ipv6.disable=1) cannot open the dual-stack socket.
    let candidates = match address {
        Some(address) => vec![address.with_port(port)],
        None => vec![
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
            SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port),
        ],
    };
    let mut failure = None;
    for local in candidates {
        match listen_on(local, address.is_none()) {
            Ok(listener) => return Ok(listener),
            Err(e) if e.op == Op::Socket || e.source.raw_os_error() == Some(libc::EADDRNOTAVAIL) => failure = Some(e),
            Err(e) => return Err(e),
        }
    }
    Err(failure.unwrap_or_else(|| KernelError::new(Op::Listen, port, io::ErrorKind::AddrNotAvailable.into())))
}

fn listen_on(local: SocketAddr, dual: bool) -> Result<TcpListener, KernelError> {
    let e = |op| move |source| KernelError::new(op, local, source);
    let socket = Socket::new(Domain::for_address(local), Type::STREAM, Some(Protocol::TCP)).map_err(e(Op::Socket))?;
    if local.is_ipv6() {
        socket.set_only_v6(!dual).map_err(e(Op::Socket))?;
    }
    socket.set_reuse_address(true).map_err(e(Op::Socket))?;
    for name in CONTROLS_WITHOUT_PACING {
        // Without privilege only `tcp_allowed_congestion_control` may be set, which always contains reno.
        if socket.set_tcp_congestion(name.as_bytes()).is_ok() {
            break;
        }
    }
    socket.bind(&local.into()).map_err(e(Op::Bind))?;
    socket.listen(1024).map_err(e(Op::Listen))?;
    socket.set_nonblocking(true).map_err(e(Op::Listen))?;
    Ok(socket.into())
}

/// Congestion controls without pacing, in order of preference; reno is always built in.
const CONTROLS_WITHOUT_PACING: [&str; 2] = ["cubic", "reno"];

/// The host's default congestion control, to be set on accepted sockets when the client requested none.
pub fn accepted_congestion_control() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").ok()?;
    Some(name.trim().to_owned()).filter(|n| !n.is_empty())
}

/// Whether a congestion control paces by its own estimate of the bottleneck, as BBR does. `name` is the requested
/// one; absent means the host's default.
pub fn paces_itself(name: Option<&str>) -> bool {
    let default = accepted_congestion_control();
    name.or(default.as_deref()).is_some_and(|n| n.starts_with("bbr"))
}

/// The congestion control in force on a socket.
pub fn congestion_control(stream: &TcpStream) -> Option<String> {
    let name = socket2::SockRef::from(stream).tcp_congestion().ok()?;
    let text = CStr::from_bytes_until_nul(&name)
        .map_or_else(|_| String::from_utf8_lossy(&name).into_owned(), |c| c.to_string_lossy().into_owned());
    Some(text)
}

/// Reads back the socket buffers.
///
/// # Errors
/// getsockopt(2) failed.
pub fn buffers(stream: &impl AsFd) -> Result<Buffers, KernelError> {
    let s = socket2::SockRef::from(stream);
    let e = |source| KernelError::new(Op::Buffers, "peer", source);
    Ok(Buffers {
        send: Bytes::new(s.send_buffer_size().map_err(e)? as u64),
        receive: Bytes::new(s.recv_buffer_size().map_err(e)? as u64),
    })
}

/// Wakes a writer that waits for buffer space once fewer than half of `bytes` are unsent (TCP_NOTSENT_LOWAT). The
/// kernel applies this bound to writes of whole packet buffers only; see [`unsent_bytes`](crate::unsent_bytes).
///
/// # Errors
/// setsockopt(2) failed.
pub fn wake_below_unsent(stream: &TcpStream, bytes: u64) -> Result<(), KernelError> {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    set_int(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
        .map_err(|source| KernelError::new(Op::NotSentLowat, "peer", source))
}

/// Sets priority 6 (TC_PRIO_INTERACTIVE) on a connection, which band queues such as pfifo_fast serve before bulk
/// traffic, so that reports do not wait behind test traffic in this host. Best effort.
pub fn set_control_priority(stream: &TcpStream) {
    let _ = set_int(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PRIORITY, 6_i32);
}

/// Makes closing the socket send a reset and drop queued data (SO_LINGER 0). Best effort.
pub fn reset_on_close(stream: &TcpStream) {
    let _ = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Sets the time after which a connection with unacknowledged data fails (TCP_USER_TIMEOUT, RFC 5482). Best effort.
pub fn set_user_timeout(stream: &TcpStream, limit: Duration) {
    let _ = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(limit));
}

/// Reverts [`set_user_timeout`]: the connection lives as long as the kernel retransmits, a quarter of an hour by
/// default.
pub fn clear_user_timeout(stream: &TcpStream) {
    let _ = socket2::SockRef::from(stream).set_tcp_user_timeout(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tcp(7): TCP_WINDOW_CLAMP bounds the advertised window.
    #[test]
    fn the_window_of_an_accepted_connection_reaches_the_requested_size() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let clamp = || get_int(accepted.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP).unwrap();
        let requested = 3_000_000;
        assert!(clamp() < requested, "{} by the buffer of the handshake", clamp());
        let options = DataOptions { window: Some(Bytes::new(requested as u64)), ..DataOptions::default() };
        apply_data_options(&accepted, &options).unwrap();
        assert!(clamp() >= requested, "{}", clamp());
    }

    /// net.core.wmem_max and rmem_max bound the buffers of a socket (socket(7): the kernel doubles the value that is
    /// set).
    #[test]
    fn the_kernels_limits_hold_for_a_peers_request() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let limit = |name| -> u64 {
            std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap().trim().parse().unwrap()
        };
        let window = Some(Bytes::new(i32::MAX as u64));
        apply_data_options(&accepted, &DataOptions { window, ..DataOptions::default() }).unwrap();
        let granted = buffers(&accepted).unwrap();
        let bounds = Buffers { send: Bytes::new(2 * limit("wmem_max")), receive: Bytes::new(2 * limit("rmem_max")) };
        assert_eq!(granted, bounds);
    }

    #[test]
    fn a_user_timeout_can_be_reverted() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let bound = || socket2::SockRef::from(&stream).tcp_user_timeout().unwrap();
        assert_eq!(bound(), None);
        set_user_timeout(&stream, Duration::from_secs(20));
        assert_eq!(bound(), Some(Duration::from_secs(20)));
        clear_user_timeout(&stream);
        assert_eq!(bound(), None);
    }
}
