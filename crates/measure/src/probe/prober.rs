//! The client's side: carries out what a method asks for.

use std::net::IpAddr;
use std::sync::mpsc;
use std::time::Duration;

use estimate::probe::{Method, Outcome, PacketOutcome, Path, Step, Train, TrainObservation};
use results::Direction;
use results::estimate::Caveat;
use units::{Bytes, Instant, Rate};
use wire::Message;

use super::conversation::{PING_EVERY, round_trip};
use super::passing::Passing;
use super::port::Port;
use crate::MeasureError;
use crate::client::{ClientOptions, Opened, Session, open};
use crate::control::{HANDSHAKE_TIMEOUT, Incoming};

/// How often a stop by the user is looked for.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Largest probe unless the user says that larger ones pass: what an interface says of its own link need not hold for
/// the path.
const USUAL_MTU: u32 = 1500;

/// Distance at which a sender can send apart without sending late: a system call and two looks at the clock.
const GAP_MIN: Duration = Duration::from_micros(4);

/// Messages of the far end that may wait while a train is under way: beyond, its connection waits.
const INBOX: usize = 64;

/// How much faster than ours another clock may run: a hundred times what quartz does.
const CLOCKS: f64 = 1.01;

/// Whom to probe, and how.
#[derive(Debug)]
pub struct ProbeOptions {
    /// Host, port, key; the plan names the direction and the bytes that may be sent.
    pub client: ClientOptions,
    /// Largest packet in bytes of IP; absent: what this host's kernel knows of the path, 1500 at most.
    pub mtu: Option<u32>,
    /// What random choices of methods follow from.
    pub seed: u64,
}

/// How much a method may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of probes with headers, echoes included.
    pub bytes: u64,
    /// Time.
    pub time: Duration,
}

/// By how much a stamp of the kernel and a look at the clock may differ: much more than either errs.
const STAMPS: Duration = Duration::from_millis(1);

/// What became of a method.
#[derive(Debug)]
pub struct Run {
    /// What it found.
    pub outcome: Outcome,
    /// Packets sent, echoes included.
    pub packets: u64,
    /// Their bytes with headers.
    pub bytes: Bytes,
    /// How long it took.
    pub elapsed: Duration,
    /// What broke it off, in words.
    pub error: Option<String>,
}

/// How far a run has come.
#[derive(Debug)]
pub struct Progress {
    bounds: Bounds,
    begin: Instant,
    packets: u64,
    bytes: u64,
    passing: Passing,
    caveats: Vec<Caveat>,
    error: Option<String>,
    outcome: Option<Outcome>,
}

/// How often the clock of each end was set, when it was last looked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Steps {
    ours: u64,
    theirs: u64,
}

/// A probing session with a far end.
pub struct Prober {
    /// Only this end's half of it; the reader has a thread.
    pub(super) session: Session,
    pub(super) inbox: mpsc::Receiver<Result<Incoming, MeasureError>>,
    pub(super) port: Port,
    pub(super) path: Path,
    pub(super) down: bool,
    pub(super) number: u16,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Bytes that the server allows, all methods together.
    pub(super) granted: u64,
    pub(super) next_ping: Instant,
    /// How often the server's clock was set since the session began, by its latest word.
    pub(super) far_steps: u64,
    steps: Steps,
    /// The last packet of the train before.
    pub(super) last_packet: Instant,
    /// By how much the path has spread packets at most.
    pub(super) longest_gap: Option<Duration>,
    /// When what was sent behind the last train came to the far end, by its clock, and what all trains up to now say.
    pub(super) followed: Option<Instant>,
    pub(super) passing: Passing,
}

