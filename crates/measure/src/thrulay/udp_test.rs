//! A UDP test with a thrulay server: datagrams by the clock, and the server's text at the end.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use estimate::Schedule;
use kernel::{DataOptions, KernelError, Op, Received};
use results::{
    BufferGrant, CpuUse, Direction, End, EndRecord, IntervalRecord, Memory, Record, Role, StartRecord, StreamInterval,
    StreamStart, TestPlan, Transport,
};
use units::{Bytes, Rate};
use wire::SideStream;
use wire::thrulay::{
    MAX_REPORT, ReadReport, UdpAnswer, UdpTerms, encode_end, parse_udp_response, rate_per_1000s, read_report,
};

use super::send::{self, Job, SendCut, SendEvent, Sent};
use super::serve::{local_address, version};
use super::{summary, text};
use crate::client::{ClientOptions, Gathered, end_record, greet};
use crate::control::HANDSHAKE_TIMEOUT;
use crate::load::Stop;
use crate::{MeasureError, address};

/// How often a stop by the user and the control connection are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What is under way gets this long to arrive before the server is asked for its report (thrulay's value).
const DRAIN: Duration = Duration::from_secs(1);

/// Buffer of the sending socket when the user gave no window (thrulay's).
const BUFFER: Bytes = Bytes::new(4 << 20);

pub(super) fn run(
    options: &ClientOptions,
    target: SocketAddr,
    observe: &mut dyn FnMut(&Record),
    interrupted: &dyn Fn() -> usize,
) -> Result<EndRecord, MeasureError> {
    let agreed = agree(options, target)?;
    let baseline = kernel::tcp_state(&agreed.control)?.min_rtt_ns.map(Duration::from_nanos);
    let start =
        summary::start_record(options, agreed.plan.clone(), agreed.notes(options), vec![agreed.stream()?], baseline)?;
    observe(&Record::Start(start.clone()));
    let mut memory = Memory { client_rss_start_bytes: kernel::resident_bytes(), ..Memory::default() };
    let mut test = Test { agreed: &agreed, start: &start, observe, interrupted, failure: None, stopped: false };
    let sent = test.send()?;
    let report = test.conclude(sent.datagrams);
    let (failure, stopped) = (test.failure, test.stopped);
    memory.client_rss_end_bytes = kernel::resident_bytes();
    let end = conclude(options, &start, &agreed, &sent, report.as_ref(), |g, warnings| {
        g.ended(failure, stopped, warnings, memory)
    });
    observe(&Record::End(end.clone()));
    Ok(end)
}

/// A test that the server takes.
struct Agreed {
    target: SocketAddr,
    control: TcpStream,
    socket: UdpSocket,
    terms: UdpTerms,
    plan: TestPlan,
    payload: Bytes,
}

fn agree(options: &ClientOptions, target: SocketAddr) -> Result<Agreed, MeasureError> {
    let peer = target.to_string();
    let control = greet(options, target, &DataOptions::default())?;
    let io = |e| KernelError::new(Op::Socket, target, e);
    let mut local = local_address(&control, target)?;
    local.set_port(0);
    let buffer = options.plan.window_bytes.map_or(BUFFER, Bytes::new);
    let socket = kernel::udp_socket(local, false, buffer, options.plan.dscp)?;
    let asked = ask(&options.plan, target)?;
    let port = socket.local_addr().map_err(io)?.port();
    text::send(&control, &peer, &asked.proposal(port).encode())?;
    let deadline = kernel::now() + HANDSHAKE_TIMEOUT;
    let terms = match text::read(&control, &peer, deadline, "when a UDP test was proposed", parse_udp_response)? {
        UdpAnswer::Granted(terms) => terms,
        UdpAnswer::Refused => {
            return Err(MeasureError::Rejected {
                address: peer,
                reason: "the UDP test is beyond its limits".to_owned(),
            });
        }
    };
    let payload = check(&asked, &terms, target)?;
    let mut to = target;
    to.set_port(terms.server_port);
    socket.connect(to).map_err(|e| KernelError::new(Op::Connect, to, e))?;
    let mut plan = TestPlan { block_bytes: payload.as_u64(), ..options.plan.clone() };
    if (terms.rate_per_1000s, terms.packet_size) != (asked.rate_per_1000s, asked.packet_size) {
        plan.rate_bps = Some(rate_of(&terms, payload).as_bps());
    }
    Ok(Agreed { target, control, socket, terms, plan, payload })
}

