//! Output of a synthetic trace.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use results::trace::{
    FastState, HtcpState, TRACE_SCHEMA, TraceCause, TraceEnd, TraceFlow, TraceRecord, TraceSample, TraceSource,
    TraceStart, TraceState,
};

use super::{TraceCsv, TraceLiveState, TraceReport, render_trace, write_trace_html, write_trace_summary};

pub(super) fn flow(number: u32, control: &str) -> TraceRecord {
    TraceRecord::Flow(TraceFlow {
        flow: number,
        at_s: 0.0,
        local: format!("10.0.0.1:{}", 40_000 + number),
        remote: "10.0.0.2:5003".to_owned(),
        congestion_control: control.to_owned(),
    })
}

pub(super) fn sample(flow: u32, at_s: f64, cwnd: u32, acked_bytes: u64) -> TraceRecord {
    TraceRecord::Sample(plain(flow, at_s, cwnd, acked_bytes))
}

fn plain(flow: u32, at_s: f64, cwnd: u32, acked_bytes: u64) -> TraceSample {
    TraceSample {
        flow,
        at_s,
        cause: TraceCause::Ack,
        state: TraceState::Open,
        cwnd_segments: cwnd,
        ssthresh_segments: None,
        in_flight_segments: cwnd - 1,
        srtt_ns: 20_000_000,
        rttvar_ns: 1_000_000,
        min_rtt_ns: Some(19_000_000),
        delivery_rate_bps: Some(50_000_000),
        pacing_rate_bps: None,
        lost_segments: 0,
        retransmitted_segments: 0,
        acked_bytes,
        mss_bytes: 1448,
        peer_window_bytes: 65_536,
        application_limited: false,
        window_limited: Some(true),
        fast: None,
        htcp: None,
    }
}

/// Ten seconds: a CUBIC flow of 8 Mb/s with a loss in the middle, a FAST flow of 16 Mb/s.
fn trace() -> Vec<TraceRecord> {
    let mut all = vec![
        TraceRecord::Start(TraceStart {
            schema: TRACE_SCHEMA.to_owned(),
            version: "0.1.0".to_owned(),
            kernel: "6.18.0".to_owned(),
            source: TraceSource::Bpf,
            interval_s: 0.1,
            filter: "port 5003".to_owned(),
            start_utc_s: 1_772_366_400.0,
        }),
        flow(1, "cubic"),
        flow(2, "fast<script>"),
    ];
    for n in 0..=100_u32 {
        let at = f64::from(n) / 10.0;
        let cubic = plain(1, at, if n < 50 { 20 + n } else { 49 + (n - 50) / 2 }, u64::from(n) * 100_000);
        if n == 50 {
            let lost = |cause, state| TraceSample { cause, state, lost_segments: 3, ..cubic.clone() };
            all.push(TraceRecord::Sample(lost(TraceCause::State, TraceState::Recovery)));
            all.push(TraceRecord::Sample(lost(TraceCause::Retransmission, TraceState::Recovery)));
        }
        let retransmitted_segments = u32::from(n >= 50) * 3;
        all.push(TraceRecord::Sample(TraceSample { retransmitted_segments, ..cubic }));
        let inner = FastState {
            base_rtt_ns: 20_000_000,
            average_rtt_ns: 25_000_000,
            queue_segments: 28.0,
            target_segments: 40,
            holding: false,
        };
        let fast = TraceSample { fast: Some(inner), ..plain(2, at, 40, u64::from(n) * 200_000) };
        all.push(TraceRecord::Sample(fast));
    }
    all.push(TraceRecord::End(TraceEnd { seconds: 10.0, flows: 2, samples: 204, lost_events: 5 }));
    all
}

fn report(records: &[TraceRecord]) -> TraceReport {
    let mut report = TraceReport::default();
    records.iter().for_each(|r| report.record(r));
    report
}

#[test]
fn the_summary_names_the_busiest_first() {
    let mut out = Vec::new();
    write_trace_summary(&mut out, &report(&trace())).unwrap();
    insta::assert_snapshot!(String::from_utf8(out).unwrap());
}

#[test]
fn a_page_holds_the_curves_and_no_markup_of_a_record() {
    let mut out = Vec::new();
    write_trace_html(&mut out, &report(&trace()), "a trace").unwrap();
    let page = String::from_utf8(out).unwrap();
    assert!(!page.contains("fast<script>") && page.contains("fast&lt;script&gt;"));
    assert!(page.contains("5 events were lost"));
    let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let [fast, cubic] = [&data["flows"][0], &data["flows"][1]];
    // The connection with the most traffic is first. 20 000 bytes in 10 ms are 16 Mb/s.
    assert_eq!(fast["acked_bps"][50], 16_000_000);
    assert_eq!((&fast["queued"][50], &cubic["queued"][50]), (&28.0.into(), &serde_json::Value::Null));
    assert_eq!(cubic["events"][0]["text"], "recovery");
}

#[test]
fn an_empty_trace_and_one_without_its_end_make_a_page() {
    for records in [&trace()[..0], &trace()[..1], &trace()[..100]] {
        let mut out = Vec::new();
        write_trace_html(&mut out, &report(records), "cut").unwrap();
        assert!(String::from_utf8(out).unwrap().contains("The end of the trace is missing"));
    }
}

#[test]
fn a_row_has_every_key_of_a_sample() {
    let mut out = Vec::new();
    let mut csv = TraceCsv::new(&mut out);
    trace().iter().try_for_each(|r| csv.record(r)).unwrap();
    csv.flush().unwrap();
    drop(csv);
    let written = String::from_utf8(out).unwrap();
    let mut lines = written.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let schema =
        |schema: schemars::Schema| serde_json::to_value(schema).unwrap()["properties"].as_object().unwrap().clone();
    let mut keys: Vec<String> = schema(schemars::schema_for!(TraceSample)).keys().cloned().collect();
    keys.retain(|k| k != "fast" && k != "htcp");
    keys.extend(schema(schemars::schema_for!(FastState)).keys().map(|k| format!("fast_{k}")));
    keys.extend(schema(schemars::schema_for!(HtcpState)).keys().map(|k| format!("htcp_{k}")));
    let sorted = |mut all: Vec<String>| {
        all.sort();
        all
    };
    assert_eq!(sorted(columns.iter().map(|c| (*c).to_owned()).collect()), sorted(keys));
    let rows: Vec<Vec<&str>> = lines.map(|l| l.split(',').collect()).collect();
    assert_eq!(rows.len(), 204);
    assert!(rows.iter().all(|r| r.len() == columns.len()));
    let at = |name: &str| columns.iter().position(|c| *c == name).unwrap();
    assert_eq!(
        (rows[1][at("flow")], rows[1][at("fast_queue_segments")], rows[0][at("fast_holding")]),
        ("2", "28.0", "")
    );
}

fn drawn(records: &[TraceRecord], width: u16, height: u16) -> TestBackend {
    let mut state = TraceLiveState::new(true);
    records.iter().for_each(|r| state.record(r));
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| render_trace(frame, &state)).unwrap();
    terminal.backend().clone()
}

#[test]
fn the_view_on_a_terminal_of_140_by_30() {
    insta::assert_snapshot!(drawn(&trace()[..150], 140, 30));
}

#[test]
fn every_size_and_every_state_can_be_drawn() {
    for known in [0, 1, 2, 3, 20, 200] {
        for width in [1, 7, 59, 60, 110, 300] {
            for height in [1, 2, 5, 15, 16, 60] {
                drawn(&trace()[..known], width, height);
            }
        }
    }
}
