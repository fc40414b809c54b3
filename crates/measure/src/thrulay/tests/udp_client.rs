//! thrulay UDP server against longhaul client.

use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use results::{Completion, Record, Role, TestPlan, Transport};

use super::{HERE, client_options, one_read, plan, run_client};
use crate::MeasureError;

const NONCE: [u8; 8] = [0, b'+', 0xff, b':', 0, 7, 13, 10];

/// Datagrams of 1000 bytes, 100 per second for 500 ms.
fn udp_plan() -> TestPlan {
    TestPlan {
        transport: Transport::UdpConstant,
        duration_ns: Some(500_000_000),
        block_bytes: 1000,
        rate_bps: Some(800_000),
        ..plan()
    }
}

/// Data received by a thrulayd in UDP mode, which sends `answer` for its port, reads datagrams until TCP data arrives,
/// and reports.
struct Seen {
    proposal: Vec<u8>,
    datagrams: Vec<Vec<u8>>,
    end: Vec<u8>,
}

fn thrulayd(answer: impl Fn(u16) -> Vec<u8> + Send + 'static, report: &'static str) -> (u16, mpsc::Receiver<Seen>) {
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (out, seen) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut control = stream.unwrap();
            control.write_all(b"thrulay/2+").unwrap();
            let proposal = one_read(&mut control);
            if proposal.starts_with(b"thrulay/2:u:") {
                let _ = out.send(serve(control, proposal, &answer, report));
            }
        }
    });
    (port, seen)
}

