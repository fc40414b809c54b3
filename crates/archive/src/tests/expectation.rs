//! Tests of the expectations that are derived from entries. The predictors have separate tests.

use estimate::history::Value;

use super::*;
use crate::replay;

const HOUR: f64 = 3600.0;
const MB: u64 = 1_000_000;

fn hourly(rates: &[u32]) -> Vec<Value> {
    (0_u32..).zip(rates).map(|(i, rate)| Value { at_s: f64::from(i) * HOUR, rate_bps: (*rate).into() }).collect()
}

#[test]
fn entries_of_another_layer_or_quantity_are_ignored() {
    let place = TestFile::new();
    let mut archive = place.open();
    let test = entry(HOUR, 50 * MB);
    let available = Entry { quantity: Quantity::AvailableBandwidth, layer: Layer::Ip, ..entry(HOUR, 60 * MB) };
    let of_ip = Entry { layer: Layer::Ip, ..entry(HOUR, 52 * MB) };
    let capacity = Entry { quantity: Quantity::Capacity, ..available.clone() };
    let elsewhere = Entry { path: path("192.0.2.7", "203.0.113.9"), ..entry(HOUR, 10 * MB) };
    archive.add(&[test.clone(), available, of_ip, capacity, elsewhere]).unwrap();
    let values = |quantity, layer| archive.values(&test.path, quantity, layer).unwrap();
    assert_eq!(values(Quantity::BulkTransferCapacity, Layer::Payload), [test.value()]);
    assert_eq!(values(Quantity::AvailableBandwidth, Layer::Ip)[0].rate_bps, 60e6);
    assert_eq!(values(Quantity::AvailableBandwidth, Layer::Payload), []);
}

#[test]
fn scores_are_stored_but_not_used_as_values() {
    let place = TestFile::new();
    let mut archive = place.open();
    let by = |source, method: &str| Entry { source, method: method.to_owned(), ..entry(HOUR, 900 * MB) };
    let estimate = HistorySource::Estimate;
    let scores = ["loss", "loss-only", "loss-2002", "short-tcp"].map(|method| by(estimate, method));
    archive.add(&scores).unwrap();
    archive.add(&[by(estimate, "tcp"), by(estimate, "tcp-2002"), entry(2.0 * HOUR, 90 * MB)]).unwrap();
    let path = entry(0.0, 0).path;
    let values = archive.values(&path, Quantity::BulkTransferCapacity, Layer::Payload).unwrap();
    let rates: Vec<f64> = values.iter().map(|v| v.rate_bps).collect();
    assert_eq!(rates, [900e6, 900e6, 90e6]);
}

#[test]
fn a_steady_path_is_expected_to_remain_steady() {
    let place = TestFile::new();
    let mut archive = place.open();
    let all: Vec<Entry> = (0..10_u32).map(|i| entry(f64::from(i) * HOUR, 50 * MB)).collect();
    archive.add(&all).unwrap();
    let expected = |path, now_s| archive.expected(path, Quantity::BulkTransferCapacity, Layer::Payload, now_s).unwrap();
    let next = expected(&all[0].path, 10.0 * HOUR).unwrap();
    assert_eq!((next.rate_bps, next.samples, next.since_shift_s), (50e6, 10, None));
    // About 1 % to either side after one hour, the interval between the values, and 5 % after 25 hours.
    assert!((next.low_bps / 50e6 - 0.99).abs() < 1e-3, "{next:?}");
    let old = expected(&all[0].path, 34.0 * HOUR).unwrap();
    assert!((old.low_bps / 50e6 - 0.95).abs() < 2e-3, "{old:?}");
    assert_eq!(expected(&all[0].path, -1.0), None, "no entry precedes this time");
    assert_eq!(expected(&path("192.0.2.9", "198.51.100.3"), 10.0 * HOUR), None);
}

#[test]
fn a_replay_returns_expectations_and_level_shifts() {
    let values = hourly(&[100, 102, 98, 101, 99, 100, 50, 51, 49, 50, 50, 200, 202, 198]);
    let replay = replay(&values);
    assert_eq!(replay.shifts_s, [6.0 * HOUR, 11.0 * HOUR]);
    let expected: Vec<Option<f64>> = replay.expected.iter().map(|p| p.map(|p| p.rate_bps)).collect();
    assert_eq!((expected.len(), expected[0]), (14, None));
    // The first value of a new level is still compared with the old level.
    assert!((expected[6].unwrap() - 100.0).abs() < 3.0 && (expected[10].unwrap() - 50.0).abs() < 2.0, "{expected:?}");
}

#[test]
fn a_level_of_one_value_is_discarded() {
    // 97 starts a new level and is then classified as its outlier; the same happens to 60 one value later.
    let values = hourly(&[100, 102, 98, 101, 97, 60, 20, 20]);
    assert_eq!(replay(&values[..7]).shifts_s, [5.0 * HOUR]);
    assert_eq!(replay(&values).shifts_s, [6.0 * HOUR]);
    assert!(replay(&hourly(&[100; 30])).shifts_s.is_empty());
    assert!(replay(&[]).expected.is_empty());
}
