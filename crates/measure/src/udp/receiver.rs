//! The thread that receives one stream of datagrams.

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

/// Datagrams that `kernel::recv_batch` takes at most in one call.
const BATCH: usize = 32;

/// Longest wait for a datagram, so that a stop and the sender's word are heeded soon.
const WAIT: Duration = Duration::from_millis(20);

/// A receiver that finds its socket empty after a whole batch naps instead of asking to be woken: at such rates one
/// wake-up per datagram costs more than the datagram. Arrivals are stamped by the kernel, so no delay is changed.
const NAP: Duration = Duration::from_micros(50);

/// How often realtime and monotonic clock are compared.
const CLOCKS_EVERY: Duration = Duration::from_millis(100);

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
    /// When the sender's word arrived.
    told: Option<Instant>,
    dropped_before: u64,
}

/// What was received so far.
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
        // Control datagrams (the address validation's last copies) have another token too, but are nobody's fault.
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
            // One byte more than planned, so that a longer datagram shows.
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
            told: None,
            dropped_before: kernel::udp_drops(&stream.socket).unwrap_or(0),
            plan,
            stream,
            stop,
            events,
            expected,
        }
    }

    /// Receives until all that was sent is there, or the waiting time after the sender's end is over.
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

    /// Breaks the whole load off when the sender has not said that it is done and has sent nothing for too long.
    fn check_silence(&self, now: Instant) -> Result<(), KernelError> {
        let Some(limit) = self.plan.max_silence.filter(|_| self.told.is_none()) else { return Ok(()) };
        if now.saturating_since(self.counts.last) <= limit {
            return Ok(());
        }
        self.stop.at_once();
        let text = format!("no datagram came for {:.1} s", limit.as_secs_f64());
        Err(KernelError::new(Op::Receive, "udp", io::Error::new(io::ErrorKind::TimedOut, text)))
    }

    fn pause(&mut self, now: Instant) -> Result<(), KernelError> {
        if std::mem::take(&mut self.since_empty) >= BATCH {
            kernel::sleep_for(NAP);
            return Ok(());
        }
        let until = self.plan.cut(self.counts.cut.index).min(now + WAIT).max(now + NAP);
        kernel::wait(&self.stream.socket, false, until.saturating_since(now)).map(|_| ())
    }

    /// All arrived; or the sender said how many there are and the waiting time is over; or the sender is long silent.
    fn is_complete(&mut self, now: Instant) -> bool {
        let Some(expected) = self.expected.known() else { return self.is_overdue(now) };
        let told = *self.told.get_or_insert(now);
        self.counts.tracker.received() >= expected || now >= told + TMAX
    }

    /// Without the sender's word: twice the grace time after the likely end, and as long without a datagram.
    fn is_overdue(&self, now: Instant) -> bool {
        let patience = (self.plan.grace * 2).max(TMAX);
        let quiet = now.saturating_since(self.counts.last) > patience;
        quiet && (now > self.stream.traffic.likely_end(self.plan.start) + patience || self.stop.is_gentle())
    }

    fn tick(&mut self, now: Instant) {
        if self.stop.is_gentle() {
            self.counts.load.stop(now);
        }
        if now >= self.next_clocks {
            self.next_clocks = now + CLOCKS_EVERY;
            self.counts.clocks.refresh();
        }
        // After the end only stragglers come: they belong to the interval in which the sending ended.
        let cut = self.plan.cut(self.counts.cut.index);
        let sending = self.told.is_none() && self.plan.end().is_none_or(|e| cut <= e);
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
        let (begin, last) = (self.counts.cut.begin, self.counts.last);
        if self.plan.is_worth_a_record(begin, last) {
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
        // As at the sender: the last datagram stands for its gap too.
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
