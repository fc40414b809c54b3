//! Thread that receives one stream: it reads blocks, echoes their headers and reports the arrivals of sampled blocks.

use std::sync::mpsc;
use std::time::Duration;

use estimate::Timeline;
use kernel::{Clocks, KernelError, Received};
use results::{DelayHistogram, TcpState};
use units::{Bytes, Instant};
use wire::{BLOCK_HEADER_BYTES as HEADER_LEN, BlockHeader, HeaderScanner, RemoteSample};

use super::collect::{ReceiverCut, StreamDone, StreamEvent};
use super::disk::DiskWriter;
use super::{LoadPlan, LoadTime, Stop, StreamSocket};

/// Maximum bytes of one read, over all streams of a direction, so that many streams do not need a megabyte each.
const READ_BYTES_MAX: usize = 1 << 20;

/// Minimum size of one stream's read buffer: a quarter of a packet buffer of the kernel.
const READ_BYTES_MIN: usize = 16 << 10;

/// Unsent echo bytes at which the receiver stops reading: a peer that does not read its echoes stalls only its own
/// test.
const ECHO_BACKLOG_MAX: usize = 1 << 20;

/// Bytes after which a receiver with an empty socket sleeps briefly instead of waiting for a wake-up. At such rates
/// (above about 20 Gb/s) a wake-up for each segment costs the sender more than the segment itself.
const NAP_BYTES_MIN: usize = 192 << 10;

/// Length of this sleep, and the maximum that it adds to a delay.
const NAP: Duration = Duration::from_micros(50);

/// Initial resolution of the byte counts over time; it becomes coarser in a test of more than [`TIMELINE_BINS_MAX`]
/// bins.
const TIMELINE_BIN: Duration = Duration::from_millis(10);

/// Maximum number of bins; neighbours merge when more are needed.
const TIMELINE_BINS_MAX: usize = 2048;

/// Maximum lead of a stream over its rate limit: the bursts of a conforming sender.
const CEILING_SLACK: Duration = Duration::from_millis(200);

/// Interval at which samples are sent to the peer.
const SAMPLES_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Receiver {
    plan: LoadPlan,
    stream: StreamSocket,
    stop: Stop,
    events: mpsc::Sender<StreamEvent>,
    buffer: Vec<u8>,
    scanner: HeaderScanner,
    echoes: Vec<u8>,
    clocks: Clocks,
    next_sample: u32,
    /// Index of the next sampled block in the stream; unlike the block number, it does not wrap.
    next_sample_index: u64,
    samples: Vec<RemoteSample>,
    next_samples: Instant,
    cut: ReceiverCut,
    timeline: Timeline,
    bytes: u64,
    headers: u64,
    since_empty: usize,
    first: Option<Instant>,
    last: Instant,
    load: LoadTime,
    disk: Option<DiskWriter>,
    /// Segments that had arrived out of order by the last cut.
    out_of_order: u64,
}

impl Receiver {
    pub(crate) fn new(plan: LoadPlan, stream: StreamSocket, stop: Stop, events: mpsc::Sender<StreamEvent>) -> Self {
        let _ = stream.socket.set_nodelay(true);
        kernel::enable_stamps(&stream.socket, false, true);
        let start = plan.start;
        Self {
            scanner: HeaderScanner::new(plan.block as u64),
            buffer: vec![0; (READ_BYTES_MAX / plan.streams.max(1) as usize).max(READ_BYTES_MIN)],
            cut: ReceiverCut::new(stream.stream, start),
            timeline: Timeline::new(start, TIMELINE_BIN, TIMELINE_BINS_MAX),
            echoes: Vec::new(),
            clocks: Clocks::new(),
            next_sample: 0,
            next_sample_index: 0,
            samples: Vec::new(),
            next_samples: start,
            bytes: 0,
            headers: 0,
            since_empty: 0,
            first: None,
            last: start,
            load: LoadTime::new(plan.duration),
            disk: plan.disk.clone().map(DiskWriter::new),
            out_of_order: 0,
            plan,
            stream,
            stop,
            events,
        }
    }

    /// Receives until the sender closes, the load is stopped at once, or nothing arrives for twice the grace time after
    /// the planned end.
    pub(crate) fn run(mut self) {
        kernel::tight_timers();
        let failure = self.receive_all().err();
        self.finish(failure);
    }

