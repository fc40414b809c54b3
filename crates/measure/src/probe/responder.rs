//! The server's side of a probing session: notes what comes, sends back what asks for it, sends what it is asked for.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Duration;

use estimate::probe::Departure;
use units::{Instant, Rate};
use wire::{MAX_TRAIN, Message, ProbeDeparture};

use super::port::{Arrival, Port};
use super::{LONGEST_TRAIN, SETTLE_MAX};
use crate::MeasureError;

/// Trains of which arrivals are kept: the one that is under way, and one that comes late.
const KEPT: usize = 4;

/// How long a look at the socket may take before messages are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(2);

pub(crate) struct Responder {
    port: Port,
    /// Bytes that may still be received and sent.
    left: u64,
    trains: BTreeMap<u16, Vec<Option<Instant>>>,
    latest: Vec<u16>,
    last_arrival: Instant,
    awaited: Option<Awaited>,
}

/// A train whose sender has told that it is complete.
#[derive(Debug, Clone, Copy)]
struct Awaited {
    train: u16,
    packets: u16,
    settle: Duration,
    told: Instant,
}

impl Responder {
    pub(crate) fn new(socket: UdpSocket, bytes: u64, ceiling: Option<Rate>) -> Self {
        Self {
            port: Port::new(socket, ceiling),
            left: bytes,
            trains: BTreeMap::new(),
            latest: Vec::new(),
            last_arrival: Instant::ZERO,
            awaited: None,
        }
    }

    /// Takes what arrives for a moment; the answer about a train, if one is due.
    ///
    /// # Errors
    /// The client sends more than was granted; the socket failed.
    pub(crate) fn serve(&mut self) -> Result<Option<Message>, MeasureError> {
        let mut arrivals = Vec::new();
        self.port.receive(LOOK_EVERY, |a| arrivals.push(a))?;
        for arrival in arrivals {
            self.charge(arrival.bytes.into())?;
            self.note(arrival)?;
        }
        Ok(self.answer())
    }

    fn charge(&mut self, bytes: u64) -> Result<(), MeasureError> {
        let over = || MeasureError::Unsupported("more probes than were granted".to_owned());
        self.left = self.left.checked_sub(bytes).ok_or_else(over)?;
        Ok(())
    }

    fn note(&mut self, arrival: Arrival) -> Result<(), MeasureError> {
        let header = arrival.header;
        if header.echo {
            self.charge(arrival.bytes.into())?;
            self.port.send_back(header, arrival.bytes)?;
            return Ok(());
        }
        if u32::from(header.index) >= MAX_TRAIN {
            return Ok(());
        }
        self.last_arrival = kernel::now();
        if !self.trains.contains_key(&header.train) {
            self.latest.push(header.train);
            if self.latest.len() > KEPT {
                self.trains.remove(&self.latest.remove(0));
            }
        }
        let times = self.trains.entry(header.train).or_default();
        let index = usize::from(header.index);
        if times.len() <= index {
            times.resize(index + 1, None);
        }
        // A copy tells nothing: the first arrival stands.
        times[index].get_or_insert(arrival.at);
        Ok(())
    }

    /// The client has sent a train.
    pub(crate) fn expect(&mut self, train: u16, packets: u16, settle: Duration) {
        self.awaited = Some(Awaited { train, packets, settle: settle.min(SETTLE_MAX), told: kernel::now() });
    }

    fn answer(&mut self) -> Option<Message> {
        let Awaited { train, packets, settle, told } = self.awaited?;
        let come = self.trains.get(&train).map_or(0, |t| t.iter().flatten().count());
        let quiet = kernel::now().saturating_since(told.max(self.last_arrival));
        if come < usize::from(packets) && quiet < settle {
            return None;
        }
        self.awaited = None;
        self.latest.retain(|t| *t != train);
        let mut times = self.trains.remove(&train).unwrap_or_default();
        times.resize(usize::from(packets), None);
        let received_ns = times.into_iter().map(|t| t.map(Instant::as_nanos)).collect();
        Some(Message::TrainArrived { train, received_ns, clock_steps: self.port.clock_steps() })
    }

    /// Sends a train that the client asks for, no faster than the ceiling, and tells when its packets left.
    ///
    /// # Errors
    /// More than was granted; the socket failed. `meanwhile` is asked in long gaps whether to go on.
    pub(crate) fn send(
        &mut self,
        train: u16,
        departures: &[ProbeDeparture],
        meanwhile: &dyn Fn() -> Result<(), MeasureError>,
    ) -> Result<Message, MeasureError> {
        let asked = departures.iter().map(|d| Departure { after: Duration::from_nanos(d.after_ns), bytes: d.bytes });
        let departures = self.port.within_ceiling(asked);
        let bytes = departures.iter().map(|d| u64::from(self.port.real_bytes(d.bytes))).sum();
        self.charge(bytes)?;
        if departures.iter().any(|d| d.after > LONGEST_TRAIN) {
            return Err(MeasureError::Unsupported("a train of more than an hour".to_owned()));
        }
        let sent = self.port.send_train(train, false, &departures, &mut |_, until| {
            while kernel::now() < until {
                meanwhile()?;
                kernel::sleep_for(until.saturating_since(kernel::now()).min(Duration::from_millis(100)));
            }
            Ok(())
        })?;
        let sent_ns = sent.into_iter().map(|t| t.map(Instant::as_nanos)).collect();
        Ok(Message::TrainDeparted { train, sent_ns })
    }
}

#[cfg(test)]
mod tests;
