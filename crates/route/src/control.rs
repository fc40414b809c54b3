//! Route control: what is known of links goes in, changes of paths come out.

mod choose;
mod explain;
mod further;
mod judge;
mod links;
mod route;
mod shares;

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use units::{Duration, Instant, Rate};

use crate::search::Fronts;
use crate::{Decision, Event, Graph, Inputs, Judged, Member, Metrics, Path, Policy, PolicyError, Reason};
use judge::Shared;
use links::{Link, Links};
pub use route::Load;
use route::{Route, Use};
use shares::Shares;

/// Input that was refused; it has changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Shares that are none, or a link from a member to itself.
    #[error("what is said of the link {from} > {to} cannot be")]
    Metrics {
        /// Where the link begins.
        from: Member,
        /// Where it ends.
        to: Member,
    },
    /// As many links as the policy allows are known.
    #[error("more than {0} links")]
    Links(usize),
    /// As many members as the policy allows are known.
    #[error("more than {0} members")]
    Members(usize),
}

/// A path in use, with the share of the flows that it should get.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Weighted {
    /// The path.
    pub path: Path,
    /// Its place, as in [`Decision::place`].
    pub place: usize,
    /// Share of the flows; those of a destination add up to 1.
    pub weight: f64,
    /// Rate predicted for one flow.
    #[serde(rename = "predicted_bps")]
    pub predicted: Rate,
    /// That is what the policy assumes where nothing is known ([`Policy::is_assumed`]): good to share flows by, and nothing to tell people.
    #[serde(default)]
    pub assumed: bool,
    /// Most that all flows get together.
    #[serde(rename = "capacity_bps")]
    pub capacity: Rate,
    /// What those that are on it get together, where they fill it, or get it all the time; else nothing.
    #[serde(rename = "throughput_bps")]
    pub carried: Rate,
}

/// More changed links than this in a hundred are computed in full at once.
const FULL_SHARE: usize = 2;

/// Searches for further paths in one go: each takes up to a millisecond, and packets may be waiting.
const SEARCHES: usize = 32;

/// From one comparison of all paths to the next, if what has changed cannot wait; never longer than what can wait is gathered.
const BETWEEN: Duration = Duration::from_millis(20);

/// Decides, for one member, over which path each other member is reached.
///
/// Sans I/O: `handle_*` with the time; then [`Control::poll_decision`] until it gives nothing, and [`Control::handle_timeout`] when
/// [`Control::poll_timeout`] says. Early and late timeouts do no harm. Changes are decided in `handle_timeout` only, except that a
/// member who leaves takes its paths along. Instants must come from one clock; one that is before the last is taken for the last.
#[derive(Debug, Clone)]
pub struct Control {
    source: Member,
    policy: Policy,
    now: Instant,
    graph: Graph,
    fronts: Fronts,
    /// Those by which a path is taken when there is nothing to hold it against; where the policy asks for certainty.
    surest: Option<Fronts>,
    /// Those without the losses of links that our flows fill, while there are such.
    beside: Option<Fronts>,
    links: Links,
    routes: BTreeMap<Member, Route>,
    /// Our load when paths were last compared.
    shares: Shares,
    /// Links that have changed since the fronts were computed.
    changed: Vec<Link>,
    /// When paths are compared next because something has changed.
    due: Option<Instant>,
    /// When all paths were last compared.
    decided: Option<Instant>,
    /// When they are because time has passed.
    wake: Option<Instant>,
    decisions: VecDeque<Decision>,
    /// The last one on the first path to each destination that there is.
    last: BTreeMap<Member, Decision>,
}

impl Control {
    /// Of the member `source`, who knows of nobody yet.
    ///
    /// # Errors
    /// The policy has no meaning.
    pub fn new(source: Member, policy: Policy) -> Result<Self, PolicyError> {
        policy.check()?;
        let graph = Graph::new(policy.unknown_capacity);
        let fronts = Fronts::full(&graph, source);
        let surest = (policy.ci_scale > 0.0).then(|| Fronts::surest(&graph, source));
        Ok(Self {
            source,
            policy,
            now: Instant::ZERO,
            graph,
            fronts,
            surest,
            beside: None,
            links: Links::default(),
            routes: BTreeMap::new(),
            shares: Shares::default(),
            changed: Vec::new(),
            due: None,
            decided: None,
            wake: None,
            decisions: VecDeque::new(),
            last: BTreeMap::new(),
        })
    }

    /// The member that decides.
    pub const fn source(&self) -> Member {
        self.source
    }

    /// The policy.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What is known of the overlay.
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// A member joined or changed whether it relays (`Some`), or left (`None`). Paths are chosen to members that joined.
    ///
    /// # Errors
    /// [`Error::Members`].
    pub fn handle_member(&mut self, now: Instant, member: Member, relays: Option<bool>) -> Result<(), Error> {
        self.advance(now);
        let Some(relays) = relays else {
            self.remove_member(member);
            return Ok(());
        };
        let is_new = member != self.source && !self.routes.contains_key(&member);
        if is_new {
            if self.routes.len() >= self.policy.max_members {
                return Err(Error::Members(self.policy.max_members));
            }
            self.routes.insert(member, Route::default());
        }
        let before = self.graph.epoch();
        self.graph.set_member(member, relays);
        if is_new || self.graph.epoch() != before {
            // Who no longer relays is to be left as one whose links are gone.
            self.schedule(relays || is_new);
        }
        Ok(())
    }

