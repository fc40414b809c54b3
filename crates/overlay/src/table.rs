//! The forwarding table: an immutable snapshot that the controlling thread publishes and the packet threads read.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ipnet::IpNet;
use route::{Member, Path};
use wire::overlay::Envelope;

use crate::encapsulate::FrameSealer;
use crate::permits::PeerPermits;
use crate::quota::Quota;
use crate::session::Session;

/// A route to a peer.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) path: Path,
    /// Packet number space in the session with the destination.
    pub(crate) space: u8,
    /// Share of new flows, relative to the other routes to the peer.
    pub(crate) weight: f64,
    /// Predicted rate of one flow, bit/s.
    pub(crate) predicted_bps: u64,
    /// Capacity for all flows together, bit/s.
    pub(crate) capacity_bps: u64,
    /// Throughput that the present flows get where they fill the path, bit/s.
    pub(crate) throughput_bps: u64,
    /// MTU for inner packets, bytes.
    pub(crate) mtu: usize,
    /// Endpoint of the first hop.
    pub(crate) to: SocketAddr,
    /// Session with the destination.
    pub(crate) end: Arc<Session>,
    /// Session with the first relay; on a direct path that with the destination.
    pub(crate) hop: Arc<Session>,
}

impl Route {
    /// Sealer for the frames that a transmit queue of this member sends on the route.
    pub(crate) fn sealer(&self, own: Member, queue: u8) -> FrameSealer<'_> {
        FrameSealer { own, path: self.path, space: self.space, queue, to: self.to, end: &self.end, hop: &self.hop }
    }
}

/// A peer in the forwarding table.
pub(crate) struct PeerEntry {
    /// Address for direct datagrams; `None`: not reachable directly.
    pub(crate) endpoint: Option<SocketAddr>,
    /// Session for traffic to the peer and over it.
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) sources: Sources,
    /// Best route first; empty: unreachable.
    pub(crate) routes: Vec<Route>,
    /// Limit of the traffic that the peer hands over for relaying.
    pub(crate) quota: Arc<Quota>,
    /// Permits in the queue of the controlling thread.
    pub(crate) permits: PeerPermits,
}

/// Source addresses that packets of a peer may have: those in its subnets without a longer prefix of another member.
///
/// The entries are sorted by longest prefix first: the peer's own subnets (`true`) and those of other members inside
/// them. The check of a packet thus looks at few prefixes, independent of the number of members.
#[derive(Debug, Default)]
pub(crate) struct Sources(Vec<(IpNet, bool)>);

impl Sources {
    /// `subnets`: of the peer. `others`: of all other members, this host included.
    pub(crate) fn new<'a>(subnets: &[IpNet], others: impl Iterator<Item = &'a IpNet>) -> Self {
        let mut all: Vec<(IpNet, bool)> = subnets.iter().map(|s| (*s, true)).collect();
        // A single address, the usual subnet, contains no other prefix.
        let wide: Vec<&IpNet> = subnets.iter().filter(|s| s.prefix_len() < s.max_prefix_len()).collect();
        if !wide.is_empty() {
            all.extend(others.filter(|net| wide.iter().any(|w| w.contains(*net))).map(|net| (*net, false)));
        }
        all.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        Self(all)
    }

    /// Whether a packet of the peer may have this source address.
    pub(crate) fn has(&self, source: IpAddr) -> bool {
        self.0.iter().find(|(net, _)| net.contains(&source)).is_some_and(|(_, is_own)| *is_own)
    }
}

/// The forwarding table. The controlling thread replaces it as a whole after a change.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) own: Member,
    pub(crate) peers: Vec<PeerEntry>,
    /// Index into `peers`.
    pub(crate) index: HashMap<Member, usize>,
    /// Sessions whose frames are accepted, by local receiver index.
    pub(crate) sessions: HashMap<u32, Arc<Session>>,
    /// Index into `peers` by destination prefix, longest prefix first.
    pub(crate) prefixes: Vec<(IpNet, usize)>,
    /// Whether this member relays for others.
    pub(crate) relay: bool,
}

impl Table {
    /// Session with the next hop of an envelope, and the endpoint of that hop; `None`: unreachable.
    pub(crate) fn next_hop(&self, envelope: &Envelope) -> Option<(&Session, SocketAddr)> {
        let next = self.peer(Member(envelope.hop_to()))?;
        Some((next.session.as_deref()?, next.endpoint?))
    }

    /// Index of the peer that a destination belongs to, by longest prefix.
    pub(crate) fn owner(&self, destination: IpAddr) -> Option<usize> {
        self.prefixes.iter().find(|(net, _)| net.contains(&destination)).map(|(_, i)| *i)
    }

    /// Owner of each subnet, longest prefix first.
    pub(crate) fn owners(&self) -> Vec<(IpNet, Member)> {
        let members: HashMap<usize, Member> = self.index.iter().map(|(member, i)| (*i, *member)).collect();
        self.prefixes.iter().filter_map(|(net, i)| Some((*net, *members.get(i)?))).collect()
    }

    pub(crate) fn peer(&self, member: Member) -> Option<&PeerEntry> {
        self.index.get(&member).and_then(|i| self.peers.get(*i))
    }
}

/// The latest table. A reader compares the generation per batch of packets and takes the lock only after a change.
#[derive(Default)]
pub(crate) struct Published {
    generation: AtomicU64,
    table: Mutex<Arc<Table>>,
}

impl Published {
    pub(crate) fn publish(&self, table: Table) {
        *self.table.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn latest(&self) -> (u64, Arc<Table>) {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        (self.generation.load(Ordering::Acquire), Arc::clone(&table))
    }
}

/// A packet thread's reference to the latest table.
pub(crate) struct Reader {
    published: Arc<Published>,
    generation: u64,
    pub(crate) table: Arc<Table>,
}

impl Reader {
    pub(crate) fn new(published: &Arc<Published>) -> Self {
        let (generation, table) = published.latest();
        Self { published: Arc::clone(published), generation, table }
    }

    /// Switches to the latest table; true: it has changed.
    pub(crate) fn refresh(&mut self) -> bool {
        let has_changed = self.published.generation.load(Ordering::Relaxed) != self.generation;
        if has_changed {
            (self.generation, self.table) = self.published.latest();
        }
        has_changed
    }
}
