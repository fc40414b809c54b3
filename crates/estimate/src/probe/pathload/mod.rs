//! Pathload: streams at a constant rate fill a queue exactly if they are faster than the available bandwidth (Jain,
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
use self::search::{Next, Range, SAME_RATE_RATIO_MAX, Search};
use self::start::Start;
use self::stream::{Reading, Stream};
use super::{Interval, Method, Outcome, Path, Step, Train, TrainObservation};
use crate::samples::rate;

/// Pauses between streams, in durations of the previous stream (1.3.2): the mean rate is a tenth of the stream's.
const PAUSES: u32 = 9;

/// Maximum number of batches, in three streams, at which streams are made longer (1.3.2).
const FEW_BATCHES_MAX: usize = 5;

/// Minimum number of batches in three long streams for a visible trend (1.3.2).
const BATCHES_MIN: usize = 2;

/// Number of streams with few batches that causes either change (1.3.2).
const FEW_BATCH_STREAMS: u32 = 3;

/// Consecutive fleets without any arrival after which the far end counts as gone: an overload can cause the first.
const SILENT_FLEETS_MAX: u32 = 2;

/// Available bandwidth by self-loading periodic streams.
///
/// Streams of 100 packets, up to twelve per rate, show whether the rate exceeds the available bandwidth. A bisection,
/// which starts at the rate at which a burst leaves the path, finds the available bandwidth. The result is a range:
/// during the roughly ten milliseconds of a stream the available bandwidth varies, and between the ends of the range
/// streams contradict each other.
///
/// A trend is visible only if it exceeds the variation of the load during a stream, so that the result tends to be too
/// high. With Poisson load of 1500-byte packets the error is up to 4 % of the capacity at 500 Mb/s, 8 % at 100 Mb/s and
/// 25 % at 10 Mb/s. At 10 Mb/s a stream meets five to fifty packets of cross traffic.
#[derive(Debug)]
pub struct Pathload {
    path: Path,
    p: Parameters,
    stage: Stage,
    start: Start,
    search: Search,
    /// The requested rate of the fleet in b/s.
    requested: f64,
    shape: Shape,
    packets: u32,
    fleet: Fleet,
    fleets: u32,
    is_repeated: bool,
    /// Number of streams with few batches.
    few_batch_streams: u32,
    silent: u32,
    bytes: u64,
    pause: Duration,
    /// The longest queue that a train filled.
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
    /// Release 1.3.2 of 2006, limited to 25 rates and 20 MB. Five streams that agree decide.
    pub fn new(path: Path) -> Self {
        Self::with(path, Parameters::modern())
    }

    /// As in the thesis (§4.1.4): release 1.0.2, patched to end when the lower end is within 20 % of the upper one. All
    /// twelve streams of each rate are sent.
    pub fn faithful(path: Path) -> Self {
        Self::with(path, Parameters::faithful())
    }

    fn with(path: Path, p: Parameters) -> Self {
        let search = Search::new(Shape::limits(&p, &path), None, p.resolution);
        let requested = search.first();
        let shape = Shape::of(requested, &p, &path);
        Self {
            path,
            p,
            stage: Stage::Start,
            start: Start::default(),
            search,
            requested,
            shape,
            packets: STREAM_PACKETS,
            fleet: Fleet::of(shape.streams()),
            fleets: 0,
            is_repeated: false,
            few_batch_streams: 0,
            silent: 0,
            bytes: 0,
            pause: path.round_trip,
            queue: None,
            caveats: BTreeSet::new(),
        }
    }

    /// Limits the bytes sent, headers included. The method's own limit still applies, because a caller's budget for all
    /// methods can exceed the need of this one.
    #[must_use]
    pub fn at_most(mut self, bytes: u64) -> Self {
        self.p.bytes_max = self.p.bytes_max.min(bytes);
        self
    }

    fn end(&mut self, caveats: impl IntoIterator<Item = Caveat>) {
        self.caveats.extend(caveats);
        self.stage = Stage::Done;
    }

    fn start_search(&mut self) {
        if !self.start.any_arrived {
            return self.end([Caveat::NoAnswer]);
        }
        self.stage = Stage::Search;
        self.search = Search::new(Shape::limits(&self.p, &self.path), self.start.bps(), self.p.resolution);
        self.search.is_batched = self.start.is_batched;
        self.caveats.extend(self.start.is_batched.then_some(Caveat::Batching));
        self.try_rate(self.search.first());
    }

    fn try_rate(&mut self, bps: f64) {
        self.requested = bps;
        self.shape = Shape::of(bps, &self.p, &self.path);
        self.fleet = Fleet::of(self.shape.streams());
    }

    fn train(&mut self) -> Option<Train> {
        if self.stage == Stage::Start {
            let train = self.start.next(self.path.mtu.max(1));
            if train.is_some() {
                return train;
            }
            self.start_search();
        }
        (self.stage == Stage::Search).then(|| self.shape.train(self.packets))
    }

