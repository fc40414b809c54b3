//! Server: `longhaul serve`.

mod connection;
mod event;
mod log_limit;
mod memory;
mod pending;
pub(crate) mod registry;
mod session;

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ipnet::IpNet;
use kernel::{KernelError, LocalAddress, Op};
use tracing::{info, warn};
use units::{Bytes, Rate};
use wire::{AddressSecret, Key, encode_rejection};

use crate::{MeasureError, address, random, udp};
pub(crate) use log_limit::LogLimit;
pub(crate) use memory::{THRULAY_MEMORY, memory_of};
#[cfg(test)]
pub(crate) use registry::{Joinable, SessionPermit};
pub(crate) use registry::{Registry, RegistryLimits};

/// Configuration of a server.
#[derive(Debug)]
pub struct ServerOptions {
    /// Address to listen on; absent: all addresses of both families.
    pub bind: Option<LocalAddress>,
    /// Port for TCP and UDP; 0 lets the kernel choose.
    pub port: u16,
    /// Networks that may use the server; empty: all.
    pub allow: Vec<IpNet>,
    /// Maximum number of concurrent sessions.
    pub max_sessions: usize,
    /// Maximum number of concurrent sessions from one address; IPv6 addresses count by their first 64 bits.
    pub max_sessions_per_address: usize,
    /// Maximum memory of all sessions together in this process, without the kernel's socket buffers.
    pub max_memory: Bytes,
    /// Whether clients may have socket buffers beyond the kernel's limits, if this process may set them
    /// (CAP_NET_ADMIN).
    pub large_windows: bool,
    /// Maximum time without a datagram in a UDP session in which this end receives.
    pub max_udp_silence: Duration,
    /// Maximum duration of a test.
    pub max_duration: Duration,
    /// Maximum rate of a session, all streams of a direction together.
    pub max_rate: Option<Rate>,
    /// Maximum bytes of probes in a session, both directions together; 0 disables probes.
    pub max_probe_bytes: Bytes,
    /// Key that clients must hold.
    pub key: Option<Key>,
    /// Time for running tests to end after SIGTERM, and for data in flight after a test.
    pub grace: Duration,
    /// End after one session.
    pub one_off: bool,
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    /// Socket on the same port for the address validation only; each stream has a socket of its own.
    datagrams: UdpSocket,
    shared: Arc<Shared>,
}

/// State that all connections of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: ServerOptions,
    pub(crate) registry: Registry,
    pub(crate) port: u16,
    /// Limit for log lines about refused connections and sessions.
    pub(crate) refusals: LogLimit,
    /// Limit for log lines about failed authentications.
    pub(crate) failures: LogLimit,
}

/// Size of the receive buffer of the address validation: some hundred requests, so that the kernel drops a flood.
const DATAGRAM_BUFFER_BYTES: Bytes = Bytes::new(256 << 10);

/// Maximum number of attempts to find a port that is free for TCP and UDP.
const PORT_ATTEMPTS_MAX: usize = 16;

