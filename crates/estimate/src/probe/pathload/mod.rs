//! Pathload: streams at a steady rate fill a queue exactly when they are faster than what is left of the path (Jain,
//! Dovrolis, *Pathload: a measurement tool for end-to-end available bandwidth*, PAM 2002; *End-to-end available
//! bandwidth*, SIGCOMM 2002).

mod fleet;
mod parameters;
mod search;
mod start;
mod stream;

use std::collections::BTreeSet;

use results::estimate::{Caveat, Quantity};
use units::{Duration, Rate};

use self::fleet::Fleet;
use self::parameters::{LONG_STREAM_PACKETS, Parameters, STREAM_PACKETS, Shape};
use self::search::{Next, Range, SAME, Search};
use self::start::Start;
use self::stream::{Reading, Stream};
use super::{Interval, Method, Outcome, Path, Step, Train, TrainObservation};
use crate::samples::rate;

/// Pauses between streams, in lengths of the stream before (1.3.2): on average the streams take a tenth of their rate.
const PAUSES: u32 = 9;

/// Streams with this few batches, three times, are made longer (1.3.2).
const FEW_BATCHES: usize = 5;

/// Batches with fewer of which in three long streams there is no trend to be seen (1.3.2).
const BATCHES_MIN: usize = 2;

/// How many such streams (1.3.2).
const SUCH_STREAMS: u32 = 3;

/// Fleets in a row of which nothing came, after which the far end is gone: the first may be an overload.
const SILENT_FLEETS: u32 = 2;

/// Available bandwidth by self-loading periodic streams.
///
/// Streams of 100 packets, up to twelve for each rate, tell whether the rate is above what is left; a bisection from
/// the rate at which a burst comes out of the path finds it. What is reported is a range: over the some ten
/// milliseconds of a stream, what is left varies, and between its ends streams say now this and now that.
///
/// A trend shows only when it is larger than the variation of the load over a stream, so the answer tends to be too
/// high. Poisson load of packets of 1500 bytes: by up to 4 % of the capacity at 500 Mb/s, 8 % at 100 Mb/s, and 25 % at
/// 10 Mb/s, where a stream meets five to fifty packets of others.
#[derive(Debug)]
pub struct Pathload {
    path: Path,
    p: Parameters,
    stage: Stage,
    start: Start,
    search: Search,
    /// The rate of the fleet in b/s, as asked for.
    asked: f64,
    shape: Shape,
    packets: u32,
    fleet: Fleet,
    fleets: u32,
    is_repeated: bool,
    /// Streams of few batches.
    few: u32,
    silent: u32,
    bytes: u64,
    pause: Duration,
    /// The longest queue that was filled.
    queue: Option<Duration>,
    caveats: BTreeSet<Caveat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Start,
    Search,
    Done,
}

impl Pathload {
    /// Release 1.3.2 of 2006, bounded: at most 25 rates and 20 MB. Five streams that agree decide.
    pub fn new(path: Path) -> Self {
        Self::with(path, Parameters::modern())
    }

    /// As the thesis had it (§4.1.4): release 1.0.2, patched to end when the lower end is within 20 % of the upper. All
    /// twelve streams of each rate are sent.
    pub fn faithful(path: Path) -> Self {
        Self::with(path, Parameters::faithful())
    }

    fn with(path: Path, p: Parameters) -> Self {
        let search = Search::new(Shape::limits(&p, &path), None, p.resolution);
        let asked = search.first();
        let shape = Shape::of(asked, &p, &path);
        Self {
            path,
            p,
            stage: Stage::Start,
            start: Start::default(),
            search,
            asked,
            shape,
            packets: STREAM_PACKETS,
            fleet: Fleet::of(shape.streams()),
            fleets: 0,
            is_repeated: false,
            few: 0,
            silent: 0,
            bytes: 0,
            pause: path.round_trip,
            queue: None,
            caveats: BTreeSet::new(),
        }
    }

    /// To send at most so many bytes, headers included. The method's own bound holds beside it: what a caller allows to
    /// all methods together is not what this one needs.
    #[must_use]
    pub fn at_most(mut self, bytes: u64) -> Self {
        self.p.most_bytes = self.p.most_bytes.min(bytes);
        self
    }

    fn end(&mut self, caveats: impl IntoIterator<Item = Caveat>) {
        self.caveats.extend(caveats);
        self.stage = Stage::Done;
    }

    fn begin(&mut self) {
        if !self.start.came {
            return self.end([Caveat::NoAnswer]);
        }
        self.stage = Stage::Search;
        self.search = Search::new(Shape::limits(&self.p, &self.path), self.start.bps(), self.p.resolution);
        self.search.is_batched = self.start.is_batched;
        self.caveats.extend(self.start.is_batched.then_some(Caveat::Batching));
        self.try_rate(self.search.first());
    }

    fn try_rate(&mut self, bps: f64) {
        self.asked = bps;
        self.shape = Shape::of(bps, &self.p, &self.path);
        self.fleet = Fleet::of(self.shape.streams());
    }

    fn train(&mut self) -> Option<Train> {
        if self.stage == Stage::Start {
            let train = self.start.next(self.path.mtu.max(1));
            if train.is_some() {
                return train;
            }
            self.begin();
        }
        (self.stage == Stage::Search).then(|| self.shape.train(self.packets))
    }

