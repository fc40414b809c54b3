//! Handshakes with one peer: when the next one starts, on which path, and which initiations wait for a response.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use route::Path;
use units::Instant;
use wire::overlay::{Cookie, Initiation, Kind, MAC_BYTES, Response};

use crate::handshake::PendingInitiation;
use crate::handshake_limiter::MacKeys;

/// Time from the first initiation to the second; each further interval is half as long again.
const RETRY_INTERVAL: Duration = Duration::from_millis(300);
const RETRY_INTERVAL_MAX: Duration = Duration::from_secs(8);
/// A new session with a peer that holds one by its own initiation is accepted after this time at the earliest.
pub(super) const ACCEPT_INTERVAL: Duration = Duration::from_secs(1);
/// Pending initiations to one peer: the fourth is sent after 1.4 s, twice the round trip over a geostationary
/// satellite.
const PENDING_MAX: usize = 4;
/// Attempts after which a peer counts as absent: 1.4 s have passed.
const ABSENT_AFTER: u32 = 3;
/// Lifetime of a cookie at its receiver, less than the 120 s at its sender.
const COOKIE_LIFETIME: Duration = Duration::from_secs(110);
/// Length of the ephemeral key at the begin of an initiation (Noise revision 34, section 5).
const EPHEMERAL: usize = 32;
/// Initiations of a peer that are remembered: two hours of rekeying. An older one, replayed, makes a session that is
/// never used and makes room for a later one.
const REMEMBERED_MAX: usize = 64;

/// Session numbers of the pending initiations. The receiving threads drop responses and cookies to any other number: a
/// cookie carries no code by which to tell it from a forgery.
#[derive(Default)]
pub(crate) struct PendingHandshakes(RwLock<HashSet<u32>>);

impl PendingHandshakes {
    /// Registers a number for the lifetime of the entry.
    pub(super) fn open(self: &Arc<Self>, number: u32) -> PendingEntry {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(number);
        PendingEntry { number, of: Arc::clone(self) }
    }

    fn has(&self, number: u32) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(&number)
    }
}

/// The number of a pending initiation.
pub(super) struct PendingEntry {
    number: u32,
    of: Arc<PendingHandshakes>,
}

impl Drop for PendingEntry {
    fn drop(&mut self) {
        self.of.0.write().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// Whether a handshake datagram is for the owner of these keys and pending initiations; cheap.
pub(crate) fn is_for(keys: &MacKeys, pending: &PendingHandshakes, datagram: &[u8]) -> bool {
    match Kind::of(datagram) {
        Some(Kind::Initiation) => Initiation::decode(datagram).is_some() && keys.mac1_is_valid(datagram),
        Some(Kind::Response) => {
            Response::decode(datagram).is_some_and(|r| pending.has(r.receiver)) && keys.mac1_is_valid(datagram)
        }
        Some(Kind::Cookie) => Cookie::decode(datagram).is_some_and(|c| pending.has(c.receiver)),
        Some(Kind::Sealed | Kind::Envelope) | None => false,
    }
}

/// An initiation without a response.
pub(super) struct SentInitiation {
    pub(super) state: PendingInitiation,
    pub(super) entry: PendingEntry,
    /// Its first authentication code, to which a cookie is bound.
    pub(super) mac1: [u8; MAC_BYTES],
}

/// See the module.
pub(super) struct PeerHandshakes {
    /// Oldest first. On a long path the response to one comes after the next was sent.
    pending: VecDeque<SentInitiation>,
    cookie: Option<([u8; MAC_BYTES], Instant)>,
    next: Instant,
    attempts: u32,
    /// Known paths tried in this round, and the number of attempts on other paths.
    tried: Vec<Path>,
    guesses: usize,
    /// Time of the last response, and of a later one that could not be decrypted.
    responded: Option<Instant>,
    undecryptable: Option<Instant>,
    /// Local number of the session that seals frames.
    pub(super) session_in_use: Option<u32>,
    /// Ephemeral keys of the peer's last initiations, against replays.
    seen: VecDeque<[u8; EPHEMERAL]>,
}

impl PeerHandshakes {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            pending: VecDeque::new(),
            cookie: None,
            next: now,
            attempts: 0,
            tried: Vec::new(),
            guesses: 0,
            responded: None,
            undecryptable: None,
            session_in_use: None,
            seen: VecDeque::new(),
        }
    }

    /// Whether the time of the next attempt has come.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Attempts since the last response.
    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Time of a response that could not be decrypted, if none could be since.
    pub(super) fn undecryptable(&self) -> Option<Instant> {
        self.undecryptable
    }

