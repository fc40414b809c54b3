//! A TCP connection between two nodes: sender, receiver, and the application that writes.

use link::Train;
use scenario::{Flow, Scenario};
use tcp::{Ack, Control, Receiver, ReceiverConfig, Segments, Sender, SenderConfig};
use units::{Duration, Instant};

use crate::addressing::{self, Paths};
use crate::packet::{Address, Body, Packet};
use crate::sysctls;

/// Unsent bytes below which the application of a flow writes, and the bytes of one write: those of `longhaul test` in a
/// lab.
const UNSENT_BYTES_MIN: u64 = 1 << 20;
const WRITE_BYTES: u64 = 64 << 10;
/// Receive window at the beginning: the kernel advertises less than 64 KiB until it scales.
const WINDOW_BYTES_INITIAL: u64 = 65_160;

/// Data that the application still has to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supply {
    /// Any amount until a time.
    Until(Instant),
    /// A number of bytes.
    Bytes(u64),
}

/// Parameters of a connection, common to bulk flows and small transfers.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) sender: SenderConfig,
    pub(crate) receiver: ReceiverConfig,
    pub(crate) rtt: Duration,
    /// Unsent bytes below which the application writes.
    pub(crate) unsent_min: u64,
    pub(crate) ipv6: bool,
    /// Paths of the data and of the acknowledgements.
    pub(crate) paths: [u32; 2],
}

impl Settings {
    /// Parameters between two nodes.
    pub(crate) fn between(scenario: &Scenario, paths: &mut Paths, from: usize, to: usize, ipv6: bool) -> Self {
        let rtt = addressing::round_trip(scenario, from, to);
        let mss = addressing::mtu(scenario, from, to).saturating_sub(addressing::tcp_header(ipv6)).max(1);
        let (sending, receiving) = (&scenario.nodes[from], &scenario.nodes[to]);
        // Half of the memory of a receive buffer is payload (tcp_win_from_space).
        let window_max = (sysctls::receive_buffer(receiving) / 2).max(u64::from(mss));
        let window = WINDOW_BYTES_INITIAL.min(window_max);
        Self {
            sender: SenderConfig {
                mss,
                send_buffer: sysctls::send_buffer(sending),
                slow_start_after_idle: sysctls::slow_start_after_idle(sending),
                peer_window: window,
                ..SenderConfig::default()
            },
            receiver: ReceiverConfig { mss, window, window_max, rtt, ..ReceiverConfig::default() },
            rtt,
            unsent_min: UNSENT_BYTES_MIN,
            ipv6,
            paths: [paths.between(scenario, from, to), paths.between(scenario, to, from)],
        }
    }

    /// Parameters of a bulk flow.
    /// `tunnel_mtu`: maximum IP packet through the overlay in bytes.
    pub(crate) fn of_flow(scenario: &Scenario, paths: &mut Paths, flow: &Flow, tunnel_mtu: u32) -> Self {
        let mut all = Self::between(scenario, paths, flow.from, flow.to, flow.ipv6);
        if flow.overlay {
            let mss = tunnel_mtu.saturating_sub(addressing::tcp_header(flow.ipv6)).clamp(1, all.sender.mss);
            (all.sender.mss, all.receiver.mss) = (mss, mss);
            all.paths = [paths.through_tunnel(flow.from, flow.to), paths.through_tunnel(flow.to, flow.from)];
        }
        if let Some(mss) = flow.mss {
            let mss = mss.saturating_sub(addressing::TIMESTAMP_BYTES).clamp(1, all.sender.mss);
            (all.sender.mss, all.receiver.mss) = (mss, mss);
        }
        if let Some(window) = flow.window {
            let window = window.as_u64().max(u64::from(all.sender.mss));
            all.receiver.window_max = window;
            all.receiver.window = window.min(WINDOW_BYTES_INITIAL);
            all.sender.peer_window = all.receiver.window;
            all.sender.send_buffer = 2 * window;
        }
        all.sender.pacing = flow.rate;
        all
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: Sender,
    pub(crate) receiver: Receiver,
    settings: Settings,
    supply: Supply,
    /// Own index, and number of uses of it.
    address: (u32, u32),
    /// Bytes that the application writes in all, if that is fixed, and the time at which the last of them arrived.
    amount: Option<u64>,
    arrived: Option<Instant>,
    /// Times at which data arrived that the receiver lacked: first and last.
    data_times: Option<(Instant, Instant)>,
}

impl Connection {
    /// Creates an established connection; its first round-trip time is that of the handshake.
    pub(crate) fn new(now: Instant, settings: Settings, control: Control, supply: Supply, address: (u32, u32)) -> Self {
        let mut sender = Sender::new(now, settings.sender.clone(), control);
        sender.handle_handshake(now, settings.rtt);
        let receiver = Receiver::new(settings.receiver.clone());
        let amount = match supply {
            Supply::Bytes(bytes) => Some(bytes),
            Supply::Until(_) => None,
        };
        Self { sender, receiver, settings, supply, address, amount, arrived: None, data_times: None }
    }

