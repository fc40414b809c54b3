//! Calls of `longhaul estimate`: the driver of probing methods in virtual time.
//!
//! The driver sends the packets, control messages and transfers that the real one does (crate `measure`, module
//! `probe`), by the same rules of budget, time and settling. Both hosts have perfect timestamps; the sender keeps gaps
//! of [`SENDER_GAP_MIN`] or more. The control connection is a model: each message is one packet, which is repeated
//! until it arrives.

mod control;
mod method;
mod train;
mod transfer;

use estimate::Facts;
use estimate::probe::{
    Bounds, Known, MethodName, NamedMethod, Path, SENDER_GAP_MIN, TIME_DEFAULT, Train, UDP_HEADERS, session_budget,
    settle,
};
use link::Train as LinkTrain;
use results::estimate::{EstimateResult, TransferPrediction};
use scenario::{EstimateCall, Scenario};
use units::{Bytes, Duration, Instant};

use crate::addressing::{self, Paths};
use crate::connection::Settings;
use crate::packet::{Address, Body, Packet};
use control::Channel;
pub(crate) use control::{End, Message};
use method::Progress;
use train::{Ended, Kind, TrainRun};
use transfer::Transfer;
pub(crate) use transfer::{CONTROL, Request, Transferred};

/// Maximum length of a probe packet: the driver's default limit.
const MTU_MAX: u32 = 1500;

/// Packets that measure the round trip of the idle path, their gap, and their length: those of `longhaul estimate`.
const PINGS: u32 = 24;
const PING_GAP: Duration = Duration::from_millis(10);
const PING_BYTES: u32 = 90;

/// Time within which a session must open.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Record of a call, in the order of time.
#[derive(Debug, Clone, PartialEq)]
pub enum EstimateEvent {
    /// The session is open.
    Started {
        /// Time since the start of the run.
        at: Duration,
        /// Round trip of the idle path and path MTU.
        path: Path,
    },
    /// A method has ended.
    Result(Box<EstimateResult>),
    /// Prediction of a TCP transfer, at the end of the call.
    Prediction(Box<TransferPrediction>),
    /// The call has ended.
    Ended(EstimateEnd),
}

/// Reason for the end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EstimateEnd {
    /// All methods have ended, and one of them has found a value.
    Complete,
    /// All methods have ended without a value.
    NoValue,
    /// The time of the experiment file to stop the call has come.
    Stopped,
    /// The server did not answer.
    Unreachable,
}

/// State of a call.
#[derive(Debug)]
enum Stage {
    Waiting,
    /// Exchange of one message before the session or before a transfer.
    Opening {
        transfer: Option<Transfer>,
        deadline: Instant,
    },
    Pinging(Box<TrainRun>),
    /// Idle time before a train.
    Pausing(Train, Instant),
    Probing(Box<TrainRun>),
    Transferring(Transfer),
    Ended,
}

/// One call.
#[derive(Debug)]
pub(crate) struct Estimator {
    call: EstimateCall,
    line: Line,
    channel: Channel,
    stage: Stage,
    path: Path,
    /// Methods that have been started.
    started: usize,
    method: Option<(NamedMethod, Progress)>,
    facts: Facts,
    /// Bytes left of the budget that the file sets.
    left: Option<u64>,
    /// Bytes of all methods, and their limit.
    session: (u64, u64),
    trains: u32,
    last_train_end: Instant,
    longest_gap: Option<Duration>,
    transfer_settings: Settings,
    request: Option<Request>,
    events: Vec<EstimateEvent>,
    /// Start of the run.
    zero: Instant,
}

impl Estimator {
    /// Prepares the call with this index of a run with seed `seed` that starts at `zero`.
    pub(crate) fn new(
        scenario: &Scenario,
        paths: &mut Paths,
        call: &EstimateCall,
        (index, seed): (u32, u64),
        zero: Instant,
    ) -> Self {
        let (from, to) = (call.from, call.to);
        let mtu = addressing::mtu(scenario, from, to).min(addressing::mtu(scenario, to, from)).min(MTU_MAX);
        let (sender, receiver) = if call.reverse { (to, from) } else { (from, to) };
        Self {
            line: Line {
                index,
                paths: [paths.between(scenario, from, to), paths.between(scenario, to, from)],
                mtu,
                outbox: Vec::new(),
            },
            channel: Channel::default(),
            stage: Stage::Waiting,
            path: Path { round_trip: Duration::ZERO, mtu, gap_min: SENDER_GAP_MIN, seed },
            started: 0,
            method: None,
            facts: Facts::default(),
            left: call.budget.map(Bytes::as_u64),
            session: (0, call.budget.map_or_else(|| session_budget(&call.methods), Bytes::as_u64)),
            trains: 0,
            last_train_end: zero,
            zero,
            longest_gap: None,
            transfer_settings: Settings {
                // A transfer has the default socket buffer, which holds little more than a window.
                unsent_min: 1,
                ..Settings::between(scenario, paths, sender, receiver, false)
            },
            request: None,
            events: Vec::new(),
            call: call.clone(),
        }
    }

