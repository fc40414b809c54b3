//! Behaviour of a complete direction in virtual time.

use std::time::Duration;

use super::*;
use crate::{Capacity, Queue as QueueSettings};
use units::{Bytes, Rate};

mod basics;
mod changes;
mod codel;
mod impairments;
mod meters;
mod properties;
mod runs;
mod traces;

/// A direction in virtual time, polled at each timeout like in the engine.
struct Bench {
    link: Direction<u32>,
    arrived: Vec<Delivery<u32>>,
    trains: u32,
    tally: Tally,
}

impl Bench {
    fn new(settings: Settings) -> Self {
        Self::seeded(1, settings)
    }

    fn seeded(seed: u64, settings: Settings) -> Self {
        let link = Direction::new(Instant::ZERO, seed, settings);
        Self { link, arrived: Vec::new(), trains: 0, tally: Tally::default() }
    }

    /// Processes all timeouts up to `at_ns`.
    fn run(&mut self, at_ns: u64) {
        let end = Instant::from_nanos(at_ns);
        while let Some(t) = self.link.poll_timeout().filter(|t| *t <= end) {
            self.drain(t);
            assert!(self.link.poll_timeout().is_none_or(|next| next > t), "the timeout makes no progress");
        }
        self.drain(end);
    }

    fn drain(&mut self, t: Instant) {
        while let Some(d) = self.link.poll(t) {
            self.arrived.push(d);
        }
    }

    fn offer(&mut self, at_ns: u64, count: u32, full: u32, last: u32) {
        self.run(at_ns);
        let train = Train { payload: self.trains, count, full, last };
        self.trains += 1;
        self.link.offer(Instant::from_nanos(at_ns), train);
    }

    /// Offers a single full-size packet.
    fn packet(&mut self, at_ns: u64) {
        self.offer(at_ns, 1, 1500, 1500);
    }

    fn change(&mut self, at_ns: u64, settings: Settings) {
        self.run(at_ns);
        self.link.change(Instant::from_nanos(at_ns), settings);
    }

    /// Runs until no packet is in flight.
    fn finish(&mut self) -> &[Delivery<u32>] {
        while let Some(t) = self.link.poll_timeout() {
            self.run(t.as_nanos());
        }
        &self.arrived
    }

    fn tally(&mut self, at_ns: u64) -> &Tally {
        self.run(at_ns);
        self.tally = self.link.take_tally(Instant::from_nanos(at_ns));
        &self.tally
    }

    fn arrivals_ns(&self) -> Vec<u64> {
        self.arrived.iter().map(|d| d.at.as_nanos()).collect()
    }

    fn payloads(&self) -> Vec<u32> {
        self.arrived.iter().map(|d| d.payload).collect()
    }
}

const MS: u64 = 1_000_000;
const US: u64 = 1000;

fn rate(bps: u64) -> Settings {
    Settings { capacity: Capacity::Constant(Rate::from_bps(bps)), ..Settings::default() }
}

fn limited(bps: u64, limit: QueueLimit) -> Settings {
    Settings { queue: QueueSettings { limit, ..QueueSettings::default() }, ..rate(bps) }
}
