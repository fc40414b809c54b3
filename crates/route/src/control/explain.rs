//! Explanation of the routes to a destination.

use std::collections::BTreeMap;

use units::Rate;

use super::Control;
use super::judge::Present;
use super::route::Route;
use crate::explanation::{Candidate, Explanation, Hold, InUse};
use crate::search::{Except, candidates};
use crate::{Judged, Member, Path};

impl Control {
    /// Explains the routes to a destination, as of the last call with a time; `None`: the destination is unknown.
    pub fn why(&self, destination: Member) -> Option<Explanation> {
        let route = self.routes.get(&destination)?;
        let used = route.uses.iter().map(|u| {
            let load = u.load_at(self.now, &self.policy);
            let judged = self.judged(&u.path, self.flows_on(u));
            let rate_aware = judged.map(|judged| self.rate_aware(&judged));
            let assumed = judged.is_some_and(|judged| self.policy.is_assumed(&judged.metrics));
            InUse { path: u.path, since: u.since, judged, rate_aware, assumed, chosen_for: u.chosen_for, load }
        });
        let used: Vec<InUse> = used.collect();
        let first = used.first().map(|u| u.path);
        let flows = route.uses.first().map_or(0, |u| self.flows_on(u));
        let present = used
            .first()
            .and_then(|u| u.judged)
            .zip(route.uses.first())
            .map(|(judged, used)| Present::new(&self.policy, self.now, *used, (judged, flows)));
        let all = candidates(&self.graph, self.source, destination, Except::default());
        let surest = self.surest.iter().flat_map(|fronts| fronts.candidates(&self.graph, destination));
        let beside_load = self.beside.iter().flat_map(|fronts| fronts.candidates(&self.graph, destination));
        // The alternatives, even if the present route is better in everything.
        let beside = first
            .as_ref()
            .map_or_else(Except::default, |path| Except { relays: path.relays(), direct: path.relays().is_empty() });
        let instead = candidates(&self.graph, self.source, destination, beside);
        let paths: BTreeMap<Path, Judged> = all
            .into_iter()
            .chain(surest)
            .chain(beside_load)
            .chain(instead)
            .filter(|(path, _)| Some(*path) != first)
            .filter_map(|(path, _)| Some((path, self.judged(&path, flows)?)))
            .collect();
        let mut candidates: Vec<Candidate> = paths
            .into_iter()
            .map(|(path, judged)| Candidate {
                path,
                judged,
                rate_aware: self.rate_aware(&judged),
                assumed: self.policy.is_assumed(&judged.metrics),
                holds: self.holds(route, present.as_ref(), &path, &judged),
            })
            .collect();
        candidates.sort_by(|a, b| b.judged.utility[1].cmp(&a.judged.utility[1]).then(a.path.cmp(&b.path)));
        let decided = self.last.get(&destination).copied();
        Some(Explanation { at: self.now, destination, used, decided, candidates })
    }

    fn rate_aware(&self, judged: &Judged) -> Rate {
        self.policy.rate_aware.predict(&judged.metrics, self.policy.mss, self.policy.unknown_capacity)
    }

    fn holds(&self, route: &Route, present: Option<&Present>, path: &Path, judged: &Judged) -> Vec<Hold> {
        let is_degraded = present.is_none_or(|p| p.is_degraded);
        let suppressed = route.suppressed_until(self.now, path, is_degraded);
        let mut holds: Vec<Hold> = suppressed.map(|until| Hold::Damped { until }).into_iter().collect();
        let Some(present) = present else {
            let held = self.held_failed(route);
            holds.extend(held.map(|until| Hold::HoldDown { until }));
            return holds;
        };
        let objections = present.objections(&self.policy, path, judged);
        let waits = if objections.is_empty() && holds.is_empty() {
            present.waits(&self.policy, self.now, route, judged)
        } else {
            Vec::new()
        };
        holds.into_iter().chain(objections).chain(waits).collect()
    }
}
