//! Starts the threads of one end's load, forwards the peer's reports to them, and computes the totals at the end.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use estimate::{ReceiverEvidence, RemoteTimes, StageHistograms, Stages, Timeline};
use kernel::KernelError;
use results::{DelayHistogram, Direction, End, EndTotals, IntervalRecord, LossEpisode, Role};
use units::{Bytes, Instant, Rate};
use wire::{EndSide, RemoteSample, SideStream};

use super::collect::{Gatherer, StreamDone, StreamEvent};
use super::receiver::Receiver;
use super::sender::Sender;
use super::{LoadPlan, Stop};
use crate::udp::{self, Expected, Totals, UdpDone, UdpStream};

/// One data connection of a load.
#[derive(Debug)]
pub(crate) struct StreamSocket {
    pub(crate) stream: u32,
    pub(crate) direction: Direction,
    pub(crate) socket: TcpStream,
    /// Bytes to send, if the test is limited by data and this end sends.
    pub(crate) budget: Option<u64>,
}

impl StreamSocket {
    /// Makes closing send a reset, so that both ends discard unread data.
    pub(crate) fn reset_on_close(&self) {
        kernel::reset_on_close(&self.socket);
    }
}

/// Stages of one sending stream: its thread adds the kernel's timestamps, the control connection adds the peer's.
type SharedStages = Arc<Mutex<Stages>>;

/// One stream of a load, over TCP or UDP.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(StreamSocket),
    Udp(UdpStream),
}

impl Stream {
    pub(crate) fn number(&self) -> u32 {
        match self {
            Self::Tcp(s) => s.stream,
            Self::Udp(s) => s.stream,
        }
    }

    pub(crate) fn direction(&self) -> Direction {
        match self {
            Self::Tcp(s) => s.direction,
            Self::Udp(s) => s.direction,
        }
    }
}

/// Report of a load to its owner.
#[derive(Debug)]
pub(crate) enum SideEvent {
    /// Interval of one direction.
    Interval(Box<IntervalRecord>),
    /// Arrivals of sampled blocks, to be sent to the other end.
    Samples { stream: u32, samples: Vec<RemoteSample> },
    /// A stream failed; the final warnings repeat the reason.
    Failed { stream: u32, reason: String },
    /// A datagram sender has sent its last datagram; the other end's receiver needs the count.
    Sent { stream: u32, datagrams: u64 },
    /// All streams have ended.
    Finished { sides: Vec<EndSide>, warnings: Vec<String> },
}

/// Converts an instant of the peer's clock to this end's clock and returns the maximum error; `None` while unknown.
pub(crate) type PeerClock = Arc<dyn Fn(Instant) -> Option<(Instant, Duration)> + Send + Sync>;

/// A running load.
pub(crate) struct SideHandle {
    pub(crate) stop: Stop,
    stages: BTreeMap<u32, SharedStages>,
    expected: BTreeMap<u32, Expected>,
    peers: Arc<Mutex<BTreeMap<Direction, ReceiverEvidence>>>,
    peer_clock: PeerClock,
}

/// Starts loads.
pub(crate) struct Side;

struct Group {
    gatherer: Gatherer,
    done: Vec<StreamDone>,
    role: Role,
}

impl Side {
    /// Starts a thread for each stream and one that collects their reports; the latter calls `out`.
    pub(crate) fn start(
        plan: &LoadPlan,
        end: End,
        streams: Vec<Stream>,
        peer_clock: PeerClock,
        out: impl Fn(SideEvent) + Send + 'static,
    ) -> Result<SideHandle, KernelError> {
        let stop = Stop::default();
        let (events, inbox) = mpsc::channel();
        let mut stages = BTreeMap::new();
        let mut groups: BTreeMap<Direction, Vec<u32>> = BTreeMap::new();
        for s in &streams {
            groups.entry(s.direction()).or_default().push(s.number());
        }
        let senders = streams.iter().filter(|s| s.direction().sender() == end).count();
        let mut expected = BTreeMap::new();
        for s in streams {
            let (plan, stop, events) = (plan.clone(), stop.clone(), events.clone());
            match s {
                Stream::Tcp(s) => {
                    let shared = start_tcp(plan, end, s, stop, events)?;
                    stages.extend(shared);
                }
                Stream::Udp(s) => {
                    let number = s.stream;
                    let count = start_udp(plan, end, s, stop, events, senders, &peer_clock)?;
                    expected.extend(count.map(|w| (number, w)));
                }
            }
        }
        let peers = Arc::new(Mutex::new(BTreeMap::new()));
        let groups = groups.into_iter().map(|(d, numbers)| (d, Group::new(plan, end, d, &numbers))).collect();
        let gather = Gather { plan: plan.clone(), groups, stages: stages.clone(), peers: Arc::clone(&peers) };
        spawn("gather".to_owned(), move || gather.run(&inbox, out))?;
        Ok(SideHandle { stop, stages, expected, peers, peer_clock })
    }
}

