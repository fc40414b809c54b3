use super::*;

fn link(mbps: Option<u64>, ms: u64, loss: f64) -> Metrics {
    Metrics::exact(mbps.map(|m| Rate::from_bps(m * 1_000_000)), Duration::from_millis(ms), loss)
}

#[test]
fn capacity_is_the_minimum_delay_the_sum_survival_the_product() {
    let whole = link(Some(100), 40, 0.05).then(&link(Some(45), 150, 0.1));
    assert_eq!(whole.capacity, Some(Rate::from_bps(45_000_000)));
    assert_eq!(whole.rtt, Duration::from_millis(190));
    // 1 - 0.95 x 0.9.
    assert!((whole.loss - 0.145).abs() < 1e-12, "{whole:?}");
}

#[test]
fn a_path_carries_no_more_than_what_is_known_of_it() {
    assert_eq!(link(None, 1, 0.0).then(&link(Some(3), 1, 0.0)).capacity, Some(Rate::from_bps(3_000_000)));
    assert_eq!(link(None, 1, 0.0).then(&link(None, 1, 0.0)).capacity, None);
}

#[test]
fn the_least_confident_and_oldest_link_decides() {
    let a = Metrics { confidence: 0.9, age: Duration::from_secs(1), ..link(None, 1, 0.0) };
    let b = Metrics { confidence: 0.4, age: Duration::ZERO, ..link(None, 1, 0.0) };
    let whole = a.then(&b);
    assert_eq!((whole.confidence, whole.age), (0.4, Duration::from_secs(1)));
}

#[test]
fn an_interval_is_widened_about_the_loss_within_bounds() {
    let m = Metrics { loss_low: 0.03, loss_high: 0.09, ..link(None, 1, 0.05) };
    let wide = m.widened(2.0);
    assert!((wide.loss_low - 0.01).abs() < 1e-12 && (wide.loss_high - 0.13).abs() < 1e-12, "{wide:?}");
    assert_eq!((m.widened(0.0).loss_low, m.widened(0.0).loss_high), (0.05, 0.05));
    assert_eq!((m.widened(100.0).loss_low, m.widened(100.0).loss_high), (0.0, 1.0));
}

#[test]
fn what_is_no_share_is_not_valid() {
    let good = link(None, 1, 0.1);
    assert!(good.is_valid());
    for loss in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert!(!link(None, 1, loss).is_valid(), "{loss}");
        assert!(!Metrics { confidence: loss, ..good }.is_valid(), "{loss}");
    }
    assert!(!Metrics { loss_low: 0.2, ..good }.is_valid());
    assert!(!Metrics { loss_high: 0.05, ..good }.is_valid());
    assert!(!Metrics { loss_high: f64::NAN, ..good }.is_valid());
}

#[test]
fn a_record_gives_the_same_metrics_back() {
    let third = Metrics { loss_low: 0.1, loss_high: 0.7, ..link(Some(45), 150, 1.0 / 3.0) }.rounded();
    let text = serde_json::to_string(&third).unwrap();
    assert!(text.contains(r#""capacity_bps":45000000,"rtt_ns":150000000"#), "{text}");
    assert_eq!(serde_json::from_str::<Metrics>(&text).unwrap().rounded(), third);
}
