//! The end that answers: `longhaul serve`.

mod connection;
mod event;
mod log_limit;
mod memory;
pub(crate) mod registry;
mod session;
mod undecided;

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
pub(crate) use registry::{Joinable, Seat};
pub(crate) use registry::{Registry, RegistryLimits};

/// How a server is to behave.
#[derive(Debug)]
pub struct ServerOptions {
    /// Address to listen on; all addresses of both families when absent.
    pub bind: Option<LocalAddress>,
    /// Port for TCP and UDP; 0 lets the kernel choose.
    pub port: u16,
    /// Networks that may use the server; everyone when empty.
    pub allow: Vec<IpNet>,
    /// Most sessions at once.
    pub max_sessions: usize,
    /// Most sessions at once from one address; IPv6 addresses count by their first 64 bits.
    pub max_sessions_per_address: usize,
    /// Most memory that all sessions together may need in this process. Socket buffers are the kernel's and not part of it.
    pub max_memory: Bytes,
    /// Whether clients may have socket buffers beyond the kernel's limits for them, where this process may give such (CAP_NET_ADMIN).
    pub large_windows: bool,
    /// How long a UDP session in which this end receives goes on without a datagram.
    pub max_udp_silence: Duration,
    /// Longest test.
    pub max_duration: Duration,
    /// Highest rate of a session, all streams of a direction together.
    pub max_rate: Option<Rate>,
    /// Most bytes of probes in a session, both directions together; none are answered when zero.
    pub max_probe_bytes: Bytes,
    /// Key that clients must hold.
    pub key: Option<Key>,
    /// How long running tests may go on after SIGTERM, and what is under way after a test.
    pub grace: Duration,
    /// Serve one session, then end.
    pub one_off: bool,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    /// On the same port; only for the address validation, each stream has a socket of its own.
    datagrams: UdpSocket,
    shared: Arc<Shared>,
}

/// What all connections of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: ServerOptions,
    pub(crate) registry: Registry,
    pub(crate) port: u16,
    /// Lines about connections and sessions that were refused.
    pub(crate) refusals: LogLimit,
    /// Lines about keys that were not proven.
    pub(crate) failures: LogLimit,
}

/// Receive buffer of the address validation: some hundred questions, so that a flood is dropped in the kernel.
const DATAGRAM_BUFFER: Bytes = Bytes::new(256 << 10);

/// Attempts to find a port that is free for TCP and UDP when any will do.
const PORT_ATTEMPTS: usize = 16;

/// How often the accept loop looks for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Server {
    /// Opens the sockets.
    ///
    /// # Errors
    /// The address is taken or not this host's.
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

    /// Where it listens.
    ///
    /// # Errors
    /// getsockname(2) failed.
    pub fn local_addr(&self) -> Result<SocketAddr, MeasureError> {
        Ok(self.listener.local_addr().map_err(|e| KernelError::new(Op::Listen, self.shared.port, e))?)
    }

    /// Sessions that run now.
    pub fn sessions(&self) -> usize {
        self.shared.registry.sessions()
    }

    /// Serves until `asked` tells that the process should end: then lets running tests end within the grace time; a
    /// second request ends them at once.
    ///
    /// # Errors
    /// The listener failed for good.
    pub fn run(&self, asked: &dyn Fn() -> usize) -> Result<(), MeasureError> {
        let secret = AddressSecret::new(&random::bytes()?);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let admit = || udp::admit(&self.shared.registry, &secret, &self.datagrams, &ended);
            let started = std::thread::Builder::new().name("udp".to_owned()).spawn_scoped(scope, admit);
            let outcome = match started {
                Ok(_) => self.accept(asked),
                Err(e) => Err(KernelError::new(Op::Thread, "UDP", e).into()),
            };
            ended.store(true, Ordering::Relaxed);
            outcome
        })
    }

    fn accept(&self, asked: &dyn Fn() -> usize) -> Result<(), MeasureError> {
        let mut served = false;
        while asked() == 0 {
            if self.shared.options.one_off && served && self.shared.registry.sessions() == 0 {
                return Ok(());
            }
            kernel::wait(&self.listener, false, LOOK_EVERY)?;
            self.shared.log_suppressed();
            while asked() == 0 {
                match self.listener.accept() {
                    Ok((stream, peer)) => self.admit(stream, address::plain(peer)),
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(e) => {
                        // Out of descriptors, or the peer gave up meanwhile: both pass.
                        warn!(error = %e, "a connection could not be accepted");
                        kernel::sleep_for(LOOK_EVERY);
                        break;
                    }
                }
            }
            served |= self.shared.registry.total() > 0;
        }
        self.wind_down(asked);
        Ok(())
    }

    fn wind_down(&self, asked: &dyn Fn() -> usize) {
        let registry = &self.shared.registry;
        registry.close();
        info!(running = registry.sessions(), grace_s = self.shared.options.grace.as_secs(), "ending");
        let give_up = kernel::now() + self.shared.options.grace;
        while registry.sessions() > 0 && kernel::now() < give_up && asked() < 2 {
            kernel::sleep_for(LOOK_EVERY);
        }
        registry.break_off();
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
        let ticket = match stream.try_clone() {
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
            .spawn(move || connection::handle(&shared, stream, peer, ticket));
        if let Err(e) = spawned {
            warn!(%peer, error = %e, "no thread for a connection");
        }
    }
}

impl Shared {
    /// Writes a line about something that was refused, unless too many were written of late.
    pub(crate) fn log_refusal(&self, line: impl FnOnce()) {
        if self.refusals.permits(kernel::now()) {
            line();
        }
    }

    /// Logs that `peer` did not prove the key.
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

/// Both sockets on one port: the one that was asked for, or any that is free for both.
fn open_sockets(options: &ServerOptions) -> Result<(TcpListener, UdpSocket, SocketAddr), MeasureError> {
    let mut attempts = if options.port == 0 { PORT_ATTEMPTS } else { 1 };
    loop {
        let listener = kernel::listen(options.bind, options.port)?;
        let local = listener.local_addr().map_err(|e| KernelError::new(Op::Listen, options.port, e))?;
        attempts -= 1;
        match kernel::udp_socket(local, true, DATAGRAM_BUFFER, None) {
            Ok(socket) => {
                socket.set_nonblocking(true).map_err(|e| KernelError::new(Op::Socket, local, e))?;
                return Ok((listener, socket, local));
            }
            Err(_) if attempts > 0 => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Turns a connection away in the greeting, which clients of both protocols read.
pub(crate) fn reject(stream: &TcpStream, reason: &str) {
    // A new connection's empty socket buffer takes this without waiting.
    let _ = kernel::send_some(stream, &encode_rejection(reason), false);
    let _ = stream.shutdown(std::net::Shutdown::Write);
}
