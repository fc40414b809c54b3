//! Client of a probing session: executes the steps of estimation methods.

use std::net::IpAddr;
use std::sync::mpsc;
use std::time::Duration;

use estimate::probe::{
    Bounds, Method, Outcome, PacketOutcome, Path, Run, SENDER_GAP_MIN, Step, Train, TrainObservation,
};
use results::Direction;
use results::estimate::Caveat;
use units::{Bytes, Instant, Rate};
use wire::Message;

use super::exchange::{KEEPALIVE_INTERVAL, round_trip};
use super::fair_queueing::FairQueueingDetector;
use super::port::Port;
use crate::MeasureError;
use crate::client::{ClientOptions, Opened, Session, open};
use crate::control::{HANDSHAKE_TIMEOUT, Incoming};

/// Interval at which a stop by the user is detected.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum probe in bytes unless the user allows larger ones: the MTU of the local interface may exceed the path MTU.
const DEFAULT_MTU: u32 = 1500;

/// Maximum number of received messages that wait for processing during a train; TCP flow control stops further ones.
const INBOX_MESSAGES_MAX: usize = 64;

/// Maximum rate of the far end's clock relative to the local one: a hundred times the tolerance of a quartz.
const CLOCK_RATE_RATIO_MAX: f64 = 1.01;

/// Server and parameters of a probing session.
#[derive(Debug)]
pub struct ProbeOptions {
    /// Host, port and key. The plan contains the direction and the limit of probe bytes.
    pub client: ClientOptions,
    /// Maximum packet in bytes of IP; absent: the path MTU that the kernel knows, at most 1500.
    pub mtu: Option<u32>,
    /// Seed of the random choices of methods.
    pub seed: u64,
}

/// Maximum difference between a kernel timestamp and a read of the clock: much more than the error of either.
const STAMP_ERROR_MAX: Duration = Duration::from_millis(1);

/// State of a running method.
#[derive(Debug)]
pub struct Progress {
    bounds: Bounds,
    start: Instant,
    packets: u64,
    bytes: u64,
    fair_queueing: FairQueueingDetector,
    caveats: Vec<Caveat>,
    error: Option<String>,
    outcome: Option<Outcome>,
}

/// Steps of the wall clock of each end, at the last comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Steps {
    ours: u64,
    theirs: u64,
}

/// A probing session with a far end.
pub struct Prober {
    /// Writing half of the session; a thread reads the other half.
    pub(super) session: Session,
    pub(super) inbox: mpsc::Receiver<Result<Incoming, MeasureError>>,
    pub(super) port: Port,
    pub(super) path: Path,
    pub(super) down: bool,
    pub(super) number: u16,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Limit of probe bytes that the server granted for all methods together.
    pub(super) granted: u64,
    pub(super) next_ping: Instant,
    /// Steps of the server's clock since the session started, as last reported.
    pub(super) far_steps: u64,
    steps: Steps,
    /// End of the previous train.
    pub(super) last_train_end: Instant,
    /// Largest gap that the path has caused between two packets of a train.
    pub(super) longest_gap: Option<Duration>,
    /// Arrival time of the ping behind the last train, by the clock of the far end.
    pub(super) after_train_at: Option<Instant>,
    pub(super) fair_queueing: FairQueueingDetector,
}

impl Prober {
    /// Agrees on a session, validates the address and measures the round trip of the idle path.
    ///
    /// # Errors
    /// The far end is unreachable, is not a longhaul server of this version, or refuses the session.
    pub fn open(options: &ProbeOptions) -> Result<Self, MeasureError> {
        wire::validate_plan(&options.client.plan)?;
        let session = match open(&options.client)? {
            Opened::Native(session) => *session,
            Opened::Thrulay(address) => {
                return Err(MeasureError::Unsupported(format!(
                    "{address} is a thrulay server, which answers no probes; run `longhaul serve` there"
                )));
            }
        };
        let granted = session.plan.bytes.unwrap_or(0);
        let ceiling = session.plan.rate_bps.map(Rate::from_bps);
        let down = session.plan.directions.contains(&Direction::Down);
        let (session, reader) = session.split()?;
        let (outbox, inbox) = mpsc::sync_channel(INBOX_MESSAGES_MAX);
        reader.spawn(move |incoming| drop(outbox.send(incoming)))?;
        let round_trip = round_trip(&session.writer, &inbox)?;
        let stream = session.join_probes()?;
        session.writer.send(&Message::Start { clock: None })?;
        let port = Port::new(stream.socket, ceiling);
        let mtu = options.mtu.unwrap_or_else(|| port.mtu().unwrap_or(DEFAULT_MTU).min(DEFAULT_MTU));
        let path = Path { round_trip, mtu, gap_min: SENDER_GAP_MIN, seed: options.seed };
        let now = kernel::now();
        let mut prober = Self {
            session,
            inbox,
            port,
            path,
            down,
            number: 0,
            packets: 0,
            bytes: 0,
            granted,
            next_ping: now + KEEPALIVE_INTERVAL,
            far_steps: 0,
            steps: Steps::default(),
            last_train_end: now,
            longest_gap: None,
            after_train_at: None,
            fair_queueing: FairQueueingDetector::default(),
        };
        match prober.message(kernel::now() + HANDSHAKE_TIMEOUT, "when asked to start")? {
            Message::Started { .. } => Ok(prober),
            other => Err(MeasureError::unexpected(&prober.peer(), other)),
        }
    }

