//! Sessions and pending connections of a server, and their limits.

use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use results::TestPlan;
use units::Bytes;
use wire::{RefuseCode, counted_network};

use super::event::SessionEvent;
use super::pending::PendingConnections;
use crate::load::stream_numbers;
use crate::udp::{self, Proofs};

/// Parameters of a session for the data connections that join it.
#[derive(Debug, Clone)]
pub(crate) struct Joinable {
    pub(crate) plan: Arc<TestPlan>,
    pub(crate) client_nonce: [u8; 16],
    pub(crate) server_nonce: [u8; 16],
    pub(crate) address: IpAddr,
    /// Local address of the session.
    pub(crate) local: IpAddr,
    /// Validated destinations of the session's datagrams.
    pub(crate) proofs: Arc<Proofs>,
    pub(crate) inbox: mpsc::SyncSender<SessionEvent>,
}

#[derive(Debug, Default)]
struct State {
    sessions: BTreeMap<[u8; 8], Joinable>,
    per_network: BTreeMap<IpAddr, usize>,
    running: usize,
    /// Maximum memory of all running sessions together.
    memory: Bytes,
    pending: PendingConnections<TcpStream>,
    closed: bool,
}

/// Limits on concurrent sessions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RegistryLimits {
    /// Maximum number of sessions.
    pub(crate) sessions: usize,
    /// Maximum number of sessions of one network ([`counted_network`]).
    pub(crate) sessions_per_network: usize,
    /// Maximum memory of all sessions together.
    pub(crate) memory: Bytes,
}

/// The sessions of a server.
#[derive(Debug)]
pub(crate) struct Registry {
    state: Arc<Mutex<State>>,
    limits: RegistryLimits,
    total: AtomicU64,
    ending: Arc<AtomicU8>,
}

/// Counts a connection as pending until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    state: Arc<Mutex<State>>,
    network: IpAddr,
    number: u64,
}

/// Counts a session until it is dropped.
#[derive(Debug)]
pub(crate) struct SessionPermit {
    state: Arc<Mutex<State>>,
    network: IpAddr,
    memory: Bytes,
    name: Option<[u8; 8]>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // A lock is poisoned if a thread panicked between two field updates; the counts stay usable.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn decrement(map: &mut BTreeMap<IpAddr, usize>, address: IpAddr) {
    if let Some(n) = map.get_mut(&address) {
        *n -= 1;
        if *n == 0 {
            map.remove(&address);
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        lock(&self.state).pending.remove(self.network, self.number);
    }
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        let mut s = lock(&self.state);
        s.running -= 1;
        s.memory = s.memory.saturating_sub(self.memory);
        decrement(&mut s.per_network, self.network);
        if let Some(name) = self.name {
            s.sessions.remove(&name);
        }
    }
}

impl Registry {
    pub(crate) fn new(limits: RegistryLimits) -> Self {
        Self { state: Arc::default(), limits, total: AtomicU64::new(0), ending: Arc::default() }
    }

    /// Registers a new connection; `closer` is another handle to it. Above the limit on pending connections, the oldest
    /// one of the busiest network is closed.
    pub(crate) fn connect(&self, address: IpAddr, closer: TcpStream) -> ConnectionPermit {
        let network = counted_network(address);
        let (number, evicted) = lock(&self.state).pending.add(network, closer);
        if let Some(evicted) = evicted {
            // Wakes the connection's thread, which then ends.
            let _ = evicted.shutdown(Shutdown::Both);
        }
        ConnectionPermit { state: Arc::clone(&self.state), network, number }
    }

    /// Admits a session that may need up to `memory`.
    ///
    /// # Errors
    /// Code and text of the refusal.
    pub(crate) fn admit(&self, address: IpAddr, memory: Bytes) -> Result<SessionPermit, (RefuseCode, String)> {
        let network = counted_network(address);
        let limits = &self.limits;
        let mut s = lock(&self.state);
        if s.closed {
            return Err((RefuseCode::ShuttingDown, "the server is ending".to_owned()));
        }
        if s.running >= limits.sessions {
            let text = format!("{} tests are running, which is this server's limit; try again later", s.running);
            return Err((RefuseCode::Busy, text));
        }
        let here = s.per_network.get(&network).copied().unwrap_or(0);
        if here >= limits.sessions_per_network {
            let text = format!("{here} tests from {network} are running, which is this server's limit for one address");
            return Err((RefuseCode::TooManyFromAddress, text));
        }
        let needed = Bytes::new(s.memory.as_u64().saturating_add(memory.as_u64()));
        if needed > limits.memory {
            let (used, max) = (s.memory, limits.memory);
            return Err(if memory > max {
                let text = format!(
                    "this test may need {memory} of memory, this server has {max} for all tests; use fewer streams"
                );
                (RefuseCode::NotAllowed, text)
            } else {
                let text = format!(
                    "this test may need {memory} of memory, and the running tests have {used} of this server's {max}; \
                     use fewer streams or try again later"
                );
                (RefuseCode::Busy, text)
            });
        }
        s.running += 1;
        s.memory = needed;
        s.per_network.insert(network, here + 1);
        self.total.fetch_add(1, Ordering::Relaxed);
        Ok(SessionPermit { state: Arc::clone(&self.state), network, memory, name: None })
    }

