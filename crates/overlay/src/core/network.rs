//! The peers of this member, and what leaves for them: sealed messages, events and changes of the forwarding table.
//! Every component of the core works on it.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use route::{Member, Path};
use units::Instant;
use wire::overlay::{Envelope, Message, SPACE_DIRECT};

use super::peer::Peer;
use super::rejections::Rejections;
use super::{Event, Output, micros};
use crate::encapsulate::{self, FrameSealer};
use crate::prng::Prng;
use crate::session::Session;
use crate::settings::Settings;

/// See the module.
pub(super) struct Network {
    pub(super) own: Member,
    pub(super) settings: Arc<Settings>,
    pub(super) peers: BTreeMap<Member, Peer>,
    /// Source of session numbers, jitter and gaps between probes: nothing secret.
    pub(super) prng: Prng,
    pub(super) outputs: VecDeque<Output>,
    /// The forwarding table differs from the published one.
    pub(super) table_changed: bool,
    /// Members or their addresses may differ from those that gossip advertises.
    pub(super) members_changed: bool,
    rejections: Rejections,
}

impl Network {
    pub(super) fn new(settings: Arc<Settings>, prng: Prng, now: Instant) -> Self {
        let peers = settings.members.get();
        let peers = peers.iter().map(|(number, m)| (*number, Peer::new(m, settings.sensor, now))).collect();
        Self {
            own: settings.identity.public().member(),
            peers,
            prng,
            outputs: VecDeque::new(),
            table_changed: true,
            members_changed: false,
            rejections: Rejections::default(),
            settings,
        }
    }

    /// Reports an event.
    pub(super) fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    /// Reports that `from`, a member or an address, was not admitted, or did not admit this member.
    pub(super) fn report_rejection(&mut self, now: Instant, from: String, why: String) {
        if self.rejections.is_new(now, format!("{from}: {why}")) {
            self.event(Event::PeerRejected { from, why });
        }
    }

    /// Numbers of all peers, for loops that change them.
    pub(super) fn members(&self) -> Vec<Member> {
        self.peers.keys().copied().collect()
    }

    /// Whether the settings allow frames to a member without a relay.
    pub(super) fn is_direct(&self, member: Member) -> bool {
        self.settings.members.get().get(&member).is_some_and(|m| m.direct)
    }

    /// Members to which frames may go without a relay.
    pub(super) fn direct_members(&self) -> Vec<Member> {
        let all = self.settings.members.get();
        self.peers.keys().copied().filter(|m| all.get(m).is_some_and(|m| m.direct)).collect()
    }

    /// Whether the direct link to a member is up.
    pub(super) fn is_up(&self, member: Member) -> bool {
        self.peers.get(&member).is_some_and(|p| p.link.is_up())
    }

    /// The session that seals frames to a member.
    pub(super) fn session(&self, member: Member) -> Option<Arc<Session>> {
        self.peers.get(&member)?.session().cloned()
    }

    /// Number space of the session with the destination of a path.
    pub(super) fn space_of(&mut self, path: Path) -> u8 {
        self.peers.get_mut(&path.destination()).map_or(SPACE_DIRECT, |p| p.paths.space_of(path))
    }

    /// The path of control messages to a member: direct while the link is up or no path over relays is known.
    pub(super) fn best_path(&self, to: Member) -> Option<(Path, u8)> {
        let peer = self.peers.get(&to)?;
        let may_be_direct = peer.link.is_up() || peer.paths.best().is_none() && self.is_direct(to);
        if may_be_direct && peer.endpoint.current.is_some() {
            return Some((Path::direct(to), SPACE_DIRECT));
        }
        peer.paths.best()
    }

    /// The reverse of the path of an envelope; `None`: the envelope has no valid path.
    pub(super) fn reverse_path(envelope: &Envelope) -> Option<Path> {
        let relays: Vec<Member> = envelope.route().iter().rev().map(|r| Member(*r)).collect();
        Path::via(&relays, Member(envelope.origin))
    }

    /// Seals a message; gives the address of its first hop with the datagram. `None`: the path has no session, address
    /// or permission.
    pub(super) fn seal(&self, now: Instant, path: Path, space: u8, message: &[u8]) -> Option<(SocketAddr, Vec<u8>)> {
        self.seal_in(now, &self.session(path.destination())?, path, space, message)
    }

    /// [`Self::seal`] in this session of the destination.
    pub(super) fn seal_in(
        &self,
        now: Instant,
        end: &Arc<Session>,
        path: Path,
        space: u8,
        message: &[u8],
    ) -> Option<(SocketAddr, Vec<u8>)> {
        if !self.is_direct(path.first_hop()) {
            return None;
        }
        let hop = if path.relays().is_empty() { Arc::clone(end) } else { self.session(path.first_hop())? };
        let to = self.peers.get(&path.first_hop())?.endpoint.current?;
        let sealer = FrameSealer { own: self.own, path, space, queue: encapsulate::CONTROL_QUEUE, to, end, hop: &hop };
        Some((to, encapsulate::message(&sealer, message, micros(now))?))
    }

    /// Sends a message on a path; gives its IP bytes, 0 if it could not be sent.
    pub(super) fn send(&mut self, now: Instant, path: Path, space: u8, message: &[u8]) -> usize {
        let Some((to, datagram)) = self.seal(now, path, space, message) else { return 0 };
        let bytes = datagram.len() + encapsulate::outer(to);
        self.outputs.push_back(Output::Send { to, datagram });
        bytes
    }

    /// Sends a message in this session of the destination.
    pub(super) fn send_in(&mut self, now: Instant, end: &Arc<Session>, path: Path, space: u8, message: &[u8]) {
        if let Some((to, datagram)) = self.seal_in(now, end, path, space, message) {
            self.outputs.push_back(Output::Send { to, datagram });
        }
    }

    /// Sends a message on the best path to a member; gives its IP bytes, 0 if it could not be sent.
    pub(super) fn send_message(&mut self, now: Instant, to: Member, message: &Message) -> usize {
        let message = message.encode();
        self.best_path(to).map_or(0, |(path, space)| self.send(now, path, space, &message))
    }

    /// Announces the departure of this member. Members over the most relays are first: a relay that has got the message
    /// forwards nothing any more.
    pub(super) fn send_bye(&mut self, now: Instant, mut to: Vec<Member>) {
        to.sort_by_key(|m| std::cmp::Reverse(self.best_path(*m).map_or(0, |(path, _)| path.relays().len())));
        for member in to {
            self.send_message(now, member, &Message::Bye);
        }
    }
}
