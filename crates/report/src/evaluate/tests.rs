//! Output of a synthetic evaluation.

use results::estimate::Quantity;
use results::evaluate::{
    DecisionRate, EVALUATE_SCHEMA, Ensemble, EvaluateRecord, EvaluateStart, JoinedEstimate, MeasuredPath,
    MethodAccuracy, MethodAgreement, MethodDecisions, PairSet, RatioSummary,
};

use super::view::ratio;
use super::{write_evaluation, write_evaluation_html};

fn records(name: &str) -> Vec<EvaluateRecord> {
    let ensemble = || name.to_owned();
    let ratios = RatioSummary {
        count: 2,
        p10: Some(0.5),
        p50: Some(1.25),
        p90: None,
        within_15_percent: 0.5,
        within_factor_2: 0.25,
    };
    let joined = |bps| JoinedEstimate {
        method: "auto/41kB -> goodput".to_owned(),
        quantity: Quantity::BulkTransferCapacity,
        estimate_bps: Some(bps),
        payload_bps: Some(bps),
        truth_bps: Some(4_000_000),
        bytes: 41_000,
        elapsed_ns: 1_200_000_000,
    };
    let path = |run, bps| MeasuredPath {
        directory: name.to_owned(),
        run,
        values: Vec::new(),
        sender: "s".to_owned(),
        receiver: "r".to_owned(),
        transfer_bps: 4_000_000,
        round_trip_ns: 10_000_000,
        similarity: None,
        estimates: vec![joined(bps)],
    };
    let rate = |variation, share| DecisionRate {
        variation,
        share,
        low: Some(0.925),
        high: Some(0.9625),
        share_with_guesses: share,
    };
    vec![
        EvaluateRecord::Start(EvaluateStart {
            schema: EVALUATE_SCHEMA.to_owned(),
            version: "0.1.0".to_owned(),
            transfer: "transfer".to_owned(),
            include_invalid: false,
            resamples: 100,
            seed: 1,
        }),
        EvaluateRecord::Ensemble(Ensemble {
            ensemble: ensemble(),
            about: String::new(),
            runs: 4,
            invalid: 1,
            unfinished: 0,
            without_transfer: 1,
            without_estimates: 0,
            overlapping: 1,
            paths: 2,
            centre_bps: Some(8_000_000),
            sigma_ln: Some(1.9),
        }),
        EvaluateRecord::Path(path(0, 2_000_000)),
        EvaluateRecord::Path(path(1, 8_000_000)),
        EvaluateRecord::Accuracy(MethodAccuracy {
            ensemble: ensemble(),
            method: "auto/41kB -> goodput".to_owned(),
            quantity: Quantity::BulkTransferCapacity,
            attempted: 2,
            answered: 2,
            to_truth: Some(ratios.clone()),
            to_transfer: Some(ratios),
            bytes: 41_000,
            elapsed_ns: 1_200_000_000,
        }),
        EvaluateRecord::Decisions(MethodDecisions {
            ensemble: ensemble(),
            method: "auto/41kB -> goodput".to_owned(),
            pair_set: PairSet::All,
            pairs: 1,
            undecided: 0,
            rates: vec![rate(1.0, 0.9444), rate(4.0, 0.96)],
        }),
        EvaluateRecord::Agreement(MethodAgreement {
            ensemble: ensemble(),
            method: "auto/41kB -> goodput".to_owned(),
            other: "transfer".to_owned(),
            variation: 1.05,
            share: 0.89,
        }),
    ]
}

#[test]
fn the_tables_have_the_numbers_of_the_records() {
    let mut out = Vec::new();
    write_evaluation(&records("paths"), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for text_part in [
        "2 of 4 runs are evaluated; geometric mean of the transfers 8.000 Mb/s, sigma of ln 1.90.",
        "Left out: 1 not valid, 1 without a throughput of the transfer.",
        "Runs in which a method was still active when the transfer started: 1.",
        "auto/41kB -> goodput   bulk transfer capacity         2/2  0.500   1.25      -    50 %  25 % 41.00 kB   1.20 s",
        "auto/41kB -> goodput        1     0.944     0.960",
        "0.93-0.96",
        " 2 transfer                 0.89 1.00",
    ] {
        assert!(text.contains(text_part), "`{text_part}` is not in: {text}");
    }
    assert!(text.lines().all(|l| l.chars().count() <= 110), "{text}");
}

#[test]
fn the_page_draws_each_ratio_once_and_escapes_names() {
    let mut out = Vec::new();
    write_evaluation_html(&mut out, &records("<i>paths"), "title").unwrap();
    let html = String::from_utf8(out).unwrap();
    assert!(html.contains("<h2>&lt;i&gt;paths</h2>") && !html.contains("<i>paths"));
    // Estimates of 2 and 8 Mb/s for 4 Mb/s.
    let curve = r#"{"label":"auto/41kB -\u003e goodput","number":0,"x":[0.5,2.0],"y":[0.5,1.0]}"#;
    assert_eq!(html.matches(curve).count(), 2, "against the truth and against the transfer");
    assert!(html.contains("<td>0.944 <small>0.93-0.96</small></td>"));
}

#[test]
fn ratios_have_three_digits_at_most() {
    let texts = [0.0312, 0.9994, 0.9996, 9.994, 9.996, 99.96, 999.6].map(|r| ratio(Some(r)));
    assert_eq!(texts, ["0.031", "0.999", "1.00", "9.99", "10.0", "100", ">999"]);
    assert_eq!(ratio(None), "-");
}
