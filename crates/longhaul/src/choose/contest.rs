//! Candidates that are probed in turn until one of them is sure enough.

use std::time::Duration;

use estimate::choice::{Belief, Ranking, enough, rank};
use estimate::history::Prediction;
use estimate::prediction::Control;
use estimate::probe::{Outcome, TwoRates};
use estimate::rounds::{PACED, Rounds};
use kernel::Shutdown;
use measure::MeasureError;
use measure::probe::{Bounds, ProbeOptions, Prober, Run};
use results::choose::{Candidate, Decision};
use results::estimate::{Quantity, RateBound, TransferPrediction, Trouble};
use results::history::HistorySource;
use units::{Bytes, Instant};

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
    memory: Option<Memory>,
    /// What transfers from or to it let expect.
    earlier: Option<Prediction>,
    rounds: Rounds,
    bounds: Bounds,
    begin: Instant,
    packets: u64,
    bytes: u64,
    more: bool,
    /// By what its runs told up to now.
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

    /// A run for each in turn, so that what changes on a shared part of the paths meets all of them alike, until the
    /// best is sure enough or nobody may go on.
    pub(super) fn run(&mut self, options: &ChooseOptions) {
        loop {
            let mut any = false;
            for (i, entry) in self.entries.iter_mut().enumerate() {
                let hopeless = self.ranking.best.is_some() && self.ranking.probability[i] < HOPELESS;
                let asked = |r: &&mut Racer| r.more && !(hopeless && r.rounds.are_enough());
                let Some(racer) = entry.racer.as_mut().filter(asked) else { continue };
                match racer.run() {
                    Ok(error) => entry.error = entry.error.take().or(error),
                    Err(e) => entry.error = Some(e.to_string()),
                }
                any |= racer.more;
            }
            self.ranking = rank(&self.beliefs(), options.seed);
            if !any || self.is_sure(enough(options.confidence, self.spent())) || Shutdown::asked() > 0 {
                return;
            }
        }
    }

    fn beliefs(&self) -> Vec<Option<Belief>> {
        self.racers().map(|r| r.and_then(|r| r.predicted.as_ref()).and_then(Rounds::belief)).collect()
    }

    fn racers(&self) -> impl Iterator<Item = Option<&Racer>> {
        self.entries.iter().map(|e| e.racer.as_ref())
    }

    /// By the candidate who has spent most of what it may.
    fn spent(&self) -> f64 {
        self.racers().flatten().map(Racer::spent).fold(0.0, f64::max)
    }

    /// Whether the best is as probable as that, and all that answer have been probed often enough to know how much their
    /// answers differ. A candidate that broke off cannot be asked again.
    fn is_sure(&self, confidence: f64) -> bool {
        let unknown = |e: &Entry| e.error.is_none() && e.racer.as_ref().is_some_and(|r| !r.rounds.are_enough());
        self.ranking.best.is_some_and(|b| self.ranking.probability[b] >= confidence)
            && !self.entries.iter().any(unknown)
    }

    /// What no number of probes can tell: in words, and whether it leaves the choice undecided.
    fn doubts(&self) -> (Vec<String>, bool) {
        let reached: Vec<(&Entry, &Racer)> = self.entries.iter().filter_map(|e| Some((e, e.racer.as_ref()?))).collect();
        let best = self.ranking.best.map(|b| self.entries[b].named.name.as_str());
        let (mut all, mut undecided) = (Vec::new(), false);
        for (i, (a, one)) in reached.iter().enumerate() {
            for (b, other) in &reached[i + 1..] {
                if one.prober.addresses().is_none() || one.prober.addresses() != other.prober.addresses() {
                    continue;
                }
                let (a, b) = (&a.named.name, &b.named.name);
                all.push(format!("{a} and {b} are one host, {}, by one path: they cannot differ", one.prober.peer()));
                undecided |= [a, b].into_iter().any(|name| best == Some(name));
            }
        }
        let limited: Vec<&str> =
            reached.iter().filter(|(_, r)| r.rounds.is_limited()).map(|(e, _)| e.named.name.as_str()).collect();
        if limited.len() > 1 && best.is_some_and(|b| limited.contains(&b)) {
            all.push(format!("cannot tell {}: the sender cannot pace above {PACED}", limited.join(", ")));
            undecided = true;
        }
        let local = |r: &Racer| r.prober.addresses().map(|(_, local)| local);
        if let [(_, first), rest @ ..] = &reached[..]
            && let Some(from) = local(first)
            && !rest.is_empty()
            && rest.iter().all(|(_, r)| local(r) == Some(from))
        {
            all.push(format!("all are reached from {from}: what limits this host's side limits all of them"));
        }
        (all, undecided)
    }

    /// Ends all sessions; the candidates, the best first.
    pub(super) fn close(self, options: &ChooseOptions) -> (Vec<Candidate>, Decision) {
        let (doubts, undecided) = self.doubts();
        let decided = self.is_sure(options.confidence) && !undecided;
        let best = self.ranking.best.map(|i| self.entries[i].named.name.clone());
        let probability = self.ranking.probability;
        let mut candidates: Vec<Candidate> =
            self.entries.into_iter().zip(probability).map(|(entry, p)| entry.told(p)).collect();
        let goodput = |c: &Candidate| c.goodput_bps.unwrap_or(0);
        candidates.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(goodput(b).cmp(&goodput(a))));
        let bytes = candidates.iter().map(|c| c.bytes).sum();
        let elapsed_ns = units::nanos(kernel::now().saturating_since(self.begin));
        let expected_loss = self.ranking.expected_loss;
        (candidates, Decision { best, decided, doubts, expected_loss, bytes, elapsed_ns })
    }
}