    pub(crate) fn info(&self) -> tcp::Info {
        self.sender.info()
    }

    pub(crate) const fn mss(&self) -> u32 {
        self.settings.sender.mss
    }

    pub(crate) const fn generation(&self) -> u32 {
        self.address.1
    }

    /// Whether the application has stopped and all of its data is acknowledged.
    pub(crate) const fn is_drained(&self, now: Instant) -> bool {
        let has_stopped = match self.supply {
            Supply::Until(end) => now.as_nanos() >= end.as_nanos(),
            Supply::Bytes(left) => left == 0,
        };
        has_stopped && self.sender.unacknowledged() == 0
    }

    /// Time at which the last byte of a fixed amount arrived.
    pub(crate) const fn arrived(&self) -> Option<Instant> {
        self.arrived
    }

    /// Times at which data arrived that the receiver lacked: first and last.
    pub(crate) const fn data_times(&self) -> Option<(Instant, Instant)> {
        self.data_times
    }

    /// Time of the next timer.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match (self.sender.poll_timeout(), self.receiver.poll_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Handles the timers that are due.
    pub(crate) fn handle_timeout(&mut self, now: Instant, outbox: &mut Vec<Train<Packet>>) {
        if let Some(ack) = self.receiver.handle_timeout(now) {
            outbox.push(self.acknowledgement(ack));
        }
        self.sender.handle_timeout(now);
        self.transmit(now, outbox);
    }

    /// Handles segments that arrive at the receiver.
    pub(crate) fn handle_data(&mut self, now: Instant, segments: Segments, outbox: &mut Vec<Train<Packet>>) {
        let before = self.receiver.received();
        let ack = self.receiver.handle(now, segments);
        if self.receiver.received() > before {
            self.data_times = Some((self.data_times.map_or(now, |(first, _)| first), now));
        }
        if self.arrived.is_none() && self.amount == Some(self.receiver.received()) {
            self.arrived = Some(now);
        }
        if let Some(ack) = ack {
            outbox.push(self.acknowledgement(ack));
        }
    }

    /// Handles an acknowledgement that arrives at the sender.
    pub(crate) fn handle_ack(&mut self, now: Instant, ack: &Ack, outbox: &mut Vec<Train<Packet>>) {
        self.sender.handle_ack(now, ack);
        self.transmit(now, outbox);
    }

    /// Writes and sends what is possible now.
    pub(crate) fn transmit(&mut self, now: Instant, outbox: &mut Vec<Train<Packet>>) {
        loop {
            self.write(now);
            let Some(segments) = self.sender.poll_transmit(now) else { return };
            outbox.push(self.data(segments));
        }
    }

    fn write(&mut self, now: Instant) {
        match &mut self.supply {
            Supply::Until(end) if now < *end => {
                while self.sender.unsent() < self.settings.unsent_min {
                    self.sender.write(now, WRITE_BYTES);
                }
            }
            Supply::Until(_) => {}
            Supply::Bytes(left) => {
                let bytes = std::mem::take(left);
                if bytes > 0 {
                    self.sender.write(now, bytes);
                }
            }
        }
    }

    fn data(&self, segments: Segments) -> Train<Packet> {
        let header = addressing::tcp_header(self.settings.ipv6);
        let count = segments.count() as u32;
        let last = segments.bytes - u64::from(count.saturating_sub(1)) * u64::from(segments.mss);
        let packet = self.packet(0, header, Body::Data(segments));
        packet.train(count, segments.mss + header, last as u32 + header)
    }

    fn acknowledgement(&self, ack: Ack) -> Train<Packet> {
        let blocks = ack.sack.as_slice().len() + usize::from(ack.duplicate.is_some());
        let bytes = addressing::ack_bytes(self.settings.ipv6, blocks);
        self.packet(1, bytes, Body::Ack(Box::new(ack))).train(1, bytes, bytes)
    }

    fn packet(&self, direction: usize, header: u32, body: Body) -> Packet {
        let to = Address::Connection(self.address.0, self.address.1);
        Packet { path: self.settings.paths[direction], hop: 0, to, header, body }
    }
}
