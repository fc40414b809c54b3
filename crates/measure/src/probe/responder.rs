//! Server of a probing session: records arrivals, returns echoes and sends requested trains.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Duration;

use estimate::probe::{Departure, SETTLE_MAX};
use units::{Instant, Rate};
use wire::{Message, ProbeDeparture, TRAIN_PACKETS_MAX};

use super::TRAIN_DURATION_MAX;
use super::port::{Arrival, Port};
use crate::MeasureError;

/// Maximum number of trains whose arrivals are stored: the current one and late ones.
const TRAINS_MAX: usize = 4;

/// Maximum wait on the probe socket before control messages are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

pub(crate) struct Responder {
    port: Port,
    /// Probe bytes that may still be received and sent.
    left: u64,
    trains: BTreeMap<u16, Vec<Option<Instant>>>,
    latest: Vec<u16>,
    last_arrival: Instant,
    awaited: Option<Awaited>,
}

/// A train that its sender has reported as complete.
#[derive(Debug, Clone, Copy)]
struct Awaited {
    train: u16,
    packets: u16,
    settle: Duration,
    reported_at: Instant,
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

    /// Receives packets for up to 2 ms. Returns the report of a train if it is due.
    ///
    /// # Errors
    /// The client exceeds its byte limit, or the socket failed.
    pub(crate) fn serve(&mut self) -> Result<Option<Message>, MeasureError> {
        let mut arrivals = Vec::new();
        self.port.receive(POLL_INTERVAL, |a| arrivals.push(a))?;
        for arrival in arrivals {
            self.charge(arrival.bytes.into())?;
            self.record(arrival)?;
        }
        Ok(self.due_report())
    }

    fn charge(&mut self, bytes: u64) -> Result<(), MeasureError> {
        let over = || MeasureError::Unsupported("more probes than were granted".to_owned());
        self.left = self.left.checked_sub(bytes).ok_or_else(over)?;
        Ok(())
    }

    fn record(&mut self, arrival: Arrival) -> Result<(), MeasureError> {
        let header = arrival.header;
        if header.echo {
            self.charge(arrival.bytes.into())?;
            self.port.send_back(header, arrival.bytes)?;
            return Ok(());
        }
        if u32::from(header.index) >= TRAIN_PACKETS_MAX {
            return Ok(());
        }
        self.last_arrival = kernel::now();
        if !self.trains.contains_key(&header.train) {
            self.latest.push(header.train);
            if self.latest.len() > TRAINS_MAX {
                self.trains.remove(&self.latest.remove(0));
            }
        }
        let times = self.trains.entry(header.train).or_default();
        let index = usize::from(header.index);
        if times.len() <= index {
            times.resize(index + 1, None);
        }
        // Copies are ignored: the first arrival counts.
        times[index].get_or_insert(arrival.at);
        Ok(())
    }

    /// Handles the client's report that a train has been sent.
    pub(crate) fn expect(&mut self, train: u16, packets: u16, settle: Duration) {
        self.awaited = Some(Awaited { train, packets, settle: settle.min(SETTLE_MAX), reported_at: kernel::now() });
    }

    fn due_report(&mut self) -> Option<Message> {
        let Awaited { train, packets, settle, reported_at } = self.awaited?;
        let received = self.trains.get(&train).map_or(0, |t| t.iter().flatten().count());
        let quiet = kernel::now().saturating_since(reported_at.max(self.last_arrival));
        if received < usize::from(packets) && quiet < settle {
            return None;
        }
        self.awaited = None;
        self.latest.retain(|t| *t != train);
        let mut times = self.trains.remove(&train).unwrap_or_default();
        times.resize(usize::from(packets), None);
        let received_ns = times.into_iter().map(|t| t.map(Instant::as_nanos)).collect();
        Some(Message::TrainArrived { train, received_ns, clock_steps: self.port.clock_steps() })
    }

    /// Sends a train that the client requests, within the rate limit, and returns its departure times. In long gaps
    /// `meanwhile` decides whether to continue.
    ///
    /// # Errors
    /// The request exceeds the byte limit or the maximum duration, `meanwhile` failed, or the socket failed.
    pub(crate) fn send(
        &mut self,
        train: u16,
        departures: &[ProbeDeparture],
        meanwhile: &dyn Fn() -> Result<(), MeasureError>,
    ) -> Result<Message, MeasureError> {
        let requested =
            departures.iter().map(|d| Departure { after: Duration::from_nanos(d.after_ns), bytes: d.bytes });
        let departures = self.port.within_ceiling(requested);
        let bytes = departures.iter().map(|d| u64::from(self.port.ip_bytes(d.bytes))).sum();
        self.charge(bytes)?;
        if departures.iter().any(|d| d.after > TRAIN_DURATION_MAX) {
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
