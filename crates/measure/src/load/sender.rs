//! The thread that sends one stream: blocks out, echoes in, kernel stamps and TCP_INFO on the side.

use std::collections::VecDeque;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use estimate::{LossEpisodes, Stages, StampKind};
use kernel::{Clocks, KernelError, Received, SendFile, Stamped};
use results::{DelayHistogram, TcpState};
use units::Instant;
use wire::{BLOCK_HEADER_BYTES as HEADER_LEN, BlockHeader, EchoReader, FILLER};

use super::collect::{SenderCut, StreamDone, StreamEvent};
use super::{LoadPlan, SampleTap, Stop, StreamSocket};

/// How often the socket's state is read; fine enough to see a loss episode on a continental path.
const STATE_EVERY: Duration = Duration::from_millis(10);

/// Echoes are read in chunks of this size: 256 headers.
const ECHO_CHUNK: usize = 4096;

/// Where a block's bytes come from.
enum Source {
    /// One buffer, header in front; copied into the kernel.
    Buffer(Vec<u8>),
    /// The page cache; only the header is copied.
    File(SendFile),
}

pub(crate) struct Sender {
    plan: LoadPlan,
    stream: StreamSocket,
    budget: Option<u64>,
    stop: Stop,
    events: mpsc::Sender<StreamEvent>,
    stages: Arc<Mutex<Stages>>,
    source: Source,
    clocks: Clocks,
    tap: SampleTap,
    stamped: bool,
    sampled: VecDeque<u32>,
    echoes: EchoReader,
    cut: SenderCut,
    baseline: TcpState,
    last_state: TcpState,
    rtt: DelayHistogram,
    srtt: DelayHistogram,
    episodes: LossEpisodes,
    written: u64,
    blocks: u32,
    echoed: u64,
    next_state: Instant,
    first: Option<Instant>,
    last: Instant,
}