    fn observe_stream(&mut self, passage: &TrainObservation) {
        let together = self.p.together(self.shape.gap);
        let reading = Reading { gap: self.shape.gap, together, kept_gaps: self.p.kept_gaps };
        let stream = Stream::read(passage, &reading);
        if stream.is_batched {
            self.caveats.insert(Caveat::Batching);
            self.search.is_batched = true;
            if self.has_few_batches(stream.batches) {
                return;
            }
        }
        self.fleet.take(stream);
        if self.fleet.is_over(&self.p) {
            self.fleets += 1;
            self.finish_fleet();
        }
    }

    /// Makes streams longer, or gives up, when batches are too few. Whether the fleet is over with that.
    fn has_few_batches(&mut self, batches: usize) -> bool {
        let is_long = self.packets == LONG_STREAM_PACKETS;
        let few = if is_long { batches < BATCHES_MIN } else { batches <= FEW_BATCHES };
        self.few += u32::from(few);
        if self.few < SUCH_STREAMS {
            return false;
        }
        self.few = 0;
        if is_long {
            self.end([Caveat::TooFewSamples]);
        } else {
            self.packets = LONG_STREAM_PACKETS;
            self.fleet = Fleet::of(self.shape.streams());
        }
        true
    }

    /// Takes the distance that the sender kept for the smallest that it can, if larger packets then help.
    fn enlarge(&mut self) -> bool {
        let Some(sent) = self.fleet.fastest() else { return false };
        let kept = f64::from(self.shape.bytes) * 8.0 / sent;
        if sent * SAME >= self.asked || self.shape.bytes >= self.path.mtu || !kept.is_finite() {
            return false;
        }
        let path = Path { least_gap: Duration::try_from_secs_f64(kept).unwrap_or(Duration::MAX), ..self.path };
        let helps = Shape::of(self.asked, &self.p, &path).bytes > self.shape.bytes;
        if helps {
            self.path = path;
        }
        helps
    }

    /// A range and what the load varies by while a stream lasts: the count of packets of full size that a stream meets of a
    /// Poisson load, to its standard error. Trends show above that only.
    fn varying(&self, range: Interval) -> Interval {
        let stream_s = (self.shape.gap * self.packets).as_secs_f64();
        let load = self.start.bps().map_or(0.0, |bps| (bps - range.value.as_bps() as f64).max(0.0));
        let varies = (load * f64::from(self.path.mtu) * 8.0 / stream_s).sqrt();
        if !self.p.enlarges || !varies.is_finite() {
            return range;
        }
        let (low, high) = (range.low.as_bps() as f64 - varies, range.high.as_bps() as f64 + varies);
        Interval { low: rate(low), high: rate(high), ..range }
    }

    fn finish_fleet(&mut self) {
        self.silent = if self.fleet.is_silent() { self.silent + 1 } else { 0 };
        if self.silent >= SILENT_FLEETS {
            return self.end([Caveat::NoAnswer]);
        }
        let sent = self.fleet.rate().unwrap_or(self.asked);
        if self.p.enlarges && self.fleets < self.p.most_fleets && self.enlarge() {
            return self.try_rate(self.asked);
        }
        let next = match self.fleet.verdict(&self.p) {
            None if self.is_repeated => {
                let paused = self.fleet.is_broken().then_some(Caveat::SenderTooSlow);
                return self.end([Caveat::Unsteady].into_iter().chain(paused));
            }
            None => Next::Try(self.asked),
            Some(verdict) => self.search.take(self.asked, sent, verdict),
        };
        self.is_repeated = self.fleet.verdict(&self.p).is_none();
        match next {
            Next::Found => self.end([]),
            Next::Stuck => self.end([Caveat::SenderTooSlow]),
            Next::Edge => {
                let above = matches!(self.search.range(), Range::AtLeast(_));
                self.end(above.then_some(Caveat::SenderTooSlow));
            }
            Next::Try(_) if self.fleets >= self.p.most_fleets => self.end([Caveat::Unsteady]),
            Next::Try(bps) => self.try_rate(bps),
        }
    }
}

impl Method for Pathload {
    fn next(&mut self) -> Step {
        let Some(train) = self.train() else { return Step::Done(self.so_far()) };
        let bytes = self.bytes.saturating_add(train.bytes().as_u64());
        if bytes > self.p.most_bytes {
            self.end([Caveat::BudgetSpent]);
            return Step::Done(self.so_far());
        }
        self.bytes = bytes;
        let pause = self.pause;
        self.pause = (train.span() * PAUSES).max(self.path.round_trip);
        Step::Send { train, pause }
    }

    fn observe(&mut self, passage: &TrainObservation) {
        self.caveats.extend((passage.lost() > 0).then_some(Caveat::Loss));
        self.queue = self.queue.max(passage.full_queue());
        self.caveats.extend((passage.reordered() > 0).then_some(Caveat::Reordering));
        match self.stage {
            Stage::Start => {
                self.start.observe(passage, self.p.together(Duration::ZERO));
                self.pause = self.pause.max(self.start.drain);
            }
            Stage::Search => self.observe_stream(passage),
            Stage::Done => {}
        }
    }

    fn so_far(&self) -> Outcome {
        let (interval, bound) = match self.search.range() {
            Range::Unknown => (None, None),
            Range::Both(interval) => (Some(self.varying(interval)), None),
            Range::AtLeast(interval) => (Some(interval), Some(Caveat::LowerBound)),
            Range::AtMost(most) => {
                (Some(Interval { value: most, low: Rate::ZERO, high: most }), Some(Caveat::UpperBound))
            }
        };
        let mut outcome = Outcome::of(Quantity::AvailableBandwidth, interval).troubled(bound);
        outcome.queue = self.queue;
        outcome.also.extend(self.start.interval().map(|i| (Quantity::AsymptoticDispersion, i)));
        outcome.troubled(self.caveats.iter().copied())
    }
}
