//! The answer to "why".

use std::collections::BTreeMap;

use units::Rate;

use super::Control;
use super::judge::Standing;
use super::route::{Need, Route};
use crate::explanation::{Candidate, Explanation, Hold, InUse};
use crate::search::{Except, candidates};
use crate::{Judged, Member, Path};

impl Control {
    /// Why the destination has the paths that it has, as of the last call with a time; `None`: nobody knows it.
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
        let standing = used
            .first()
            .and_then(|u| u.judged)
            .zip(route.uses.first())
            .map(|(judged, used)| Standing::new(&self.policy, self.now, *used, (judged, flows)));
        let relied_on = candidates(&self.graph, self.source, destination, Except::default());
        let all = Except { withheld: true, ..Except::default() };
        let withheld = candidates(&self.graph, self.source, destination, all);
        let surest = self.surest.iter().flat_map(|fronts| fronts.candidates(&self.graph, destination));
        let beside_load = self.beside.iter().flat_map(|fronts| fronts.candidates(&self.graph, destination));
        // What there is instead, even if the present path is better in everything.
        let beside = first.as_ref().map_or(all, |path| Except {
            relays: path.relays(),
            direct: path.relays().is_empty(),
            withheld: true,
        });
        let instead = candidates(&self.graph, self.source, destination, beside);
        let paths: BTreeMap<Path, Judged> = relied_on
            .into_iter()
            .chain(withheld)
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
                holds: self.holds(route, standing.as_ref(), &path, &judged),
            })
            .collect();
        candidates.sort_by(|a, b| b.judged.worth[1].cmp(&a.judged.worth[1]).then(a.path.cmp(&b.path)));
        let decided = self.last.get(&destination).copied();
        Some(Explanation { at: self.now, destination, used, decided, candidates })
    }

    fn rate_aware(&self, judged: &Judged) -> Rate {
        self.policy.rate_aware.predict(&judged.metrics, self.policy.mss, self.policy.unknown_capacity)
    }

    fn holds(&self, route: &Route, standing: Option<&Standing>, path: &Path, judged: &Judged) -> Vec<Hold> {
        let need = standing.map_or(Need::Some, |s| s.need(judged));
        let withheld = self.withheld_until(need, path);
        let mut holds: Vec<Hold> = withheld.map(|until| Hold::LinkSuppressed { until }).into_iter().collect();
        let refractory = route.refractory(&self.policy, self.now, path, need);
        holds.extend(refractory.map(|until| Hold::Damped { until }));
        let Some(standing) = standing else {
            let held = self.held_failed(route);
            holds.extend(held.map(|until| Hold::HoldDown { until }));
            return holds;
        };
        let doubts = standing.doubts(&self.policy, path, judged);
        let waits = if doubts.is_empty() && holds.is_empty() {
            standing.waits(&self.policy, self.now, route, judged)
        } else {
            Vec::new()
        };
        holds.into_iter().chain(doubts).chain(waits).collect()
    }
}
