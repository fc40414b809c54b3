//! UDP test with a thrulay server: timed datagrams, and the server's report at the end.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use kernel::{DataOptions, KernelError, Op, Received};
use results::{BufferGrant, Direction, EndRecord, Record, Role, StartRecord, StreamStart, TestPlan, UdpSummary};
use units::{Bytes, Rate};
use wire::SideStream;
use wire::thrulay::{
    REPORT_BYTES_MAX, ReadReport, UdpAnswer, UdpTerms, encode_end, parse_udp_response, rate_per_1000s, read_report,
};

use super::follow::{self, Outcome, Watch};
use super::serve::{local_address, version};
use super::{summary, text};
use crate::client::{ClientOptions, Gathered, end_record, greet};
use crate::control::HANDSHAKE_TIMEOUT;
use crate::load::{LoadPlan, Stream};
use crate::udp::{Traffic, UdpStream};
use crate::{MeasureError, address};

/// Interval at which the server is polled and a stop by the user is detected during the wait for the report.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Time for datagrams in flight to arrive before the request for the report, the value of thrulay.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Size of the sending socket's buffer without a user setting, the value of thrulay.
const BUFFER_BYTES: Bytes = Bytes::new(4 << 20);

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

/// A test with agreed terms.
struct AgreedTest {
    target: SocketAddr,
    control: TcpStream,
    socket: UdpSocket,
    terms: UdpTerms,
    plan: TestPlan,
    payload: Bytes,
}

fn agree(options: &ClientOptions, target: SocketAddr) -> Result<AgreedTest, MeasureError> {
    let peer = target.to_string();
    let control = greet(options, target, &DataOptions::default())?;
    let io = |e| KernelError::new(Op::Socket, target, e);
    let mut local = local_address(&control, target)?;
    local.set_port(0);
    let buffer = options.plan.window_bytes.map_or(BUFFER_BYTES, Bytes::new);
    let socket = kernel::udp_socket(local, false, buffer, options.plan.dscp)?;
    let requested = proposed_terms(&options.plan, target)?;
    let port = socket.local_addr().map_err(io)?.port();
    text::send(&control, &peer, &requested.proposal(port).encode())?;
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
    let payload = check(&requested, &terms, target)?;
    let mut to = target;
    to.set_port(terms.server_port);
    socket.connect(to).map_err(|e| KernelError::new(Op::Connect, to, e))?;
    socket.set_nonblocking(true).map_err(io)?;
    let mut plan = TestPlan { block_bytes: payload.as_u64(), ..options.plan.clone() };
    if (terms.rate_per_1000s, terms.packet_size) != (requested.rate_per_1000s, requested.packet_size) {
        plan.rate_bps = Some(rate_of(&terms, payload).as_bps());
    }
    Ok(AgreedTest { target, control, socket, terms, plan, payload })
}

/// Plan as thrulay terms. The plan's rate counts payload, as in native tests; thrulay's packet sizes include headers.
fn proposed_terms(plan: &TestPlan, target: SocketAddr) -> Result<UdpTerms, MeasureError> {
    let payload = Bytes::new(plan.block_bytes);
    let packet_size = payload + version(target).udp_overhead();
    let rate_per_1000s = rate_per_1000s(Rate::from_bps(plan.rate_bps.unwrap_or(0)), payload);
    let packets = match (plan.bytes, plan.duration_ns) {
        (Some(bytes), _) => bytes.div_ceil(plan.block_bytes.max(1)),
        // Units: 10^3 of the rate and 10^9 of the duration.
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

/// Payload size of the server's terms. A server may lower the requested terms; raised terms would make this host send
/// more than its user requested.
fn check(requested: &UdpTerms, terms: &UdpTerms, target: SocketAddr) -> Result<Bytes, MeasureError> {
    let raised = terms.packet_size > requested.packet_size
        || terms.rate_per_1000s > requested.rate_per_1000s
        || terms.packets > requested.packets;
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

impl AgreedTest {
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

    /// Stream for the native sender; its token is the nonce.
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

/// Waits for datagrams in flight and requests the server's report; `None`, with the reason in `outcome`, on failure.
fn report(
    agreed: &AgreedTest,
    sent: u64,
    outcome: &mut Outcome,
    interrupted: &dyn Fn() -> usize,
) -> Option<ReadReport> {
    let drained = kernel::now() + DRAIN_TIME;
    while outcome.failure.is_none() && kernel::now() < drained {
        if interrupted() >= 2 {
            outcome.failure = Some("stopped at once by the user".to_owned());
        }
        kernel::sleep_for(POLL_INTERVAL.min(drained.saturating_since(kernel::now())));
    }
    if outcome.failure.is_some() {
        return None;
    }
    match request_report(agreed, sent) {
        Ok(report) => Some(report),
        Err(e) => {
            outcome.failure = Some(e.to_string());
            None
        }
    }
}

fn request_report(agreed: &AgreedTest, sent: u64) -> Result<ReadReport, MeasureError> {
    let peer = agreed.target.to_string();
    text::send(&agreed.control, &peer, &encode_end(sent))?;
    let deadline = kernel::now() + HANDSHAKE_TIMEOUT;
    let (mut got, mut chunk) = (Vec::new(), [0; 4096]);
    while got.len() < REPORT_BYTES_MAX {
        match kernel::read_some(&agreed.control, &mut chunk)? {
            Received::Bytes(n) => got.extend_from_slice(&chunk[..n]),
            Received::End => break,
            Received::Nothing if kernel::now() >= deadline => {
                return Err(MeasureError::Silent { peer, after: HANDSHAKE_TIMEOUT, during: "when asked to report" });
            }
            Received::Nothing => {
                kernel::wait(&agreed.control, false, POLL_INTERVAL)?;
            }
        }
    }
    let report = read_report(&got);
    if report.loss_percent.is_none() {
        return Err(MeasureError::protocol(peer, "its report does not tell the loss"));
    }
    Ok(report)
}

/// Final record, from the sender's counts and the server's report.
fn conclude(
    options: &ClientOptions,
    start: &StartRecord,
    agreed: &AgreedTest,
    outcome: Outcome,
    report: Option<&ReadReport>,
) -> EndRecord {
    let Outcome { sender, mut warnings, failure, stopped, memory, .. } = outcome;
    let sender = sender.unwrap_or_else(|| summary::empty_side(Role::Sender));
    let sent = sender.udp_sent.unwrap_or(0);
    let mut receiver = summary::empty_side(Role::Receiver);
    if let Some(report) = report {
        let udp = UdpSummary { tmax_ns: summary::nanos(DRAIN_TIME), ..summary::datagrams(report, sent) };
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
    summary::set_agreement(&mut end, disagreement(report, sent));
    end
}

/// Reason why the server's counts differ from this end's or cannot be compared; `None` if they agree.
fn disagreement(report: Option<&ReadReport>, sent: u64) -> Option<String> {
    let Some(report) = report else { return Some("not compared: the server made no report".to_owned()) };
    match (report.sent, report.unique) {
        (Some(reported), Some(unique)) if reported == sent && unique <= sent => None,
        (Some(reported), Some(unique)) => {
            Some(format!("{sent} datagrams were sent, the server understood {reported} and received {unique}"))
        }
        _ => Some("not compared: the server reports shares only, its counts are not available".to_owned()),
    }
}