    /// Metrics of the link from `from` to `to`, as somebody measured them; `None`: it is known to be down.
    ///
    /// # Errors
    /// [`Error::Metrics`], [`Error::Links`].
    pub fn handle_link(
        &mut self,
        now: Instant,
        from: Member,
        to: Member,
        metrics: Option<Metrics>,
    ) -> Result<(), Error> {
        self.advance(now);
        let link = (from, to);
        let Some(metrics) = metrics else {
            self.fail_link(link);
            return Ok(());
        };
        if from == to || !metrics.is_valid() {
            return Err(Error::Metrics { from, to });
        }
        if !self.links.contains(link) && self.links.len() >= self.policy.max_links {
            return Err(Error::Links(self.policy.max_links));
        }
        // What is too old tells no more than silence, and reports may overtake each other.
        if metrics.age >= self.policy.link_timeout || metrics.age > self.links.age(self.now, link) {
            return Ok(());
        }
        let metrics = metrics.rounded();
        self.graph.set(from, to, metrics);
        self.links.set(&self.policy, self.now, link, metrics.age);
        self.note(link);
        self.schedule(true);
        Ok(())
    }

    /// What we send over a path. Nothing is done with it if the path is not in use.
    pub fn handle_load(&mut self, now: Instant, path: Path, load: Load) {
        self.advance(now);
        let route = self.routes.get_mut(&path.destination());
        if let Some(used) = route.and_then(|r| r.uses.iter_mut().find(|u| u.path == path)) {
            used.note_load(self.now, &self.policy, load);
        }
    }

