//! A path of links with cross traffic, in virtual time.

use std::time::Duration;

use estimate::Schedule;
use estimate::probe::{Method, Outcome, PacketOutcome, Path, Step, Train, TrainObservation};
use link::{Capacity, Direction, Overhead, Queue, QueueLimit, Settings};
use results::estimate::Caveat;
use units::{Bytes, Instant, Rate};

use crate::on_off::ParetoOnOff;

/// How the packets of the cross traffic come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cross {
    /// None.
    Idle,
    /// At equal distances.
    Constant(Rate),
    /// A Poisson process.
    Poisson(Rate),
    /// Bursts at the peak rate, of 20 packets on average, as long and as far apart as Pareto has it.
    ParetoOnOff { mean: Rate, peak: Rate },
}

/// Where the packets of the cross traffic come from.
#[derive(Debug)]
enum Source {
    Scheduled(Schedule),
    Bursts(ParetoOnOff),
}

impl Source {
    fn new(cross: Cross, bytes: u32, seed: u64) -> Option<Self> {
        let length = Bytes::new(bytes.into());
        match cross {
            Cross::Idle => None,
            Cross::Constant(rate) => Some(Self::Scheduled(Schedule::constant(rate, length))),
            Cross::Poisson(rate) => Some(Self::Scheduled(Schedule::poisson(rate, length, seed))),
            Cross::ParetoOnOff { mean, peak } => Some(Self::Bursts(ParetoOnOff::new(mean, peak, bytes, seed))),
        }
    }

    fn deadline(&self) -> Instant {
        match self {
            Self::Scheduled(schedule) => schedule.deadline(),
            Self::Bursts(bursts) => bursts.deadline(),
        }
    }

    fn advance(&mut self) {
        match self {
            Self::Scheduled(schedule) => schedule.advance(),
            Self::Bursts(bursts) => bursts.advance(),
        }
    }
}

/// One link: cross traffic enters before it and leaves behind it.
#[derive(Debug, Clone)]
pub(crate) struct Hop {
    pub(crate) settings: Settings,
    pub(crate) cross: Cross,
    /// IP bytes of a packet of the cross traffic.
    pub(crate) cross_bytes: u32,
}

impl Hop {
    /// A link whose rate counts IP bytes, with a queue of 200 ms.
    pub(crate) fn new(bps: u64, cross: Cross) -> Self {
        let settings = Settings {
            capacity: Capacity::Constant(Rate::from_bps(bps)),
            overhead: Overhead::IP,
            queue: Queue { limit: QueueLimit::Time(Duration::from_millis(200)), ..Queue::default() },
            ..Settings::default()
        };
        Self { settings, cross, cross_bytes: 1500 }
    }
}

/// Packets in the model: those of a train have its number and theirs.
type Packet = Option<(u64, usize)>;

struct Running {
    link: Direction<Packet>,
    cross: Option<Source>,
    cross_bytes: u32,
}

/// The path, with what was sent over it.
pub(crate) struct VirtualPath {
    hops: Vec<Running>,
    clock: Instant,
    /// Delay of the way, once each way.
    pub(crate) one_way: Duration,
    /// The receiver's clock is this far ahead; wraps.
    pub(crate) clock_offset_ns: u64,
    /// Smallest distance at which the sender sends.
    pub(crate) least_gap: Duration,
    /// The receiver takes packets in batches at multiples of this; zero takes each as it comes.
    pub(crate) batch: Duration,
    /// The path lets packets through at multiples of this only, all that are there at 1 Gb/s; zero lets each pass as it comes.
    pub(crate) grants: Duration,
    /// The receiver needs this long to wake up after a millisecond without packets: the next is taken so much later, but not after the
    /// one behind it.
    pub(crate) asleep: Duration,
    pub(crate) mtu: u32,
    pub(crate) seed: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    trains: u64,
}

