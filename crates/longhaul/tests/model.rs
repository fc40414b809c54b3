//! `longhaul model`, checked by arithmetic.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod common;

use common::{longhaul, text};
use results::model::{ModelBound, ModelRecord, ModelResult};

fn models(arguments: &[&str]) -> Vec<ModelResult> {
    let output = longhaul().arg("model").args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records = text(&output.stdout);
    let records = records.lines().map(|l| serde_json::from_str::<ModelRecord>(l).unwrap());
    records.filter_map(|r| if let ModelRecord::Model(m) = r { Some(m) } else { None }).collect()
}

fn of<'a>(all: &'a [ModelResult], name: &str) -> &'a ModelResult {
    all.iter().find(|m| m.model == name).unwrap()
}

#[test]
fn the_formulas_are_listed_together() {
    let all = models(&["--rtt", "100ms", "--loss", "0.01%", "--mss", "1000"]);
    // 8000 b every 100 ms, times sqrt(3/2) / sqrt(1e-4).
    assert!(of(&all, "mathis").rate_bps.unwrap().abs_diff(9_797_959) < 5);
    // 1.054 (0.1 / 1e-4)^0.75 = 187.4 segments.
    let cubic = of(&all, "cubic").rate_bps.unwrap() as f64;
    assert!((cubic / (187.4 * 80_000.0) - 1.0).abs() < 1e-3, "{cubic}");
    assert!(all.iter().all(|m| m.formula_bps == m.rate_bps && m.bound.is_none() && m.completion_ns.is_none()));
    let message = longhaul().args(["model", "--rtt", "100ms", "--loss", "1e-4", "--mss", "1000"]).output().unwrap();
    let message = text(&message.stdout);
    assert!(message.contains("mathis") && message.contains("9.798 Mb/s") && message.contains("RFC 9438"), "{message}");
}

#[test]
fn link_and_window_limit_the_rate() {
    let all = models(&["--rtt", "100ms", "--loss", "1e-6", "--rate", "100Mb/s", "--window", "500kB", "--bytes", "1GB"]);
    let mathis = of(&all, "mathis");
    // 500 kB every 100 ms are 40 Mb/s.
    assert_eq!((mathis.rate_bps, mathis.bound), (Some(40_000_000), Some(ModelBound::Window)));
    assert!(mathis.formula_bps.unwrap() > 100_000_000);
    // 8 Gb at 40 Mb/s.
    assert_eq!(mathis.completion_ns, Some(200_000_000_000));
    let cardwell = of(&all, "cardwell").completion_ns.unwrap() as f64 / 1e9;
    assert!((200.0..210.0).contains(&cardwell), "{cardwell}");
}

#[test]
fn no_transfer_is_faster_than_the_link() {
    for loss in ["0", "1e-7", "1e-6"] {
        // 8 Gb at 100 Mb/s are 80 s with any loss.
        for m in models(&["--rtt", "100ms", "--loss", loss, "--rate", "100Mb/s", "--bytes", "1GB"]) {
            let seconds = m.completion_ns.unwrap() as f64 / 1e9;
            assert!(seconds >= 79.9, "{loss}: {m:?}");
            assert!(m.model == "ron-score" || seconds < 130.0, "{loss}: {m:?}");
        }
    }
    // 1 GB in windows of 64 kB every 100 ms: 1562.5 s.
    let all = models(&["--rtt", "100ms", "--window", "64kB", "--bytes", "1GB"]);
    for name in ["slow-start", "cardwell"] {
        let seconds = of(&all, name).completion_ns.unwrap() as f64 / 1e9;
        assert!((1540.0..1600.0).contains(&seconds), "{name}: {seconds}");
    }
}

#[test]
fn without_loss_only_link_and_window_limit_the_rate() {
    let all = models(&["--rtt", "20ms", "--rate", "1Gb/s"]);
    let pftk = of(&all, "pftk");
    assert_eq!((pftk.formula_bps, pftk.rate_bps, pftk.bound), (None, Some(1_000_000_000), Some(ModelBound::Link)));
    // RON assumes one loss in a hundred on a path without losses.
    assert!(of(&all, "ron-score").formula_bps.is_some());
}

#[test]
fn the_published_schema_is_that_of_the_code() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let text = std::fs::read_to_string(directory.join("longhaul.model-2.schema.json")).unwrap();
    let of_code = serde_json::to_value(schemars::schema_for!(ModelRecord)).unwrap();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&text).unwrap(),
        of_code,
        "run: longhaul generate schema docs/schema"
    );
}

#[test]
fn parameters_without_a_rate_are_refused() {
    for (arguments, message) in [
        (&["--rtt", "0ms"][..], "a round trip of zero"),
        (&["--rtt", "10ms", "--loss", "1"], "less than 1"),
        (&["--rtt", "10ms", "--loss", "-1"], "less than 1"),
        (&["--rtt", "10ms", "--window", "100B"], "--window"),
        (&["--rtt", "10ms", "--timeout", "0s"], "--timeout"),
        (&["--rtt", "10ms", "--loss", "NaN"], "less than 1"),
        (&["--rtt", "10ms", "--mss", "0B"], "--mss"),
        (&["--rtt", "10ms", "--segments-per-ack", "0"], "1 to 64"),
        (&["--loss", "0.1"], "--rtt"),
    ] {
        let refused = longhaul().arg("model").args(arguments).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(text(&refused.stderr).contains(message), "{arguments:?}: {}", text(&refused.stderr));
    }
}