    fn receive_all(&mut self) -> Result<(), KernelError> {
        loop {
            let now = kernel::now();
            self.tick(now);
            if self.stop.is_at_once() || self.is_overdue(now) {
                self.stream.reset_on_close();
                return Ok(());
            }
            self.send_echoes()?;
            if let Some(rest) = self.lead_over_ceiling(now) {
                kernel::sleep_for(rest.min(SAMPLES_INTERVAL));
                continue;
            }
            if self.echoes.len() >= ECHO_BACKLOG_MAX {
                kernel::wait_for_room(&self.stream.socket, SAMPLES_INTERVAL)?;
                continue;
            }
            match self.read()? {
                Received::Bytes(n) => {
                    self.count(n);
                    if self.disk.is_some() {
                        self.store(n)?;
                    }
                }
                Received::Nothing => self.pause(now)?,
                Received::End => {
                    self.at_disk(DiskWriter::settle)?;
                    return self.flush_echoes();
                }
            }
        }
    }

    /// Time for which data must stay unread to keep the stream within its rate limit; TCP flow control then slows the
    /// sender.
    fn lead_over_ceiling(&self, now: Instant) -> Option<Duration> {
        let due = self.plan.ceiling?.time_for(Bytes::new(self.bytes))?;
        let elapsed = now.saturating_since(self.plan.start) + CEILING_SLACK;
        due.checked_sub(elapsed).filter(|d| !d.is_zero())
    }

    /// Whether twice the grace time has passed since the planned end and since the last byte: the sender has vanished.
    fn is_overdue(&self, now: Instant) -> bool {
        let quiet = now.saturating_since(self.last) > self.plan.grace * 2;
        quiet && (self.plan.end().is_some_and(|e| now > e + self.plan.grace * 2) || self.stop.is_gentle())
    }

    fn read(&mut self) -> Result<Received, KernelError> {
        let position = self.scanner.position();
        let sample_end =
            self.next_sample_index.saturating_mul(self.plan.block as u64).saturating_add(HEADER_LEN as u64);
        let to_sample = usize::try_from(sample_end.saturating_sub(position)).unwrap_or(usize::MAX);
        if to_sample > 0 && to_sample <= self.buffer.len() {
            return self.read_sample(to_sample);
        }
        if self.plan.zero_copy {
            return self.read_zero_copy();
        }
        let received = kernel::read_some(&self.stream.socket, &mut self.buffer)?;
        if let Received::Bytes(n) = received {
            self.scan(n);
        }
        Ok(received)
    }

    /// Reads exactly up to the end of a sampled header, so that the timestamp of the read is that of the header's
    /// segment.
    fn read_sample(&mut self, limit: usize) -> Result<Received, KernelError> {
        let (received, stamp) = kernel::read_stamped(&self.stream.socket, &mut self.buffer[..limit])?;
        if let Received::Bytes(n) = received {
            let read = kernel::now();
            let block = self.next_sample;
            self.scan(n);
            if n == limit {
                let arrived_ns = stamp.map(|ns| self.clocks.monotonic(ns).as_nanos());
                self.samples.push(RemoteSample { block, arrived_ns, read_ns: read.as_nanos() });
            }
        }
        Ok(received)
    }

    fn read_zero_copy(&mut self) -> Result<Received, KernelError> {
        let to_header_end = self.scanner.bytes_until_next_header_end();
        if to_header_end > HEADER_LEN {
            let received = kernel::discard(&self.stream.socket, to_header_end - HEADER_LEN)?;
            if let Received::Bytes(n) = received {
                let _ = self.scanner.skip(n as u64);
            }
            return Ok(received);
        }
        let received = kernel::read_some(&self.stream.socket, &mut self.buffer[..to_header_end])?;
        if let Received::Bytes(n) = received {
            self.scan(n);
        }
        Ok(received)
    }

    /// Finds the headers in the read bytes and queues their echoes.
    fn scan(&mut self, n: usize) {
        let (echoes, headers) = (&mut self.echoes, &mut self.headers);
        let (next_sample, next_index) = (&mut self.next_sample, &mut self.next_sample_index);
        self.scanner.feed(&self.buffer[..n], |header| {
            echoes.extend_from_slice(header);
            let header = BlockHeader::decode(header);
            *next_sample = header.next_sample;
            *next_index = *headers + u64::from(header.next_sample.wrapping_sub(header.number));
            *headers += 1;
        });
    }

    fn count(&mut self, n: usize) {
        let now = kernel::now();
        self.first.get_or_insert(now);
        self.last = now;
        self.bytes += n as u64;
        self.load.count(now, n as u64);
        self.since_empty += n;
        self.cut.bytes += n as u64;
        self.timeline.add(now, Bytes::new(n as u64));
    }

