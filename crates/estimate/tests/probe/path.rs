//! A path of links with cross traffic, in virtual time.

use std::time::Duration;

use estimate::Schedule;
use estimate::probe::{Method, Outcome, PacketOutcome, Path, Step, Train, TrainObservation};
use link::{Capacity, Direction, Overhead, Queue, QueueLimit, Settings};
use results::estimate::Caveat;
use units::{Bytes, Instant, Rate};

use crate::on_off::ParetoOnOff;

/// Arrival process of the cross traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cross {
    /// No cross traffic.
    Idle,
    /// Equal gaps.
    Constant(Rate),
    /// A Poisson process.
    Poisson(Rate),
    /// Bursts at the peak rate, of 20 packets on average, with Pareto-distributed lengths and pauses.
    ParetoOnOff { mean: Rate, peak: Rate },
}

/// Source of the packets of the cross traffic.
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

/// Packets in the model: those of a train carry its number and their own.
type Packet = Option<(u64, usize)>;

struct Running {
    link: Direction<Packet>,
    cross: Option<Source>,
    cross_bytes: u32,
}

/// The path and the packets sent over it.
pub(crate) struct VirtualPath {
    hops: Vec<Running>,
    clock: Instant,
    /// Delay of each direction.
    pub(crate) one_way: Duration,
    /// Offset of the receiver's clock; wraps.
    pub(crate) clock_offset_ns: u64,
    /// Minimum gap of the sender.
    pub(crate) gap_min: Duration,
    /// The receiver takes packets in batches at multiples of this; with zero it takes each packet on arrival.
    pub(crate) batch: Duration,
    /// The path passes packets only at multiples of this, all waiting ones at 1 Gb/s; with zero each passes on arrival.
    pub(crate) grants: Duration,
    /// Time that the receiver needs to wake up after a millisecond without packets: the next packet is taken so much
    /// later, but not after its successor.
    pub(crate) asleep: Duration,
    pub(crate) mtu: u32,
    pub(crate) seed: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    trains: u64,
}

impl VirtualPath {
    /// A round trip of 20 ms, a sender of 10 Gb/s at 1500 bytes, and cross traffic that has been flowing for a second.
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
            gap_min: Duration::from_nanos(1200),
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

    /// Prior knowledge of a method about the path.
    pub(crate) fn known(&self) -> Path {
        Path { round_trip: self.one_way * 2, mtu: self.mtu, gap_min: self.gap_min, seed: self.seed }
    }

    /// Virtual time since the creation of the path.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.saturating_since(Instant::ZERO)
    }

    /// Runs a method to its end. Panics after 100 000 trains, because a method must terminate.
    pub(crate) fn run(&mut self, method: &mut dyn Method) -> Outcome {
        self.run_within(method, u64::MAX)
    }

    /// Runs a method within this many bytes, as a driver does: the train that would exceed them is not sent.
    pub(crate) fn run_within(&mut self, method: &mut dyn Method, budget: u64) -> Outcome {
        self.run_bounded(method, budget, Duration::MAX)
    }

    /// Runs a method within a budget of bytes and a time: the train that would not have left by then is not sent.
    pub(crate) fn run_bounded(&mut self, method: &mut dyn Method, budget: u64, time: Duration) -> Outcome {
        let (before, start) = (self.bytes, self.clock);
        for _ in 0..100_000 {
            match method.next() {
                Step::Done(outcome) => return outcome,
                Step::Send { train, .. } if self.bytes - before + train.bytes().as_u64() > budget => {
                    return method.so_far().with_caveats([Caveat::BudgetSpent]);
                }
                Step::Send { train, pause }
                    if (self.clock.saturating_since(start)).saturating_add(pause + train.span()) > time =>
                {
                    return method.so_far().with_caveats([Caveat::TimeSpent]);
                }
                Step::Send { train, pause } => {
                    self.advance(self.clock + pause, &mut |_, _| ());
                    let observation = self.send(&train);
                    method.observe(&observation);
                }
            }
        }
        panic!("the method does not end");
    }

    /// Sends a train and waits for its packets, at most 2 s after the last one.
    pub(crate) fn send(&mut self, train: &Train) -> TrainObservation {
        let start = self.clock;
        self.trains += 1;
        let own = self.trains;
        // Late packets of an earlier train do not belong to this one, as for a driver.
        let note = |received: &mut Vec<Option<Instant>>, (train, number): (u64, usize), at| {
            if train == own {
                received[number] = Some(at);
            }
        };
        let mut observation = TrainObservation::default();
        let mut departed = start;
        let mut received = vec![None; train.departures().len()];
        for (number, departure) in train.departures().iter().enumerate() {
            let earliest = if number == 0 { start } else { departed + self.gap_min };
            departed = earliest.max(start + departure.after);
            self.advance(departed, &mut |packet, at| note(&mut received, packet, at));
            self.hops[0].link.offer(departed, single(Some((own, number)), departure.bytes));
            self.packets += 1;
            self.bytes += u64::from(departure.bytes);
            observation.packets.push(PacketOutcome { bytes: departure.bytes, sent: Some(departed), received: None });
        }
        let deadline = departed + Duration::from_secs(2);
        while self.clock < deadline && received.iter().any(Option::is_none) {
            let next = self.clock + Duration::from_millis(1);
            self.advance(next, &mut |packet, at| note(&mut received, packet, at));
        }
        // The report on the train returns over the path.
        let back = if train.is_echoed() { self.one_way * 2 } else { self.one_way };
        self.hold(&mut received);
        self.wake_up(&mut received);
        for (outcome, at) in observation.packets.iter_mut().zip(received) {
            outcome.received = at.map(|at| self.stamp(at + back, train.is_echoed()));
        }
        self.advance(self.clock + self.one_way * 2, &mut |_, _| ());
        observation
    }

    /// Holds packets until the next grant, as radio links with aggregation do.
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

    /// Advances the time. Each packet of a train that leaves the last link is reported with its time.
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

/// Relative error of a rate.
pub(crate) fn error(rate: Rate, truth_bps: u64) -> f64 {
    rate.as_bps() as f64 / truth_bps as f64 - 1.0
}

/// A rate in Mb/s.
pub(crate) fn mbps(rate: f64) -> Rate {
    Rate::from_bps((rate * 1e6).round() as u64)
}
