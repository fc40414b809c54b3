//! A UDP test with a thrulay server: datagrams by the clock, and the server's text at the end.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use kernel::{DataOptions, KernelError, Op, Received};
use results::{BufferGrant, Direction, EndRecord, Record, Role, StartRecord, StreamStart, TestPlan, UdpSummary};
use units::{Bytes, Rate};
use wire::SideStream;
use wire::thrulay::{
    MAX_REPORT, ReadReport, UdpAnswer, UdpTerms, encode_end, parse_udp_response, rate_per_1000s, read_report,
};

use super::follow::{self, Outcome, Watch};
use super::serve::{local_address, version};
use super::{summary, text};
use crate::client::{ClientOptions, Gathered, end_record, greet};
use crate::control::HANDSHAKE_TIMEOUT;
use crate::load::{LoadPlan, Stream};
use crate::udp::{Traffic, UdpStream};
use crate::{MeasureError, address};

/// How often the user and the server are looked at while one waits for the report.
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
    let plan = LoadPlan::new(&start.plan, &start.test_id, kernel::now(), options.grace);
    let watch = Watch::Control(&agreed.control);
    let mut outcome = follow::run(&plan, vec![Stream::Udp(agreed.datagrams()?)], watch, observe, interrupted)?;
    let sent = outcome.sender.as_ref().and_then(|s| s.udp_sent).unwrap_or(0);
    let report = report(&agreed, sent, &mut outcome, interrupted);
    let end = conclude(options, &start, &agreed, outcome, report.as_ref());
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
    socket.set_nonblocking(true).map_err(io)?;
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

    /// The stream as the native sender takes it; its token is the nonce.
    fn datagrams(&self) -> Result<UdpStream, KernelError> {
        let e = |source| KernelError::new(Op::Socket, self.target, source);
        Ok(UdpStream {
            stream: 0,
            direction: Direction::Up,
            socket: self.socket.try_clone().map_err(e)?,
            token: self.terms.nonce,
            traffic: Traffic::thrulay(&self.plan, self.terms.packets),
        })
    }
}

/// Lets what is under way arrive, and asks for the server's report; `None`, with the reason in `outcome`, when there is none.
fn report(agreed: &Agreed, sent: u64, outcome: &mut Outcome, interrupted: &dyn Fn() -> usize) -> Option<ReadReport> {
    let drained = kernel::now() + DRAIN;
    while outcome.failure.is_none() && kernel::now() < drained {
        if interrupted() >= 2 {
            outcome.failure = Some("stopped at once by the user".to_owned());
        }
        kernel::sleep_for(LOOK_EVERY.min(drained.saturating_since(kernel::now())));
    }
    if outcome.failure.is_some() {
        return None;
    }
    match ask_for_report(agreed, sent) {
        Ok(report) => Some(report),
        Err(e) => {
            outcome.failure = Some(e.to_string());
            None
        }
    }
}

fn ask_for_report(agreed: &Agreed, sent: u64) -> Result<ReadReport, MeasureError> {
    let peer = agreed.target.to_string();
    text::send(&agreed.control, &peer, &encode_end(sent))?;
    let deadline = kernel::now() + HANDSHAKE_TIMEOUT;
    let (mut got, mut chunk) = (Vec::new(), [0; 4096]);
    while got.len() < MAX_REPORT {
        match kernel::read_some(&agreed.control, &mut chunk)? {
            Received::Bytes(n) => got.extend_from_slice(&chunk[..n]),
            Received::End => break,
            Received::Nothing if kernel::now() >= deadline => {
                return Err(MeasureError::Silent { peer, after: HANDSHAKE_TIMEOUT, during: "when asked to report" });
            }
            Received::Nothing => {
                kernel::wait(&agreed.control, false, LOOK_EVERY)?;
            }
        }
    }
    let report = read_report(&got);
    if report.loss_percent.is_none() {
        return Err(MeasureError::protocol(peer, "its report does not tell the loss"));
    }
    Ok(report)
}

/// The last record from what was sent and what the server reported.
fn conclude(
    options: &ClientOptions,
    start: &StartRecord,
    agreed: &Agreed,
    outcome: Outcome,
    report: Option<&ReadReport>,
) -> EndRecord {
    let Outcome { sender, mut warnings, failure, stopped, memory, .. } = outcome;
    let sender = sender.unwrap_or_else(|| summary::empty_side(Role::Sender));
    let sent = sender.udp_sent.unwrap_or(0);
    let mut receiver = summary::empty_side(Role::Receiver);
    if let Some(report) = report {
        let udp = UdpSummary { tmax_ns: summary::nanos(DRAIN), ..summary::datagrams(report, sent) };
        let bytes = udp.received.saturating_mul(agreed.payload.as_u64());
        let duration = Duration::from_secs_f64(sender.totals.duration_s.clamp(0.0, 1e9));
        receiver.totals = summary::totals(bytes, duration, Duration::ZERO);
        receiver.streams = vec![SideStream { stream: 0, bytes, blocks: udp.received, ..SideStream::default() }];
        receiver.udp = Some(udp);
        warnings.extend(summary::delay_note(report));
    }
    let baseline = start.baseline_rtt_ns.map(Duration::from_nanos);
    let best = Rate::from_bps(receiver.totals.throughput_bps);
    let got = Gathered::without_control(baseline, best, sender, receiver).ended(failure, stopped, warnings, memory);
    let mut end = end_record(options, start, &got);
    summary::settle_agreement(&mut end, disagreement(report, sent));
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
