//! Sequential probing of the candidates until the best is known with the requested confidence.

use std::time::Duration;

use estimate::choice::{Belief, Ranking, rank, stopping_probability};
use estimate::history::Prediction;
use estimate::prediction::Control;
use estimate::probe::{Bounds, MethodName, Outcome, Run, TwoRates, result};
use estimate::rounds::{HOST_PACING_RATE_MAX, Rounds};
use kernel::Shutdown;
use measure::MeasureError;
use measure::probe::{ProbeOptions, Prober};
use results::choose::{Candidate, Decision};
use results::estimate::{Caveat, Quantity, RateBound, TransferPrediction};
use results::history::HistorySource;
use units::{Bytes, Instant};

use super::cli::{ChooseOptions, Named};
use super::{client_options, direction};
use crate::history::memory::{self, Memory};

/// Probability of being the best below which a candidate gets no more probes.
const PROBABILITY_MIN: f64 = 0.01;

/// Candidate with an open probing session.
struct ActiveCandidate {
    prober: Prober,
    memory: Option<Memory>,
    /// Goodput predicted from earlier transfers on the path.
    earlier: Option<Prediction>,
    rounds: Rounds,
    bounds: Bounds,
    start: Instant,
    packets: u64,
    bytes: u64,
    more: bool,
    /// Goodput predicted from the runs so far.
    predicted: Option<TransferPrediction>,
}

struct Entry {
    named: Named,
    active: Option<ActiveCandidate>,
    error: Option<String>,
}

pub(super) struct Contest {
    entries: Vec<Entry>,
    ranking: Ranking,
    start: Instant,
}

impl Contest {
    /// Connects to all candidates concurrently; an unreachable candidate stays in the list with its error.
    pub(super) fn open(options: &ChooseOptions, named: &[Named]) -> anyhow::Result<Self> {
        let start = kernel::now();
        let all_options = named
            .iter()
            .map(|n| Ok(ProbeOptions { client: client_options(options, n)?, mtu: None, seed: options.seed }))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let opened: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = all_options.iter().map(|o| scope.spawn(|| Prober::open(o))).collect();
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        let bounds = Bounds { bytes: options.budget.as_u64(), time: options.time };
        let entry = |(named, outcome): (&Named, std::thread::Result<Result<Prober, MeasureError>>)| {
            let (active, error) = match outcome {
                Ok(Ok(prober)) => {
                    let memory = Memory::of(options.memory, &named.target.host, prober.addresses(), direction(options));
                    (Some(ActiveCandidate::new(prober, bounds, memory)), None)
                }
                Ok(Err(e)) => (None, Some(e.to_string())),
                Err(_) => (None, Some("the connecting thread panicked".to_owned())),
            };
            Entry { named: named.clone(), active, error }
        };
        let entries: Vec<Entry> = named.iter().zip(opened).map(entry).collect();
        if entries.iter().all(|e| e.active.is_none()) {
            let reasons = entries.into_iter().map(|e| format!("{}: {}", e.named.name, e.error.unwrap_or_default()));
            anyhow::bail!("no candidate is reachable\n  {}", reasons.collect::<Vec<_>>().join("\n  "));
        }
        let ranking = rank(&vec![None; entries.len()], options.seed);
        Ok(Self { entries, ranking, start })
    }

    /// Probes the candidates in turn, so that changes on shared links affect all of them alike. Returns when the best
    /// is known with enough confidence, or when no candidate may send more probes.
    pub(super) fn run(&mut self, options: &ChooseOptions) {
        loop {
            let mut any_left = false;
            for (i, entry) in self.entries.iter_mut().enumerate() {
                let eliminated = self.ranking.best.is_some() && self.ranking.probability[i] < PROBABILITY_MIN;
                let may_probe = |r: &&mut ActiveCandidate| r.more && !(eliminated && r.rounds.are_enough());
                let Some(active) = entry.active.as_mut().filter(may_probe) else { continue };
                match active.run() {
                    Ok(error) => entry.error = entry.error.take().or(error),
                    Err(e) => entry.error = Some(e.to_string()),
                }
                any_left |= active.more;
            }
            self.ranking = rank(&self.beliefs(), options.seed);
            if !any_left
                || self.is_sure(stopping_probability(options.confidence, self.spent()))
                || Shutdown::requests() > 0
            {
                return;
            }
        }
    }

    fn beliefs(&self) -> Vec<Option<Belief>> {
        self.active_candidates().map(|r| r.and_then(|r| r.predicted.as_ref()).and_then(Rounds::belief)).collect()
    }

    fn active_candidates(&self) -> impl Iterator<Item = Option<&ActiveCandidate>> {
        self.entries.iter().map(|e| e.active.as_ref())
    }

    /// Largest share of its bounds that a candidate has spent.
    fn spent(&self) -> f64 {
        self.active_candidates().flatten().map(ActiveCandidate::spent).fold(0.0, f64::max)
    }

    /// Whether the best candidate reaches this probability, and all candidates without an error have enough rounds to
    /// estimate the variance of their results.
    fn is_sure(&self, confidence: f64) -> bool {
        let unknown = |e: &Entry| e.error.is_none() && e.active.as_ref().is_some_and(|r| !r.rounds.are_enough());
        self.ranking.best.is_some_and(|b| self.ranking.probability[b] >= confidence)
            && !self.entries.iter().any(unknown)
    }

