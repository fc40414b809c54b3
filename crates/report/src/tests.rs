//! Complete reports of synthetic runs, compared with snapshots.

use results::{Agreement, Completion, Direction, EndTotals, Record};

use crate::fixture::{Scenario, records};
use crate::{TextReport, ThrulayReport};

fn text(records: &[Record]) -> String {
    let mut out = Vec::new();
    let mut report = TextReport::new(&mut out);
    records.iter().for_each(|r| report.record(r).unwrap());
    report.drain().unwrap();
    let text = String::from_utf8(out).unwrap();
    let wide: Vec<_> = text.lines().filter(|l| l.chars().count() > 110 || !l.is_ascii()).collect();
    assert!(wide.is_empty(), "{wide:#?}");
    text
}

fn thrulay(records: &[Record], verbose: bool) -> String {
    let mut out = Vec::new();
    let mut report = ThrulayReport::new(&mut out, verbose);
    records.iter().for_each(|r| report.record(r).unwrap());
    String::from_utf8(out).unwrap()
}

#[test]
fn a_tcp_run_as_text() {
    insta::assert_snapshot!(text(&records(&Scenario::default())));
}

#[test]
fn a_run_in_both_directions_as_text() {
    let both = vec![Direction::Up, Direction::Down];
    insta::assert_snapshot!(text(&records(&Scenario {
        intervals: 4,
        directions: both,
        streams: 1,
        ..Scenario::default()
    })));
}

#[test]
fn a_udp_run_as_text() {
    insta::assert_snapshot!(text(&records(&Scenario { intervals: 4, udp: true, streams: 1, ..Scenario::default() })));
}

#[test]
fn a_run_without_intervals_or_end_still_prints() {
    let all = records(&Scenario { intervals: 2, ..Scenario::default() });
    assert!(text(&all[..1]).contains("idle RTT"));
    assert!(text(&all[1..3]).contains("up "));
    let empty = records(&Scenario { intervals: 0, ..Scenario::default() });
    assert!(text(&empty).contains("goodput"));
}

#[test]
fn each_round_trip_has_its_own_name_and_source() {
    let printed = text(&records(&Scenario::default()));
    let count = |name: &str| printed.lines().filter(|l| l.contains(name)).count();
    assert_eq!((count("baseline RTT"), count("baseline RTT 48.2 ms (kernel minimum)")), (1, 1), "{printed}");
    // Before the test in the header, then before and after it, then in the last line.
    assert_eq!((count("idle RTT"), count("between the two programs")), (3, 2), "{printed}");
}

#[test]
fn the_volume_beside_the_goodput_is_that_of_the_measured_part() {
    let mut all = records(&Scenario::default());
    let Some(Record::End(end)) = all.last_mut() else { panic!("no end") };
    let d = &mut end.directions[0];
    (d.omitted_s, d.throughput_bps) = (Some(2.0), 100_000_000);
    let of_earlier_version = text(&all);
    assert_eq!(of_earlier_version.matches("100.0 Mb/s (after the first 2.00 s)").count(), 2, "{of_earlier_version}");
    let Some(Record::End(end)) = all.last_mut() else { panic!("no end") };
    (end.directions[0].measured_bytes, end.directions[0].measured_s) = (Some(12_500_000), Some(1.0));
    let printed = text(&all);
    assert_eq!(printed.matches("100.0 Mb/s (12.50 MB in 1.00 s)").count(), 2, "{printed}");
}

#[test]
fn a_row_waits_for_the_other_end_for_a_limited_time() {
    let all = records(&Scenario { intervals: 3, ..Scenario::default() });
    let is_receiver = |r: &Record| matches!(r, Record::Interval(i) if i.role == results::Role::Receiver);
    let one_sided: Vec<Record> = all.iter().filter(|r| !is_receiver(r)).cloned().collect();
    let mut out = Vec::new();
    let mut report = TextReport::new(&mut out);
    one_sided[..2].iter().for_each(|r| report.record(r).unwrap());
    report.record(&one_sided[2]).unwrap();
    drop(report);
    let printed = String::from_utf8(out).unwrap();
    assert!(printed.contains("0.0-1.0") && !printed.contains("1.0-2.0"), "{printed}");
    assert!(printed.contains('~'), "a rate of the sender alone is marked: {printed}");
}

#[test]
fn records_that_arrive_after_the_next_interval_ended_still_make_one_row() {
    let scenario = Scenario { intervals: 8, interval_s: 0.1, base_rtt_ms: 200.0, ..Scenario::default() };
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for r in records(&scenario) {
        match r {
            Record::Interval(i) if i.role == results::Role::Receiver => late.push((i.index + 3, Record::Interval(i))),
            Record::Interval(i) => early.push((i.index, Record::Interval(i))),
            Record::Start(_) => early.push((0, r)),
            Record::End(_) => late.push((u64::MAX, r)),
        }
    }
    early.extend(late);
    early.sort_by_key(|(at, _)| *at);
    let printed = text(&early.into_iter().map(|(_, r)| r).collect::<Vec<_>>());
    assert!(!printed.contains('~'), "{printed}");
    assert_eq!(printed.lines().filter(|l| l.starts_with("up ")).count(), 8);
}

#[test]
fn rows_of_thrulay() {
    insta::assert_snapshot!(thrulay(&records(&Scenario { intervals: 3, ..Scenario::default() }), false));
}

#[test]
fn verbose_rows_of_thrulay_for_one_stream() {
    insta::assert_snapshot!(thrulay(&records(&Scenario { intervals: 3, streams: 1, ..Scenario::default() }), true));
}

