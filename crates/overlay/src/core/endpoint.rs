//! The addresses of a peer: the one in use, those that may replace it, and the host name behind them.
//!
//! A host name is looked up for as long as the direct link to its peer is down: the resolver may be late, and the
//! address behind a name may change.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use route::Member;
use units::Instant;

use crate::settings::{Endpoint, HostPort};

/// First interval between two lookups of a name; handshakes are 8 s apart by then. It doubles as long as the name leads
/// to the same addresses: the peer may be reachable over relays only.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(8);
const LOOKUP_INTERVAL_MAX: Duration = Duration::from_secs(64);
/// Addresses of one name that are tried in turn, as hosts have one or two in each family; also learned addresses that
/// are tried at once.
const ADDRESSES_MAX: usize = 8;
/// Minimum interval between two changes of address that follow a peer's datagrams: each one publishes a new forwarding
/// table.
pub(super) const MOVE_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum interval between two advertisements of another address of a peer. A peer that sends from two addresses in
/// turn would otherwise have every member sign and forward records about it.
const ADVERTISE_INTERVAL: Duration = Duration::from_secs(5);

/// A host name with its lookups.
struct EndpointName {
    name: HostPort,
    /// Time of the next lookup; `None`: a lookup is under way.
    next_lookup: Option<Instant>,
    /// Interval from the next answer to the lookup after it.
    interval: Duration,
    addresses: Vec<SocketAddr>,
    /// Error of the last lookup.
    error: Option<String>,
}

impl EndpointName {
    fn of(endpoint: Option<&Endpoint>, now: Instant) -> Option<Self> {
        let Endpoint::Name(name) = endpoint?.clone() else { return None };
        let (interval, addresses, error) = (LOOKUP_INTERVAL, Vec::new(), None);
        Some(Self { name, next_lookup: Some(now), interval, addresses, error })
    }

    /// The address after `current` in turn.
    fn address_after(&self, current: Option<SocketAddr>) -> Option<SocketAddr> {
        let next = self.addresses.iter().position(|a| Some(*a) == current).map_or(0, |at| at + 1);
        self.addresses.get(next).or_else(|| self.addresses.first()).copied()
    }
}

/// Addresses of a peer that other members advertise, one from each: behind a NAT they differ from those outside.
#[derive(Default)]
struct LearnedAddresses {
    by: BTreeMap<Member, SocketAddr>,
    /// Time of the next attempt while the direct link is down. The interval does not depend on how often a member
    /// changes its advertisement.
    next: Option<Instant>,
    turn: usize,
}

/// Result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// The answer belongs to a name that the peer no longer has, or changes nothing.
    Unchanged,
    /// The lookup failed for another reason than before.
    Failed(String),
    /// Datagrams go to another address now; `is_elsewhere`: the name no longer has the address that was in use.
    Moved { is_elsewhere: bool },
}

/// The addresses of a peer.
pub(super) struct PeerEndpoint {
    /// Destination of direct datagrams.
    pub(super) current: Option<SocketAddr>,
    /// Address in the settings.
    configured: Option<SocketAddr>,
    /// Source address of the last authentic frames of the peer.
    confirmed: Option<SocketAddr>,
    /// Address advertised to other members, and since when.
    advertised: Option<(SocketAddr, Instant)>,
    name: Option<EndpointName>,
    learned: LearnedAddresses,
    /// When the peer last moved to another address.
    moved: Option<Instant>,
}

impl PeerEndpoint {
    /// The addresses by the settings.
    pub(super) fn new(endpoint: Option<&Endpoint>, now: Instant) -> Self {
        let configured = configured(endpoint);
        Self {
            current: configured,
            configured,
            confirmed: None,
            advertised: None,
            name: EndpointName::of(endpoint, now),
            learned: LearnedAddresses::default(),
            moved: None,
        }
    }

    /// Keeps the address in use only.
    #[cfg(test)]
    pub(super) fn forget_configured(&mut self) {
        self.configured = None;
    }

    /// Takes the endpoint of new settings. The caller restarts handshakes if the link is down; an address that works is
    /// kept.
    pub(super) fn configure(&mut self, now: Instant, endpoint: Option<&Endpoint>, link_is_up: bool) {
        self.configured = configured(endpoint);
        self.name = EndpointName::of(endpoint, now);
        if !link_is_up {
            self.current = self.configured.or(self.confirmed);
        }
    }

    /// A name to look up now.
    pub(super) fn poll_lookup(&mut self, now: Instant, link_is_up: bool) -> Option<HostPort> {
        let name = self.name.as_mut()?;
        if link_is_up {
            name.interval = LOOKUP_INTERVAL;
            return None;
        }
        name.next_lookup.take_if(|at| *at <= now).map(|_| name.name.clone())
    }

