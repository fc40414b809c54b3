//! Reports of the threads of a load, and their combination into one record for each interval and direction.

use std::collections::BTreeMap;
use std::time::Duration;

use estimate::{
    OneWayHistogram, ReceiverEvidence, RoundTrips, SenderEvidence, StageHistograms, Timeline, combine, judge,
};
use kernel::CpuSnapshot;
use results::{
    CpuUse, DelayHistogram, Direction, End, IntervalRecord, LimitVerdict, LossEpisode, Role, StreamInterval, TcpState,
};
use units::{Bytes, Instant, Rate};
use wire::RemoteSample;

use super::LoadPlan;
use crate::udp::{DatagramCut, UdpDone, merged};

/// Report of a stream's thread.
#[derive(Debug)]
pub(crate) enum StreamEvent {
    /// Interval of a sender.
    Sent(Box<SenderCut>),
    /// Interval of a receiver.
    Received(Box<ReceiverCut>),
    /// Interval of either end of a datagram stream.
    Datagrams(Box<DatagramCut>),
    /// Arrivals of sampled blocks, for the sender.
    Samples { stream: u32, samples: Vec<RemoteSample> },
    /// The stream has ended.
    Done(Box<StreamDone>),
}

/// One interval of one sending stream.
#[derive(Debug)]
pub(crate) struct SenderCut {
    pub(crate) stream: u32,
    pub(crate) index: u64,
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) rtt: DelayHistogram,
    pub(crate) srtt: DelayHistogram,
    pub(crate) blocked: Duration,
    /// Time that the thread spent reading from the disk.
    pub(crate) disk: Duration,
    pub(crate) before: TcpState,
    pub(crate) after: TcpState,
    pub(crate) stages: StageHistograms,
    cpu_start: Duration,
    pub(crate) cpu: Duration,
}

impl SenderCut {
    pub(crate) fn new(stream: u32, start: Instant, before: TcpState) -> Self {
        Self {
            stream,
            index: 0,
            start,
            end: start,
            rtt: DelayHistogram::new(),
            srtt: DelayHistogram::new(),
            blocked: Duration::ZERO,
            disk: Duration::ZERO,
            after: before.clone(),
            before,
            stages: StageHistograms::default(),
            cpu_start: kernel::thread_cpu(),
            cpu: Duration::ZERO,
        }
    }

    pub(crate) fn next(previous: &Self, start: Instant, before: TcpState) -> Self {
        Self { index: previous.index + 1, ..Self::new(previous.stream, start, before) }
    }

    pub(crate) fn complete(&mut self, end: Instant, after: TcpState, stages: StageHistograms) {
        self.end = end;
        self.after = after;
        self.stages = stages;
        self.cpu = kernel::thread_cpu().saturating_sub(self.cpu_start);
    }

    fn bytes(&self) -> u64 {
        self.after.bytes_acked.saturating_sub(self.before.bytes_acked)
    }
}

/// One interval of one receiving stream.
#[derive(Debug)]
pub(crate) struct ReceiverCut {
    pub(crate) stream: u32,
    pub(crate) index: u64,
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) bytes: u64,
    /// Approximate number of bytes that arrived out of order.
    pub(crate) out_of_order_bytes: u64,
    /// Time that the thread spent writing to the disk and waiting for it.
    pub(crate) disk: Duration,
    pub(crate) tcp: Option<TcpState>,
    cpu_start: Duration,
    pub(crate) cpu: Duration,
}

impl ReceiverCut {
    pub(crate) fn new(stream: u32, start: Instant) -> Self {
        Self {
            stream,
            index: 0,
            start,
            end: start,
            bytes: 0,
            out_of_order_bytes: 0,
            disk: Duration::ZERO,
            tcp: None,
            cpu_start: kernel::thread_cpu(),
            cpu: Duration::ZERO,
        }
    }

    pub(crate) fn next(previous: &Self, start: Instant) -> Self {
        Self { index: previous.index + 1, ..Self::new(previous.stream, start) }
    }

