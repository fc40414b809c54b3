//! Thread that sends one stream: it writes blocks, reads echoes, and records kernel timestamps and TCP_INFO.

use std::collections::VecDeque;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use estimate::{LossEpisodes, Stages, StampKind};
use kernel::{Clocks, KernelError, Received, Stamped, Tail};
use results::{DelayHistogram, TcpState};
use units::Instant;
use wire::{BLOCK_HEADER_BYTES as HEADER_LEN, BlockHeader, EchoReader};

use super::collect::{SenderCut, StreamDone, StreamEvent};
use super::disk::DiskReader;
use super::filler::Filler;
use super::unsent::{Room, Unsent};
use super::{LoadPlan, SampleTap, Stop, StreamSocket};

/// Interval at which the socket's state is read: short enough to detect a loss episode on a continental path.
const STATE_INTERVAL: Duration = Duration::from_millis(10);

/// Bytes of echoes in one read: 256 headers.
const ECHO_CHUNK: usize = 4096;

pub(crate) struct Sender {
    plan: LoadPlan,
    stream: StreamSocket,
    budget: Option<u64>,
    stop: Stop,
    events: mpsc::Sender<StreamEvent>,
    stages: Arc<Mutex<Stages>>,
    filler: Filler<'static>,
    disk: Option<DiskReader>,
    clocks: Clocks,
    tap: SampleTap,
    stamped: bool,
    sampled: VecDeque<u32>,
    echoes: EchoReader,
    cut: SenderCut,
    baseline: TcpState,
    last_state: TcpState,
    rtt: DelayHistogram,
    episodes: LossEpisodes,
    written: u64,
    blocks: u32,
    echoed: u64,
    unsent: Unsent,
    /// Bytes that may be written before the kernel is queried again for the unsent bytes.
    room: u64,
    next_state: Instant,
    first: Option<Instant>,
    last: Instant,
}

/// The block being written.
struct Block {
    len: usize,
    done: usize,
    header: [u8; HEADER_LEN],
}

impl Sender {
    pub(crate) fn new(
        plan: LoadPlan,
        stream: StreamSocket,
        budget: Option<u64>,
        stop: Stop,
        events: mpsc::Sender<StreamEvent>,
        stages: Arc<Mutex<Stages>>,
    ) -> Result<Self, KernelError> {
        let support = kernel::enable_stamps(&stream.socket, true, false);
        let baseline = kernel::tcp_state(&stream.socket)?;
        let filler = Filler::get(plan.zero_copy)?;
        let start = plan.start;
        let unsent = Unsent::new(plan.unsent, plan.pacing, start, baseline.bytes_acked);
        kernel::wake_below_unsent(&stream.socket, unsent.bound())?;
        Ok(Self {
            budget,
            stop,
            events,
            stages,
            filler,
            disk: plan.disk.as_ref().map(|d| DiskReader::new(d, plan.streams, stream.stream)),
            clocks: Clocks::new(),
            tap: SampleTap::new(start.as_nanos() ^ u64::from(stream.stream), plan.streams),
            stamped: support.transmit,
            sampled: VecDeque::new(),
            echoes: EchoReader::new(),
            cut: SenderCut::new(stream.stream, start, baseline.clone()),
            last_state: baseline.clone(),
            baseline,
            rtt: DelayHistogram::new(),
            episodes: LossEpisodes::new(stream.stream, start, 256),
            written: 0,
            blocks: 0,
            echoed: 0,
            unsent,
            room: 0,
            next_state: start,
            first: None,
            last: start,
            plan,
            stream,
        })
    }

    /// Sends until the plan is fulfilled or the load is stopped, then receives the outstanding echoes.
    pub(crate) fn run(mut self) {
        kernel::tight_timers();
        let failure = self.send_all().and_then(|()| self.drain()).err();
        self.finish(failure);
    }

    fn send_all(&mut self) -> Result<(), KernelError> {
        let end = self.plan.end();
        let mut block: Option<Block> = None;
        loop {
            let now = kernel::now();
            self.tick(now)?;
            if self.stop.is_gentle() || end.is_some_and(|e| now >= e) {
                return Ok(());
            }
            let left = self.budget.map(|b| b - self.written);
            if left == Some(0) {
                return Ok(());
            }
            if !self.has_room(now)? {
                continue;
            }
            let mut current = match block.take() {
                Some(started) => started,
                None => self.next_block(left)?,
            };
            let outcome = self.write(&mut current)?;
            if let Received::Bytes(n) = outcome {
                self.written += n as u64;
                self.room = self.room.saturating_sub(n as u64);
                current.done += n;
                if current.done == current.len {
                    self.read_echoes()?;
                    continue;
                }
            } else {
                self.wait(true, now, STATE_INTERVAL)?;
            }
            block = Some(current);
        }
    }

