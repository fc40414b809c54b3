//! Thread that receives one datagram stream.

use std::io;
use std::sync::mpsc;
use std::time::Duration;

use estimate::{Arrival, OneWayHistogram, SequenceTracker};
use kernel::{Clocks, KernelError, Op, UdpReceived};
use units::Instant;
use wire::DatagramHeader;

use super::end::{ReceivedTotals, UdpDone};
use super::{DatagramCut, Expected, TMAX, UdpStream};
use crate::load::{LoadPlan, LoadTime, PeerClock, Stop, StreamDone, StreamEvent};

/// Maximum number of datagrams in one call of `kernel::recv_batch`.
const BATCH: usize = 32;

/// Maximum wait for a datagram, which bounds the reaction to a stop and to the sender's final count.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// Sleep of a receiver that empties its socket after a whole batch, instead of waiting for a wake-up: at such rates a
/// wake-up costs more than a datagram. The kernel timestamps the arrivals, so the sleep changes no delay.
const NAP: Duration = Duration::from_micros(50);

/// Interval at which the realtime and the monotonic clock are compared.
const CLOCK_COMPARISON_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Receiver {
    plan: LoadPlan,
    stream: UdpStream,
    stop: Stop,
    events: mpsc::Sender<StreamEvent>,
    expected: Expected,
    buffer: Vec<u8>,
    counts: Counts,
    since_empty: usize,
    next_clocks: Instant,
    /// Arrival time of the sender's final count.
    count_known_at: Option<Instant>,
    dropped_before: u64,
}

/// Counts up to now.
struct Counts {
    token: [u8; 8],
    size: usize,
    peer_clock: PeerClock,
    clocks: Clocks,
    tracker: SequenceTracker,
    cut: DatagramCut,
    one_way: OneWayHistogram,
    bytes: u64,
    foreign: u64,
    first: Option<Instant>,
    last: Instant,
    load: LoadTime,
}

impl Counts {
    fn handle(&mut self, datagram: &UdpReceived<'_>) {
        // Late control datagrams of the address validation have another token, but do not count as foreign.
        if wire::udp_control::is_control(datagram.data) {
            return;
        }
        let header = DatagramHeader::decode(datagram.data).filter(|h| h.token == self.token);
        let Some(header) = header.filter(|_| datagram.data.len() <= self.size) else {
            self.foreign += 1;
            return;
        };
        let arrived = datagram.arrived(&self.clocks);
        match self.tracker.handle(header.sequence, header.sent, arrived) {
            Arrival::InOrder | Arrival::Reordered => {}
            Arrival::Duplicate | Arrival::LateBeyondWindow | Arrival::Rejected => return,
        }
        let bytes = datagram.data.len() as u64;
        self.bytes += bytes;
        self.cut.bytes += bytes;
        self.load.count(arrived, bytes);
        self.first.get_or_insert(arrived);
        self.last = self.last.max(arrived);
        if let Some((sent, bound)) = (self.peer_clock)(header.sent) {
            self.cut.one_way.record(arrived.nanos_since(sent), bound);
        }
    }
}

impl Receiver {
    pub(crate) fn new(
        plan: LoadPlan,
        stream: UdpStream,
        stop: Stop,
        events: mpsc::Sender<StreamEvent>,
        expected: Expected,
        peer_clock: PeerClock,
    ) -> Self {
        let (start, size) = (plan.start, stream.traffic.size);
        Self {
            // One byte more than planned, which exposes longer datagrams.
            buffer: vec![0; BATCH * (size + 1)],
            counts: Counts {
                token: stream.token,
                size,
                peer_clock,
                clocks: Clocks::new(),
                tracker: SequenceTracker::new(stream.traffic.planned_max())
                    .with_intervals(plan.interval, stream.traffic.gap()),
                cut: DatagramCut::new(stream.stream, start),
                one_way: OneWayHistogram::new(),
                bytes: 0,
                foreign: 0,
                first: None,
                last: start,
                load: LoadTime::new(plan.duration),
            },
            since_empty: 0,
            next_clocks: start,
            count_known_at: None,
            dropped_before: kernel::udp_drops(&stream.socket).unwrap_or(0),
            plan,
            stream,
            stop,
            events,
            expected,
        }
    }

    /// Receives until all sent datagrams have arrived, or the waiting time after the sender's end has passed.
    pub(crate) fn run(mut self) {
        kernel::tight_timers();
        let failure = self.receive_all().err();
        self.finish(failure);
    }

