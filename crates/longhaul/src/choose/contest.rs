//! Candidates that are probed in turn until one of them is sure enough.

use estimate::choice::{Belief, Ranking, enough, rank};
use estimate::history::Prediction;
use estimate::prediction::{Control, PathState, predict};
use estimate::probe::{Interval, Outcome, Path, TwoRates};
use kernel::Shutdown;
use measure::MeasureError;
use measure::probe::{Bounds, ProbeOptions, Prober, Progress};
use results::choose::{Candidate, Decision};
use results::estimate::{Quantity, TransferPrediction};
use results::history::HistorySource;
use units::{Instant, Rate};

use super::cli::{ChooseOptions, Named};
use super::{client_options, direction};
use crate::estimate::cli::MethodName;
use crate::estimate::methods::result as told_by;
use crate::history::memory::{self, Memory};

/// A candidate whose probability is less gets no more probes.
const HOPELESS: f64 = 0.01;

/// A candidate that answers.
struct Racer {
    prober: Prober,
    method: TwoRates,
    progress: Progress,
    memory: Option<Memory>,
    /// What transfers from or to it let expect.
    earlier: Option<Prediction>,
    more: bool,
    /// By what its trains told up to now.
    predicted: Option<TransferPrediction>,
}

struct Entry {
    named: Named,
    racer: Option<Racer>,
    error: Option<String>,
}

pub(super) struct Contest {
    entries: Vec<Entry>,
    ranking: Ranking,
    begin: Instant,
}

impl Contest {
    /// Reaches all candidates at once; those that cannot be reached stay in the list with the reason.
    pub(super) fn open(options: &ChooseOptions, named: &[Named]) -> anyhow::Result<Self> {
        let begin = kernel::now();
        let asked = named
            .iter()
            .map(|n| Ok(ProbeOptions { client: client_options(options, n)?, mtu: None, seed: options.seed }))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let opened: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = asked.iter().map(|o| scope.spawn(|| Prober::open(o))).collect();
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        let bounds = Bounds { bytes: options.budget.as_u64(), time: options.time };
        let entry = |(named, outcome): (&Named, std::thread::Result<Result<Prober, MeasureError>>)| {
            let (racer, error) = match outcome {
                Ok(Ok(prober)) => {
                    let memory = Memory::of(options.memory, &named.target.host, prober.addresses(), direction(options));
                    (Some(Racer::new(prober, bounds, memory)), None)
                }
                Ok(Err(e)) => (None, Some(e.to_string())),
                Err(_) => (None, Some("the thread that reached it ended abnormally".to_owned())),
            };
            Entry { named: named.clone(), racer, error }
        };
        let entries: Vec<Entry> = named.iter().zip(opened).map(entry).collect();
        if entries.iter().all(|e| e.racer.is_none()) {
            let first = entries.into_iter().find_map(|e| e.error).unwrap_or_default();
            anyhow::bail!("no candidate can be reached: {first}");
        }
        let ranking = rank(&vec![None; entries.len()], options.seed);
        Ok(Self { entries, ranking, begin })
    }

    /// A train for each in turn, so that what changes on a shared part of the paths meets all of them alike, until the
    /// best is sure enough or nobody may go on.
    pub(super) fn run(&mut self, options: &ChooseOptions) {
        loop {
            let mut any = false;
            for (i, entry) in self.entries.iter_mut().enumerate() {
                let hopeless = self.ranking.best.is_some() && self.ranking.probability[i] < HOPELESS;
                let Some(racer) = entry.racer.as_mut().filter(|r| r.more && !hopeless) else { continue };
                if let Err(e) = racer.step() {
                    entry.error = Some(e.to_string());
                }
                any |= racer.more;
            }
            self.ranking = rank(&self.beliefs(), options.seed);
            if !any || self.is_decided(enough(options.confidence, self.spent())) || Shutdown::asked() > 0 {
                return;
            }
        }
    }

    fn beliefs(&self) -> Vec<Option<Belief>> {
        self.entries
            .iter()
            .map(|e| e.racer.as_ref().and_then(|r| r.predicted.as_ref()))
            .map(|p| p.and_then(|p| Belief::new(p.goodput_bps as f64, p.low_bps as f64, p.high_bps as f64)))
            .collect()
    }

    /// By the candidate who has spent most of what it may.
    fn spent(&self) -> f64 {
        let racers = self.entries.iter().filter_map(|e| e.racer.as_ref());
        racers.map(|r| r.prober.spent(&r.progress)).fold(0.0, f64::max)
    }