    /// Returns the next block of at most `left` bytes, read from the disk if there is one.
    fn next_block(&mut self, left: Option<u64>) -> Result<Block, KernelError> {
        let len = left.map_or(usize::MAX, |l| usize::try_from(l).unwrap_or(usize::MAX)).min(self.plan.block);
        if let Some(disk) = &mut self.disk {
            let start = kernel::now();
            disk.fill(len)?;
            self.cut.disk += kernel::now().saturating_since(start);
        }
        Ok(Block { len, done: 0, header: [0; HEADER_LEN] })
    }

    /// Returns whether the stream may write now. If not, waits, but not beyond the next due action.
    fn has_room(&mut self, now: Instant) -> Result<bool, KernelError> {
        if self.room > 0 {
            return Ok(true);
        }
        let elapsed = self.first.map_or(Duration::ZERO, |f| now.saturating_since(f));
        match self.unsent.room(kernel::unsent_bytes(&self.stream.socket)?, self.written, elapsed) {
            Room::Bytes(n) => self.room = n,
            Room::Full => self.wait(true, now, STATE_INTERVAL)?,
            Room::Ahead(rest) => self.wait(false, now, rest)?,
        }
        Ok(self.room > 0)
    }

    /// Writes the next bytes of a block, as far as there is room. The time in its header is read when its first byte is
    /// offered.
    fn write(&mut self, block: &mut Block) -> Result<Received, KernelError> {
        if block.done > 0 {
            return self.write_rest(block);
        }
        let now = kernel::now();
        let want = block.len.min(usize::try_from(self.room).unwrap_or(usize::MAX));
        let sampled = self.tap.is_due(self.blocks) && self.stamped && want >= HEADER_LEN;
        let next = if sampled { self.peek_next(now) } else { self.tap.next() };
        block.header = BlockHeader { sent: now, number: self.blocks, next_sample: next }.encode();
        let outcome = if sampled {
            kernel::send_stamped(&self.stream.socket, &block.header, self.fills_segment_after(HEADER_LEN))?
        } else {
            self.write_rest(block)?
        };
        if let Received::Bytes(n) = outcome {
            self.first.get_or_insert(now);
            if sampled && n == HEADER_LEN {
                let end = self.written + n as u64;
                self.lock_stages().handle_written(self.blocks, end, now);
                self.sampled.push_back(self.blocks);
            }
            self.blocks = self.blocks.wrapping_add(1);
        }
        Ok(outcome)
    }

    /// Returns the number of the next sample, which the header of a sampled block announces; the choice is made once,
    /// when the header is first offered.
    fn peek_next(&mut self, now: Instant) -> u32 {
        self.tap.handle_offered(self.blocks, self.echoed, now);
        self.tap.next()
    }

    /// Writes the remaining bytes of a block. The last byte before a sampled header ends its packet buffer.
    fn write_rest(&self, block: &Block) -> Result<Received, KernelError> {
        let (socket, done) = (&self.stream.socket, block.done);
        let left = block.len - done;
        let want = left.min(usize::try_from(self.room).unwrap_or(usize::MAX));
        // The first byte of a block increments the block count.
        let next = if done > 0 { self.blocks } else { self.blocks.wrapping_add(1) };
        let ends = want == left && self.stamped && self.tap.is_due(next);
        let more = self.budget != Some(self.written + left as u64) && self.fills_segment_after(want);
        let tail = match (ends, more) {
            (true, _) => Tail::End,
            (false, true) => Tail::More,
            (false, false) => Tail::Flush,
        };
        let filler = self.disk.as_ref().map_or(self.filler, |d| Filler::Disk(d.body()));
        filler.send(socket, &block.header, (block.len, done), want, tail)
    }

    /// Whether another segment has room behind `bytes` more bytes. The end of a write before a wait must not carry
    /// MSG_MORE, with which the kernel would hold it for 200 ms.
    fn fills_segment_after(&self, bytes: usize) -> bool {
        self.room.saturating_sub(bytes as u64) >= self.last_state.mss_bytes
    }