    fn receive_all(&mut self) -> Result<(), KernelError> {
        loop {
            let now = kernel::now();
            self.tick(now);
            if self.stop.is_at_once() || self.is_complete(now) {
                return Ok(());
            }
            self.check_silence(now)?;
            let counts = &mut self.counts;
            let got = kernel::recv_batch(&self.stream.socket, &mut self.buffer, |d| counts.handle(&d))?;
            if got == 0 {
                self.pause(now)?;
            } else {
                self.since_empty += got;
            }
        }
    }

    /// Aborts the whole load if the sender has neither reported its end nor sent a datagram for the maximum silence.
    fn check_silence(&self, now: Instant) -> Result<(), KernelError> {
        let Some(limit) = self.plan.max_silence.filter(|_| self.count_known_at.is_none()) else { return Ok(()) };
        if now.saturating_since(self.counts.last) <= limit {
            return Ok(());
        }
        self.stop.at_once();
        let text = format!("no datagram arrived for {:.1} s", limit.as_secs_f64());
        Err(KernelError::new(Op::Receive, "udp", io::Error::new(io::ErrorKind::TimedOut, text)))
    }

    fn pause(&mut self, now: Instant) -> Result<(), KernelError> {
        if std::mem::take(&mut self.since_empty) >= BATCH {
            kernel::sleep_for(NAP);
            return Ok(());
        }
        let until = self.plan.cut(self.counts.cut.index).min(now + WAIT_MAX).max(now + NAP);
        kernel::wait(&self.stream.socket, false, until.saturating_since(now)).map(|_| ())
    }

    /// Whether all datagrams arrived, the waiting time after the sender's final count has passed, or the sender has
    /// vanished.
    fn is_complete(&mut self, now: Instant) -> bool {
        let Some(expected) = self.expected.known() else { return self.is_overdue(now) };
        let count_known_at = *self.count_known_at.get_or_insert(now);
        self.counts.tracker.received() >= expected || now >= count_known_at + TMAX
    }

    /// Whether twice the grace time has passed since the likely end and since the last datagram, without the sender's
    /// final count.
    fn is_overdue(&self, now: Instant) -> bool {
        let timeout = (self.plan.grace * 2).max(TMAX);
        let quiet = now.saturating_since(self.counts.last) > timeout;
        quiet && (now > self.stream.traffic.likely_end(self.plan.start) + timeout || self.stop.is_gentle())
    }

    fn tick(&mut self, now: Instant) {
        if self.stop.is_gentle() {
            self.counts.load.stop(now);
        }
        if now >= self.next_clocks {
            self.next_clocks = now + CLOCK_COMPARISON_INTERVAL;
            self.counts.clocks.refresh();
        }
        // Late datagrams after the end belong to the interval in which the transmission ended.
        let cut = self.plan.cut(self.counts.cut.index);
        let sending = self.count_known_at.is_none() && self.plan.end().is_none_or(|e| cut <= e);
        if now >= cut && sending {
            self.send_cut(now);
        }
    }

    fn send_cut(&mut self, end: Instant) {
        let udp = self.counts.tracker.interval();
        let done = self.counts.cut.split(end, Some(udp));
        self.counts.one_way.merge(&done.one_way);
        let _ = self.events.send(StreamEvent::Datagrams(Box::new(done)));
    }

    fn finish(mut self, failure: Option<KernelError>) {
        let (start, last) = (self.counts.cut.start, self.counts.last);
        if self.plan.is_worth_a_record(start, last) {
            self.send_cut(last);
        }
        let counts = self.counts;
        let mut one_way = counts.one_way;
        one_way.merge(&counts.cut.one_way);
        let totals = ReceivedTotals {
            foreign: counts.foreign,
            rejected: counts.tracker.rejected(),
            too_late: counts.tracker.late_beyond_window(),
            dropped: kernel::udp_drops(&self.stream.socket).unwrap_or(0).saturating_sub(self.dropped_before),
            one_way,
            summary: counts.tracker.finish(self.expected.known()),
        };
        let gap = self.stream.traffic.gap();
        // The last datagram occupies its gap, as at the sender.
        let last = if counts.first.is_some() { counts.last + gap } else { counts.last };
        let load_end =
            counts.load.ended(kernel::now().max(last)).map(|e| if self.plan.duration.is_none() { last } else { e });
        let _ = self.events.send(StreamEvent::Done(Box::new(StreamDone {
            bytes: counts.bytes,
            blocks: totals.summary.received,
            first: counts.first,
            last,
            load_end,
            drained: counts.load.drained(),
            cpu: kernel::thread_cpu(),
            clock_steps: counts.clocks.steps(),
            failure: failure.map(|e| e.to_string()),
            udp: Some(UdpDone::Received(Box::new(totals))),
            ..StreamDone::empty(self.stream.stream, self.plan.start)
        })));
    }
}
