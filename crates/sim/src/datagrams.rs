//! Flows of UDP datagrams at given times.

use estimate::Schedule;
use link::Train;
use scenario::{Extent, Flow, Scenario, Transport};
use units::{Bytes, Instant, Rate};

use crate::addressing::{self, Paths};
use crate::packet::{Address, Body, Packet};

/// Default payload of a datagram in bytes: that of `longhaul test`.
pub const DATAGRAM_BYTES: u64 = 1448;

/// Sender and receiver of a flow.
#[derive(Debug)]
pub(crate) struct Datagrams {
    schedule: Schedule,
    end: Instant,
    left: u64,
    payload: u32,
    header: u32,
    path: u32,
    index: u32,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) received_bytes: u64,
    /// Datagrams that are missing before the latest that arrived.
    pub(crate) lost: u64,
    expected: u64,
}

impl Datagrams {
    /// `zero`: start of the run.
    pub(crate) fn new(
        scenario: &Scenario,
        paths: &mut Paths,
        flow: &Flow,
        (index, seed): (u32, u64),
        zero: Instant,
    ) -> Self {
        let payload = flow.block.map_or(DATAGRAM_BYTES, Bytes::as_u64);
        let start = zero + flow.start;
        let rate = flow.rate.unwrap_or(Rate::ZERO);
        let (end, left) = match flow.extent {
            Extent::Duration(time) => (start + time, u64::MAX),
            Extent::Bytes(bytes) => (Instant::from_nanos(u64::MAX), bytes.as_u64().div_ceil(payload.max(1))),
        };
        let schedule = match flow.transport {
            Transport::UdpPoisson => Schedule::poisson(rate, Bytes::new(payload), seed),
            Transport::UdpConstant | Transport::Tcp => Schedule::constant(rate, Bytes::new(payload)),
        };
        Self {
            schedule: schedule.starting_at(start),
            end,
            left,
            payload: payload as u32,
            header: addressing::udp_header(flow.ipv6),
            path: if flow.overlay {
                paths.through_tunnel(flow.from, flow.to)
            } else {
                paths.between(scenario, flow.from, flow.to)
            },
            index,
            sent: 0,
            received: 0,
            received_bytes: 0,
            lost: 0,
            expected: 0,
        }
    }

    /// Time of the next datagram.
    pub(crate) fn next(&self) -> Option<Instant> {
        let at = self.schedule.deadline();
        (at < self.end && self.left > 0).then_some(at)
    }

    /// The next datagram.
    pub(crate) fn send(&mut self) -> Train<Packet> {
        self.schedule.advance();
        self.left -= 1;
        let bytes = self.payload + self.header;
        let to = Address::Datagrams(self.index);
        let body = Body::Datagram(self.sent);
        self.sent += 1;
        Packet { path: self.path, hop: 0, to, header: self.header, body }.train(1, bytes, bytes)
    }

    /// Handles a datagram that arrives.
    pub(crate) fn receive(&mut self, number: u64) {
        self.received += 1;
        self.received_bytes += u64::from(self.payload);
        if number >= self.expected {
            self.lost += number - self.expected;
            self.expected = number + 1;
        } else {
            // It was late, not lost.
            self.lost = self.lost.saturating_sub(1);
        }
    }
}
