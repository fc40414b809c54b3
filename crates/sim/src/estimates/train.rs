//! Transmission of one packet train, with the control messages that the real driver exchanges for it.

use estimate::probe::{PROBE_BYTES_MIN, PacketOutcome, SENDER_GAP_MIN, Train, TrainObservation};
use units::{Duration, Instant};

use super::Line;
use super::control::{Channel, End};

/// Time without an answer after which the server counts as unreachable, as for the real driver.
pub(super) const PEER_TIMEOUT: Duration = Duration::from_secs(20);
/// Payload of a control message without times in bytes.
pub(super) const MESSAGE_BYTES: u32 = 32;
/// Payload bytes of each time in a report.
const TIME_BYTES: u32 = 9;

/// Direction of a train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// From the client; the server reports the arrival times.
    Up,
    /// From the server at the client's request; the server reports the departure times.
    Down,
    /// From the client, which receives the echoes.
    Echoed,
}

/// Progress of a train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The client's request is under way.
    Requested,
    Sending,
    /// A message of the client is under way: the train is sent, or a check whether the server answers.
    ToServer,
    /// The receiver waits for late packets.
    Settling,
    /// A message of the server is under way: its report, or the answer to the check.
    ToClient,
    Done,
}

/// Result of a train.
#[derive(Debug)]
pub(super) enum Ended {
    Observed(TrainObservation),
    /// The server did not answer in time.
    Silent,
}

#[derive(Debug)]
pub(super) struct TrainRun {
    kind: Kind,
    number: u32,
    train: Train,
    stage: Stage,
    /// Start of the transmission.
    start: Instant,
    packets: Vec<PacketOutcome>,
    received: Vec<Option<Instant>>,
    arrived: usize,
    /// Time from which the settle time counts.
    quiet_since: Instant,
    settle: Duration,
    round_trip: Duration,
    /// Time at which the client gives up.
    deadline: Option<Instant>,
}

impl TrainRun {
    /// Starts a train with this number, or the request for it.
    pub(super) fn start(
        now: Instant,
        (kind, number, train): (Kind, u32, Train),
        (settle, round_trip): (Duration, Duration),
        (line, channel): (&mut Line, &mut Channel),
    ) -> Self {
        let mut run = Self {
            kind,
            number,
            stage: Stage::Sending,
            start: now,
            packets: Vec::new(),
            received: vec![None; train.departures().len()],
            arrived: 0,
            quiet_since: now,
            settle,
            round_trip,
            deadline: None,
            train,
        };
        if kind == Kind::Down {
            run.deadline = Some(now + run.train.span() * 2 + settle + PEER_TIMEOUT);
            run.stage = Stage::Requested;
            run.message(now, End::Server, true, (line, channel));
        }
        run.advance(now, line, channel);
        run
    }

    /// Handles a packet of a train that arrives; `is_return`: an echo, at the client.
    pub(super) fn handle_probe(&mut self, now: Instant, (train, index): (u32, u32), is_return: bool, line: &mut Line) {
        if train != self.number {
            return;
        }
        if self.kind == Kind::Echoed && !is_return {
            let bytes = self.packets.get(index as usize).map_or(PROBE_BYTES_MIN, |p| p.bytes);
            line.send_probe(End::Client, (train, index), bytes, true);
            return;
        }
        // The report of the server has been sent, or the client waits no longer.
        let is_late = match self.kind {
            Kind::Up => self.stage == Stage::ToClient,
            Kind::Echoed => matches!(self.stage, Stage::ToServer | Stage::ToClient),
            Kind::Down => false,
        };
        if is_late {
            return;
        }
        if let Some(time @ None) = self.received.get_mut(index as usize) {
            *time = Some(now);
            self.arrived += 1;
        }
        if self.kind != Kind::Echoed {
            self.quiet_since = self.quiet_since.max(now);
        }
    }

