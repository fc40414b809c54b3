//! Tests of stored entries and queries.

use super::*;
use crate::{ENTRIES_MAX, Filter};

#[test]
fn stored_entries_are_read_back_unchanged() {
    let place = TestFile::new();
    let all = [
        entry(1_700_000_000.25, 94_100_000),
        Entry {
            path: PathKey::new(address("2001:db8::7"), address("2001:db8::1"), Direction::Down),
            source: HistorySource::Estimate,
            method: "pathload-2002".to_owned(),
            quantity: Quantity::AvailableBandwidth,
            layer: Layer::Ip,
            round_trip_ns: None,
            ..entry(1_700_000_001.5, 0)
        },
        Entry {
            host: "odd \u{1b}[2J'; DROP TABLE entry; --\u{202e}".to_owned(),
            source: HistorySource::Choose,
            quantity: Quantity::Capacity,
            ..entry(1_700_000_002.0, 1_000_000_000_000_000)
        },
        Entry { quantity: Quantity::AsymptoticDispersion, ..entry(1_700_000_003.0, 1) },
    ];
    place.open().add(&all).unwrap();
    assert_eq!(place.open().entries(&Filter::default()).unwrap(), all);
}

#[test]
fn entries_are_returned_in_chronological_order() {
    let place = TestFile::new();
    let mut archive = place.open();
    archive.add(&[entry(20.0, 2), entry(10.0, 1), entry(30.0, 3)]).unwrap();
    let rates: Vec<u64> = archive.entries(&Filter::default()).unwrap().iter().map(|e| e.rate_bps).collect();
    assert_eq!(rates, [1, 2, 3]);
}

#[test]
fn a_path_is_two_addresses_and_a_direction() {
    let place = TestFile::new();
    let mut archive = place.open();
    let home = entry(10.0, 1);
    let work = Entry { path: path("192.0.2.7", "203.0.113.9"), ..entry(20.0, 2) };
    let down = Entry {
        path: PathKey::new(address("192.0.2.7"), address("198.51.100.3"), Direction::Down),
        host: "alias.example.net".to_owned(),
        ..entry(30.0, 3)
    };
    // The same address in IPv4-mapped form, as a dual-stack socket reports it.
    let mapped = Entry {
        path: path("::ffff:192.0.2.7", "::ffff:198.51.100.3"),
        host: "FAR.example.net".to_owned(),
        ..entry(40.0, 4)
    };
    archive.add(&[home.clone(), work.clone(), down.clone(), mapped]).unwrap();
    let paths = archive.paths(&Filter::default()).unwrap();
    let found: Vec<_> = paths.iter().map(|p| (p.path, p.entries, p.first_s, p.last_s)).collect();
    assert_eq!(found, [(home.path, 2, 10.0, 40.0), (down.path, 1, 30.0, 30.0), (work.path, 1, 20.0, 20.0)]);
    // Host names are compared without case.
    assert_eq!((paths[0].hosts.len(), &paths[1].hosts[..]), (1, &["alias.example.net".to_owned()][..]));
}

#[test]
fn a_host_is_found_by_name_and_by_address() {
    let place = TestFile::new();
    let mut archive = place.open();
    let elsewhere = Entry { host: "b".to_owned(), path: path("2001:db8::1", "2001:db8::2"), ..entry(20.0, 2) };
    let other_name = Entry { host: "192.0.2.7".to_owned(), ..entry(30.0, 3) };
    archive.add(&[entry(10.0, 1), elsewhere, other_name]).unwrap();
    let rates = |host: &str| -> Vec<u64> {
        let filter = Filter { host: Some(host.to_owned()), ..Filter::default() };
        archive.entries(&filter).unwrap().iter().map(|e| e.rate_bps).collect()
    };
    // An entry belongs to its path independently of the host name.
    for name in ["far.example.net", "Far.Example.NET.", "192.0.2.7", "::ffff:192.0.2.7"] {
        assert_eq!(rates(name), [1, 3], "{name}");
    }
    for name in ["b", "2001:DB8:0::1"] {
        assert_eq!(rates(name), [2], "{name}");
    }
    assert!(rates("far").is_empty() && rates("198.51.100.3").is_empty() && rates("").is_empty());
}

#[test]
fn quantity_layer_and_time_filter_the_entries() {
    let place = TestFile::new();
    let mut archive = place.open();
    let capacity = |at| Entry { quantity: Quantity::Capacity, layer: Layer::Ip, ..entry(at, 100) };
    archive.add(&[entry(10.0, 1), capacity(20.0), capacity(30.0)]).unwrap();
    let count = |filter: Filter| archive.entries(&filter).unwrap().len();
    assert_eq!(count(Filter { quantity: Some(Quantity::Capacity), ..Filter::default() }), 2);
    assert_eq!(count(Filter { layer: Some(Layer::Payload), ..Filter::default() }), 1);
    assert_eq!(count(Filter { since_s: Some(20.0), ..Filter::default() }), 2);
    assert_eq!(count(Filter { since_s: Some(20.1), quantity: Some(Quantity::Capacity), ..Filter::default() }), 1);
    let paths = archive.paths(&Filter { since_s: Some(15.0), ..Filter::default() }).unwrap();
    assert_eq!((paths[0].entries, paths[0].first_s), (2, 20.0));
}

#[test]
fn of_each_method_the_latest_thousand_are_kept() {
    let place = TestFile::new();
    let mut archive = place.open();
    let many: Vec<Entry> = (0..ENTRIES_MAX + 5).map(|i| entry(i.into(), 1)).collect();
    let few: Vec<Entry> = (0..3).map(|i| Entry { method: "bbr".to_owned(), ..entry(i.into(), 2) }).collect();
    let elsewhere = Entry { path: path("192.0.2.8", "198.51.100.3"), ..entry(0.0, 3) };
    archive.add(&few).unwrap();
    archive.add(&[elsewhere]).unwrap();
    archive.add(&many).unwrap();
    let left = archive.entries(&Filter::default()).unwrap();
    let times = |rate: u64| left.iter().filter(|e| e.rate_bps == rate).map(|e| e.at_s).collect::<Vec<_>>();
    let (cubic, bbr, other) = (times(1), times(2), times(3));
    assert_eq!((cubic.len(), cubic[0], cubic[999]), (1000, 5.0, 1004.0), "the oldest five are removed");
    assert_eq!((bbr.len(), other.len()), (3, 1));
}

#[test]
fn deleted_entries_are_erased_from_the_file() {
    let place = TestFile::new();
    let secret = Entry { host: "secret.example.net".to_owned(), ..entry(10.0, 1) };
    let kept = Entry { path: path("192.0.2.8", "198.51.100.3"), ..entry(20.0, 2) };
    let mut archive = place.open();
    archive.add(&[secret.clone(), kept.clone(), secret.clone()]).unwrap();
    let holds_secret = || String::from_utf8_lossy(&std::fs::read(&place.file).unwrap()).contains("secret.example");
    assert!(holds_secret());
    assert_eq!(archive.forget(&secret.path).unwrap(), 2);
    assert_eq!(archive.entries(&Filter::default()).unwrap(), [kept]);
    assert_eq!(archive.forget(&secret.path).unwrap(), 0);
    assert!(!holds_secret());
}