    pub(crate) fn complete(&mut self, end: Instant, tcp: Option<TcpState>) {
        self.end = end;
        self.tcp = tcp;
        self.cpu = kernel::thread_cpu().saturating_sub(self.cpu_start);
    }
}

/// Totals of a stream over the whole test.
#[derive(Debug)]
pub(crate) struct StreamDone {
    pub(crate) stream: u32,
    /// Sender: bytes written. Receiver: bytes read.
    pub(crate) bytes: u64,
    /// Sender: echoes received. Receiver: whole blocks read.
    pub(crate) blocks: u64,
    pub(crate) first: Option<Instant>,
    pub(crate) last: Instant,
    /// End of the load at a receiver; later arrivals are drain.
    pub(crate) load_end: Option<Instant>,
    /// Drained bytes of a receiver.
    pub(crate) drained: u64,
    pub(crate) cpu: Duration,
    pub(crate) retransmits: u64,
    pub(crate) tcp: Option<TcpState>,
    pub(crate) rtt: DelayHistogram,
    /// Smoothed round trips since the last interval.
    pub(crate) srtt: DelayHistogram,
    pub(crate) timeline: Option<Timeline>,
    pub(crate) loss_episodes: Vec<LossEpisode>,
    pub(crate) loss_episode_count: u64,
    pub(crate) clock_steps: u64,
    pub(crate) failure: Option<String>,
    /// Totals of a datagram stream.
    pub(crate) udp: Option<UdpDone>,
}

impl StreamDone {
    /// Totals of a stream that transferred nothing.
    pub(crate) fn empty(stream: u32, start: Instant) -> Self {
        Self {
            stream,
            bytes: 0,
            blocks: 0,
            first: None,
            last: start,
            load_end: None,
            drained: 0,
            cpu: Duration::ZERO,
            retransmits: 0,
            tcp: None,
            rtt: DelayHistogram::new(),
            srtt: DelayHistogram::new(),
            timeline: None,
            loss_episodes: Vec::new(),
            loss_episode_count: 0,
            clock_steps: 0,
            failure: None,
            udp: None,
        }
    }
}

enum Cut {
    Sent(Box<SenderCut>),
    Received(Box<ReceiverCut>),
    Datagrams(Box<DatagramCut>),
}

/// Combines the cuts of one direction's streams into a record once each stream has reported the interval or has ended.
pub(crate) struct Gatherer {
    plan: LoadPlan,
    end: End,
    direction: Direction,
    role: Role,
    streams: Vec<u32>,
    /// Next interval of each running stream; ended streams are absent.
    next_interval: BTreeMap<u32, u64>,
    pending: BTreeMap<u64, Vec<Cut>>,
    cpu: CpuSnapshot,
    /// State of the other end's receiver, from its latest interval record.
    pub(crate) peer: Option<ReceiverEvidence>,
    /// Minimum kernel round trip since the start of the load. The kernel discards its own minimum after five minutes.
    min_rtt_ns: Option<u64>,
    /// Time in seconds for which each factor was the limit.
    pub(crate) limits: BTreeMap<results::Limit, f64>,
    /// Stages and smoothed round trips of all complete intervals of the senders. One sum for the direction replaces one
    /// for each stream.
    pub(crate) stages: StageHistograms,
    pub(crate) srtt: DelayHistogram,
}

impl Gatherer {
    pub(crate) fn new(plan: LoadPlan, end: End, direction: Direction, role: Role, streams: &[u32]) -> Self {
        Self {
            plan,
            end,
            direction,
            role,
            streams: streams.to_vec(),
            next_interval: streams.iter().map(|s| (*s, 0)).collect(),
            pending: BTreeMap::new(),
            cpu: CpuSnapshot::read(),
            peer: None,
            min_rtt_ns: None,
            limits: BTreeMap::new(),
            stages: StageHistograms::default(),
            srtt: DelayHistogram::new(),
        }
    }

    pub(crate) fn has_stream(&self, stream: u32) -> bool {
        self.streams.contains(&stream)
    }