/// Starts the thread of a TCP stream; a sender's stages are shared with the control connection.
fn start_tcp(
    plan: LoadPlan,
    end: End,
    s: StreamSocket,
    stop: Stop,
    events: mpsc::Sender<StreamEvent>,
) -> Result<Option<(u32, SharedStages)>, KernelError> {
    let (name, number) = (format!("stream-{}", s.stream), s.stream);
    if s.direction.sender() == end {
        let shared = Arc::new(Mutex::new(Stages::new(plan.start)));
        let budget = s.budget;
        let sender = Sender::new(plan, s, budget, stop, events, Arc::clone(&shared))?;
        spawn(name, move || sender.run())?;
        Ok(Some((number, shared)))
    } else {
        let receiver = Receiver::new(plan, s, stop, events);
        spawn(name, move || receiver.run())?;
        Ok(None)
    }
}

/// Starts the thread of a UDP stream; a receiver needs the number of sent datagrams from the peer.
fn start_udp(
    plan: LoadPlan,
    end: End,
    s: UdpStream,
    stop: Stop,
    events: mpsc::Sender<StreamEvent>,
    senders: usize,
    peer_clock: &PeerClock,
) -> Result<Option<Expected>, KernelError> {
    let name = format!("stream-{}", s.stream);
    if s.direction.sender() == end {
        // Each sender polls the clock on a CPU of its own; one CPU stays free for everything else.
        let spin = std::thread::available_parallelism().is_ok_and(|cpus| senders < cpus.get());
        let sender = udp::Sender::new(plan, s, stop, events, spin);
        spawn(name, move || sender.run())?;
        return Ok(None);
    }
    let expected = Expected::default();
    let receiver = udp::Receiver::new(plan, s, stop, events, expected.clone(), Arc::clone(peer_clock));
    spawn(name, move || receiver.run())?;
    Ok(Some(expected))
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> Result<(), KernelError> {
    std::thread::Builder::new()
        .name(name)
        .stack_size(256 << 10)
        .spawn(run)
        .map(|_| ())
        .map_err(|e| KernelError::new(kernel::Op::Thread, "-", e))
}

impl SideHandle {
    /// Handles the peer's arrivals of blocks that this end sent.
    pub(crate) fn handle_samples(&self, stream: u32, samples: &[RemoteSample]) {
        let Some(stages) = self.stages.get(&stream) else { return };
        let mut stages = stages.lock().unwrap_or_else(PoisonError::into_inner);
        for s in samples {
            let Some(arrived) = s.arrived_ns.map(Instant::from_nanos) else { continue };
            let read = Instant::from_nanos(s.read_ns);
            let times = (self.peer_clock)(arrived).zip((self.peer_clock)(read));
            let times = times.map(|((arrived, _), (read, bound))| RemoteTimes { arrived, read, bound });
            stages.handle_remote(s.block, read.saturating_since(arrived), times);
        }
    }

    /// Handles the peer's report that its datagram sender has sent `datagrams` in total.
    pub(crate) fn handle_sent(&self, stream: u32, datagrams: u64) {
        if let Some(expected) = self.expected.get(&stream) {
            expected.set(datagrams);
        }
    }

    /// Handles an interval that the peer measured: the state of a receiver is evidence for this end's senders.
    pub(crate) fn handle_peer_interval(&self, record: &IntervalRecord) {
        if record.role == Role::Receiver {
            let interval = Duration::from_secs_f64((record.end_s - record.start_s).clamp(0.0, 1e6));
            let busiest = record.cpu.busiest_thread.clamp(0.0, 1.0);
            let evidence = ReceiverEvidence {
                thread_cpu: interval.mul_f64(busiest),
                busiest_cpu: record.cpu.busiest_cpu,
                disk: Duration::from_secs_f64(record.disk_s.unwrap_or(0.0).clamp(0.0, 1e6)),
                interval,
            };
            self.peers.lock().unwrap_or_else(PoisonError::into_inner).insert(record.direction, evidence);
        }
    }
}

impl Group {
    fn new(plan: &LoadPlan, end: End, direction: Direction, streams: &[u32]) -> Self {
        let role = if direction.sender() == end { Role::Sender } else { Role::Receiver };
        Self { gatherer: Gatherer::new(plan.clone(), end, direction, role, streams), done: Vec::new(), role }
    }
}

struct Gather {
    plan: LoadPlan,
    groups: BTreeMap<Direction, Group>,
    stages: BTreeMap<u32, SharedStages>,
    peers: Arc<Mutex<BTreeMap<Direction, ReceiverEvidence>>>,
}

impl Gather {
    fn run(mut self, inbox: &mpsc::Receiver<StreamEvent>, out: impl Fn(SideEvent)) {
        while let Ok(event) = inbox.recv() {
            for (direction, peer) in self.peers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                if let Some(group) = self.groups.get_mut(direction) {
                    group.gatherer.peer = Some(*peer);
                }
            }
            if let StreamEvent::Done(done) = &event
                && let Some(UdpDone::Sent(sent)) = &done.udp
            {
                out(SideEvent::Sent { stream: done.stream, datagrams: sent.datagrams });
            }
            let records = match event {
                StreamEvent::Samples { stream, samples } => {
                    out(SideEvent::Samples { stream, samples });
                    continue;
                }
                StreamEvent::Sent(cut) => self.of(cut.stream).map(|g| g.gatherer.handle_sent(cut)),
                StreamEvent::Received(cut) => self.of(cut.stream).map(|g| g.gatherer.handle_received(cut)),
                StreamEvent::Datagrams(cut) => self.of(cut.stream).map(|g| g.gatherer.handle_datagrams(cut)),
                StreamEvent::Done(done) => {
                    if let Some(reason) = done.failure.clone() {
                        out(SideEvent::Failed { stream: done.stream, reason });
                    }
                    self.of(done.stream).map(|g| {
                        let records = g.gatherer.handle_done(done.stream);
                        g.done.push(*done);
                        records
                    })
                }
            };
            for record in records.unwrap_or_default() {
                out(SideEvent::Interval(Box::new(record)));
            }
        }
        let (sides, warnings) = self.finish();
        out(SideEvent::Finished { sides, warnings });
    }

    fn of(&mut self, stream: u32) -> Option<&mut Group> {
        self.groups.values_mut().find(|g| g.gatherer.has_stream(stream))
    }

    fn finish(self) -> (Vec<EndSide>, Vec<String>) {
        let mut warnings = Vec::new();
        let Self { plan, groups, stages, .. } = self;
        let sides = groups
            .into_iter()
            .map(|(direction, group)| {
                for d in &group.done {
                    if let Some(f) = &d.failure {
                        warnings.push(format!("stream {}: {f}", d.stream));
                    }
                    if d.clock_steps > 0 {
                        warnings.push(format!(
                            "stream {}: the wall clock was stepped {} times during the test; kernel stamps around the \
                             steps are off by their size",
                            d.stream, d.clock_steps
                        ));
                    }
                }
                warnings.extend(silent_tail(&plan, &group.done));
                let udp = Totals::of(&group.done);
                warnings.extend(udp.iter().flat_map(|t| t.warnings.clone()));
                sum_up(&plan, direction, group, &stages, udp)
            })
            .collect();
        (sides, warnings)
    }
}

