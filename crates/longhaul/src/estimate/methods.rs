//! Runs a method given by its name and returns its result as a record.

use std::time::Duration;

use estimate::probe::{
    Adr, Igi, Interval, Method, Outcome, Path, PathChirp, Pathload, Pathrate, RonProbes, Spruce, SqueezedPairs,
    TwoRates,
};
use kernel::Shutdown;
use measure::probe::{Bounds, Prober, Run};
use results::estimate::{Caveat, EstimateResult, Layer, Quantity, RateBound, RateInterval};
use units::{Bytes, Rate};

use super::cli::{EstimateOptions, MethodName};
use super::transfer;

/// Knowledge of the path before a method runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// Capacity found by earlier methods in this session.
    pub(super) capacity: Option<Rate>,
    /// Capacity expected from the history of the path.
    pub(super) expected: Option<Interval>,
}

/// Runs a method within its bounds.
pub(super) fn run(
    name: MethodName,
    options: &EstimateOptions,
    prober: &mut Prober,
    known: Known,
    bounds: Bounds,
) -> anyhow::Result<EstimateResult> {
    let capacity = known.capacity;
    let (path, faithful) = (prober.path(), options.faithful_2002);
    let mut method: Box<dyn Method> = match name {
        MethodName::Auto | MethodName::TwoRates => Box::new(two_rates(&path, known, bounds)),
        MethodName::Adr => Box::new(Adr::full(path)),
        MethodName::ShortAdr => Box::new(Adr::short(path)),
        MethodName::Spruce => Box::new(Spruce::new(path, capacity)),
        MethodName::Igi if faithful => Box::new(Igi::faithful(path)),
        MethodName::Igi => Box::new(Igi::new(path)),
        MethodName::Pathchirp if faithful => Box::new(PathChirp::faithful(path)),
        MethodName::Pathchirp => Box::new(PathChirp::new(path)),
        MethodName::Pathload if faithful => Box::new(Pathload::faithful(path).at_most(bounds.bytes)),
        MethodName::Pathload => Box::new(Pathload::new(path).at_most(bounds.bytes)),
        MethodName::Pathrate if faithful => Box::new(Pathrate::faithful(path)),
        MethodName::Pathrate => Box::new(Pathrate::new(path)),
        // In the thesis of 2002 the capacity for squeezed pairs always came from ADR.
        MethodName::SqueezedPairs => return squeezed(faithful, prober, capacity.filter(|_| !faithful), bounds),
        MethodName::Loss => Box::new(ron(faithful, prober)),
        MethodName::LossOnly => Box::new(ron(faithful, prober).loss_only()),
        MethodName::ShortTcp | MethodName::Tcp => return transfer::run(name, options, bounds),
    };
    let run = prober.run(method.as_mut(), bounds, &|| Shutdown::requests() > 0)?;
    Ok(result(name, faithful, &run))
}

fn two_rates(path: &Path, known: Known, bounds: Bounds) -> TwoRates {
    let method = TwoRates::new(*path).for_budget(bounds.bytes);
    match known.expected {
        Some(capacity) => method.expecting(capacity),
        None => method,
    }
}

/// Runs squeezed pairs, which need the capacity; if it is unknown, ADR measures it first, as in the thesis of 2002.
fn squeezed(
    faithful: bool,
    prober: &mut Prober,
    capacity: Option<Rate>,
    bounds: Bounds,
) -> anyhow::Result<EstimateResult> {
    let (path, asked) = (prober.path(), || Shutdown::requests() > 0);
    let mut before = None;
    let capacity = match capacity {
        Some(capacity) => Some(capacity),
        None => {
            let run = prober.run(&mut Adr::full(path), bounds, &asked)?;
            let rate = run.outcome.interval.map(|i| i.value);
            before = Some(run);
            rate
        }
    };
    let Some(capacity) = capacity else {
        let quantity = Quantity::AvailableBandwidth;
        let nothing = Outcome::nothing(quantity, Caveat::TooFewSamples);
        let (packets, bytes, elapsed) =
            before.map_or((0, Bytes::ZERO, Duration::ZERO), |b| (b.packets, b.bytes, b.elapsed));
        return Ok(result(
            MethodName::SqueezedPairs,
            faithful,
            &Run { outcome: nothing, packets, bytes, elapsed, error: None },
        ));
    };
    let mut method =
        if faithful { SqueezedPairs::faithful(path, capacity) } else { SqueezedPairs::new(path, capacity) };
    let mut run = prober.run(&mut method, bounds, &asked)?;
    if let Some(before) = before {
        run.packets += before.packets;
        run.bytes = Bytes::new(run.bytes.as_u64() + before.bytes.as_u64());
        run.elapsed += before.elapsed;
    }
    Ok(EstimateResult { squeezed: Some(method.result()), ..result(MethodName::SqueezedPairs, faithful, &run) })
}

fn ron(faithful: bool, prober: &Prober) -> RonProbes {
    if faithful { RonProbes::faithful(prober.path()) } else { RonProbes::quick(prober.path()) }
}

/// Converts a run of a method to a record.
pub(crate) fn result(name: MethodName, faithful: bool, run: &Run) -> EstimateResult {
    let outcome = run.outcome.clone().concluded();
    EstimateResult {
        method: name.name().to_owned(),
        faithful,
        congestion_control: None,
        quantity: outcome.quantity,
        layer: Layer::Ip,
        estimate: outcome.interval.map(|i| rates(outcome.quantity, i)),
        other_estimates: outcome.also.iter().map(|(q, i)| rates(*q, *i)).collect(),
        loss: outcome.loss,
        queue_ns: outcome.queue.map(units::nanos),
        squeezed: None,
        packets: run.packets,
        bytes: run.bytes.as_u64(),
        elapsed_ns: units::nanos(run.elapsed),
        caveats: outcome.caveats.iter().copied().collect(),
        error: run.error.clone(),
    }
}

fn rates(quantity: Quantity, i: Interval) -> RateInterval {
    let bound = i.bound();
    // A lower bound has no upper end.
    let high = if bound == Some(RateBound::AtLeast) { i.value } else { i.high };
    RateInterval { quantity, rate_bps: i.value.as_bps(), low_bps: i.low.as_bps(), high_bps: high.as_bps(), bound }
}
