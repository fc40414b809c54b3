use super::super::loss::WINDOW;
use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const MS: u64 = 1_000_000;

fn feed(tracker: &mut SequenceTracker, sequence: &[u64]) {
    for (i, seq) in sequence.iter().enumerate() {
        tracker.handle(*seq, Instant::from_nanos(seq.wrapping_mul(MS)), Instant::from_nanos(i as u64 * MS));
    }
}

fn summary(sequence: &[u64], sent: Option<u64>) -> UdpSummary {
    let mut t = SequenceTracker::new(u64::MAX);
    feed(&mut t, sequence);
    t.finish(sent)
}

#[test]
fn a_late_packet_has_the_reordering_that_the_rfc_gives_it() {
    // RFC 4737: packet 4 arrives after 5 to 8, so it is the only reordered one, and 4-reordered (hence 1- to 4-).
    let s = summary(&[0, 1, 2, 3, 5, 6, 7, 8, 4, 9, 10], None);
    assert_eq!((s.reordered, s.lost, s.received), (1, 0, 11));
    assert_eq!(s.n_reordering, [1, 1, 1, 1]);
}

#[test]
fn a_reordered_packet_need_not_be_n_reordered() {
    // 2 and 3 arrive after 5: both are reordered, but 3 directly follows 2, which is lower.
    let s = summary(&[0, 1, 5, 2, 3, 4], None);
    assert_eq!((s.reordered, s.n_reordering), (3, vec![1]));
}

#[test]
fn n_reordering_ends_at_a_hundred() {
    let mut sequence: Vec<u64> = (1..500).collect();
    sequence.push(0);
    assert_eq!(summary(&sequence, None).n_reordering, [1; 100]);
}

#[test]
fn loss_runs_are_distinguished_and_extend_to_the_senders_count() {
    let s = summary(&[0, 2, 3, 7, 8], Some(12));
    assert_eq!((s.sent, s.received, s.lost), (12, 5, 7));
    assert_eq!(s.loss_runs, BTreeMap::from([(1, 1), (3, 2)]), "1; 4 to 6; 9 to 11");
    assert!((s.loss_ratio - 7.0 / 12.0).abs() < 1e-12);
    assert_eq!(summary(&[], Some(5)).loss_runs, BTreeMap::from([(5, 1)]));
    assert_eq!(summary(&[], None), UdpSummary::default());
}

#[test]
fn duplicates_are_copies_and_not_arrivals() {
    let s = summary(&[0, 1, 1, 2, 0, 2], None);
    assert_eq!((s.received, s.duplicates, s.reordered, s.lost), (3, 3, 0, 0));
    assert!((s.duplicate_ratio - 1.0).abs() < 1e-12);
}

#[test]
fn a_number_beyond_the_plan_is_rejected_and_moves_nothing() {
    let mut t = SequenceTracker::new(100);
    feed(&mut t, &[0, 100, u64::MAX, 1]);
    assert_eq!((t.rejected(), t.received()), (2, 2));
    assert_eq!(t.finish(None).lost, 0);
}

#[test]
fn a_number_older_than_the_window_is_neither_new_nor_a_copy() {
    let mut t = SequenceTracker::new(u64::MAX);
    feed(&mut t, &[0, 1, WINDOW + 10]);
    assert_eq!(t.handle(11, Instant::ZERO, Instant::ZERO), Arrival::Reordered, "just inside");
    assert_eq!(t.handle(10, Instant::ZERO, Instant::ZERO), Arrival::LateBeyondWindow);
    assert_eq!(t.handle(0, Instant::ZERO, Instant::ZERO), Arrival::LateBeyondWindow);
    assert_eq!(t.late_beyond_window(), 2);
    let s = t.finish(None);
    assert_eq!(s.loss_runs, BTreeMap::from([(9, 1), (WINDOW - 2, 1)]), "2 to 10; 12 to the highest");
    assert_eq!(s.lost, WINDOW + 11 - 4);
}

#[test]
fn a_leap_costs_neither_time_nor_memory() {
    let mut t = SequenceTracker::new(u64::MAX);
    feed(&mut t, &[0, u64::MAX - 2]);
    let s = t.finish(Some(u64::MAX));
    assert_eq!((s.received, s.lost), (2, u64::MAX - 2));
    assert_eq!(s.loss_runs, BTreeMap::from([(u64::MAX - 3, 1), (1, 1)]));
}

