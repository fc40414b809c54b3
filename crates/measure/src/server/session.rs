//! One session of the server.

mod probes;

use std::net::SocketAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use estimate::ClockModel;
use results::{Direction, End, Role, TestPlan, Transport};
use tracing::info;
use units::{Bytes, Instant, Rate};
use wire::{EndSide, Finished, Message, RefuseCode};

use super::event::SessionEvent;
use super::registry::{ConnectionPermit, Joinable, SessionPermit};
use super::{Shared, memory_of};
use crate::control::{ControlReader, ControlWriter, HANDSHAKE_TIMEOUT, Incoming, PEER_TIMEOUT, SAMPLES_IN_MESSAGE};
use crate::load::{LoadPlan, PeerClock, Side, SideEvent, SideHandle, Stream, StreamSocket, share_of, stream_numbers};
use crate::udp::{self, Proofs, ServerStreams};
use crate::{MeasureError, VERSION, address, random};

/// Interval at which a session detects the shutdown of the server.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Time limit from the acceptance to the start: clock exchanges and joins on a slow path.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size in bytes of a client's message within a session: a batch of samples. Parsed JSON takes about twenty
/// times its length, so this limit bounds the memory that one client can occupy.
const CLIENT_MESSAGE_MAX: usize = 256 << 10;

/// Maximum number of events that wait for a session; a faster client is blocked.
const EVENTS_MAX: usize = 64;

/// Runs the handshake of a session and, if granted, the session.
#[allow(clippy::too_many_arguments, reason = "called once, with what the connection has gathered")]
pub(crate) fn run(
    shared: &Arc<Shared>,
    writer: ControlWriter,
    mut reader: ControlReader,
    peer: SocketAddr,
    local: SocketAddr,
    client_nonce: [u8; 16],
    fill: String,
    connection_permit: ConnectionPermit,
    deadline: Instant,
) -> Result<(), MeasureError> {
    writer.prioritise();
    let server_nonce = random::bytes()?;
    let key = shared.options.key.as_ref();
    writer.send(&Message::Challenge {
        software: format!("longhaul {VERSION}"),
        nonce: server_nonce,
        key_required: key.is_some(),
        fill,
    })?;
    let (plan, proof) = match reader.message(deadline, "during the handshake")? {
        Message::Request { plan, proof } => (plan, proof),
        other => return Err(MeasureError::protocol(peer, format!("unexpected message {}", other.name()))),
    };
    let granted =
        authorise(shared, &plan, proof, &client_nonce, &server_nonce).and_then(|()| admit(shared, peer, plan));
    let (plan, notes, mut permit) = match granted {
        Ok(granted) => granted,
        Err((code, reason)) => {
            log_refusal(shared, peer, code, &reason);
            return writer.send(&Message::Refuse { code, reason });
        }
    };
    drop(connection_permit);
    let name = session_name()?;
    let proofs = Arc::<Proofs>::default();
    let (outbox, inbox) = mpsc::sync_channel(EVENTS_MAX);
    let joinable = Joinable {
        plan: Arc::new(plan.clone()),
        client_nonce,
        server_nonce,
        address: peer.ip(),
        local: address::plain_ip(local.ip()),
        proofs: Arc::clone(&proofs),
        inbox: outbox.clone(),
    };
    shared.registry.open(&mut permit, name, joinable);
    writer.send(&Message::Accept {
        session: name,
        plan: plan.clone(),
        notes,
        host: kernel::host_report(VERSION, Some(address::plain_ip(local.ip()))),
        udp_port: shared.port,
        proof: key.map(|k| wire::server_proof(k, &client_nonce, &server_nonce)),
    })?;
    reader.set_message_size_max(CLIENT_MESSAGE_MAX);
    let control = outbox.clone();
    reader.spawn(move |incoming| {
        let _ = control.send(SessionEvent::Control(incoming));
    })?;
    let datagrams = ServerStreams { name, local: address::plain(local), proofs };
    let mut session = Session::new(shared, writer, inbox, outbox, plan, datagrams, peer);
    let outcome = session.serve();
    // The log line of the session contains its outcome; the connection adds nothing.
    session.close(&outcome);
    drop(session);
    drop(permit);
    kernel::release_memory();
    Ok(())
}