/// The plan in thrulay's terms. The plan's rate is of payload, as in native tests; thrulay's packets include headers.
fn ask(plan: &TestPlan, target: SocketAddr) -> Result<UdpTerms, MeasureError> {
    let payload = Bytes::new(plan.block_bytes);
    let packet_size = payload + version(target).udp_overhead();
    let rate_per_1000s = rate_per_1000s(Rate::from_bps(plan.rate_bps.unwrap_or(0)), payload);
    let packets = match (plan.bytes, plan.duration_ns) {
        (Some(bytes), _) => bytes.div_ceil(plan.block_bytes.max(1)),
        // 10^3 of the rate's unit and 10^9 of the duration's.
        (None, ns) => u128::from(ns.unwrap_or(0))
            .checked_mul(u128::from(rate_per_1000s))
            .and_then(|p| u64::try_from(p / 1_000_000_000_000).ok())
            .unwrap_or(u64::MAX),
    };
    if rate_per_1000s == 0 || packets == 0 {
        return Err(MeasureError::Unsupported("the rate is too low for a single datagram in the test".to_owned()));
    }
    Ok(UdpTerms { server_port: 0, packet_size, rate_per_1000s, packets, nonce: [0; 8] })
}

/// The payload that the server's terms leave. A server may lower what was asked; one that raises it would have this host
/// send what its user did not ask for.
fn check(asked: &UdpTerms, terms: &UdpTerms, target: SocketAddr) -> Result<Bytes, MeasureError> {
    let raised = terms.packet_size > asked.packet_size
        || terms.rate_per_1000s > asked.rate_per_1000s
        || terms.packets > asked.packets;
    if raised || terms.rate_per_1000s == 0 {
        return Err(MeasureError::protocol(target, "it answers the UDP proposal with more than was asked, or rate 0"));
    }
    version(target)
        .udp_payload(terms.packet_size)
        .ok_or_else(|| MeasureError::protocol(target, format!("it wants packets of {}", terms.packet_size)))
}

fn rate_of(terms: &UdpTerms, payload: Bytes) -> Rate {
    let bps = u128::from(terms.rate_per_1000s) * u128::from(payload.as_u64()) * 8 / 1000;
    Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}

impl Agreed {
    fn notes(&self, options: &ClientOptions) -> Vec<String> {
        let mut notes = summary::common_notes();
        notes.push(
            "the server counts datagrams and reports at the end only: no interval shows what arrived, and there are no \
             loss runs and no RFC 3550 jitter"
                .to_owned(),
        );
        if self.plan != options.plan {
            notes.push(format!("the server changed the stream to datagrams of {}", self.payload));
        }
        notes
    }

    fn stream(&self) -> Result<StreamStart, MeasureError> {
        let io = |e| KernelError::new(Op::Socket, self.target, e);
        let mut server = self.target;
        server.set_port(self.terms.server_port);
        Ok(StreamStart {
            stream: 0,
            direction: Direction::Up,
            client: address::plain(self.socket.local_addr().map_err(io)?).to_string(),
            server: address::plain(server).to_string(),
            mss_bytes: None,
            pmtu_bytes: None,
            congestion_control: None,
            options: Vec::new(),
            client_buffers: summary::buffers(&self.socket, self.plan.window_bytes)?,
            server_buffers: BufferGrant::default(),
        })
    }

    fn schedule(&self) -> Schedule {
        let rate = Rate::from_bps(self.plan.rate_bps.unwrap_or(0));
        match self.plan.transport {
            Transport::UdpPoisson => Schedule::poisson(rate, self.payload, self.plan.seed),
            Transport::UdpConstant | Transport::Tcp => Schedule::constant(rate, self.payload),
        }
    }
}

