//! thrulay UDP client against longhaul server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, SystemTime};

use units::Rate;

use super::{HERE, Served, is_closed, one_read, server_options};
use crate::ServerOptions;

/// Proposes a test. Returns the destination of the datagrams and the nonce.
fn propose(control: &mut TcpStream, proposal: &str, tail: &str) -> (SocketAddr, Vec<u8>) {
    control.write_all(proposal.as_bytes()).unwrap();
    let answer = one_read(control);
    // `<server_port>:<packet_size>:<rate>:<npackets>:` nonce `+`
    let colon = answer.iter().position(|b| *b == b':').unwrap();
    let port = std::str::from_utf8(&answer[..colon]).unwrap().parse().unwrap();
    let rest = &answer[colon..];
    assert_eq!(&rest[..tail.len()], tail.as_bytes());
    let rest = &rest[tail.len()..];
    assert_eq!((rest.len(), rest[8]), (9, b'+'));
    (SocketAddr::new(HERE, port), rest[..8].to_vec())
}

/// Nonce of 8 bytes, sequence number of 8 bytes, NTP time of 8 bytes, then filler `2` up to 72 bytes; 100 bytes with
/// the IP and UDP headers.
fn datagram(nonce: &[u8], sequence: u64, age: Duration) -> Vec<u8> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() - age;
    let mut bytes = nonce.to_vec();
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(((now.as_secs() + 2_208_988_800) as u32).to_be_bytes());
    bytes.extend(((u64::from(now.subsec_nanos()) << 32) / 1_000_000_000).to_be_bytes()[4..].iter());
    bytes.resize(72, b'2');
    bytes
}

#[test]
fn the_report_has_the_counts_and_format_of_thrulayd() {
    let server = Served::start(ServerOptions { one_off: true, ..server_options() });
    let mut control = server.greeted();
    let socket = UdpSocket::bind((HERE, 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    let (to, nonce) = propose(&mut control, &format!("thrulay/2:u:{port}:100:1000000:50+"), ":100:1000000:50:");
    assert!(to.port() > server.port);
    let send = |bytes: &[u8]| assert_eq!(socket.send_to(bytes, to).unwrap(), bytes.len());
    let age = Duration::from_secs(3600);
    // 0 and 1 are lost, 11 arrives before 10, and 20 arrives twice; 50 and the last two datagrams do not belong to the
    // test.
    for n in (2..10).chain([11, 10]).chain(12..=20).chain(20..50).chain([50]) {
        send(&datagram(&nonce, n, age));
    }
    send(&datagram(b"stranger", 0, age));
    send(&nonce);
    std::thread::sleep(Duration::from_millis(200));
    control.write_all(b"+50:").unwrap();
    let mut report = String::new();
    control.read_to_string(&mut report).unwrap();
    for line in [
        "Client proposed sending 50 packets\n",
        "Client said it sent 50 packets\n",
        "Server received 49 total packets\n",
        "Server received 48 unique packets\n",
        "Loss:\t\t 4.000%\n",
        "Duplication:\t 2.041%\n",
        "Reordering:\t 2.083%\n",
        "\t1-reordering = 2.083%\n\tno 2-reordering\n",
    ] {
        assert!(report.contains(line), "{line}{report}");
    }
    // The clock offset of one hour is part of the delay, not of the jitter.
    let ms = |label: &str| -> f64 {
        let rest = report.split_once(label).unwrap().1;
        rest.split_once("ms").unwrap().0.trim().parse().unwrap()
    };
    assert!((ms("Delay:") - 3_600_000.0).abs() < 500.0, "{report}");
    assert!((0.0..200.0).contains(&ms("Jitter:")), "{report}");
    server.wait();
}

#[test]
fn a_client_that_closes_instead_of_reporting_frees_the_session() {
    let server = Served::start(ServerOptions { one_off: true, ..server_options() });
    let mut control = server.greeted();
    let (to, nonce) = propose(&mut control, "thrulay/2:u:5004:100:1000:10+", ":100:1000:10:");
    UdpSocket::bind((HERE, 0)).unwrap().send_to(&datagram(&nonce, 0, Duration::ZERO), to).unwrap();
    drop(control);
    server.wait();
}

#[test]
fn two_tests_at_once_get_two_ports() {
    let server = Served::start(server_options());
    let (mut a, mut b) = (server.greeted(), server.greeted());
    let first = propose(&mut a, "thrulay/2:u:5004:100:1000:10+", ":100:1000:10:");
    let second = propose(&mut b, "thrulay/2:u:5005:100:1000:10+", ":100:1000:10:");
    assert!(first.0 != second.0 && first.1 != second.1);
}

#[test]
fn proposals_beyond_the_limits_are_refused() {
    let options = ServerOptions {
        max_rate: Some(Rate::from_bps(1_000_000)),
        max_duration: Duration::from_secs(5),
        max_sessions: 1,
        ..server_options()
    };
    let server = Served::start(options);
    for proposal in [
        &b"thrulay/2:u:5004:1500:84000:10+"[..],
        b"thrulay/2:u:5004:1500:1000:6+",
        b"thrulay/2:u:5004:1500:0:1+",
        b"thrulay/2:u:5004:51:1000:1+",
        b"thrulay/2:u:5004:70000:1:1+",
    ] {
        let mut control = server.greeted();
        control.write_all(proposal).unwrap();
        assert_eq!(one_read(&mut control), b"u:-", "{}", String::from_utf8_lossy(proposal));
        assert!(is_closed(&mut control));
    }
    let mut first = server.greeted();
    propose(&mut first, "thrulay/2:u:5004:1500:1000:5+", ":1500:1000:5:");
    let mut second = server.greeted();
    second.write_all(b"thrulay/2:u:5004:1500:1000:5+").unwrap();
    assert_eq!(one_read(&mut second), b"u:-");
}

#[test]
fn a_test_without_datagrams_is_ended() {
    let silence = Duration::from_millis(200);
    let server = Served::start(ServerOptions { one_off: true, max_udp_silence: silence, ..server_options() });
    let mut control = server.greeted();
    propose(&mut control, "thrulay/2:u:5004:100:1000:30+", ":100:1000:30:");
    assert!(is_closed(&mut control));
    server.wait();
}

#[test]
fn a_malformed_end_message_ends_the_session() {
    let server = Served::start(server_options());
    for end in [&b"50:"[..], b"+-1:", b"+99999999999999999999:"] {
        let mut control = server.greeted();
        propose(&mut control, "thrulay/2:u:5004:100:1000:10+", ":100:1000:10:");
        control.write_all(end).unwrap();
        assert!(is_closed(&mut control), "{}", String::from_utf8_lossy(end));
    }
}
