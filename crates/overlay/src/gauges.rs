//! What flows of each queue the paths carry, and in which turn the queues move them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use route::Path;
use route::flows::Active;
use units::Instant;

/// How often elephants of a queue are looked at, one by one.
const REBALANCE: Duration = Duration::from_secs(5);

/// What flows of a queue each path carries: written by the thread that sends them, read by others.
#[derive(Default)]
pub(crate) struct Gauges {
    pub(crate) unremembered: AtomicU64,
    /// Flows on each path, as of the last count.
    pub(crate) by_path: Mutex<Vec<(Path, Active)>>,
}

/// Flows of all queues on each path, in the order in which people read them: by destination, the shortest path first.
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

/// A queue among all queues. Each places its own elephants, by what all of them carry, and one after the other, so that none moves to where another one just
/// has.
#[derive(Clone, Default)]
pub(crate) struct Queues {
    /// Number of this one.
    pub(crate) own: u8,
    pub(crate) all: Vec<Arc<Gauges>>,
}

impl Queues {
    /// What flows this queue carries.
    pub(crate) fn tell(&self, unremembered: u64, active: Vec<(Path, Active)>) {
        let Some(gauges) = self.all.get(usize::from(self.own)) else { return };
        gauges.unremembered.store(unremembered, Ordering::Relaxed);
        *gauges.by_path.lock().unwrap_or_else(PoisonError::into_inner) = active;
    }

    /// Elephants of the other queues, by path.
    pub(crate) fn elephants_elsewhere(&self) -> HashMap<Path, u32> {
        let others = self.all.iter().enumerate().filter(|(queue, _)| *queue != usize::from(self.own));
        let others = Vec::from_iter(others.map(|(_, gauges)| Arc::clone(gauges)));
        active(&others).into_iter().map(|(path, active)| (path, active.elephants)).collect()
    }

    /// The number of the turn, if it is this queue's.
    pub(crate) fn turn(&self, now: Instant) -> Option<u64> {
        let count = self.all.len().max(1) as u64;
        let turn = now.as_nanos() / (REBALANCE.as_nanos() as u64 / count);
        (turn % count == u64::from(self.own)).then_some(turn)
    }
}

#[cfg(test)]
mod tests {
    use route::Member;

    use super::*;

    #[test]
    fn each_queue_has_a_turn_in_five_seconds_and_never_two_at_once() {
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
    fn a_queue_knows_the_elephants_of_the_others() {
        let all = Vec::from_iter((0..2).map(|_| Arc::<Gauges>::default()));
        let queues = [0, 1].map(|own| Queues { own, all: all.clone() });
        let path = Path::direct(Member(7));
        queues[0].tell(0, vec![(path, Active { flows: 5, elephants: 2 })]);
        queues[1].tell(0, vec![(path, Active { flows: 1, elephants: 1 })]);
        assert_eq!(queues.each_ref().map(|q| q.elephants_elsewhere()[&path]), [1, 2]);
        assert_eq!(active(&all), [(path, Active { flows: 6, elephants: 3 })]);
    }
}
