//! The client's words with the far end, beside the probes.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use estimate::ClockEstimator;
use units::Instant;
use wire::Message;

use super::prober::{LOOK_EVERY, Prober};
use crate::MeasureError;
use crate::client::Idle;
use crate::control::{ControlWriter, HANDSHAKE_TIMEOUT, Incoming, PEER_TIMEOUT};

/// Numbers of pings that leave right behind a train, with the number of the train.
const BEHIND_TRAIN: u64 = 1 << 32;

/// How often a session without other messages is kept alive.
pub(super) const PING_EVERY: Duration = Duration::from_secs(2);

impl Prober {
    pub(super) fn keep_alive(&mut self, now: Instant, interrupted: &dyn Fn() -> bool) -> Result<(), MeasureError> {
        self.port.follow_clocks();
        look(&self.session.writer, &mut self.next_ping, now, interrupted)
    }

    /// The next message that `wanted` takes.
    pub(super) fn answer<T>(
        &mut self,
        deadline: Instant,
        interrupted: &dyn Fn() -> bool,
        wanted: &mut dyn FnMut(Message) -> Option<T>,
    ) -> Result<T, MeasureError> {
        loop {
            let incoming = self.hear(deadline, interrupted)?;
            if let Some(got) = self.taken(incoming)?.and_then(|(message, _)| wanted(message)) {
                return Ok(got);
            }
        }
    }

    /// Sends a message right behind a train, on the session's connection.
    pub(super) fn follow_train(&mut self) -> Result<(), MeasureError> {
        self.followed = None;
        self.session.writer.ping(BEHIND_TRAIN | u64::from(self.number))
    }

    /// Asks the far end whether it is there: what is missing of a train was lost only if it is.
    pub(super) fn call(&mut self, interrupted: &dyn Fn() -> bool) -> Result<(), MeasureError> {
        // The pings that keep the session alive have zero.
        let id = u64::from(self.number) + 1;
        self.session.writer.ping(id)?;
        let deadline = kernel::now() + PEER_TIMEOUT;
        loop {
            match self.hear(deadline, interrupted)? {
                Incoming::Pong(pong, _) if pong.id == id => return Ok(()),
                other => self.taken(other).map(|_| ())?,
            }
        }
    }

    /// Whatever comes next on the control connection.
    fn hear(&mut self, deadline: Instant, interrupted: &dyn Fn() -> bool) -> Result<Incoming, MeasureError> {
        loop {
            let now = kernel::now();
            if now >= deadline {
                return Err(self.silent(PEER_TIMEOUT));
            }
            self.keep_alive(now, interrupted)?;
            match self.inbox.recv_timeout(LOOK_EVERY.min(deadline.saturating_since(now))) {
                Ok(incoming) => return incoming,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.closed()),
            }
        }
    }

    /// A message that is there already, and when it came.
    pub(super) fn waiting(&mut self) -> Result<Option<(Message, Instant)>, MeasureError> {
        loop {
            match self.inbox.try_recv() {
                Ok(incoming) => {
                    if let Some(message) = self.taken(incoming?)? {
                        return Ok(Some(message));
                    }
                }
                Err(mpsc::TryRecvError::Empty) => return Ok(None),
                Err(mpsc::TryRecvError::Disconnected) => return Err(self.closed()),
            }
        }
    }

    fn taken(&mut self, incoming: Incoming) -> Result<Option<(Message, Instant)>, MeasureError> {
        match incoming {
            Incoming::Message(m, came) => match *m {
                Message::Failed { reason } => Err(MeasureError::protocol(self.peer(), reason)),
                other => Ok(Some((other, came))),
            },
            Incoming::Pong(pong, _) if pong.id == BEHIND_TRAIN | u64::from(self.number) => {
                self.followed = Some(Instant::from_nanos(pong.t2));
                Ok(None)
            }
            Incoming::Pinged | Incoming::Pong(..) => Ok(None),
        }
    }

    pub(super) fn message(&mut self, deadline: Instant, during: &'static str) -> Result<Message, MeasureError> {
        let peer = self.peer();
        self.answer(deadline, &|| false, &mut Some).map_err(|e| match e {
            MeasureError::Silent { after, .. } => MeasureError::Silent { peer, after, during },
            e => e,
        })
    }

    pub(super) fn silent(&self, after: Duration) -> MeasureError {
        MeasureError::Silent { peer: self.peer(), after, during: "while it was probed" }
    }

    fn closed(&self) -> MeasureError {
        MeasureError::Closed { peer: self.peer(), during: "while it was probed" }
    }
}

pub(super) fn look(
    writer: &ControlWriter,
    next_ping: &mut Instant,
    now: Instant,
    interrupted: &dyn Fn() -> bool,
) -> Result<(), MeasureError> {
    if interrupted() {
        return Err(MeasureError::Interrupted);
    }
    if now >= *next_ping {
        *next_ping = now + PING_EVERY;
        writer.ping(0)?;
    }
    Ok(())
}

/// Smallest round trip of the idle path.
pub(super) fn round_trip(
    writer: &ControlWriter,
    inbox: &mpsc::Receiver<Result<Incoming, MeasureError>>,
) -> Result<Duration, MeasureError> {
    let idle = Idle::measure(writer, &mut ClockEstimator::new(), &mut |until| match inbox
        .recv_timeout(until.saturating_since(kernel::now()))
    {
        Ok(incoming) => incoming.map(Some),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(None),
    })?;
    let silent = || MeasureError::Silent {
        peer: "the server".to_owned(),
        after: HANDSHAKE_TIMEOUT,
        during: "when its round trip was measured",
    };
    idle.rtt.ok_or_else(silent)
}
