//! Whole reports of made-up runs, against snapshots.

use results::{Direction, Record};

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
    assert!(text(&all[..1]).contains("baseline RTT"));
    assert!(text(&all[1..3]).contains("up "));
    let empty = records(&Scenario { intervals: 0, ..Scenario::default() });
    assert!(text(&empty).contains("goodput"));
}

#[test]
fn a_row_waits_for_the_other_end_and_not_for_ever() {
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
    // bwctl's test suite: 0\.\d\d\d\s+1\.\d\d\d
    let text = thrulay(&records(&Scenario { intervals: 2, ..Scenario::default() }), false);
    let is_match = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|w| *w != "0.000");
        words.next().is_some() && words.next() == Some("1.000")
    };
    assert!(text.lines().any(is_match), "{text}");
}