impl VirtualPath {
    /// A round trip of 20 ms, a sender of 10 Gb/s at 1500 bytes, cross traffic that flows for a second already.
    pub(crate) fn new(seed: u64, hops: &[Hop]) -> Self {
        let run = |(i, hop): (usize, &Hop)| Running {
            link: Direction::new(Instant::ZERO, seed.wrapping_add(i as u64), hop.settings.clone()),
            cross: Source::new(hop.cross, hop.cross_bytes, seed.wrapping_mul(31).wrapping_add(i as u64)),
            cross_bytes: hop.cross_bytes,
        };
        let mut path = Self {
            hops: hops.iter().enumerate().map(run).collect(),
            clock: Instant::ZERO,
            one_way: Duration::from_millis(10),
            clock_offset_ns: 1 << 62,
            least_gap: Duration::from_nanos(1200),
            batch: Duration::ZERO,
            grants: Duration::ZERO,
            asleep: Duration::ZERO,
            mtu: 1500,
            seed,
            packets: 0,
            bytes: 0,
            trains: 0,
        };
        path.advance(Instant::ZERO + Duration::from_secs(1), &mut |_, _| ());
        path
    }

    /// What a method is told of it beforehand.
    pub(crate) fn known(&self) -> Path {
        Path { round_trip: self.one_way * 2, mtu: self.mtu, least_gap: self.least_gap, seed: self.seed }
    }

