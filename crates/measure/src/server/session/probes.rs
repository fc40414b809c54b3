//! Probing session: executes the client's requests until it ends the session or exceeds its limits.

use std::sync::mpsc;
use std::time::Duration;

use results::Direction;
use units::{Instant, Rate};
use wire::Message;

use super::Session;
use crate::MeasureError;
use crate::control::Incoming;
use crate::load::Stream;
use crate::probe::Responder;
use crate::server::event::SessionEvent;

impl Session<'_> {
    /// Serves probes until the client ends the session or exceeds its limits.
    pub(super) fn answer_probes(&mut self) -> Result<(), MeasureError> {
        let Some(Stream::Udp(stream)) = self.streams.pop() else { return Err(self.closed("before its probes")) };
        let ceiling = self.plan.rate_bps.map(Rate::from_bps);
        let mut responder = Responder::new(stream.socket, self.plan.bytes.unwrap_or(0), ceiling);
        self.writer.send(&Message::Started { at: kernel::now() })?;
        let deadline = self.started + self.shared.options.max_duration;
        loop {
            let outcome = self.probe_messages(&mut responder, deadline).and_then(|done| match done {
                true => Ok(true),
                false => {
                    responder.serve()?.map_or(Ok(()), |answer| self.writer.send(&answer))?;
                    Ok(false)
                }
            });
            match outcome {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(e) => {
                    let _ = self.writer.send(&Message::Failed { reason: e.to_string() });
                    return Err(e);
                }
            }
        }
    }

    /// Handles the waiting messages of the client. Returns whether it has ended the session.
    fn probe_messages(&self, responder: &mut Responder, deadline: Instant) -> Result<bool, MeasureError> {
        self.check_limits(deadline)?;
        loop {
            let message = match self.inbox.try_recv() {
                Ok(SessionEvent::Control(incoming)) => match incoming? {
                    Incoming::Message(m, _) => *m,
                    Incoming::Pinged | Incoming::Pong(..) => continue,
                },
                Ok(SessionEvent::Joined(_) | SessionEvent::Side(_)) => continue,
                Err(mpsc::TryRecvError::Empty) => return Ok(false),
                Err(mpsc::TryRecvError::Disconnected) => return Err(self.closed("while it was probed")),
            };
            match message {
                Message::TrainSent { train, packets, settle_ns } => {
                    responder.expect(train, packets, Duration::from_nanos(settle_ns));
                }
                Message::SendTrain { train, departures } if self.plan.directions.contains(&Direction::Down) => {
                    let departed = responder.send(train, &departures, &|| self.check_limits(deadline))?;
                    self.writer.send(&departed)?;
                }
                Message::Stop | Message::Bye => return Ok(true),
                Message::Unknown => {}
                other => return Err(MeasureError::protocol(self.peer, format!("unexpected {}", other.name()))),
            }
        }
    }

    fn check_limits(&self, deadline: Instant) -> Result<(), MeasureError> {
        if self.shared.registry.is_aborted() {
            return Err(MeasureError::Unsupported("the server is ending".to_owned()));
        }
        if kernel::now() >= deadline {
            return Err(MeasureError::Unsupported("the session is over its time".to_owned()));
        }
        Ok(())
    }
}