    fn observe_stream(&mut self, observation: &TrainObservation) {
        let batch_gap = self.p.batch_gap(self.shape.gap);
        let reading = Reading { gap: self.shape.gap, batch_gap, kept_gaps: self.p.kept_gaps };
        let stream = Stream::read(observation, &reading);
        if stream.is_batched {
            self.caveats.insert(Caveat::Batching);
            self.search.is_batched = true;
            if self.has_few_batches(stream.batches) {
                return;
            }
        }
        self.fleet.add(stream);
        if self.fleet.is_over(&self.p) {
            self.fleets += 1;
            self.finish_fleet();
        }
    }

    /// Makes streams longer, or ends the method, if batches are too few. Returns whether the fleet ended with that.
    fn has_few_batches(&mut self, batches: usize) -> bool {
        let is_long = self.packets == LONG_STREAM_PACKETS;
        let few = if is_long { batches < BATCHES_MIN } else { batches <= FEW_BATCHES_MAX };
        self.few_batch_streams += u32::from(few);
        if self.few_batch_streams < FEW_BATCH_STREAMS {
            return false;
        }
        self.few_batch_streams = 0;
        if is_long {
            self.end([Caveat::TooFewSamples]);
        } else {
            self.packets = LONG_STREAM_PACKETS;
            self.fleet = Fleet::of(self.shape.streams());
        }
        true
    }

    /// Takes the sender's actual gap as its minimum gap, if larger packets then help.
    fn enlarge(&mut self) -> bool {
        let Some(sent) = self.fleet.fastest() else { return false };
        let kept = f64::from(self.shape.bytes) * 8.0 / sent;
        if sent * SAME_RATE_RATIO_MAX >= self.requested || self.shape.bytes >= self.path.mtu || !kept.is_finite() {
            return false;
        }
        let path = Path { gap_min: Duration::try_from_secs_f64(kept).unwrap_or(Duration::MAX), ..self.path };
        let helps = Shape::of(self.requested, &self.p, &path).bytes > self.shape.bytes;
        if helps {
            self.path = path;
        }
        helps
    }

    /// Extends a range by the variation of the load during a stream: the standard error of the number of full-size
    /// packets of a Poisson load that a stream meets. Smaller trends are not visible.
    fn with_load_variation(&self, range: Interval) -> Interval {
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
        if self.silent >= SILENT_FLEETS_MAX {
            return self.end([Caveat::NoAnswer]);
        }
        let sent = self.fleet.rate().unwrap_or(self.requested);
        if self.p.enlarges && self.fleets < self.p.fleets_max && self.enlarge() {
            return self.try_rate(self.requested);
        }
        let next = match self.fleet.verdict(&self.p) {
            None if self.is_repeated => {
                let paused = self.fleet.is_broken().then_some(Caveat::SenderTooSlow);
                return self.end([Caveat::Unsteady].into_iter().chain(paused));
            }
            None => Next::Try(self.requested),
            Some(verdict) => self.search.add(self.requested, sent, verdict),
        };
        self.is_repeated = self.fleet.verdict(&self.p).is_none();
        match next {
            Next::Found => self.end([]),
            Next::Stuck => self.end([Caveat::SenderTooSlow]),
            Next::Edge => {
                let above = matches!(self.search.range(), Range::AtLeast(_));
                self.end(above.then_some(Caveat::SenderTooSlow));
            }
            Next::Try(_) if self.fleets >= self.p.fleets_max => self.end([Caveat::Unsteady]),
            Next::Try(bps) => self.try_rate(bps),
        }
    }
}

impl Method for Pathload {
    fn next(&mut self) -> Step {
        let Some(train) = self.train() else { return Step::Done(self.so_far()) };
        let bytes = self.bytes.saturating_add(train.bytes().as_u64());
        if bytes > self.p.bytes_max {
            self.end([Caveat::BudgetSpent]);
            return Step::Done(self.so_far());
        }
        self.bytes = bytes;
        let pause = self.pause;
        self.pause = (train.span() * PAUSES).max(self.path.round_trip);
        Step::Send { train, pause }
    }

    fn observe(&mut self, observation: &TrainObservation) {
        self.caveats.extend((observation.lost() > 0).then_some(Caveat::Loss));
        self.queue = self.queue.max(observation.full_queue());
        self.caveats.extend((observation.reordered() > 0).then_some(Caveat::Reordering));
        match self.stage {
            Stage::Start => {
                self.start.observe(observation, self.p.batch_gap(Duration::ZERO));
                self.pause = self.pause.max(self.start.drain);
            }
            Stage::Search => self.observe_stream(observation),
            Stage::Done => {}
        }
    }

    fn so_far(&self) -> Outcome {
        let (interval, bound) = match self.search.range() {
            Range::Unknown => (None, None),
            Range::Both(interval) => (Some(self.with_load_variation(interval)), None),
            Range::AtLeast(interval) => (Some(interval), Some(Caveat::LowerBound)),
            Range::AtMost(high) => (Some(Interval { value: high, low: Rate::ZERO, high }), Some(Caveat::UpperBound)),
        };
        let mut outcome = Outcome::of(Quantity::AvailableBandwidth, interval).with_caveats(bound);
        outcome.queue = self.queue;
        outcome.also.extend(self.start.interval().map(|i| (Quantity::AsymptoticDispersion, i)));
        outcome.with_caveats(self.caveats.iter().copied())
    }
}