struct Test<'a> {
    agreed: &'a Agreed,
    start: &'a StartRecord,
    observe: &'a mut dyn FnMut(&Record),
    interrupted: &'a dyn Fn() -> usize,
    failure: Option<String>,
    stopped: bool,
}

impl Test<'_> {
    fn send(&mut self) -> Result<Sent, MeasureError> {
        let (stop, start) = (Stop::default(), kernel::now());
        let job = Job {
            socket: self.agreed.socket.try_clone().map_err(|e| KernelError::new(Op::Socket, self.agreed.target, e))?,
            nonce: self.agreed.terms.nonce,
            payload: usize::try_from(self.agreed.payload.as_u64()).unwrap_or(usize::MAX),
            packets: self.agreed.terms.packets,
            schedule: self.agreed.schedule().starting_at(start),
            start,
            interval: Duration::from_nanos(self.start.plan.interval_ns),
            stop: stop.clone(),
        };
        let (outbox, inbox) = mpsc::channel();
        std::thread::Builder::new()
            .name("stream-0".to_owned())
            .stack_size(256 << 10)
            .spawn(move || send::run(job, outbox))
            .map_err(|e| KernelError::new(Op::Thread, "-", e))?;
        loop {
            self.heed_user(&stop);
            self.look_at_control(&stop);
            match inbox.recv_timeout(LOOK_EVERY) {
                Ok(SendEvent::Cut(cut)) => {
                    let record = self.interval(start, &cut);
                    (self.observe)(&Record::Interval(record));
                }
                Ok(SendEvent::Done(sent)) => {
                    if let Some(reason) = &sent.failure {
                        self.failure.get_or_insert_with(|| reason.clone());
                    }
                    return Ok(sent);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(MeasureError::protocol("client", "the sending thread ended abnormally"));
                }
            }
        }
    }

    fn heed_user(&mut self, stop: &Stop) {
        if (self.interrupted)() > 0 {
            self.stopped = true;
            stop.gently();
        }
    }

    /// The server says nothing before it is asked; whatever it does earlier is its end.
    fn look_at_control(&mut self, stop: &Stop) {
        let failure = match kernel::read_some(&self.agreed.control, &mut [0; 64]) {
            Ok(Received::Nothing) => return,
            Ok(Received::End) => "the server closed the connection during the test".to_owned(),
            Ok(Received::Bytes(_)) => "the server reported before it was asked".to_owned(),
            Err(e) => e.to_string(),
        };
        self.failure.get_or_insert(failure);
        stop.gently();
    }

    fn interval(&self, start: units::Instant, cut: &SendCut) -> IntervalRecord {
        let length = cut.end.saturating_since(cut.begin);
        let bytes = cut.datagrams.saturating_mul(self.agreed.payload.as_u64());
        let throughput_bps = Rate::of(Bytes::new(bytes), length).as_bps();
        let cpu_s = cut.cpu.as_secs_f64();
        let busiest_thread = if length.is_zero() { 0.0 } else { (cpu_s / length.as_secs_f64()).min(1.0) };
        IntervalRecord {
            test_id: self.start.test_id.clone(),
            end: End::Client,
            direction: Direction::Up,
            role: Role::Sender,
            index: cut.index,
            begin_s: cut.begin.saturating_since(start).as_secs_f64(),
            end_s: cut.end.saturating_since(start).as_secs_f64(),
            bytes,
            throughput_bps,
            block_rtt: None,
            decomposition: None,
            one_way: None,
            one_way_return: None,
            limit: None,
            udp: None,
            cpu: CpuUse { threads_s: cpu_s, busiest_thread, busiest_cpu: None },
            streams: vec![StreamInterval { stream: 0, bytes, throughput_bps, cpu_s, ..StreamInterval::default() }],
        }
    }

    /// Tells the server that all is sent, and reads its report; `None` when there is none.
    fn conclude(&mut self, sent: u64) -> Option<ReadReport> {
        let drained = kernel::now() + DRAIN;
        while self.failure.is_none() && kernel::now() < drained {
            if (self.interrupted)() >= 2 {
                self.failure = Some("stopped at once by the user".to_owned());
            }
            kernel::nap(LOOK_EVERY.min(drained.saturating_since(kernel::now())));
        }
        if self.failure.is_some() {
            return None;
        }
        match self.ask_for_report(sent) {
            Ok(report) => Some(report),
            Err(e) => {
                self.failure = Some(e.to_string());
                None
            }
        }
    }

    fn ask_for_report(&self, sent: u64) -> Result<ReadReport, MeasureError> {
        let peer = self.agreed.target.to_string();
        text::send(&self.agreed.control, &peer, &encode_end(sent))?;
        let deadline = kernel::now() + HANDSHAKE_TIMEOUT;
        let (mut got, mut chunk) = (Vec::new(), [0; 4096]);
        while got.len() < MAX_REPORT {
            match kernel::read_some(&self.agreed.control, &mut chunk)? {
                Received::Bytes(n) => got.extend_from_slice(&chunk[..n]),
                Received::End => break,
                Received::Nothing if kernel::now() >= deadline => {
                    return Err(MeasureError::Silent {
                        peer,
                        after: HANDSHAKE_TIMEOUT,
                        during: "when asked to report",
                    });
                }
                Received::Nothing => {
                    kernel::wait(&self.agreed.control, false, LOOK_EVERY)?;
                }
            }
        }
        let report = read_report(&got);
        if report.loss_percent.is_none() {
            return Err(MeasureError::protocol(peer, "its report does not tell the loss"));
        }
        Ok(report)
    }
}

