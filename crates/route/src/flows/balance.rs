use units::Rate;

use super::{RouteId, Table};

/// A routing entry of a destination, with what its path is predicted to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The routing entry.
    pub route: RouteId,
    /// Rate predicted for one flow.
    pub one: Rate,
    /// Most that all flows get together.
    pub capacity: Rate,
    /// What the elephants that are on it get together, where that is known; else nothing.
    pub carried: Rate,
    /// Elephants on its path that other tables hold.
    pub elsewhere: u32,
}

impl Table {
    /// Moves one elephant of each destination at most, given by its routing entries: from where an elephant gets least to where it would
    /// get most, if that is more than `1 + margin` times as much. How many were moved.
    ///
    /// Elephants are placed one by one because hashing spreads numbers of flows, not bytes. To be called each few seconds: each move reorders a flow. What is
    /// counted says whether one is to be moved; only then a call goes over the table, once for all destinations: a millisecond for 65,536 flows.
    pub fn rebalance(&mut self, destinations: &[Vec<Share>], margin: f64) -> usize {
        let mut wanted: Vec<_> = destinations.iter().filter_map(|shares| self.wanted(shares, margin)).collect();
        let all = wanted.len();
        for at in 0..self.entries.len() {
            if wanted.is_empty() {
                break;
            }
            let Some(entry) = self.entries[at].as_ref().filter(|e| e.is_elephant) else { continue };
            let Some(found) = wanted.iter().position(|(from, _)| *from == entry.route) else { continue };
            let (_, to) = wanted.swap_remove(found);
            self.point(at, to);
        }
        all - wanted.len()
    }

    /// From which routing entry to which other one an elephant is to be moved.
    fn wanted(&self, shares: &[Share], margin: f64) -> Option<(RouteId, RouteId)> {
        let crowded = shares.iter().filter(|s| self.active(s.route).elephants > 0);
        let (has, from) = crowded.map(|s| (self.share(s, 0), s.route)).min_by(|a, b| a.0.total_cmp(&b.0))?;
        let others = shares.iter().filter(|s| s.route != from && self.path(s.route).is_some());
        let (gets, to) = others.map(|s| (self.share(s, 1), s.route)).max_by(|a, b| a.0.total_cmp(&b.0))?;
        (gets > (1.0 + margin) * has).then_some((from, to))
    }

    /// What each elephant gets with `more` of them: what one is predicted to get, as far as there is room for all, but no less than what those get that fill
    /// the path, as its losses are their own doing.
    fn share(&self, share: &Share, more: u32) -> f64 {
        let own = self.active(share.route).elephants;
        let elephants = f64::from(own.saturating_add(share.elsewhere).saturating_add(more).max(1));
        let of_each = |rate: Rate| rate.as_bps() as f64 / elephants;
        (share.one.as_bps() as f64).min(of_each(share.capacity)).max(of_each(share.carried))
    }
}
