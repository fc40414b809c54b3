//! One train, there or from there or there and back, with the times of both ends.

use std::time::Duration;

use estimate::probe::{Departure, PacketOutcome, Train, TrainObservation};
use units::Instant;
use wire::{Message, ProbeDeparture, TRAIN_NUMBERS};

use super::conversation::look;
use super::passing::PACKETS_MIN;
use super::port::Arrival;
use super::prober::{LOOK_EVERY, Prober};
use super::{FIRST_SETTLE, SETTLE, SETTLE_MAX};
use crate::MeasureError;
use crate::control::PEER_TIMEOUT;

impl Prober {
    pub(super) fn carry(
        &mut self,
        train: &Train,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<TrainObservation, MeasureError> {
        self.number = (self.number + 1) % TRAIN_NUMBERS;
        let departures = &self.port.within_ceiling(train.departures().iter().copied());
        self.bytes += self.cost(train);
        self.packets += departures.len() as u64 * if train.is_echoed() { 2 } else { 1 };
        let passage = if train.is_echoed() {
            self.echoed(departures, interrupted)?
        } else if self.down {
            self.fetched(departures, interrupted)?
        } else {
            self.sent(departures, interrupted)?
        };
        self.last_packet = kernel::now();
        self.longest_gap = self.longest_gap.max(longest_gap(&passage));
        Ok(passage)
    }

    /// A train to the server, which tells when its packets came.
    fn sent(
        &mut self,
        departures: &[Departure],
        interrupted: &dyn Fn() -> bool,
    ) -> Result<TrainObservation, MeasureError> {
        let sent = self.depart(false, departures, &mut Arrivals::of(self.number, 0), interrupted)?;
        if departures.len() >= PACKETS_MIN {
            self.follow_train()?;
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
        let received = self.answer(deadline, interrupted, &mut |m| match m {
            Message::TrainArrived { train, received_ns, clock_steps } if train == number => {
                Some((received_ns, clock_steps))
            }
            _ => None,
        })?;
        self.far_steps = received.1;
        let passage = join(self.real(departures), &sent, &instants(&received.0));
        if let Some(came) = self.followed.take() {
            self.passing.note(&passage, came);
        }
        Ok(passage)
    }

    /// A train from the server, which tells when its packets left.
    fn fetched(
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
        let (sent, came) = loop {
            let before = arrivals.come;
            self.port.receive(Duration::from_millis(2), |a| arrivals.note(a))?;
            let now = kernel::now();
            if arrivals.come > before {
                quiet_since = now;
            }
            while let Some((message, came)) = self.waiting()? {
                if let Message::TrainDeparted { train, sent_ns } = message
                    && train == number
                {
                    departed = Some((instants(&sent_ns), came));
                    quiet_since = now;
                }
            }
            let is_over = arrivals.are_complete() || now.saturating_since(quiet_since) >= settle;
            if let Some(told) = departed.take_if(|_| is_over) {
                break told;
            }
            self.keep_alive(now, interrupted)?;
            if now >= give_up {
                return Err(self.silent(settle));
            }
        };
        let passage = join(self.real(departures), &sent, &arrivals.times);
        self.passing.note(&passage, came);
        Ok(passage)
    }

    /// A train that comes back.
    fn echoed(
        &mut self,
        departures: &[Departure],
        interrupted: &dyn Fn() -> bool,
    ) -> Result<TrainObservation, MeasureError> {
        let mut arrivals = Arrivals::of(self.number, departures.len());
        let sent = self.depart(true, departures, &mut arrivals, interrupted)?;
        let end = kernel::now() + self.settle(departures);
        while !arrivals.are_complete() {
            let now = kernel::now();
            if now >= end {
                break;
            }
            self.port.receive(end.saturating_since(now).min(LOOK_EVERY), |a| arrivals.note(a))?;
            self.keep_alive(now, interrupted)?;
        }
        if !arrivals.are_complete() {
            self.call(interrupted)?;
        }
        Ok(join(self.real(departures), &sent, &arrivals.times))
    }

    fn depart(
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
                // A wait on a socket ends late by a millisecond at most; the rest is watched by the port.
                let left = due.saturating_since(now).saturating_sub(Duration::from_millis(2));
                if left.is_zero() {
                    return Ok(());
                }
                port.receive(left.min(LOOK_EVERY), |a| arrivals.note(a))?;
                look(writer, next_ping, now, interrupted)?;
            }
        })
    }

    /// Long enough for stragglers: several round trips, several of the longest gaps between departures, and several of those that the
    /// path has made of them, which on a slow link are longer than anything else. Of a path that has let nothing through nobody knows.
    fn settle(&self, departures: &[Departure]) -> Duration {
        let gap = departures.windows(2).map(|w| w[1].after.saturating_sub(w[0].after)).max().unwrap_or_default();
        let (least, made) = self.longest_gap.map_or((FIRST_SETTLE, Duration::ZERO), |gap| (SETTLE, gap * 4));
        (self.path.round_trip * 2 + least).max((gap * 2).min(Duration::from_secs(1))).max(made).min(SETTLE_MAX)
    }

    /// The packets with the lengths that they really had.
    fn real(&self, departures: &[Departure]) -> Vec<u32> {
        departures.iter().map(|d| self.port.real_bytes(d.bytes)).collect()
    }
}

