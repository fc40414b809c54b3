//! Clock exchanges over the control connection: idle before the load, sparse during it, idle after it.

use std::time::Duration;

use estimate::{ClockEstimator, Exchange};
use units::Instant;
use wire::{ClockPong, Message};

use crate::MeasureError;
use crate::control::{ControlWriter, Incoming};

/// Exchanges before and after the load: the smallest of so many round trips finds an idle moment of both hosts.
const IDLE_EXCHANGES: u64 = 24;

/// Gap between them: far enough apart that one hiccup of a host spoils few.
const IDLE_GAP: Duration = Duration::from_millis(10);

/// Longest wait for the answers to the idle exchanges.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// The pure record of an answered ping.
pub(crate) fn exchange(pong: &ClockPong, received: Instant) -> Exchange {
    Exchange {
        local_send: Instant::from_nanos(pong.t1),
        remote_receive: Instant::from_nanos(pong.t2),
        remote_send: Instant::from_nanos(pong.t3),
        local_receive: received,
    }
}

/// What the idle path told.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Idle {
    /// Exchanges answered.
    pub(crate) answered: u64,
    /// Smallest round trip, the server's turnaround taken off.
    pub(crate) rtt: Option<Duration>,
}

impl Idle {
    /// Pings while nothing else is under way. `next` waits for what arrives, at most until its argument.
    pub(crate) fn measure(
        writer: &ControlWriter,
        clock: &mut ClockEstimator,
        next: &mut dyn FnMut(Instant) -> Result<Option<Incoming>, MeasureError>,
    ) -> Result<Self, MeasureError> {
        let begin = kernel::now();
        let give_up = begin + IDLE_TIMEOUT;
        let mut idle = Self::default();
        let mut sent = 0;
        while idle.answered < IDLE_EXCHANGES {
            let now = kernel::now();
            if now >= give_up {
                break;
            }
            let due = begin + IDLE_GAP * sent as u32;
            if sent < IDLE_EXCHANGES && now >= due {
                writer.ping(sent)?;
                sent += 1;
                continue;
            }
            let until = if sent < IDLE_EXCHANGES { due.min(give_up) } else { give_up };
            match next(until)? {
                Some(Incoming::Pong(pong, received)) => idle.count(&exchange(&pong, received), clock),
                Some(Incoming::Message(m, _)) if !matches!(*m, Message::Unknown) => {
                    return Err(MeasureError::unexpected("server", *m));
                }
                Some(Incoming::Message(..) | Incoming::Pinged) | None => {}
            }
        }
        Ok(idle)
    }

    fn count(&mut self, x: &Exchange, clock: &mut ClockEstimator) {
        let turnaround = x.remote_send.saturating_since(x.remote_receive);
        let rtt = x.local_receive.saturating_since(x.local_send).saturating_sub(turnaround);
        self.rtt = Some(self.rtt.map_or(rtt, |b| b.min(rtt)));
        self.answered += 1;
        clock.handle_exchange(*x);
    }
}
