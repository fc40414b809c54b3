//! Thread that sends one datagram stream.

use std::net::UdpSocket;
use std::sync::mpsc;
use std::time::Duration;

use kernel::{BatchSent, KernelError, SEND_BATCH};
use units::Instant;
use wire::{DATAGRAM_HEADER_BYTES as HEADER_LEN, FILLER};

use super::end::{SentTotals, UdpDone};
use super::pacer::{Departure, Pacer};
use super::{DatagramCut, UdpStream};
use crate::load::{LoadPlan, Stop, StreamDone, StreamEvent};

/// Maximum delay of a wake-up; the sender polls the clock for this time before a deadline.
const SPIN_TIME: Duration = Duration::from_micros(60);

/// Minimum sleep without a spare CPU for polling; datagrams that become due meanwhile leave in one batch.
const NAP_MIN: Duration = Duration::from_micros(50);

/// Maximum sleep, which bounds the reaction to a stop.
const NAP_MAX: Duration = Duration::from_millis(50);

/// Maximum wait for room in the socket before the clock and the stop signal are checked again.
const ROOM_WAIT_MAX: Duration = Duration::from_millis(5);

pub(crate) struct Sender {
    plan: LoadPlan,
    stream: UdpStream,
    stop: Stop,
    events: mpsc::Sender<StreamEvent>,
    pacer: Pacer,
    spin: bool,
    /// Deadlines of datagrams that are due and not sent.
    due: Vec<Instant>,
    headers: Vec<[u8; HEADER_LEN]>,
    filler: Vec<u8>,
    cut: DatagramCut,
    /// Sequence number of the next datagram; refused datagrams use no number.
    sequence: u64,
    bytes: u64,
    errors: u64,
    error: Option<String>,
    first: Option<Instant>,
    last: Instant,
}

impl Sender {
    /// Creates a sender. `spin` enables polling of the clock before each deadline, which uses up to one CPU.
    pub(crate) fn new(
        plan: LoadPlan,
        stream: UdpStream,
        stop: Stop,
        events: mpsc::Sender<StreamEvent>,
        spin: bool,
    ) -> Self {
        let start = plan.start;
        Self {
            pacer: Pacer::new(&stream.traffic, start),
            spin,
            due: Vec::with_capacity(SEND_BATCH),
            headers: Vec::with_capacity(SEND_BATCH),
            filler: vec![FILLER; stream.traffic.size.saturating_sub(HEADER_LEN)],
            cut: DatagramCut::new(stream.stream, start),
            sequence: 0,
            bytes: 0,
            errors: 0,
            error: None,
            first: None,
            last: start,
            plan,
            stream,
            stop,
            events,
        }
    }

    /// Sends until the plan is fulfilled or the load is stopped.
    pub(crate) fn run(mut self) {
        kernel::tight_timers();
        let failure = self.send_all().err();
        self.finish(failure);
    }

    fn send_all(&mut self) -> Result<(), KernelError> {
        loop {
            let now = kernel::now();
            if now >= self.plan.cut(self.cut.index) {
                self.send_cut(now);
            }
            if self.stop.is_gentle() {
                return Ok(());
            }
            let next = self.collect(now);
            if !self.due.is_empty() {
                self.send_due()?;
                continue;
            }
            match next {
                Departure::At(deadline) => self.pause(now, deadline),
                Departure::Due(_) => {}
                Departure::None => return Ok(()),
            }
        }
    }

    /// Collects the due datagrams, at most a batch.
    fn collect(&mut self, now: Instant) -> Departure {
        loop {
            if self.due.len() == SEND_BATCH {
                return Departure::Due(now);
            }
            match self.pacer.take(now) {
                Departure::Due(deadline) => self.due.push(deadline),
                later @ (Departure::At(_) | Departure::None) => return later,
            }
        }
    }

    /// Passes the due datagrams to the kernel, with the time of the call in their headers.
    fn send_due(&mut self) -> Result<(), KernelError> {
        let size = self.stream.traffic.size_of(self.sequence);
        // Only the last datagram of a given amount of data differs in length; it leaves alone.
        let alike = (1..self.due.len() as u64).take_while(|n| self.stream.traffic.size_of(self.sequence + n) == size);
        let count = 1 + alike.count();
        let now = kernel::now();
        let (token, first) = (self.stream.token, self.sequence);
        let traffic = &self.stream.traffic;
        self.headers.clear();
        self.headers.extend((0..count as u64).map(|n| traffic.header(token, first + n, now)));
        match kernel::send_batch(&self.stream.socket, &self.headers, &self.filler[..size - HEADER_LEN]) {
            BatchSent::Taken(n) => self.count(n, size, now),
            BatchSent::Full => self.wait_for_room()?,
            BatchSent::Refused(e) => {
                self.due.remove(0);
                self.errors += 1;
                self.error.get_or_insert_with(|| e.to_string());
            }
        }
        Ok(())
    }

    fn count(&mut self, sent: usize, size: usize, now: Instant) {
        for deadline in self.due.drain(..sent) {
            self.pacer.handle_sent(deadline, now);
        }
        self.sequence += sent as u64;
        self.bytes += (sent * size) as u64;
        self.cut.bytes += (sent * size) as u64;
        self.first.get_or_insert(now);
        self.last = now;
    }

    /// Waits while this host's own queue is full: its network interface is slower than the plan.
    fn wait_for_room(&self) -> Result<(), KernelError> {
        if kernel::wait(&self.stream.socket, true, ROOM_WAIT_MAX)?.readable {
            // The sender ignores received data, which would end every wait at once if it stayed unread.
            super::drain(&self.stream.socket);
        }
        Ok(())
    }

