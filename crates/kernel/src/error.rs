use std::fmt;
use std::io;

/// The operation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is named after its system call or option")]
pub enum Op {
    Socket,
    Bind,
    Listen,
    Accept,
    Connect,
    Send,
    Receive,
    Poll,
    SendFile,
    ReadFile,
    WriteFile,
    Buffers,
    CongestionControl,
    Pacing,
    Dscp,
    Mss,
    NotSentLowat,
    Unsent,
    NoDelay,
    Timestamping,
    TcpInfo,
    Resolve,
    Signal,
    Thread,
    FindDevice,
    SetDevice,
    AddAddress,
    AddRoute,
    RemoveRoute,
    ReadRoutes,
    ReadAddresses,
    AddNeighbour,
    ReadTrafficControl,
    Change,
    Privilege,
    NamespaceInit,
    Spawn,
    Join,
    Schedule,
    Sysctl,
    ReadSysctl,
    Ethtool,
    Diagnostics,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Socket => "opening a socket",
            Self::Bind => "binding to",
            Self::Listen => "listening on",
            Self::Accept => "accepting a connection on",
            Self::Connect => "connecting to",
            Self::Send => "sending to",
            Self::Receive => "receiving from",
            Self::Poll => "waiting for",
            Self::SendFile => "sending from the page cache to",
            Self::ReadFile => "reading the file",
            Self::WriteFile => "writing the file",
            Self::Buffers => "setting the socket buffers (SO_SNDBUF, SO_RCVBUF) towards",
            Self::CongestionControl => "setting the congestion control (TCP_CONGESTION) towards",
            Self::Pacing => "setting the pacing rate (SO_MAX_PACING_RATE) towards",
            Self::Dscp => "setting the DSCP (IP_TOS, IPV6_TCLASS) towards",
            Self::Mss => "setting the maximum segment size (TCP_MAXSEG) towards",
            Self::NotSentLowat => "setting TCP_NOTSENT_LOWAT towards",
            Self::Unsent => "reading the unsent bytes (SIOCOUTQNSD) towards",
            Self::NoDelay => "setting TCP_NODELAY towards",
            Self::Timestamping => "setting SO_TIMESTAMPING towards",
            Self::TcpInfo => "reading TCP_INFO of",
            Self::Resolve => "resolving",
            Self::Thread => "starting a thread for",
            Self::Signal => "handling signals for",
            Self::FindDevice => "looking up the network device",
            Self::SetDevice => "setting",
            Self::AddAddress => "adding the address",
            Self::AddRoute => "adding the route",
            Self::RemoveRoute => "removing the route",
            Self::AddNeighbour => "adding the neighbour",
            Self::ReadRoutes => "reading the routes of",
            Self::ReadAddresses => "reading the addresses of",
            Self::ReadTrafficControl => "reading the traffic control of",
            Self::Change => "change",
            Self::Privilege => "gaining access to",
            Self::NamespaceInit => "running the lab's init process:",
            Self::Spawn => "starting the program",
            Self::Join => "joining the lab of process",
            Self::Schedule => "setting the scheduling of this thread to",
            Self::Sysctl => "setting",
            Self::ReadSysctl => "reading",
            Self::Ethtool => "querying the driver (SIOCETHTOOL) of",
            Self::Diagnostics => "listing the TCP connections (sock_diag) of",
        })
    }
}

/// A system call that failed: the operation, the address and the kernel's error.
#[derive(Debug, thiserror::Error)]
#[error("{op} {address}: {source}{}", self.hint())]
pub struct KernelError {
    /// Failed operation.
    pub op: Op,
    /// The remote address or other object of the operation, as text; `-` where there is none.
    pub address: String,
    /// The kernel's error.
    pub source: io::Error,
}

impl KernelError {
    /// Ties an I/O error to its operation and address.
    pub fn new(op: Op, address: impl ToString, source: io::Error) -> Self {
        Self { op, address: address.to_string(), source }
    }

