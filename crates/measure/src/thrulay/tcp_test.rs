//! A TCP test with a thrulay server: the native sender, and what is left of the records without the server's view.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use results::{Direction, End, EndRecord, IntervalRecord, Memory, Record, Role};
use units::{Bytes, Instant, Rate};
use wire::EndSide;

use super::open::{self, Links};
use super::summary;
use crate::client::{ClientOptions, Gathered, end_record};
use crate::load::{LoadPlan, Side, SideEvent, SideHandle, Stream};
use crate::{MeasureError, PEER_TIMEOUT};

/// How often a stop by the user is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) fn run(
    options: &ClientOptions,
    target: SocketAddr,
    observe: &mut dyn FnMut(&Record),
    interrupted: &dyn Fn() -> usize,
) -> Result<EndRecord, MeasureError> {
    let links = open::open_all(options, target)?;
    // Before the load the smallest round trip of a connection is that of its handshake or of the proposal.
    let states = links.sockets.iter().filter_map(|s| kernel::tcp_state(&s.socket).ok()?.min_rtt_ns);
    let baseline = states.min().map(Duration::from_nanos);
    let notes = notes(options, &links);
    let start = summary::start_record(options, links.plan, notes, links.starts, baseline)?;
    observe(&Record::Start(start.clone()));
    let mut memory = Memory { client_rss_start_bytes: kernel::resident_bytes(), ..Memory::default() };
    let plan = LoadPlan::new(&start.plan, &start.test_id, kernel::now(), options.grace);
    let (outbox, inbox) = mpsc::channel();
    // There is no peer clock to convert, and no sample of the peer that would need it.
    let streams = links.sockets.into_iter().map(Stream::Tcp).collect();
    let side = Side::start(&plan, End::Client, streams, Arc::new(|_| None), move |e| {
        let _ = outbox.send(e);
    })?;
    let mut follow = Follow::new(&plan, &side, inbox, observe, interrupted);
    follow.until_the_end();
    memory.client_rss_end_bytes = kernel::resident_bytes();
    let Outcome { sender, warnings, best, failure, stopped } = follow.got;
    let sender = sender.unwrap_or_else(|| summary::empty_side(Role::Sender));
    let receiver = summary::echoed(&sender, Bytes::new(start.plan.block_bytes));
    let explanation = explanation(&sender, &receiver);
    let got = Gathered::without_control(baseline, best, sender, receiver).ended(failure, stopped, warnings, memory);
    let mut end = end_record(options, &start, &got);
    summary::settle_agreement(&mut end, Some(explanation));
    observe(&Record::End(end.clone()));
    Ok(end)
}

/// What the older protocol costs, and what the server changed.
fn notes(options: &ClientOptions, links: &Links) -> Vec<String> {
    let mut notes = summary::common_notes();
    notes.push(
        "the server reports nothing of what it received: a block whose header came back counts as received, the \
         receiver's application stage and the ramp-up are missing"
            .to_owned(),
    );
    let (asked, granted) = (Bytes::new(options.plan.block_bytes), links.terms.block);
    if asked != granted {
        notes.push(format!("the server takes blocks of {granted} instead of {asked}"));
    }
    let window = links.terms.window;
    match options.plan.window_bytes.map(Bytes::new) {
        None => {
            let asked = open::DEFAULT_WINDOW;
            notes.push(format!(
                "thrulay servers do not autotune their buffers: asked for {asked}, the server set {window}"
            ));
        }
        Some(asked) if window < asked => {
            notes.push(format!("the server granted buffers of {window}, below the window of {asked}"));
        }
        Some(_) => {}
    }
    notes
}

fn explanation(sender: &EndSide, receiver: &EndSide) -> String {
    let echoed: u64 = receiver.streams.iter().map(|s| s.blocks).sum();
    let (sent, confirmed) = (sender.totals.bytes, receiver.totals.bytes);
    format!(
        "not compared: the server's count is not available with thrulay; {echoed} blocks came back, which leaves {} of \
         {} sent unconfirmed",
        Bytes::new(sent.saturating_sub(confirmed)),
        Bytes::new(sent)
    )
}

/// What the load tells until it ends.
#[derive(Default)]
struct Outcome {
    sender: Option<EndSide>,
    warnings: Vec<String>,
    best: Rate,
    failure: Option<String>,
    stopped: bool,
}

struct Follow<'a> {
    side: &'a SideHandle,
    inbox: mpsc::Receiver<SideEvent>,
    observe: &'a mut dyn FnMut(&Record),
    interrupted: &'a dyn Fn() -> usize,
    grace: Duration,
    give_up: Option<Instant>,
    /// Planned end of the load.
    end: Option<Instant>,
    interval: Duration,
    moved: Instant,
    got: Outcome,
}

impl<'a> Follow<'a> {
    fn new(
        plan: &LoadPlan,
        side: &'a SideHandle,
        inbox: mpsc::Receiver<SideEvent>,
        observe: &'a mut dyn FnMut(&Record),
        interrupted: &'a dyn Fn() -> usize,
    ) -> Self {
        Self {
            side,
            inbox,
            observe,
            interrupted,
            grace: plan.grace,
            give_up: plan.end().map(|e| e + plan.grace * 3 + PEER_TIMEOUT),
            end: plan.end(),
            interval: plan.interval,
            moved: plan.start,
            got: Outcome::default(),
        }
    }

    fn until_the_end(&mut self) {
        loop {
            self.heed_user();
            self.check_time();
            match self.inbox.recv_timeout(LOOK_EVERY) {
                Ok(SideEvent::Interval(record)) => self.handle_interval(*record),
                Ok(SideEvent::Failed { stream, reason }) => self.fail(format!("stream {stream}: {reason}")),
                Ok(SideEvent::Finished { sides, warnings }) => {
                    self.got.sender = sides.into_iter().find(|s| s.direction == Direction::Up);
                    self.got.warnings = warnings;
                    return;
                }
                // Only receivers take samples and only UDP senders count datagrams; this end has neither.
                Ok(SideEvent::Samples { .. } | SideEvent::Sent { .. }) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.fail("the load's threads ended".to_owned()),
            }
        }
    }

    fn heed_user(&mut self) {
        let asked = (self.interrupted)();
        if asked > 0 && !self.got.stopped {
            self.got.stopped = true;
            self.side.stop.gently();
            self.give_up = Some(kernel::now() + self.grace * 3);
        }
        if asked >= 2 {
            self.side.stop.at_once();
        }
    }

    /// No control connection tells that the server is gone; a server that reads no more keeps its connections open.
    fn check_time(&mut self) {
        let now = kernel::now();
        if self.give_up.is_some_and(|g| now > g) {
            self.give_up = None;
            self.fail("the test did not end in time".to_owned());
        }
        // Progress shows once an interval.
        let is_late = self.end.is_some_and(|e| now > e);
        let patience = self.interval * 2 + if is_late { self.grace } else { PEER_TIMEOUT };
        if self.got.failure.is_none() && now.saturating_since(self.moved) > patience {
            self.fail(format!("the server took no data for {:.1} s", patience.as_secs_f64()));
        }
    }

    fn handle_interval(&mut self, record: IntervalRecord) {
        if record.bytes > 0 {
            self.moved = kernel::now();
        }
        self.got.best = self.got.best.max(Rate::from_bps(record.throughput_bps));
        (self.observe)(&Record::Interval(record));
    }

    fn fail(&mut self, reason: String) {
        self.got.failure.get_or_insert(reason);
        self.side.stop.at_once();
    }
}
