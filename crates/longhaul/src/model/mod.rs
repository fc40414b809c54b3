//! `longhaul model`.

pub(crate) mod cli;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use estimate::model::{
    MATHIS_DELAYED_ACK, MATHIS_PERIODIC, PathParameters, Reno, TIMEOUT_BEYOND_RTT, cardwell, cubic_response,
    cubic_with_timeouts, ideal_completion, mathis, pftk, pftk_approximate, pftk_received, rate_aware, ron_score,
    safire, tfrc,
};
use results::model::{MODEL_SCHEMA, ModelBound, ModelRecord, ModelResult, ModelStart};
use units::Rate;

use crate::output::{json_line, open_until_done, output_name};
use crate::standard_output::standard_output;
use cli::ModelOptions;

/// Initial congestion window in segments (RFC 6928).
const INITIAL_WINDOW_SEGMENTS: f64 = 10.0;

pub(crate) fn run(options: &ModelOptions) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(!options.rtt.is_zero(), "a round trip of zero has no rate; set --rtt above zero");
    anyhow::ensure!(options.mss.as_u64() > 0, "--mss must be above zero");
    anyhow::ensure!(options.window.is_none_or(|w| w >= options.mss), "--window must be at least --mss");
    anyhow::ensure!(options.rate.is_none_or(|r| r.as_bps() > 0), "--rate must be above zero");
    anyhow::ensure!(options.timeout.is_none_or(|t| !t.is_zero()), "--timeout must be above zero");
    let timeout = options.timeout.unwrap_or(options.rtt + TIMEOUT_BEYOND_RTT);
    let start = start(options, timeout);
    let results = evaluate(options, timeout);
    let Some(path) = &options.json else {
        report::model::write_models(&start, &results, &mut standard_output())?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut out = open_until_done(path)?;
    let records = std::iter::once(ModelRecord::Start(start)).chain(results.into_iter().map(ModelRecord::Model));
    for record in records {
        json_line(&mut out, &record).with_context(|| format!("cannot write {}", output_name(path)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn start(options: &ModelOptions, timeout: Duration) -> ModelStart {
    ModelStart {
        schema: MODEL_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        rtt_ns: units::nanos(options.rtt),
        loss: options.loss,
        mss_bytes: options.mss.as_u64(),
        timeout_ns: units::nanos(timeout),
        segments_per_ack: options.segments_per_ack,
        rate_bps: options.rate.map(Rate::as_bps),
        window_bytes: options.window.map(units::Bytes::as_u64),
        bytes: options.bytes.map(units::Bytes::as_u64),
    }
}

/// Evaluates all formulas, grouped by sender.
fn evaluate(options: &ModelOptions, timeout: Duration) -> Vec<ModelResult> {
    let ModelOptions { mss, rtt, loss, rate, .. } = *options;
    let window = options.window.map(|w| w.as_u64() as f64 / mss.as_u64() as f64);
    let reno = Reno { mss, rtt, loss, timeout, segments_per_ack: options.segments_per_ack, window };
    let bounds = Bounds::of(options);
    // The link limits a transfer like a window: at most one bandwidth-delay product is in flight.
    let bdp_segments = |rate: Rate| rate.as_bps() as f64 * rtt.as_secs_f64() / 8.0 / mss.as_u64() as f64;
    let limited = Reno { window: bounds.0.map(|(rate, _)| bdp_segments(rate).max(1.0)), ..reno };
    let row = |model, about, source, formula| bounds.row(model, about, source, formula, loss);
    let mut rows = vec![
        row("mathis", "Reno, one ACK per segment", "Mathis et al. 1997", mathis(mss, rtt, loss, MATHIS_PERIODIC)),
        row("mathis-delayed", "Reno, delayed ACKs", "Mathis et al. 1997", mathis(mss, rtt, loss, MATHIS_DELAYED_ACK)),
        row("pftk-approximate", "Reno with timeouts", "Padhye et al. 1998", pftk_approximate(reno)),
        row("pftk", "Reno with timeouts, full", "Padhye et al. 1998", pftk(reno)),
        row("pftk-received", "the same, received rate", "Padhye et al. 2000", pftk_received(reno)),
        row("tfrc", "TCP-friendly rate control", "RFC 5348 section 3.1", tfrc(mss, rtt, loss)),
        row("cubic", "CUBIC", "RFC 9438 section 5", cubic_response(mss, rtt, loss)),
        row(
            "cubic-timeouts",
            "CUBIC with timeouts",
            "RFC 9438; Padhye et al.",
            cubic_with_timeouts(mss, rtt, loss, timeout),
        ),
        row("ron-score", "RON's score, loss 0.01 if none", "Strauss 2002, eq. 3.1", ron_score(mss, rtt, loss)),
    ];
    if let Some(rate) = rate {
        rows.push(row("safire", "Reno in SAFIRE", "Mark et al. 2008, eq. 1", safire(rate, mss, rtt, loss)));
        rows.push(row(
            "rate-aware",
            "sender that knows the rate",
            "Mark et al. 2008, eq. 2",
            rate_aware(rate, rtt, loss),
        ));
    }
    if let Some(bytes) = options.bytes {
        for row in &mut rows {
            row.completion_ns = row.rate_bps.filter(|bps| *bps > 0).map(|bps| {
                let seconds = bytes.as_u64() as f64 * 8.0 / bps as f64;
                units::nanos(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
            });
        }
        let time = |model: &str, about: &str, source: &str, time: Option<Duration>| ModelResult {
            model: model.to_owned(),
            about: about.to_owned(),
            source: source.to_owned(),
            formula_bps: None,
            rate_bps: None,
            bound: None,
            completion_ns: time.map(units::nanos),
        };
        let path = PathParameters { mss, wire: mss, round_trip: rtt, rate: bounds.0.map(|(rate, _)| rate) };
        rows.push(time(
            "cardwell",
            "Reno with slow start",
            "Cardwell et al. 2000",
            cardwell(bytes, limited, INITIAL_WINDOW_SEGMENTS),
        ));
        rows.push(time(
            "slow-start",
            "slow start without loss",
            "Cardwell; Kurose, Ross",
            ideal_completion(bytes, path),
        ));
    }
    rows
}

/// Lower of the limits by link and window.
struct Bounds(Option<(Rate, ModelBound)>);

impl Bounds {
    fn of(options: &ModelOptions) -> Self {
        let window = options.window.map(|w| {
            let bps = w.as_u64() as f64 * 8.0 / options.rtt.as_secs_f64();
            (Rate::from_bps(bps.min(9e18) as u64), ModelBound::Window)
        });
        let link = options.rate.map(|rate| (rate, ModelBound::Link));
        Self([link, window].into_iter().flatten().min_by_key(|(rate, _)| *rate))
    }

    fn row(&self, model: &str, about: &str, source: &str, formula: Option<Rate>, loss: f64) -> ModelResult {
        let (rate, bound) = match (formula, self.0) {
            (Some(formula), Some((limit, bound))) if limit < formula => (Some(limit), Some(bound)),
            // Without loss, a loss-based formula has no value and the limit applies.
            (None, Some((limit, bound))) if loss == 0.0 => (Some(limit), Some(bound)),
            (formula, _) => (formula, None),
        };
        ModelResult {
            model: model.to_owned(),
            about: about.to_owned(),
            source: source.to_owned(),
            formula_bps: formula.map(Rate::as_bps),
            rate_bps: rate.map(Rate::as_bps),
            bound,
            completion_ns: None,
        }
    }
}
