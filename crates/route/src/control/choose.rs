//! The choice of the first path to a destination.

use units::{Instant, Rate};

use super::Control;
use super::judge::Present;
use super::route::{Cause, Route, Use};
use crate::{Decision, Hold, Inputs, Judged, Member, Metrics, Path, Reason};

/// A path to change to, and why.
type Choice = (Path, Judged, Reason, Option<f64>);

impl Control {
    /// Changes the first path to the destination, if it must be.
    pub(super) fn choose_first(&mut self, destination: Member, route: &mut Route) {
        let Some(used) = route.uses.first().copied() else {
            let Some((path, judged)) = self.safest(destination, route) else { return };
            route.uses.push(Use::new(0, path, self.now, &judged));
            let inputs = Inputs { to: Some(judged), ..self.policy_inputs() };
            self.log(destination, 0, (None, Some(path)), Reason::Initial, inputs);
            return;
        };
        let flows = self.flows_on(&used);
        let judged = self.judged(&used.path, flows);
        let choice = match judged {
            None => {
                if let Some(until) = self.held_failed(route) {
                    return self.wake_at(until);
                }
                match self.safest(destination, route) {
                    Some((path, judged)) => (path, judged, Reason::Failed, None),
                    None => return self.give_up(destination, route),
                }
            }
            Some(judged) => {
                let Some(choice) = self.better(destination, route, (judged, flows)) else { return };
                choice
            }
        };
        self.change_first(destination, route, (used, judged, flows), choice);
    }

    /// Until when a failed route is kept: without `fast_fail` the hold-down holds for it as well.
    pub(super) fn held_failed(&self, route: &Route) -> Option<Instant> {
        let is_held = !self.policy.fast_fail && !route.uses.is_empty();
        let changed = route.changed.filter(|_| is_held);
        changed.map(|at| at + self.policy.hold_down).filter(|until| *until > self.now)
    }

    /// No path is left: the further routes have failed as well.
    fn give_up(&mut self, destination: Member, route: &mut Route) {
        route.changed = Some(self.now);
        route.better_since = None;
        while let Some(used) = route.uses.pop() {
            route.leave(&self.policy, self.source, self.now, &used, Cause::Failed);
            let inputs = self.inputs(&used, None);
            self.log(destination, used.place, (Some(used.path), None), Reason::Failed, inputs);
        }
    }

    fn change_first(
        &mut self,
        destination: Member,
        route: &mut Route,
        (used, from, flows): (Use, Option<Judged>, u32),
        (path, judged, reason, confidence_ratio): Choice,
    ) {
        let inputs = Inputs { to: Some(judged), confidence_ratio, flows: Some(flows), ..self.inputs(&used, from) };
        let cause = match reason {
            Reason::Failed => Cause::Failed,
            Reason::Degraded => Cause::Degraded,
            Reason::Initial | Reason::Better | Reason::Restored | Reason::FewerHops | Reason::Removed => Cause::Worse,
        };
        route.leave(&self.policy, self.source, self.now, &used, cause);
        // The traffic of a further route stays known.
        let further = route.uses.iter().skip(1).find(|u| u.path == path).copied();
        if let Some(first) = route.uses.first_mut() {
            let new = Use::new(0, path, self.now, &judged);
            *first = further.map_or(new, |further| new.with_traffic_of(&further));
        }
        route.changed = Some(self.now);
        route.better_since = None;
        self.log(destination, 0, (Some(used.path), Some(path)), reason, inputs);
    }

    /// A path that is better by all rules, and for long enough.
    fn better(&mut self, destination: Member, route: &mut Route, (judged, flows): (Judged, u32)) -> Option<Choice> {
        let used = route.uses.first_mut()?;
        used.note_saturated(self.now, &self.policy, &judged.metrics);
        let present = Present::new(&self.policy, self.now, *used, (judged, flows));
        let mut found = None;
        let mut suppressed_until: Option<Instant> = None;
        for (path, candidate) in self.candidates(destination, &present, flows) {
            if !present.objections(&self.policy, &path, &candidate).is_empty() {
                continue;
            }
            let Some(until) = route.suppressed_until(self.now, &path, present.is_degraded) else {
                found = Some((path, candidate));
                break;
            };
            suppressed_until = Some(suppressed_until.map_or(until, |earlier| earlier.min(until)));
        }
        if let Some(until) = suppressed_until {
            self.wake_at(until);
        }
        let Some((path, candidate)) = found else {
            route.better_since = None;
            return None;
        };
        route.better_since.get_or_insert(self.now);
        let waits = present.waits(&self.policy, self.now, route, &candidate);
        if let Some(until) = waits.iter().filter_map(Hold::until).max() {
            self.wake_at(until);
            return None;
        }
        let reason = if !present.shortfalls(&self.policy, &candidate).is_empty() {
            Reason::FewerHops
        } else if present.is_degraded {
            Reason::Degraded
        } else if route.was_left(&path) {
            Reason::Restored
        } else {
            Reason::Better
        };
        Some((path, candidate, reason, Some(present.confidence_ratio(&candidate))))
    }