fn session_name() -> Result<[u8; 8], MeasureError> {
    loop {
        let name = random::bytes()?;
        if wire::is_session_name(name) {
            return Ok(name);
        }
    }
}

type Refusal = (RefuseCode, String);

fn authorise(
    shared: &Shared,
    plan: &TestPlan,
    proof: Option<[u8; 32]>,
    client_nonce: &[u8; 16],
    server_nonce: &[u8; 16],
) -> Result<(), Refusal> {
    let Some(key) = &shared.options.key else { return Ok(()) };
    let Some(proof) = proof else {
        return Err((RefuseCode::KeyRequired, "this server requires a pre-shared key".to_owned()));
    };
    let json = wire::canonical_json(plan).map_err(|e| (RefuseCode::BadRequest, e.to_string()))?;
    if wire::verify_client(key, client_nonce, server_nonce, &json, &proof) {
        Ok(())
    } else {
        Err((RefuseCode::BadKey, "the client's key is not this server's".to_owned()))
    }
}

fn log_refusal(shared: &Shared, peer: SocketAddr, code: RefuseCode, reason: &str) {
    match code {
        RefuseCode::KeyRequired | RefuseCode::BadKey => shared.log_failed_authentication(peer, reason),
        _ => shared.log_refusal(|| info!(%peer, ?code, reason, "session refused")),
    }
}

/// Returns the granted plan, its changes as text, and a permit for the session.
fn admit(shared: &Shared, peer: SocketAddr, plan: TestPlan) -> Result<(TestPlan, Vec<String>, SessionPermit), Refusal> {
    let (plan, notes) = grant(shared, plan)?;
    let permit = shared.registry.admit(peer.ip(), memory_of(&plan))?;
    Ok((plan, notes, permit))
}

/// Limits the plan to this server's limits. Returns it with the changes as text.
fn grant(shared: &Shared, mut plan: TestPlan) -> Result<(TestPlan, Vec<String>), Refusal> {
    wire::validate_plan(&plan).map_err(|e| (RefuseCode::BadRequest, e.to_string()))?;
    let duration_max = shared.options.max_duration;
    if plan.duration_ns.is_some_and(|ns| Duration::from_nanos(ns) > duration_max) {
        return Err((RefuseCode::TooLong, format!("this server allows tests of at most {} s", duration_max.as_secs())));
    }
    let mut notes = Vec::new();
    if plan.transport == Transport::Probe {
        let probe_bytes_max = shared.options.max_probe_bytes;
        if probe_bytes_max == Bytes::ZERO {
            return Err((RefuseCode::NotAllowed, "this server answers no probes".to_owned()));
        }
        if plan.bytes.is_none_or(|b| b > probe_bytes_max.as_u64()) {
            notes.push(format!("the server allows {probe_bytes_max} of probes"));
            plan.bytes = Some(probe_bytes_max.as_u64());
        }
    }
    if let Some(ceiling) = shared.options.max_rate {
        let each = Rate::from_bps(ceiling.as_bps() / u64::from(plan.streams.max(1)));
        if plan.rate_bps.is_none_or(|r| r > each.as_bps()) {
            notes.push(format!("the server allows {ceiling}: each stream is paced to {each}"));
            plan.rate_bps = Some(each.as_bps());
        }
    }
    Ok((plan, notes))
}

