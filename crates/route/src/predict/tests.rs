use proptest::prelude::*;

use super::*;

const MSS: Bytes = Bytes::new(1000);
const UNKNOWN: Rate = Rate::from_bps(7_000_000);
const ALL: [Model; 5] = [Model::Safire { k: 1.0 }, Model::Pftk, Model::Cubic, Model::RateBased, Model::RATE_AWARE_2008];

fn path(mbps: u64, ms: u64, loss: f64) -> Metrics {
    Metrics::exact(Some(Rate::from_bps(mbps * 1_000_000)), Duration::from_millis(ms), loss)
}

fn mbps(model: Model, metrics: &Metrics) -> f64 {
    model.predict(metrics, MSS, UNKNOWN).as_bps() as f64 / 1e6
}

#[test]
fn formula_1_is_that_of_the_paper() {
    // 8000 bit / (0.1 s x 0.1) = 0.8 Mb/s; without loss, the capacity.
    assert_eq!(mbps(Model::Safire { k: 1.0 }, &path(45, 100, 0.01)), 0.8);
    assert_eq!(mbps(Model::Safire { k: 2.0 }, &path(45, 100, 0.01)), 1.6);
    assert_eq!(mbps(Model::Safire { k: 1.0 }, &path(45, 100, 0.0)), 45.0);
    assert_eq!(mbps(Model::Safire { k: 1.0 }, &path(45, 100, 1e-9)), 45.0);
}

#[test]
fn formula_2_with_the_papers_constants_is_that_of_estimate() {
    for (ms, loss) in [(20, 0.0), (100, 0.01), (300, 0.15)] {
        let theirs = estimate::model::rate_aware(Rate::from_bps(45_000_000), Duration::from_millis(ms), loss).unwrap();
        assert_eq!(Model::RATE_AWARE_2008.predict(&path(45, ms, loss), MSS, UNKNOWN), theirs);
    }
    // 0.95 x 100 / (1 + 10 x 0.1) / (1 + 0.01 x 100) = 23.75.
    let other = Model::RateAware { alpha: 10.0, beta: 0.01 };
    assert!((mbps(other, &path(100, 100, 0.1)) - 23.75).abs() < 1e-6);
}

#[test]
fn cubic_and_reno_have_the_rates_of_their_formulas() {
    // Computed apart: 41.12 segments each 100 ms where losses come at random, and a thousandth of 0.0581 rows of 0.3 s: 408.3 segments a second. RFC 9438 has 38
    // (table 1).
    assert!((mbps(Model::Cubic, &path(100, 100, 1e-3)) - 408.3 * 0.008).abs() < 2e-3);
    // Many: 25.24 segments a second of 20 ms and 220 ms of timeout, computed apart; 164 without timeouts.
    assert!((mbps(Model::Cubic, &path(100, 20, 0.15)) - 25.24 * 0.008).abs() < 1e-3);
    // Few losses: sqrt(3/2) / sqrt(1e-6) segments each 100 ms: 97.98 Mb/s (Mathis et al. 1997).
    assert!((mbps(Model::Pftk, &path(1000, 100, 1e-6)) / 97.98 - 1.0).abs() < 0.01);
    // Many, computed apart: 16.662 segments a second with T0 = 300 ms; 31.6 by the square root, without timeouts.
    assert!((mbps(Model::Pftk, &path(1000, 100, 0.15)) - 16.662 * 0.008).abs() < 1e-4);
}

#[test]
fn a_control_by_rate_takes_what_arrives_up_to_15_per_cent() {
    // Cardwell et al. 2016, figure 8: the link's rate times 1 - p.
    for loss in [0.0, 0.01, 0.05, 0.15] {
        assert!((mbps(Model::RateBased, &path(100, 100, loss)) / (100.0 * (1.0 - loss)) - 1.0).abs() < 1e-9);
    }
    // Beyond 20 %: four segments each 100 ms, less what is lost.
    assert!((mbps(Model::RateBased, &path(100, 100, 0.5)) - 0.16).abs() < 1e-6);
    assert!(mbps(Model::RateBased, &path(100, 100, 0.18)) < 60.0);
}

#[test]
fn kernels_names_have_their_models() {
    assert_eq!(Model::for_congestion_control("cubic"), Model::Cubic);
    assert_eq!(Model::for_congestion_control("reno"), Model::Pftk);
    assert_eq!(Model::for_congestion_control("bbr"), Model::RateBased);
    assert_eq!(Model::for_congestion_control("something"), Model::RateBased);
}

#[test]
fn unknown_capacity_is_the_given_one_and_a_dead_path_has_no_rate() {
    let unknown = Metrics::exact(None, Duration::from_millis(10), 0.0);
    for model in [Model::Safire { k: 1.0 }, Model::Pftk, Model::Cubic, Model::RateBased] {
        assert_eq!(model.predict(&unknown, MSS, UNKNOWN), UNKNOWN);
    }
    for model in ALL {
        assert_eq!(model.predict(&path(100, 10, 1.0), MSS, UNKNOWN), Rate::ZERO);
        assert_eq!(model.predict(&path(100, 10, f64::NAN), MSS, UNKNOWN), Rate::ZERO);
        assert!(model.predict(&path(100, 0, 0.1), MSS, UNKNOWN) <= Rate::from_bps(100_000_000));
    }
}

#[test]
fn a_model_is_written_by_its_name() {
    assert_eq!(serde_json::to_string(&Model::Safire { k: 1.0 }).unwrap(), r#"{"name":"safire","k":1.0}"#);
    assert_eq!(serde_json::from_str::<Model>(r#"{"name":"rate-based"}"#).unwrap(), Model::RateBased);
}

proptest! {
    /// What the search for the best path rests on.
    #[test]
    fn no_model_gets_faster_with_less_capacity_more_delay_or_more_loss(
        bps in 1_u64..200_000_000_000,
        more_bps in 0_u64..200_000_000_000,
        ns in 0_u64..2_000_000_000,
        more_ns in 0_u64..2_000_000_000,
        loss_exponent in 0.0_f64..9.0,
        factor in 0.0_f64..1.0,
        lossless in any::<bool>(),
    ) {
        let loss = 10_f64.powf(-loss_exponent);
        let less = if lossless { 0.0 } else { loss * factor };
        let at = |bps, ns, loss| Metrics::exact(Some(Rate::from_bps(bps)), Duration::from_nanos(ns), loss);
        for model in ALL {
            let rate = |m: Metrics| model.predict(&m, MSS, UNKNOWN);
            let worse = rate(at(bps, ns + more_ns, loss));
            prop_assert!(worse <= rate(at(bps + more_bps, ns + more_ns, loss)), "{model:?} capacity");
            prop_assert!(worse <= rate(at(bps, ns, loss)), "{model:?} delay");
            prop_assert!(worse <= rate(at(bps, ns + more_ns, less)), "{model:?} loss");
            prop_assert!(worse <= Rate::from_bps(bps), "{model:?} above the capacity");
        }
    }
}
