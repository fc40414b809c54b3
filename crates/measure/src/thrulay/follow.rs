//! Supervision of a load without a control connection that reports the state of the server.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use kernel::Received;
use results::{Direction, End, IntervalRecord, Memory, Record};
use units::{Instant, Rate};
use wire::EndSide;

use crate::load::{LoadPlan, Side, SideEvent, SideHandle, Stream};
use crate::{MeasureError, PEER_TIMEOUT};

/// Interval at which the server is checked and a stop by the user is detected.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Evidence that the server is alive.
#[derive(Clone, Copy)]
pub(super) enum Watch<'a> {
    /// TCP acknowledges data.
    Progress,
    /// The connection on which a UDP test was agreed stays open and silent.
    Control(&'a TcpStream),
}

/// Result of the load.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) sender: Option<EndSide>,
    pub(super) warnings: Vec<String>,
    /// Maximum rate of an interval.
    pub(super) best: Rate,
    pub(super) failure: Option<String>,
    pub(super) stopped: bool,
    pub(super) memory: Memory,
}

/// Starts the load and supervises it until its end.
pub(super) fn run(
    plan: &LoadPlan,
    streams: Vec<Stream>,
    watch: Watch<'_>,
    observe: &mut dyn FnMut(&Record),
    interrupted: &dyn Fn() -> usize,
) -> Result<Outcome, MeasureError> {
    let memory = Memory { client_rss_start_bytes: kernel::resident_bytes(), ..Memory::default() };
    let (outbox, inbox) = mpsc::channel();
    // Without clock exchanges the peer's clock cannot be converted; no report of the peer needs it.
    let side = Side::start(plan, End::Client, streams, Arc::new(|_| None), move |e| {
        let _ = outbox.send(e);
    })?;
    let mut follow = Follow {
        side: &side,
        inbox,
        watch,
        observe,
        interrupted,
        plan,
        give_up: plan.end().map(|e| e + plan.grace * 3 + PEER_TIMEOUT),
        last_progress: plan.start,
        got: Outcome { memory, ..Outcome::default() },
    };
    follow.run_to_end();
    follow.got.memory.client_rss_end_bytes = kernel::resident_bytes();
    Ok(follow.got)
}

struct Follow<'a> {
    side: &'a SideHandle,
    inbox: mpsc::Receiver<SideEvent>,
    watch: Watch<'a>,
    observe: &'a mut dyn FnMut(&Record),
    interrupted: &'a dyn Fn() -> usize,
    plan: &'a LoadPlan,
    give_up: Option<Instant>,
    last_progress: Instant,
    got: Outcome,
}

impl Follow<'_> {
    fn run_to_end(&mut self) {
        loop {
            self.handle_user_stop();
            self.check_time();
            self.check_server();
            match self.inbox.recv_timeout(POLL_INTERVAL) {
                Ok(SideEvent::Interval(record)) => self.handle_interval(*record),
                Ok(SideEvent::Failed { stream, reason }) => self.fail(format!("stream {stream}: {reason}")),
                Ok(SideEvent::Finished { sides, warnings }) => {
                    self.got.sender = sides.into_iter().find(|s| s.direction == Direction::Up);
                    self.got.warnings = warnings;
                    return;
                }
                // This end has no receiver, which alone takes samples; the final record contains the number of sent
                // datagrams.
                Ok(SideEvent::Samples { .. } | SideEvent::Sent { .. }) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.fail("the load's threads ended".to_owned()),
            }
        }
    }

    fn handle_user_stop(&mut self) {
        let stop_requests = (self.interrupted)();
        if stop_requests > 0 && !self.got.stopped {
            self.got.stopped = true;
            self.side.stop.gently();
            self.give_up = Some(kernel::now() + self.plan.grace * 3);
        }
        if stop_requests >= 2 {
            self.side.stop.at_once();
        }
    }

    fn check_time(&mut self) {
        if self.give_up.is_some_and(|g| kernel::now() > g) {
            self.give_up = None;
            self.fail("the test did not end in time".to_owned());
        }
    }

    fn check_server(&mut self) {
        if self.got.failure.is_some() {
            return;
        }
        let failure = match self.watch {
            Watch::Progress => self.stall(),
            Watch::Control(control) => premature_end(control),
        };
        if let Some(reason) = failure {
            self.fail(reason);
        }
    }

    /// A stalled server keeps its connections open, so only progress counts. Progress is known once per interval.
    fn stall(&self) -> Option<String> {
        let now = kernel::now();
        let is_late = self.plan.end().is_some_and(|e| now > e);
        let stall_timeout = self.plan.interval * 2 + if is_late { self.plan.grace } else { PEER_TIMEOUT };
        (now.saturating_since(self.last_progress) > stall_timeout)
            .then(|| format!("the server took no data for {:.1} s", stall_timeout.as_secs_f64()))
    }

    fn handle_interval(&mut self, record: IntervalRecord) {
        if record.bytes > 0 {
            self.last_progress = kernel::now();
        }
        self.got.best = self.got.best.max(Rate::from_bps(record.throughput_bps));
        (self.observe)(&Record::Interval(record));
    }

    fn fail(&mut self, reason: String) {
        self.got.failure.get_or_insert(reason);
        self.side.stop.at_once();
    }
}

/// The server sends nothing before the request for its report; any earlier event is its end.
fn premature_end(control: &TcpStream) -> Option<String> {
    match kernel::read_some(control, &mut [0; 64]) {
        Ok(Received::Nothing) => None,
        Ok(Received::End) => Some("the server closed the connection during the test".to_owned()),
        Ok(Received::Bytes(_)) => Some("the server reported before it was asked".to_owned()),
        Err(e) => Some(e.to_string()),
    }
}
