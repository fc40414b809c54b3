//! Streams of small transfers: a handshake, a request, and the data, each transfer on its own connection.

use estimate::{Schedule, draw};
use link::Train;
use scenario::{Mice, Scenario};
use units::{Duration, Instant};

use crate::addressing::{self, Paths};
use crate::connection::Settings;
use crate::packet::{Address, Body, Packet, Step};

/// Timeout of the first SYN (RFC 6298, 2.1); it doubles.
const SYN_TIMEOUT: Duration = Duration::from_secs(1);
/// Minimum of the retransmission timeout beyond the round trip (TCP_RTO_MIN).
const REQUEST_TIMEOUT_MIN: Duration = Duration::from_millis(200);
/// Bytes of a request.
const REQUEST_BYTES: u32 = 8;
/// Bytes that a SYN has beyond a segment: maximum segment size, SACK permitted, window scale, instead of padding.
const SYN_OPTION_BYTES: u32 = 8;

/// One small transfer of a stream, when it completed or when the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Index of the stream.
    pub stream: usize,
    /// Planned start, since the start of the run.
    pub start: Duration,
    /// Size in bytes.
    pub bytes: u64,
    /// Time from the start to the last byte; `None`: it did not complete.
    pub took: Option<Duration>,
}

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    schedule: Schedule,
    stop: Instant,
    sizes: scenario::Sizes,
    seed: u64,
    index: u64,
    pub(crate) settings: Settings,
    pub(crate) control: String,
}

impl Stream {
    /// `zero`: start of the run.
    pub(crate) fn new(scenario: &Scenario, paths: &mut Paths, mice: &Mice, seed: u64, zero: Instant) -> Self {
        let schedule = match mice.poisson {
            true => Schedule::poisson_every(mice.every, seed),
            false => Schedule::every(mice.every),
        };
        Self {
            schedule: schedule.starting_at(zero + mice.start),
            stop: zero + mice.stop,
            sizes: mice.bytes,
            seed,
            index: 0,
            settings: Settings::between(scenario, paths, mice.from, mice.to, false),
            control: mice.congestion_control.clone(),
        }
    }

    /// Time of the next start.
    pub(crate) fn next(&self) -> Option<Instant> {
        let at = self.schedule.deadline();
        (at < self.stop).then_some(at)
    }

    /// Size in bytes of the transfer that starts now.
    pub(crate) fn start(&mut self) -> u64 {
        let bytes = self.sizes.quantile(draw(self.seed, self.index)).as_u64();
        self.schedule.advance();
        self.index += 1;
        bytes
    }
}

/// A transfer before its data: the client repeats a step until the answer arrives.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) stream: usize,
    pub(crate) start: Instant,
    pub(crate) bytes: u64,
    step: Step,
    timeout: Duration,
    due: Instant,
}

impl Setup {
    pub(crate) fn new(now: Instant, stream: usize, bytes: u64) -> Self {
        Self { stream, start: now, bytes, step: Step::Syn, timeout: SYN_TIMEOUT, due: now + SYN_TIMEOUT }
    }

    /// The present step, to be sent.
    pub(crate) const fn step(&self) -> Step {
        self.step
    }

    pub(crate) const fn due(&self) -> Instant {
        self.due
    }

    /// Repeats the step.
    pub(crate) fn repeat(&mut self, now: Instant) {
        self.timeout *= 2;
        self.due = now + self.timeout;
    }

    /// Handles the answer to the SYN: the request follows. Returns false for a repeated answer.
    pub(crate) fn accept(&mut self, now: Instant, rtt: Duration) -> bool {
        if self.step != Step::Syn {
            return false;
        }
        self.step = Step::Request;
        self.timeout = rtt + REQUEST_TIMEOUT_MIN;
        self.due = now + self.timeout;
        true
    }
}

/// A packet of the handshake. The client is the receiver of the data.
pub(crate) fn packet(settings: &Settings, address: (u32, u32), step: Step) -> Train<Packet> {
    let header = addressing::tcp_header(settings.ipv6);
    let (direction, bytes) = match step {
        Step::Syn => (1, header + SYN_OPTION_BYTES),
        Step::SynAck => (0, header + SYN_OPTION_BYTES),
        Step::Request => (1, header + REQUEST_BYTES),
    };
    let to = Address::Connection(address.0, address.1);
    let packet = Packet { path: settings.paths[direction], hop: 0, to, header, body: Body::Setup(step) };
    packet.train(1, bytes, bytes)
}
