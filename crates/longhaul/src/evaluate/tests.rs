//! Synthetic runs whose expected results follow by arithmetic.

mod joining;
mod links;
mod tables;

use std::path::Path as FilePath;

use results::lab::{LabRun, LabRunEnd, LinkInterval};
use scenario::Scenario;

use super::directory::{Run, Usage};

/// Scenario with the links sender-router and router-receiver, and the given keys of the links.
fn chain(access: &str, path: &str, rest: &str) -> Scenario {
    let text = format!(
        "duration = \"30s\"\nnodes = [\"sender\", \"router\", \"receiver\"]\n\
         [links]\naccess = {{ between = [\"sender\", \"router\"], {access} }}\n\
         path = {{ between = [\"router\", \"receiver\"], {path} }}\n\
         [flows]\ntransfer = {{ from = \"sender\", to = \"receiver\", start = \"20s\" }}\n\
         [programs]\nprobe = {{ node = \"sender\", start = \"1s\", command = \"true\" }}\n{rest}"
    );
    let read = scenario::read(FilePath::new("x.toml"), &text, &scenario::Options::default(), &|_| Err(String::new()));
    read.unwrap_or_else(|e| panic!("{e}")).scenarios.remove(0)
}

/// Interval of the link direction in which `from` transmits.
fn used(link: &str, from: &str, [start_s, end_s]: [f64; 2], share: f64) -> LinkInterval {
    let none = r#"{"packets":0,"bytes":0}"#;
    let text = format!(
        r#"{{"run":0,"link":"{link}","from":"{from}","to":"x","start_s":{start_s},"end_s":{end_s},"offered":{none},
            "delivered":{none},"duplicated":0,"reordered":0,"utilisation":{share},
            "dropped":{{"queue":0,"codel":0,"loss":0,"listed":0,"outage":0,"mtu":0,"emulator":0}},
            "queue":{{"p50_bytes":0,"p95_bytes":0,"p99_bytes":0,"max_bytes":0}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn usage(intervals: impl IntoIterator<Item = LinkInterval>) -> Usage {
    let mut usage = Usage::default();
    intervals.into_iter().for_each(|i| usage.add(i));
    usage
}

/// Run with the given throughput of the transfer, which starts one second past the epoch.
fn run(verdict: &str, throughput_bps: Option<u64>, usage: Usage) -> Run {
    let start = r#"{"run":0,"point":0,"values":[],"repetition":0,"seed":1,"duration_s":30.0,"start_utc_s":0.0,
        "links":[],"flows":[],"changes":[]}"#;
    let start: LabRun = serde_json::from_str(start).unwrap();
    let throughput = throughput_bps.map_or_else(String::new, |bps| format!(r#","throughput_bps":{bps}"#));
    let end = format!(
        r#"{{"run":0,"verdict":{verdict},"interrupted":false,"start_utc_s":1.0,"links":[],"programs":[],"busiest_worker":0.1,
            "flows":[{{"flow":"transfer","bytes":1{throughput}}}]}}"#
    );
    let end: LabRunEnd = serde_json::from_str(&end).unwrap();
    Run { start, usage, end: Some(end) }
}
