use std::collections::BTreeMap;

use units::{Bytes, Duration, Instant, nanos};

use super::FlowKey;
use crate::Path;

/// Entries that one hash can be in: with eight, a table that is half full turns away next to none.
const WAYS: usize = 8;

/// Entries that one call of [`Table::maintain`] goes over at most: some ten microseconds.
const STEP: usize = 4096;

/// Size and times of a flow table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Flows that are remembered; rounded up to a power of two, from 8 to 2^24.
    pub flows: usize,
    /// Routing entries; at most 65,536.
    pub routes: usize,
    /// Each activity counter goes down by one each such time.
    pub period: Duration,
    /// Where the counter of a new flow begins.
    pub first: u8,
    /// Where it ends, whatever the flow sends: a flow is forgotten after so many periods without a packet at most.
    pub most: u8,
    /// A flow that has sent more than this since it became active is an elephant.
    pub elephant: Bytes,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // 4 MiB of memory; ten times what a busy host has at once.
            flows: 65_536,
            // A thousand members with sixteen ways each.
            routes: 16_384,
            period: Duration::from_secs(1),
            // One packet: gone after five seconds, longer than an initial retransmission timeout and its first backoff (RFC 6298 §2.1, §5.5).
            first: 5,
            // A pause of a user, or of a disk.
            most: 30,
            // Ten windows of slow start double to 1.4 MB in seven round trips: what is larger lives by the rate of its path.
            elephant: Bytes::new(1_000_000),
        }
    }
}

/// The number of a routing entry: a path that flows point to, and that can be exchanged under them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(u16);

impl RouteId {
    /// Its number, below the number of entries of the settings.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What the table knows of an active flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Where it points to.
    pub route: RouteId,
    /// Whether it has carried as much as an elephant.
    pub is_elephant: bool,
}

/// Flows with a positive activity counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Active {
    /// All of them.
    pub flows: u32,
    /// Those of them that are elephants.
    pub elephants: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    hash: u64,
    key: FlowKey,
    bytes: u64,
    pub(super) route: RouteId,
    /// The paper's counter; zero: the entry is free.
    pub(super) activity: u8,
    pub(super) is_elephant: bool,
}

// A line of the cache.
const _: () = assert!(size_of::<Option<Entry>>() == 64);

#[derive(Debug, Clone, Copy)]
struct RouteEntry {
    path: Path,
    active: Active,
}

/// The flow table: which routing entry each flow points to. No packet makes it allocate anything.
#[derive(Debug, Clone)]
pub struct Table {
    settings: Settings,
    pub(super) entries: Box<[Option<Entry>]>,
    routes: Box<[Option<RouteEntry>]>,
    /// Where maintenance goes on, and when its present turn was due.
    cursor: usize,
    turn: Option<Instant>,
    unremembered: u64,
}

impl Table {
    /// An empty table.
    pub fn new(settings: Settings) -> Self {
        let flows = settings.flows.clamp(WAYS, 1 << 24).next_power_of_two();
        let routes = settings.routes.clamp(1, 1 << 16);
        let (entries, routes) = (vec![None; flows].into(), vec![None; routes].into());
        Self { settings, entries, routes, cursor: 0, turn: None, unremembered: 0 }
    }

    /// Adds a routing entry; `None`: there are as many as the settings allow.
    pub fn add_route(&mut self, path: Path) -> Option<RouteId> {
        let free = self.routes.iter().position(Option::is_none)?;
        self.routes[free] = Some(RouteEntry { path, active: Active::default() });
        u16::try_from(free).ok().map(RouteId)
    }

    /// Exchanges the path: all flows that point to the entry are on the new one.
    pub fn redirect(&mut self, route: RouteId, path: Path) {
        if let Some(entry) = self.routes.get_mut(route.index()).and_then(Option::as_mut) {
            entry.path = path;
        }
    }

    /// Removes routing entries. The flows of each go to its heir, or are forgotten where that is none or goes as well. Goes over all flows, once: not for the packet path.
    pub fn remove_routes(&mut self, gone: &[(RouteId, Option<RouteId>)]) {
        if gone.is_empty() {
            return;
        }
        let all: BTreeMap<RouteId, Option<RouteId>> = gone.iter().copied().collect();
        for at in 0..self.entries.len() {
            let Some(mut entry) = self.entries[at] else { continue };
            let Some(heir) = all.get(&entry.route) else { continue };
            self.uncount(&entry);
            self.entries[at] = heir.filter(|h| !all.contains_key(h) && self.path(*h).is_some()).map(|heir| {
                entry.route = heir;
                self.count(&entry);
                entry
            });
        }
        for route in all.keys() {
            if let Some(place) = self.routes.get_mut(route.index()) {
                *place = None;
            }
        }
    }

    /// Forgets the flows that `keeps` is false for, by their key and their path. Goes over all flows: not for the packet path.
    pub fn retain(&mut self, keeps: impl Fn(&FlowKey, &Path) -> bool) {
        for at in 0..self.entries.len() {
            let Some(entry) = self.entries[at] else { continue };
            if !self.path(entry.route).is_some_and(|path| keeps(&entry.key, &path)) {
                self.uncount(&entry);
                self.entries[at] = None;
            }
        }
    }

    /// The path of a routing entry.
    pub fn path(&self, route: RouteId) -> Option<Path> {
        self.routes.get(route.index()).copied().flatten().map(|r| r.path)
    }

    /// How many active flows point to a routing entry.
    pub fn active(&self, route: RouteId) -> Active {
        self.routes.get(route.index()).copied().flatten().map_or_else(Active::default, |r| r.active)
    }

