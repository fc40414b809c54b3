//! Connection to the server and agreement on a test.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use kernel::{ConnectOptions, DataOptions, Received};
use results::{Direction, End, HostReport, StreamStart, TestPlan};
use units::Instant;
use wire::{GREETING, HELLO, Message, Parsed, RefuseCode, parse_greeting, rejection_reason};

use super::{ClientOptions, Family, path_mtu};
use crate::control::{ControlReader, ControlWriter, HANDSHAKE_TIMEOUT};
use crate::load::{Stream, StreamSocket, share_of, stream_numbers};
use crate::udp::UdpStream;
use crate::{MeasureError, VERSION, address, data, random, thrulay, udp};

/// Time limit of a connection attempt to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An accepted session.
pub(crate) struct Session {
    pub(crate) address: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) writer: ControlWriter,
    reader: Option<ControlReader>,
    pub(crate) session: [u8; 8],
    pub(crate) plan: TestPlan,
    pub(crate) notes: Vec<String>,
    pub(crate) server: HostReport,
    pub(crate) udp_port: u16,
    client_nonce: [u8; 16],
    server_nonce: [u8; 16],
}

/// Type of the server.
pub(crate) enum Opened {
    /// A longhaul server that accepted the test.
    Native(Box<Session>),
    /// A thrulay server: it sends the greeting and closes on the native proposal, whose type is unknown to it.
    Thrulay(SocketAddr),
}

/// Connects to the first responding address, and agrees on the test if the server is longhaul.
pub(crate) fn open(options: &ClientOptions) -> Result<Opened, MeasureError> {
    let addresses = resolve(options)?;
    let mut failure = None;
    for address in addresses {
        match greet(options, address, &path_mtu::control_options(address)) {
            Ok(stream) => return agree(options, address, stream),
            Err(e @ MeasureError::Kernel(_)) => failure = Some(e),
            Err(e) => return Err(e),
        }
    }
    Err(failure.unwrap_or_else(|| MeasureError::Resolve {
        host: options.host.clone(),
        family: "IP",
        detail: "none found".to_owned(),
    }))
}

fn resolve(options: &ClientOptions) -> Result<Vec<SocketAddr>, MeasureError> {
    let family = match options.family {
        Family::Any => "IP",
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    };
    let fail = |detail: String| MeasureError::Resolve { host: options.host.clone(), family, detail };
    let found: Vec<SocketAddr> = (options.host.as_str(), options.port)
        .to_socket_addrs()
        .map_err(|e| fail(format!("{e}; is the name right? `getent hosts {}` asks the same resolver", options.host)))?
        .filter(|a| match options.family {
            Family::Any => options.bind.is_none_or(|b| b.ip().is_ipv4() == a.is_ipv4()),
            Family::V4 => a.is_ipv4(),
            Family::V6 => a.is_ipv6(),
        })
        .collect();
    if found.is_empty() {
        return Err(fail("the name has addresses of another family only".to_owned()));
    }
    let reachable: Vec<SocketAddr> = found.iter().filter(|a| !lacks_device(a)).copied().collect();
    match found.first() {
        Some(first) if reachable.is_empty() => Err(MeasureError::NeedsDevice(first.ip())),
        _ => Ok(reachable),
    }
}

/// Whether the kernel cannot route an address: it is link-local and names no device.
fn lacks_device(address: &SocketAddr) -> bool {
    kernel::is_link_local(address.ip()) && matches!(address, SocketAddr::V6(a) if a.scope_id() == 0)
}

/// Connects and reads the greeting, which accepts or rejects the session (i2perf §3.2).
pub(crate) fn greet(
    options: &ClientOptions,
    target: SocketAddr,
    data: &DataOptions,
) -> Result<TcpStream, MeasureError> {
    let to = ConnectOptions { target, bind: options.bind, timeout: CONNECT_TIMEOUT };
    let stream = kernel::connect(&to, data)?;
    let deadline = kernel::now() + HANDSHAKE_TIMEOUT;
    let mut got = Vec::new();
    loop {
        match parse_greeting(&got) {
            Parsed::Accepted { .. } => return Ok(stream),
            Parsed::NotThrulay => return Err(not_a_server(target, &got)),
            Parsed::Rejected => {
                let ended = read_until_end(&stream, &mut got, deadline)?;
                let reason = rejection_reason(&got).filter(|_| ended).unwrap_or_else(|| "no reason given".to_owned());
                return Err(MeasureError::Rejected { address: target.to_string(), reason });
            }
            Parsed::Incomplete => {}
        }
        // The read length never exceeds the greeting: the following bytes belong to the next reader.
        let want = GREETING.len().saturating_sub(got.len()).max(1);
        if !read_more(&stream, &mut got, want, deadline)? {
            return Err(if got.is_empty() { silent_or_closed(target, deadline) } else { not_a_server(target, &got) });
        }
    }
}