#[test]
fn bwctl_finds_its_row() {
    // Pattern in the test suite of bwctl: 0\.\d\d\d\s+1\.\d\d\d
    let text = thrulay(&records(&Scenario { intervals: 2, ..Scenario::default() }), false);
    let is_match = |line: &str| {
        let mut columns = line.split_whitespace().skip_while(|w| *w != "0.000");
        columns.next().is_some() && columns.next() == Some("1.000")
    };
    assert!(text.lines().any(is_match), "{text}");
}

/// A run whose server failed: the count of received bytes is unknown.
fn broken() -> Vec<Record> {
    let mut all = records(&Scenario { intervals: 2, streams: 1, ..Scenario::default() });
    let Some(Record::End(end)) = all.last_mut() else { panic!("no end") };
    end.completion = Completion::Failed { reason: "the server closed the connection during the test".to_owned() };
    let d = &mut end.directions[0];
    (d.receiver, d.throughput_bps) = (EndTotals::default(), 0);
    (d.sender.duration_s, d.agreement.sent_bytes, d.agreement.received_bytes) = (2.5, 1_713_000, 0);
    (d.agreement.agree, d.agreement.explanation) = (false, Some(Agreement::MISSING.to_owned()));
    all
}

#[test]
fn a_failed_test_is_reported_first_without_goodput_or_a_mismatch() {
    let printed = text(&broken());
    let (_, end) = printed.split_once("FAILED").unwrap();
    assert!(end.contains("-- up"), "FAILED stands before the first direction: {printed}");
    assert!(end.contains("1.713 MB sent in 2.50 s; received volume unknown"), "{printed}");
    for wrong in ["  goodput", "COUNTS DIFFER", "RFC 6349", "transfer time"] {
        assert!(!end.contains(wrong), "{wrong}: {printed}");
    }
    let mut page = Vec::new();
    crate::write_html(&mut page, &[crate::Run::from_records("a", broken()).unwrap()], "t").unwrap();
    let page = String::from_utf8(page).unwrap();
    let body = page.split_once("<body>").unwrap().1.split_once("<script").unwrap().0;
    assert!(body.contains("1.713 MB sent in 2.50 s"));
    for wrong in [">goodput<", "counts of the two ends differ", "COUNTS DIFFER"] {
        assert!(!body.contains(wrong), "{wrong}");
    }
}

#[test]
fn data_drained_after_the_test_is_not_goodput() {
    let mut all = records(&Scenario { intervals: 2, streams: 1, ..Scenario::default() });
    let Some(Record::End(end)) = all.last_mut() else { panic!("no end") };
    let d = &mut end.directions[0];
    (d.throughput_bps, d.receiver.bytes, d.receiver.duration_s) = (4_740_000, 8_847_000, 12.0);
    (d.receiver.drain_bytes, d.receiver.drain_s) = (Some(1_737_000), Some(9.38));
    let printed = text(&all);
    assert!(printed.contains("4.740 Mb/s (7.110 MB in 12.00 s)"), "{printed}");
    assert!(printed.contains("and 1.737 MB in 9.38 s after the test (drain)"), "{printed}");
}

#[test]
fn a_full_path_is_reported_with_its_rate_and_queue() {
    let printed = text(&records(&Scenario { intervals: 3, limit: "bottleneck", ..Scenario::default() }));
    assert!(printed.contains("limited by     bottleneck 55 %"), "{printed}");
    let line = printed.lines().find(|l| l.contains("path full: ")).unwrap();
    for part in [" of 941.5 Mb/s, ", " ms of queue; losses are drops at its queue"] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn an_interval_with_bytes_that_waited_carries_a_note() {
    let mut all = records(&Scenario { intervals: 3, ..Scenario::default() });
    for record in &mut all {
        if let Record::Interval(i) = record
            && i.role == results::Role::Receiver
        {
            i.waited_bytes = Some(if i.index == 1 { i.bytes / 2 } else { i.bytes / 100 });
        }
    }
    let printed = text(&all);
    assert_eq!(printed.matches("that waited behind a lost segment").count(), 1, "{printed}");
    let mut page = Vec::new();
    crate::write_html(&mut page, &[crate::Run::from_records("a", all).unwrap()], "t").unwrap();
    assert!(String::from_utf8(page).unwrap().contains("1.00 s to 2.00 s includes about "));
}

#[test]
fn a_missing_measurement_is_not_zero() {
    let mut all = records(&Scenario { intervals: 2, udp: true, streams: 1, ..Scenario::default() });
    for record in &mut all {
        match record {
            Record::Interval(i) => {
                let streams = i.streams.iter_mut().filter_map(|s| s.udp.as_mut());
                i.udp.iter_mut().chain(streams).for_each(|u| u.jitter_ns = None);
            }
            Record::End(e) => e.directions.iter_mut().filter_map(|d| d.udp.as_mut()).for_each(|u| u.jitter_ns = None),
            Record::Start(_) => {}
        }
    }
    assert!(!serde_json::to_string(&all).unwrap().contains("jitter_ns"));
    let printed = text(&all);
    assert!(printed.contains("jitter         -") && !printed.contains("jitter         0"), "{printed}");
}

#[test]
fn an_outage_is_shown_at_the_time_in_which_the_lost_datagrams_were_sent() {
    let mut all = records(&Scenario { intervals: 6, udp: true, streams: 1, ..Scenario::default() });
    for record in &mut all {
        let Record::End(e) = record else { continue };
        for d in &mut e.directions {
            d.sender.duration_s = 6.0;
            let u = d.udp.as_mut().unwrap();
            (u.sent, u.lost, u.lost_by_interval) = (600, 254, vec![2, 50, 100, 100, 2]);
        }
    }
    let printed = text(&all);
    assert!(printed.contains("most datagrams sent between 1.00 s and 4.00 s were lost"), "{printed}");
    assert_eq!(printed.matches("most datagrams").count(), 1, "{printed}");
}