    /// Packets to send.
    pub(crate) fn take_outbox(&mut self) -> Vec<LinkTrain<Packet>> {
        std::mem::take(&mut self.line.outbox)
    }

    /// A transfer to start or to stop.
    pub(crate) fn take_request(&mut self) -> Option<Request> {
        self.request.take()
    }

    /// Records since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<EstimateEvent> {
        std::mem::take(&mut self.events)
    }

    /// Time of the next action.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let own = match &self.stage {
            Stage::Waiting => return Some(self.zero + self.call.start),
            Stage::Opening { deadline, .. } => Some(*deadline),
            Stage::Pinging(run) | Stage::Probing(run) => run.poll_timeout(),
            Stage::Pausing(_, until) => Some(*until),
            Stage::Transferring(transfer) => Some(transfer.deadline()),
            Stage::Ended => return None,
        };
        own.into_iter().chain(self.channel.poll_timeout()).chain([self.zero + self.call.stop]).min()
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        // The event of the time to stop remains after the end.
        if matches!(self.stage, Stage::Ended) {
            return;
        }
        if now >= self.zero + self.call.stop {
            self.end(EstimateEnd::Stopped);
            return;
        }
        if let Some(message) = self.channel.handle_timeout(now) {
            self.line.send_message(message);
        }
        match &mut self.stage {
            Stage::Waiting if now >= self.zero + self.call.start => self.open(now, None),
            Stage::Opening { deadline, .. } if now >= *deadline => self.not_opened(now),
            Stage::Pausing(_, until) if now >= *until => self.send_train(now),
            Stage::Transferring(transfer) if now >= transfer.deadline() => self.request = Some(transfer.stop()),
            Stage::Waiting
            | Stage::Opening { .. }
            | Stage::Pinging(_)
            | Stage::Pausing(..)
            | Stage::Probing(_)
            | Stage::Transferring(_)
            | Stage::Ended => {}
        }
        self.advance(now);
    }

    /// Handles a packet that arrives at either end.
    pub(crate) fn handle(&mut self, now: Instant, body: &Body) {
        match (body, &mut self.stage) {
            (Body::Probe { train, index, is_return }, Stage::Pinging(run) | Stage::Probing(run)) => {
                run.handle_probe(now, (*train, *index), *is_return, &mut self.line);
            }
            (Body::Message(message), _) if self.channel.handle(message.number) => self.handle_message(now, *message),
            _ => {}
        }
        self.advance(now);
    }

    fn handle_message(&mut self, now: Instant, message: Message) {
        match &mut self.stage {
            Stage::Pinging(run) | Stage::Probing(run) => run.handle_message(now, &mut self.line, &mut self.channel),
            Stage::Opening { .. } if message.to == End::Server => self.send_message(now, End::Client),
            Stage::Opening { .. } => self.opened(now),
            Stage::Waiting | Stage::Pausing(..) | Stage::Transferring(_) | Stage::Ended => {}
        }
    }

    /// Advances a train, and takes its result once it has ended.
    fn advance(&mut self, now: Instant) {
        let (Stage::Pinging(run) | Stage::Probing(run)) = &mut self.stage else { return };
        run.advance(now, &mut self.line, &mut self.channel);
        let Some(ended) = run.ended(now) else { return };
        self.channel.reset();
        match (std::mem::replace(&mut self.stage, Stage::Waiting), ended) {
            (Stage::Pinging(_), Ended::Observed(pings)) => self.start(now, &pings),
            (Stage::Pinging(_), Ended::Silent) => self.end(EstimateEnd::Unreachable),
            (_, ended) => self.handle_train(now, ended),
        }
    }

    /// Opens the session, or the connection of a transfer.
    fn open(&mut self, now: Instant, transfer: Option<Transfer>) {
        self.stage = Stage::Opening { transfer, deadline: now + OPEN_TIMEOUT };
        self.send_message(now, End::Server);
    }

    fn send_message(&mut self, now: Instant, to: End) {
        self.line.send_message(self.channel.send(now, to, train::MESSAGE_BYTES, self.path.round_trip));
    }

    fn opened(&mut self, now: Instant) {
        let stage = std::mem::replace(&mut self.stage, Stage::Waiting);
        let Stage::Opening { transfer, deadline } = stage else { return };
        if let Some(transfer) = transfer {
            self.start_transfer(now, transfer);
            return;
        }
        // The pings replace this value, which may contain a repetition.
        self.path.round_trip = now.saturating_since(deadline - OPEN_TIMEOUT);
        let pings = Train::spaced(PINGS, PING_BYTES, PING_GAP).echoed();
        self.stage = Stage::Pinging(Box::new(self.run_train(now, Kind::Echoed, pings)));
    }

    fn not_opened(&mut self, now: Instant) {
        self.channel.reset();
        let Stage::Opening { transfer, .. } = std::mem::replace(&mut self.stage, Stage::Waiting) else { return };
        match transfer {
            Some(transfer) => self.end_transfer(now, transfer, None),
            None => self.end(EstimateEnd::Unreachable),
        }
    }

    /// Starts the first method, with the round trip of the pings.
    fn start(&mut self, now: Instant, pings: &estimate::probe::TrainObservation) {
        let Some(round_trip) = pings.round_trips().into_iter().flatten().min() else {
            self.end(EstimateEnd::Unreachable);
            return;
        };
        self.path.round_trip = round_trip;
        self.last_train_end = now;
        self.events.push(EstimateEvent::Started { at: now.saturating_since(self.zero), path: self.path });
        self.next_method(now);
    }

    /// Starts the next method, or ends the call after the last one.
    fn next_method(&mut self, now: Instant) {
        let Some(name) = self.call.methods.get(self.started).copied() else {
            let end = if self.facts.is_empty() { EstimateEnd::NoValue } else { EstimateEnd::Complete };
            self.end(end);
            return;
        };
        self.started += 1;
        let bytes = self.left.unwrap_or_else(|| name.budget_default());
        let bounds = Bounds { bytes, time: self.call.time.unwrap_or(TIME_DEFAULT) };
        let known = Known { capacity: self.facts.capacity(), expected: None };
        match NamedMethod::new(name, false, self.path, known, bytes) {
            Some(method) => {
                self.method = Some((method, Progress::new(now, bounds)));
                self.step(now);
            }
            None => self.prepare_transfer(now, name, bounds),
        }
    }

    fn prepare_transfer(&mut self, now: Instant, name: MethodName, bounds: Bounds) {
        match Transfer::new(now, name, self.call.budget.is_some(), bounds) {
            Ok(transfer) => self.open(now, Some(transfer)),
            Err(result) => self.conclude(now, *result),
        }
    }

    /// Records the result of a method.
    fn conclude(&mut self, now: Instant, result: EstimateResult) {
        self.facts.add(&result);
        self.left = self.left.map(|left| left.saturating_sub(result.bytes));
        self.events.push(EstimateEvent::Result(Box::new(result)));
        self.next_method(now);
    }

    fn run_train(&mut self, now: Instant, kind: Kind, train: Train) -> TrainRun {
        self.trains += 1;
        let wait = settle(train.departures(), self.path.round_trip, self.longest_gap);
        let (line, channel) = (&mut self.line, &mut self.channel);
        TrainRun::start(now, (kind, self.trains, train), (wait, self.path.round_trip), (line, channel))
    }

    fn end(&mut self, end: EstimateEnd) {
        if let Stage::Transferring(transfer) = &self.stage {
            self.request = Some(transfer.stop());
        }
        self.stage = Stage::Ended;
        self.channel.reset();
        let predictions = self.facts.predict(&self.path, None, None, |_| None);
        self.events.extend(predictions.into_iter().map(|p| EstimateEvent::Prediction(Box::new(p))));
        self.events.push(EstimateEvent::Ended(end));
    }
}

/// Sends packets between the two ends.
#[derive(Debug)]
pub(crate) struct Line {
    index: u32,
    /// Paths from the client to the server and back.
    paths: [u32; 2],
    mtu: u32,
    outbox: Vec<LinkTrain<Packet>>,
}

impl Line {
    /// Sends a probe of `bytes` bytes with its headers.
    fn send_probe(&mut self, to: End, (train, index): (u32, u32), bytes: u32, is_return: bool) {
        self.send(to, Body::Probe { train, index, is_return }, (UDP_HEADERS, bytes));
    }

    fn send_message(&mut self, message: Message) {
        let header = addressing::tcp_header(false);
        self.send(message.to, Body::Message(message), (header, (header + message.bytes).min(self.mtu)));
    }

    fn send(&mut self, to: End, body: Body, (header, bytes): (u32, u32)) {
        let path = self.paths[usize::from(to == End::Client)];
        let packet = Packet { path, hop: 0, to: Address::Estimate(self.index), header, body };
        self.outbox.push(packet.train(1, bytes, bytes));
    }
}
