//! The choice of the first path to a destination.

use units::{Instant, Rate};

use super::judge::{DIRE, Standing};
use super::route::{Need, Route, Use, Why};
use super::{Control, Fronts};
use crate::{Decision, Hold, Inputs, Judged, Member, Path, Reason};

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

    /// Until when a path that has failed is kept: without haste for what fails, the hold-down is for such as well.
    pub(super) fn held_failed(&self, route: &Route) -> Option<Instant> {
        let is_held = !self.policy.fast_fail && !route.uses.is_empty();
        let changed = route.changed.filter(|_| is_held);
        changed.map(|at| at + self.policy.hold_down).filter(|until| *until > self.now)
    }

    /// No path is left, so the further ones have failed, too.
    fn give_up(&mut self, destination: Member, route: &mut Route) {
        route.changed = Some(self.now);
        route.better_since = None;
        while let Some(used) = route.uses.pop() {
            route.leave(&self.policy, self.source, self.now, &used, Why::Failed);
            let inputs = self.inputs(&used, None);
            self.log(destination, used.place, (Some(used.path), None), Reason::Failed, inputs);
        }
    }

    fn change_first(
        &mut self,
        destination: Member,
        route: &mut Route,
        (used, from, flows): (Use, Option<Judged>, u32),
        (path, judged, reason, sure_ratio): Choice,
    ) {
        let inputs = Inputs { to: Some(judged), sure_ratio, flows: Some(flows), ..self.inputs(&used, from) };
        let why = match reason {
            Reason::Failed => Why::Failed,
            Reason::Degraded => Why::Collapsed,
            Reason::Initial | Reason::Better | Reason::Restored | Reason::FewerHops | Reason::Removed => Why::Worse,
        };
        route.leave(&self.policy, self.source, self.now, &used, why);
        // Traffic that has been there as on a further path is known already.
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
        used.note_filled(self.now, &self.policy, &judged.metrics);
        let mut standing = Standing::new(&self.policy, self.now, *used, (judged, flows));
        let low_since = standing.collapsed.then(|| used.low_since.unwrap_or(self.now));
        used.low_since = low_since;
        if low_since.is_some_and(|since| since + self.policy.hold_down <= self.now) {
            // What has been low for long does not collapse now: a path may have been chosen for a rate that few packets promised.
            used.resign(&judged);
            standing.collapsed = false;
        }
        standing.used = *used;
        let mut found = None;
        let mut refractory_until = None;
        for (path, candidate) in self.rivals(destination, &standing, flows) {
            if !standing.doubts(&self.policy, &path, &candidate).is_empty() {
                continue;
            }
            let need = standing.need(&candidate);
            let withheld = self.withheld_until(need, &path);
            if let Some(until) = withheld.max(route.refractory(&self.policy, self.now, &path, need)) {
                refractory_until = Some(refractory_until.map_or(until, |u: Instant| u.min(until)));
                continue;
            }
            found = Some((path, candidate));
            break;
        }
        if let Some(until) = refractory_until {
            self.wake_at(until);
        }
        let Some((path, candidate)) = found else {
            route.better_since = None;
            return None;
        };
        route.better_since.get_or_insert(self.now);
        let waits = standing.waits(&self.policy, self.now, route, &candidate);
        if let Some(until) = waits.iter().filter_map(Hold::until).max() {
            self.wake_at(until);
            return None;
        }
        let reason = if !standing.shortfalls(&self.policy, &candidate).is_empty() {
            Reason::FewerHops
        } else if standing.collapsed {
            Reason::Degraded
        } else if route.was_left(&path) {
            Reason::Restored
        } else {
            Reason::Better
        };
        Some((path, candidate, reason, Some(standing.sure_ratio(&candidate))))
    }

    /// Until when the path is not taken because a link of it has failed lately. Where it is beyond doubt what there is to gain, that counts no flaps.
    pub(super) fn withheld_until(&self, need: Need, path: &Path) -> Option<Instant> {
        let of_link = |link| {
            if need == Need::Dire {
                self.links.back_since(link).map(|back| back + self.policy.refractory)
            } else {
                self.links.withheld_until(link)
            }
        };
        path.links(self.source).filter_map(of_link).max().filter(|until| *until > self.now)
    }

    /// The paths that are predicted to be better by the margin, the best first; those over links that failed lately after all others.
    fn rivals(&self, destination: Member, standing: &Standing, flows: u32) -> Vec<(Path, Judged)> {
        let needed = standing.needed(&self.policy);
        let all = self.fronts.candidates(&self.graph, destination);
        let rivals = all.filter(|(path, metrics)| {
            // First by the loss alone: nearly always nothing is left, and intervals cost.
            let one = self.policy.predict(metrics).as_bps();
            let is_shorter = self.policy.prefer_shorter && path.relays().len() < standing.used.path.relays().len();
            let needed = if is_shorter { standing.as_good() } else { needed };
            *path != standing.used.path && one.saturating_mul(u64::from(flows.max(1))) >= needed.as_bps()
        });
        // Of the others none is surely better whose least rate is not.
        let surely = self.surest.iter().flat_map(|fronts| fronts.candidates(&self.graph, destination));
        let surely = surely.filter(|(path, metrics)| {
            let one = self.policy.predict(metrics).as_bps();
            *path != standing.used.path && one.saturating_mul(u64::from(flows.max(1))) > standing.worth.as_bps()
        });
        let is_withheld = |path: &Path| self.graph.is_withheld(self.source, path);
        let withheld = self.withheld.iter().flat_map(|fronts| fronts.candidates(&self.graph, destination));
        let withheld = withheld.filter(|(path, metrics)| {
            let one = self.policy.predict(metrics).as_bps();
            let all = one.saturating_mul(u64::from(flows.max(1)));
            let is_needed = all as f64 >= DIRE * standing.worth.as_bps() as f64;
            *path != standing.used.path && is_needed && is_withheld(path)
        });
        let beside = self.beside.iter().flat_map(|fronts| fronts.candidates(&self.graph, destination));
        let beside =
            beside.filter(|(path, _)| *path != standing.used.path && self.shares.along(self.source, path).is_some());
        let rivals = rivals.chain(surely).chain(withheld).chain(beside);
        let mut rivals: Vec<(Path, Judged)> =
            rivals.filter_map(|(path, _)| Some((path, self.judged(&path, flows)?))).collect();
        rivals.sort_by_key(|(path, judged)| (is_withheld(path), core::cmp::Reverse(rank(judged)), *path));
        rivals
    }

    /// The path with the largest rate that is sure, when there is nothing to hold it against. Paths that are not to be relied on yet come after
    /// all others.
    fn safest(&self, destination: Member, route: &Route) -> Option<(Path, Judged)> {
        let flows = route.uses.first().map_or(0, |u| self.flows_on(u));
        if let Some(direct) = self.direct_at_first(destination, route, flows) {
            return Some(direct);
        }
        let best = |fronts: &Fronts| {
            let all = fronts.candidates(&self.graph, destination);
            let judged = all.filter_map(|(path, _)| Some((path, self.judged(&path, flows)?)));
            judged.max_by_key(|(path, judged)| {
                let is_trusted = judged.metrics.confidence >= self.policy.least_confidence;
                let is_free = route.refractory(&self.policy, self.now, path, Need::Some).is_none();
                (is_trusted, is_free, judged.worth[0], rank(judged), core::cmp::Reverse(*path))
            })
        };
        best(self.surest.as_ref().unwrap_or(&self.fronts)).or_else(|| best(self.withheld.as_ref()?))
    }

    /// The direct link, while the capacity of no path to the destination is known and the link has lost nothing. A relay
    /// needs a measured reason.
    fn direct_at_first(&self, destination: Member, route: &Route, flows: u32) -> Option<(Path, Judged)> {
        let direct = Path::direct(destination);
        let judged = self.judged(&direct, flows)?;
        let is_relied_on = !self.graph.is_withheld(self.source, &direct)
            && route.refractory(&self.policy, self.now, &direct, Need::Some).is_none();
        // What a candidate of the search has for a capacity may be assumed.
        let has_capacity = |path: &Path| self.graph.metrics(self.source, path).is_some_and(|m| m.capacity.is_some());
        let mut fronts = self.surest.iter().chain([&self.fronts]);
        let is_known =
            fronts.any(|front| front.candidates(&self.graph, destination).any(|(path, _)| has_capacity(&path)));
        let is_clean = judged.metrics.capacity.is_none() && judged.metrics.loss <= 0.0;
        (is_clean && is_relied_on && !is_known).then_some((direct, judged))
    }

    /// The fields of the policy that decisions show.
    pub(super) fn policy_inputs(&self) -> Inputs {
        Inputs { margin: self.policy.margin, hold_down: self.policy.hold_down, ..Inputs::default() }
    }
}

/// By what paths are sorted: what all flows get, then what one would.
fn rank(judged: &Judged) -> (Rate, Rate) {
    (judged.worth[1], judged.predicted)
}

// Decisions are small enough to be queued by the thousand, as when a member's only link fails.
const _: () = assert!(size_of::<Decision>() <= 512);
