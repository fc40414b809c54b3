use std::time::Duration;

use estimate::OneWayHistogram;
use results::{StreamInterval, UdpInterval};
use units::{Bytes, Instant, Rate};

/// One interval of one datagram stream, at either end.
#[derive(Debug)]
pub(crate) struct DatagramCut {
    pub(crate) stream: u32,
    pub(crate) index: u64,
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    /// Bytes of UDP payload sent, or received for the first time.
    pub(crate) bytes: u64,
    /// Counts of the receiver.
    pub(crate) udp: Option<UdpInterval>,
    /// One-way delays at the receiver.
    pub(crate) one_way: OneWayHistogram,
    cpu_start: Duration,
    pub(crate) cpu: Duration,
}

impl DatagramCut {
    pub(crate) fn new(stream: u32, start: Instant) -> Self {
        Self {
            stream,
            index: 0,
            start,
            end: start,
            bytes: 0,
            udp: None,
            one_way: OneWayHistogram::new(),
            cpu_start: kernel::thread_cpu(),
            cpu: Duration::ZERO,
        }
    }

    /// Completes the interval, returns it, and starts the next one in its place.
    pub(crate) fn split(&mut self, end: Instant, udp: Option<UdpInterval>) -> Self {
        let next = Self { index: self.index + 1, ..Self::new(self.stream, end) };
        let mut done = std::mem::replace(self, next);
        (done.end, done.udp) = (end, udp);
        done.cpu = kernel::thread_cpu().saturating_sub(done.cpu_start);
        done
    }

    /// Record of the interval.
    pub(crate) fn interval(&self) -> StreamInterval {
        StreamInterval {
            stream: self.stream,
            bytes: self.bytes,
            throughput_bps: Rate::of(Bytes::new(self.bytes), self.end.saturating_since(self.start)).as_bps(),
            udp: self.udp.clone(),
            cpu_s: self.cpu.as_secs_f64(),
            ..StreamInterval::default()
        }
    }
}

/// Sum of the counts of several streams.
pub(crate) fn merged<'a>(all: impl Iterator<Item = &'a UdpInterval>) -> Option<UdpInterval> {
    let mut jitter = super::end::MeanJitter::default();
    let mut sum: Option<UdpInterval> = None;
    for u in all {
        let s = sum.get_or_insert_with(UdpInterval::default);
        s.received += u.received;
        s.lost += u.lost;
        s.duplicates += u.duplicates;
        s.reordered += u.reordered;
        // A stream that received nothing in this interval still has its jitter.
        jitter.add(u.jitter_ns, u.received.max(1));
    }
    if let Some(s) = &mut sum {
        s.jitter_ns = jitter.nanos();
    }
    sum
}