/// By how much packets that left one after the other came further apart, at most; `None`: no two came.
fn longest_gap(passage: &TrainObservation) -> Option<Duration> {
    let times =
        passage.packets.windows(2).filter_map(|w| Some([w[0].sent?, w[1].sent?, w[0].received?, w[1].received?]));
    times.map(|[a, b, x, y]| y.saturating_since(x).saturating_sub(b.saturating_since(a))).max()
}

fn instants(times: &[Option<u64>]) -> Vec<Option<Instant>> {
    times.iter().map(|t| t.map(Instant::from_nanos)).collect()
}

/// The first arrival of each packet of a train: as many as were to come, whatever comes.
struct Arrivals {
    train: u16,
    times: Vec<Option<Instant>>,
    come: usize,
}

impl Arrivals {
    fn of(train: u16, packets: usize) -> Self {
        Self { train, times: vec![None; packets], come: 0 }
    }

    fn note(&mut self, a: Arrival) {
        let time = self.times.get_mut(usize::from(a.header.index)).filter(|_| a.header.train == self.train);
        if let Some(time @ None) = time {
            *time = Some(a.at);
            self.come += 1;
        }
    }

    fn are_complete(&self) -> bool {
        self.come == self.times.len()
    }
}

/// Both ends' times; a far end that tells fewer than there are packets has seen no more.
fn join(bytes: Vec<u32>, sent: &[Option<Instant>], received: &[Option<Instant>]) -> TrainObservation {
    let fate = |(i, bytes)| PacketOutcome {
        bytes,
        sent: sent.get(i).copied().flatten(),
        received: received.get(i).copied().flatten(),
    };
    TrainObservation { packets: bytes.into_iter().enumerate().map(fate).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ProbeHeader;

    #[test]
    fn a_flood_takes_no_memory_and_completes_nothing() {
        let mut arrivals = Arrivals::of(7, 2);
        let from = |train, index, ms| Arrival {
            header: ProbeHeader { train, index, echo: false },
            at: Instant::ZERO + Duration::from_millis(ms),
            bytes: 1500,
        };
        for n in 0..1000 {
            arrivals.note(from(6, 0, n));
            arrivals.note(from(7, 2, n));
            arrivals.note(from(7, 1, 5 + n));
        }
        assert_eq!((arrivals.come, arrivals.times.len(), arrivals.are_complete()), (1, 2, false));
        assert_eq!(arrivals.times[1], Some(Instant::ZERO + Duration::from_millis(5)), "copies tell nothing");
        arrivals.note(from(7, 0, 9));
        assert!(arrivals.are_complete());
    }
}
