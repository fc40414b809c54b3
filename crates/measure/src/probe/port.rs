//! Probe socket of one end: timed departures, and arrivals with the kernel's timestamps.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use estimate::probe::{Departure, PROBE_BYTES_MIN, UDP_HEADERS};
use kernel::Clocks;
use units::{Bytes, Instant, Rate};
use wire::{PROBE_HEADER_BYTES, ProbeHeader};

use super::TRAIN_DURATION_MAX;
use crate::MeasureError;

/// Maximum number of datagrams in one call of `kernel::recv_batch`.
const BATCH: usize = 32;

/// Maximum length of a probe in bytes of IP: a jumbo frame.
pub(super) const PACKET_BYTES_MAX: u32 = 9216;

const _: () = assert!(PROBE_BYTES_MIN as usize == UDP_HEADERS as usize + PROBE_HEADER_BYTES);

/// Time before a departure at which the sender stops sleeping and polls the clock: longer than the delay of a wake-up
/// on a machine that is not overloaded.
const SPIN_TIME: Duration = Duration::from_micros(150);

/// Polling time on a machine with one or two CPUs, where the receiver or the measured load needs the CPU. A CPU that
/// only polls the clock suppressed half of a local load of 50 Mb/s during a train.
const SPIN_TIME_FEW_CPUS: Duration = Duration::from_micros(20);

/// Minimum gap between departures in which the port does other work.
const IDLE_GAP_MIN: Duration = Duration::from_millis(3);

/// A packet that arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) header: ProbeHeader,
    pub(super) at: Instant,
    /// With headers of IP and UDP.
    pub(super) bytes: u32,
}

/// Interval at which the clocks are compared while a socket is in use: the kernel's slewing shifts 50 us in this time.
const CLOCK_COMPARISON_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum burst of echoes beyond the rate limit, in time at that rate: echoes leave when their probes arrive.
const ECHO_BURST_MAX: Duration = Duration::from_millis(100);

pub(super) struct Port {
    socket: UdpSocket,
    clocks: Clocks,
    compared: Instant,
    /// Rate limit of the transmitted packets.
    ceiling: Option<Rate>,
    /// Time at which all transmitted packets have passed a link of the rate limit.
    drained_at: Instant,
    /// Bytes of the IP and UDP headers.
    headers: u32,
    spin_time: Duration,
    buffer: Vec<u8>,
    packet: Vec<u8>,
}

impl Port {
    /// Creates a port on a socket that is connected to the other end. The transmit rate does not exceed `ceiling`.
    pub(super) fn new(socket: UdpSocket, ceiling: Option<Rate>) -> Self {
        let is_v6 = socket.peer_addr().is_ok_and(|a| !crate::address::plain(a).is_ipv4());
        Self {
            socket,
            clocks: Clocks::new(),
            compared: kernel::now(),
            ceiling,
            drained_at: Instant::ZERO,
            headers: if is_v6 { 48 } else { 28 },
            spin_time: if kernel::cpus() > 2 { SPIN_TIME } else { SPIN_TIME_FEW_CPUS },
            buffer: vec![0; BATCH * PACKET_BYTES_MAX as usize],
            packet: vec![wire::FILLER; PACKET_BYTES_MAX as usize],
        }
    }

    /// UDP payload of a packet in bytes, at least a probe header.
    fn payload(&self, bytes: u32) -> usize {
        (bytes.min(PACKET_BYTES_MAX).saturating_sub(self.headers) as usize).max(PROBE_HEADER_BYTES)
    }

    /// Length on the wire of a packet of nominal length `bytes`, in bytes of IP.
    pub(super) fn ip_bytes(&self, bytes: u32) -> u32 {
        self.payload(bytes) as u32 + self.headers
    }

    /// Delays departures so that they, with the packets sent before, do not exceed the rate limit.
    pub(super) fn within_ceiling(&self, departures: impl Iterator<Item = Departure>) -> Vec<Departure> {
        let Some(rate) = self.ceiling else { return departures.collect() };
        let mut earliest = self.drained_at.saturating_since(kernel::now());
        departures
            .map(|d| {
                let after = d.after.max(earliest);
                earliest = after.saturating_add(self.time_at(rate, d.bytes));
                Departure { after, bytes: d.bytes }
            })
            .collect()
    }

    /// Transmission time of a packet at a rate; at rate 0, the maximum duration of a train.
    fn time_at(&self, rate: Rate, bytes: u32) -> Duration {
        rate.time_for(Bytes::new(self.ip_bytes(bytes).into())).unwrap_or(TRAIN_DURATION_MAX)
    }