struct Session<'a> {
    shared: &'a Shared,
    writer: ControlWriter,
    inbox: mpsc::Receiver<SessionEvent>,
    outbox: mpsc::SyncSender<SessionEvent>,
    plan: TestPlan,
    id: String,
    peer: SocketAddr,
    model: Arc<Mutex<Option<ClockModel>>>,
    streams: Vec<Stream>,
    datagrams: ServerStreams,
    started: Instant,
    sides: Vec<EndSide>,
    rss_start: u64,
}

impl<'a> Session<'a> {
    fn new(
        shared: &'a Shared,
        writer: ControlWriter,
        inbox: mpsc::Receiver<SessionEvent>,
        outbox: mpsc::SyncSender<SessionEvent>,
        plan: TestPlan,
        datagrams: ServerStreams,
        peer: SocketAddr,
    ) -> Self {
        Self {
            shared,
            writer,
            inbox,
            outbox,
            plan,
            id: datagrams.name.iter().map(|b| format!("{b:02x}")).collect(),
            peer,
            model: Arc::default(),
            streams: Vec::new(),
            datagrams,
            started: kernel::now(),
            sides: Vec::new(),
            rss_start: kernel::resident_bytes(),
        }
    }

    fn serve(&mut self) -> Result<(), MeasureError> {
        self.gather_streams()?;
        if self.plan.transport == Transport::Probe {
            return self.answer_probes();
        }
        let (plan, side) = self.start()?;
        let outcome = self.follow(&plan, &side);
        if outcome.is_err() {
            side.stop.at_once();
            self.collect_rest();
        }
        outcome?;
        self.linger()
    }

    /// Waits for the data connections and the request to start.
    fn gather_streams(&mut self) -> Result<(), MeasureError> {
        let deadline = self.started + START_TIMEOUT;
        loop {
            match self.next(deadline)? {
                SessionEvent::Joined(stream) => self.add(stream)?,
                SessionEvent::Control(incoming) => match incoming? {
                    Incoming::Message(m, _) => match *m {
                        Message::Start { clock } => {
                            self.set_model(clock);
                            break;
                        }
                        Message::Bye => return Err(self.closed("before the start")),
                        Message::Unknown => {}
                        other => return Err(MeasureError::protocol(self.peer, format!("unexpected {}", other.name()))),
                    },
                    Incoming::Pinged | Incoming::Pong(..) => {}
                },
                SessionEvent::Side(_) => {}
            }
        }
        if udp::is_udp(&self.plan) {
            self.open_datagrams()?;
        }
        let wanted = stream_numbers(&self.plan).len();
        if self.streams.len() == wanted {
            return Ok(());
        }
        let reason = format!("{} of {wanted} data connections stand", self.streams.len());
        self.writer.send(&Message::Failed { reason: reason.clone() })?;
        Err(MeasureError::protocol(self.peer, reason))
    }

    fn add(&mut self, mut stream: StreamSocket) -> Result<(), MeasureError> {
        let planned = stream_numbers(&self.plan).contains(&(stream.stream, stream.direction));
        if !planned || self.streams.iter().any(|s| s.number() == stream.stream) {
            return Err(MeasureError::protocol(
                self.peer,
                format!("stream {} joined twice or unplanned", stream.stream),
            ));
        }
        let index = stream.stream % self.plan.streams.max(1);
        let sends = stream.direction.sender() == End::Server;
        stream.budget = self.plan.bytes.filter(|_| sends).map(|b| share_of(b, self.plan.streams, index));
        self.streams.push(Stream::Tcp(stream));
        Ok(())
    }

