//! Flow counts per path and transmit queue, and the turns in which the queues rebalance their elephant flows.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use route::Path;
use route::flows::Active;
use units::Instant;

/// Interval at which a queue rebalances its elephant flows.
const REBALANCE_INTERVAL: Duration = Duration::from_secs(5);

/// Flow counts of a queue: written by its transmit thread, read by other threads.
#[derive(Default)]
pub(crate) struct Gauges {
    /// New flows without an entry in the flow table, because active elephant flows occupied all their slots.
    pub(crate) unremembered: AtomicU64,
    /// Flows on each path at the last count.
    pub(crate) by_path: Mutex<Vec<(Path, Active)>>,
}

/// Flows of all queues on each path, sorted by destination and then path, the shortest first.
pub(crate) fn active(gauges: &[Arc<Gauges>]) -> Vec<(Path, Active)> {
    let mut all: BTreeMap<_, Active> = BTreeMap::new();
    for queue in gauges {
        for (path, active) in queue.by_path.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let sum = all.entry((path.destination(), *path)).or_default();
            (sum.flows, sum.elephants) = (sum.flows + active.flows, sum.elephants + active.elephants);
        }
    }
    all.into_iter().map(|((_, path), active)| (path, active)).collect()
}

/// A transmit queue among all queues. Queues rebalance in turns and by the counts of all queues, so that two never move
/// flows to the same path at once.
#[derive(Clone, Default)]
pub(crate) struct Queues {
    /// Number of this queue.
    pub(crate) own: u8,
    pub(crate) all: Vec<Arc<Gauges>>,
}

impl Queues {
    /// Publishes the flow counts of this queue.
    pub(crate) fn publish(&self, unremembered: u64, active: Vec<(Path, Active)>) {
        let Some(gauges) = self.all.get(usize::from(self.own)) else { return };
        gauges.unremembered.store(unremembered, Ordering::Relaxed);
        *gauges.by_path.lock().unwrap_or_else(PoisonError::into_inner) = active;
    }

    /// Elephant flows of the other queues, by path.
    pub(crate) fn elephants_elsewhere(&self) -> HashMap<Path, u32> {
        let others = self.all.iter().enumerate().filter(|(queue, _)| *queue != usize::from(self.own));
        let others = Vec::from_iter(others.map(|(_, gauges)| Arc::clone(gauges)));
        active(&others).into_iter().map(|(path, active)| (path, active.elephants)).collect()
    }

    /// Number of the current turn if it belongs to this queue.
    pub(crate) fn turn(&self, now: Instant) -> Option<u64> {
        let count = self.all.len().max(1) as u64;
        let turn = now.as_nanos() / (REBALANCE_INTERVAL.as_nanos() as u64 / count);
        (turn % count == u64::from(self.own)).then_some(turn)
    }
}

#[cfg(test)]
mod tests {
    use route::Member;

    use super::*;

    #[test]
    fn each_queue_has_one_turn_in_five_seconds_and_turns_never_overlap() {
        let all = vec![Arc::default(); 3];
        let queues = [0, 1, 2].map(|own| Queues { own, all: all.clone() });
        let mut turns = [(); 3].map(|()| std::collections::BTreeSet::new());
        for ms in 0..60_000 {
            let now = Instant::ZERO + Duration::from_millis(ms);
            let theirs = queues.iter().map(|q| q.turn(now)).collect::<Vec<_>>();
            assert_eq!(theirs.iter().flatten().count(), 1, "{ms} ms");
            for (turns, turn) in turns.iter_mut().zip(theirs) {
                turns.extend(turn);
            }
        }
        assert_eq!(turns.map(|t| t.len()), [12; 3]);
    }

    #[test]
    fn a_queue_sees_the_elephant_flows_of_other_queues() {
        let all = Vec::from_iter((0..2).map(|_| Arc::<Gauges>::default()));
        let queues = [0, 1].map(|own| Queues { own, all: all.clone() });
        let path = Path::direct(Member(7));
        queues[0].publish(0, vec![(path, Active { flows: 5, elephants: 2 })]);
        queues[1].publish(0, vec![(path, Active { flows: 1, elephants: 1 })]);
        assert_eq!(queues.each_ref().map(|q| q.elephants_elsewhere()[&path]), [1, 2]);
        assert_eq!(active(&all), [(path, Active { flows: 6, elephants: 3 })]);
    }
}