    /// Waits for echoes and optionally for room in the socket, at most `duration_max` and not beyond the next due
    /// action.
    fn wait(&mut self, for_room: bool, since: Instant, duration_max: Duration) -> Result<(), KernelError> {
        let mut until = self.next_state.min(self.plan.cut(self.cut.index)).min(since + duration_max);
        if let Some(end) = self.plan.end() {
            until = until.min(end);
        }
        let woken = kernel::wait(&self.stream.socket, for_room, until.saturating_since(since))?;
        let now = kernel::now();
        self.cut.blocked += now.saturating_since(since);
        if woken.error {
            self.read_stamps()?;
        }
        if woken.readable {
            self.read_echoes()?;
        }
        Ok(())
    }

    /// Reads the received echoes and records their round trips. Returns whether the peer closed.
    fn read_echoes(&mut self) -> Result<bool, KernelError> {
        let mut chunk = [0_u8; ECHO_CHUNK];
        loop {
            let n = match kernel::read_some(&self.stream.socket, &mut chunk)? {
                Received::Bytes(n) => n,
                Received::Nothing => return Ok(false),
                Received::End => return Ok(true),
            };
            let now = kernel::now();
            let (rtt, cut, echoed) = (&mut self.rtt, &mut self.cut, &mut self.echoed);
            let (sampled, stages) = (&mut self.sampled, &self.stages);
            self.echoes.feed(&chunk[..n], |bytes| {
                let header = BlockHeader::decode(bytes);
                let delay = now.saturating_since(header.sent);
                rtt.record(delay);
                cut.rtt.record(delay);
                *echoed += 1;
                if sampled.front() == Some(&header.number) {
                    sampled.pop_front();
                    stages.lock().unwrap_or_else(PoisonError::into_inner).handle_echo(header.number, now);
                }
            });
            if n < ECHO_CHUNK {
                return Ok(false);
            }
        }
    }

    fn read_stamps(&self) -> Result<(), KernelError> {
        let mut stages = self.lock_stages();
        kernel::read_tx_stamps(&self.stream.socket, |s| {
            let kind = match s.point {
                Stamped::Scheduled => StampKind::Scheduled,
                Stamped::Sent => StampKind::Sent,
                Stamped::Acknowledged => StampKind::Acknowledged,
            };
            stages.handle_stamp(kind, s.offset, self.clocks.monotonic(s.realtime_ns));
        })
    }

    fn lock_stages(&self) -> std::sync::MutexGuard<'_, Stages> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes the due actions: reads the socket's state every 10 ms, and completes an interval.
    fn tick(&mut self, now: Instant) -> Result<(), KernelError> {
        if now >= self.next_state {
            self.next_state = now + STATE_INTERVAL;
            self.clocks.refresh();
            self.read_stamps()?;
            self.sample_state(now)?;
        }
        if now >= self.plan.cut(self.cut.index) {
            self.read_state(now)?;
            self.send_cut(now);
        }
        Ok(())
    }

    /// Reads the socket's state and counts its smoothed round trip. Only calls every 10 ms make the mean of the round
    /// trips one over time.
    fn sample_state(&mut self, now: Instant) -> Result<(), KernelError> {
        self.read_state(now)?;
        if self.last_state.srtt_ns > 0 {
            self.cut.srtt.record_nanos(self.last_state.srtt_ns);
        }
        Ok(())
    }

    fn read_state(&mut self, now: Instant) -> Result<(), KernelError> {
        let state = kernel::tcp_state(&self.stream.socket)?;
        self.episodes.handle_state(now, &state);
        if state.bytes_acked > self.last_state.bytes_acked {
            self.last = now;
        }
        if self.unsent.handle_acked(state.bytes_acked, now) {
            kernel::wake_below_unsent(&self.stream.socket, self.unsent.bound())?;
        }
        self.last_state = state;
        Ok(())
    }

    fn send_cut(&mut self, now: Instant) {
        let next = SenderCut::next(&self.cut, now, self.last_state.clone());
        let mut done = std::mem::replace(&mut self.cut, next);
        let stages = self.lock_stages().take_interval();
        done.complete(now, self.last_state.clone(), stages);
        // A closed channel means that the collector has ended; the stop flag follows.
        let _ = self.events.send(StreamEvent::Sent(Box::new(done)));
    }