/// The block being written.
struct Block {
    len: usize,
    done: usize,
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
        let source = if plan.zero_copy {
            Source::File(SendFile::new(plan.block, FILLER)?)
        } else {
            Source::Buffer(vec![FILLER; plan.block])
        };
        let start = plan.start;
        Ok(Self {
            budget,
            stop,
            events,
            stages,
            source,
            clocks: Clocks::new(),
            tap: SampleTap::new(plan.block, start.as_nanos() ^ u64::from(stream.stream)),
            stamped: support.transmit,
            sampled: VecDeque::new(),
            echoes: EchoReader::new(),
            cut: SenderCut::new(stream.stream, start, baseline.clone()),
            last_state: baseline.clone(),
            baseline,
            rtt: DelayHistogram::new(),
            srtt: DelayHistogram::new(),
            episodes: LossEpisodes::new(stream.stream, start, 256),
            written: 0,
            blocks: 0,
            echoed: 0,
            next_state: start,
            first: None,
            last: start,
            plan,
            stream,
        })
    }

    /// Sends until the plan is fulfilled or the load is stopped, then collects what is under way.
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
            if self.stop.is_at_once() {
                return Ok(());
            }
            if block.is_none() {
                let left = self.budget.map(|b| b - self.written);
                if left == Some(0) || end.is_some_and(|e| now >= e) || self.stop.is_gentle() {
                    return Ok(());
                }
                let len =
                    left.map_or(self.plan.block, |l| usize::try_from(l).unwrap_or(usize::MAX).min(self.plan.block));
                block = Some(Block { len, done: 0 });
            }
            let Some(current) = block.as_mut() else { continue };
            let last = self.budget == Some(self.written + (current.len - current.done) as u64);
            match self.write(current.len, current.done, now, last)? {
                Received::Bytes(n) => {
                    self.written += n as u64;
                    current.done += n;
                    if current.done == current.len {
                        block = None;
                        self.read_echoes()?;
                    }
                }
                Received::Nothing | Received::End => {
                    let deadline = if block.as_ref().is_some_and(|b| b.done > 0) { None } else { end };
                    self.wait_for_room(now, deadline)?;
                }
            }
        }
    }

    /// Writes what follows `done` bytes of a block; the header's time is read at the moment its first byte is offered.
    fn write(&mut self, len: usize, done: usize, now: Instant, last: bool) -> Result<Received, KernelError> {
        if done > 0 {
            return self.write_body(len, done, last);
        }
        let sampled = self.tap.is_due(self.blocks) && self.stamped && len >= HEADER_LEN;
        let next = if sampled { self.peek_next(now) } else { self.tap.next() };
        let header = BlockHeader { sent: now, number: self.blocks, next_sample: next }.encode();
        let socket = &self.stream.socket;
        let outcome = match &mut self.source {
            _ if sampled => kernel::send_stamped(socket, &header)?,
            Source::Buffer(buffer) => {
                let head = HEADER_LEN.min(len);
                buffer[..head].copy_from_slice(&header[..head]);
                kernel::send_some(socket, &buffer[..len], !last)?
            }
            Source::File(_) => kernel::send_some(socket, &header[..HEADER_LEN.min(len)], len > HEADER_LEN || !last)?,
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

    /// A sampled block announces its successor; the choice is made once, when the header is first offered.
    fn peek_next(&mut self, now: Instant) -> u32 {
        self.tap.offered(self.blocks, self.echoed, now);
        self.tap.next()
    }

    fn write_body(&self, len: usize, done: usize, last: bool) -> Result<Received, KernelError> {
        match &self.source {
            Source::Buffer(buffer) => kernel::send_some(&self.stream.socket, &buffer[done..len], !last),
            Source::File(file) => file.send(&self.stream.socket, done, len - done),
        }
    }

    /// The socket takes no more: waits for room or echoes, never beyond the next thing that is due.
    fn wait_for_room(&mut self, since: Instant, deadline: Option<Instant>) -> Result<(), KernelError> {
        let mut until = self.next_state.min(self.plan.cut(self.cut.index));
        if let Some(d) = deadline {
            until = until.min(d);
        }
        let woken = kernel::wait(&self.stream.socket, true, until.saturating_since(since))?;
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

    /// Takes the echoes that are there and records their round trips. Returns whether the peer closed.
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

    /// What is due by the clock: the socket's state every 10 ms, the cut of an interval.
    fn tick(&mut self, now: Instant) -> Result<(), KernelError> {
        if now >= self.next_state {
            self.next_state = now + STATE_EVERY;
            self.clocks.refresh();
            self.read_stamps()?;
            self.look(now)?;
        }
        if now >= self.plan.cut(self.cut.index) {
            self.look(now)?;
            self.send_cut(now);
        }
        Ok(())
    }

    fn look(&mut self, now: Instant) -> Result<(), KernelError> {
        let state = kernel::tcp_state(&self.stream.socket)?;
        self.episodes.handle_state(now, &state);
        if state.srtt_ns > 0 {
            self.srtt.record_nanos(state.srtt_ns);
            self.cut.srtt.record_nanos(state.srtt_ns);
        }
        if state.bytes_acked > self.last_state.bytes_acked {
            self.last = now;
        }
        self.last_state = state;
        Ok(())
    }

    fn send_cut(&mut self, now: Instant) {
        let next = SenderCut::next(&self.cut, now, self.last_state.clone());
        let mut done = std::mem::replace(&mut self.cut, next);
        let stages = self.lock_stages().take_interval();
        done.complete(now, self.last_state.clone(), stages);
        // A closed channel means that the collector is gone; the stop flag will follow.
        let _ = self.events.send(StreamEvent::Sent(Box::new(done)));
    }

    /// All is written: tells the peer so, and waits for the outstanding echoes, at most the grace time.
    fn drain(&mut self) -> Result<(), KernelError> {
        let now = kernel::now();
        if self.plan.is_worth_a_record(self.cut.begin, now) {
            self.look(now)?;
            self.send_cut(now);
        }
        let _ = self.stream.socket.shutdown(std::net::Shutdown::Write);
        let give_up = now + self.plan.grace;
        loop {
            let now = kernel::now();
            if now >= give_up || self.stop.is_at_once() {
                self.stream.reset_on_close();
                return Ok(());
            }
            let woken = kernel::wait(&self.stream.socket, false, STATE_EVERY)?;
            if woken.error {
                self.read_stamps()?;
            }
            let closed = self.read_echoes()?;
            self.look(kernel::now())?;
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
        let _ = self.look(now);
        let (loss_episodes, loss_episode_count) = self.episodes.finish(now, None);
        let _ = self.events.send(StreamEvent::Done(Box::new(StreamDone {
            stream: self.stream.stream,
            bytes: self.written,
            blocks: self.echoed,
            first: self.first,
            last: self.last,
            cpu: kernel::thread_cpu(),
            retransmits: self.last_state.retransmits.saturating_sub(self.baseline.retransmits),
            tcp: Some(self.last_state),
            rtt: self.rtt,
            srtt: self.srtt,
            timeline: None,
            loss_episodes,
            loss_episode_count,
            clock_steps: self.clocks.steps(),
            failure: failure.map(|e| e.to_string()),
            udp: None,
        })));
    }
}
