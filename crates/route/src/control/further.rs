//! Further paths to a destination, disjoint with the first.

use units::{Duration, Rate};

use super::Control;
use super::judge::Present;
use super::route::{Cause, Route, Use};
use crate::search::{Except, candidates};
use crate::{Inputs, Judged, Member, Path, Reason};

/// A policy may collect no changes, and a timeout that is due at once would be due for ever.
const WAIT_MIN: Duration = Duration::from_millis(10);

/// What a further path must be worth.
fn share_of(first: Rate, share: f64) -> Rate {
    // The cast saturates.
    Rate::from_bps((first.as_bps() as f64 * share).ceil() as u64)
}

impl Control {
    /// Gives up further paths that are not disjoint with those before, have failed, or are worth little; looks for others from time to time.
    pub(super) fn choose_further(&mut self, destination: Member, route: &mut Route, searches: &mut usize) {
        let Some(first) = route.uses.first().copied() else { return };
        // What all flows would get on each: beside flows that fill a path an idle one looks better than it is.
        let flows = route.uses.iter().map(|u| self.flows_on(u)).fold(0, u32::saturating_add);
        let rate = self
            .judged(&first.path, flows)
            .map_or(Rate::ZERO, |judged| Present::new(&self.policy, self.now, first, (judged, flows)).utility);
        self.drop_further(destination, route, flows, rate);
        // While nothing tells what the first path carries, or no more than that it is as fast as can be told, another one adds nothing that is known: all flows go
        // one way.
        let capacity = self.graph.metrics(self.source, &first.path).and_then(|m| m.capacity);
        let is_known = capacity.is_some_and(|capacity| capacity < self.policy.unknown_capacity);
        if self.policy.max_paths <= 1 || !is_known {
            return;
        }
        let due = route.searched.map_or(self.now, |at| at + self.policy.search);
        if due > self.now {
            self.wake_at(due);
            return;
        }
        if *searches == 0 {
            self.wake_at(self.now + self.policy.batch.max(WAIT_MIN));
            return;
        }
        *searches -= 1;
        route.searched = Some(self.now);
        self.wake_at(self.now + self.policy.search);
        for place in 1..self.policy.max_paths {
            self.fill(destination, route, place, (flows, rate));
        }
    }

    fn drop_further(&mut self, destination: Member, route: &mut Route, flows: u32, first: Rate) {
        let required = share_of(first, self.policy.min_share / 2.0);
        let mut at = 1;
        while let Some(used) = route.uses.get(at).copied() {
            let judged = self.judged(&used.path, flows);
            let is_disjoint = route.uses[..at].iter().all(|u| u.path.is_disjoint(&used.path));
            // The loss of flows that saturate a path is their own.
            let utility = judged.map(|j| j.utility[1].max(used.recent_load(self.now, &self.policy).carried));
            let low_since = utility.filter(|u| *u < required).map(|_| used.low_since.unwrap_or(self.now));
            // One report after a burst of losses is no reason to remove a route.
            let until = low_since.map(|since| since + used.confirmation(self.now, &self.policy));
            if is_disjoint && judged.is_some() && until.is_none_or(|until| until > self.now) {
                if let Some(until) = until {
                    self.wake_at(until);
                }
                route.uses[at].low_since = low_since;
                at += 1;
                continue;
            }
            route.uses.remove(at);
            let reason = if judged.is_none() { Reason::Failed } else { Reason::Removed };
            if judged.is_none() {
                route.leave(&self.policy, self.source, self.now, &used, Cause::Failed);
            }
            if judged.is_none() || !is_disjoint {
                // Another one is wanted now.
                route.searched = None;
            }
            let inputs = Inputs { required: Some(required), flows: Some(flows), ..self.inputs(&used, judged) };
            self.log(destination, used.place, (Some(used.path), None), reason, inputs);
        }
    }

    /// Takes a path at this place, or a better one than is there.
    fn fill(&mut self, destination: Member, route: &mut Route, place: usize, first: (u32, Rate)) {
        let now = self.now;
        let at = route.uses.iter().position(|u| u.place == place);
        let (flows, required) = (first.0, share_of(first.1, self.policy.min_share));
        let best = self.best_beside(destination, route, place, (flows, required));
        let further = Inputs { required: Some(required), flows: Some(flows), ..self.policy_inputs() };
        let Some(used) = at.map(|at| route.uses[at]) else {
            let Some((path, judged)) = best else { return };
            route.uses.push(Use::new(place, path, now, &judged));
            route.uses.sort_unstable_by_key(|u| u.place);
            let inputs = Inputs { to: Some(judged), ..further };
            self.log(destination, place, (None, Some(path)), Reason::Initial, inputs);
            return;
        };
        let (Some((path, candidate)), Some(judged)) = (best, self.judged(&used.path, flows)) else { return };
        let present = Present::new(&self.policy, now, used, (judged, flows));
        let is_held = !present.waits(&self.policy, now, route, &candidate).is_empty();
        if path == used.path || is_held || !present.objections(&self.policy, &path, &candidate).is_empty() {
            return;
        }
        route.leave(&self.policy, self.source, now, &used, Cause::Worse);
        for other in route.uses.iter_mut().filter(|u| u.place == place) {
            *other = Use::new(place, path, now, &candidate);
        }
        let confidence_ratio = Some(present.confidence_ratio(&candidate));
        let Inputs { required, flows, .. } = further;
        let inputs =
            Inputs { to: Some(candidate), confidence_ratio, required, flows, ..self.inputs(&used, Some(judged)) };
        self.log(destination, place, (Some(used.path), Some(path)), Reason::Better, inputs);
    }

    /// The best path that is disjoint with those at other places, if one is worth it.
    fn best_beside(
        &self,
        destination: Member,
        route: &Route,
        place: usize,
        (flows, required): (u32, Rate),
    ) -> Option<(Path, Judged)> {
        let others: Vec<Path> = route.uses.iter().filter(|u| u.place != place).map(|u| u.path).collect();
        let relays: Vec<Member> = others.iter().flat_map(Path::relays).copied().collect();
        let direct = others.iter().any(|path| path.relays().is_empty());
        let except = Except { relays: &relays, direct };
        let is_good = |path: &Path, j: &Judged| {
            route.suppressed_until(self.now, path, false).is_none()
                && j.utility[1] >= required
                && j.metrics.capacity.is_some()
                && j.metrics.confidence >= self.policy.min_confidence
        };
        candidates(&self.graph, self.source, destination, except)
            .into_iter()
            .filter_map(|(path, _)| Some((path, self.judged(&path, flows)?)))
            .filter(|(path, judged)| is_good(path, judged))
            .max_by_key(|(path, judged)| (judged.utility[1], judged.utility[0], core::cmp::Reverse(*path)))
    }
}
