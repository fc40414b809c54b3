use std::collections::VecDeque;

/// Maximum n for which n-reordering is counted: TCP with SACK treats a packet as lost from 3 on, Linux adapts up to
/// 300.
const N_MAX: usize = 100;

/// n-reordering (RFC 4737 §5.4): a packet is n-reordered when the n packets that arrived just before all have higher
/// numbers.
///
/// A packet that is n-reordered is also m-reordered for each m below n, so each counts once for each.
#[derive(Debug, Clone, Default)]
pub(super) struct NReordering {
    /// The latest arrivals, newest first.
    recent: VecDeque<u64>,
    counts: Vec<u64>,
}

impl NReordering {
    /// Records an arrival that is no duplicate (the RFC's definition presumes distinct numbers).
    pub(super) fn handle(&mut self, seq: u64) {
        let n = self.recent.iter().take_while(|earlier| **earlier > seq).count();
        if n > self.counts.len() {
            self.counts.resize(n, 0);
        }
        for count in self.counts.iter_mut().take(n) {
            *count += 1;
        }
        self.recent.truncate(N_MAX - 1);
        self.recent.push_front(seq);
    }

    /// Element n-1 counts the packets that are n-reordered; the length is the largest n seen, at most 100.
    pub(super) fn into_counts(self) -> Vec<u64> {
        self.counts
    }
}