    /// Waits for the next departure, but at most until the end of the interval.
    fn pause(&self, now: Instant, deadline: Instant) {
        let until = deadline.min(self.plan.cut(self.cut.index)).min(now + NAP_MAX);
        let wait = until.saturating_since(now);
        if !self.spin {
            kernel::sleep_for(wait.max(NAP_MIN));
        } else if wait > SPIN_TIME {
            kernel::sleep_for(wait - SPIN_TIME);
        } else {
            while kernel::now() < until {
                std::hint::spin_loop();
            }
        }
    }

    fn send_cut(&mut self, now: Instant) {
        let done = self.cut.split(now, None);
        // A closed channel means that the collector has ended; the stop signal follows.
        let _ = self.events.send(StreamEvent::Datagrams(Box::new(done)));
    }

    fn finish(mut self, failure: Option<KernelError>) {
        let now = kernel::now();
        if self.plan.is_worth_a_record(self.cut.start, now) && self.cut.bytes > 0 {
            self.send_cut(now);
        }
        let gap = self.stream.traffic.gap();
        let totals = SentTotals {
            datagrams: self.sequence,
            errors: self.errors,
            error: self.error,
            lag_max: self.pacer.lag_max(),
            late: self.pacer.late(),
            stalled: self.pacer.stalled(),
            gap,
            fragmented: fragments(&self.stream.socket, self.stream.traffic.size),
        };
        let _ = self.events.send(StreamEvent::Done(Box::new(StreamDone {
            stream: self.stream.stream,
            bytes: self.bytes,
            blocks: self.sequence,
            first: self.first,
            // A datagram occupies the time until the next one; without the last gap the rate of a short stream is too
            // high.
            last: if self.first.is_some() { self.last + gap } else { self.last },
            cpu: kernel::thread_cpu(),
            failure: failure.map(|e| e.to_string()),
            udp: Some(UdpDone::Sent(totals)),
            ..StreamDone::empty(self.stream.stream, self.plan.start)
        })));
    }
}

/// Returns the path MTU in bytes if datagrams of `size` bytes exceed it.
fn fragments(socket: &UdpSocket, size: usize) -> Option<u64> {
    let v6 = socket.local_addr().is_ok_and(|a| a.is_ipv6());
    // Headers of IP (without options or extensions) and UDP: RFC 791, RFC 8200, RFC 768.
    let packet = size as u64 + if v6 { 48 } else { 28 };
    kernel::path_mtu(socket).filter(|mtu| packet > *mtu)
}

#[cfg(test)]
mod tests {
    use super::super::traffic::tests::plan;
    use super::*;
    use crate::udp::Traffic;
    use results::{Direction, TestPlan, Transport};
    use wire::DatagramHeader;

    /// Departure times of a stream of 1.5 s with a mean gap of 1 ms: a short stall of the machine affects a small part
    /// of it.
    fn departures(transport: Transport) -> Vec<Instant> {
        let plan = TestPlan { duration_ns: Some(1_500_000_000), ..plan(transport, 8_000_000, 1000) };
        let open =
            || kernel::udp_socket("127.0.0.1:0".parse().unwrap(), false, units::Bytes::new(4 << 20), None).unwrap();
        let (socket, peer) = (open(), open());
        socket.connect(peer.local_addr().unwrap()).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let (direction, traffic) = (Direction::Up, Traffic::new(&plan, 0));
        let stream = UdpStream { stream: 0, direction, socket, token: [1; 8], traffic };
        let load = LoadPlan::new(&plan, "t", kernel::now(), Duration::ZERO);
        let (events, inbox) = mpsc::channel();
        Sender::new(load, stream, Stop::default(), events, true).run();
        let sent = inbox.iter().find_map(|e| match e {
            StreamEvent::Done(d) => Some(d.blocks),
            _ => None,
        });
        let mut buffer = [0; 2000];
        (0..sent.unwrap())
            .map(|n| {
                let length = peer.recv(&mut buffer).unwrap();
                let header = DatagramHeader::decode(&buffer[..length]).unwrap();
                assert_eq!((header.token, header.sequence, length), ([1; 8], n, 1000));
                header.sent
            })
            .collect()
    }

    /// Share of gaps shorter than half the mean gap, and the median gap. Both are robust against other work on this
    /// host that delays some departures.
    fn shape(times: &[Instant]) -> (f64, i64) {
        let mut gaps: Vec<i64> = times.windows(2).map(|w| w[1].nanos_since(w[0])).collect();
        gaps.sort_unstable();
        let short = gaps.iter().take_while(|g| **g < 500_000).count();
        (short as f64 / gaps.len() as f64, gaps[gaps.len() / 2])
    }

    #[test]
    fn gaps_have_the_distribution_of_the_stream() {
        testbed::undisturbed(|| {
            let (constant, poisson) = (departures(Transport::UdpConstant), departures(Transport::UdpPoisson));
            let (short, median) = shape(&constant);
            assert!(short < 0.2 && (900_000..1_100_000).contains(&median), "constant: {short} {median}");
            // 1 - exp(-1/2) = 39 % of exponential gaps are shorter than half the mean, with a standard error of 1.3 %.
            let (short, median) = shape(&poisson);
            assert!((0.27..0.6).contains(&short) && median < 850_000, "Poisson: {short} {median}");
            assert!((750..=1500).contains(&constant.len()) && (750..1750).contains(&poisson.len()));
        });
    }
}
