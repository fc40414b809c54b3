use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// Two clocks with a known truth: local time is true time, the remote clock is `offset` ahead and drifts.
#[derive(Debug, Clone, Copy)]
struct Truth {
    origin_ns: u64,
    offset_ns: i64,
    drift_ppb: i64,
}

impl Truth {
    fn theta(&self, local_ns: u64) -> i64 {
        let since = i128::from(local_ns) - i128::from(self.origin_ns);
        self.offset_ns + (since * i128::from(self.drift_ppb)).div_euclid(1_000_000_000) as i64
    }

    fn remote(&self, local_ns: u64) -> Instant {
        Instant::from_nanos(local_ns.wrapping_add_signed(self.theta(local_ns)))
    }

    /// An exchange `after_ns` into the test with these delays in the forward direction, at the remote end, and in the
    /// return direction.
    fn exchange(&self, after_ns: u64, there_ns: u64, turn_ns: u64, back_ns: u64) -> Exchange {
        let send = self.origin_ns + after_ns;
        Exchange {
            local_send: Instant::from_nanos(send),
            remote_receive: self.remote(send + there_ns),
            remote_send: self.remote(send + there_ns + turn_ns),
            local_receive: Instant::from_nanos(send + there_ns + turn_ns + back_ns),
        }
    }
}

const TRUTH: Truth = Truth { origin_ns: 7_000_000_000_000, offset_ns: 1_700_000_000_123_456_789, drift_ppb: 23_000 };

fn assert_holds(model: &ClockModel, truth: &Truth, local_ns: u64) {
    let local = Instant::from_nanos(local_ns);
    let error = (model.offset_at(local) - truth.theta(local_ns)).unsigned_abs();
    assert!(error <= model.bound_at(local), "error {error} over bound {} at {local_ns}", model.bound_at(local));
}

#[test]
fn one_exchange_bounds_the_offset_by_half_the_round_trip() {
    let mut e = ClockEstimator::new();
    assert_eq!(e.model(), None);
    e.handle_exchange(TRUTH.exchange(0, 90 * MS, 3 * MS, 10 * MS));
    let m = e.model().unwrap();
    // The 3 ms at the remote end are measured on a clock 23 ppm fast: 69 ns.
    assert!(e.idle_rtt().unwrap().abs_diff(Duration::from_millis(100)) < Duration::from_nanos(72));
    // 100 ms of path: half of it, and up to 200 ppm over 103 ms (21 us) for the unknown drift.
    assert!((50 * MS..50 * MS + 50_000).contains(&m.bound_ns), "{m:?}");
    assert_holds(&m, &TRUTH, TRUTH.origin_ns);
    assert!((m.drift_bound_ppm - 200.0).abs() < 1e-6, "a single exchange does not bound the drift");
}

#[test]
fn drift_is_resolved_over_a_long_test_and_not_over_a_short_one() {
    let mut e = ClockEstimator::new();
    for i in 0..20 {
        e.handle_exchange(TRUTH.exchange(i * 10 * MS, MS, 1000, MS));
    }
    assert!(e.model().unwrap().drift_bound_ppm > 190.0);
    for i in 0..600 {
        e.handle_exchange(TRUTH.exchange(i * 100 * MS, MS, 1000, MS));
    }
    // ±1 ms at either end of 60 s: a drift of 23 ± 2 ms / 60 s = 33 ppm, so that zero is feasible and reported.
    let m = e.model().unwrap();
    assert!(m.drift_ppm == 0.0 && (53.0..59.0).contains(&m.drift_bound_ppm), "{m:?}");
    for i in 600..3000 {
        e.handle_exchange(TRUTH.exchange(i * 100 * MS, MS, 1000, MS));
    }
    let m = e.model().unwrap();
    // ±1 ms at either end of 300 s: 23 ± 6.7 ppm.
    assert!((m.drift_ppm - 23.0).abs() < 0.5 && (6.0..7.5).contains(&m.drift_bound_ppm), "{m:?}");
    assert!((0..=300).all(|s| m.bound_at(Instant::from_nanos(TRUTH.origin_ns + s * 1000 * MS)) < 3 * MS));
    assert_eq!((e.exchanges(), e.rejected(), e.steps()), (3020, 0, 0));
}