fn silent_or_closed(target: SocketAddr, deadline: Instant) -> MeasureError {
    let (peer, during) = (target.to_string(), "before its greeting");
    if kernel::now() >= deadline {
        MeasureError::Silent { peer, after: HANDSHAKE_TIMEOUT, during }
    } else {
        MeasureError::Closed { peer, during }
    }
}

fn not_a_server(target: SocketAddr, got: &[u8]) -> MeasureError {
    let detail = format!("it greets with `{}`", wire::printable(&String::from_utf8_lossy(&got[..got.len().min(40)])));
    MeasureError::NotAServer { address: target.to_string(), detail }
}

/// Reads at most `want` more bytes; `false` if the peer closed or the deadline passed.
fn read_more(stream: &TcpStream, got: &mut Vec<u8>, want: usize, deadline: Instant) -> Result<bool, MeasureError> {
    let mut chunk = vec![0; want];
    loop {
        match kernel::read_some(stream, &mut chunk)? {
            Received::Bytes(n) => {
                got.extend_from_slice(&chunk[..n]);
                return Ok(true);
            }
            Received::End => return Ok(false),
            Received::Nothing => {
                let now = kernel::now();
                if now >= deadline {
                    return Ok(false);
                }
                kernel::wait(stream, false, deadline.saturating_since(now))?;
            }
        }
    }
}

fn read_until_end(stream: &TcpStream, got: &mut Vec<u8>, deadline: Instant) -> Result<bool, MeasureError> {
    while got.len() < 600 && read_more(stream, got, 600, deadline)? {}
    Ok(true)
}

/// Runs the handshake: hello, challenge, request, accept.
fn agree(options: &ClientOptions, target: SocketAddr, stream: TcpStream) -> Result<Opened, MeasureError> {
    let peer = target.to_string();
    let local = stream.local_addr().map_err(|e| kernel::KernelError::new(kernel::Op::Socket, &peer, e))?;
    let half = stream.try_clone().map_err(|e| kernel::KernelError::new(kernel::Op::Socket, &peer, e))?;
    let writer = ControlWriter::new(half, &peer);
    let mut reader = ControlReader::new(stream, &writer, &[]);
    writer.prioritise();
    let client_nonce = random::bytes()?;
    let during = "during the handshake";
    let deadline = kernel::now() + HANDSHAKE_TIMEOUT;
    let answer = hello(&writer, client_nonce).and_then(|()| reader.message(deadline, during));
    let (server_nonce, key_required) = match answer {
        Ok(Message::Challenge { nonce, key_required, .. }) => (nonce, key_required),
        Ok(other) => return Err(MeasureError::unexpected(&peer, other)),
        Err(e) if is_disconnect(&e) => return Ok(Opened::Thrulay(target)),
        // A server of another version rejects the hello with the text of the greeting, which is no frame.
        Err(e @ MeasureError::Protocol { .. }) => {
            let version = wire::NATIVE_VERSION;
            return Err(MeasureError::Unsupported(format!(
                "{peer} does not speak version {version} of the longhaul protocol; use the same release of longhaul at both ends ({e})"
            )));
        }
        Err(e) => return Err(e),
    };
    let prove = |key| {
        let plan = wire::canonical_json(&options.plan).map_err(|e| MeasureError::protocol(&peer, e))?;
        Ok::<_, MeasureError>(wire::client_proof(key, &client_nonce, &server_nonce, &plan))
    };
    // Without a key the client still sends the request, so that the server logs the failure.
    let proof = options.key.as_ref().map(prove).transpose()?;
    writer.send(&Message::Request { plan: options.plan.clone(), proof })?;
    match reader.message(deadline, during)? {
        Message::Accept { session, plan, notes, host, udp_port, proof } => {
            let proves = |key| proof.is_some_and(|p| wire::verify_server(key, &client_nonce, &server_nonce, &p));
            // A server without a key accepts every client; a server with another key is not the intended one.
            if key_required && !options.key.as_ref().is_some_and(proves) {
                return Err(MeasureError::ServerKey(peer));
            }
            wire::validate_plan(&plan)?;
            reader.set_message_size_max(wire::SESSION_BYTES_MAX);
            Ok(Opened::Native(Box::new(Session {
                address: target,
                local,
                writer,
                reader: Some(reader),
                session,
                plan,
                notes,
                server: host,
                udp_port,
                client_nonce,
                server_nonce,
            })))
        }
        Message::Refuse { code: RefuseCode::KeyRequired, .. } => Err(MeasureError::KeyRequired(peer)),
        Message::Refuse { code: RefuseCode::BadKey, .. } => Err(MeasureError::ServerKey(peer)),
        other => Err(MeasureError::unexpected(&peer, other)),
    }
}

fn hello(writer: &ControlWriter, nonce: [u8; 16]) -> Result<(), MeasureError> {
    writer.send_raw(HELLO)?;
    let software = format!("longhaul {VERSION}");
    writer.send(&Message::Hello { version: wire::NATIVE_VERSION, software, nonce, fill: String::new() })
}

