//! Structure of the page, tolerance of incomplete input, and escaping of hostile text.

use results::{Direction, Record};

use super::{Run, RunError, write_html};
use crate::fixture::{Scenario, records};

fn page(runs: &[Run], title: &str) -> String {
    let mut out = Vec::new();
    write_html(&mut out, runs, title).unwrap();
    String::from_utf8(out).unwrap()
}

fn run(name: &str, scenario: &Scenario) -> Run {
    Run::from_records(name, records(scenario)).unwrap()
}

/// Data of the page's script.
fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// Writes the page to `LONGHAUL_REPORT_DIR`, if set, for viewing in a browser.
fn keep(name: &str, page: &str) {
    if let Ok(dir) = std::env::var("LONGHAUL_REPORT_DIR") {
        std::fs::write(format!("{dir}/{name}.html"), page).unwrap();
    }
}

/// Asserts that the opening and closing tags of the elements that this crate writes are balanced.
fn assert_balanced(page: &str) {
    let body = page.split_once("<body>").unwrap().1.split_once("<script").unwrap().0;
    for tag in
        ["div", "section", "table", "tbody", "thead", "tr", "td", "th", "span", "p", "figure", "svg", "h2", "details"]
    {
        let opened = body.matches(&format!("<{tag}>")).count() + body.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, body.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn one_run_shows_every_section_and_needs_no_network() {
    let page = page(&[run("a.jsonl", &Scenario::default())], "dtn1 to dtn2");
    keep("one", &page);
    assert_balanced(&page);
    for heading in ["Throughput over time", "Where the delay sits", "What limited the transfer", "Summary", "RFC 6349"]
    {
        assert!(page.contains(heading), "{heading}");
    }
    for heading in ["Loss episodes", "Sockets", "Hosts", "Quality of the measurement", "Streams"] {
        assert!(page.contains(&format!("<h2>{heading}</h2>")), "{heading}");
    }
    assert!(!page.contains("<h2>Datagrams</h2>") && !page.contains("<h2>Comparison</h2>"));
    for outside in ["src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let data = data(&page);
    let track = &data["tracks"][0];
    assert_eq!(track["t_s"].as_array().unwrap().len(), 30);
    assert_eq!(track["streams"].as_array().unwrap().len(), 2);
    let share: f64 =
        data["distribution"]["tracks"][0]["percent"].as_array().unwrap().iter().filter_map(|v| v.as_f64()).sum();
    assert!((share - 100.0).abs() < 0.1, "{share}");
}

#[test]
fn several_runs_are_overlaid_and_compared() {
    let faster = Scenario {
        rate_bps: 2.4e9,
        queue_ms: (3.0, 21.0),
        congestion_control: "bbr",
        limit: "pacing",
        directions: vec![Direction::Up, Direction::Down],
        ..Scenario::default()
    };
    let runs = [run("cubic.jsonl", &Scenario::default()), run("bbr.jsonl", &faster)];
    let page = page(&runs, "cubic against bbr");
    keep("several", &page);
    assert_balanced(&page);
    assert!(
        page.contains("<h2>Comparison</h2>") && page.contains("class=\"better\"") && page.contains("class=\"worse\"")
    );
    assert_eq!(data(&page)["tracks"].as_array().unwrap().len(), 3);
}

#[test]
fn udp_alone_shows_datagrams_and_no_round_trips() {
    let page = page(&[run("u", &Scenario { udp: true, ..Scenario::default() })], "udp");
    keep("udp", &page);
    assert_balanced(&page);
    assert!(page.contains("<h2>Datagrams</h2>") && !page.contains("RFC 6349</h2>"));
    assert!(data(&page)["distribution"].is_null());
}

#[test]
fn delays_over_decades_are_drawn_on_a_logarithmic_axis() {
    let scenario = Scenario { base_rtt_ms: 0.2, queue_ms: (0.1, 0.1), intervals: 3, ..Scenario::default() };
    let page = page(&[run("near", &scenario), run("far", &Scenario::default())], "near and far");
    keep("decades", &page);
    assert_balanced(&page);
    assert_eq!(data(&page)["distribution"]["is_log"], true);
    assert_eq!(data(&page)["is_delay_log"], true);
    let far = self::page(&[run("far", &Scenario::default())], "far");
    assert_eq!(data(&far)["is_delay_log"], false, "the round trips of one path span less than two decades");
}

#[test]
fn hostile_text_stays_text() {
    let evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'";
    let mut all = records(&Scenario { intervals: 3, ..Scenario::default() });
    for r in &mut all {
        match r {
            Record::Start(s) => {
                s.target = evil.to_owned();
                s.title = Some(evil.to_owned());
                s.client.hostname = evil.to_owned();
                s.notes = vec![evil.to_owned()];
                s.client.sysctls.insert(evil.to_owned(), evil.to_owned());
                s.streams[0].congestion_control = Some(evil.to_owned());
            }
            Record::Interval(i) => {
                i.limit.iter_mut().for_each(|l| l.evidence = evil.to_owned());
                i.block_rtt.iter_mut().for_each(|d| d.histogram = evil.to_owned());
            }
            Record::End(e) => e.warnings = vec![evil.to_owned()],
        }
    }
    let runs = [Run::from_records(evil, all.clone()).unwrap(), Run::from_records("b", all).unwrap()];
    let page = page(&runs, evil);
    keep("hostile", &page);
    assert_balanced(&page);
    assert!(!page.contains("<script>alert") && !page.contains("<img"));
    assert_eq!(page.matches("</script>").count(), 3, "the data, uPlot and the set-up");
    assert!(data(&page)["tracks"][0]["label"].as_str().unwrap().contains("</script>"));
}

#[test]
fn an_unfinished_run_is_marked_and_summed_up() {
    let mut all = records(&Scenario::default());
    all.pop();
    let run = Run::from_records("cut", all).unwrap();
    assert!(run.tracks[0].block_rtt.is_some() && run.tracks[0].throughput_bps.is_some());
    let page = page(&[run], "cut");
    keep("unfinished", &page);
    assert_balanced(&page);
    assert!(page.contains("unfinished") && page.contains("receive window"));
}

#[test]
fn incomplete_runs_still_make_a_page() {
    let none = run("none", &Scenario { intervals: 0, ..Scenario::default() });
    let plain = run("plain", &Scenario { histograms: false, intervals: 1, ..Scenario::default() });
    let started = Run::from_records("started", records(&Scenario::default())[..1].to_vec()).unwrap();
    for (name, r) in [("none", none), ("plain", plain), ("started", started)] {
        let page = page(&[r], name);
        keep(name, &page);
        assert_balanced(&page);
        assert!(page.contains("Hosts"));
    }
    let page = page(&[], "nothing");
    assert_balanced(&page);
}

#[test]
fn non_finite_numbers_are_harmless() {
    let mut all = records(&Scenario { intervals: 4, ..Scenario::default() });
    for r in &mut all {
        match r {
            Record::Interval(i) => {
                i.end_s = if i.index % 2 == 0 { f64::NAN } else { f64::MAX };
                i.start_s = -1.0;
                i.limit.iter_mut().for_each(|l| l.share = if i.index % 3 == 0 { 1e308 } else { f64::INFINITY });
            }
            Record::End(e) => e.directions.iter_mut().for_each(|d| d.receiver.duration_s = f64::NAN),
            Record::Start(_) => {}
        }
    }
    let page = page(&[Run::from_records("odd", all).unwrap()], "odd");
    assert_balanced(&page);
    let drawn = page.split_once("<body>").unwrap().1.split_once("<script").unwrap().0;
    assert!(!drawn.contains("NaN") && !drawn.contains("inf%") && !drawn.contains("inf\u{a0}%"));
}

#[test]
fn files_without_a_run_are_refused() {
    assert_eq!(Run::from_records("x", Vec::new()).unwrap_err(), RunError::NoStart("x".to_owned()));
    let mut twice = records(&Scenario { intervals: 1, ..Scenario::default() });
    twice.extend(twice.clone());
    assert_eq!(Run::from_records("x", twice).unwrap_err(), RunError::SeveralTests("x".to_owned()));
}

#[test]
fn a_long_test_keeps_its_page_small() {
    // Sixty intervals are repeated: recording six thousand with their histograms would take a minute.
    let mut all = records(&Scenario { intervals: 60, interval_s: 0.1, streams: 1, ..Scenario::default() });
    let (start, end) = (all.remove(0), all.pop());
    let shifted = |lap: u64, mut r: Record| {
        if let Record::Interval(i) = &mut r {
            i.index += lap * 60;
            i.start_s += lap as f64 * 6.0;
            i.end_s += lap as f64 * 6.0;
        }
        r
    };
    let laps = (0..100).flat_map(|lap| all.iter().map(move |r| shifted(lap, r.clone())));
    let records: Vec<Record> = core::iter::once(start).chain(laps).chain(end).collect();
    let page = page(&[Run::from_records("long", records).unwrap()], "long");
    keep("long", &page);
    assert_balanced(&page);
    assert_eq!(data(&page)["tracks"][0]["t_s"].as_array().unwrap().len(), 6000);
    assert!(page.len() < 2_000_000, "{}", page.len());
}