    /// How many new flows were not remembered, because all places that they could have had were those of active elephants.
    pub const fn unremembered(&self) -> u64 {
        self.unremembered
    }

    /// A packet, or a super-packet, of `bytes`: where its flow points to. `None`: it is not active; it is to be given a path with [`Table::assign`].
    ///
    /// `hash` is a keyed hash of the key, as [`FlowKey::hash`], the same at each call.
    pub fn lookup(&mut self, hash: u64, key: &FlowKey, bytes: Bytes) -> Option<Found> {
        let at = self.find(hash, key)?;
        let Settings { most, elephant, .. } = self.settings;
        let entry = self.entries[at].as_mut()?;
        entry.activity = entry.activity.saturating_add(1).min(most.max(1));
        entry.bytes = entry.bytes.saturating_add(bytes.as_u64());
        let (route, was_elephant) = (entry.route, entry.is_elephant);
        entry.is_elephant |= entry.bytes > elephant.as_u64();
        let is_elephant = entry.is_elephant;
        if is_elephant && !was_elephant {
            self.tally(route, |active| active.elephants += 1);
        }
        Some(Found { route, is_elephant })
    }

    /// The first packet of a flow goes to `route`, and so will those that follow. Whether it is remembered: not if its places are all those of active
    /// elephants, nor if there is no such route. Such flows have no place, but they have a hash: the caller spreads by it, and gets the same path each time.
    pub fn assign(&mut self, hash: u64, key: FlowKey, bytes: Bytes, route: RouteId) -> bool {
        if self.path(route).is_none() {
            return false;
        }
        if let Some(at) = self.find(hash, &key) {
            self.free(at);
        }
        let least = self.set(hash).filter_map(|at| match &self.entries[at] {
            None => Some((0, at)),
            Some(entry) if entry.is_elephant => None,
            Some(entry) => Some((entry.activity, at)),
        });
        let Some((_, at)) = least.min() else {
            self.unremembered += 1;
            return false;
        };
        self.free(at);
        let is_elephant = bytes > self.settings.elephant;
        let activity = self.settings.first.clamp(1, self.settings.most.max(1));
        let entry = Entry { hash, key, bytes: bytes.as_u64(), route, activity, is_elephant };
        self.count(&entry);
        self.entries[at] = Some(entry);
        true
    }

    /// The flow sends no more: it is no elephant from now on, and soon forgotten. What it sends again goes where it went before. Whether it was one.
    pub fn end(&mut self, hash: u64, key: &FlowKey) -> bool {
        let found = self.find(hash, key).and_then(|at| Some((at, self.entries[at]?)));
        let Some((at, mut entry)) = found else { return false };
        let was_elephant = entry.is_elephant;
        self.uncount(&entry);
        let activity = entry.activity.min(self.settings.first.max(1));
        entry = Entry { activity, bytes: 0, is_elephant: false, ..entry };
        self.count(&entry);
        self.entries[at] = Some(entry);
        was_elephant
    }

    /// Counts activity down, as time goes: to be called often, as between batches of packets; a call goes over a part of the table. Gaps longer than some
    /// periods are not made up for.
    pub fn maintain(&mut self, now: Instant) {
        let turn = *self.turn.get_or_insert(now);
        let period = nanos(self.settings.period).max(1);
        let elapsed = nanos(now.saturating_since(turn)).min(period);
        let size = self.entries.len();
        let until = (u128::from(elapsed) * size as u128 / u128::from(period)) as usize;
        let end = until.min(self.cursor + STEP);
        for at in self.cursor..end {
            let Some(entry) = self.entries[at].as_mut() else { continue };
            entry.activity = entry.activity.saturating_sub(1);
            if entry.activity == 0 {
                self.free(at);
            }
        }
        self.cursor = self.cursor.max(end);
        if self.cursor == size {
            self.cursor = 0;
            // From the time that the turn was due, unless the caller was away.
            let due = turn + self.settings.period;
            let is_late = now.saturating_since(due) > self.settings.period;
            self.turn = Some(if is_late { now } else { due });
        }
    }

    /// The places that a flow of this hash can have.
    fn set(&self, hash: u64) -> core::ops::Range<usize> {
        let sets = self.entries.len() / WAYS;
        // A power of two; the cast keeps the low bits, which are as good as any.
        let first = (hash as usize & (sets - 1)) * WAYS;
        first..first + WAYS
    }

    fn find(&self, hash: u64, key: &FlowKey) -> Option<usize> {
        self.set(hash).find(|at| self.entries[*at].as_ref().is_some_and(|e| e.hash == hash && e.key == *key))
    }

    fn free(&mut self, at: usize) {
        if let Some(entry) = self.entries[at].take() {
            self.uncount(&entry);
        }
    }

    /// Lets the flow at this place point to another routing entry.
    pub(super) fn point(&mut self, at: usize, route: RouteId) {
        let Some(mut entry) = self.entries[at] else { return };
        self.uncount(&entry);
        entry.route = route;
        self.count(&entry);
        self.entries[at] = Some(entry);
    }

    fn count(&mut self, entry: &Entry) {
        self.tally(entry.route, |active| {
            active.flows += 1;
            active.elephants += u32::from(entry.is_elephant);
        });
    }

    fn uncount(&mut self, entry: &Entry) {
        self.tally(entry.route, |active| {
            active.flows -= 1;
            active.elephants -= u32::from(entry.is_elephant);
        });
    }

    fn tally(&mut self, route: RouteId, with: impl FnOnce(&mut Active)) {
        if let Some(entry) = self.routes.get_mut(route.index()).and_then(Option::as_mut) {
            with(&mut entry.active);
        }
    }
}
