use link::Settings;

use super::*;
use crate::engine::WireReport;

fn wires() -> Vec<Wire> {
    let wire = |from: &str, to: &str, delay| Wire {
        link: "path".to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
        settings: Settings { delay: Duration::from_millis(delay), ..Settings::default() },
    };
    vec![wire("left", "right", 10), wire("right", "left", 500)]
}

/// One second of a worker with one wire.
fn report(worker: usize, second: u64, packets: u64, lateness: &[u32]) -> Report {
    let volume = link::Volume { packets, bytes: packets * 1000 };
    let mut tally = Tally::default();
    (tally.offered, tally.delivered, tally.span) = (volume, volume, Duration::from_secs(1));
    Report {
        worker,
        start: Duration::from_secs(second),
        end: Duration::from_secs(second + 1),
        wires: vec![WireReport { wire: worker, tally, lateness: lateness.to_vec(), lost: 0 }],
        cpu: Duration::from_millis(100 * (1 + worker as u64)),
        uncertainty: vec![1000],
        scheduling: "SCHED_FIFO",
        held: 7,
    }
}

fn verdict(truth: &Truth) -> Vec<String> {
    let mut checks = ValidityChecks::default();
    truth.judge(&Validity { stolen_cpu: Some(1.0), ..Default::default() }, &mut checks);
    match checks.verdict() {
        Verdict::Valid => Vec::new(),
        Verdict::Invalid { reasons } => reasons,
    }
}

#[test]
fn an_interval_is_recorded_once_all_workers_have_reported_it() {
    let mut truth = Truth::new(3, 2, &wires());
    assert!(truth.handle(report(1, 0, 20, &[5000])).is_empty());
    // The second worker is one interval ahead of the first.
    assert!(truth.handle(report(1, 1, 2, &[6000])).is_empty());
    let records = truth.handle(report(0, 0, 10, &[7000, 9000]));
    let [LabRecord::Link(first), LabRecord::Link(second), LabRecord::Engine(engine)] = records.as_slice() else {
        panic!("{records:?}")
    };
    let [left, right] = [&first.statistics, &second.statistics];
    assert_eq!((left.from.as_str(), left.offered.packets, first.run), ("left", 10, 3));
    assert_eq!((right.from.as_str(), right.offered.packets), ("right", 20));
    assert_eq!((engine.start_s, engine.end_s, engine.held_bytes), (0.0, 1.0, 14));
    assert_eq!(engine.worker_cpu, [0.1, 0.2]);
    assert_eq!(engine.lateness.as_ref().unwrap().count, 3);
    truth.handle(report(0, 1, 1, &[]));
    // Totals are sums, in the order of the plan.
    let totals = truth.totals();
    assert_eq!((totals[0].delivered.packets, totals[1].delivered.packets), (11, 22));
    assert_eq!(totals[1].delivered.bytes, 22_000);
    assert!((truth.busiest_worker() - 0.2).abs() < 1e-9);
    assert!(verdict(&truth).is_empty());
}

#[test]
fn the_limit_of_lateness_depends_on_the_delay_of_the_link() {
    // 3 ms are too much for 10 ms, but within 1 % of 500 ms.
    let mut truth = Truth::new(0, 2, &wires());
    truth.handle(report(0, 0, 1, &[1000]));
    truth.handle(report(1, 0, 1, &[3_000_000]));
    assert!(verdict(&truth).is_empty());
    truth.handle(report(0, 1, 1, &[3_000_000; 10]));
    truth.handle(report(1, 1, 1, &[]));
    let reasons = verdict(&truth);
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].starts_with("path (left > right): "), "{reasons:?}");
}

#[test]
fn packets_dropped_by_a_device_make_the_run_invalid() {
    let mut truth = Truth::new(0, 1, &wires());
    truth.handle(report(0, 0, 1, &[]));
    truth.add_device_drops(1, 4);
    truth.add_device_drops(0, 0);
    assert_eq!(truth.totals()[1].dropped.emulator, 4);
    assert_eq!(truth.totals()[1].dropped.total(), 4);
    let reasons = verdict(&truth);
    assert!(reasons.len() == 1 && reasons[0].contains("path (right > left)"), "{reasons:?}");
}
