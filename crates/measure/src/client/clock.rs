//! Clock exchanges over the control connection: on the idle path before and after the load, less frequent during it.

use std::time::Duration;

use estimate::{ClockEstimator, Exchange};
use units::Instant;
use wire::{ClockPong, Message};

use crate::MeasureError;
use crate::control::{ControlWriter, Incoming};

/// Number of exchanges before and after the load: the minimum of their round trips belongs to an idle moment of both
/// hosts.
const IDLE_EXCHANGES: u64 = 24;

/// Gap between these exchanges: a short stall of a host delays few of them.
const IDLE_GAP: Duration = Duration::from_millis(10);

/// Time limit of the idle exchanges.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Timestamps of an answered ping.
pub(crate) fn exchange(pong: &ClockPong, received: Instant) -> Exchange {
    Exchange {
        local_send: Instant::from_nanos(pong.t1),
        remote_receive: Instant::from_nanos(pong.t2),
        remote_send: Instant::from_nanos(pong.t3),
        local_receive: received,
    }
}

/// Result of the exchanges on the idle path.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Idle {
    /// Number of answered exchanges.
    pub(crate) answered: u64,
    /// Minimum round trip, without the server's processing time.
    pub(crate) rtt: Option<Duration>,
}

impl Idle {
    /// Exchanges pings on the idle path. `next` returns the next input, or `None` at its deadline.
    pub(crate) fn measure(
        writer: &ControlWriter,
        clock: &mut ClockEstimator,
        next: &mut dyn FnMut(Instant) -> Result<Option<Incoming>, MeasureError>,
    ) -> Result<Self, MeasureError> {
        let start = kernel::now();
        let give_up = start + IDLE_TIMEOUT;
        let mut idle = Self::default();
        let mut sent = 0;
        while idle.answered < IDLE_EXCHANGES {
            let now = kernel::now();
            if now >= give_up {
                break;
            }
            let due = start + IDLE_GAP * sent as u32;
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
