//! Members whose endpoint is a name: when it is looked up, and what follows from the answer. A name is looked up for as long as the direct link to its
//! member does not work: a resolver may come later than this member does, and the address behind a name may change. And those that others say are elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use route::{Member, Path};
use units::Instant;
use wire::overlay::{Message, SPACE_DIRECT};

use super::{Core, Event, Output, Peer};
use crate::settings::{Endpoint, HostPort};

/// How soon a name is looked up again: calls come every 8 s by then. Where it leads where it did, each further time takes twice as long: it may be
/// that its member is reached over relays alone.
const LOOK_AGAIN: Duration = Duration::from_secs(8);
const LONGEST: Duration = Duration::from_secs(64);
/// Addresses of a name that are called in turn, as hosts have one or two in each family; and those at once that others told of.
const MOST_ADDRESSES: usize = 8;

/// A name, and what is known of it.
pub(super) struct EndpointName {
    is: HostPort,
    /// When it is looked up next; `None`: it is being looked up.
    next: Option<Instant>,
    /// How long after the next answer that is.
    again: Duration,
    addresses: Vec<SocketAddr>,
    /// What the resolver said instead of addresses, the last time.
    fails: Option<String>,
}

impl EndpointName {
    /// That of a member's endpoint, where it is one.
    pub(super) fn of(endpoint: Option<&Endpoint>, now: Instant) -> Option<Self> {
        let Endpoint::Name(is) = endpoint?.clone() else { return None };
        Some(Self { is, next: Some(now), again: LOOK_AGAIN, addresses: Vec::new(), fails: None })
    }

    /// The address behind `present`, if there are several.
    fn after(&self, present: Option<SocketAddr>) -> Option<SocketAddr> {
        let at = self.addresses.iter().position(|a| Some(*a) == present).map_or(0, |at| at + 1);
        self.addresses.get(at).or_else(|| self.addresses.first()).copied()
    }
}

/// Where others say that a member is reached, each of them one address: behind the same NAT it is another one than from outside.
#[derive(Default)]
pub(super) struct LearnedEndpoints {
    by: BTreeMap<Member, SocketAddr>,
    /// When it is asked there next, should the direct link not work by then. Whoever says one thing after the other makes nobody ask more often.
    next: Option<Instant>,
    turn: usize,
}

impl LearnedEndpoints {
    /// What this one said counts no more.
    pub(super) fn forget(&mut self, by: Member) {
        self.by.remove(&by);
    }
}

impl Peer {
    /// What `by` says of where the member is reached. Whether that is right, its answer tells: until there is one, nothing else goes there.
    pub(super) fn learn_endpoint(&mut self, by: Member, address: Option<SocketAddr>) {
        self.endpoint = self.endpoint.or(address);
        match address {
            Some(address) => {
                self.told.by.insert(by, address);
            }
            None => self.told.forget(by),
        }
    }

    /// Addresses that others told of, if it is time to ask there.
    pub(super) fn next_learned_endpoints(&mut self, now: Instant) -> Vec<SocketAddr> {
        let (is_up, told) = (self.link.is_up(), &mut self.told);
        if told.by.is_empty() || !is_up && told.next.is_some_and(|at| now < at) {
            return Vec::new();
        }
        // It may be down for a moment only.
        told.next = Some(now + LOOK_AGAIN);
        if is_up {
            return Vec::new();
        }
        let addresses: BTreeSet<SocketAddr> =
            told.by.values().filter(|a| self.endpoint != Some(**a)).copied().collect();
        let mut addresses = Vec::from_iter(addresses);
        let first = told.turn % addresses.len().max(1);
        addresses.rotate_left(first);
        addresses.truncate(MOST_ADDRESSES);
        told.turn = told.turn.wrapping_add(MOST_ADDRESSES);
        addresses
    }

    /// Lets what goes directly go to another address of its name, of which one may be of a family that does not get through.
    fn try_next(&mut self) -> bool {
        let next = match (&self.name, self.listed) {
            (Some(name), _) => name.after(self.endpoint),
            // Where the settings say and where it was seen last, in turns.
            (None, Some(listed)) if self.endpoint != Some(listed) => Some(listed),
            (None, _) => self.found,
        };
        let is_new = next.is_some() && next != self.endpoint;
        if is_new {
            self.endpoint = next;
            self.trains.doubt();
        }
        is_new
    }
}

impl Core {
    /// Asks members whose direct link does not work where others say that they are.
    pub(super) fn probe_learned_endpoints(&mut self, now: Instant) {
        let due = self.peers.iter_mut().map(|(m, o)| (*m, o.next_learned_endpoints(now)));
        for (member, all) in due.filter(|(_, all)| !all.is_empty()).collect::<Vec<_>>() {
            if self.session(member).is_none() {
                self.initiate_to(now, member, &all);
                continue;
            }
            for to in all {
                let probe = self.sealed(now, Path::direct(member), SPACE_DIRECT, &Message::Probe.encode());
                // An authentic frame is answered to where it came from.
                self.outputs.extend(probe.map(|(_, datagram)| Output::Send { to, datagram }));
            }
        }
    }

    /// Asks for the addresses of members whose direct link does not work.
    pub(super) fn resolve_endpoints(&mut self, now: Instant) {
        let members = self.settings.members.get();
        let peers = self.peers.iter_mut().filter(|(m, _)| members.get(m).is_some_and(|m| m.direct));
        for (member, peer) in peers {
            let Some(name) = &mut peer.name else { continue };
            if peer.link.is_up() {
                name.again = LOOK_AGAIN;
            } else if name.next.is_some_and(|at| at <= now) {
                name.next = None;
                self.outputs.push_back(Output::LookUp { member: *member, name: name.is.clone() });
            }
        }
    }

    /// Before another call to a member goes directly: where to.
    pub(super) fn turn_to_next_address(&mut self, member: Member) {
        let peer = self.peers.get_mut(&member).filter(|o| !o.link.is_up());
        self.changed |= peer.is_some_and(Peer::try_next);
    }

    /// What the resolver says of a member's name. One that leads elsewhere is followed at once.
    pub(crate) fn handle_addresses(
        &mut self,
        now: Instant,
        (member, asked): (Member, &HostPort),
        found: Result<Vec<SocketAddr>, String>,
    ) {
        let Some(peer) = self.peers.get_mut(&member) else { return };
        let (present, is_up) = (peer.endpoint, peer.link.is_up());
        // It may be called by another one meanwhile.
        let Some(name) = peer.name.as_mut().filter(|name| name.is == *asked) else { return };
        let again = std::mem::replace(&mut name.again, LOOK_AGAIN);
        name.next = Some(now + again);
        let found = found.and_then(|f| if f.is_empty() { Err("it has no address".to_owned()) } else { Ok(f) });
        match found {
            Ok(mut addresses) => {
                name.fails = None;
                addresses.truncate(MOST_ADDRESSES);
                let is_elsewhere = present.is_none_or(|p| !addresses.contains(&p));
                name.addresses = addresses;
                if !is_elsewhere {
                    name.again = (2 * again).min(LONGEST);
                }
                // Nobody calls who has a session over relays, and its probes go where the last call went.
                if !is_up && peer.try_next() {
                    self.changed = true;
                    if is_elsewhere {
                        peer.calls.initiate_now(now);
                    }
                }
            }
            Err(why) if name.fails.as_ref() != Some(&why) => {
                name.fails = Some(why.clone());
                let endpoint = name.is.to_string();
                let name = self.settings.name_of(member);
                self.outputs.push_back(Output::Event(Event::Unresolved { member, name, endpoint, why }));
            }
            Err(_) => {}
        }
    }
}
