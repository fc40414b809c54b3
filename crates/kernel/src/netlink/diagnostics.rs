//! TCP connections of a network namespace, as reported by the kernel's socket diagnostics (sock_diag(7)).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::{io, thread};

use netlink_packet_core::{Emitable as _, NlasIterator, Parseable as _};
use netlink_packet_sock_diag::constants::{
    AF_INET, AF_INET6, INET_DIAG_CONG, INET_DIAG_INFO, IPPROTO_TCP, SOCK_DIAG_BY_FAMILY,
};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponseHeader, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use results::TcpState;

use super::socket::{Conversation, RawRequest};
use crate::tcp_info::{Segments, tcp_info};
use crate::{KernelError, Op, enter_namespace};

/// Length of struct inet_diag_msg (linux/inet_diag.h); attributes follow it.
const HEADER_BYTES: usize = 72;

/// A TCP connection.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpConnection {
    /// Cookie of its socket, unique until the machine reboots (SO_COOKIE); BPF programs see the same number.
    pub cookie: u64,
    /// Inode of its socket, as in /proc/PID/fd; 0 when no process holds the socket any more.
    pub inode: u64,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// Congestion control in use.
    pub congestion_control: String,
    /// State from TCP_INFO.
    pub state: TcpState,
    /// Packet counts from TCP_INFO.
    pub segments: Segments,
}

/// A socket-diagnostics connection for one network namespace. The caller's own namespace needs no privilege.
#[derive(Debug)]
pub struct TcpDiagnostics(Conversation);

impl TcpDiagnostics {
    /// Opens a connection for the calling thread's network namespace.
    ///
    /// # Errors
    /// The socket cannot be opened.
    pub fn open() -> Result<Self, KernelError> {
        Conversation::open_with(NETLINK_SOCK_DIAG)
            .map(Self)
            .map_err(|e| KernelError::new(Op::Socket, "for socket diagnostics", e))
    }

    /// Opens a connection for the network namespace of a process.
    ///
    /// # Errors
    /// There is no such process; entering another namespace needs CAP_SYS_ADMIN.
    pub fn open_of(process: u32) -> Result<Self, KernelError> {
        let path = format!("/proc/{process}/ns/net");
        let failed = |e| KernelError::new(Op::Join, &path, e);
        let namespace = File::open(&path).map_err(failed)?;
        let opener = thread::Builder::new().name("diagnostics".to_owned());
        let opened = opener.spawn(move || match enter_namespace(&namespace) {
            Ok(()) => Self::open(),
            Err(e) => Err(KernelError::new(Op::Join, format!("/proc/{process}/ns/net"), e)),
        });
        let ended = |_| Err(failed(io::Error::other("the thread that enters the network namespace panicked")));
        opened.map_err(failed)?.join().unwrap_or_else(ended)
    }

    /// Lists the connections that can carry data, over IPv4 and IPv6.
    ///
    /// # Errors
    /// The kernel was built without INET_DIAG, or its answer cannot be parsed.
    pub fn connections(&mut self) -> Result<Vec<TcpConnection>, KernelError> {
        let failed = |e| KernelError::new(Op::Diagnostics, "TCP", e);
        let mut all = Vec::new();
        for (family, id) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
            for (_, body) in self.0.list_raw(&question(family, id)).map_err(failed)? {
                all.extend(connection(&body).map_err(failed)?);
            }
        }
        Ok(all)
    }
}

fn question(family: u8, socket_id: SocketId) -> RawRequest {
    let request = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO | ExtensionFlags::CONG,
        states: StateFlags::ESTABLISHED
            | StateFlags::FIN_WAIT1
            | StateFlags::FIN_WAIT2
            | StateFlags::CLOSE_WAIT
            | StateFlags::CLOSING
            | StateFlags::LAST_ACK,
        socket_id,
    };
    let mut body = vec![0; request.buffer_len()];
    request.emit(&mut body);
    RawRequest { kind: SOCK_DIAG_BY_FAMILY, flags: 0, body }
}