    /// Writes the read bytes to the disk.
    fn store(&mut self, n: usize) -> Result<(), KernelError> {
        let data = std::mem::take(&mut self.buffer);
        let stored = self.at_disk(|disk| disk.write(data.get(..n).unwrap_or_default()));
        self.buffer = data;
        stored
    }

    fn at_disk(&mut self, work: impl FnOnce(&mut DiskWriter) -> Result<(), KernelError>) -> Result<(), KernelError> {
        let Some(disk) = &mut self.disk else { return Ok(()) };
        let start = kernel::now();
        let done = work(disk);
        self.cut.disk += kernel::now().saturating_since(start);
        done
    }

    fn send_echoes(&mut self) -> Result<(), KernelError> {
        if !self.echoes.is_empty()
            && let Received::Bytes(n) = kernel::send_some(&self.stream.socket, &self.echoes, false)?
        {
            self.echoes.drain(..n);
        }
        Ok(())
    }

    /// Handles an empty socket: sleeps briefly at a high rate, else waits for a wake-up.
    fn pause(&mut self, now: Instant) -> Result<(), KernelError> {
        if std::mem::take(&mut self.since_empty) >= NAP_BYTES_MIN && self.echoes.is_empty() {
            kernel::sleep_for(NAP);
            return Ok(());
        }
        self.wait(now)
    }

    fn wait(&self, now: Instant) -> Result<(), KernelError> {
        let mut until = self.plan.cut(self.cut.index).min(now + Duration::from_secs(1));
        if !self.samples.is_empty() {
            until = until.min(self.next_samples);
        }
        let writing = !self.echoes.is_empty();
        kernel::wait(&self.stream.socket, writing, until.saturating_since(now)).map(|_| ())
    }

    fn tick(&mut self, now: Instant) {
        if self.stop.is_gentle() {
            self.load.stop(now);
        }
        if now >= self.next_samples {
            self.next_samples = now + SAMPLES_INTERVAL;
            self.send_samples();
        }
        if now >= self.plan.cut(self.cut.index) {
            self.send_cut(now);
        }
    }

    fn send_samples(&mut self) {
        self.clocks.refresh();
        if !self.samples.is_empty() {
            let samples = std::mem::take(&mut self.samples);
            let _ = self.events.send(StreamEvent::Samples { stream: self.stream.stream, samples });
        }
    }

    fn send_cut(&mut self, now: Instant) {
        let tcp = kernel::tcp_state(&self.stream.socket).ok();
        let next = ReceiverCut::next(&self.cut, now);
        let mut done = std::mem::replace(&mut self.cut, next);
        let out_of_order = tcp.as_ref().and_then(|t| t.out_of_order_segments).unwrap_or(0);
        let segments = out_of_order.saturating_sub(self.out_of_order);
        done.out_of_order_bytes = segments.saturating_mul(tcp.as_ref().map_or(0, |t| t.mss_bytes));
        self.out_of_order = out_of_order;
        done.complete(now, tcp);
        let _ = self.events.send(StreamEvent::Received(Box::new(done)));
    }

    /// Sends the last echoes after the sender has closed, before this side closes.
    fn flush_echoes(&mut self) -> Result<(), KernelError> {
        let give_up = kernel::now() + self.plan.grace;
        while !self.echoes.is_empty() && kernel::now() < give_up && !self.stop.is_at_once() {
            self.send_echoes()?;
            if !self.echoes.is_empty() {
                kernel::wait(&self.stream.socket, true, SAMPLES_INTERVAL)?;
            }
        }
        Ok(())
    }

    fn finish(mut self, failure: Option<KernelError>) {
        self.send_samples();
        if self.plan.is_worth_a_record(self.cut.start, kernel::now()) {
            self.send_cut(kernel::now());
        }
        let tcp: Option<TcpState> = kernel::tcp_state(&self.stream.socket).ok();
        if failure.is_some() {
            self.stream.reset_on_close();
        }
        let _ = self.events.send(StreamEvent::Done(Box::new(StreamDone {
            stream: self.stream.stream,
            bytes: self.bytes,
            blocks: self.bytes / (self.plan.block as u64).max(1),
            first: self.first,
            last: self.last,
            load_end: self.load.ended(kernel::now()),
            drained: self.load.drained(),
            cpu: kernel::thread_cpu(),
            retransmits: 0,
            tcp,
            rtt: DelayHistogram::new(),
            srtt: DelayHistogram::new(),
            timeline: Some(self.timeline),
            loss_episodes: Vec::new(),
            loss_episode_count: 0,
            clock_steps: self.clocks.steps(),
            failure: failure.map(|e| e.to_string()),
            udp: None,
        })));
    }
}
