use results::estimate::{Caveat, EstimateResult, Layer, Quantity, RateBound, RateInterval};
use units::Rate;

use super::{
    Adr, Igi, Interval, Method, MethodName, Outcome, Path, PathChirp, Pathload, Pathrate, RonProbes, Run, Spruce,
    SqueezedPairs, Step, TrainObservation, TwoRates,
};

/// Knowledge of the path before a method runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    /// Capacity that an earlier method of the same call has measured.
    pub capacity: Option<Rate>,
    /// Capacity expected from the history of the path.
    pub expected: Option<Interval>,
}

/// A method selected by its name, which converts its result to a record.
pub struct NamedMethod {
    name: MethodName,
    faithful: bool,
    method: Selected,
}

enum Selected {
    Any(Box<dyn Method>),
    Squeezed(Box<AfterCapacity>),
}

impl NamedMethod {
    /// Creates the method for a path and a budget in bytes. `faithful`: the parameters of the thesis of 2002. `None`
    /// for a TCP transfer, which sends no packet trains.
    pub fn new(name: MethodName, faithful: bool, path: Path, known: Known, bytes: u64) -> Option<Self> {
        let capacity = known.capacity;
        let method: Box<dyn Method> = match name {
            MethodName::Auto | MethodName::TwoRates => Box::new(two_rates(path, known, bytes)),
            MethodName::Adr => Box::new(Adr::full(path)),
            MethodName::ShortAdr => Box::new(Adr::short(path)),
            MethodName::Spruce => Box::new(Spruce::new(path, capacity)),
            MethodName::Igi if faithful => Box::new(Igi::faithful(path)),
            MethodName::Igi => Box::new(Igi::new(path)),
            MethodName::Pathchirp if faithful => Box::new(PathChirp::faithful(path)),
            MethodName::Pathchirp => Box::new(PathChirp::new(path)),
            MethodName::Pathload if faithful => Box::new(Pathload::faithful(path).at_most(bytes)),
            MethodName::Pathload => Box::new(Pathload::new(path).at_most(bytes)),
            MethodName::Pathrate if faithful => Box::new(Pathrate::faithful(path)),
            MethodName::Pathrate => Box::new(Pathrate::new(path)),
            MethodName::SqueezedPairs => {
                // In the thesis of 2002 the capacity for squeezed pairs always came from ADR.
                let method = AfterCapacity::new(path, faithful, capacity.filter(|_| !faithful));
                return Some(Self { name, faithful, method: Selected::Squeezed(Box::new(method)) });
            }
            MethodName::Loss => Box::new(ron(faithful, path)),
            MethodName::LossOnly => Box::new(ron(faithful, path).loss_only()),
            MethodName::ShortTcp | MethodName::Tcp => return None,
        };
        Some(Self { name, faithful, method: Selected::Any(method) })
    }

    /// Converts a run of the method to a record.
    pub fn result(&self, run: &Run) -> EstimateResult {
        let squeezed = match &self.method {
            Selected::Squeezed(method) => method.pairs.as_ref().map(SqueezedPairs::result),
            Selected::Any(_) => None,
        };
        EstimateResult { squeezed, ..result(self.name, self.faithful, run) }
    }
}

impl Method for NamedMethod {
    fn next(&mut self) -> Step {
        match &mut self.method {
            Selected::Any(method) => method.next(),
            Selected::Squeezed(method) => method.next(),
        }
    }

    fn observe(&mut self, observation: &TrainObservation) {
        match &mut self.method {
            Selected::Any(method) => method.observe(observation),
            Selected::Squeezed(method) => method.observe(observation),
        }
    }

    fn so_far(&self) -> Outcome {
        match &self.method {
            Selected::Any(method) => method.so_far(),
            Selected::Squeezed(method) => method.so_far(),
        }
    }
}

impl std::fmt::Debug for NamedMethod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamedMethod")
            .field("name", &self.name)
            .field("faithful", &self.faithful)
            .finish_non_exhaustive()
    }
}

fn two_rates(path: Path, known: Known, bytes: u64) -> TwoRates {
    let method = TwoRates::new(path).for_budget(bytes);
    match known.expected {
        Some(capacity) => method.expecting(capacity),
        None => method,
    }
}

fn ron(faithful: bool, path: Path) -> RonProbes {
    if faithful { RonProbes::faithful(path) } else { RonProbes::quick(path) }
}

/// Squeezed pairs, which need the capacity; if it is unknown, ADR measures it first, as in the thesis of 2002.
struct AfterCapacity {
    path: Path,
    faithful: bool,
    adr: Adr,
    pairs: Option<SqueezedPairs>,
}

impl AfterCapacity {
    fn new(path: Path, faithful: bool, capacity: Option<Rate>) -> Self {
        let mut method = Self { path, faithful, adr: Adr::full(path), pairs: None };
        method.pairs = capacity.map(|capacity| method.pairs(capacity));
        method
    }

    fn pairs(&self, capacity: Rate) -> SqueezedPairs {
        let new = if self.faithful { SqueezedPairs::faithful } else { SqueezedPairs::new };
        new(self.path, capacity)
    }
}

impl Method for AfterCapacity {
    fn next(&mut self) -> Step {
        if let Some(pairs) = &mut self.pairs {
            return pairs.next();
        }
        match self.adr.next() {
            Step::Done(Outcome { interval: Some(capacity), .. }) => {
                let mut pairs = self.pairs(capacity.value);
                let step = pairs.next();
                self.pairs = Some(pairs);
                step
            }
            Step::Done(_) => Step::Done(self.so_far()),
            step @ Step::Send { .. } => step,
        }
    }

    fn observe(&mut self, observation: &TrainObservation) {
        match &mut self.pairs {
            Some(pairs) => pairs.observe(observation),
            None => self.adr.observe(observation),
        }
    }

    fn so_far(&self) -> Outcome {
        let nothing = || Outcome::nothing(Quantity::AvailableBandwidth, Caveat::TooFewSamples);
        self.pairs.as_ref().map_or_else(nothing, Method::so_far)
    }
}

/// Converts a run of a method with packet trains to a record.
pub fn result(name: MethodName, faithful: bool, run: &Run) -> EstimateResult {
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
