//! The retransmission queue: which bytes are in flight, acknowledged selectively, lost, and sent again.
//!
//! The kernel keeps one buffer for each packet. Here one run stands for all adjacent segments of equal state, so that
//! the cost depends on the number of holes and not on the window.

use std::collections::VecDeque;

/// Adjacent segments of equal state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// First byte.
    pub(crate) start: u64,
    /// Byte after the last.
    pub(crate) end: u64,
    /// Time of the last transmission in us.
    pub(crate) sent_us: u64,
    /// Packets that had been delivered at that transmission.
    pub(crate) delivered: u32,
    /// Acknowledged by SACK (TCPCB_SACKED_ACKED).
    pub(crate) is_sacked: bool,
    /// Considered lost (TCPCB_LOST).
    pub(crate) is_lost: bool,
    /// A retransmission is in flight (TCPCB_SACKED_RETRANS).
    pub(crate) is_resent: bool,
    /// Retransmitted at any time (TCPCB_EVER_RETRANS).
    pub(crate) was_resent: bool,
}

impl Run {
    fn is_continued_by(&self, next: &Self) -> bool {
        let same_state = self.is_sacked == next.is_sacked
            && self.is_lost == next.is_lost
            && self.is_resent == next.is_resent
            && self.was_resent == next.was_resent;
        // The transmission time of a selectively acknowledged segment has no further use.
        let same_time = self.is_sacked || (self.sent_us == next.sent_us && self.delivered == next.delivered);
        self.end == next.start && same_state && same_time
    }
}

/// Packets by state. Their difference is the number of packets in flight (RFC 6675, `pipe`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Sent and not acknowledged (`packets_out`).
    pub(crate) out: u32,
    /// Of these: selectively acknowledged (`sacked_out`).
    pub(crate) sacked: u32,
    /// Of these: considered lost (`lost_out`).
    pub(crate) lost: u32,
    /// Retransmissions in flight (`retrans_out`).
    pub(crate) resent: u32,
}

impl Counts {
    /// Packets in flight (tcp_packets_in_flight).
    pub(crate) const fn in_flight(&self) -> u32 {
        (self.out + self.resent).saturating_sub(self.sacked + self.lost)
    }

    fn change(&mut self, run: &Run, packets: u32, add: bool) {
        let apply = |count: &mut u32, applies: bool| {
            if applies {
                *count = if add { count.saturating_add(packets) } else { count.saturating_sub(packets) };
            }
        };
        apply(&mut self.out, true);
        apply(&mut self.sacked, run.is_sacked);
        apply(&mut self.lost, run.is_lost);
        apply(&mut self.resent, run.is_resent);
    }
}

/// The runs between the first unacknowledged and the next byte, in order, without a gap.
#[derive(Debug, Clone)]
pub(crate) struct Scoreboard {
    mss: u64,
    runs: VecDeque<Run>,
    counts: Counts,
    /// Byte after the highest selectively acknowledged one; 0: none (tcp_highest_sack_seq).
    highest_sacked: u64,
}

impl Scoreboard {
    pub(crate) fn new(mss: u32) -> Self {
        Self { mss: u64::from(mss.max(1)), runs: VecDeque::new(), counts: Counts::default(), highest_sacked: 0 }
    }

    pub(crate) const fn counts(&self) -> Counts {
        self.counts
    }

