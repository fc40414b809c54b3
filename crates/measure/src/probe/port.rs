//! One end's socket for probes: departures on time, arrivals with the kernel's stamps.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use estimate::probe::Departure;
use kernel::Clocks;
use units::{Bytes, Instant, Rate};
use wire::{PROBE_HEADER_BYTES, ProbeHeader};

use super::LONGEST_TRAIN;
use crate::MeasureError;

/// Datagrams that `kernel::recv_batch` takes at most in one call.
const BATCH: usize = 32;

/// Longest probe in bytes of IP: a jumbo frame.
pub(super) const LONGEST_PACKET: u32 = 9216;

/// What is left to a departure when the sender stops sleeping and watches the clock: longer than a wake-up is late on a
/// machine that is not overloaded.
const WATCH: Duration = Duration::from_micros(150);

/// The same on a machine of one or two CPUs. Others need them there, the receiver or the load that is to be seen: with a CPU
/// that only watches the clock, half of a load of 50 Mb/s on the same machine stayed away while a train passed.
const WATCH_BRIEFLY: Duration = Duration::from_micros(20);

/// A gap between departures in which there is time for something else.
const LONG_GAP: Duration = Duration::from_millis(3);

/// A packet that arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) header: ProbeHeader,
    pub(super) at: Instant,
    /// With headers of IP and UDP.
    pub(super) bytes: u32,
}

/// How often the clocks are compared while a socket is in use: the kernel's slewing moves 50 us between two looks.
const LOOK_AT_CLOCKS_EVERY: Duration = Duration::from_millis(100);

/// How much of a rate that is the most may be sent back ahead of it: echoes leave when their questions come, not when there is room.
const ECHOES_AHEAD: Duration = Duration::from_millis(100);

pub(super) struct Port {
    socket: UdpSocket,
    clocks: Clocks,
    compared: Instant,
    /// The rate that must not be exceeded, and when what was sent has passed at it.
    ceiling: Option<Rate>,
    passed_at: Instant,
    /// Bytes of the headers of IP and UDP.
    headers: u32,
    watch: Duration,
    buffer: Vec<u8>,
    packet: Vec<u8>,
}

impl Port {
    /// On a socket that is connected to the other end; sends no faster than the ceiling.
    pub(super) fn new(socket: UdpSocket, ceiling: Option<Rate>) -> Self {
        let is_v6 = socket.peer_addr().is_ok_and(|a| !crate::address::plain(a).is_ipv4());
        Self {
            socket,
            clocks: Clocks::new(),
            compared: kernel::now(),
            ceiling,
            passed_at: Instant::ZERO,
            headers: if is_v6 { 48 } else { 28 },
            watch: if kernel::cpus() > 2 { WATCH } else { WATCH_BRIEFLY },
            buffer: vec![0; BATCH * LONGEST_PACKET as usize],
            packet: vec![wire::FILLER; LONGEST_PACKET as usize],
        }
    }

    /// Bytes of a packet's payload, that of the header at least.
    fn payload(&self, bytes: u32) -> usize {
        (bytes.min(LONGEST_PACKET).saturating_sub(self.headers) as usize).max(PROBE_HEADER_BYTES)
    }

    /// What a packet of this length really occupies.
    pub(super) fn real_bytes(&self, bytes: u32) -> u32 {
        self.payload(bytes) as u32 + self.headers
    }

    /// The same packets, no faster than the ceiling, what was sent before included.
    pub(super) fn within_ceiling(&self, departures: impl Iterator<Item = Departure>) -> Vec<Departure> {
        let Some(rate) = self.ceiling else { return departures.collect() };
        let mut earliest = self.passed_at.saturating_since(kernel::now());
        departures
            .map(|d| {
                let after = d.after.max(earliest);
                earliest = after.saturating_add(self.time_at(rate, d.bytes));
                Departure { after, bytes: d.bytes }
            })
            .collect()
    }

    /// How long a packet takes at a rate; at none longer than any train.
    fn time_at(&self, rate: Rate, bytes: u32) -> Duration {
        rate.time_for(Bytes::new(self.real_bytes(bytes).into())).unwrap_or(LONGEST_TRAIN)
    }

