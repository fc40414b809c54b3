use super::*;
use crate::thrulay::{REPORT_BYTES_MAX, Reported, read_report};
use proptest::prelude::*;

fn report() -> UdpReport {
    UdpReport {
        buffer: Bytes::new(425_984),
        proposed: 1000,
        sent: 1000,
        received: 1000,
        duplicates: 10,
        delay: Some(DelayQuantiles {
            p0_ns: -1_250_000,
            p25_ns: 1_000_000,
            p50_ns: 2_000_000,
            p75_ns: 4_500_000,
            p95_ns: 12_345_678,
        }),
        n_reordering: vec![99, 0],
    }
}

#[test]
fn the_text_matches_thrulayd() {
    assert_eq!(
        report().encode(true),
        "Server used UDP buffer size of 425984 bytes\n\
         Client proposed sending 1000 packets\n\
         Client said it sent 1000 packets\n\
         Server received 1000 total packets\n\
         Server received 990 unique packets\n\
         Delay:\t\t 2.000ms\n\
         \tDelay quantiles (ignoring clock offset):\n\
         \t  0th:   -1.250ms\n\
         \t 25th:    1.000ms\n\
         \t 50th:    2.000ms\n\
         \t 75th:    4.500ms\n\
         \t 95th:   12.346ms\n\
         Loss:\t\t 1.000%\n\
         Jitter:\t\t 3.500ms\n\
         Duplication:\t 1.000%\n\
         Reordering:\t 10.000%\n\
         \t1-reordering = 10.000%\n\
         \tno 2-reordering\n"
    );
    assert_eq!(report().encode(false).lines().count(), 5);
}

#[test]
fn loss_makes_delay_infinite_and_jitter_undefined() {
    for (unique, delay, jitter) in [
        (751, Some("2.000"), "3.500"),
        (750, Some("2.000"), "inf"),
        (500, Some("2.000"), "inf"),
        (499, None, "inf"),
        (250, None, "inf"),
        (249, None, "nan"),
    ] {
        let text = UdpReport { received: unique, duplicates: 0, ..report() }.encode(false);
        let delay = delay.unwrap_or("inf");
        assert!(text.contains(&format!("Delay:\t\t {delay}ms\n")), "{unique}: {text}");
        assert!(text.contains(&format!("Jitter:\t\t {jitter}ms\n")), "{unique}: {text}");
    }
}

#[test]
fn a_test_without_any_packet_is_reported_too() {
    let nothing = UdpReport { sent: 0, received: 0, duplicates: 0, delay: None, n_reordering: vec![], ..report() };
    let read = read_report(nothing.encode(true).as_bytes());
    assert_eq!(read.delay_ms, Some(Reported::Undefined));
    assert_eq!(read.duplication_percent, Some(Reported::Undefined));
    assert_eq!(read.loss_percent, Some(Reported::Value(0.0)));
    let all_lost = UdpReport { sent: 9, ..nothing };
    let read = read_report(all_lost.encode(false).as_bytes());
    assert_eq!((read.delay_ms, read.jitter_ms), (Some(Reported::Infinite), Some(Reported::Undefined)));
}

#[test]
fn the_client_reads_what_the_server_writes() {
    let read = read_report(report().encode(true).as_bytes());
    assert_eq!(read.delay_ms, Some(Reported::Value(2.0)));
    assert_eq!(read.loss_percent, Some(Reported::Value(1.0)));
    assert_eq!(read.jitter_ms, Some(Reported::Value(3.5)));
    assert_eq!(read.reordering_percent, Some(Reported::Value(10.0)));
    assert_eq!((read.proposed, read.sent, read.received, read.unique), (Some(1000), Some(1000), Some(1000), Some(990)));
    assert_eq!(read.buffer_bytes, Some(425_984));
    assert_eq!(read.quantiles_ms.first(), Some(&(0, Reported::Value(-1.25))));
    assert_eq!(read.quantiles_ms.len(), 5);
    assert_eq!(read.n_reordering_percent, [10.0]);
}

#[test]
fn foreign_spellings_are_parsed() {
    let read = read_report(b"Delay: INFms\r\nLoss:51%\nJitter:\t-nanms\nDuplication: x%\nhello: world\n\xff\xfe\n");
    assert_eq!(read.delay_ms, Some(Reported::Infinite));
    assert_eq!(read.loss_percent, Some(Reported::Value(51.0)));
    assert_eq!(read.jitter_ms, Some(Reported::Undefined));
    assert_eq!(read.duplication_percent, None);
}

#[test]
fn reordering_lines_end_at_the_maximum() {
    let many = UdpReport { n_reordering: vec![1; 500], ..report() };
    let text = many.encode(true);
    assert!(text.ends_with("\tonly up to 100-reordering is handled\n"));
    assert!(text.len() < REPORT_BYTES_MAX);
    assert_eq!(read_report(text.as_bytes()).n_reordering_percent.len(), N_REORDERING_MAX);
    let none = UdpReport { n_reordering: vec![], ..report() };
    assert!(none.encode(true).ends_with("\tno reordering\n"));
}

proptest! {
    #[test]
    fn counts_survive_the_trip_through_text(buffer: u64, sent: u64, received: u64, duplicates: u64, p50_ns: i64) {
        let delay = Some(DelayQuantiles { p0_ns: i64::MIN, p25_ns: -1, p50_ns, p75_ns: 1, p95_ns: i64::MAX });
        let report = UdpReport { buffer: Bytes::new(buffer), proposed: sent, sent, received, duplicates, delay, n_reordering: vec![sent] };
        let read = read_report(report.encode(true).as_bytes());
        prop_assert_eq!(read.buffer_bytes, Some(buffer));
        prop_assert_eq!((read.sent, read.received, read.unique), (Some(sent), Some(received), Some(report.unique())));
        prop_assert!(read.loss_percent.is_some() && read.delay_ms.is_some() && read.jitter_ms.is_some());
        if let Some(Reported::Value(delay)) = read.delay_ms {
            prop_assert!((delay - p50_ns as f64 / 1e6).abs() <= 0.000_6 + delay.abs() * 1e-12);
        }
    }

    #[test]
    fn no_text_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_report(&bytes);
    }
}
