//! Simulated bottleneck: senders with unlimited data, one queue with tail drop, and acknowledgements without queueing
//! delay.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use congestion::{Ack, Connection, Fast, FastSettings, Htcp, HtcpSettings};

pub(crate) enum Control {
    Fast(FastSettings, Fast),
    Htcp(HtcpSettings, Htcp),
    /// Increase by one packet per round trip, decrease by half on a loss (RFC 5681).
    Reno,
}

impl Control {
    pub(crate) fn fast(settings: FastSettings) -> Self {
        Self::Fast(settings, Fast::default())
    }

    pub(crate) fn htcp(settings: HtcpSettings) -> Self {
        Self::Htcp(settings, Htcp::new(&settings, &Connection::new()))
    }
}

pub(crate) struct Sender {
    pub(crate) c: Connection,
    pub(crate) control: Control,
    /// Round-trip time of the empty path.
    pub(crate) base_us: u64,
    pub(crate) start_us: u64,
    /// Arrival times of acknowledged packets.
    pub(crate) acked_us: Vec<u64>,
    pub(crate) losses: u64,
    in_flight: u32,
    next: u64,
    /// Packet whose acknowledgement ends the recovery.
    recovered_by: u64,
}

impl Sender {
    pub(crate) fn new(control: Control, base_us: u64, start_us: u64) -> Self {
        let (c, acked_us) = (Connection::new(), Vec::new());
        Self { c, control, base_us, start_us, acked_us, losses: 0, in_flight: 0, next: 1, recovered_by: 0 }
    }

    /// Throughput in packets per second between two times.
    pub(crate) fn rate(&self, from_s: f64, to_s: f64) -> f64 {
        let of = |s: f64| self.acked_us.partition_point(|t| *t < (s * 1e6) as u64);
        (of(to_s) - of(from_s)) as f64 / (to_s - from_s)
    }

    fn acknowledge(&mut self, now: u64, packet: Packet) {
        self.in_flight -= 1;
        self.acked_us.push(now);
        let c = &mut self.c;
        c.now_us = now;
        c.delivered = c.delivered.wrapping_add(1);
        let rtt = (now - packet.sent_us) as u32;
        let recovering = !c.open;
        if recovering && packet.number >= self.recovered_by {
            c.open = true;
            if let Control::Htcp(settings, htcp) = &mut self.control {
                htcp.open(settings, c);
            }
        }
        let ack = Ack { packets: 1, rtt_us: Some(rtt), flight: c.delivered.wrapping_sub(packet.delivered) };
        match (&mut self.control, recovering) {
            (Control::Fast(s, fast), false) => fast.ack(s, c, ack),
            (Control::Fast(s, fast), true) => fast.measure(s, c, ack),
            (Control::Htcp(s, htcp), false) => htcp.ack(s, c, ack),
            (Control::Htcp(s, htcp), true) => htcp.measure(s, c, ack),
            (Control::Reno, false) if c.window < c.threshold => c.window += 1,
            (Control::Reno, false) => {
                c.window_count += 1;
                if c.window_count >= c.window {
                    (c.window, c.window_count) = (c.window + 1, 0);
                }
            }
            (Control::Reno, true) => {}
        }
    }

    fn lose(&mut self, now: u64, packet: Packet) {
        self.in_flight -= 1;
        self.losses += 1;
        let c = &mut self.c;
        c.now_us = now;
        if packet.number < self.recovered_by {
            return;
        }
        self.recovered_by = self.next;
        c.prior_window = c.window;
        c.threshold = match &mut self.control {
            Control::Fast(_, fast) => fast.after_loss(c),
            Control::Htcp(s, htcp) => htcp.after_loss(s, c),
            Control::Reno => (c.window / 2).max(2),
        };
        c.window = c.threshold;
        c.open = false;
        if let Control::Htcp(settings, htcp) = &mut self.control {
            htcp.congestion(settings, c);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    sender: usize,
    number: u64,
    sent_us: u64,
    delivered: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start(usize),
    Acknowledged(Packet),
    Lost(Packet),
}

/// A queue with a rate and a size in packets.
pub(crate) struct Bottleneck {
    pub(crate) senders: Vec<Sender>,
    pub(crate) rate: f64,
    pub(crate) limit: f64,
    /// Packet numbers of the first sender to drop, in addition to queue overflows.
    pub(crate) lose: Vec<u64>,
    /// Time in ns, and the delay that is added to the path from then on.
    pub(crate) longer: Option<(u64, u64)>,
    /// Time and queue length in packets at every arrival.
    pub(crate) queue: Vec<(u64, f64)>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    free_ns: u64,
}

impl Bottleneck {
    pub(crate) fn new(rate: f64, limit: f64, senders: Vec<Sender>) -> Self {
        let (lose, queue, events) = (Vec::new(), Vec::new(), BinaryHeap::new());
        let mut all = Self { senders, rate, limit, lose, longer: None, queue, events, order: 0, free_ns: 0 };
        for at in 0..all.senders.len() {
            all.at(all.senders[at].start_us * 1000, Event::Start(at));
        }
        all
    }

    fn at(&mut self, ns: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((ns, self.order, event)));
    }

    pub(crate) fn run(&mut self, until_s: f64) {
        while let Some(Reverse((ns, _, event))) = self.events.pop() {
            if ns as f64 > until_s * 1e9 {
                self.at(ns, event);
                return;
            }
            let sender = match event {
                Event::Start(sender) => sender,
                Event::Acknowledged(packet) => {
                    self.senders[packet.sender].acknowledge(ns / 1000, packet);
                    packet.sender
                }
                Event::Lost(packet) => {
                    self.senders[packet.sender].lose(ns / 1000, packet);
                    packet.sender
                }
            };
            while self.senders[sender].in_flight < self.senders[sender].c.window {
                self.send(ns, sender);
            }
        }
    }

    fn send(&mut self, ns: u64, at: usize) {
        let sender = &mut self.senders[at];
        let packet = Packet { sender: at, number: sender.next, sent_us: ns / 1000, delivered: sender.c.delivered };
        sender.next += 1;
        sender.in_flight += 1;
        let more = self.longer.filter(|(from, _)| ns / 1000 >= *from).map_or(0, |(_, by)| by);
        let around = (sender.base_us + more) * 1000;
        let backlog = self.free_ns.saturating_sub(ns) as f64 * self.rate / 1e9;
        self.queue.push((ns / 1000, backlog));
        let chosen = at == 0 && self.lose.contains(&packet.number);
        if chosen || backlog >= self.limit {
            // The acknowledgements of later packets indicate the loss.
            self.at(self.free_ns.max(ns) + around, Event::Lost(packet));
            return;
        }
        self.free_ns = self.free_ns.max(ns) + (1e9 / self.rate) as u64;
        self.at(self.free_ns + around, Event::Acknowledged(packet));
    }

    /// Mean queue length in packets between two times.
    pub(crate) fn mean_queue(&self, from_s: f64, to_s: f64) -> f64 {
        let within: Vec<f64> = self
            .queue
            .iter()
            .filter(|(t, _)| (from_s..to_s).contains(&(*t as f64 / 1e6)))
            .map(|(_, packets)| *packets)
            .collect();
        within.iter().sum::<f64>() / within.len() as f64
    }
}

/// (sum x)^2 / (n sum x^2), RFC 5166.
pub(crate) fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r));
    sum * sum / (rates.len() as f64 * squares)
}