    /// Path parameters for the methods.
    pub fn path(&self) -> Path {
        self.path
    }

    /// Address and port of the far end.
    pub fn peer(&self) -> String {
        self.session.address.to_string()
    }

    /// Addresses of the far end and of this host; `None` if the kernel does not return the local one.
    pub fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        Some((self.session.address.ip(), self.port.local()?))
    }

    /// Differences between the requested and the granted session, as text.
    pub fn notes(&self) -> &[String] {
        &self.session.notes
    }

    /// Runs a method until it is done or its budget is spent. A failure during the run, such as an unreachable far end
    /// or a step of a clock, becomes a caveat of the outcome.
    ///
    /// # Errors
    /// The user stopped the run (`interrupted`).
    pub fn run(
        &mut self,
        method: &mut dyn Method,
        bounds: Bounds,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Run, MeasureError> {
        let mut progress = self.start(bounds);
        while self.step(method, &mut progress, interrupted)? {}
        Ok(self.result(method, &progress))
    }

    /// Starts a run that [`step`](Self::step) continues train by train.
    pub fn start(&self, bounds: Bounds) -> Progress {
        let (start, packets, bytes) = (kernel::now(), self.packets, self.bytes);
        let fair_queueing = self.fair_queueing;
        Progress { bounds, start, packets, bytes, fair_queueing, caveats: Vec::new(), error: None, outcome: None }
    }

    /// Spent share of the budget: of the bytes or of the time, whichever is larger.
    pub fn spent(&self, progress: &Progress) -> f64 {
        let bytes = (self.bytes - progress.bytes) as f64 / progress.bounds.bytes.max(1) as f64;
        let elapsed = kernel::now().saturating_since(progress.start);
        bytes.max(elapsed.as_secs_f64() / progress.bounds.time.as_secs_f64().max(f64::MIN_POSITIVE))
    }

    /// Sends the next train. Returns whether the method needs further trains within its budget.
    ///
    /// # Errors
    /// The user stopped the run (`interrupted`).
    pub fn step(
        &mut self,
        method: &mut dyn Method,
        progress: &mut Progress,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<bool, MeasureError> {
        let (train, pause) = match method.next() {
            Step::Done(outcome) => {
                progress.outcome = Some(outcome);
                return Ok(false);
            }
            Step::Send { train, pause } => (train, pause),
        };
        // The rate limit of the server can lengthen the train.
        let span =
            self.port.within_ceiling(train.departures().iter().copied()).last().map_or(Duration::ZERO, |d| d.after);
        let elapsed = kernel::now().saturating_since(progress.start);
        let (spent, cost) = (self.bytes - progress.bytes, self.cost(&train));
        let over_grant = (self.bytes + cost > self.granted).then_some(Caveat::BudgetSpent);
        let end = elapsed.saturating_add(pause).saturating_add(span);
        if let Some(caveat) = over_grant.or_else(|| progress.bounds.exceeded(spent, cost, end)) {
            if caveat == Caveat::BudgetSpent && spent == 0 {
                let left = progress.bounds.bytes.min(self.granted.saturating_sub(self.bytes));
                progress.error =
                    Some(format!("the first packet train needs {cost} bytes; the budget leaves {left} bytes"));
            }
            progress.caveats.push(caveat);
            return Ok(false);
        }
        let idle = self.idle(self.last_train_end + pause, interrupted);
        let sent = kernel::now();
        match idle.and_then(|()| self.run_train(&train, interrupted)) {
            Ok(mut observation) => {
                let took = kernel::now().saturating_since(sent);
                let steps = Steps { ours: self.port.clock_steps(), theirs: self.far_steps };
                let before = std::mem::replace(&mut self.steps, steps);
                if let Some(caveat) = find_caveat(&observation, train.is_echoed(), took, before != steps) {
                    progress.caveats.push(caveat);
                    observation.packets.iter_mut().for_each(|p| p.received = None);
                }
                method.observe(&observation);
                Ok(true)
            }
            // Any other failure, of the path, an interface or the far end, ends the method with its estimate so far.
            Err(e @ MeasureError::Interrupted) => Err(e),
            Err(e) => {
                progress.caveats.push(Caveat::NoAnswer);
                progress.error = Some(e.to_string());
                Ok(false)
            }
        }
    }

    /// Result of a run up to now.
    pub fn result(&self, method: &dyn Method, progress: &Progress) -> Run {
        let outcome = progress.outcome.clone().unwrap_or_else(|| method.so_far());
        let fair = self.fair_queueing.is_fair_queueing_since(progress.fair_queueing).then_some(Caveat::FairQueueing);
        Run {
            outcome: outcome.with_caveats(progress.caveats.iter().copied().chain(fair)),
            packets: self.packets - progress.packets,
            bytes: Bytes::new(self.bytes - progress.bytes),
            elapsed: kernel::now().saturating_since(progress.start),
            error: progress.error.clone(),
        }
    }

    /// Ends the session.
    pub fn close(self) {
        let _ = self.session.writer.send(&Message::Bye);
        self.session.writer.shutdown();
    }

    pub(super) fn cost(&self, train: &Train) -> u64 {
        let once: u64 = train.departures().iter().map(|d| u64::from(self.port.ip_bytes(d.bytes))).sum();
        if train.is_echoed() { once * 2 } else { once }
    }

    /// Keeps the session alive until `until`.
    fn idle(&mut self, until: Instant, interrupted: &dyn Fn() -> bool) -> Result<(), MeasureError> {
        loop {
            let now = kernel::now();
            self.keep_alive(now, interrupted)?;
            let left = until.saturating_since(now);
            if left.is_zero() {
                // Late packets of an earlier train do not belong to the next one.
                self.port.drain();
                return Ok(());
            }
            kernel::sleep_for(left.min(POLL_INTERVAL));
        }
    }
}

/// Caveat of a train with invalid times: a clock was stepped, the packets span more time than elapsed on this host, or
/// an echo arrived before its probe was sent.
fn find_caveat(observation: &TrainObservation, is_echoed: bool, took: Duration, stepped: bool) -> Option<Caveat> {
    if stepped {
        return Some(Caveat::ClockStep);
    }
    let span = |time: fn(&PacketOutcome) -> Option<Instant>| {
        let times = || observation.packets.iter().filter_map(time);
        times().max().zip(times().min()).map_or(Duration::ZERO, |(last, first)| last.saturating_since(first))
    };
    let span_max = took.mul_f64(CLOCK_RATE_RATIO_MAX);
    let too_early = |f: &PacketOutcome| {
        f.sent.zip(f.received).is_some_and(|(sent, received)| sent.saturating_since(received) > STAMP_ERROR_MAX)
    };
    let is_impossible = span(|f| f.sent) > span_max
        || span(|f| f.received) > span_max
        || is_echoed && observation.packets.iter().any(too_early);
    is_impossible.then_some(Caveat::Implausible)
}

#[cfg(test)]
mod tests {
    use super::*;
    use estimate::probe::PacketOutcome;

    const fn at(ms: u64) -> Option<Instant> {
        Some(Instant::from_nanos(ms * 1_000_000))
    }

    const fn outcome(sent: u64, received: u64) -> PacketOutcome {
        PacketOutcome { bytes: 1500, sent: at(sent), received: at(received) }
    }

    #[test]
    fn impossible_times_and_clock_steps_are_caveats() {
        let observation = TrainObservation { packets: vec![outcome(0, 1000), outcome(0, 1100)] };
        let of = |took, stepped| find_caveat(&observation, false, Duration::from_millis(took), stepped);
        assert_eq!(of(100, false), None);
        assert_eq!(of(98, false), Some(Caveat::Implausible));
        assert_eq!(of(100, true), Some(Caveat::ClockStep));
        assert_eq!(find_caveat(&TrainObservation::default(), false, Duration::ZERO, false), None);
        let departures = TrainObservation { packets: vec![outcome(5000, 1000), outcome(5200, 1050)] };
        assert_eq!(find_caveat(&departures, false, Duration::from_millis(100), false), Some(Caveat::Implausible));
    }

    #[test]
    fn an_echo_before_its_probe_is_implausible() {
        let took = Duration::from_millis(500);
        let early = TrainObservation { packets: vec![outcome(100, 150), outcome(200, 190)] };
        assert_eq!(find_caveat(&early, true, took, false), Some(Caveat::Implausible));
        // One-way times of two hosts differ by an arbitrary clock offset.
        assert_eq!(find_caveat(&early, false, took, false), None);
    }
}