    /// Makes the session of `permit` visible to data connections.
    pub(crate) fn open(&self, permit: &mut SessionPermit, name: [u8; 8], joinable: Joinable) {
        permit.name = Some(name);
        lock(&self.state).sessions.insert(name, joinable);
    }

    /// Returns the session with this identifier.
    pub(crate) fn find(&self, name: [u8; 8]) -> Option<Joinable> {
        lock(&self.state).sessions.get(&name).cloned()
    }

    /// Returns the UDP session and the stream that a datagram's token identifies.
    pub(crate) fn find_stream(&self, token: [u8; 8]) -> Option<(Joinable, u32)> {
        let [head @ .., _] = token;
        let [a, b, c, d, e, f, g] = head;
        let range = [a, b, c, d, e, f, g, 0]..=[a, b, c, d, e, f, g, 255];
        let sessions = lock(&self.state);
        let mut candidates = sessions.sessions.range(range).filter(|(_, s)| udp::is_udp(&s.plan));
        candidates.find_map(|(name, session)| {
            let stream = wire::token_stream(*name, token)?;
            let planned = stream_numbers(&session.plan).iter().any(|(n, _)| *n == stream);
            planned.then(|| (session.clone(), stream))
        })
    }

    /// Number of running sessions.
    pub(crate) fn sessions(&self) -> usize {
        lock(&self.state).running
    }

    /// Number of sessions since the start of the server.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Refuses further sessions.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.ending.fetch_max(1, Ordering::Relaxed);
    }

    /// Ends the running sessions at once.
    pub(crate) fn abort(&self) {
        self.ending.fetch_max(2, Ordering::Relaxed);
    }

    /// Whether running sessions must end at once.
    pub(crate) fn is_aborted(&self) -> bool {
        self.ending.load(Ordering::Relaxed) >= 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RegistryLimits = RegistryLimits { sessions: 2, sessions_per_network: 1, memory: Bytes::new(1000) };

    #[test]
    fn limits_are_enforced_and_ended_sessions_are_released() {
        let r = Registry::new(LIMITS);
        let (a, b, c) = (IpAddr::from([1, 1, 1, 1]), IpAddr::from([2, 2, 2, 2]), IpAddr::from([3, 3, 3, 3]));
        let small = Bytes::new(1);
        let permit = r.admit(a, small).unwrap();
        assert_eq!(r.admit(a, small).unwrap_err().0, RefuseCode::TooManyFromAddress);
        let other = r.admit(b, small).unwrap();
        assert_eq!(r.admit(c, small).unwrap_err().0, RefuseCode::Busy);
        drop(permit);
        drop(other);
        assert_eq!(r.sessions(), 0);
        assert!(r.admit(a, small).is_ok());
        r.close();
        assert_eq!(r.admit(c, small).unwrap_err().0, RefuseCode::ShuttingDown);
    }

    #[test]
    fn the_memory_of_all_sessions_is_bounded() {
        let r = Registry::new(RegistryLimits { sessions: 64, sessions_per_network: 64, ..LIMITS });
        let a = IpAddr::from([1, 1, 1, 1]);
        let (code, text) = r.admit(a, Bytes::new(1001)).unwrap_err();
        assert_eq!(code, RefuseCode::NotAllowed, "waiting cannot help: {text}");
        let permit = r.admit(a, Bytes::new(600)).unwrap();
        let (code, text) = r.admit(a, Bytes::new(401)).unwrap_err();
        assert_eq!(code, RefuseCode::Busy, "{text}");
        assert!(text.contains("fewer streams"), "{text}");
        let _other = r.admit(a, Bytes::new(400)).unwrap();
        drop(permit);
        assert!(r.admit(a, Bytes::new(600)).is_ok());
    }

    #[test]
    fn all_ipv6_addresses_of_a_network_share_one_limit() {
        let r = Registry::new(RegistryLimits { sessions: 64, ..LIMITS });
        let at = |text: &str| r.admit(text.parse().unwrap(), Bytes::new(1));
        let _seat = at("2001:db8::1").unwrap();
        assert_eq!(at("2001:db8::2").unwrap_err().0, RefuseCode::TooManyFromAddress);
        assert!(at("2001:db8:0:1::1").is_ok());
    }
}