    fn open_datagrams(&mut self) -> Result<(), MeasureError> {
        match self.datagrams.open(&self.plan) {
            Ok(streams) => self.streams.extend(streams.into_iter().map(Stream::Udp)),
            Err(e) => {
                self.writer.send(&Message::Failed { reason: e.to_string() })?;
                return Err(e.into());
            }
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(LoadPlan, SideHandle), MeasureError> {
        self.rss_start = kernel::resident_bytes();
        let at = kernel::now();
        self.writer.send(&Message::Started { at })?;
        let mut plan = LoadPlan::new(&self.plan, &self.id, at, self.shared.options.grace);
        // The client is requested to pace itself; this limit binds clients that do not.
        plan.ceiling = plan.pacing.filter(|_| self.shared.options.max_rate.is_some());
        plan.max_silence = Some(self.shared.options.max_udp_silence);
        let model = Arc::clone(&self.model);
        // The client's model converts a client's instant to the server's clock, which is the conversion required here.
        let peer_clock: PeerClock = Arc::new(move |client| {
            let model = (*model.lock().unwrap_or_else(PoisonError::into_inner))?;
            let ns = client.as_nanos().wrapping_add_signed(model.offset_at(client));
            Some((Instant::from_nanos(ns), Duration::from_nanos(model.bound_at(client))))
        });
        let out = self.outbox.clone();
        let streams = std::mem::take(&mut self.streams);
        let side = Side::start(&plan, End::Server, streams, peer_clock, move |e| {
            let _ = out.send(SessionEvent::Side(e));
        })?;
        Ok((plan, side))
    }

    /// Supervises the load until this end's streams have ended and the report is sent.
    fn follow(&mut self, plan: &LoadPlan, side: &SideHandle) -> Result<(), MeasureError> {
        let deadline = plan.start + self.shared.options.max_duration + plan.grace;
        let give_up = plan.end().unwrap_or(deadline) + plan.grace * 3 + PEER_TIMEOUT;
        loop {
            let now = kernel::now();
            if self.shared.registry.is_aborted() {
                let reason = "the server is ending".to_owned();
                let _ = self.writer.send(&Message::Failed { reason: reason.clone() });
                return Err(MeasureError::Unsupported(reason));
            }
            if now > deadline {
                side.stop.gently();
            }
            if now > give_up {
                side.stop.at_once();
            }
            let event = match self.inbox.recv_timeout(POLL_INTERVAL) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(self.closed("during the test")),
            };
            match event {
                SessionEvent::Control(incoming) => match incoming? {
                    Incoming::Message(m, _) => self.handle_message(*m, side)?,
                    Incoming::Pinged | Incoming::Pong(..) => {}
                },
                SessionEvent::Side(SideEvent::Failed { reason, .. }) if side.stop.is_at_once() => {
                    self.writer.send(&Message::Failed { reason: reason.clone() })?;
                    return Err(MeasureError::Unsupported(reason));
                }
                SessionEvent::Side(SideEvent::Finished { sides, warnings }) => {
                    return self.report(sides, warnings);
                }
                SessionEvent::Side(event) => self.forward(event)?,
                SessionEvent::Joined(_) => {}
            }
        }
    }

    /// Collects the counts of a failed load for the log; its threads end within one of their waits.
    fn collect_rest(&mut self) {
        let give_up = kernel::now() + Duration::from_secs(2);
        while let Some(wait) = give_up.as_nanos().checked_sub(kernel::now().as_nanos()) {
            match self.inbox.recv_timeout(Duration::from_nanos(wait)) {
                Ok(SessionEvent::Side(SideEvent::Finished { sides, .. })) => {
                    self.sides = sides;
                    return;
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    fn handle_message(&self, message: Message, side: &SideHandle) -> Result<(), MeasureError> {
        match message {
            Message::Samples { stream, samples } => side.handle_samples(stream, &samples),
            Message::Interval(record) => side.handle_peer_interval(&record),
            Message::Sent { stream, datagrams } => side.handle_sent(stream, datagrams),
            Message::Clock { model } => self.set_model(Some(model)),
            Message::Stop => side.stop.gently(),
            Message::Unknown => {}
            Message::Bye => return Err(self.closed("during the test")),
            other => return Err(MeasureError::protocol(self.peer, format!("unexpected message {}", other.name()))),
        }
        Ok(())
    }

    fn forward(&self, event: SideEvent) -> Result<(), MeasureError> {
        match event {
            SideEvent::Interval(record) => self.writer.send(&Message::Interval(record)),
            SideEvent::Samples { stream, samples } => samples
                .chunks(SAMPLES_IN_MESSAGE)
                .try_for_each(|c| self.writer.send(&Message::Samples { stream, samples: c.to_vec() })),
            SideEvent::Sent { stream, datagrams } => self.writer.send(&Message::Sent { stream, datagrams }),
            SideEvent::Failed { .. } | SideEvent::Finished { .. } => Ok(()),
        }
    }

    fn report(&mut self, sides: Vec<EndSide>, warnings: Vec<String>) -> Result<(), MeasureError> {
        self.sides.clone_from(&sides);
        self.writer.send(&Message::Finished(Box::new(Finished {
            directions: sides,
            rss_start_bytes: self.rss_start,
            rss_end_bytes: kernel::resident_bytes(),
            warnings,
        })))
    }

    /// Keeps the reader answering clock exchanges until the client ends the session.
    fn linger(&self) -> Result<(), MeasureError> {
        let deadline = kernel::now() + HANDSHAKE_TIMEOUT * 2;
        while let Ok(event) = self.next(deadline) {
            match event {
                SessionEvent::Control(Ok(Incoming::Message(m, _))) if matches!(*m, Message::Bye) => break,
                SessionEvent::Control(Err(_)) => break,
                SessionEvent::Control(Ok(_)) | SessionEvent::Joined(_) | SessionEvent::Side(_) => {}
            }
        }
        Ok(())
    }

    fn set_model(&self, value: Option<serde_json::Value>) {
        // An unreadable model only removes the one-way delay of this direction.
        if let Some(model) = value.and_then(|v| serde_json::from_value(v).ok()) {
            *self.model.lock().unwrap_or_else(PoisonError::into_inner) = Some(model);
        }
    }

    fn next(&self, deadline: Instant) -> Result<SessionEvent, MeasureError> {
        loop {
            if self.shared.registry.is_aborted() {
                return Err(MeasureError::Unsupported("the server is ending".to_owned()));
            }
            let now = kernel::now();
            if now >= deadline {
                let (peer, after) = (self.peer.to_string(), deadline.saturating_since(self.started));
                return Err(MeasureError::Silent { peer, after, during: "between acceptance and start" });
            }
            match self.inbox.recv_timeout(deadline.saturating_since(now).min(POLL_INTERVAL)) {
                Ok(event) => return Ok(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.closed("between acceptance and start")),
            }
        }
    }

    fn closed(&self, during: &'static str) -> MeasureError {
        MeasureError::Closed { peer: self.peer.to_string(), during }
    }

    /// Closes the connection and logs the session in one line.
    fn close(&self, outcome: &Result<(), MeasureError>) {
        self.writer.shutdown();
        let bytes = |d, r| self.sides.iter().find(|s| s.direction == d && s.role == r).map_or(0, |s| s.totals.bytes);
        let error = outcome.as_ref().err().map(ToString::to_string);
        info!(
            session = self.id,
            client = %self.peer,
            transport = ?self.plan.transport,
            streams = self.plan.streams,
            received_bytes = bytes(Direction::Up, Role::Receiver),
            received_rate = %rate(&self.sides, Direction::Up, Role::Receiver),
            sent_bytes = bytes(Direction::Down, Role::Sender),
            sent_rate = %rate(&self.sides, Direction::Down, Role::Sender),
            lasted_s = kernel::now().saturating_since(self.started).as_secs_f64(),
            outcome = error.as_deref().unwrap_or("complete"),
            "session"
        );
    }
}

fn rate(sides: &[EndSide], direction: Direction, role: Role) -> Rate {
    sides
        .iter()
        .find(|s| s.direction == direction && s.role == role)
        .map_or(Rate::ZERO, |s| Rate::from_bps(s.totals.throughput_bps))
}