    /// Whether a pending initiation has this session number.
    pub(super) fn has_pending(&self, number: u32) -> bool {
        self.pending.iter().any(|sent| sent.entry.number == number)
    }

    /// Number of the latest pending initiation.
    #[cfg(test)]
    pub(super) fn latest_pending(&self) -> Option<u32> {
        self.pending.back().map(|sent| sent.entry.number)
    }

    /// The pending initiation with this session number.
    pub(super) fn pending(&mut self, number: u32) -> Option<&mut SentInitiation> {
        self.pending.iter_mut().find(|sent| sent.entry.number == number)
    }

    /// Adds an initiation that was sent.
    pub(super) fn add_pending(&mut self, sent: SentInitiation) {
        if self.pending.len() == PENDING_MAX {
            self.pending.pop_front();
        }
        self.pending.push_back(sent);
    }

    /// The peer has left: the next attempt waits for one interval.
    pub(super) fn postpone(&mut self, now: Instant) {
        self.next = now + RETRY_INTERVAL;
        self.attempts = 0;
    }

    /// There is news about the peer: the next attempt is due now, with the intervals of the first ones.
    pub(super) fn initiate_now(&mut self, now: Instant) {
        (self.attempts, self.next) = (0, now);
    }

    /// Other members report that the peer is alive: an attempt is due now if it counted as absent.
    pub(super) fn on_alive(&mut self, now: Instant) {
        if self.attempts > ABSENT_AFTER {
            self.initiate_now(now);
        }
    }

    /// Path of the next attempt: known paths in turn, a new one first, and one of the `others` after each round.
    pub(super) fn next_path(&mut self, known: &[Path], others: &[Path]) -> Option<Path> {
        self.tried.retain(|path| known.contains(path));
        let untried = known.iter().find(|path| !self.tried.contains(path)).copied();
        if untried.is_none() {
            self.tried.clear();
            self.guesses += 1;
        }
        let path =
            untried.or_else(|| others.get(self.guesses % others.len().max(1)).or_else(|| known.first()).copied());
        self.tried.extend(path);
        path
    }

    /// Schedules the next attempt; `jitter`: evenly from 0 to 1.
    pub(super) fn schedule(&mut self, now: Instant, jitter: f64) {
        let interval = RETRY_INTERVAL.mul_f64(1.5_f64.powi(self.attempts.min(20) as i32)).min(RETRY_INTERVAL_MAX);
        self.attempts += 1;
        self.next = now + interval.mul_f64(0.75 + 0.5 * jitter);
    }

    /// The peer sent a cookie: the next attempt carries it, now.
    pub(super) fn on_cookie(&mut self, now: Instant, cookie: [u8; MAC_BYTES]) {
        self.cookie = Some((cookie, now));
        self.next = now;
    }

    /// The cookie for the next initiation.
    pub(super) fn cookie(&self, now: Instant) -> Option<[u8; MAC_BYTES]> {
        self.cookie.filter(|(_, at)| now.saturating_since(*at) < COOKIE_LIFETIME).map(|(cookie, _)| cookie)
    }

    /// The peer responded. `has_arrival_since`: whether a frame came since a time. Intervals start again unless the
    /// peer answers handshakes and nothing else.
    pub(super) fn on_response(&mut self, now: Instant, has_arrival_since: impl FnOnce(Instant) -> bool) {
        self.pending.clear();
        self.tried.clear();
        self.undecryptable = None;
        if self.responded.replace(now).is_none_or(has_arrival_since) {
            self.attempts = 0;
        }
    }

    /// A response could not be decrypted.
    pub(super) fn on_undecryptable(&mut self, now: Instant) {
        self.undecryptable = Some(now);
    }

    /// Takes an authentic initiation of the peer. Says whether it is to be answered: it is no replay, and, if both
    /// members initiate at once, it is the one that goes on: that of the member with the higher number.
    pub(super) fn on_initiation(&mut self, now: Instant, initiation: &Initiation, own_is_higher: bool) -> bool {
        let is_first_attempt = !self.pending.is_empty() && self.attempts == 1 && now < self.next;
        let Some(ephemeral) = initiation.noise.first_chunk::<EPHEMERAL>() else { return false };
        if self.seen.contains(ephemeral) {
            return false;
        }
        if self.seen.len() == REMEMBERED_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(*ephemeral);
        !(is_first_attempt && own_is_higher)
    }
}