impl Racer {
    fn new(prober: Prober, bounds: Bounds, memory: Option<Memory>) -> Self {
        let earlier = memory.as_ref().and_then(|m| m.goodput(Control::Cubic));
        let (rounds, begin) = (Rounds::default(), kernel::now());
        Self { prober, memory, earlier, rounds, bounds, begin, packets: 0, bytes: 0, more: true, predicted: None }
    }

    fn elapsed(&self) -> Duration {
        kernel::now().saturating_since(self.begin)
    }

    /// Which share of its bounds it has spent: of the bytes or of the time, whichever is more.
    fn spent(&self) -> f64 {
        let time = self.elapsed().as_secs_f64() / self.bounds.time.as_secs_f64().max(f64::MIN_POSITIVE);
        (self.bytes as f64 / self.bounds.bytes.max(1) as f64).max(time)
    }

    /// One run; what broke it off, in words.
    fn run(&mut self) -> Result<Option<String>, MeasureError> {
        let each = Rounds::bytes_of_each(self.bounds.bytes);
        let left = self.bounds.bytes.saturating_sub(self.bytes);
        let time = self.bounds.time.saturating_sub(self.elapsed());
        self.more = left >= each && !time.is_zero();
        if !self.more {
            return Ok(None);
        }
        let mut method = TwoRates::new(self.prober.path()).for_budget(each);
        if let Some(expected) = self.memory.as_ref().and_then(Memory::capacity) {
            method = method.expecting(memory::interval(&expected));
        }
        let run = self.prober.run(&mut method, Bounds { bytes: each, time }, &|| Shutdown::asked() > 0);
        self.more = run.is_ok();
        let run = run?;
        self.packets += run.packets;
        self.bytes += run.bytes.as_u64();
        // A run that could send nothing will not send more next time.
        self.more = run.error.is_none() && run.bytes > Bytes::ZERO;
        self.rounds.add(&run.outcome);
        self.predicted = self.rounds.predicted(&self.prober.path(), self.earlier);
        Ok(run.error)
    }

    /// All runs as one.
    fn told(&self) -> Run {
        let limited = [Trouble::SenderTooSlow, Trouble::LowerBound].into_iter().filter(|_| self.rounds.is_limited());
        let mut outcome = Outcome::of(Quantity::AvailableBandwidth, self.rounds.available()).troubled(limited);
        outcome.also.extend(self.rounds.capacity().map(|c| (Quantity::Capacity, c)));
        Run { outcome, packets: self.packets, bytes: Bytes::new(self.bytes), elapsed: self.elapsed(), error: None }
    }
}

impl Entry {
    fn told(self, probability: f64) -> Candidate {
        let mut candidate = Candidate {
            name: self.named.name,
            address: None,
            round_trip_ns: None,
            goodput_bps: None,
            bound: None,
            low_bps: None,
            high_bps: None,
            probability,
            bytes: 0,
            error: self.error,
        };
        let Some(mut racer) = self.racer else { return candidate };
        let run = racer.told();
        let round_trip_ns = units::nanos(racer.prober.path().round_trip);
        if let Some(memory) = &mut racer.memory {
            memory.keep(HistorySource::Choose, &told_by(MethodName::TwoRates, false, &run), round_trip_ns);
        }
        let predicted = racer.predicted.as_ref();
        candidate.address = Some(racer.prober.peer());
        candidate.round_trip_ns = Some(round_trip_ns);
        candidate.goodput_bps = predicted.map(|p| p.goodput_bps);
        candidate.bound = racer.rounds.is_limited().then_some(RateBound::AtLeast).filter(|_| predicted.is_some());
        candidate.low_bps = predicted.map(|p| p.low_bps);
        candidate.high_bps = predicted.map(|p| p.high_bps);
        candidate.bytes = run.bytes.as_u64();
        racer.prober.close();
        candidate
    }
}