    /// Sends a packet back, unless that would be more than the ceiling allows; whether it was sent.
    pub(super) fn send_back(&mut self, header: ProbeHeader, bytes: u32) -> Result<bool, MeasureError> {
        let ahead = self.passed_at.saturating_since(kernel::now());
        if ahead > ECHOES_AHEAD { Ok(false) } else { self.send(header, bytes) }
    }

    /// Sends one packet; whether the kernel took it.
    pub(super) fn send(&mut self, header: ProbeHeader, bytes: u32) -> Result<bool, MeasureError> {
        let length = self.payload(bytes);
        let packet = &mut self.packet[..length];
        packet[..PROBE_HEADER_BYTES].copy_from_slice(&header.encode());
        if let Some(rate) = self.ceiling {
            self.passed_at = self.passed_at.max(kernel::now()) + self.time_at(rate, bytes);
        }
        let packet = &self.packet[..length];
        Ok(kernel::send_datagram(&self.socket, None, packet)?)
    }

    /// Sends a train and tells when each packet left. In gaps that are long enough `meanwhile` is called with the time
    /// until which it may take; it ends the train by an error.
    pub(super) fn send_train(
        &mut self,
        train: u16,
        echo: bool,
        departures: &[Departure],
        meanwhile: &mut dyn FnMut(&mut Self, Instant) -> Result<(), MeasureError>,
    ) -> Result<Vec<Option<Instant>>, MeasureError> {
        // Of this thread, which need not be the one that made the port.
        kernel::tight_timers();
        let start = kernel::now();
        let mut sent = Vec::with_capacity(departures.len());
        for (index, departure) in departures.iter().enumerate() {
            let due = start + departure.after;
            if due.saturating_since(kernel::now()) > LONG_GAP {
                meanwhile(self, due)?;
            }
            wait_until(due, self.watch);
            let header = ProbeHeader { train, index: index as u16, echo };
            let left = kernel::now();
            sent.push(self.send(header, departure.bytes)?.then_some(left));
        }
        Ok(sent)
    }

    /// Waits for what arrives, at most that long; how much it was.
    pub(super) fn receive(&mut self, wait: Duration, mut each: impl FnMut(Arrival)) -> Result<usize, MeasureError> {
        kernel::wait(&self.socket, false, wait)?;
        self.follow_clocks();
        let (clocks, headers) = (&self.clocks, self.headers);
        Ok(kernel::recv_batch(&self.socket, &mut self.buffer, |d| {
            // The last copies of the address validation.
            if wire::udp_control::is_control(d.data) {
                return;
            }
            if let Some(header) = ProbeHeader::decode(d.data) {
                each(Arrival { header, at: d.arrived(clocks), bytes: d.data.len() as u32 + headers });
            }
        })?)
    }

    /// This host's address.
    pub(super) fn local(&self) -> Option<IpAddr> {
        self.socket.local_addr().ok().map(|a| a.ip())
    }

    /// Forgets what waits.
    pub(super) fn drain(&self) {
        crate::udp::drain(&self.socket);
    }

    /// Compares the clocks now and then: over minutes a time daemon's corrections are as large as a step.
    pub(super) fn follow_clocks(&mut self) {
        let now = kernel::now();
        if now.saturating_since(self.compared) >= LOOK_AT_CLOCKS_EVERY {
            self.compared = now;
            self.clocks.refresh();
        }
    }

    /// How often the clock of the stamps was set since the beginning, as far as is seen by a look at it now.
    pub(super) fn clock_steps(&mut self) -> u64 {
        self.clocks.refresh();
        self.clocks.steps()
    }

    /// Largest IP packet that leaves in one piece, as far as this host's kernel knows.
    pub(super) fn mtu(&self) -> Option<u32> {
        kernel::path_mtu(&self.socket).and_then(|mtu| u32::try_from(mtu).ok())
    }
}

/// Sleeps, then watches the clock: a timer is late by tens of microseconds, which at 100 Mb/s are a packet.
fn wait_until(due: Instant, watch: Duration) {
    loop {
        let left = due.saturating_since(kernel::now());
        if left.is_zero() {
            return;
        }
        match left.checked_sub(watch).filter(|rest| !rest.is_zero()) {
            Some(rest) => kernel::sleep_for(rest),
            None => std::hint::spin_loop(),
        }
    }
}