#[test]
fn distinct_run_lengths_are_bounded() {
    let mut t = SequenceTracker::new(u64::MAX);
    let mut seq = 0;
    for run in 1..3000 {
        t.handle(seq, Instant::ZERO, Instant::ZERO);
        seq += run + 1;
    }
    let runs = t.finish(None).loss_runs;
    assert_eq!(runs.len(), 1024);
    assert_eq!(runs.values().sum::<u64>(), 2998);
}

#[test]
fn jitter_follows_the_rfc() {
    // Delays 10, 26, 10 ms: |D| = 16 ms twice. J = 1 ms, then 1 + (16 - 1) / 16 = 1.9375 ms.
    let mut t = SequenceTracker::new(10);
    for (i, delay_ms) in [10, 26, 10].into_iter().enumerate() {
        let sent = 1000 * MS + i as u64 * 20 * MS;
        // The receiver's clock is 500 ms behind: only differences count.
        t.handle(i as u64, Instant::from_nanos(sent), Instant::from_nanos(sent + delay_ms * MS - 500 * MS));
    }
    assert_eq!(t.interval().jitter_ns, Some(1_937_500));
}

#[test]
fn intervals_sum_to_the_whole_and_a_filled_gap_is_not_lost_twice() {
    let mut t = SequenceTracker::new(1000);
    feed(&mut t, &[0, 1, 4]);
    assert_eq!((t.interval().lost, t.reported.received), (2, 3));
    feed(&mut t, &[2, 3, 5, 5]);
    let i = t.interval();
    assert_eq!((i.received, i.lost, i.reordered, i.duplicates), (3, 0, 2, 1));
    feed(&mut t, &[9]);
    assert_eq!(t.interval().lost, 1, "three are missing now, two were reported");
    assert_eq!(t.finish(None).lost, 3);
}

#[test]
fn a_senders_count_below_the_arrivals_causes_no_underflow() {
    let s = summary(&[0, 1, 2, 3], Some(2));
    assert_eq!((s.sent, s.lost, s.loss_runs), (2, 0, BTreeMap::new()));
}

/// A direct implementation of the definitions on the whole sequence.
fn naive(sequence: &[u64], sent: u64) -> (u64, u64, Vec<u64>, BTreeMap<u64, u64>) {
    let (mut seen, mut order, mut duplicates, mut reordered) = (BTreeSet::new(), Vec::new(), 0, 0);
    let mut counts = vec![0; 100];
    for s in sequence {
        if !seen.insert(*s) {
            duplicates += 1;
            continue;
        }
        reordered += u64::from(order.iter().any(|o| o > s));
        for n in 1..=100.min(order.len()) {
            counts[n - 1] += u64::from(order[order.len() - n..].iter().all(|o| o > s));
        }
        order.push(*s);
    }
    while counts.last() == Some(&0) {
        counts.pop();
    }
    let (mut runs, mut gap) = (BTreeMap::new(), 0);
    for s in 0..=sent {
        if s < sent && !seen.contains(&s) {
            gap += 1;
        } else if gap > 0 {
            *runs.entry(gap).or_insert(0) += 1;
            gap = 0;
        }
    }
    (duplicates, reordered, counts, runs)
}

proptest! {
    #[test]
    fn the_tracker_agrees_with_the_definitions(sequence in prop::collection::vec(0_u64..300, 0..400)) {
        let s = summary(&sequence, Some(300));
        let (duplicates, reordered, counts, runs) = naive(&sequence, 300);
        prop_assert_eq!((s.duplicates, s.reordered), (duplicates, reordered));
        prop_assert_eq!(s.n_reordering, counts);
        prop_assert_eq!(s.lost, runs.iter().map(|(length, n)| length * n).sum::<u64>());
        prop_assert_eq!(s.loss_runs, runs);
    }

    #[test]
    fn any_numbers_are_accounted_for(sequence in prop::collection::vec(any::<u64>(), 0..50), plan in any::<u64>()) {
        let mut t = SequenceTracker::new(plan);
        feed_any(&mut t, &sequence);
        let all = t.received() + t.late_beyond_window() + t.rejected() + t.duplicates;
        prop_assert_eq!(all, sequence.len() as u64);
        let s = t.finish(None);
        prop_assert_eq!(s.received + s.lost, s.sent);
        let in_runs = s.loss_runs.iter().map(|(length, n)| length * n).sum::<u64>();
        prop_assert_eq!(in_runs, s.lost);
    }
}

fn feed_any(tracker: &mut SequenceTracker, sequence: &[u64]) {
    for seq in sequence {
        tracker.handle(*seq, Instant::from_nanos(*seq), Instant::from_nanos(!*seq));
    }
}
