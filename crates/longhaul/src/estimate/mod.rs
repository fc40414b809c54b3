//! `longhaul estimate`.

pub(crate) mod cli;
mod methods;
mod output;
mod transfer;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use estimate::Facts;
use estimate::probe::{Bounds, Known, MethodName, TIME_DEFAULT, session_budget};
use kernel::Shutdown;
use measure::probe::{ProbeOptions, Prober};
use measure::{ClientOptions, MeasureError};
use results::estimate::{ESTIMATE_SCHEMA, EstimateRecord, EstimateResult, EstimateStart};
use results::history::HistorySource;
use results::{Direction, TestPlan, Transport};
use units::{Bytes, Rate};

use crate::history::memory::{self, Memory};
use cli::EstimateOptions;
use output::Output;

/// Exit status when no method found a value; a bound is not a value.
const NO_VALUE_STATUS: u8 = 1;

/// Maximum duration of a method of the thesis of 2002: some of them take many minutes.
const TIME_2002: Duration = Duration::from_secs(1800);

pub(crate) fn run(options: &EstimateOptions) -> anyhow::Result<ExitCode> {
    Shutdown::install().context("cannot handle signals")?;
    let methods = if options.all { MethodName::ALL.to_vec() } else { options.method.clone() };
    let probes = probe_options(options, &methods)?;
    let mut output = Output::open(options)?;
    let mut prober = Prober::open(&probes)?;
    let mut memory = Memory::of(options.memory, &options.host.host, prober.addresses(), direction(options));
    output.record(&EstimateRecord::Start(start(options, &prober)))?;
    for expected in memory.iter().flat_map(Memory::expectations) {
        output.record(&EstimateRecord::Expected(expected))?;
    }
    let round_trip_ns = units::nanos(prober.path().round_trip);
    let expected = memory.as_ref().and_then(Memory::capacity);
    let mut facts = Facts::default();
    let known = Known { capacity: None, expected: expected.as_ref().map(memory::interval) };
    let outcome = probe(options, &methods, &mut prober, known, &mut |result| {
        facts.add(&result);
        // A TCP transfer is recorded in the history as a test.
        let is_test = result.method == MethodName::Tcp.name() && !result.faithful;
        if let Some(memory) = memory.as_mut().filter(|_| !is_test) {
            memory.keep(HistorySource::Estimate, &result, round_trip_ns);
        }
        output.record(&EstimateRecord::Estimate(result))?;
        Ok(facts.capacity())
    });
    let earlier = |control| memory.as_ref().and_then(|m| m.goodput(control));
    for prediction in facts.predict(&prober.path(), options.window, options.transfer, earlier) {
        output.record(&EstimateRecord::Prediction(prediction))?;
    }
    prober.close();
    output.finish()?;
    match outcome {
        // Results found before an interruption are printed.
        Ok(()) | Err(Stopped::ByUser) => {}
        Err(Stopped::Failed(e)) => return Err(e),
    }
    Ok(if facts.is_empty() { ExitCode::from(NO_VALUE_STATUS) } else { ExitCode::SUCCESS })
}

enum Stopped {
    ByUser,
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Stopped {
    fn from(e: E) -> Self {
        let e = e.into();
        match e.downcast_ref::<MeasureError>() {
            Some(MeasureError::Interrupted) => Self::ByUser,
            _ => Self::Failed(e),
        }
    }
}

/// Runs the methods in sequence, within the remaining budget.
fn probe(
    options: &EstimateOptions,
    methods: &[MethodName],
    prober: &mut Prober,
    mut known: Known,
    observe: &mut dyn FnMut(EstimateResult) -> anyhow::Result<Option<Rate>>,
) -> Result<(), Stopped> {
    let mut left = options.budget.map(Bytes::as_u64);
    for name in methods {
        let bounds = Bounds { bytes: left.unwrap_or_else(|| name.budget_default()), time: time_max(options) };
        let result = methods::run(*name, options, prober, known, bounds)?;
        left = left.map(|l| l.saturating_sub(result.bytes));
        known.capacity = observe(result)?;
        if Shutdown::requests() > 0 {
            return Err(Stopped::ByUser);
        }
    }
    Ok(())
}

fn time_max(options: &EstimateOptions) -> Duration {
    let default = if options.faithful_2002 { TIME_2002 } else { TIME_DEFAULT };
    options.time.unwrap_or(default)
}

fn start(options: &EstimateOptions, prober: &Prober) -> EstimateStart {
    let path = prober.path();
    EstimateStart {
        schema: ESTIMATE_SCHEMA.to_owned(),
        version: measure::VERSION.to_owned(),
        time_utc: measure::utc_now(),
        host: options.host.host.clone(),
        address: prober.peer(),
        direction: direction(options),
        round_trip_ns: units::nanos(path.round_trip),
        mtu_bytes: path.mtu,
        budget_bytes: options.budget.map(Bytes::as_u64),
        notes: prober.notes().to_vec(),
    }
}

fn direction(options: &EstimateOptions) -> Direction {
    if options.reverse { Direction::Down } else { Direction::Up }
}

fn probe_options(options: &EstimateOptions, methods: &[MethodName]) -> anyhow::Result<ProbeOptions> {
    let budget = options.budget.map_or_else(|| session_budget(methods), Bytes::as_u64);
    let plan = TestPlan {
        transport: Transport::Probe,
        bytes: Some(budget.max(1)),
        duration_ns: None,
        ..plan(direction(options))
    };
    Ok(ProbeOptions { client: client_options(options, plan)?, mtu: options.mtu, seed: options.seed })
}

/// Plan of one TCP stream with all other options at their defaults.
pub(crate) fn plan(direction: Direction) -> TestPlan {
    TestPlan {
        transport: Transport::Tcp,
        directions: vec![direction],
        streams: 1,
        duration_ns: None,
        bytes: None,
        interval_ns: 1_000_000_000,
        block_bytes: 64 << 10,
        window_bytes: None,
        congestion_control: None,
        rate_bps: None,
        dscp: None,
        mss_bytes: None,
        notsent_lowat_bytes: None,
        zero_copy: false,
        seed: 0,
    }
}

fn client_options(options: &EstimateOptions, plan: TestPlan) -> anyhow::Result<ClientOptions> {
    Ok(ClientOptions { bind: options.bind, ..options.peer.client(&options.host, plan)? })
}