#[test]
fn loaded_exchanges_do_not_spoil_the_result_of_idle_ones() {
    let mut e = ClockEstimator::new();
    for i in 0..100 {
        e.handle_exchange(TRUTH.exchange(i * 10 * MS, 5 * MS, 1000, 5 * MS));
    }
    for i in 0..300 {
        // The load queues in one direction only: 200 ms more, where a symmetric estimate would be off by 100 ms.
        e.handle_exchange(TRUTH.exchange(1000 * MS + i * 100 * MS, 205 * MS, 1000, 5 * MS));
    }
    for i in 0..100 {
        e.handle_exchange(TRUTH.exchange(31_000 * MS + i * 10 * MS, 5 * MS, 1000, 5 * MS));
    }
    let m = e.model().unwrap();
    for s in 0..32 {
        let at = TRUTH.origin_ns + s * 1000 * MS;
        assert_holds(&m, &TRUTH, at);
        assert!(m.bound_at(Instant::from_nanos(at)) < 11 * MS, "{} ns at {s} s", m.bound_at(Instant::from_nanos(at)));
    }
}

#[test]
fn times_that_no_clock_shows_are_counted_and_ignored() {
    let mut e = ClockEstimator::new();
    let good = TRUTH.exchange(0, MS, MS, MS);
    for bad in [
        Exchange { local_receive: good.local_send - Duration::from_nanos(1), ..good },
        Exchange { remote_send: good.remote_receive - Duration::from_nanos(1), ..good },
        Exchange { remote_send: good.remote_receive + Duration::from_millis(4), ..good },
    ] {
        e.handle_exchange(bad);
    }
    assert_eq!((e.rejected(), e.exchanges(), e.model(), e.idle_rtt()), (3, 0, None, None));
}

#[test]
fn a_step_is_counted_and_the_newest_exchanges_are_used() {
    let stepped = Truth { offset_ns: TRUTH.offset_ns + 250 * MS as i64, ..TRUTH };
    let mut e = ClockEstimator::new();
    for i in 0..200 {
        let truth = if i < 100 { TRUTH } else { stepped };
        e.handle_exchange(truth.exchange(i * 50 * MS, 2 * MS, 1000, 3 * MS));
    }
    assert_eq!(e.steps(), 1);
    assert_holds(&e.model().unwrap(), &stepped, TRUTH.origin_ns + 9_000 * MS);
    assert!(e.model().unwrap().bound_ns < 5 * MS);
}

#[test]
fn exchanges_at_the_ends_of_the_clocks_range_are_harmless() {
    let values = [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX].map(Instant::from_nanos);
    let mut e = ClockEstimator::new();
    for a in values {
        for b in values {
            for c in values {
                for d in values {
                    e.handle_exchange(Exchange { local_send: a, remote_receive: b, remote_send: c, local_receive: d });
                    let _ = e.model();
                }
            }
        }
    }
    assert_eq!(e.exchanges() + e.rejected(), 625);
}

proptest! {
    #[test]
    fn the_truth_is_always_within_the_bound(
        offset_ns in -1_000_000_000_000_i64..2_000_000_000_000_000_000,
        drift_ppb in -190_000_i64..190_000,
        base in (0_u64..150 * MS, 0_u64..150 * MS),
        gap_ns in MS..2_000 * MS,
        queues in prop::collection::vec((0_u64..400 * MS, 0_u64..5 * MS, 0_u64..400 * MS), 1..300),
        shuffled in any::<bool>(),
    ) {
        let truth = Truth { origin_ns: 2_000_000_000_000, offset_ns, drift_ppb };
        let mut exchanges: Vec<_> = queues.iter().enumerate().map(|(i, (there, turn, back))| {
            truth.exchange(i as u64 * gap_ns, base.0 + there, *turn, base.1 + back)
        }).collect();
        if shuffled { exchanges.reverse(); }
        let mut e = ClockEstimator::new();
        for x in &exchanges { e.handle_exchange(*x); }
        prop_assert_eq!((e.steps(), e.rejected()), (0, 0));
        let m = e.model().unwrap();
        prop_assert!((m.drift_ppm - drift_ppb as f64 / 1e3).abs() <= m.drift_bound_ppm);
        let end_ns = truth.origin_ns + queues.len() as u64 * gap_ns;
        for at in [truth.origin_ns - 1_000_000_000_000, truth.origin_ns, end_ns, m.reference.as_nanos(), end_ns * 2] {
            let local = Instant::from_nanos(at);
            let error = (m.offset_at(local) - truth.theta(at)).unsigned_abs();
            prop_assert!(error <= m.bound_at(local), "error {} over {}", error, m.bound_at(local));
            // Conversions of a remote reading, by the model and by its inverse at the other end.
            let remote = truth.remote(at);
            let back = m.to_local(remote);
            prop_assert!(back.nanos_since(local).unsigned_abs() <= m.bound_at(back) + 2);
            let inverse = m.inverted();
            let there = (inverse.offset_at(remote) + truth.theta(at)).unsigned_abs();
            prop_assert!(there <= inverse.bound_at(remote) + 2, "{} over {}", there, inverse.bound_at(remote));
        }
    }
}