    /// Handles the control message under way, which has arrived.
    pub(super) fn handle_message(&mut self, now: Instant, line: &mut Line, channel: &mut Channel) {
        match (self.stage, self.kind) {
            (Stage::Requested, _) => (self.stage, self.start) = (Stage::Sending, now),
            (Stage::ToServer, Kind::Echoed) => {
                self.stage = Stage::ToClient;
                self.message(now, End::Client, false, (line, channel));
            }
            (Stage::ToServer, Kind::Up | Kind::Down) | (Stage::ToClient, Kind::Down) => {
                self.stage = Stage::Settling;
                self.quiet_since = self.quiet_since.max(now);
            }
            (Stage::ToClient, Kind::Up | Kind::Echoed) => self.stage = Stage::Done,
            (Stage::Sending | Stage::Settling | Stage::Done, _) => {}
        }
    }

    /// Does what is due.
    pub(super) fn advance(&mut self, now: Instant, line: &mut Line, channel: &mut Channel) {
        if self.stage == Stage::Sending {
            self.send_due(now, line);
            if self.packets.len() == self.train.departures().len() {
                self.end_sending(now, line, channel);
            }
        }
        let has_settled = self.is_complete() || now >= self.quiet_since + self.settle;
        if self.stage != Stage::Settling || !has_settled {
            return;
        }
        match self.kind {
            Kind::Up => {
                self.stage = Stage::ToClient;
                self.message(now, End::Client, true, (line, channel));
            }
            // Missing packets count as lost only if the server answers.
            Kind::Echoed if !self.is_complete() => {
                self.stage = Stage::ToServer;
                self.deadline = Some(now + PEER_TIMEOUT);
                self.message(now, End::Server, false, (line, channel));
            }
            Kind::Down | Kind::Echoed => self.stage = Stage::Done,
        }
    }

    fn send_due(&mut self, now: Instant, line: &mut Line) {
        while let Some(due) = self.next_departure().filter(|due| *due <= now) {
            let index = self.packets.len();
            let bytes = self.train.departures()[index].bytes.max(PROBE_BYTES_MIN);
            self.packets.push(PacketOutcome { bytes, sent: Some(due), received: None });
            let to = if self.kind == Kind::Down { End::Client } else { End::Server };
            line.send_probe(to, (self.number, index as u32), bytes, false);
        }
    }

    fn end_sending(&mut self, now: Instant, line: &mut Line, channel: &mut Channel) {
        match self.kind {
            Kind::Up => {
                self.stage = Stage::ToServer;
                self.deadline = Some(now + self.settle + PEER_TIMEOUT);
                self.message(now, End::Server, false, (line, channel));
            }
            Kind::Down => {
                self.stage = Stage::ToClient;
                self.message(now, End::Client, true, (line, channel));
            }
            Kind::Echoed => (self.stage, self.quiet_since) = (Stage::Settling, now),
        }
    }

    fn message(&self, now: Instant, to: End, has_times: bool, (line, channel): (&mut Line, &mut Channel)) {
        let times = if has_times { self.train.departures().len() as u32 * TIME_BYTES } else { 0 };
        line.send_message(channel.send(now, to, MESSAGE_BYTES + times, self.round_trip));
    }

    fn is_complete(&self) -> bool {
        self.arrived == self.received.len()
    }

    /// Time of the next departure: as planned, but not closer to the previous one than a host can send.
    fn next_departure(&self) -> Option<Instant> {
        let planned = self.start + self.train.departures().get(self.packets.len())?.after;
        let previous = self.packets.last().and_then(|p| p.sent);
        Some(previous.map_or(planned, |at| planned.max(at + SENDER_GAP_MIN)))
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let own = match self.stage {
            Stage::Sending => self.next_departure(),
            Stage::Settling => Some(self.quiet_since + self.settle),
            // A train without packets ends as it starts.
            Stage::Done => Some(self.quiet_since),
            Stage::Requested | Stage::ToServer | Stage::ToClient => None,
        };
        own.into_iter().chain(self.deadline).min()
    }

    /// The result, once the train has ended.
    pub(super) fn ended(&mut self, now: Instant) -> Option<Ended> {
        if self.stage == Stage::Done {
            let mut packets = std::mem::take(&mut self.packets);
            packets.iter_mut().zip(&self.received).for_each(|(p, at)| p.received = *at);
            return Some(Ended::Observed(TrainObservation { packets }));
        }
        self.deadline.filter(|at| *at <= now).map(|_| Ended::Silent)
    }
}