    /// A candidate of which nothing is known yet may still be the best.
    fn is_decided(&self, confidence: f64) -> bool {
        let unknown = |e: &Entry| e.racer.as_ref().is_some_and(|r| r.more && r.predicted.is_none());
        self.ranking.best.is_some_and(|b| self.ranking.probability[b] >= confidence)
            && !self.entries.iter().any(unknown)
    }

    /// Ends all sessions; the candidates, the best first.
    pub(super) fn close(self, options: &ChooseOptions) -> (Vec<Candidate>, Decision) {
        let decided = self.is_decided(options.confidence);
        let best = self.ranking.best.map(|i| self.entries[i].named.name.clone());
        let probability = self.ranking.probability;
        let mut candidates: Vec<Candidate> =
            self.entries.into_iter().zip(probability).map(|(entry, p)| entry.told(p)).collect();
        let goodput = |c: &Candidate| c.goodput_bps.unwrap_or(0);
        candidates.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(goodput(b).cmp(&goodput(a))));
        let bytes = candidates.iter().map(|c| c.bytes).sum();
        let elapsed_ns = units::nanos(kernel::now().saturating_since(self.begin));
        let expected_loss = self.ranking.expected_loss;
        (candidates, Decision { best, decided, expected_loss, bytes, elapsed_ns })
    }
}

impl Racer {
    fn new(prober: Prober, bounds: Bounds, memory: Option<Memory>) -> Self {
        let mut method = TwoRates::new(prober.path()).for_budget(bounds.bytes);
        if let Some(expected) = memory.as_ref().and_then(Memory::capacity) {
            method = method.expecting(memory::interval(&expected));
        }
        let progress = prober.begin(bounds);
        let earlier = memory.as_ref().and_then(|m| m.goodput(Control::Cubic));
        Self { prober, method, progress, memory, earlier, more: true, predicted: None }
    }

    fn step(&mut self) -> Result<(), MeasureError> {
        let outcome = self.prober.step(&mut self.method, &mut self.progress, &|| Shutdown::asked() > 0);
        self.more = matches!(outcome, Ok(true));
        let told = self.prober.ended(&self.method, &self.progress).outcome;
        self.predicted = believed(&told, &self.prober.path(), self.earlier);
        outcome.map(|_| ())
    }
}

impl Entry {
    fn told(self, probability: f64) -> Candidate {
        let mut candidate = Candidate {
            name: self.named.name,
            address: None,
            round_trip_ns: None,
            goodput_bps: None,
            low_bps: None,
            high_bps: None,
            probability,
            bytes: 0,
            error: self.error,
        };
        let Some(mut racer) = self.racer else { return candidate };
        let run = racer.prober.ended(&racer.method, &racer.progress);
        let round_trip_ns = units::nanos(racer.prober.path().round_trip);
        if let Some(memory) = &mut racer.memory {
            memory.keep(HistorySource::Choose, &told_by(MethodName::TwoRates, false, &run), round_trip_ns);
        }
        let predicted = racer.predicted.as_ref();
        candidate.address = Some(racer.prober.peer());
        candidate.round_trip_ns = Some(round_trip_ns);
        candidate.goodput_bps = predicted.map(|p| p.goodput_bps);
        candidate.low_bps = predicted.map(|p| p.low_bps);
        candidate.high_bps = predicted.map(|p| p.high_bps);
        candidate.bytes = run.bytes.as_u64();
        candidate.error = candidate.error.or(run.error);
        racer.prober.close();
        candidate
    }
}

/// What a CUBIC transfer gets. A capacity alone bounds it from above: of what is left nothing is known but that.
fn believed(outcome: &Outcome, path: &Path, earlier: Option<Prediction>) -> Option<TransferPrediction> {
    let capacity = outcome.also.iter().find(|(q, _)| *q == Quantity::Capacity).map(|(_, i)| *i);
    let part = |c: Interval, share: u64| Rate::from_bps(c.value.as_bps() / share);
    let open = |c: Interval| Interval { value: part(c, 2), low: part(c, 8), high: c.high };
    let available = outcome.interval.or_else(|| capacity.map(open))?;
    let state = PathState { earlier, queue: outcome.queue, ..PathState::new(path, capacity, available) };
    Some(predict(&state, Control::Cubic, None))
}
