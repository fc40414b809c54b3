//! Transmission of one train, upstream, downstream or echoed, with the times of both ends.

use std::time::Duration;

use estimate::probe::{Departure, PacketOutcome, Train, TrainObservation, settle};
use units::Instant;
use wire::{Message, ProbeDeparture, TRAIN_NUMBERS};

use super::exchange::poll_keepalive;
use super::fair_queueing::PACKETS_MIN;
use super::port::Arrival;
use super::prober::{POLL_INTERVAL, Prober};
use crate::MeasureError;
use crate::control::PEER_TIMEOUT;

impl Prober {
    pub(super) fn run_train(
        &mut self,
        train: &Train,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<TrainObservation, MeasureError> {
        self.number = (self.number + 1) % TRAIN_NUMBERS;
        let departures = &self.port.within_ceiling(train.departures().iter().copied());
        self.bytes += self.cost(train);
        self.packets += departures.len() as u64 * if train.is_echoed() { 2 } else { 1 };
        let observation = if train.is_echoed() {
            self.send_echoed(departures, interrupted)?
        } else if self.down {
            self.request(departures, interrupted)?
        } else {
            self.send(departures, interrupted)?
        };
        self.last_train_end = kernel::now();
        self.longest_gap = self.longest_gap.max(observation.longest_added_gap());
        Ok(observation)
    }

    /// Sends a train to the server, which reports the arrival times.
    fn send(
        &mut self,
        departures: &[Departure],
        interrupted: &dyn Fn() -> bool,
    ) -> Result<TrainObservation, MeasureError> {
        let sent = self.transmit(false, departures, &mut Arrivals::of(self.number, 0), interrupted)?;
        if departures.len() >= PACKETS_MIN {
            self.ping_after_train()?;
        }
        let settle = self.settle(departures);
        let order = Message::TrainSent {
            train: self.number,
            packets: departures.len() as u16,
            settle_ns: units::nanos(settle),
        };
        self.session.writer.send(&order)?;
        let number = self.number;
        let deadline = kernel::now() + settle + PEER_TIMEOUT;
        let received = self.await_message(deadline, interrupted, &mut |m| match m {
            Message::TrainArrived { train, received_ns, clock_steps } if train == number => {
                Some((received_ns, clock_steps))
            }
            _ => None,
        })?;
        self.far_steps = received.1;
        let observation = join(self.ip_lengths(departures), &sent, &instants(&received.0));
        if let Some(received_at) = self.after_train_at.take() {
            self.fair_queueing.record(&observation, received_at);
        }
        Ok(observation)
    }

    /// Requests a train from the server, which reports the departure times.
    fn request(
        &mut self,
        departures: &[Departure],
        interrupted: &dyn Fn() -> bool,
    ) -> Result<TrainObservation, MeasureError> {
        let wanted = departures.iter().map(|d| ProbeDeparture { after_ns: units::nanos(d.after), bytes: d.bytes });
        self.session.writer.send(&Message::SendTrain { train: self.number, departures: wanted.collect() })?;
        let number = self.number;
        let mut arrivals = Arrivals::of(number, departures.len());
        let mut departed = None;
        let span = departures.last().map_or(Duration::ZERO, |d| d.after);
        let settle = self.settle(departures);
        let give_up = kernel::now() + span * 2 + settle + PEER_TIMEOUT;
        let mut quiet_since = kernel::now();
        let (sent, ping_at) = loop {
            let before = arrivals.received;
            self.port.receive(Duration::from_millis(2), |a| arrivals.record(a))?;
            let now = kernel::now();
            if arrivals.received > before {
                quiet_since = now;
            }
            while let Some((message, received_at)) = self.try_receive()? {
                if let Message::TrainDeparted { train, sent_ns } = message
                    && train == number
                {
                    departed = Some((instants(&sent_ns), received_at));
                    quiet_since = now;
                }
            }
            let is_over = arrivals.are_complete() || now.saturating_since(quiet_since) >= settle;
            if let Some(departure) = departed.take_if(|_| is_over) {
                break departure;
            }
            self.keep_alive(now, interrupted)?;
            if now >= give_up {
                return Err(self.silent(settle));
            }
        };
        let observation = join(self.ip_lengths(departures), &sent, &arrivals.times);
        self.fair_queueing.record(&observation, ping_at);
        Ok(observation)
    }

    /// Sends a train that the server echoes.
    fn send_echoed(
        &mut self,
        departures: &[Departure],
        interrupted: &dyn Fn() -> bool,
    ) -> Result<TrainObservation, MeasureError> {
        let mut arrivals = Arrivals::of(self.number, departures.len());
        let sent = self.transmit(true, departures, &mut arrivals, interrupted)?;
        let end = kernel::now() + self.settle(departures);
        while !arrivals.are_complete() {
            let now = kernel::now();
            if now >= end {
                break;
            }
            self.port.receive(end.saturating_since(now).min(POLL_INTERVAL), |a| arrivals.record(a))?;
            self.keep_alive(now, interrupted)?;
        }
        if !arrivals.are_complete() {
            self.check_peer_alive(interrupted)?;
        }
        Ok(join(self.ip_lengths(departures), &sent, &arrivals.times))
    }

    fn transmit(
        &mut self,
        echo: bool,
        departures: &[Departure],
        arrivals: &mut Arrivals,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<Option<Instant>>, MeasureError> {
        let (writer, next_ping) = (&self.session.writer, &mut self.next_ping);
        self.port.send_train(self.number, echo, departures, &mut |port, due| {
            loop {
                let now = kernel::now();
                // A wait on a socket ends up to 1 ms late; the port waits for the remaining time itself.
                let left = due.saturating_since(now).saturating_sub(Duration::from_millis(2));
                if left.is_zero() {
                    return Ok(());
                }
                port.receive(left.min(POLL_INTERVAL), |a| arrivals.record(a))?;
                poll_keepalive(writer, next_ping, now, interrupted)?;
            }
        })
    }

    /// Time to wait for late packets of a train.
    fn settle(&self, departures: &[Departure]) -> Duration {
        settle(departures, self.path.round_trip, self.longest_gap)
    }

    /// Lengths of the packets on the wire, in bytes of IP.
    fn ip_lengths(&self, departures: &[Departure]) -> Vec<u32> {
        departures.iter().map(|d| self.port.ip_bytes(d.bytes)).collect()
    }
}

fn instants(times: &[Option<u64>]) -> Vec<Option<Instant>> {
    times.iter().map(|t| t.map(Instant::from_nanos)).collect()
}

/// First arrival of each packet of a train. Its size is fixed, whatever number of packets arrives.
struct Arrivals {
    train: u16,
    times: Vec<Option<Instant>>,
    received: usize,
}

impl Arrivals {
    fn of(train: u16, packets: usize) -> Self {
        Self { train, times: vec![None; packets], received: 0 }
    }

    fn record(&mut self, a: Arrival) {
        let time = self.times.get_mut(usize::from(a.header.index)).filter(|_| a.header.train == self.train);
        if let Some(time @ None) = time {
            *time = Some(a.at);
            self.received += 1;
        }
    }

    fn are_complete(&self) -> bool {
        self.received == self.times.len()
    }
}

/// Joins the times of both ends. Packets beyond the times that the far end reports count as lost.
fn join(bytes: Vec<u32>, sent: &[Option<Instant>], received: &[Option<Instant>]) -> TrainObservation {
    let outcome = |(i, bytes)| PacketOutcome {
        bytes,
        sent: sent.get(i).copied().flatten(),
        received: received.get(i).copied().flatten(),
    };
    TrainObservation { packets: bytes.into_iter().enumerate().map(outcome).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ProbeHeader;

    #[test]
    fn copies_and_foreign_packets_do_not_complete_a_train() {
        let mut arrivals = Arrivals::of(7, 2);
        let from = |train, index, ms| Arrival {
            header: ProbeHeader { train, index, echo: false },
            at: Instant::ZERO + Duration::from_millis(ms),
            bytes: 1500,
        };
        for n in 0..1000 {
            arrivals.record(from(6, 0, n));
            arrivals.record(from(7, 2, n));
            arrivals.record(from(7, 1, 5 + n));
        }
        assert_eq!((arrivals.received, arrivals.times.len(), arrivals.are_complete()), (1, 2, false));
        assert_eq!(
            arrivals.times[1],
            Some(Instant::ZERO + Duration::from_millis(5)),
            "a copy does not change the arrival time"
        );
        arrivals.record(from(7, 0, 9));
        assert!(arrivals.are_complete());
    }
}