impl Prober {
    /// Agrees on a session, proves the address and measures the round trip of the idle path.
    ///
    /// # Errors
    /// The far end cannot be reached, is no longhaul server or an older one, or refuses.
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
        let (outbox, inbox) = mpsc::sync_channel(INBOX);
        reader.spawn(move |incoming| drop(outbox.send(incoming)))?;
        let round_trip = round_trip(&session.writer, &inbox)?;
        let stream = session.join_probes()?;
        session.writer.send(&Message::Start { clock: None })?;
        let port = Port::new(stream.socket, ceiling);
        let mtu = options.mtu.unwrap_or_else(|| port.mtu().unwrap_or(USUAL_MTU).min(USUAL_MTU));
        let path = Path { round_trip, mtu, gap_min: GAP_MIN, seed: options.seed };
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
            next_ping: now + PING_EVERY,
            far_steps: 0,
            steps: Steps::default(),
            last_packet: now,
            longest_gap: None,
            followed: None,
            passing: Passing::default(),
        };
        match prober.message(kernel::now() + HANDSHAKE_TIMEOUT, "when asked to start")? {
            Message::Started { .. } => Ok(prober),
            other => Err(MeasureError::unexpected(&prober.peer(), other)),
        }
    }

    /// What is known of the path.
    pub fn path(&self) -> Path {
        self.path
    }

    /// Address and port of the far end.
    pub fn peer(&self) -> String {
        self.session.address.to_string()
    }

    /// Addresses of the far end and of this host; `None` where the kernel does not tell the second.
    pub fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        Some((self.session.address.ip(), self.port.local()?))
    }

    /// What the server granted differently from what was asked, in words.
    pub fn notes(&self) -> &[String] {
        &self.session.notes
    }

    /// Runs a method to its end or to the bounds. What breaks in the middle, a far end that is gone or a clock that is
    /// set, is a caveat of the outcome.
    ///
    /// # Errors
    /// The user stopped (`interrupted`).
    pub fn run(
        &mut self,
        method: &mut dyn Method,
        bounds: Bounds,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Run, MeasureError> {
        let mut progress = self.begin(bounds);
        while self.step(method, &mut progress, interrupted)? {}
        Ok(self.ended(method, &progress))
    }

    /// The begin of a run that is made train by train.
    pub fn begin(&self, bounds: Bounds) -> Progress {
        let (begin, packets, bytes) = (kernel::now(), self.packets, self.bytes);
        let passing = self.passing;
        Progress { bounds, begin, packets, bytes, passing, caveats: Vec::new(), error: None, outcome: None }
    }

    /// Which share of its bounds a method has spent: of the bytes or of the time, whichever is more.
    pub fn spent(&self, progress: &Progress) -> f64 {
        let bytes = (self.bytes - progress.bytes) as f64 / progress.bounds.bytes.max(1) as f64;
        let elapsed = kernel::now().saturating_since(progress.begin);
        bytes.max(elapsed.as_secs_f64() / progress.bounds.time.as_secs_f64().max(f64::MIN_POSITIVE))
    }

    /// Carries out the next train; whether more are wanted and allowed.
    ///
    /// # Errors
    /// As [`run`](Self::run).
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
        let (spent, cost) = (self.bytes - progress.bytes, self.cost(&train));
        if spent + cost > progress.bounds.bytes || self.bytes + cost > self.granted {
            progress.caveats.push(Caveat::BudgetSpent);
            return Ok(false);
        }
        // At the rate that the server allows, which may take longer than the method meant.
        let span =
            self.port.within_ceiling(train.departures().iter().copied()).last().map_or(Duration::ZERO, |d| d.after);
        let elapsed = kernel::now().saturating_since(progress.begin);
        if elapsed.saturating_add(pause).saturating_add(span) > progress.bounds.time {
            progress.caveats.push(Caveat::TimeSpent);
            return Ok(false);
        }
        let idle = self.idle(self.last_packet + pause, interrupted);
        let sent = kernel::now();
        match idle.and_then(|()| self.carry(&train, interrupted)) {
            Ok(mut passage) => {
                let took = kernel::now().saturating_since(sent);
                let steps = Steps { ours: self.port.clock_steps(), theirs: self.far_steps };
                let before = std::mem::replace(&mut self.steps, steps);
                if let Some(caveat) = doubt(&passage, train.is_echoed(), took, before != steps) {
                    progress.caveats.push(caveat);
                    passage.packets.iter_mut().for_each(|p| p.received = None);
                }
                method.observe(&passage);
                Ok(true)
            }
            // Whatever else breaks, the path, an interface or the far end, ends the method with what it knows.
            Err(e @ MeasureError::Interrupted) => Err(e),
            Err(e) => {
                progress.caveats.push(Caveat::NoAnswer);
                progress.error = Some(e.to_string());
                Ok(false)
            }
        }
    }

    /// What came of it up to now.
    pub fn ended(&self, method: &dyn Method, progress: &Progress) -> Run {
        let outcome = progress.outcome.clone().unwrap_or_else(|| method.so_far());
        let fair = self.passing.is_fair_queueing_since(progress.passing).then_some(Caveat::FairQueueing);
        Run {
            outcome: outcome.with_caveats(progress.caveats.iter().copied().chain(fair)),
            packets: self.packets - progress.packets,
            bytes: Bytes::new(self.bytes - progress.bytes),
            elapsed: kernel::now().saturating_since(progress.begin),
            error: progress.error.clone(),
        }
    }

    /// Ends the session.
    pub fn close(self) {
        let _ = self.session.writer.send(&Message::Bye);
        self.session.writer.shutdown();
    }

    pub(super) fn cost(&self, train: &Train) -> u64 {
        let once: u64 = train.departures().iter().map(|d| u64::from(self.port.real_bytes(d.bytes))).sum();
        if train.is_echoed() { once * 2 } else { once }
    }

    /// Lets time pass until then.
    fn idle(&mut self, until: Instant, interrupted: &dyn Fn() -> bool) -> Result<(), MeasureError> {
        loop {
            let now = kernel::now();
            self.keep_alive(now, interrupted)?;
            let left = until.saturating_since(now);
            if left.is_zero() {
                // Late packets of an earlier train, and whatever else arrived, do not belong to the next.
                self.port.drain();
                return Ok(());
            }
            kernel::sleep_for(left.min(LOOK_EVERY));
        }
    }
}