    /// Closes the sending direction, and waits for the outstanding echoes, at most the grace time.
    fn drain(&mut self) -> Result<(), KernelError> {
        let now = kernel::now();
        if self.plan.is_worth_a_record(self.cut.start, now) {
            self.read_state(now)?;
            self.send_cut(now);
        }
        let _ = self.stream.socket.shutdown(std::net::Shutdown::Write);
        let give_up = now + self.plan.grace;
        // A load of a given amount of data lasts until all of it has arrived.
        let is_drain = self.plan.end().is_some() || self.stop.is_gentle();
        loop {
            let now = kernel::now();
            if now >= self.next_state && !is_drain {
                self.next_state = now + STATE_INTERVAL;
                self.sample_state(now)?;
            }
            if now >= give_up || self.stop.is_at_once() {
                self.stream.reset_on_close();
                return Ok(());
            }
            let woken = kernel::wait(&self.stream.socket, false, STATE_INTERVAL)?;
            if woken.error {
                self.read_stamps()?;
            }
            let closed = self.read_echoes()?;
            self.read_state(kernel::now())?;
            if closed {
                return Ok(());
            }
        }
    }

    fn finish(mut self, failure: Option<KernelError>) {
        if self.stop.is_at_once() || failure.is_some() {
            self.stream.reset_on_close();
        }
        let _ = self.read_stamps();
        let now = kernel::now();
        let _ = self.read_state(now);
        let (loss_episodes, loss_episode_count) = self.episodes.finish(now, None);
        let _ = self.events.send(StreamEvent::Done(Box::new(StreamDone {
            stream: self.stream.stream,
            bytes: self.written,
            blocks: self.echoed,
            first: self.first,
            last: self.last,
            load_end: None,
            drained: 0,
            cpu: kernel::thread_cpu(),
            retransmits: self.last_state.retransmits.saturating_sub(self.baseline.retransmits),
            tcp: Some(self.last_state),
            rtt: self.rtt,
            srtt: self.cut.srtt,
            timeline: None,
            loss_episodes,
            loss_episode_count,
            clock_steps: self.clocks.steps(),
            failure: failure.map(|e| e.to_string()),
            udp: None,
        })));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    const BLOCK_BYTES: usize = 1024;
    const LOAD: Duration = Duration::from_millis(200);

    /// Reads nothing before the load has ended, then reads and echoes a block each millisecond.
    fn echo_late(mut socket: TcpStream) {
        std::thread::sleep(LOAD * 2);
        let mut block = [0; BLOCK_BYTES];
        while socket.read_exact(&mut block).is_ok() {
            socket.write_all(&block[..HEADER_LEN]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_drain_adds_no_samples_to_the_mean_round_trip() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let (peer, _) = listener.accept().unwrap();
        let peer = std::thread::spawn(move || echo_late(peer));
        let plan = results::TestPlan { block_bytes: BLOCK_BYTES as u64, ..testbed::plan(LOAD) };
        let load = LoadPlan::new(&plan, "t", kernel::now(), Duration::from_secs(60));
        let stages = Arc::new(Mutex::new(Stages::new(load.start)));
        let stream = StreamSocket { stream: 0, direction: results::Direction::Up, socket, budget: None };
        let (events, inbox) = mpsc::channel();
        Sender::new(load, stream, None, Stop::default(), events, stages).unwrap().run();
        peer.join().unwrap();
        let (mut samples, mut end) = (DelayHistogram::new(), None);
        for event in inbox {
            match event {
                StreamEvent::Sent(cut) => samples.merge(&cut.srtt),
                StreamEvent::Done(done) => end = Some(done),
                StreamEvent::Received(_) | StreamEvent::Datagrams(_) | StreamEvent::Samples { .. } => {}
            }
        }
        let done = end.unwrap();
        samples.merge(&done.srtt);
        // Every 10 ms from 0 to 200 ms.
        let samples_max = 21;
        assert!((1..=samples_max).contains(&samples.count()), "{} samples", samples.count());
        // The state is read after every echo of the drain. Before anything is read, the load fills the first window of
        // 64 kB at least.
        assert!(done.blocks > 2 * samples_max, "{done:?}");
        assert_eq!((done.rtt.count(), done.blocks), (done.blocks, done.bytes / BLOCK_BYTES as u64));
    }
}