    /// Time has passed: what is due is done.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
        while let Some((from, to)) = self.links.expire(&self.policy, self.now) {
            self.graph.remove(from, to);
            self.note((from, to));
            self.schedule(false);
        }
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= self.now);
        if is_due(self.due) || is_due(self.wake) {
            self.decide();
        }
    }

    /// Any of the above.
    ///
    /// # Errors
    /// Theirs.
    pub fn handle(&mut self, event: &Event) -> Result<(), Error> {
        match *event {
            Event::Member { at, member, relays } => self.handle_member(at, member, relays)?,
            Event::Link { at, from, to, metrics } => self.handle_link(at, from, to, metrics)?,
            Event::Load { at, path, load } => self.handle_load(at, path, load),
            Event::Timeout { at } => self.handle_timeout(at),
        }
        Ok(())
    }

    /// When [`Control::handle_timeout`] is to be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.due, self.wake, self.links.next_check()].into_iter().flatten().min()
    }

    /// The next change of a path.
    pub fn poll_decision(&mut self) -> Option<Decision> {
        self.decisions.pop_front()
    }

    /// The paths in use to a destination, the first one first; none: it cannot be reached.
    pub fn paths(&self, destination: Member) -> &[Weighted] {
        self.routes.get(&destination).map_or(&[], |route| &route.weighted)
    }

    /// The members that paths are chosen to.
    pub fn destinations(&self) -> impl Iterator<Item = Member> + '_ {
        self.routes.keys().copied()
    }

    /// How many links and paths are remembered, those included that are gone and whose flaps are counted.
    pub fn remembered(&self) -> usize {
        let further = self.surest.iter().chain(&self.beside).map(Fronts::len);
        let fronts = self.fronts.len() + further.sum::<usize>();
        self.links.len() + fronts + self.routes.values().map(Route::remembered).sum::<usize>()
    }

    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Something has changed; what can wait is gathered with what comes soon. What cannot is not looked at back to back either: one who says
    /// all the time that a link of his fails would else have everybody compute without end.
    fn schedule(&mut self, can_wait: bool) {
        let gather = self.policy.batch;
        let soonest = self.decided.map_or(self.now, |at| self.now.max(at + BETWEEN.min(gather)));
        let at = if can_wait { self.now + gather } else { soonest };
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// The link has changed. When as many have as there are, all is computed anew, and which does not matter.
    fn note(&mut self, link: Link) {
        if self.changed.len() <= self.graph.len() {
            self.changed.push(link);
        }
    }

    fn fail_link(&mut self, link: Link) {
        self.links.remove(link);
        if self.graph.remove(link.0, link.1) {
            self.note(link);
            self.schedule(false);
        }
    }

    fn remove_member(&mut self, member: Member) {
        self.links.remove_member(member);
        self.graph.remove_member(member);
        self.schedule(false);
        let Some(route) = self.routes.remove(&member) else { return };
        for (place, used) in route.uses.iter().enumerate().rev() {
            let inputs = Inputs { chosen_for: Some(used.chosen_for), ..self.inputs(used, None) };
            self.log(member, place, (Some(used.path), None), Reason::Removed, inputs);
        }
        self.last.remove(&member);
    }

    fn log(
        &mut self,
        destination: Member,
        place: usize,
        (from, to): (Option<Path>, Option<Path>),
        reason: Reason,
        inputs: Inputs,
    ) {
        let decision = Decision { at: self.now, destination, place, from, to, reason, inputs };
        if place == 0 {
            self.last.insert(destination, decision);
        }
        self.decisions.push_back(decision);
    }

    /// What a change from `used` is decided from.
    fn inputs(&self, used: &Use, from: Option<Judged>) -> Inputs {
        Inputs {
            from,
            to: None,
            chosen_for: Some(used.chosen_for),
            used_for: self.now.saturating_since(used.since),
            load: used.load_at(self.now, &self.policy),
            confidence_ratio: None,
            required: None,
            flows: None,
            margin: self.policy.margin,
            hold_down: self.policy.hold_down,
        }
    }

    /// How many elephants are on it.
    fn flows_on(&self, used: &Use) -> u32 {
        used.load_at(self.now, &self.policy).flows
    }

    /// The path as it is now; `None`: it has failed.
    fn judged(&self, path: &Path, flows: u32) -> Option<Judged> {
        let metrics = self.graph.metrics(self.source, path)?.rounded();
        let age = path.links(self.source).map(|link| self.links.age(self.now, link)).max()?;
        Some(judge::judge(&self.policy, Metrics { age, ..metrics }, self.shared(path), flows))
    }

    /// What the path is if others of our flows fill some of its links.
    fn shared(&self, path: &Path) -> Option<Shared> {
        let share = self.shares.along(self.source, path)?;
        let clean = self.graph.metrics_with(self.source, path, |link, metrics| {
            let is_filled = self.shares.on(link, path.destination()).is_some();
            if is_filled { Metrics { loss: 0.0, loss_low: 0.0, loss_high: 0.0, ..metrics } } else { metrics }
        })?;
        Some(Shared { clean, share })
    }

    /// Compares all paths.
    fn decide(&mut self) {
        self.decided = Some(self.now);
        self.due = None;
        self.wake = None;
        let changed = core::mem::take(&mut self.changed);
        if changed.len() * 100 > self.graph.len() * FULL_SHARE {
            self.fronts = Fronts::full(&self.graph, self.source);
            self.surest = self.surest.is_some().then(|| Fronts::surest(&self.graph, self.source));
        } else {
            let all = [Some(&mut self.fronts), self.surest.as_mut()];
            all.into_iter().flatten().for_each(|fronts| fronts.update(&self.graph, &changed));
        }
        self.shares = Shares::of(&self.routes, (&self.graph, self.source), self.now, &self.policy);
        self.beside = self.shares.without_losses(&self.graph).map(|clean| Fronts::full(&clean, self.source));
        let destinations: Vec<Member> = self.routes.keys().copied().collect();
        let mut searches = SEARCHES;
        for destination in destinations {
            // Out of the map while it is worked on, so that the rest can be asked.
            let Some(mut route) = self.routes.get_mut(&destination).map(core::mem::take) else { continue };
            route.forget(&self.policy, self.now);
            self.choose_first(destination, &mut route);
            self.choose_further(destination, &mut route, &mut searches);
            self.weigh(&mut route);
            if let Some(place) = self.routes.get_mut(&destination) {
                *place = route;
            }
        }
    }

    /// Shares in proportion to what a flow gets: what is predicted, or what each of those gets that fill the path, as their losses are their own.
    fn weigh(&self, route: &mut Route) {
        let all: Vec<_> = route.uses.iter().map(|used| self.graph.metrics(self.source, &used.path)).collect();
        // A path of which nobody knows what it carries is given no more than the best that is known.
        let known = all.iter().flatten().filter_map(|metrics| metrics.capacity).max();
        let weighted = |(used, metrics): (&Use, Option<Metrics>)| {
            let capacity = metrics.and_then(|m| m.capacity);
            let predicted = metrics.map_or(Rate::ZERO, |m| self.policy.predict(&m));
            let predicted = known.filter(|_| capacity.is_none()).map_or(predicted, |max| predicted.min(max));
            let saturated = used.saturated_rate(self.now, &self.policy, capacity);
            let flows = used.recent_load(self.now, &self.policy).flows.max(1);
            Weighted {
                path: used.path,
                place: used.place,
                weight: predicted.as_bps().max(saturated.as_bps() / u64::from(flows)) as f64,
                predicted,
                assumed: metrics.is_none_or(|m| self.policy.is_assumed(&m)),
                capacity: capacity.unwrap_or(self.policy.unknown_capacity),
                carried: saturated.max(used.steady(self.now, &self.policy)),
            }
        };
        route.weighted = route.uses.iter().zip(all).map(weighted).collect();
        let sum: f64 = route.weighted.iter().map(|w| w.weight).sum();
        // Paths of which nothing is expected are still used: there is nothing else.
        let even = 1.0 / route.weighted.len().max(1) as f64;
        for w in &mut route.weighted {
            w.weight = if sum > 0.0 { w.weight / sum } else { even };
        }
    }

    fn wake_at(&mut self, at: Instant) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }
}

#[cfg(test)]
mod tests;
