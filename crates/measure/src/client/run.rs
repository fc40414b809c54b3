//! One test, from the idle path to the final record.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use estimate::ClockModel;
use results::{End, EndRecord, IntervalRecord, LoadStart, Record, Role, SCHEMA, StartRecord};
use units::Instant;
use wire::Message;

use super::clock::{Idle, exchange};
use super::connect::Session;
use super::gathered::Gathered;
use super::{ClientOptions, path_mtu, summary};
use crate::control::{ControlWriter, HANDSHAKE_TIMEOUT, Incoming, PEER_TIMEOUT, SAMPLES_IN_MESSAGE};
use crate::load::{LoadPlan, PeerClock, Side, SideEvent, SideHandle, Stream};
use crate::{MeasureError, VERSION, utc};

/// Interval of clock exchanges during the load, which also show the server that the client is alive. Between two
/// exchanges the bound of the offset grows by the unknown drift: at most 200 ppm x 0.2 s = 40 us.
const PING_INTERVAL: Duration = Duration::from_millis(200);

/// Number of exchanges after which the drift is known well enough for one exchange a second.
const FREQUENT_PINGS_MAX: u64 = 100;

/// Interval at which a stop by the user is detected.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Input of the main loop.
pub(super) enum Event {
    Control(Result<Incoming, MeasureError>),
    Side(SideEvent),
}

struct Run<'a> {
    options: &'a ClientOptions,
    writer: ControlWriter,
    inbox: mpsc::Receiver<Event>,
    model: Arc<Mutex<Option<ClockModel>>>,
    observe: &'a mut dyn FnMut(&Record),
    interrupted: &'a dyn Fn() -> usize,
    got: Gathered,
    next_ping: Instant,
    pings: u64,
}

pub(super) fn run(
    options: &ClientOptions,
    session: Session,
    observe: &mut dyn FnMut(&Record),
    interrupted: &dyn Fn() -> usize,
) -> Result<EndRecord, MeasureError> {
    let (outbox, inbox) = mpsc::channel();
    let control = outbox.clone();
    let (session, reader) = session.split()?;
    reader.spawn(move |incoming| {
        // The main loop may have ended.
        let _ = control.send(Event::Control(incoming));
    })?;
    let writer = session.writer.clone();
    let mut run = Run {
        options,
        writer: writer.clone(),
        inbox,
        model: Arc::default(),
        observe,
        interrupted,
        got: Gathered::new(),
        next_ping: kernel::now(),
        pings: 0,
    };
    let outcome = run.test(&session, &outbox);
    let _ = writer.send(&Message::Bye);
    writer.shutdown();
    outcome
}