    /// The paths that are predicted to be better by the margin, the best first.
    fn candidates(&self, destination: Member, present: &Present, flows: u32) -> Vec<(Path, Judged)> {
        let all_flows = |metrics: &Metrics| {
            let one = self.policy.predict(metrics).as_bps();
            Rate::from_bps(one.saturating_mul(u64::from(flows.max(1))))
        };
        // By the loss alone first: few are left, and intervals take time.
        let required = present.required(&self.policy);
        let predicted = self.fronts.candidates(&self.graph, destination).filter(|(path, metrics)| {
            let is_shorter = self.policy.prefer_shorter && path.relays().len() < present.used.path.relays().len();
            all_flows(metrics) >= if is_shorter { present.as_good() } else { required }
        });
        let surely = self.surest.iter().flat_map(|fronts| fronts.candidates(&self.graph, destination));
        let surely = surely.filter(|(_, metrics)| all_flows(metrics) > present.utility);
        let beside = self.beside.iter().flat_map(|fronts| fronts.candidates(&self.graph, destination));
        let beside = beside.filter(|(path, _)| self.shares.along(self.source, path).is_some());
        let others = predicted.chain(surely).chain(beside).filter(|(path, _)| *path != present.used.path);
        let mut candidates: Vec<(Path, Judged)> =
            others.filter_map(|(path, _)| Some((path, self.judged(&path, flows)?))).collect();
        candidates.sort_by_key(|(path, judged)| (core::cmp::Reverse(rank(judged)), *path));
        candidates
    }

    /// The path with the largest lower bound of the rate, when there is no route. Suppressed paths, and those of low
    /// confidence, come after all others.
    fn safest(&self, destination: Member, route: &Route) -> Option<(Path, Judged)> {
        let flows = route.uses.first().map_or(0, |u| self.flows_on(u));
        if let Some(direct) = self.direct_at_first(destination, route, flows) {
            return Some(direct);
        }
        let all = self.surest.as_ref().unwrap_or(&self.fronts).candidates(&self.graph, destination);
        let judged = all.filter_map(|(path, _)| Some((path, self.judged(&path, flows)?)));
        judged.max_by_key(|(path, judged)| {
            let is_trusted = judged.metrics.confidence >= self.policy.min_confidence;
            let is_free = route.suppressed_until(self.now, path, true).is_none();
            (is_trusted, is_free, judged.utility[0], rank(judged), core::cmp::Reverse(*path))
        })
    }

    /// The direct link, while the capacity of no path to the destination is known and the link has lost nothing. A relay
    /// needs a measured reason.
    fn direct_at_first(&self, destination: Member, route: &Route, flows: u32) -> Option<(Path, Judged)> {
        let direct = Path::direct(destination);
        let judged = self.judged(&direct, flows)?;
        let is_suppressed = route.suppressed_until(self.now, &direct, true).is_some();
        // The capacity of a candidate of the search may be assumed.
        let has_capacity = |path: &Path| self.graph.metrics(self.source, path).is_some_and(|m| m.capacity.is_some());
        let mut fronts = self.surest.iter().chain([&self.fronts]);
        let is_known =
            fronts.any(|front| front.candidates(&self.graph, destination).any(|(path, _)| has_capacity(&path)));
        let is_clean = judged.metrics.capacity.is_none() && judged.metrics.loss <= 0.0;
        (is_clean && !is_suppressed && !is_known).then_some((direct, judged))
    }

    /// The fields of the policy in each decision.
    pub(super) fn policy_inputs(&self) -> Inputs {
        Inputs { margin: self.policy.margin, hold_down: self.policy.hold_down, ..Inputs::default() }
    }
}

/// Order of the paths: by the rate of all flows, then by that of one.
fn rank(judged: &Judged) -> (Rate, Rate) {
    (judged.utility[1], judged.predicted)
}

// Decisions are small enough to be queued by the thousand, as when a member's only link fails.
const _: () = assert!(size_of::<Decision>() <= 512);