/// Parses an answer; `None` for a socket without TCP_INFO, which is being closed.
fn connection(body: &[u8]) -> io::Result<Option<TcpConnection>> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "cannot parse the kernel's answer");
    let header = InetResponseHeader::parse(body).map_err(|_| damaged())?;
    let (mut info, mut control) = (None, String::new());
    for attribute in NlasIterator::new(body.get(HEADER_BYTES..).ok_or_else(damaged)?) {
        let attribute = attribute.map_err(|_| damaged())?;
        match attribute.kind() {
            INET_DIAG_INFO => info = Some(tcp_info(attribute.value())),
            INET_DIAG_CONG => {
                let name = attribute.value();
                control = String::from_utf8_lossy(name.strip_suffix(&[0]).unwrap_or(name)).into_owned();
            }
            _ => {}
        }
    }
    let id = header.socket_id;
    Ok(info.map(|(state, segments)| TcpConnection {
        cookie: u64::from_ne_bytes(id.cookie),
        inode: u64::from(header.inode),
        local: SocketAddr::new(id.source_address, id.source_port),
        remote: SocketAddr::new(id.destination_address, id.destination_port),
        congestion_control: control,
        state,
        segments,
    }))
}

/// Inodes of the sockets that a process holds.
///
/// # Errors
/// There is no such process, or it belongs to another user.
pub fn socket_inodes(process: u32) -> io::Result<BTreeSet<u64>> {
    let inode = |entry: io::Result<fs::DirEntry>| {
        // A descriptor that was closed meanwhile is skipped.
        let target = fs::read_link(entry.ok()?.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    Ok(fs::read_dir(format!("/proc/{process}/fd"))?.filter_map(inode).collect())
}

/// Processes whose program has this name (/proc/PID/comm: its first 15 bytes), in ascending order of their numbers.
pub fn processes_named(name: &str) -> Vec<u32> {
    let short = name.as_bytes().get(..15).unwrap_or(name.as_bytes());
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_it = |pid: &u32| fs::read(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_ascii_end() == short);
    let mut found: Vec<u32> = numbers.filter(is_it).collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::tcp_state;

    #[test]
    fn a_connection_is_listed_with_its_owners_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_peer, _) = listener.accept().unwrap();
        socket2::SockRef::from(&stream).set_tcp_congestion(b"reno").unwrap();
        let all = TcpDiagnostics::open().unwrap().connections().unwrap();
        let own = all.iter().find(|c| c.local == stream.local_addr().unwrap()).unwrap();
        assert_eq!((own.remote, own.congestion_control.as_str()), (stream.peer_addr().unwrap(), "reno"));
        assert_eq!(own.state.mss_bytes, tcp_state(&stream).unwrap().mss_bytes);
        assert_eq!(own.segments.cwnd * own.state.mss_bytes as u32, own.state.cwnd_bytes as u32);
        assert!(socket_inodes(std::process::id()).unwrap().contains(&own.inode));
        assert_eq!(own.cookie, socket2::SockRef::from(&stream).cookie().unwrap());
    }

    #[test]
    fn a_connection_over_ipv6_has_ipv6_addresses() {
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let all = TcpDiagnostics::open().unwrap().connections().unwrap();
        assert!(all.iter().any(|c| c.local == stream.local_addr().unwrap() && c.remote == stream.peer_addr().unwrap()));
    }

    #[test]
    fn processes_are_found_by_name() {
        let own = fs::read_to_string("/proc/self/comm").unwrap();
        assert!(processes_named(own.trim_end()).contains(&std::process::id()));
        assert!(processes_named("no program of this name").is_empty());
        assert!(socket_inodes(u32::MAX).is_err());
        assert!(TcpDiagnostics::open_of(u32::MAX).unwrap_err().to_string().contains("/proc/4294967295"));
    }
}