fn serve(mut control: TcpStream, proposal: Vec<u8>, answer: &dyn Fn(u16) -> Vec<u8>, report: &str) -> Seen {
    let socket = UdpSocket::bind((HERE, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    control.write_all(&answer(socket.local_addr().unwrap().port())).unwrap();
    control.set_nonblocking(true).unwrap();
    let (mut datagrams, mut buffer) = (Vec::new(), [0; 65_536]);
    loop {
        if let Ok(n) = socket.recv(&mut buffer) {
            datagrams.push(buffer[..n].to_vec());
        }
        let mut peeked = [0; 1];
        if control.peek(&mut peeked).is_ok() {
            break;
        }
    }
    control.set_nonblocking(false).unwrap();
    let end = one_read(&mut control);
    let _ = control.write_all(report.as_bytes());
    Seen { proposal, datagrams, end }
}

fn grant(rest: &'static str) -> impl Fn(u16) -> Vec<u8> + Send + 'static {
    move |port| [format!("{port}:{rest}").as_bytes(), &NONCE, b"+"].concat()
}

const SHORT: &str =
    "Delay:\t\t -12.500ms\nLoss:\t\t 10.000%\nJitter:\t\t 0.250ms\nDuplication:\t 0.000%\nReordering:\t 2.222%\n";

#[test]
fn datagrams_have_the_layout_of_thrulay_and_the_report_is_parsed() {
    let (port, seen) = thrulayd(grant("1028:100000:50:"), SHORT);
    let (end, records) = run_client(&client_options(port, udp_plan())).unwrap();
    let seen = seen.recv().unwrap();
    let text = String::from_utf8(seen.proposal).unwrap();
    let from: u16 = text.split(':').nth(2).unwrap().parse().unwrap();
    assert_eq!(text, format!("thrulay/2:u:{from}:1028:100000:50+"));
    assert_eq!(seen.datagrams.len(), 50);
    assert_eq!(seen.end, b"+50:");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    for (n, d) in seen.datagrams.iter().enumerate() {
        assert_eq!((d.len(), &d[..8]), (1000, &NONCE[..]));
        assert_eq!(d[8..16], (n as u64).to_be_bytes());
        let seconds = u64::from(u32::from_be_bytes(d[16..20].try_into().unwrap())) - 2_208_988_800;
        assert!(now - seconds < 10);
        assert!(d[24..].iter().all(|b| *b == b'2'));
    }
    let Record::Start(start) = &records[0] else { panic!("{:?}", records[0]) };
    assert_eq!((start.protocol.as_str(), start.plan.rate_bps), ("thrulay/2", Some(800_000)));
    let sent: u64 = records
        .iter()
        .filter_map(|r| if let Record::Interval(i) = r { Some(i) } else { None })
        .inspect(|i| assert!(i.role == Role::Sender))
        .map(|i| i.bytes)
        .sum();
    assert!((30_000..=50_000).contains(&sent), "{sent}");
    assert_eq!(end.completion, Completion::Complete);
    let d = &end.directions[0];
    let udp = d.udp.as_ref().unwrap();
    assert_eq!((udp.sent, udp.received, udp.lost, udp.reordered, udp.duplicates), (50, 45, 5, 1, 0));
    assert!(d.one_way.is_none() && !d.agreement.agree);
    assert!(d.throughput_bps > 0 && d.receiver.bytes == 45_000);
    assert!(end.warnings.iter().any(|w| w.contains("-12.500 ms") && w.contains("0.250 ms")), "{:?}", end.warnings);
}

#[test]
fn the_counts_of_a_verbose_server_are_compared() {
    let report = "Server used UDP buffer size of 425984 bytes\nClient proposed sending 50 packets\n\
        Client said it sent 50 packets\nServer received 52 total packets\nServer received 49 unique packets\n\
        Delay:\t\t 1.000ms\nLoss:\t\t 2.000%\nJitter:\t\t 0.100ms\nDuplication:\t 5.769%\nReordering:\t 0.000%\n\
        \tno reordering\n";
    let (port, _seen) = thrulayd(grant("1028:100000:50:"), report);
    let poisson = TestPlan { transport: Transport::UdpPoisson, seed: 5, ..udp_plan() };
    let (end, _) = run_client(&client_options(port, poisson)).unwrap();
    let d = &end.directions[0];
    let udp = d.udp.as_ref().unwrap();
    assert_eq!((udp.received, udp.lost, udp.duplicates), (49, 1, 3));
    assert!(d.agreement.agree, "{:?}", d.agreement);
}

#[test]
fn lowered_terms_are_accepted_and_raised_terms_are_errors() {
    let (port, seen) = thrulayd(grant("528:50000:10:"), SHORT);
    let (end, records) = run_client(&client_options(port, udp_plan())).unwrap();
    let seen = seen.recv().unwrap();
    assert_eq!((seen.datagrams.len(), seen.datagrams[0].len(), &seen.end[..]), (10, 500, &b"+10:"[..]));
    let Record::Start(start) = &records[0] else { panic!("{:?}", records[0]) };
    assert_eq!((start.plan.block_bytes, start.plan.rate_bps), (500, Some(200_000)));
    assert_eq!(end.completion, Completion::Complete);
    for raised in ["65000:100000:50:", "1028:100001:50:", "1028:100000:51:", "1028:0:50:", "51:100000:50:"] {
        let (port, _seen) = thrulayd(grant(raised), SHORT);
        let error = run_client(&client_options(port, udp_plan())).unwrap_err();
        assert!(matches!(error, MeasureError::Protocol { .. }), "{raised}: {error}");
    }
}

#[test]
fn refusals_missing_reports_and_unsupported_plans_are_errors() {
    let (port, _seen) = thrulayd(|_| b"u:-".to_vec(), "");
    let error = run_client(&client_options(port, udp_plan())).unwrap_err();
    assert!(matches!(error, MeasureError::Rejected { .. }), "{error}");
    let error = run_client(&client_options(port, TestPlan { streams: 2, ..udp_plan() })).unwrap_err();
    assert!(error.to_string().contains("single stream"), "{error}");
    let error = run_client(&client_options(port, TestPlan { rate_bps: Some(1), ..udp_plan() })).unwrap_err();
    assert!(error.to_string().contains("too low"), "{error}");
    let (port, _seen) = thrulayd(grant("1028:100000:50:"), "");
    let (end, _) = run_client(&client_options(port, udp_plan())).unwrap();
    assert!(matches!(end.completion, Completion::Failed { .. }), "{:?}", end.completion);
    assert!(end.directions[0].udp.is_none());
    assert_eq!(end.directions[0].sender.bytes, 50_000);
}
