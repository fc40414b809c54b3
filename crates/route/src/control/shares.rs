//! What our flows get on links that ways to other destinations share.

use std::collections::{BTreeMap, BTreeSet};

use units::{Instant, Rate};

use super::links::Link;
use super::route::{Load, Route};
use crate::{Graph, Member, Metrics, Path, Policy};

/// Our load on each link that we fill, by the destination of the flows.
///
/// A link that our flows fill loses packets because they fill it. A way to somebody else that shares the link is not as bad as a formula makes of
/// that loss: at least what each of those flows gets there, another one would get, too.
#[derive(Debug, Clone, Default)]
pub(super) struct Shares(BTreeMap<(Link, Member), Load>);

impl Shares {
    pub(super) fn of(
        routes: &BTreeMap<Member, Route>,
        (graph, source): (&Graph, Member),
        now: Instant,
        policy: &Policy,
    ) -> Self {
        let mut shares = Self::default();
        for used in routes.values().flat_map(|r| &r.uses) {
            let load = used.recent_load(now, policy);
            if load.flows == 0 {
                continue;
            }
            for link in used.path.links(source) {
                let sum = shares.0.entry((link, used.path.destination())).or_default();
                sum.flows = sum.flows.saturating_add(load.flows);
                sum.carried = Rate::from_bps(sum.carried.as_bps().saturating_add(load.carried.as_bps()));
            }
        }
        let mut carried: BTreeMap<Link, u64> = BTreeMap::new();
        for ((link, _), load) in &shares.0 {
            let sum = carried.entry(*link).or_default();
            *sum = sum.saturating_add(load.carried.as_bps());
        }
        // On others the losses are not ours, and a sender in luck for half a second says nothing.
        shares.0.retain(|(link, _), _| {
            let capacity = graph.link(link.0, link.1).and_then(|m| m.capacity);
            let carried = carried.get(link).copied().unwrap_or(0) as f64;
            capacity.is_none_or(|capacity| carried >= policy.saturated_share * capacity.as_bps() as f64)
        });
        shares
    }

    /// The graph as it would be if the links that we fill lost nothing; `None`: none of them does.
    pub(super) fn without_losses(&self, graph: &Graph) -> Option<Graph> {
        let links: BTreeSet<Link> = self.0.keys().map(|(link, _)| *link).collect();
        let known = links.into_iter().filter_map(|link| Some((link, *graph.link(link.0, link.1)?)));
        let lossy: Vec<(Link, Metrics)> = known.filter(|(_, metrics)| metrics.loss > 0.0).collect();
        if lossy.is_empty() {
            return None;
        }
        let mut clean = graph.clone();
        for ((from, to), metrics) in lossy {
            clean.set(from, to, Metrics { loss: 0.0, loss_low: 0.0, loss_high: 0.0, ..metrics });
        }
        Some(clean)
    }

    /// What each of our flows to other destinations gets on the link; `None`: there is none.
    pub(super) fn on(&self, link: Link, destination: Member) -> Option<Rate> {
        let all = self.0.range((link, Member(u32::MIN))..=(link, Member(u32::MAX)));
        let others = all.filter(|((_, to), _)| *to != destination).map(|(_, load)| load);
        let (flows, carried) = others.fold((0, 0_u64), |(flows, carried), load| {
            (flows + u64::from(load.flows), carried.saturating_add(load.carried.as_bps()))
        });
        (flows > 0).then(|| Rate::from_bps(carried / flows))
    }

    /// The least of them along a path from `source`; `None`: the path shares no link with such flows.
    pub(super) fn along(&self, source: Member, path: &Path) -> Option<Rate> {
        if self.0.is_empty() {
            return None;
        }
        path.links(source).filter_map(|link| self.on(link, path.destination())).min()
    }
}
