//! One connection over an emulated path, in virtual time.

use link::{Delivery, Direction, Settings, Train};
use tcp::{Ack, Control, Receiver, ReceiverConfig, Segments, Sender, SenderConfig};
use units::{Duration, Instant};

/// Bytes of an IPv4 header, a TCP header and timestamps.
const HEADER_BYTES: u32 = 52;

pub(crate) struct Pipe {
    pub(crate) now: Instant,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) data: Direction<Segments>,
    acks: Direction<Ack>,
    resent: u64,
    resent_arrived: u64,
    at_once: u32,
}

/// Defaults for a path of this round-trip time: the handshake has measured it.
pub(crate) fn receiver_config(rtt: Duration) -> ReceiverConfig {
    ReceiverConfig { rtt, window: 1 << 30, window_max: 1 << 30, ..ReceiverConfig::default() }
}

pub(crate) fn sender_config() -> SenderConfig {
    SenderConfig { peer_window: 1 << 30, ..SenderConfig::default() }
}

impl Pipe {
    /// A path with these settings for data; acknowledgements have the same delay and no limit.
    pub(crate) fn new(seed: u64, settings: Settings, config: SenderConfig, control: Control) -> Self {
        let start = Instant::ZERO;
        let rtt = 2 * settings.delay;
        let back = Settings { delay: settings.delay, ..Settings::default() };
        let mut sender = Sender::new(start, config, control);
        sender.handle_handshake(start, rtt);
        Self {
            now: start,
            sender,
            receiver: Receiver::new(receiver_config(rtt)),
            data: Direction::new(start, seed, settings),
            acks: Direction::new(start, seed, back),
            resent: 0,
            resent_arrived: 0,
            at_once: 0,
        }
    }

    pub(crate) fn write(&mut self, bytes: u64) {
        self.sender.write(self.now, bytes);
        self.transmit();
    }

    /// Runs until a time, and calls `observe` after each event.
    pub(crate) fn run(&mut self, until: Duration, mut observe: impl FnMut(&Self)) {
        let until = Instant::ZERO + until;
        while let Some(next) = self.next_event().filter(|at| *at <= until) {
            // A timer that does not move would stop the time.
            self.at_once = if next > self.now { 0 } else { self.at_once + 1 };
            assert!(self.at_once < 10_000, "time stands still at {next:?}");
            self.now = self.now.max(next);
            self.step();
            observe(self);
        }
        self.now = until;
    }

    /// Whether the path lost a retransmission.
    pub(crate) fn lost_a_retransmission(&self) -> bool {
        self.resent_arrived < self.resent
    }

    fn next_event(&self) -> Option<Instant> {
        let all = [
            self.data.poll_timeout(),
            self.acks.poll_timeout(),
            self.sender.poll_timeout(),
            self.receiver.poll_timeout(),
        ];
        all.into_iter().flatten().min()
    }

    fn step(&mut self) {
        let now = self.now;
        while let Some(delivery) = self.data.poll(now) {
            self.resent_arrived += u64::from(delivery.payload.is_retransmission) * u64::from(delivery.count);
            let ack = self.receiver.handle(now, part(&delivery));
            self.acknowledge(ack);
        }
        let ack = self.receiver.handle_timeout(now);
        self.acknowledge(ack);
        while let Some(delivery) = self.acks.poll(now) {
            self.sender.handle_ack(now, &delivery.payload);
            self.transmit();
        }
        self.sender.handle_timeout(now);
        self.transmit();
    }

    fn acknowledge(&mut self, ack: Option<Ack>) {
        if let Some(ack) = ack {
            self.acks.offer(self.now, Train { payload: ack, count: 1, full: HEADER_BYTES, last: HEADER_BYTES });
        }
    }

    fn transmit(&mut self) {
        while let Some(segments) = self.sender.poll_transmit(self.now) {
            let count = segments.count() as u32;
            self.resent += u64::from(segments.is_retransmission) * u64::from(count);
            let full = segments.mss + HEADER_BYTES;
            let last = (segments.bytes - u64::from(count - 1) * u64::from(segments.mss)) as u32 + HEADER_BYTES;
            self.data.offer(self.now, Train { payload: segments, count, full, last });
        }
    }
}

/// The segments of a delivery.
fn part(delivery: &Delivery<Segments>) -> Segments {
    let whole = delivery.payload;
    let seq = whole.seq + u64::from(delivery.first) * u64::from(whole.mss);
    let bytes = delivery.bytes - u64::from(delivery.count * HEADER_BYTES);
    Segments { seq, bytes, ..whole }
}