    /// The resolver answers. A name that leads elsewhere is followed at once while the link is down.
    pub(super) fn on_lookup(
        &mut self,
        now: Instant,
        asked: &HostPort,
        found: Result<Vec<SocketAddr>, String>,
        link_is_up: bool,
    ) -> Lookup {
        let Some(name) = self.name.as_mut().filter(|name| name.name == *asked) else { return Lookup::Unchanged };
        let interval = std::mem::replace(&mut name.interval, LOOKUP_INTERVAL);
        name.next_lookup = Some(now + interval);
        match found.and_then(|f| if f.is_empty() { Err("it has no address".to_owned()) } else { Ok(f) }) {
            Ok(mut addresses) => {
                name.error = None;
                addresses.truncate(ADDRESSES_MAX);
                let is_elsewhere = self.current.is_none_or(|current| !addresses.contains(&current));
                name.addresses = addresses;
                if !is_elsewhere {
                    name.interval = (2 * interval).min(LOOKUP_INTERVAL_MAX);
                }
                // A peer with a session over relays gets no handshakes, and its probes go to the address of the last
                // one.
                if !link_is_up && self.try_next() { Lookup::Moved { is_elsewhere } } else { Lookup::Unchanged }
            }
            Err(why) if name.error.as_ref() != Some(&why) => {
                name.error = Some(why.clone());
                Lookup::Failed(why)
            }
            Err(_) => Lookup::Unchanged,
        }
    }

    /// Goes on to another address of the name, as addresses of one family may be unreachable, or takes turns between
    /// the configured and the confirmed address. Says whether the address is another one.
    pub(super) fn try_next(&mut self) -> bool {
        let next = match (&self.name, self.configured) {
            (Some(name), _) => name.address_after(self.current),
            (None, Some(configured)) if self.current != Some(configured) => Some(configured),
            (None, _) => self.confirmed,
        };
        let is_new = next.is_some() && next != self.current;
        if is_new {
            self.current = next;
        }
        is_new
    }

    /// `by` advertises an address of the peer, or withdraws it. Nothing but handshakes and probes goes to it before an
    /// answer comes from there.
    pub(super) fn learn(&mut self, by: Member, address: Option<SocketAddr>) {
        self.current = self.current.or(address);
        match address {
            Some(address) => {
                self.learned.by.insert(by, address);
            }
            None => self.forget_learned(by),
        }
    }

    /// Drops the advertisement of a member.
    pub(super) fn forget_learned(&mut self, by: Member) {
        self.learned.by.remove(&by);
    }

    /// Learned addresses to try now, because the direct link has been down for one interval.
    pub(super) fn poll_learned(&mut self, now: Instant, link_is_up: bool) -> Vec<SocketAddr> {
        let learned = &mut self.learned;
        if learned.by.is_empty() || !link_is_up && learned.next.is_some_and(|at| now < at) {
            return Vec::new();
        }
        learned.next = Some(now + LOOKUP_INTERVAL);
        if link_is_up {
            return Vec::new();
        }
        let distinct: BTreeSet<SocketAddr> =
            learned.by.values().filter(|a| self.current != Some(**a)).copied().collect();
        let mut addresses = Vec::from_iter(distinct);
        let first = learned.turn % addresses.len().max(1);
        addresses.rotate_left(first);
        addresses.truncate(ADDRESSES_MAX);
        learned.turn = learned.turn.wrapping_add(ADDRESSES_MAX);
        addresses
    }

    /// Authentic frames come from another address. Says whether the address in use follows.
    pub(super) fn on_moved(&mut self, now: Instant, to: SocketAddr) -> bool {
        let is_too_soon = self.moved.is_some_and(|at| now.saturating_since(at) < MOVE_INTERVAL);
        if self.current == Some(to) || is_too_soon {
            return false;
        }
        (self.current, self.confirmed, self.moved) = (Some(to), Some(to), Some(now));
        true
    }

    /// The peer answered a handshake from this address.
    pub(super) fn on_response(&mut self, from: SocketAddr) {
        (self.current, self.confirmed) = (Some(from), Some(from));
    }

    /// The direct link came up. Says whether the address that works is another one than before.
    pub(super) fn confirm_current(&mut self) -> bool {
        let is_new = self.confirmed != self.current;
        self.confirmed = self.current;
        is_new
    }

    /// An unverified initiator at this address became the peer.
    pub(super) fn set_confirmed(&mut self, from: Option<SocketAddr>) {
        self.confirmed = from;
    }

    /// The address to advertise to other members, and whether it is the confirmed one: a change within the minimum
    /// interval is advertised later.
    pub(super) fn advertise(&mut self, now: Instant) -> (Option<SocketAddr>, bool) {
        if let Some((address, since)) = self.advertised
            && self.confirmed.is_some_and(|confirmed| confirmed != address)
            && now.saturating_since(since) < ADVERTISE_INTERVAL
        {
            return (Some(address), false);
        }
        if self.advertised.map(|(address, _)| address) != self.confirmed {
            self.advertised = self.confirmed.map(|confirmed| (confirmed, now));
        }
        (self.confirmed, true)
    }
}

fn configured(endpoint: Option<&Endpoint>) -> Option<SocketAddr> {
    if let Some(Endpoint::Address(address)) = endpoint { Some(*address) } else { None }
}