/// Warning about a load that ended without arrivals: its mean rate includes that time and hides the failure of the
/// path.
fn silent_tail(plan: &LoadPlan, done: &[StreamDone]) -> Option<String> {
    let end = done.iter().filter_map(|d| d.load_end).max()?;
    let last = done.iter().filter(|d| d.bytes > 0).map(|d| d.last).max()?;
    let silent = end.saturating_since(last);
    (silent > SILENT_TAIL_MIN.max(plan.interval))
        .then(|| format!("nothing arrived in the last {:.1} s of the load", silent.as_secs_f64()))
}

/// A TCP retransmission timeout after a burst of losses may take 1 s and is no failure of the path.
const SILENT_TAIL_MIN: Duration = Duration::from_secs(1);

/// The stages of a direction: those of its intervals and those since the last interval of each stream.
fn with_rest(mut sum: StageHistograms, done: &[StreamDone], stages: &BTreeMap<u32, SharedStages>) -> StageHistograms {
    for stages in done.iter().filter_map(|d| stages.get(&d.stream)) {
        sum.merge(&stages.lock().unwrap_or_else(PoisonError::into_inner).take_rest());
    }
    sum
}

fn sum_up(
    plan: &LoadPlan,
    direction: Direction,
    group: Group,
    stages: &BTreeMap<u32, SharedStages>,
    udp: Option<Totals>,
) -> EndSide {
    let sends_blocks = group.role == Role::Sender && udp.is_none();
    let udp = udp.unwrap_or_default();
    let mut done = group.done;
    done.sort_by_key(|d| d.stream);
    let first = done.iter().filter_map(|d| d.first).min();
    let last = done.iter().map(|d| d.last).max().unwrap_or(plan.start);
    let load_end = done.iter().filter_map(|d| d.load_end).max().unwrap_or(last);
    let duration = first.map_or(Duration::ZERO, |f| load_end.saturating_since(f));
    let bytes: u64 = done.iter().map(|d| d.bytes).sum();
    let drained: u64 = done.iter().map(|d| d.drained).sum();
    let cpu: Duration = done.iter().map(|d| d.cpu).sum();
    let merged = with_rest(group.gatherer.stages, &done, stages);
    let (mut rtt, mut srtt) = (DelayHistogram::new(), group.gatherer.srtt);
    let mut timeline: Option<Timeline> = None;
    for d in &done {
        rtt.merge(&d.rtt);
        srtt.merge(&d.srtt);
        match (&mut timeline, &d.timeline) {
            (Some(sum), Some(t)) => sum.merge(t),
            (None, Some(t)) => timeline = Some(t.clone()),
            (_, None) => {}
        }
    }
    let mut loss_episodes: Vec<LossEpisode> = done.iter().flat_map(|d| d.loss_episodes.clone()).collect();
    loss_episodes.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    loss_episodes.truncate(256);
    EndSide {
        direction,
        role: group.role,
        totals: EndTotals {
            bytes,
            duration_s: duration.as_secs_f64(),
            throughput_bps: Rate::of(Bytes::new(bytes - drained), duration).as_bps(),
            drain_bytes: (drained > 0).then_some(drained),
            drain_s: (drained > 0).then(|| last.saturating_since(load_end).as_secs_f64()),
            cpu_s: cpu.as_secs_f64(),
            cpu_s_per_gb: if bytes == 0 { 0.0 } else { cpu.as_secs_f64() / (bytes as f64 / 1e9) },
        },
        block_rtt: rtt.summary(),
        timeline: timeline.and_then(|t| serde_json::to_value(t).ok()).unwrap_or_default(),
        decomposition: sends_blocks.then(|| merged.decomposition()),
        one_way: udp.one_way.or_else(|| merged.one_way()),
        one_way_return: merged.one_way_return(),
        kernel_srtt: srtt.summary(),
        loss_episode_count: done.iter().map(|d| d.loss_episode_count).sum(),
        loss_episodes,
        limits: group.gatherer.limits,
        udp: udp.udp,
        udp_sent: udp.sent,
        streams: done
            .into_iter()
            .map(|d| SideStream {
                stream: d.stream,
                bytes: d.bytes,
                drain_bytes: d.drained,
                blocks: d.blocks,
                retransmits: d.retransmits,
                block_rtt: d.rtt.summary(),
                tcp: d.tcp,
            })
            .collect(),
    }
}
