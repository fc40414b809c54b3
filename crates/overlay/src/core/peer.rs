//! Another member of the overlay: its addresses, its sessions, and the monitors of its link and of the paths to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use units::Instant;

use super::capacity::CapacityProber;
use super::endpoint::PeerEndpoint;
use super::handshakes::PeerHandshakes;
use super::link::{HANDSHAKE_AFTER, Link};
use super::path_mtu::PathMtuDiscovery;
use super::paths::PathMonitor;
use super::reassembly::Reassembly;
use crate::handshake_limiter::MacKeys;
use crate::permits::PeerPermits;
use crate::quota::Quota;
use crate::rate_meter::RateMeter;
use crate::sensor::LossSensor;
use crate::session::{REJECT_AFTER, REKEY_AFTER, REKEY_FRAMES, Session};
use crate::settings::MemberSettings;

/// Maximum number of sessions with one peer: the one in use, its predecessor, and some that replayed or forged
/// initiations may have created.
pub(super) const SESSIONS_MAX: usize = 6;
/// A session that carries no frame within this time never will: its initiator sends one as soon as it has the answer.
const CONFIRMATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay of a rekey by the responder of the present session, so that both ends do not start one at once.
const RESPONDER_DELAY: Duration = Duration::from_secs(10);

/// See the module.
pub(super) struct Peer {
    /// Keys of the authentication codes of its handshakes.
    pub(super) mac: MacKeys,
    /// Its static key of the handshake.
    pub(super) exchange: [u8; 32],
    pub(super) endpoint: PeerEndpoint,
    pub(super) handshakes: PeerHandshakes,
    /// In the order of their handshakes.
    pub(super) sessions: Vec<Arc<Session>>,
    pub(super) link: Link,
    pub(super) capacity: CapacityProber,
    pub(super) path_mtu: PathMtuDiscovery,
    pub(super) paths: PathMonitor,
    /// Time of the last verification of a certificate that the peer sent as a member.
    pub(super) certificate_checked: Option<Instant>,
    /// Bound of what this member forwards for the peer.
    pub(super) quota: Arc<Quota>,
    /// Bound of the peer's events in the queue of the control thread.
    pub(super) permits: PeerPermits,
    pub(super) reassembly: Reassembly,
    /// Gossip sent to the peer, IP bytes.
    pub(super) gossip_meter: RateMeter,
}

/// The session in use is another one than before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SessionChange {
    /// Number of the session in use; `None`: there is none any more.
    pub(super) in_use: Option<u32>,
    /// Whether another session was in use before.
    pub(super) again: bool,
}

impl Peer {
    pub(super) fn new(member: &MemberSettings, sensor: Option<LossSensor>, now: Instant) -> Self {
        Self {
            mac: MacKeys::of(&member.key),
            exchange: member.key.exchange(),
            endpoint: PeerEndpoint::new(member.endpoint.as_ref(), now),
            handshakes: PeerHandshakes::new(now),
            sessions: Vec::new(),
            link: Link::new(sensor),
            capacity: CapacityProber::default(),
            path_mtu: PathMtuDiscovery::default(),
            paths: PathMonitor::default(),
            certificate_checked: None,
            quota: Arc::default(),
            permits: PeerPermits::default(),
            reassembly: Reassembly::default(),
            gossip_meter: RateMeter::default(),
        }
    }

    /// The session that seals frames to the peer: the newest one that both ends have and in which the peer sends; if
    /// it sends in none, the newest that both have. If two hosts have the key of the peer, the first one stays the
    /// peer as long as it sends: a silent session may be one with a host that is gone, and a session from elsewhere
    /// one with a copy.
    pub(super) fn session(&self) -> Option<&Arc<Session>> {
        let confirmed = || self.sessions.iter().filter(|s| s.confirmed.load(Ordering::Relaxed));
        let active = || confirmed().filter(|s| self.link.is_active_in(s.local));
        let first = active().next();
        active().rfind(|s| first.is_some_and(|first| !s.is_elsewhere(first))).or_else(|| confirmed().next_back())
    }

    /// The session with this local number.
    pub(super) fn session_by_number(&self, local: u32) -> Option<&Arc<Session>> {
        self.sessions.iter().find(|s| s.local == local)
    }

    /// Drops expired sessions. Says whether one was dropped, and whether another session is in use.
    pub(super) fn refresh_sessions(&mut self, now: Instant) -> (bool, Option<SessionChange>) {
        let before = self.sessions.len();
        self.sessions.retain(|s| now.saturating_since(s.born) < REJECT_AFTER);
        let in_use = self.session().map(|s| s.local);
        let previous = std::mem::replace(&mut self.handshakes.session_in_use, in_use);
        let change = (in_use != previous).then_some(SessionChange { in_use, again: previous.is_some() });
        (self.sessions.len() != before, change)
    }

    /// Whether a new session has to be agreed on.
    pub(super) fn needs_session(&self, now: Instant) -> bool {
        self.session().is_none_or(|s| {
            let age = now.saturating_since(s.born);
            let due = if s.initiator { REKEY_AFTER } else { REKEY_AFTER + RESPONDER_DELAY };
            let is_unanswered = age > HANDSHAKE_AFTER && self.link.is_unanswered(now);
            age > due || s.sent_in_all() > REKEY_FRAMES || is_unanswered
        })
    }

    /// Adds a session; `initiated`: time of the peer's initiation by its own clock, if the peer initiated. `None`:
    /// there is no room.
    ///
    /// Unconfirmed sessions make room first, so that a replayed initiation does not cost a session that works. Of these
    /// the one with the oldest initiation goes, unless the new one is older still: replays must not push out a session
    /// that is about to be confirmed. Sessions that have not been confirmed in time go before all others, as the clock
    /// of their initiator may have been ahead. Of confirmed sessions a silent one goes first.
    pub(super) fn add_session(&mut self, now: Instant, mut session: Session, initiated: Option<u64>) -> Option<()> {
        session.share(&self.permits.windows);
        if self.sessions.len() >= SESSIONS_MAX {
            let unconfirmed = self.sessions.iter().enumerate().filter(|(_, s)| !s.confirmed.load(Ordering::Relaxed));
            let is_young = |s: &Session| now.saturating_since(s.born) < CONFIRMATION_TIMEOUT;
            let first = unconfirmed.map(|(i, s)| (is_young(s), s.called, i)).min();
            if first.is_some_and(|(is_young, first, _)| is_young && initiated.is_some_and(|c| c < first)) {
                return None;
            }
            let silent = || self.sessions.iter().position(|s| !self.link.is_active_in(s.local)).unwrap_or(0);
            let evicted = first.map_or_else(silent, |(.., i)| i);
            self.sessions.remove(evicted);
        }
        self.sessions.push(Arc::new(session));
        Some(())
    }

    /// Moves on to the next address of the peer, which may be behind another link. Says whether there is one.
    pub(super) fn try_next_address(&mut self) -> bool {
        let is_new = self.endpoint.try_next();
        if is_new {
            self.capacity.invalidate();
        }
        is_new
    }
}