    pub(crate) fn handle_sent(&mut self, cut: Box<SenderCut>) -> Vec<IntervalRecord> {
        self.stages.merge(&cut.stages);
        self.srtt.merge(&cut.srtt);
        self.next_interval.entry(cut.stream).and_modify(|r| *r = cut.index + 1);
        self.pending.entry(cut.index).or_default().push(Cut::Sent(cut));
        self.complete()
    }

    pub(crate) fn handle_received(&mut self, cut: Box<ReceiverCut>) -> Vec<IntervalRecord> {
        self.next_interval.entry(cut.stream).and_modify(|r| *r = cut.index + 1);
        self.pending.entry(cut.index).or_default().push(Cut::Received(cut));
        self.complete()
    }

    pub(crate) fn handle_datagrams(&mut self, cut: Box<DatagramCut>) -> Vec<IntervalRecord> {
        self.next_interval.entry(cut.stream).and_modify(|r| *r = cut.index + 1);
        self.pending.entry(cut.index).or_default().push(Cut::Datagrams(cut));
        self.complete()
    }

    pub(crate) fn handle_done(&mut self, stream: u32) -> Vec<IntervalRecord> {
        self.next_interval.remove(&stream);
        self.complete()
    }

    fn complete(&mut self) -> Vec<IntervalRecord> {
        let next_interval = self.next_interval.values().copied().min().unwrap_or(u64::MAX);
        let mut out = Vec::new();
        while let Some(entry) = self.pending.first_entry() {
            if *entry.key() >= next_interval {
                break;
            }
            let (index, cuts) = entry.remove_entry();
            out.push(self.record(index, &cuts));
        }
        out
    }

    fn record(&mut self, index: u64, cuts: &[Cut]) -> IntervalRecord {
        let cpu = CpuSnapshot::read();
        let busiest_cpu = cpu.busiest_since(&self.cpu);
        self.cpu = cpu;
        let mut streams = Vec::new();
        let sends_blocks = cuts.iter().any(|c| matches!(c, Cut::Sent(_)));
        let (mut rtt, mut stages) = (DelayHistogram::new(), StageHistograms::default());
        let mut one_way = OneWayHistogram::new();
        let mut verdicts: Vec<(LimitVerdict, u64)> = Vec::new();
        let (mut start, mut end, mut bytes, mut busiest_thread, mut threads) =
            (None, self.plan.start, 0, 0.0_f64, Duration::ZERO);
        self.remember_min_rtt(cuts);
        for cut in cuts {
            let (stream, b, e, cpu) = match cut {
                Cut::Sent(c) => {
                    rtt.merge(&c.rtt);
                    stages.merge(&c.stages);
                    let verdict = self.judge(c, busiest_cpu);
                    verdicts.push((verdict.clone(), c.bytes()));
                    (sent_interval(c, verdict), c.start, c.end, c.cpu)
                }
                Cut::Received(c) => (received_interval(c), c.start, c.end, c.cpu),
                Cut::Datagrams(c) => {
                    one_way.merge(&c.one_way);
                    (c.interval(), c.start, c.end, c.cpu)
                }
            };
            let length = e.saturating_since(b);
            start = Some(start.map_or(b, |x: Instant| x.min(b)));
            end = end.max(e);
            bytes += stream.bytes;
            threads += cpu;
            busiest_thread = busiest_thread.max(share(cpu, length));
            streams.push(stream);
        }
        streams.sort_by_key(|s| s.stream);
        let start = start.unwrap_or(self.plan.start);
        let limit = combine(&verdicts);
        if let Some(v) = &limit {
            *self.limits.entry(v.limit).or_default() += end.saturating_since(start).as_secs_f64();
        }
        IntervalRecord {
            test_id: self.plan.test_id.clone(),
            end: self.end,
            direction: self.direction,
            role: self.role,
            index,
            omitted: false,
            start_s: start.saturating_since(self.plan.start).as_secs_f64(),
            end_s: end.saturating_since(self.plan.start).as_secs_f64(),
            bytes,
            throughput_bps: Rate::of(Bytes::new(bytes), end.saturating_since(start)).as_bps(),
            waited_bytes: out_of_order_bytes(cuts),
            disk_s: self.plan.disk.is_some().then(|| disk_seconds(cuts)),
            block_rtt: rtt.summary(),
            decomposition: sends_blocks.then(|| stages.decomposition()),
            one_way: one_way.summary().or_else(|| stages.one_way()),
            one_way_return: stages.one_way_return(),
            limit,
            udp: merged(streams.iter().filter_map(|s| s.udp.as_ref())),
            cpu: CpuUse { threads_s: threads.as_secs_f64(), busiest_thread, busiest_cpu },
            streams,
        }
    }

