use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use measure::{MeasureError, Server, ServerOptions};

use crate::Namespace;

/// Options of a server on a port that the kernel chooses, without a key, and with limits that tests do not reach.
pub fn server_options(bind: IpAddr) -> ServerOptions {
    ServerOptions {
        bind: Some(bind.into()),
        port: 0,
        allow: Vec::new(),
        max_sessions: 64,
        max_sessions_per_address: 64,
        max_memory: units::Bytes::new(4 << 30),
        large_windows: false,
        max_udp_silence: Duration::from_secs(20),
        max_duration: Duration::from_secs(60),
        max_rate: None,
        max_probe_bytes: units::Bytes::new(10_000_000),
        key: None,
        grace: Duration::from_secs(2),
        one_off: false,
    }
}

/// A server in a thread. Dropping the value ends it and its tests.
#[derive(Debug)]
pub struct Served {
    server: Arc<Server>,
    requests: Arc<AtomicUsize>,
    thread: Option<JoinHandle<io::Result<Result<(), MeasureError>>>>,
    port: u16,
}

impl Served {
    /// Starts a server in a namespace.
    ///
    /// # Errors
    /// The server cannot listen.
    pub fn start(at: &Namespace, options: ServerOptions) -> io::Result<Self> {
        let server = Arc::new(at.run(|| Server::bind(options))?.map_err(io::Error::other)?);
        let port = server.local_addr().map_err(io::Error::other)?.port();
        let requests = Arc::new(AtomicUsize::new(0));
        let (running, count) = (Arc::clone(&server), Arc::clone(&requests));
        let thread = at.spawn("server", move || running.run(&|| count.load(Ordering::Relaxed)))?;
        Ok(Self { server, requests, thread: Some(thread), port })
    }

    /// Port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Number of running sessions.
    pub fn sessions(&self) -> usize {
        self.server.sessions()
    }

    /// Waits until `count` sessions run; returns whether this happened within `limit`.
    pub fn has_sessions_within(&self, count: usize, limit: Duration) -> bool {
        holds_within(limit, || self.sessions() == count)
    }

    /// Requests the end like a termination signal: the first call lets sessions finish, the second ends them at once.
    pub fn ask_to_end(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until the server has ended; returns whether this happened within `limit`.
    pub fn has_ended_within(&self, limit: Duration) -> bool {
        holds_within(limit, || self.thread.as_ref().is_none_or(JoinHandle::is_finished))
    }
}

fn holds_within(limit: Duration, condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > limit {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

impl Drop for Served {
    fn drop(&mut self) {
        self.requests.store(2, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The second request ends the server within two seconds.
            let _ = thread.join();
        }
    }
}