/// Interval at which the accept loop detects a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl Server {
    /// Opens the sockets.
    ///
    /// # Errors
    /// The address is in use or does not belong to this host.
    pub fn bind(options: ServerOptions) -> Result<Self, MeasureError> {
        let (listener, datagrams, local) = open_sockets(&options)?;
        let registry = Registry::new(RegistryLimits {
            sessions: options.max_sessions,
            sessions_per_network: options.max_sessions_per_address,
            memory: options.max_memory,
        });
        let (refusals, failures) = (LogLimit::default(), LogLimit::default());
        let shared = Arc::new(Shared { options, registry, port: local.port(), refusals, failures });
        Ok(Self { listener, datagrams, shared })
    }

    /// Address and port of the listener.
    ///
    /// # Errors
    /// getsockname(2) failed.
    pub fn local_addr(&self) -> Result<SocketAddr, MeasureError> {
        Ok(self.listener.local_addr().map_err(|e| KernelError::new(Op::Listen, self.shared.port, e))?)
    }

    /// Number of running sessions.
    pub fn sessions(&self) -> usize {
        self.shared.registry.sessions()
    }

    /// Serves until `stop_requests` returns a request to end. Running tests then end within the grace time; a second
    /// request ends them at once.
    ///
    /// # Errors
    /// The listener failed permanently.
    pub fn run(&self, stop_requests: &dyn Fn() -> usize) -> Result<(), MeasureError> {
        let secret = AddressSecret::new(&random::bytes()?);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let admit = || udp::admit(&self.shared.registry, &secret, &self.datagrams, &ended);
            let started = std::thread::Builder::new().name("udp".to_owned()).spawn_scoped(scope, admit);
            let outcome = match started {
                Ok(_) => self.accept(stop_requests),
                Err(e) => Err(KernelError::new(Op::Thread, "UDP", e).into()),
            };
            ended.store(true, Ordering::Relaxed);
            outcome
        })
    }

    fn accept(&self, stop_requests: &dyn Fn() -> usize) -> Result<(), MeasureError> {
        let mut served = false;
        while stop_requests() == 0 {
            if self.shared.options.one_off && served && self.shared.registry.sessions() == 0 {
                return Ok(());
            }
            kernel::wait(&self.listener, false, POLL_INTERVAL)?;
            self.shared.log_suppressed();
            while stop_requests() == 0 {
                match self.listener.accept() {
                    Ok((stream, peer)) => self.admit(stream, address::plain(peer)),
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(e) => {
                        // Both causes are temporary: no free descriptor, or a peer that closed before the accept.
                        warn!(error = %e, "a connection could not be accepted");
                        kernel::sleep_for(POLL_INTERVAL);
                        break;
                    }
                }
            }
            served |= self.shared.registry.total() > 0;
        }
        self.wind_down(stop_requests);
        Ok(())
    }

    fn wind_down(&self, stop_requests: &dyn Fn() -> usize) {
        let registry = &self.shared.registry;
        registry.close();
        info!(running = registry.sessions(), grace_s = self.shared.options.grace.as_secs(), "ending");
        let give_up = kernel::now() + self.shared.options.grace;
        while registry.sessions() > 0 && kernel::now() < give_up && stop_requests() < 2 {
            kernel::sleep_for(POLL_INTERVAL);
        }
        registry.abort();
        let give_up = kernel::now() + Duration::from_secs(2);
        while registry.sessions() > 0 && kernel::now() < give_up {
            kernel::sleep_for(Duration::from_millis(10));
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) {
        let shared = &self.shared;
        let allow = &shared.options.allow;
        if !allow.is_empty() && !allow.iter().any(|n| n.contains(&peer.ip())) {
            shared.log_refusal(|| info!(%peer, "refused: not on the allow list"));
            reject(&stream, "your address is not on this server's allow list");
            return;
        }
        let permit = match stream.try_clone() {
            Ok(closer) => shared.registry.connect(peer.ip(), closer),
            Err(e) => {
                shared.log_refusal(|| warn!(%peer, error = %e, "refused: no descriptor is free"));
                reject(&stream, "the server has too many connections");
                return;
            }
        };
        let shared = Arc::clone(shared);
        let spawned = std::thread::Builder::new()
            .name("connection".to_owned())
            .stack_size(512 << 10)
            .spawn(move || connection::handle(&shared, stream, peer, permit));
        if let Err(e) = spawned {
            warn!(%peer, error = %e, "no thread for a connection");
        }
    }
}

impl Shared {
    /// Logs a refusal, unless the limit of log lines is reached.
    pub(crate) fn log_refusal(&self, line: impl FnOnce()) {
        if self.refusals.permits(kernel::now()) {
            line();
        }
    }

    /// Logs that `peer` failed to prove the key.
    pub(crate) fn log_failed_authentication(&self, peer: SocketAddr, reason: &str) {
        if self.failures.permits(kernel::now()) {
            warn!(%peer, reason, "authentication failed");
        }
    }

    fn log_suppressed(&self) {
        let now = kernel::now();
        if let Some(lines) = self.refusals.take_suppressed(now) {
            info!(lines, "more connections and sessions were refused, not logged");
        }
        if let Some(lines) = self.failures.take_suppressed(now) {
            warn!(lines, "more authentications failed, not logged");
        }
    }
}

/// Opens both sockets on one port: the requested one, or any that is free for both.
fn open_sockets(options: &ServerOptions) -> Result<(TcpListener, UdpSocket, SocketAddr), MeasureError> {
    let mut attempts = if options.port == 0 { PORT_ATTEMPTS_MAX } else { 1 };
    loop {
        let listener = kernel::listen(options.bind, options.port)?;
        let local = listener.local_addr().map_err(|e| KernelError::new(Op::Listen, options.port, e))?;
        attempts -= 1;
        match kernel::udp_socket(local, true, DATAGRAM_BUFFER_BYTES, None) {
            Ok(socket) => {
                socket.set_nonblocking(true).map_err(|e| KernelError::new(Op::Socket, local, e))?;
                return Ok((listener, socket, local));
            }
            Err(_) if attempts > 0 => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Rejects a connection in the greeting, which clients of both protocols read.
pub(crate) fn reject(stream: &TcpStream, reason: &str) {
    // The empty socket buffer of a new connection takes this text without waiting.
    let _ = kernel::send_some(stream, &encode_rejection(reason), false);
    let _ = stream.shutdown(std::net::Shutdown::Write);
}