    pub(crate) const fn highest_sacked(&self) -> u64 {
        self.highest_sacked
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(crate) fn first(&self) -> Option<&Run> {
        self.runs.front()
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    pub(crate) fn packets(&self, start: u64, end: u64) -> u32 {
        u32::try_from(end.saturating_sub(start).div_ceil(self.mss)).unwrap_or(u32::MAX)
    }

    /// Appends newly sent bytes.
    pub(crate) fn push(&mut self, run: Run) {
        self.counts.change(&run, self.packets(run.start, run.end), true);
        let whole = |last: &Run| (last.end - last.start).is_multiple_of(self.mss);
        match self.runs.back_mut() {
            Some(last) if last.is_continued_by(&run) && whole(last) => last.end = run.end,
            _ => self.runs.push_back(run),
        }
    }

    /// Removes all bytes before `seq`, and calls `observe` with each removed part and its number of packets.
    pub(crate) fn acknowledge(&mut self, seq: u64, mut observe: impl FnMut(&Run, u32)) {
        while let Some(first) = self.runs.front_mut() {
            if first.start >= seq {
                return;
            }
            let mut removed = *first;
            if first.end > seq {
                // Only whole segments leave the queue (tcp_tso_acked).
                removed.end = first.start + (seq - first.start) / self.mss * self.mss;
                if removed.end == first.start {
                    return;
                }
                first.start = removed.end;
            } else {
                self.runs.pop_front();
            }
            let packets = self.packets(removed.start, removed.end);
            self.counts.change(&removed, packets, false);
            observe(&removed, packets);
        }
    }

    /// Applies `change` to the parts of the runs within `start..end`, each with its number of packets. Adjacent runs of
    /// equal state are joined afterwards.
    pub(crate) fn update(&mut self, start: u64, end: u64, mut change: impl FnMut(&mut Run, u32)) {
        let from = self.split(start);
        let to = self.split(end);
        for index in from..to {
            let Some(run) = self.runs.get(index).copied() else { break };
            let packets = self.packets(run.start, run.end);
            let mut changed = run;
            change(&mut changed, packets);
            self.counts.change(&run, packets, false);
            self.counts.change(&changed, packets, true);
            if changed.is_sacked {
                self.highest_sacked = self.highest_sacked.max(changed.end);
            }
            if let Some(place) = self.runs.get_mut(index) {
                *place = changed;
            }
        }
        self.join(from.saturating_sub(1), to + 1);
    }

    /// Index of the first run that starts at or after `seq`, which splits the run that contains it. A position within a
    /// segment is rounded down to its start.
    fn split(&mut self, seq: u64) -> usize {
        let index = self.runs.partition_point(|run| run.end <= seq);
        let Some(run) = self.runs.get_mut(index) else { return index };
        let offset = seq.saturating_sub(run.start) / self.mss * self.mss;
        if offset == 0 {
            return index;
        }
        let mut rest = *run;
        run.end = run.start + offset;
        rest.start = run.end;
        self.runs.insert(index + 1, rest);
        index + 1
    }

    /// Joins equal neighbours among the runs with these indices.
    fn join(&mut self, from: usize, to: usize) {
        let mut index = to.min(self.runs.len().saturating_sub(1));
        while index > from {
            let (Some(left), Some(right)) = (self.runs.get(index - 1), self.runs.get(index)) else { return };
            let whole = (left.end - left.start).is_multiple_of(self.mss);
            if whole && left.is_continued_by(right) {
                let end = right.end;
                self.runs.remove(index);
                if let Some(left) = self.runs.get_mut(index - 1) {
                    left.end = end;
                }
            }
            index -= 1;
        }
    }

    /// Applies `change` to all runs.
    pub(crate) fn update_all(&mut self, change: impl FnMut(&mut Run, u32)) {
        let end = self.runs.back().map_or(0, |run| run.end);
        self.update(0, end, change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(start: u64, end: u64) -> Run {
        Run {
            start,
            end,
            sent_us: 0,
            delivered: 0,
            is_sacked: false,
            is_lost: false,
            is_resent: false,
            was_resent: false,
        }
    }

    fn board() -> Scoreboard {
        let mut board = Scoreboard::new(100);
        board.push(sent(0, 1000));
        board
    }

    #[test]
    fn counts_follow_the_states_of_the_segments() {
        let mut board = board();
        board.update(300, 500, |run, _| run.is_sacked = true);
        board.update(0, 300, |run, _| run.is_lost = true);
        board.update(0, 100, |run, _| run.is_resent = true);
        assert_eq!(board.counts(), Counts { out: 10, sacked: 2, lost: 3, resent: 1 });
        assert_eq!(board.counts().in_flight(), 6);
        assert_eq!(board.highest_sacked(), 500);
        let mut removed = Vec::new();
        board.acknowledge(400, |run, packets| removed.push((run.start, run.is_sacked, packets)));
        assert_eq!(removed, [(0, false, 1), (100, false, 2), (300, true, 1)]);
        assert_eq!(board.counts(), Counts { out: 6, sacked: 1, lost: 0, resent: 0 });
    }

    #[test]
    fn equal_neighbours_become_one_run() {
        let mut board = board();
        for start in [100, 500, 300, 200, 400] {
            board.update(start, start + 100, |run, _| run.is_sacked = true);
        }
        assert_eq!(
            board.runs().map(|run| (run.start, run.end)).collect::<Vec<_>>(),
            [(0, 100), (100, 600), (600, 1000)]
        );
    }

    #[test]
    fn a_short_segment_stays_apart() {
        let mut board = Scoreboard::new(100);
        board.push(sent(0, 250));
        board.push(sent(250, 350));
        // Three segments and one: not four of 100 bytes at most in 350 bytes.
        assert_eq!(board.counts().out, 4);
        assert_eq!(board.runs().count(), 2);
    }
}