    /// Caveats that more probes cannot resolve, and whether they leave the choice undecided.
    fn caveats(&self) -> (Vec<String>, bool) {
        let reached: Vec<(&Entry, &ActiveCandidate)> =
            self.entries.iter().filter_map(|e| Some((e, e.active.as_ref()?))).collect();
        let best = self.ranking.best.map(|b| self.entries[b].named.name.as_str());
        let (mut all, mut undecided) = (Vec::new(), false);
        for (i, (a, one)) in reached.iter().enumerate() {
            for (b, other) in &reached[i + 1..] {
                if one.prober.addresses().is_none() || one.prober.addresses() != other.prober.addresses() {
                    continue;
                }
                let (a, b) = (&a.named.name, &b.named.name);
                all.push(format!("{a} and {b} are the same host ({}) over the same path", one.prober.peer()));
                undecided |= [a, b].into_iter().any(|name| best == Some(name));
            }
        }
        let limited: Vec<&str> =
            reached.iter().filter(|(_, r)| r.rounds.is_limited()).map(|(e, _)| e.named.name.as_str()).collect();
        if limited.len() > 1 && best.is_some_and(|b| limited.contains(&b)) {
            all.push(format!(
                "cannot rank {}: the sender cannot pace above {HOST_PACING_RATE_MAX}",
                limited.join(", ")
            ));
            undecided = true;
        }
        let local = |r: &ActiveCandidate| r.prober.addresses().map(|(_, local)| local);
        if let [(_, first), rest @ ..] = &reached[..]
            && let Some(from) = local(first)
            && !rest.is_empty()
            && rest.iter().all(|(_, r)| local(r) == Some(from))
        {
            all.push(format!("all are reached from {from}: a bottleneck on this host's side limits all of them"));
        }
        (all, undecided)
    }

    /// Closes all sessions and returns the candidates, best first, and the decision.
    pub(super) fn close(self, options: &ChooseOptions) -> (Vec<Candidate>, Decision) {
        let (caveats, undecided) = self.caveats();
        let decided = self.is_sure(options.confidence) && !undecided;
        let best = self.ranking.best.map(|i| self.entries[i].named.name.clone());
        let probability = self.ranking.probability;
        let mut candidates: Vec<Candidate> =
            self.entries.into_iter().zip(probability).map(|(entry, p)| entry.into_candidate(p)).collect();
        let goodput = |c: &Candidate| c.goodput_bps.unwrap_or(0);
        candidates.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(goodput(b).cmp(&goodput(a))));
        let bytes = candidates.iter().map(|c| c.bytes).sum();
        let elapsed_ns = units::nanos(kernel::now().saturating_since(self.start));
        let expected_loss = self.ranking.expected_loss;
        (candidates, Decision { best, decided, caveats, expected_loss, bytes, elapsed_ns })
    }
}

impl ActiveCandidate {
    fn new(prober: Prober, bounds: Bounds, memory: Option<Memory>) -> Self {
        let earlier = memory.as_ref().and_then(|m| m.goodput(Control::Cubic));
        let (rounds, start) = (Rounds::default(), kernel::now());
        Self { prober, memory, earlier, rounds, bounds, start, packets: 0, bytes: 0, more: true, predicted: None }
    }

    fn elapsed(&self) -> Duration {
        kernel::now().saturating_since(self.start)
    }

    /// Share of the bounds that is spent, in bytes or in time, whichever is larger.
    fn spent(&self) -> f64 {
        let time = self.elapsed().as_secs_f64() / self.bounds.time.as_secs_f64().max(f64::MIN_POSITIVE);
        (self.bytes as f64 / self.bounds.bytes.max(1) as f64).max(time)
    }

    /// Runs one round of probes; returns the text of an error that ended it early.
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
        let run = self.prober.run(&mut method, Bounds { bytes: each, time }, &|| Shutdown::requests() > 0);
        self.more = run.is_ok();
        let run = run?;
        self.packets += run.packets;
        self.bytes += run.bytes.as_u64();
        // A run that sent nothing would not send more the next time.
        self.more = run.error.is_none() && run.bytes > Bytes::ZERO;
        self.rounds.add(&run.outcome);
        self.predicted = self.rounds.predicted(&self.prober.path(), self.earlier);
        Ok(run.error)
    }

    /// Combines all rounds into one run.
    fn total(&self) -> Run {
        let limited = [Caveat::SenderTooSlow, Caveat::LowerBound].into_iter().filter(|_| self.rounds.is_limited());
        let mut outcome = Outcome::of(Quantity::AvailableBandwidth, self.rounds.available()).with_caveats(limited);
        outcome.also.extend(self.rounds.capacity().map(|c| (Quantity::Capacity, c)));
        Run { outcome, packets: self.packets, bytes: Bytes::new(self.bytes), elapsed: self.elapsed(), error: None }
    }
}

impl Entry {
    fn into_candidate(self, probability: f64) -> Candidate {
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
        let Some(mut active) = self.active else { return candidate };
        let run = active.total();
        let round_trip_ns = units::nanos(active.prober.path().round_trip);
        if let Some(memory) = &mut active.memory {
            memory.keep(HistorySource::Choose, &result(MethodName::TwoRates, false, &run), round_trip_ns);
        }
        let predicted = active.predicted.as_ref();
        candidate.address = Some(active.prober.peer());
        candidate.round_trip_ns = Some(round_trip_ns);
        candidate.goodput_bps = predicted.map(|p| p.goodput_bps);
        candidate.bound = active.rounds.is_limited().then_some(RateBound::AtLeast).filter(|_| predicted.is_some());
        candidate.low_bps = predicted.map(|p| p.low_bps);
        candidate.high_bps = predicted.map(|p| p.high_bps);
        candidate.bytes = run.bytes.as_u64();
        active.prober.close();
        candidate
    }
}
