//! Contents of the page, tolerance of incomplete input, and escaping of hostile text.

use results::lab::{Drops, LabRecord, RouteChange, Verdict};

use super::fixture::{Lab, REASON, records};
use super::{LabError, LabReport, LabText, write_lab_comparison, write_lab_html};

fn page_of(records: Vec<LabRecord>, title: &str) -> String {
    let report = LabReport::from_records(records).unwrap();
    let mut out = Vec::new();
    write_lab_html(&mut out, &report, title).unwrap();
    String::from_utf8(out).unwrap()
}

fn page(lab: &Lab, title: &str) -> String {
    page_of(records(lab), title)
}

/// Data of the page's script.
fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

fn body(page: &str) -> &str {
    page.split_once("<body>").unwrap().1.split_once("<script").unwrap().0
}

/// Writes the page to `LONGHAUL_REPORT_DIR`, if set, for viewing in a browser.
fn keep(name: &str, page: &str) {
    if let Ok(dir) = std::env::var("LONGHAUL_REPORT_DIR") {
        std::fs::write(format!("{dir}/lab-{name}.html"), page).unwrap();
    }
}

fn assert_balanced(page: &str) {
    let body = body(page);
    for tag in
        ["div", "section", "table", "tbody", "thead", "tr", "td", "th", "span", "p", "h2", "h3", "details", "ul", "li"]
    {
        let opened = body.matches(&format!("<{tag}>")).count() + body.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, body.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

fn len(v: &serde_json::Value) -> usize {
    v.as_array().unwrap().len()
}

#[test]
fn a_sweep_shows_every_section_and_needs_no_network() {
    let page = page(&Lab::default(), "Loss against congestion control");
    keep("sweep", &page);
    assert_balanced(&page);
    let text = body(&page);
    for heading in ["Goodput over loss", "All points", "Runs", "One run", "Machine"] {
        assert!(text.contains(&format!("<h2>{heading}</h2>")), "{heading}");
    }
    for heading in [
        "Throughput",
        "Round trip",
        "Block round trip",
        "Waiting time in the links",
        "Queue depth",
        "Drops per interval",
        "Utilisation",
    ] {
        assert!(text.contains(&format!("<h3>{heading}</h3>")), "{heading}");
    }
    for what in [
        "loss-against-control",
        "2026-03-01T12:00:00Z",
        "user namespace",
        "duration = 20s",
        "longhaul test server --time 20s --congestion cubic --json",
        "100 Mb/s, 20 ms, queue 500 kB tail drop, loss 0.0001",
        "path: loss 0.05",
        "stopped at the end of the run",
        "quantiles over time",
    ] {
        assert!(text.contains(what), "{what}");
    }
    for outside in ["src=", "href=", "@import", "url(", "http:"] {
        assert!(!text.contains(outside), "{outside}");
    }
    let style = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    assert!(!style.contains("http") && !style.contains("url(") && !style.contains("@import"));
}

#[test]
fn the_plot_has_a_curve_for_each_series_and_flow_and_intervals_with_several_runs() {
    let data = data(&page(&Lab::default(), "x"));
    let curves = data["plot"]["curves"].as_array().unwrap();
    let labels: Vec<&str> = curves.iter().map(|c| c["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["cubic, elephant1", "cubic, elephant2", "reno, elephant1", "reno, elephant2"]);
    let points = curves[0]["points"].as_array().unwrap();
    assert_eq!((points[0]["x"].as_f64(), points[1]["x"].as_f64()), (Some(0.0001), Some(0.001)));
    assert_eq!(points[0]["runs"], 2);
    assert!(points[0]["half_width"].as_f64().unwrap() > 0.0);
    // Run 5 is the second repetition of the third point: one run remains, and one run has no interval.
    assert_eq!(points[1]["runs"], 1);
    assert!(points[1]["half_width"].is_null());
    assert_eq!((len(&data["plot"]["models"]), data["plot"]["y_unit"].as_str()), (1, Some("b/s")));
}

#[test]
fn the_intervals_of_every_run_are_on_one_time_axis() {
    let data = data(&page(&Lab::default(), "x"));
    assert_eq!(len(&data["runs"]), 8);
    let run = &data["runs"][0];
    assert_eq!((len(&run["times"]), len(&run["times"][0]), run["times"][0][0].as_f64()), (1, 40, Some(0.25)));
    assert_eq!((len(&run["flows"]), len(&run["mice"]), len(&run["links"]), len(&run["marks"])), (2, 1, 4, 2));
    // The first link is the busiest, and the only one with drops.
    assert_eq!(run["links"][0]["label"], "path: west \u{2192} east");
    let causes: Vec<&str> =
        run["links"][0]["drops"].as_array().unwrap().iter().map(|d| d["cause"].as_str().unwrap()).collect();
    assert_eq!(causes, ["queue full", "loss"]);
    assert_eq!(len(&run["links"][1]["drops"]), 0);
    assert_eq!((len(&run["mice"][0]["completion_ns"]), len(&run["mice"][0]["incomplete_s"])), (38, 2));
    assert_eq!(len(&run["engine"]["cpus"]), 3);
}

#[test]
fn the_round_trip_of_the_network_is_apart_from_that_of_the_blocks() {
    let page = page(&Lab::single(), "x");
    let flow = &data(&page)["runs"][0]["flows"][0];
    // The fixture's queue adds at most 30 ms to the network's 40 ms and at most 40 ms to a block's.
    let (network, block) = (&flow["srtt_ns"], &flow["block_p50_ns"]);
    assert!((0..40).all(|i| (40_000_000..=70_000_000).contains(&network[i].as_u64().unwrap())));
    assert!((0..40).any(|i| block[i].as_u64() > network[i].as_u64()));
    let text = body(&page);
    assert!(text.contains("<th>RTT, median</th>") && text.contains("<th>block round trip, median</th>"));
    assert!(text.contains("threads scheduled as SCHED_FIFO"));
}

#[test]
fn changes_of_one_moment_are_one_mark_and_a_late_end_is_marked() {
    let mut all = records(&Lab::single());
    for r in &mut all {
        if let LabRecord::Run(r) = r {
            r.changes[1].at_s = r.changes[0].at_s;
            r.duration_s = 15.0;
        }
    }
    let page = page_of(all, "x");
    let run = &data(&page)["runs"][0];
    let texts: Vec<&str> = run["marks"].as_array().unwrap().iter().map(|m| m["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["path: loss 0.05; path: loss 0.0001", "planned end of the run"]);
    assert!(run["notes"][0].as_str().unwrap().contains("5.00 s later than the planned end of 15.0 s"), "{run}");
}

#[test]
fn an_invalid_run_makes_the_banner_invalid_with_its_reason() {
    let page = page(&Lab::default(), "x");
    let banner = body(&page).split_once("class=\"banner ").unwrap().1.split_once("</div>").unwrap().0;
    assert!(banner.starts_with("invalid") && banner.contains("<b>INVALID</b>") && banner.contains("7 of 8 runs valid"));
    assert!(banner.contains("run 5: lateness 99\u{a0}% was 3.10 ms"), "{banner}");
}

#[test]
fn a_summary_does_not_overrule_the_verdict_of_a_run() {
    let mut all = records(&Lab { invalid_run: Some(1), ..Lab::default() });
    let Some(LabRecord::Summary(s)) = all.last_mut() else { panic!("the summary is last") };
    s.verdict = Verdict::Valid;
    let page = page_of(all, "x");
    assert!(body(&page).contains("banner invalid") && body(&page).contains("run 1: lateness"));
}

#[test]
fn a_single_valid_run_is_plain() {
    let page = page(&Lab::single(), "one run");
    keep("single", &page);
    assert_balanced(&page);
    let text = body(&page);
    assert!(text.contains("banner valid") && text.contains("1 of 1 runs valid"));
    assert!(!text.contains("id=\"sweep\"") && !text.contains("<h2>Runs</h2>") && !text.contains(">mean "));
    assert!(data(&page)["plot"].is_null());
}

#[test]
fn repetitions_without_a_sweep_give_means() {
    let page = page(&Lab { repetitions: 4, ..Lab::single() }, "x");
    keep("repetitions", &page);
    assert_balanced(&page);
    let text = body(&page);
    assert!(text.contains("Means over the repetitions") && text.contains("(4 runs)") && !text.contains("id=\"sweep\""));
    assert!(text.contains("class=\"below\">mean "), "below the run's own number stands the mean of all");
}

#[test]
fn a_failed_experiment_is_marked_and_shows_its_records() {
    let all = records(&Lab { invalid_run: None, ..Lab::default() });
    let second_end = all.iter().enumerate().filter(|(_, r)| matches!(r, LabRecord::RunEnd(_))).nth(1).unwrap().0;
    for (name, kept) in [("started", 1), ("running", 60), ("cut", second_end - 5), ("unsummed", all.len() - 1)] {
        let page = page_of(all[..kept].to_vec(), name);
        keep(name, &page);
        assert_balanced(&page);
        let text = body(&page);
        assert!(text.contains("banner unfinished") && text.contains("no summary"), "{name}");
        assert!(!text.contains("banner valid"), "{name}");
        assert_eq!(text.contains("No run started."), name == "started");
    }
}

#[test]
fn two_hundred_link_directions_keep_the_page_usable() {
    let page = page(&Lab { side_links: 98, ..Lab::single() }, "many links");
    keep("many", &page);
    assert_balanced(&page);
    let data = data(&page);
    assert_eq!(len(&data["runs"][0]["links"]), 64);
    assert!(data["runs"][0]["notes"].as_array().unwrap().iter().any(|n| n.as_str().unwrap().contains("64 busiest")));
    assert!(page.len() < 2_000_000, "{}", page.len());
}

#[test]
fn runs_beyond_the_maximum_have_no_charts_and_are_counted() {
    let lab = Lab { repetitions: 15, intervals: 4, invalid_run: None, ..Lab::default() };
    let page = page(&lab, "many runs");
    assert_balanced(&page);
    let data = data(&page);
    assert_eq!(len(&data["runs"]), 40);
    assert!(body(&page).contains("40 of 60 runs"));
    // Ten repetitions of each point instead of all of some points.
    assert!(data["runs"].as_array().unwrap().iter().all(|r| r["run"].as_u64().unwrap() % 15 < 10));
}

#[test]
fn hostile_text_stays_text() {
    let evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'";
    let mut all = records(&Lab { intervals: 3, ..Lab::default() });
    for r in &mut all {
        match r {
            LabRecord::Experiment(e) => {
                (e.name, e.about, e.privilege) = (evil.to_owned(), evil.to_owned(), evil.to_owned());
                e.overrides[0].value = evil.to_owned();
                e.host.sysctls.insert(evil.to_owned(), evil.to_owned());
            }
            LabRecord::Run(r) => {
                r.flows[0].command = Some(evil.to_owned());
                r.links[0].settings = evil.to_owned();
                r.changes[0].text = evil.to_owned();
                r.values[0].value = evil.to_owned();
            }
            LabRecord::Flow(f) => f.flow = evil.to_owned(),
            LabRecord::Link(l) => l.statistics.link = evil.to_owned(),
            LabRecord::RunEnd(e) => e.verdict = Verdict::Invalid { reasons: vec![evil.to_owned()] },
            LabRecord::Summary(s) => s.verdict = Verdict::Invalid { reasons: vec![evil.to_owned()] },
            LabRecord::Transfer(t) => t.flow = evil.to_owned(),
            LabRecord::Engine(_) => {}
        }
    }
    let page = page_of(all, evil);
    keep("hostile", &page);
    assert_balanced(&page);
    assert!(!page.contains("<script>alert") && !page.contains("<img"));
    assert_eq!(page.matches("</script>").count(), 3, "the data, uPlot and the set-up");
}

#[test]
fn non_finite_numbers_are_harmless() {
    let mut all = records(&Lab { intervals: 4, ..Lab::default() });
    for r in &mut all {
        match r {
            LabRecord::Experiment(e) => e.start_utc_s = f64::NAN,
            LabRecord::Run(r) => (r.duration_s, r.changes[0].at_s) = (f64::INFINITY, f64::NAN),
            LabRecord::Flow(f) => (f.start_s, f.end_s) = (f64::NAN, f64::NEG_INFINITY),
            LabRecord::Link(l) => l.statistics.utilisation = Some(f64::NAN),
            LabRecord::Engine(e) => e.worker_cpu = vec![f64::INFINITY; 30],
            LabRecord::RunEnd(e) => e.busiest_worker = f64::NAN,
            LabRecord::Summary(s) => {
                let all = s.points.iter_mut().flat_map(|p| p.metrics.values_mut());
                all.for_each(|e| (e.mean, e.half_width) = (f64::NAN, Some(f64::INFINITY)));
            }
            LabRecord::Transfer(t) => t.start_s = f64::NAN,
        }
    }
    let page = page_of(all, "odd");
    assert_balanced(&page);
    assert!(!body(&page).contains("NaN") && !body(&page).contains(">inf"));
    assert_eq!(data(&page)["runs"][0]["engine"]["cpus"][0]["label"], "busiest of 30 workers");
}

#[test]
fn values_too_large_for_their_unit_are_dashes() {
    let mut all = records(&Lab { intervals: 4, ..Lab::default() });
    for r in &mut all {
        match r {
            LabRecord::RunEnd(e) => e.links.iter_mut().for_each(|l| l.utilisation = Some(1e308)),
            LabRecord::Summary(s) => {
                let all = s.points.iter_mut().flat_map(|p| p.metrics.values_mut());
                all.for_each(|e| (e.mean, e.half_width) = (1e308, Some(1e308)));
            }
            LabRecord::Experiment(_)
            | LabRecord::Run(_)
            | LabRecord::Flow(_)
            | LabRecord::Link(_)
            | LabRecord::Engine(_)
            | LabRecord::Transfer(_) => {}
        }
    }
    let page = page_of(all, "odd");
    let shown = body(&page);
    assert!(!shown.contains(">inf") && !shown.contains("inf\u{a0}%") && !shown.contains("NaN"), "{shown}");
}

#[test]
fn files_without_an_experiment_are_refused() {
    let all = records(&Lab { intervals: 1, ..Lab::default() });
    assert_eq!(LabReport::from_records(Vec::new()).unwrap_err(), LabError::NoExperiment);
    assert_eq!(LabReport::from_records(all[1..].to_vec()).unwrap_err(), LabError::NoExperiment);
    let twice = all.iter().chain(&all).cloned();
    assert_eq!(LabReport::from_records(twice).unwrap_err(), LabError::SeveralExperiments);
    let run_twice = all.iter().chain(&all[1..]).cloned();
    assert_eq!(LabReport::from_records(run_twice).unwrap_err(), LabError::RunTwice(0));
    let headless: Vec<LabRecord> = all.into_iter().filter(|r| !matches!(r, LabRecord::Run(r) if r.run == 0)).collect();
    assert!(body(&page_of(headless, "x")).contains("records belong to no started run"));
    assert!(REASON.contains("lateness"));
}

#[test]
fn a_sweep_over_names_has_a_place_for_each_name() {
    let mut all = records(&Lab::default());
    let Some(LabRecord::Experiment(e)) = all.first_mut() else { panic!("the experiment is first") };
    let plot = e.plot.as_mut().unwrap();
    (plot.x, plot.series, plot.log) = ("elephant.congestion_control".to_owned(), None, false);
    plot.y = results::lab::LabMetric::QueueDelay;
    let page = page_of(all, "names");
    assert!(body(&page).contains("Not in the plot: the formulas"));
    keep("names", &page);
    let plot = &data(&page)["plot"];
    assert_eq!(plot["x_texts"], serde_json::json!(["cubic", "reno"]));
    let curves = plot["curves"].as_array().unwrap();
    assert_eq!(len(&plot["models"]), 0, "a formula has no place beside names");
    // The other swept values distinguish the curves.
    assert_eq!(curves.iter().map(|c| c["label"].as_str().unwrap()).collect::<Vec<_>>(), ["loss 0.0001", "loss 0.001"]);
    assert_eq!((curves[0]["points"][1]["x"].as_f64(), plot["y_unit"].as_str()), (Some(1.0), Some("s")));
}

#[test]
fn a_point_without_a_valid_run_is_named_beside_the_plot() {
    let page =
        page(&Lab { losses: vec!["0", "0.001"], repetitions: 1, invalid_run: Some(1), ..Lab::default() }, "zero");
    keep("zero", &page);
    assert!(body(&page).contains("Not in the plot: loss 0, reno (no valid run)."));
}

fn text(records: &[LabRecord]) -> String {
    let mut out = Vec::new();
    let mut text = LabText::new(&mut out);
    records.iter().for_each(|r| text.record(r).unwrap());
    String::from_utf8(out).unwrap()
}

#[test]
fn an_experiment_as_text() {
    let text = text(&records(&Lab { controls: vec!["cubic"], invalid_run: Some(3), ..Lab::default() }));
    let wide: Vec<_> = text.lines().filter(|l| l.chars().count() > 110 || !l.is_ascii()).collect();
    assert!(wide.is_empty(), "{wide:#?}");
    insta::assert_snapshot!(text);
}

#[test]
fn text_of_a_broken_experiment_and_of_hostile_names_is_text() {
    let mut all = records(&Lab::single());
    for r in &mut all {
        if let LabRecord::RunEnd(e) = r {
            e.flows[0].flow = "a\x1b[2Jb".to_owned();
            e.flows[1].failure = Some("no \x1b route\n".to_owned());
            e.programs[0].failed = true;
        }
    }
    let printed = text(&all[1..]);
    assert!(
        printed.contains("FAILED         flow elephant2: no ? route") && printed.contains("program capture on east"),
        "{printed}"
    );
    assert!(printed.chars().all(|c| c == '\n' || !c.is_control()));
    assert_eq!(text(&all[..2]).lines().count(), text(&all[..1]).lines().count(), "a run prints at its end");
}

#[test]
fn a_path_without_an_experiment_reads_as_a_path() {
    let mut all = records(&Lab::single());
    all.retain(|r| matches!(r, LabRecord::RunEnd(_)));
    let LabRecord::RunEnd(end) = &mut all[0] else { panic!("the end of the run is left") };
    end.links.retain(|l| l.link == "path");
    (end.flows, end.programs) = (Vec::new(), Vec::new());
    insta::assert_snapshot!(text(&all));
}

#[test]
fn a_single_run_is_summed_up_by_its_verdict_alone() {
    let printed = text(&records(&Lab::single()));
    assert!(printed.contains("  size           1 run\n") && printed.contains("-- run 0, VALID ---"), "{printed}");
    assert!(printed.lines().last().unwrap().starts_with("-- VALID: 1 of 1 runs valid ---"), "{printed}");
}

#[test]
fn the_metric_of_the_plot_comes_first() {
    let mut all = records(&Lab::default());
    let Some(LabRecord::Experiment(e)) = all.first_mut() else { panic!("the experiment is first") };
    e.plot.as_mut().unwrap().y = results::lab::LabMetric::QueueDelay;
    let printed = text(&all);
    let (_, table) = printed.rsplit_once("runs valid").unwrap();
    let heads: Vec<&str> = table.lines().nth(3).unwrap().split_whitespace().collect();
    assert_eq!(heads[..4], ["runs", "wait", "p95", "goodput"], "{table}");
    assert!(printed.lines().all(|l| l.chars().count() <= 110), "{printed}");
}

#[test]
fn an_experiment_survives_its_file() {
    let all = records(&Lab::default());
    let lines: String = all.iter().map(|r| serde_json::to_string(r).unwrap() + "\n").collect();
    if let Ok(dir) = std::env::var("LONGHAUL_REPORT_DIR") {
        std::fs::write(format!("{dir}/lab.jsonl"), &lines).unwrap();
    }
    let file = results::read_lab_records(lines.as_bytes()).unwrap();
    assert_eq!((file.records.len(), file.is_torn, file.unknown), (all.len(), false, 0));
    // Reading a real number may change its last bit, which no report shows.
    assert_eq!(text(&file.records), text(&all));
}

#[test]
fn an_error_of_the_source_is_returned() {
    #[derive(Debug, PartialEq)]
    struct Broken(&'static str);
    impl From<LabError> for Broken {
        fn from(_: LabError) -> Self {
            Self("no experiment")
        }
    }
    let all = records(&Lab::single());
    let broken = all.into_iter().take(3).map(Ok).chain([Err(Broken("disk"))]);
    assert_eq!(LabReport::try_from_records(broken).unwrap_err(), Broken("disk"));
    assert_eq!(LabReport::try_from_records::<Broken>([]).unwrap_err(), Broken("no experiment"));
}

#[test]
fn small_transfers_are_listed_by_size_and_all_traffic_in_one_line() {
    let page = page(&Lab::single(), "x");
    keep("sizes", &page);
    assert_balanced(&page);
    let body = body(&page);
    assert!(body.contains("Small transfers by size") && body.contains("<th>web 10-100kB</th>"), "{body}");
    assert!(body.contains("All traffic") && body.contains("0.9512"));
    let window = &data(&page)["runs"][0]["flows"][0]["cwnd_bytes"];
    assert!(window.as_array().unwrap().iter().all(|b| b.as_u64().is_some_and(|b| b > 0)));
}

#[test]
fn published_values_are_beside_the_means_in_page_and_text() {
    let lab = Lab { published: Some(40_000), ..Lab::single() };
    let page = page(&lab, "x");
    assert!(body(&page).contains("Published values") && body(&page).contains("table &lt;1&gt;"), "{}", body(&page));
    let mut out = Vec::new();
    let mut text = LabText::new(&mut out);
    records(&lab).iter().for_each(|r| text.record(r).unwrap());
    let text = String::from_utf8(out).unwrap();
    let line = text.lines().find(|l| l.contains("flow.elephant1.packets")).unwrap();
    assert!(line.contains(" 40000 ") && line.ends_with("table <1>"), "{line}");
}

#[test]
fn a_comparison_has_a_column_per_experiment_and_ratios_to_the_first() {
    let report = |published| {
        let lab = Lab { published, repetitions: 3, ..Lab::single() };
        LabReport::from_records(records(&lab)).unwrap()
    };
    let all = [("none".to_owned(), report(None)), ("half <b>".to_owned(), report(Some(40_000)))];
    let mut out = Vec::new();
    write_lab_comparison(&mut out, &all, "table 3.1").unwrap();
    let page = String::from_utf8(out).unwrap();
    keep("comparison", &page);
    assert_balanced(&page);
    let body = body(&page);
    assert!(body.contains("<th>metric</th><th>none</th><th>half &lt;b&gt;</th>"), "{body}");
    // The numbers are equal: a ratio of one in the second column only, with the published value beside it.
    assert!(body.contains("1 of the first") && body.contains("of the published 40000"), "{body}");
    assert_eq!(body.matches("web 0-10kB: slowdown").count(), 1);
    // One bar for each experiment and flow. Equal means have equal bars; the longest ends at the end of its interval.
    let flows = all[0].1.summary.as_ref().unwrap().points[0].metrics.keys();
    let flows = flows.filter(|m| m.starts_with("flow.") && m.ends_with(".throughput_bps")).count();
    assert_eq!(body.matches("<div class=\"barline\">").count(), 2 * flows);
    assert!(flows > 0 && body.matches("h3").count() >= 2 * flows, "{body}");
}

#[test]
fn a_comparison_shows_the_first_reason_and_the_number_of_others() {
    let mut all = records(&Lab { repetitions: 3, ..Lab::single() });
    let Some(LabRecord::Summary(s)) = all.last_mut() else { panic!("the summary is last") };
    s.verdict =
        Verdict::Invalid { reasons: ["run 0: late", "run 1: late", "run 2: later"].map(str::to_owned).to_vec() };
    let all = [("half".to_owned(), LabReport::from_records(all).unwrap())];
    let mut out = Vec::new();
    write_lab_comparison(&mut out, &all, "x").unwrap();
    let page = String::from_utf8(out).unwrap();
    let body = body(&page);
    assert!(body.contains("run 0: late; and 2 more") && !body.contains("run 2: later"), "{body}");
}

#[test]
fn route_changes_of_an_overlay_are_marked_in_the_charts_of_flows() {
    let mut all = records(&Lab::single());
    let change = |at_s, member: &str, to: &str| RouteChange {
        at_s,
        member: member.to_owned(),
        destination: to.to_owned(),
        from: Some("direct".to_owned()),
        to: Some("via north".to_owned()),
        reason: "degraded".to_owned(),
    };
    let ends = |r: &LabRecord| {
        let LabRecord::Run(run) = r else { return None };
        run.flows.first().map(|f| (f.from.clone(), f.to.clone()))
    };
    let (from, to) = all.iter().find_map(ends).unwrap();
    for record in &mut all {
        if let LabRecord::RunEnd(end) = record {
            // Before the start, on the path of the flow, and on a path without a flow.
            end.route_changes =
                vec![change(-1.0, &from, &to), change(2.5, &from, &to), change(3.0, &from, "elsewhere")];
        }
    }
    let page = page_of(all.clone(), "x");
    assert_eq!(page.matches("direct -\\u003e via north (degraded)").count(), 1, "{page}");
    assert!(!page.contains("elsewhere"));
    // A comparison with an overlay has a time line for each experiment; without an overlay it has none.
    let compared = |overlay: Vec<LabRecord>| {
        let plain = LabReport::from_records(records(&Lab::single())).unwrap();
        let reports = [("fixed".to_owned(), plain), ("adaptive".to_owned(), LabReport::from_records(overlay).unwrap())];
        let mut out = Vec::new();
        write_lab_comparison(&mut out, &reports, "x").unwrap();
        String::from_utf8(out).unwrap()
    };
    let page = compared(all);
    assert_balanced(&page);
    assert_eq!(page.matches("direct -\\u003e via north (degraded)").count(), 1);
    // The table lists all changes on the path of the flow, including those before the start.
    assert_eq!(page.matches("<td>degraded</td>").count(), 2, "{page}");
    assert!(page.contains("<th>-1.00 s</th>") && page.contains("<th>2.50 s</th>"), "{page}");
    assert_eq!(["throughput", "losses"].map(|id| page.matches(&format!("id=\"{id}-")).count()), [2, 2]);
    assert!(!compared(records(&Lab::single())).contains("id=\"throughput-"));
}

#[test]
fn counters_at_their_maximum_do_not_stop_the_report() {
    let full = Drops {
        queue: u64::MAX,
        codel: u64::MAX,
        loss: u64::MAX,
        listed: u64::MAX,
        outage: u64::MAX,
        mtu: u64::MAX,
        emulator: u64::MAX,
    };
    let mut all = records(&Lab::single());
    for record in &mut all {
        match record {
            LabRecord::Link(link) => link.statistics.dropped = full,
            LabRecord::RunEnd(end) => end.links.iter_mut().for_each(|link| link.dropped = full),
            LabRecord::Experiment(_)
            | LabRecord::Run(_)
            | LabRecord::Flow(_)
            | LabRecord::Transfer(_)
            | LabRecord::Engine(_)
            | LabRecord::Summary(_) => {}
        }
    }
    let page = page_of(all.clone(), "damaged");
    assert!(page.trim_end().ends_with("</html>"));
    let mut text = LabText::new(Vec::new());
    all.iter().for_each(|record| text.record(record).unwrap());
}
