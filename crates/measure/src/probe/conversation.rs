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

/// Groups of exchanges at most, for the sake of one that a stall has delayed.
const GROUPS: usize = 4;

/// How many times what the kernel saw, and how much beyond that, what hosts answer in at most: a group of exchanges that took
/// longer was held up behind a lost segment, or a proxy answers for the far end.
const HELD_UP: (u32, Duration) = (2, Duration::from_millis(1));

/// Smallest round trip of the idle path.
pub(super) fn round_trip(
    writer: &ControlWriter,
    inbox: &mpsc::Receiver<Result<Incoming, MeasureError>>,
) -> Result<Duration, MeasureError> {
    undisturbed(&|| writer.kernel_round_trip(), &mut || group(writer, inbox))
}

/// The smallest of some groups of exchanges: all of one go over one connection within a fraction of a second, so that a single stall
/// delays all of them. Another is made only where the kernel saw a much shorter round trip.
fn undisturbed(
    by_kernel: &dyn Fn() -> Option<Duration>,
    group: &mut dyn FnMut() -> Result<Duration, MeasureError>,
) -> Result<Duration, MeasureError> {
    let mut least = group()?;
    for _ in 1..GROUPS {
        if by_kernel().is_none_or(|k| least <= k * HELD_UP.0 + HELD_UP.1) {
            break;
        }
        least = least.min(group()?);
    }
    Ok(least)
}

/// Smallest round trip of one group of exchanges.
fn group(
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The round trip told and the groups that it took, of groups of so many ms in turn.
    fn told(kernel_ms: Option<u64>, groups_ms: &[u64]) -> (u64, usize) {
        let mut made = 0;
        let mut group = || {
            made += 1;
            Ok(Duration::from_millis(groups_ms[made - 1]))
        };
        let least = undisturbed(&|| kernel_ms.map(Duration::from_millis), &mut group).unwrap();
        (u64::try_from(least.as_millis()).unwrap(), made)
    }

    #[test]
    fn a_stall_during_a_group_of_exchanges_is_not_the_round_trip() {
        // 20 ms, of which the first group saw 1.34 s.
        assert_eq!(told(Some(20), &[1340, 20]), (20, 2));
        assert_eq!(told(Some(20), &[21]), (21, 1));
        assert_eq!(told(None, &[1340]), (1340, 1));
        // A proxy nearby: the far end is as far as it says, and nothing is waited for without end.
        assert_eq!(told(Some(1), &[50, 51, 50, 52]), (50, 4));
    }
}