    /// Virtual time since the path was made.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.saturating_since(Instant::ZERO)
    }

    /// Runs a method to its end. Panics after 100 000 trains: a method must end by itself.
    pub(crate) fn run(&mut self, method: &mut dyn Method) -> Outcome {
        self.run_within(method, u64::MAX)
    }

    /// The same within so many bytes, as a driver does: the train that would exceed them is not sent.
    pub(crate) fn run_within(&mut self, method: &mut dyn Method, budget: u64) -> Outcome {
        self.run_bounded(method, budget, Duration::MAX)
    }

    /// The same within so much time besides: the train that would not have left by then is not sent.
    pub(crate) fn run_bounded(&mut self, method: &mut dyn Method, budget: u64, time: Duration) -> Outcome {
        let (before, begin) = (self.bytes, self.clock);
        for _ in 0..100_000 {
            match method.next() {
                Step::Done(outcome) => return outcome,
                Step::Send { train, .. } if self.bytes - before + train.bytes().as_u64() > budget => {
                    return method.so_far().troubled([Caveat::BudgetSpent]);
                }
                Step::Send { train, pause }
                    if (self.clock.saturating_since(begin)).saturating_add(pause + train.span()) > time =>
                {
                    return method.so_far().troubled([Caveat::TimeSpent]);
                }
                Step::Send { train, pause } => {
                    self.advance(self.clock + pause, &mut |_, _| ());
                    let passage = self.send(&train);
                    method.observe(&passage);
                }
            }
        }
        panic!("the method does not end");
    }

    /// Sends a train and waits for what comes of it, at most 2 s behind its last packet.
    pub(crate) fn send(&mut self, train: &Train) -> TrainObservation {
        let start = self.clock;
        self.trains += 1;
        let own = self.trains;
        // What comes late of an earlier train is none of this one, as for a driver.
        let note = |received: &mut Vec<Option<Instant>>, (train, number): (u64, usize), at| {
            if train == own {
                received[number] = Some(at);
            }
        };
        let mut passage = TrainObservation::default();
        let mut left = start;
        let mut received = vec![None; train.departures().len()];
        for (number, departure) in train.departures().iter().enumerate() {
            let earliest = if number == 0 { start } else { left + self.least_gap };
            left = earliest.max(start + departure.after);
            self.advance(left, &mut |packet, at| note(&mut received, packet, at));
            self.hops[0].link.offer(left, single(Some((own, number)), departure.bytes));
            self.packets += 1;
            self.bytes += u64::from(departure.bytes);
            passage.packets.push(PacketOutcome { bytes: departure.bytes, sent: Some(left), received: None });
        }
        let give_up = left + Duration::from_secs(2);
        while self.clock < give_up && received.iter().any(Option::is_none) {
            let next = self.clock + Duration::from_millis(1);
            self.advance(next, &mut |packet, at| note(&mut received, packet, at));
        }
        // The word that a train has passed comes back over the path.
        let back = if train.is_echoed() { self.one_way * 2 } else { self.one_way };
        self.hold(&mut received);
        self.wake_up(&mut received);
        for (fate, at) in passage.packets.iter_mut().zip(received) {
            fate.received = at.map(|at| self.stamp(at + back, train.is_echoed()));
        }
        self.advance(self.clock + self.one_way * 2, &mut |_, _| ());
        passage
    }

    /// Holds packets until the next grant, as radio links that aggregate do.
    fn hold(&self, received: &mut [Option<Instant>]) {
        let period = u64::try_from(self.grants.as_nanos()).unwrap();
        let mut free = 0;
        for at in received.iter_mut().flatten().filter(|_| period > 0) {
            free = (at.as_nanos().div_ceil(period) * period).max(free + 12_000);
            *at = Instant::from_nanos(free);
        }
    }

    fn wake_up(&self, received: &mut [Option<Instant>]) {
        let mut last = None;
        for i in 0..received.len() {
            let Some(at) = received[i] else { continue };
            let is_idle = last.is_none_or(|l| at.saturating_since(l) > Duration::from_millis(1));
            last = Some(at);
            if is_idle {
                let behind = received[i + 1..].iter().flatten().next();
                received[i] = Some(behind.map_or(at + self.asleep, |b| (at + self.asleep).min(*b)));
            }
        }
    }

    fn stamp(&self, at: Instant, own_clock: bool) -> Instant {
        if own_clock {
            return at;
        }
        let batch = u64::try_from(self.batch.as_nanos()).unwrap();
        let at = if batch == 0 { at.as_nanos() } else { at.as_nanos().div_ceil(batch) * batch };
        Instant::from_nanos(at.wrapping_add(self.clock_offset_ns))
    }

    /// Lets time pass. What of a train leaves the last link is told with its time.
    fn advance(&mut self, end: Instant, arrived: &mut dyn FnMut((u64, usize), Instant)) {
        while let Some((at, hop)) = self.next_event().filter(|(at, _)| *at <= end) {
            self.clock = self.clock.max(at);
            self.serve(hop, at, arrived);
        }
        for hop in 0..self.hops.len() {
            self.serve(hop, end, arrived);
        }
        self.clock = self.clock.max(end);
    }

    fn next_event(&self) -> Option<(Instant, usize)> {
        let due = |(i, hop): (usize, &Running)| {
            let cross = hop.cross.as_ref().map(Source::deadline);
            let link = hop.link.poll_timeout();
            Some((cross.into_iter().chain(link).min()?, i))
        };
        self.hops.iter().enumerate().filter_map(due).min()
    }

    fn serve(&mut self, hop: usize, now: Instant, arrived: &mut dyn FnMut((u64, usize), Instant)) {
        while let Some(d) = self.hops[hop].link.poll(now) {
            let Some(packet) = d.payload else { continue };
            let bytes = u32::try_from(d.bytes).unwrap();
            match self.hops.get_mut(hop + 1) {
                Some(next) => next.link.offer(d.at, single(d.payload, bytes)),
                None => arrived(packet, d.at),
            }
        }
        let bytes = self.hops[hop].cross_bytes;
        while let Some(source) = self.hops[hop].cross.as_mut().filter(|s| s.deadline() <= now) {
            let at = source.deadline();
            source.advance();
            self.hops[hop].link.offer(at, single(None, bytes));
        }
    }
}

fn single(payload: Packet, bytes: u32) -> link::Train<Packet> {
    link::Train { payload, count: 1, full: bytes, last: bytes }
}

/// How far a rate is from the truth, as a ratio minus one.
pub(crate) fn error(rate: Rate, truth_bps: u64) -> f64 {
    rate.as_bps() as f64 / truth_bps as f64 - 1.0
}

/// So many Mb/s.
pub(crate) fn mbps(rate: f64) -> Rate {
    Rate::from_bps((rate * 1e6).round() as u64)
}
