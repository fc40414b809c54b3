use units::Rate;

use super::{RouteId, Table};

/// Entries that one call goes over at most.
const STEP: usize = 4096;

/// A routing entry of a destination, with what its path is predicted to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The routing entry.
    pub route: RouteId,
    /// What all flows on it get together.
    pub predicted: Rate,
}

impl Table {
    /// Moves single elephants between the routing entries of a destination: to the one where an elephant's share of the predicted rate is largest, if that is
    /// more than `1 + margin` times what it has. At most `most` of them; the others stay. How many were moved.
    ///
    /// Elephants are placed one by one because hashing spreads numbers of flows, not bytes. To be called each few seconds: each move reorders a flow.
    /// A call goes over a part of the table, the next one over what follows.
    pub fn rebalance(&mut self, shares: &[Share], most: usize, margin: f64) -> usize {
        let mut moved = 0;
        for _ in 0..STEP.min(self.entries.len()) {
            if moved == most {
                break;
            }
            let at = self.balanced;
            self.balanced = (self.balanced + 1) % self.entries.len();
            let Some(entry) = self.entries[at].filter(|e| e.is_elephant) else { continue };
            let Some(here) = shares.iter().find(|s| s.route == entry.route) else { continue };
            let has = self.share(here, 0);
            let better = |s: &&Share| s.route != entry.route && self.path(s.route).is_some();
            let best =
                shares.iter().filter(better).map(|s| (self.share(s, 1), s.route)).max_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((_, route)) = best.filter(|(gets, _)| *gets > (1.0 + margin) * has) {
                self.point(at, route);
                moved += 1;
            }
        }
        moved
    }

    /// What each elephant gets with `more` of them.
    fn share(&self, share: &Share, more: u32) -> f64 {
        let elephants = self.active(share.route).elephants.saturating_add(more).max(1);
        share.predicted.as_bps() as f64 / f64::from(elephants)
    }
}
