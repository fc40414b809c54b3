//! Who is being served, and the limits on that.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use results::TestPlan;
use wire::RefuseCode;

use super::event::SessionEvent;
use crate::load::stream_numbers;
use crate::udp::{self, Proofs};

/// Connections that have not yet proposed anything, from one address and in all. A client opens up to 256 data
/// connections at once (128 streams in two directions); several clients may do so at the same time.
const UNDECIDED_PER_ADDRESS: usize = 300;
const UNDECIDED: usize = 1024;

/// A session as the data connections that join it see it.
#[derive(Debug, Clone)]
pub(crate) struct Joinable {
    pub(crate) plan: Arc<TestPlan>,
    pub(crate) client_nonce: [u8; 16],
    pub(crate) server_nonce: [u8; 16],
    pub(crate) address: IpAddr,
    /// This host's address that the session reached.
    pub(crate) local: IpAddr,
    /// Where the session's datagrams may go.
    pub(crate) proofs: Arc<Proofs>,
    pub(crate) inbox: mpsc::SyncSender<SessionEvent>,
}

#[derive(Debug, Default)]
struct State {
    sessions: BTreeMap<[u8; 8], Joinable>,
    per_address: BTreeMap<IpAddr, usize>,
    running: usize,
    undecided: BTreeMap<IpAddr, usize>,
    undecided_total: usize,
    closed: bool,
}

/// The sessions of a server.
#[derive(Debug)]
pub(crate) struct Registry {
    state: Arc<Mutex<State>>,
    max: usize,
    max_per_address: usize,
    total: AtomicU64,
    ending: Arc<AtomicU8>,
}

/// Counts a connection as undecided until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    state: Arc<Mutex<State>>,
    address: IpAddr,
}

/// Counts a session until it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    state: Arc<Mutex<State>>,
    address: IpAddr,
    name: Option<[u8; 8]>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // A poisoned lock means that a thread panicked between two field updates; counts stay usable.
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

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut s = lock(&self.state);
        s.undecided_total -= 1;
        decrement(&mut s.undecided, self.address);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut s = lock(&self.state);
        s.running -= 1;
        decrement(&mut s.per_address, self.address);
        if let Some(name) = self.name {
            s.sessions.remove(&name);
        }
    }
}

impl Registry {
    pub(crate) fn new(max: usize, max_per_address: usize) -> Self {
        Self { state: Arc::default(), max, max_per_address, total: AtomicU64::new(0), ending: Arc::default() }
    }

    /// A connection arrived; `None` when too many wait to be decided.
    pub(crate) fn connect(&self, address: IpAddr) -> Option<Ticket> {
        let mut s = lock(&self.state);
        let here = s.undecided.get(&address).copied().unwrap_or(0);
        if here >= UNDECIDED_PER_ADDRESS || s.undecided_total >= UNDECIDED {
            return None;
        }
        s.undecided_total += 1;
        s.undecided.insert(address, here + 1);
        Some(Ticket { state: Arc::clone(&self.state), address })
    }

    /// A session is wanted.
    ///
    /// # Errors
    /// The code and words of the refusal.
    pub(crate) fn seat(&self, address: IpAddr) -> Result<Seat, (RefuseCode, String)> {
        let mut s = lock(&self.state);
        if s.closed {
            return Err((RefuseCode::ShuttingDown, "the server is ending".to_owned()));
        }
        if s.running >= self.max {
            let text = format!("{} tests are running, which is this server's limit; try again later", s.running);
            return Err((RefuseCode::Busy, text));
        }
        let here = s.per_address.get(&address).copied().unwrap_or(0);
        if here >= self.max_per_address {
            let text = format!("{here} tests from {address} are running, which is this server's limit for one address");
            return Err((RefuseCode::TooManyFromAddress, text));
        }
        s.running += 1;
        s.per_address.insert(address, here + 1);
        self.total.fetch_add(1, Ordering::Relaxed);
        Ok(Seat { state: Arc::clone(&self.state), address, name: None })
    }

    /// Lets data connections find the session of `seat`.
    pub(crate) fn open(&self, seat: &mut Seat, name: [u8; 8], joinable: Joinable) {
        seat.name = Some(name);
        lock(&self.state).sessions.insert(name, joinable);
    }

    /// The session of that name.
    pub(crate) fn find(&self, name: [u8; 8]) -> Option<Joinable> {
        lock(&self.state).sessions.get(&name).cloned()
    }

    /// The UDP session and its stream that a datagram's token names.
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

    /// Sessions that run now.
    pub(crate) fn sessions(&self) -> usize {
        lock(&self.state).running
    }

    /// Sessions since the start.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// No more sessions.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.ending.fetch_max(1, Ordering::Relaxed);
    }

    /// Running sessions end now.
    pub(crate) fn break_off(&self) {
        self.ending.fetch_max(2, Ordering::Relaxed);
    }

    /// Whether running sessions must end now.
    pub(crate) fn is_broken_off(&self) -> bool {
        self.ending.load(Ordering::Relaxed) >= 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_and_what_ends_is_given_back() {
        let r = Registry::new(2, 1);
        let (a, b, c) = (IpAddr::from([1, 1, 1, 1]), IpAddr::from([2, 2, 2, 2]), IpAddr::from([3, 3, 3, 3]));
        let seat = r.seat(a).unwrap();
        assert_eq!(r.seat(a).unwrap_err().0, RefuseCode::TooManyFromAddress);
        let other = r.seat(b).unwrap();
        assert_eq!(r.seat(c).unwrap_err().0, RefuseCode::Busy);
        drop(seat);
        drop(other);
        assert_eq!(r.sessions(), 0);
        assert!(r.seat(a).is_ok());
        r.close();
        assert_eq!(r.seat(c).unwrap_err().0, RefuseCode::ShuttingDown);
    }

    #[test]
    fn undecided_connections_are_bounded_per_address() {
        let r = Registry::new(1, 1);
        let a = IpAddr::from([1, 1, 1, 1]);
        let mut tickets: Vec<_> = (0..UNDECIDED_PER_ADDRESS).map(|_| r.connect(a).unwrap()).collect();
        assert!(r.connect(a).is_none());
        assert!(r.connect(IpAddr::from([2, 2, 2, 2])).is_some());
        tickets.pop();
        assert!(r.connect(a).is_some());
    }
}