    /// Echoes a packet unless that exceeds the rate limit. Returns whether it was sent.
    pub(super) fn send_back(&mut self, header: ProbeHeader, bytes: u32) -> Result<bool, MeasureError> {
        let ahead = self.drained_at.saturating_since(kernel::now());
        if ahead > ECHO_BURST_MAX { Ok(false) } else { self.send(header, bytes) }
    }

    /// Sends one packet. Returns whether the kernel accepted it.
    pub(super) fn send(&mut self, header: ProbeHeader, bytes: u32) -> Result<bool, MeasureError> {
        let length = self.payload(bytes);
        let packet = &mut self.packet[..length];
        packet[..PROBE_HEADER_BYTES].copy_from_slice(&header.encode());
        if let Some(rate) = self.ceiling {
            self.drained_at = self.drained_at.max(kernel::now()) + self.time_at(rate, bytes);
        }
        let packet = &self.packet[..length];
        Ok(kernel::send_datagram(&self.socket, None, packet)?)
    }

    /// Sends a train and returns the departure time of each packet, `None` where the kernel did not accept it. In long
    /// gaps the function calls `meanwhile` with the time by which it must return; an error of `meanwhile` ends the
    /// train.
    pub(super) fn send_train(
        &mut self,
        train: u16,
        echo: bool,
        departures: &[Departure],
        meanwhile: &mut dyn FnMut(&mut Self, Instant) -> Result<(), MeasureError>,
    ) -> Result<Vec<Option<Instant>>, MeasureError> {
        // The timer slack is a property of this thread, which may not be the thread that created the port.
        kernel::tight_timers();
        let start = kernel::now();
        let mut sent = Vec::with_capacity(departures.len());
        for (index, departure) in departures.iter().enumerate() {
            let due = start + departure.after;
            if due.saturating_since(kernel::now()) > IDLE_GAP_MIN {
                meanwhile(self, due)?;
            }
            wait_until(due, self.spin_time);
            let header = ProbeHeader { train, index: index as u16, echo };
            let left = kernel::now();
            sent.push(self.send(header, departure.bytes)?.then_some(left));
        }
        Ok(sent)
    }

    /// Receives packets for at most `wait`. Returns the number of datagrams.
    pub(super) fn receive(&mut self, wait: Duration, mut each: impl FnMut(Arrival)) -> Result<usize, MeasureError> {
        kernel::wait(&self.socket, false, wait)?;
        self.follow_clocks();
        let (clocks, headers) = (&self.clocks, self.headers);
        Ok(kernel::recv_batch(&self.socket, &mut self.buffer, |d| {
            // Late copies of the address validation.
            if wire::udp_control::is_control(d.data) {
                return;
            }
            if let Some(header) = ProbeHeader::decode(d.data) {
                each(Arrival { header, at: d.arrived(clocks), bytes: d.data.len() as u32 + headers });
            }
        })?)
    }

    /// Local IP address.
    pub(super) fn local(&self) -> Option<IpAddr> {
        self.socket.local_addr().ok().map(|a| a.ip())
    }

    /// Discards the received packets.
    pub(super) fn drain(&self) {
        crate::udp::drain(&self.socket);
    }

    /// Compares the clocks every 100 ms: within minutes, a time daemon's corrections add up to the size of a step.
    pub(super) fn follow_clocks(&mut self) {
        let now = kernel::now();
        if now.saturating_since(self.compared) >= CLOCK_COMPARISON_INTERVAL {
            self.compared = now;
            self.clocks.refresh();
        }
    }

    /// Number of steps of the wall clock since the port was created, including one since the last comparison.
    pub(super) fn clock_steps(&mut self) -> u64 {
        self.clocks.refresh();
        self.clocks.steps()
    }

    /// Path MTU in bytes known to the kernel of this host.
    pub(super) fn mtu(&self) -> Option<u32> {
        kernel::path_mtu(&self.socket).and_then(|mtu| u32::try_from(mtu).ok())
    }
}

/// Sleeps, then polls the clock: timers fire tens of microseconds late, the length of a packet at 100 Mb/s.
fn wait_until(due: Instant, spin_time: Duration) {
    loop {
        let left = due.saturating_since(kernel::now());
        if left.is_zero() {
            return;
        }
        match left.checked_sub(spin_time).filter(|rest| !rest.is_zero()) {
            Some(rest) => kernel::sleep_for(rest),
            None => std::hint::spin_loop(),
        }
    }
}