/// Whether the peer closed instead of answering, in order or by a reset because part of the hello was unread.
fn is_disconnect(error: &MeasureError) -> bool {
    matches!(error, MeasureError::Closed { .. })
        || matches!(error, MeasureError::Kernel(e) if thrulay::is_disconnect(e))
}

impl Session {
    /// Detaches the reading half for a thread of its own.
    pub(crate) fn split(mut self) -> Result<(Self, ControlReader), MeasureError> {
        let reader = self.reader.take().ok_or_else(|| MeasureError::protocol("client", "the reader is taken"))?;
        Ok((self, reader))
    }

    /// Opens all data connections in parallel threads: on a long path each takes several round trips.
    pub(crate) fn join_all(&self, options: &ClientOptions) -> Result<(Vec<Stream>, Vec<StreamStart>), MeasureError> {
        if udp::is_udp(&self.plan) {
            let mut server = self.address;
            server.set_port(self.udp_port);
            let (streams, starts) = udp::join_all(&self.plan, self.session, self.local, server)?;
            return Ok((streams.into_iter().map(Stream::Udp).collect(), starts));
        }
        let numbers = stream_numbers(&self.plan);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                numbers.iter().map(|(n, d)| scope.spawn(move || self.join(options, *n, *d))).collect();
            threads.into_iter().map(|t| t.join()).collect()
        });
        let mut sockets = Vec::new();
        let mut starts = Vec::new();
        for outcome in outcomes {
            let (socket, start) =
                outcome.map_err(|_| MeasureError::protocol("client", "a connecting thread ended abnormally"))??;
            sockets.push(Stream::Tcp(socket));
            starts.push(start);
        }
        Ok((sockets, starts))
    }

    /// Opens the single stream of a probing session.
    pub(crate) fn join_probes(&self) -> Result<UdpStream, MeasureError> {
        let mut server = self.address;
        server.set_port(self.udp_port);
        let (streams, _) = udp::join_all(&self.plan, self.session, self.local, server)?;
        streams.into_iter().next().ok_or_else(|| MeasureError::protocol("client", "no stream for the probes"))
    }

    fn join(
        &self,
        options: &ClientOptions,
        stream: u32,
        direction: Direction,
    ) -> Result<(StreamSocket, StreamStart), MeasureError> {
        let peer = self.address.to_string();
        let socket = greet(options, self.address, &data::options(&self.plan, End::Client, direction))?;
        let half = socket.try_clone().map_err(|e| kernel::KernelError::new(kernel::Op::Socket, &peer, e))?;
        let writer = ControlWriter::new(half, &peer);
        let clone = socket.try_clone().map_err(|e| kernel::KernelError::new(kernel::Op::Socket, &peer, e))?;
        let mut reader = ControlReader::new(clone, &writer, &[]);
        let proof = options
            .key
            .as_ref()
            .map(|key| wire::join_proof(key, &self.client_nonce, &self.server_nonce, self.session, stream, direction));
        writer.send_raw(HELLO)?;
        writer.send(&Message::Join { session: self.session, stream, direction, proof })?;
        let deadline = kernel::now() + HANDSHAKE_TIMEOUT * 2;
        let (server_buffers, server_cc) = match reader.message(deadline, "while data connections were opened")? {
            Message::Joined { buffers, congestion_control, .. } => (buffers, congestion_control),
            other => return Err(MeasureError::unexpected(&peer, other)),
        };
        if reader.has_unread() {
            return Err(MeasureError::protocol(&peer, "data before the start"));
        }
        // At a high loss rate seven consecutive retransmissions are occasionally lost. The control connection detects a
        // dead peer.
        kernel::clear_user_timeout(&socket);
        let start = self.describe(&socket, stream, direction, server_buffers, server_cc)?;
        let index = stream % self.plan.streams.max(1);
        let sends = direction.sender() == End::Client;
        let budget = self.plan.bytes.filter(|_| sends).map(|b| share_of(b, self.plan.streams, index));
        Ok((StreamSocket { stream, direction, socket, budget }, start))
    }

    fn describe(
        &self,
        socket: &TcpStream,
        stream: u32,
        direction: Direction,
        server_buffers: results::BufferGrant,
        server_cc: Option<String>,
    ) -> Result<StreamStart, MeasureError> {
        let ends = (socket.local_addr().unwrap_or(self.local), self.address);
        let start = data::describe(socket, &self.plan, (stream, direction), ends, server_buffers)?;
        let is_ours = direction.sender() == End::Client;
        let congestion_control = if is_ours { start.congestion_control } else { server_cc };
        Ok(StreamStart { congestion_control, ..start })
    }

    pub(crate) fn local_ip(&self) -> IpAddr {
        address::plain_ip(self.local.ip())
    }
}