    fn remember_min_rtt(&mut self, cuts: &[Cut]) {
        let seen = cuts.iter().filter_map(|c| match c {
            Cut::Sent(c) => c.after.min_rtt_ns,
            Cut::Received(_) | Cut::Datagrams(_) => None,
        });
        self.min_rtt_ns = seen.chain(self.min_rtt_ns).min();
    }

    fn round_trips(&self, cut: &SenderCut) -> Option<RoundTrips> {
        let quantile = |q| cut.srtt.quantile(q).map(Duration::from_nanos);
        let (min, low, median) = (self.min_rtt_ns.map(Duration::from_nanos)?, quantile(0.2)?, quantile(0.5)?);
        Some(RoundTrips { min, low, median })
    }

    fn judge(&self, cut: &SenderCut, busiest_cpu: Option<f64>) -> LimitVerdict {
        let evidence = SenderEvidence {
            interval: cut.end.saturating_since(cut.start),
            before: cut.before.clone(),
            after: cut.after.clone(),
            thread_cpu: cut.cpu,
            blocked: cut.blocked,
            pacing_set: self.plan.pacing,
            is_paced: self.plan.is_paced,
            round_trips: self.round_trips(cut),
            busiest_cpu,
            app_idle: Duration::ZERO,
            disk: cut.disk,
            bytes: cut.bytes(),
        };
        judge(&evidence, self.peer.as_ref())
    }
}

/// Bytes that all receivers received out of order; `None` for zero.
fn out_of_order_bytes(cuts: &[Cut]) -> Option<u64> {
    let each = cuts.iter().map(|c| match c {
        Cut::Received(c) => c.out_of_order_bytes,
        Cut::Sent(_) | Cut::Datagrams(_) => 0,
    });
    Some(each.sum()).filter(|n| *n > 0)
}

/// Mean time of the threads at the disk, in seconds.
fn disk_seconds(cuts: &[Cut]) -> f64 {
    let each = cuts.iter().map(|c| match c {
        Cut::Sent(c) => c.disk,
        Cut::Received(c) => c.disk,
        Cut::Datagrams(_) => Duration::ZERO,
    });
    each.sum::<Duration>().as_secs_f64() / cuts.len().max(1) as f64
}

fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { (part.as_secs_f64() / whole.as_secs_f64()).min(1.0) }
}

fn sent_interval(cut: &SenderCut, limit: LimitVerdict) -> StreamInterval {
    let bytes = cut.bytes();
    StreamInterval {
        stream: cut.stream,
        bytes,
        throughput_bps: Rate::of(Bytes::new(bytes), cut.end.saturating_since(cut.start)).as_bps(),
        retransmits: Some(cut.after.retransmits.saturating_sub(cut.before.retransmits)),
        block_rtt: cut.rtt.summary(),
        tcp: Some(cut.after.clone()),
        limit: Some(limit),
        udp: None,
        cpu_s: cut.cpu.as_secs_f64(),
    }
}

fn received_interval(cut: &ReceiverCut) -> StreamInterval {
    StreamInterval {
        stream: cut.stream,
        bytes: cut.bytes,
        throughput_bps: Rate::of(Bytes::new(cut.bytes), cut.end.saturating_since(cut.start)).as_bps(),
        retransmits: None,
        block_rtt: None,
        tcp: cut.tcp.clone(),
        limit: None,
        udp: None,
        cpu_s: cut.cpu.as_secs_f64(),
    }
}