    /// The last error of the calling thread, with its operation and address.
    pub(crate) fn last(op: Op, address: impl ToString) -> Self {
        Self::new(op, address, io::Error::last_os_error())
    }

    /// A hint on how to resolve the error, where the kernel's message gives none.
    fn hint(&self) -> &'static str {
        match (self.op, self.source.raw_os_error()) {
            (Op::CongestionControl, Some(libc::EPERM)) => {
                "; without CAP_NET_ADMIN only those in net.ipv4.tcp_allowed_congestion_control may be used"
            }
            (Op::CongestionControl, Some(libc::ENOENT)) => {
                "; see net.ipv4.tcp_available_congestion_control; `longhaul cc load` adds FAST TCP and H-TCP"
            }
            (Op::Bind, Some(libc::EACCES)) => {
                "; ports below net.ipv4.ip_unprivileged_port_start need CAP_NET_BIND_SERVICE"
            }
            (Op::Connect, _) => connect_hint(&self.source),
            (Op::Bind, Some(libc::EADDRINUSE)) => "; choose another port with --port",
            (Op::SetDevice | Op::AddAddress | Op::AddRoute | Op::AddNeighbour | Op::Change, Some(libc::EPERM)) => {
                "; changing a network needs CAP_NET_ADMIN in the user namespace that owns it"
            }
            (Op::Ethtool, Some(libc::EPERM)) => {
                "; changing a device needs CAP_NET_ADMIN in the user namespace that owns its network"
            }
            (Op::Sysctl | Op::ReadSysctl, Some(libc::ENOENT | libc::EACCES | libc::EPERM | libc::EROFS)) => {
                "; this network namespace has no such variable: the kernel lacks it, or all namespaces share it"
            }
            (Op::Schedule, Some(libc::EPERM | libc::EACCES)) => {
                "; this needs CAP_SYS_NICE on the machine, or a limit (RLIMIT_RTPRIO, RLIMIT_NICE) that allows it"
            }
            (Op::Spawn, Some(libc::ENOMEM)) => {
                "; unless memory is short, the lab's init process was killed, and all its programs with it"
            }
            (Op::Join, Some(libc::EPERM | libc::EACCES)) => "; only the user who runs the lab, or root, may join it",
            (Op::Join, Some(libc::ESRCH | libc::ENOENT)) => "; the lab has ended",
            _ => "",
        }
    }

    /// The kind of the underlying error.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

/// Hint for a failed connection attempt.
fn connect_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "; is `longhaul serve` running there, and on this port (-p)?",
        io::ErrorKind::TimedOut => {
            "; no answer: check the address, that the host is up, and that no firewall blocks this port"
        }
        io::ErrorKind::HostUnreachable => {
            "; check the address and that the host is up; a router or a firewall on the path may also report this"
        }
        io::ErrorKind::NetworkUnreachable => {
            "; no route to the address (`ip route get` shows it): check the network and the address family (-4, -6)"
        }
        // Linux returns this for a link-local address without an interface.
        io::ErrorKind::InvalidInput => "; a link-local address needs its interface, such as fe80::1%eth0",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_connection_names_what_to_check() {
        let message = |error| KernelError::new(Op::Connect, "192.0.2.1:5003", error).to_string();
        let os = io::Error::from_raw_os_error;
        for (error, hint) in [
            (os(libc::ECONNREFUSED), "is `longhaul serve` running there"),
            (os(libc::ETIMEDOUT), "firewall"),
            // The error of a connection attempt that timed out.
            (io::Error::from(io::ErrorKind::TimedOut), "firewall"),
            (os(libc::EHOSTUNREACH), "check the address"),
            (os(libc::ENETUNREACH), "no route"),
            (os(libc::EINVAL), "needs its interface"),
        ] {
            let text = message(error);
            assert!(text.starts_with("connecting to 192.0.2.1:5003: ") && text.contains(hint), "{text}");
        }
    }
}