/// Why the times of a train say nothing: a clock was set meanwhile, at either end, or the far end sent or received for longer than
/// there was time, whatever its clock shows, or answered before it was asked.
fn doubt(passage: &TrainObservation, is_echoed: bool, took: Duration, stepped: bool) -> Option<Caveat> {
    if stepped {
        return Some(Caveat::ClockStep);
    }
    let span = |time: fn(&PacketOutcome) -> Option<Instant>| {
        let times = || passage.packets.iter().filter_map(time);
        times().max().zip(times().min()).map_or(Duration::ZERO, |(last, first)| last.saturating_since(first))
    };
    let most = took.mul_f64(CLOCKS);
    let too_early = |f: &PacketOutcome| {
        f.sent.zip(f.received).is_some_and(|(sent, received)| sent.saturating_since(received) > STAMPS)
    };
    let is_impossible =
        span(|f| f.sent) > most || span(|f| f.received) > most || is_echoed && passage.packets.iter().any(too_early);
    is_impossible.then_some(Caveat::Implausible)
}

#[cfg(test)]
mod tests {
    use super::*;
    use estimate::probe::PacketOutcome;

    const fn at(ms: u64) -> Option<Instant> {
        Some(Instant::from_nanos(ms * 1_000_000))
    }

    const fn fate(sent: u64, received: u64) -> PacketOutcome {
        PacketOutcome { bytes: 1500, sent: at(sent), received: at(received) }
    }

    #[test]
    fn times_that_cannot_be_and_clocks_that_were_set_are_doubted() {
        let passage = TrainObservation { packets: vec![fate(0, 1000), fate(0, 1100)] };
        let of = |took, stepped| doubt(&passage, false, Duration::from_millis(took), stepped);
        assert_eq!(of(100, false), None);
        assert_eq!(of(98, false), Some(Caveat::Implausible));
        assert_eq!(of(100, true), Some(Caveat::ClockStep));
        assert_eq!(doubt(&TrainObservation::default(), false, Duration::ZERO, false), None);
        let departures = TrainObservation { packets: vec![fate(5000, 1000), fate(5200, 1050)] };
        assert_eq!(doubt(&departures, false, Duration::from_millis(100), false), Some(Caveat::Implausible));
    }

    #[test]
    fn an_answer_before_the_question_is_none() {
        let took = Duration::from_millis(500);
        let early = TrainObservation { packets: vec![fate(100, 150), fate(200, 190)] };
        assert_eq!(doubt(&early, true, took, false), Some(Caveat::Implausible));
        // One way the clocks of two hosts differ by whatever they do.
        assert_eq!(doubt(&early, false, took, false), None);
    }
}
