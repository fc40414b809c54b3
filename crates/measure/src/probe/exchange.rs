//! Control messages of a probing client.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use estimate::ClockEstimator;
use units::Instant;
use wire::Message;

use super::prober::{POLL_INTERVAL, Prober};
use crate::MeasureError;
use crate::client::Idle;
use crate::control::{ControlWriter, HANDSHAKE_TIMEOUT, Incoming, PEER_TIMEOUT};

/// Flag in the identifier of a ping that directly follows a train; the low bits are the number of the train.
const BEHIND_TRAIN: u64 = 1 << 32;

/// Interval of keepalive pings in a session without other messages.
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);

impl Prober {
    pub(super) fn keep_alive(&mut self, now: Instant, interrupted: &dyn Fn() -> bool) -> Result<(), MeasureError> {
        self.port.follow_clocks();
        poll_keepalive(&self.session.writer, &mut self.next_ping, now, interrupted)
    }

    /// Waits until `deadline` for a message that `wanted` accepts.
    pub(super) fn await_message<T>(
        &mut self,
        deadline: Instant,
        interrupted: &dyn Fn() -> bool,
        wanted: &mut dyn FnMut(Message) -> Option<T>,
    ) -> Result<T, MeasureError> {
        loop {
            let incoming = self.receive_before(deadline, interrupted)?;
            if let Some(got) = self.accept(incoming)?.and_then(|(message, _)| wanted(message)) {
                return Ok(got);
            }
        }
    }

    /// Sends a ping on the control connection directly after the last packet of a train.
    pub(super) fn ping_after_train(&mut self) -> Result<(), MeasureError> {
        self.after_train_at = None;
        self.session.writer.ping(BEHIND_TRAIN | u64::from(self.number))
    }

    /// Verifies that the far end responds: only then do missing packets count as lost.
    pub(super) fn check_peer_alive(&mut self, interrupted: &dyn Fn() -> bool) -> Result<(), MeasureError> {
        // Keepalive pings have identifier 0.
        let id = u64::from(self.number) + 1;
        self.session.writer.ping(id)?;
        let deadline = kernel::now() + PEER_TIMEOUT;
        loop {
            match self.receive_before(deadline, interrupted)? {
                Incoming::Pong(pong, _) if pong.id == id => return Ok(()),
                other => self.accept(other).map(|_| ())?,
            }
        }
    }

    /// Returns the next input of the control connection before `deadline`.
    fn receive_before(&mut self, deadline: Instant, interrupted: &dyn Fn() -> bool) -> Result<Incoming, MeasureError> {
        loop {
            let now = kernel::now();
            if now >= deadline {
                return Err(self.silent(PEER_TIMEOUT));
            }
            self.keep_alive(now, interrupted)?;
            match self.inbox.recv_timeout(POLL_INTERVAL.min(deadline.saturating_since(now))) {
                Ok(incoming) => return incoming,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.closed()),
            }
        }
    }

    /// Returns a message that has arrived, with its arrival time.
    pub(super) fn try_receive(&mut self) -> Result<Option<(Message, Instant)>, MeasureError> {
        loop {
            match self.inbox.try_recv() {
                Ok(incoming) => {
                    if let Some(message) = self.accept(incoming?)? {
                        return Ok(Some(message));
                    }
                }
                Err(mpsc::TryRecvError::Empty) => return Ok(None),
                Err(mpsc::TryRecvError::Disconnected) => return Err(self.closed()),
            }
        }
    }

    fn accept(&mut self, incoming: Incoming) -> Result<Option<(Message, Instant)>, MeasureError> {
        match incoming {
            Incoming::Message(m, received_at) => match *m {
                Message::Failed { reason } => Err(MeasureError::protocol(self.peer(), reason)),
                other => Ok(Some((other, received_at))),
            },
            Incoming::Pong(pong, _) if pong.id == BEHIND_TRAIN | u64::from(self.number) => {
                self.after_train_at = Some(Instant::from_nanos(pong.t2));
                Ok(None)
            }
            Incoming::Pinged | Incoming::Pong(..) => Ok(None),
        }
    }

    pub(super) fn message(&mut self, deadline: Instant, during: &'static str) -> Result<Message, MeasureError> {
        let peer = self.peer();
        self.await_message(deadline, &|| false, &mut Some).map_err(|e| match e {
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

pub(super) fn poll_keepalive(
    writer: &ControlWriter,
    next_ping: &mut Instant,
    now: Instant,
    interrupted: &dyn Fn() -> bool,
) -> Result<(), MeasureError> {
    if interrupted() {
        return Err(MeasureError::Interrupted);
    }
    if now >= *next_ping {
        *next_ping = now + KEEPALIVE_INTERVAL;
        writer.ping(0)?;
    }
    Ok(())
}

/// Maximum number of groups of exchanges. Further groups replace one that a stall has delayed.
const GROUPS_MAX: usize = 4;

/// Largest plausible excess of a measured round trip over the kernel's: this factor plus this constant. A longer one
/// was delayed by a retransmission, or a proxy answers the kernel's segments.
const KERNEL_RTT_EXCESS_MAX: (u32, Duration) = (2, Duration::from_millis(1));

/// Smallest round trip of the idle path.
pub(super) fn round_trip(
    writer: &ControlWriter,
    inbox: &mpsc::Receiver<Result<Incoming, MeasureError>>,
) -> Result<Duration, MeasureError> {
    smallest_round_trip(&|| writer.kernel_round_trip(), &mut || group(writer, inbox))
}

/// Returns the smallest round trip of up to four groups. A group takes a fraction of a second on one connection, so a
/// single stall delays all its exchanges. Another group is measured only if the kernel reports a much shorter round
/// trip.
fn smallest_round_trip(
    kernel_round_trip: &dyn Fn() -> Option<Duration>,
    group: &mut dyn FnMut() -> Result<Duration, MeasureError>,
) -> Result<Duration, MeasureError> {
    let mut min = group()?;
    for _ in 1..GROUPS_MAX {
        if kernel_round_trip().is_none_or(|k| min <= k * KERNEL_RTT_EXCESS_MAX.0 + KERNEL_RTT_EXCESS_MAX.1) {
            break;
        }
        min = min.min(group()?);
    }
    Ok(min)
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

    /// Returns the round trip in ms and the number of groups measured, for the given round trip of each group in ms.
    fn measure(kernel_ms: Option<u64>, groups_ms: &[u64]) -> (u64, usize) {
        let mut made = 0;
        let mut group = || {
            made += 1;
            Ok(Duration::from_millis(groups_ms[made - 1]))
        };
        let min = smallest_round_trip(&|| kernel_ms.map(Duration::from_millis), &mut group).unwrap();
        (u64::try_from(min.as_millis()).unwrap(), made)
    }

    #[test]
    fn a_group_delayed_by_a_stall_is_measured_again() {
        // A round trip of 20 ms; a retransmission delays the first group to 1.34 s.
        assert_eq!(measure(Some(20), &[1340, 20]), (20, 2));
        assert_eq!(measure(Some(20), &[21]), (21, 1));
        assert_eq!(measure(None, &[1340]), (1340, 1));
        // A nearby proxy acknowledges the segments: the measured round trip holds after the last group.
        assert_eq!(measure(Some(1), &[50, 51, 50, 52]), (50, 4));
    }
}