impl Run<'_> {
    fn test(&mut self, session: &Session, outbox: &mpsc::Sender<Event>) -> Result<EndRecord, MeasureError> {
        self.got.before = self.compare_clocks()?;
        self.publish_model();
        let (sockets, streams) = session.join_all(self.options)?;
        let test_id = test_id(session);
        let start = StartRecord {
            schema: SCHEMA.to_owned(),
            test_id: test_id.clone(),
            version: VERSION.to_owned(),
            time_utc: utc::now(),
            target: self.options.host.clone(),
            title: self.options.title.clone(),
            protocol: format!("longhaul/{}", wire::NATIVE_VERSION),
            plan: session.plan.clone(),
            notes: session.notes.clone(),
            streams,
            baseline_rtt_ns: self.got.before.rtt.map(units::nanos),
            quantile_relative_error: results::RELATIVE_ERROR,
            client: kernel::host_report(VERSION, Some(session.local_ip())),
            server: Some(session.server.clone()),
        };
        (self.observe)(&Record::Start(start.clone()));
        let plan = self.start(session, &test_id)?;
        let side = self.start_side(&plan, sockets, outbox)?;
        self.follow(&plan, &side);
        self.got.memory.client_rss_end_bytes = kernel::resident_bytes();
        if self.got.failure.is_none() && !self.is_stopped_twice() {
            self.got.after = self.compare_clocks().unwrap_or_default();
            self.got.path_mtu = path_mtu::diagnose(self.options, session.address, &start, &self.got);
        }
        let end = summary::end_record(self.options, &start, &self.got);
        (self.observe)(&Record::End(end.clone()));
        Ok(end)
    }

    /// Requests the start from the server, and waits for its confirmation.
    fn start(&mut self, session: &Session, test_id: &str) -> Result<LoadPlan, MeasureError> {
        self.wait_for_start(self.options.start_at)?;
        let clock = self.model().and_then(|m| serde_json::to_value(m).ok());
        self.writer.send(&Message::Start { clock })?;
        let deadline = kernel::now() + HANDSHAKE_TIMEOUT;
        let server_start = loop {
            match self.next(deadline)? {
                Some(Event::Control(Ok(Incoming::Message(m, _)))) => match *m {
                    Message::Started { at } => break at,
                    other => return Err(MeasureError::unexpected(&self.options.host, other)),
                },
                Some(Event::Control(Err(e))) => return Err(e),
                Some(_) => {}
                None => {
                    let (peer, after) = (self.options.host.clone(), HANDSHAKE_TIMEOUT);
                    return Err(MeasureError::Silent { peer, after, during: "when asked to start" });
                }
            }
        };
        while let Some(left) =
            self.options.start_at.map(|at| at.saturating_since(kernel::now())).filter(|l| !l.is_zero())
        {
            kernel::sleep_for(left);
        }
        self.got.memory.client_rss_start_bytes = kernel::resident_bytes();
        let start = kernel::now();
        self.got.load_start = Some(LoadStart { client_ns: start.as_nanos(), server_ns: server_start.as_nanos() });
        let plan = LoadPlan::new(&session.plan, test_id, start, self.options.grace);
        Ok(LoadPlan { disk: self.options.disk.clone(), ..plan })
    }

    /// Keeps the session alive until the request to start is due for a start at `at`: one current round trip earlier.
    fn wait_for_start(&mut self, at: Option<Instant>) -> Result<(), MeasureError> {
        let Some(at) = at else { return Ok(()) };
        let mut rtt = self.got.before.rtt.unwrap_or_default();
        while kernel::now() + rtt < at && (self.interrupted)() == 0 {
            let now = kernel::now();
            if now >= self.next_ping {
                self.next_ping = now + PING_INTERVAL;
                self.writer.ping(0)?;
            }
            match self.next((at - rtt).min(self.next_ping))? {
                Some(Event::Control(Err(e))) => return Err(e),
                Some(Event::Control(Ok(Incoming::Pong(pong, received)))) => {
                    rtt = received.saturating_since(Instant::from_nanos(pong.t1));
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn start_side(
        &self,
        plan: &LoadPlan,
        sockets: Vec<Stream>,
        outbox: &mpsc::Sender<Event>,
    ) -> Result<SideHandle, MeasureError> {
        let model = Arc::clone(&self.model);
        let peer_clock: PeerClock = Arc::new(move |remote| {
            let model = (*model.lock().unwrap_or_else(PoisonError::into_inner))?;
            let local = model.to_local(remote);
            Some((local, Duration::from_nanos(model.bound_at(local))))
        });
        let out = outbox.clone();
        Ok(Side::start(plan, End::Client, sockets, peer_clock, move |e| {
            let _ = out.send(Event::Side(e));
        })?)
    }

    /// Supervises the load until both ends have reported or the test failed.
    fn follow(&mut self, plan: &LoadPlan, side: &SideHandle) {
        let mut give_up = plan.end().map(|e| e + plan.grace * 3 + PEER_TIMEOUT);
        while self.got.local.is_none() || (self.got.remote.is_none() && self.got.failure.is_none()) {
            self.handle_user_stop(plan, side, &mut give_up);
            let now = kernel::now();
            if give_up.is_some_and(|g| now > g) {
                self.fail(side, "the test did not end in time".to_owned());
                give_up = None;
            }
            if now >= self.next_ping {
                self.next_ping = now + if self.pings < FREQUENT_PINGS_MAX { PING_INTERVAL } else { PING_INTERVAL * 5 };
                self.pings += 1;
                // The reader reports a lost connection, with its reason.
                let _ = self.writer.ping(self.pings);
            }
            match self.next(now + POLL_INTERVAL) {
                Ok(Some(Event::Control(Ok(Incoming::Message(m, _))))) => self.handle_message(*m, side),
                Ok(Some(Event::Control(Ok(Incoming::Pong(pong, received))))) => {
                    self.got.clock.handle_exchange(exchange(&pong, received));
                    self.got.during += 1;
                    self.publish_model();
                    if let Some(model) = self.model().and_then(|m| serde_json::to_value(m).ok()) {
                        let _ = self.writer.send(&Message::Clock { model });
                    }
                }
                Ok(Some(Event::Control(Err(e)))) => self.fail(side, e.to_string()),
                Ok(Some(Event::Side(event))) => self.handle_side(plan, event),
                Ok(Some(Event::Control(Ok(Incoming::Pinged))) | None) => {}
                Err(e) => self.fail(side, e.to_string()),
            }
        }
    }

    fn is_stopped_twice(&self) -> bool {
        (self.interrupted)() >= 2
    }

    fn handle_user_stop(&mut self, plan: &LoadPlan, side: &SideHandle, give_up: &mut Option<Instant>) {
        if (self.interrupted)() > 0 && !self.got.stopped {
            self.got.stopped = true;
            side.stop.gently();
            let _ = self.writer.send(&Message::Stop);
            *give_up = Some(kernel::now() + plan.grace * 3);
        }
        if self.is_stopped_twice() && self.got.failure.is_none() {
            self.fail(side, "stopped at once by the user".to_owned());
        }
    }

    fn fail(&mut self, side: &SideHandle, reason: String) {
        self.got.failure.get_or_insert(reason);
        side.stop.at_once();
    }

    fn handle_message(&mut self, message: Message, side: &SideHandle) {
        match message {
            Message::Interval(mut record) => {
                side.handle_peer_interval(&record);
                self.got.judge(&mut record, self.options.link_rate);
                (self.observe)(&Record::Interval(*record));
            }
            Message::Samples { stream, samples } => side.handle_samples(stream, &samples),
            Message::Sent { stream, datagrams } => side.handle_sent(stream, datagrams),
            Message::Finished(finished) => self.got.remote = Some(*finished),
            Message::Failed { reason } => self.fail(side, format!("the server broke off: {reason}")),
            Message::Unknown => {}
            other => self.fail(side, MeasureError::unexpected(&self.options.host, other).to_string()),
        }
    }

    fn handle_side(&mut self, plan: &LoadPlan, event: SideEvent) {
        match event {
            SideEvent::Interval(mut record) => {
                self.got.judge(&mut record, self.options.link_rate);
                if record.role == Role::Receiver {
                    // The server's senders need the state of their receiver, but not its streams.
                    let brief = IntervalRecord { streams: Vec::new(), ..(*record).clone() };
                    let _ = self.writer.send(&Message::Interval(Box::new(brief)));
                }
                (self.observe)(&Record::Interval(*record));
            }
            SideEvent::Samples { stream, samples } => {
                for chunk in samples.chunks(SAMPLES_IN_MESSAGE) {
                    let _ = self.writer.send(&Message::Samples { stream, samples: chunk.to_vec() });
                }
            }
            SideEvent::Sent { stream, datagrams } => {
                let _ = self.writer.send(&Message::Sent { stream, datagrams });
            }
            // A test that continues with fewer streams is not the requested test. A failure after the planned time is a
            // warning only.
            SideEvent::Failed { stream, reason } => {
                if !self.got.stopped && plan.end().is_none_or(|end| kernel::now() < end) {
                    self.got
                        .broken
                        .get_or_insert_with(|| format!("stream {stream} broke off before its time: {reason}"));
                }
            }
            SideEvent::Finished { sides, warnings } => self.got.local = Some((sides, warnings)),
        }
    }

    fn compare_clocks(&mut self) -> Result<Idle, MeasureError> {
        let mut clock = std::mem::take(&mut self.got.clock);
        let idle = Idle::measure(&self.writer, &mut clock, &mut |deadline| match self.next(deadline)? {
            Some(Event::Control(incoming)) => incoming.map(Some),
            Some(Event::Side(_)) | None => Ok(None),
        });
        self.got.clock = clock;
        idle
    }

    fn publish_model(&mut self) {
        let model = self.got.clock.model();
        self.got.models.extend(model.map(|m| (kernel::now(), m)));
        *self.model.lock().unwrap_or_else(PoisonError::into_inner) = model;
    }

    fn model(&self) -> Option<ClockModel> {
        *self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, deadline: Instant) -> Result<Option<Event>, MeasureError> {
        match self.inbox.recv_timeout(deadline.saturating_since(kernel::now())) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(MeasureError::protocol("client", "its threads ended")),
        }
    }
}

/// Identifier of the session: unique per server, and equal in the logs of both ends.
fn test_id(session: &Session) -> String {
    session.session.iter().map(|b| format!("{b:02x}")).collect()
}