/// The last record from what was sent and what the server reported.
fn conclude(
    options: &ClientOptions,
    start: &StartRecord,
    agreed: &Agreed,
    sent: &Sent,
    report: Option<&ReadReport>,
    ended: impl FnOnce(Gathered, Vec<String>) -> Gathered,
) -> EndRecord {
    let duration = sent.first.zip(sent.last).map_or(Duration::ZERO, |(f, l)| l.saturating_since(f));
    let bytes = |datagrams: u64| datagrams.saturating_mul(agreed.payload.as_u64());
    let stream =
        |datagrams| SideStream { stream: 0, bytes: bytes(datagrams), blocks: datagrams, ..SideStream::default() };
    let mut sender = summary::empty_side(Role::Sender);
    sender.totals = summary::totals(bytes(sent.datagrams), duration, sent.cpu);
    sender.streams = vec![stream(sent.datagrams)];
    sender.udp_sent = Some(sent.datagrams);
    let mut receiver = summary::empty_side(Role::Receiver);
    let mut warnings = Vec::new();
    if let Some(report) = report {
        let mut udp = summary::datagrams(report, sent.datagrams);
        udp.tmax_ns = summary::nanos(DRAIN);
        udp.send_errors = sent.refused;
        udp.sender_lag_max_ns = summary::nanos(sent.lag_max);
        udp.sender_late = sent.late;
        receiver.totals = summary::totals(bytes(udp.received), duration, Duration::ZERO);
        receiver.streams = vec![stream(udp.received)];
        receiver.udp = Some(udp);
        warnings.extend(summary::delay_note(report));
    }
    let best = Rate::from_bps(receiver.totals.throughput_bps);
    let got = Gathered::without_control(start.baseline_rtt_ns.map(Duration::from_nanos), best, sender, receiver);
    let mut end = end_record(options, start, &ended(got, warnings));
    summary::settle_agreement(&mut end, disagreement(report, sent.datagrams));
    end
}

/// Why the server's counts cannot be set against this end's; `None` when they can, and match.
fn disagreement(report: Option<&ReadReport>, sent: u64) -> Option<String> {
    let Some(report) = report else { return Some("not compared: the server made no report".to_owned()) };
    match (report.sent, report.unique) {
        (Some(told), Some(unique)) if told == sent && unique <= sent => None,
        (Some(told), Some(unique)) => {
            Some(format!("{sent} datagrams were sent, the server understood {told} and received {unique}"))
        }
        _ => Some("not compared: the server reports shares only, its counts are not available".to_owned()),
    }
}
