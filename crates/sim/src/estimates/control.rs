//! The control connection of a probing session: one message at a time, delivered reliably.

use units::{Duration, Instant};

/// Retransmission timeout of a message beyond the round trip (TCP_RTO_MIN).
const TIMEOUT_MIN: Duration = Duration::from_millis(200);
/// Retransmission timeout while the round trip is unknown (RFC 6298, 2.1).
const TIMEOUT_UNKNOWN_PATH: Duration = Duration::from_secs(1);

/// End of a probing session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Client,
    Server,
}

/// A message, as one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) number: u32,
    pub(crate) to: End,
    /// Payload in bytes.
    pub(crate) bytes: u32,
}

#[derive(Debug, Default)]
pub(super) struct Channel {
    number: u32,
    pending: Option<Pending>,
}

/// A message that has not arrived.
#[derive(Debug)]
struct Pending {
    message: Message,
    timeout: Duration,
    due: Instant,
}

impl Channel {
    /// Sends a message of the session, whose round trip is `round_trip`; zero: it is unknown.
    pub(super) fn send(&mut self, now: Instant, to: End, bytes: u32, round_trip: Duration) -> Message {
        self.number += 1;
        let message = Message { number: self.number, to, bytes };
        let timeout = if round_trip.is_zero() { TIMEOUT_UNKNOWN_PATH } else { round_trip + TIMEOUT_MIN };
        self.pending = Some(Pending { message, timeout, due: now + timeout });
        message
    }

    /// Handles a message that arrives. Returns whether it is the first copy.
    pub(super) fn handle(&mut self, number: u32) -> bool {
        self.pending.take_if(|p| p.message.number == number).is_some()
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.pending.as_ref().map(|p| p.due)
    }

    /// The message again, if its timeout has passed.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Option<Message> {
        let pending = self.pending.as_mut().filter(|p| p.due <= now)?;
        pending.timeout *= 2;
        pending.due = now + pending.timeout;
        Some(pending.message)
    }

    /// Drops the pending message: its exchange has ended.
    pub(super) fn reset(&mut self) {
        self.pending = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_message_is_repeated_with_a_timeout_that_doubles() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut channel = Channel::default();
        let sent = channel.send(at(0), End::Server, 20, Duration::from_millis(100));
        assert_eq!((channel.poll_timeout(), channel.handle_timeout(at(299))), (Some(at(300)), None));
        assert_eq!(channel.handle_timeout(at(300)), Some(sent));
        assert_eq!(channel.poll_timeout(), Some(at(900)));
        assert!(channel.handle(sent.number) && !channel.handle(sent.number), "a copy counts once");
        assert_eq!(channel.poll_timeout(), None);
    }
}
