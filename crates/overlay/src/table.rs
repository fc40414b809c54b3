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

/// One route to a member.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) path: Path,
    /// Lane of the session with the destination.
    pub(crate) space: u8,
    pub(crate) weight: f64,
    /// Predicted rate of one flow, bit/s.
    pub(crate) predicted_bps: u64,
    /// Most that all flows get together, and what those on it get where they fill it, bit/s.
    pub(crate) capacity_bps: u64,
    pub(crate) throughput_bps: u64,
    /// Largest inner packet in bytes.
    pub(crate) most: usize,
    /// Where its datagrams go first.
    pub(crate) to: SocketAddr,
    /// Session with the destination, and with the first relay, the same where there is none.
    pub(crate) end: Arc<Session>,
    pub(crate) hop: Arc<Session>,
}

impl Route {
    /// Seals frames that a queue of this member sends on this route.
    pub(crate) fn line(&self, own: Member, queue: u8) -> FrameSealer<'_> {
        FrameSealer { own, path: self.path, space: self.space, queue, to: self.to, end: &self.end, hop: &self.hop }
    }
}

/// What the threads that move packets know of another member.
pub(crate) struct PeerEntry {
    /// Where its datagrams go, as long as it is reached directly.
    pub(crate) endpoint: Option<SocketAddr>,
    /// For what is sent to it, or over it.
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) sources: Sources,
    /// Best first; none: it cannot be reached.
    pub(crate) routes: Vec<Route>,
    /// What it handed over to be passed on.
    pub(crate) quota: Arc<Quota>,
    /// In the queue of the controlling thread.
    pub(crate) permits: PeerPermits,
}

/// Where packets of a member may come from: the addresses of which no longer prefix is somebody else's.
///
/// Longest prefix first: the member's own (`true`) and those inside them that are others'. So the check of a packet looks at the few prefixes that
/// can decide it, however many members there are.
#[derive(Debug, Default)]
pub(crate) struct Sources(Vec<(IpNet, bool)>);

impl Sources {
    /// `subnets` are the member's, `others` those of everybody else, this host among them.
    pub(crate) fn new<'a>(subnets: &[IpNet], others: impl Iterator<Item = &'a IpNet>) -> Self {
        let mut all: Vec<(IpNet, bool)> = subnets.iter().map(|s| (*s, true)).collect();
        // Nothing lies inside single addresses, which is what most members have.
        let wide: Vec<&IpNet> = subnets.iter().filter(|s| s.prefix_len() < s.max_prefix_len()).collect();
        if !wide.is_empty() {
            all.extend(others.filter(|net| wide.iter().any(|w| w.contains(*net))).map(|net| (*net, false)));
        }
        all.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        Self(all)
    }

    /// Whether a packet of the member may have this source.
    pub(crate) fn has(&self, source: IpAddr) -> bool {
        self.0.iter().find(|(net, _)| net.contains(&source)).is_some_and(|(_, is_own)| *is_own)
    }
}

/// All that moving a packet needs: made anew by the controlling thread when something changes, and only read by the others.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) own: Member,
    pub(crate) peers: Vec<PeerEntry>,
    pub(crate) index: HashMap<Member, usize>,
    /// Sessions whose frames are taken, by their number here.
    pub(crate) sessions: HashMap<u32, Arc<Session>>,
    /// Whose a destination is: longest prefix first.
    pub(crate) prefixes: Vec<(IpNet, usize)>,
    /// Whether this member passes on what is not for it.
    pub(crate) relay: bool,
}

impl Table {
    /// Session with the next hop of an envelope, and the address of that hop; `None`: it cannot be reached.
    pub(crate) fn next_hop(&self, envelope: &Envelope) -> Option<(&Session, SocketAddr)> {
        let next = self.peer(Member(envelope.hop_to()))?;
        Some((next.session.as_deref()?, next.endpoint?))
    }

    /// Index of the member that a destination belongs to.
    pub(crate) fn owner(&self, destination: IpAddr) -> Option<usize> {
        self.prefixes.iter().find(|(net, _)| net.contains(&destination)).map(|(_, i)| *i)
    }

    /// Whose each subnet is.
    pub(crate) fn owners(&self) -> Vec<(IpNet, Member)> {
        let members: HashMap<usize, Member> = self.index.iter().map(|(member, i)| (*i, *member)).collect();
        self.prefixes.iter().filter_map(|(net, i)| Some((*net, *members.get(i)?))).collect()
    }

    pub(crate) fn peer(&self, member: Member) -> Option<&PeerEntry> {
        self.index.get(&member).and_then(|i| self.peers.get(*i))
    }
}

/// Where the controlling thread leaves its latest table. A reader looks at a number for each batch of packets, and takes the lock only when
/// it has changed.
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

/// A reader's copy of the latest table.
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

    /// Takes the latest one; says whether it is another.
    pub(crate) fn refresh(&mut self) -> bool {
        let changed = self.published.generation.load(Ordering::Relaxed) != self.generation;
        if changed {
            (self.generation, self.table) = self.published.latest();
        }
        changed
    }
}
