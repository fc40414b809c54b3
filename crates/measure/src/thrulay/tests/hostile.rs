//! Hostile and malformed peers: their use of resources is bounded.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use units::{Bytes, Rate};

use super::{HERE, Served, is_closed, one_read, server_options};
use crate::thrulay::echo::{self, Limits, SessionError};

#[test]
fn terms_beyond_all_bounds_are_clamped() {
    let server = Served::start(server_options());
    for (proposal, block) in [
        (&b"thrulay/2:t:1073741824:65536+"[..], "65536"),
        (b"thrulay/2:t:18446744073709551615:18446744073709551615+", "1048576"),
        (b"thrulay/2:t:0:0+", "16"),
    ] {
        let mut stream = server.greeted();
        stream.write_all(proposal).unwrap();
        let answer = String::from_utf8(one_read(&mut stream)).unwrap();
        let (window, rest) = answer.split_once(':').unwrap();
        // thrulay reads the numbers with `%d`.
        assert!((1500..=i64::from(i32::MAX)).contains(&window.parse().unwrap()), "{answer}");
        assert_eq!(rest, format!("{block}+"));
    }
}

#[test]
fn a_malformed_proposal_gets_no_answer() {
    let server = Served::start(server_options());
    for proposal in [
        &b"thrulay/2:t:-1:65536+"[..],
        b"thrulay/2:t:65536:-1+",
        b"thrulay/2:t:99999999999999999999:1+",
        b"thrulay/2:x:1:1+",
        b"thrulay/1:t:65536:8192+",
        b"thrulay/2:t:65536:8192+data behind the proposal",
        b"thrulay/2:u:0:1500:1000:10+",
        b"GET / HTTP/1.1\r\n\r\n",
        &[b'0'; 1000],
    ] {
        let mut stream = server.greeted();
        stream.write_all(proposal).unwrap();
        assert!(is_closed(&mut stream), "{}", String::from_utf8_lossy(proposal));
    }
}

#[test]
fn an_incomplete_proposal_times_out() {
    let server = Served::start(server_options());
    let mut silent = server.greeted();
    let mut unfinished = server.greeted();
    unfinished.write_all(b"thrulay/2:t:65536:8192").unwrap();
    let mut slow = server.greeted();
    let start = kernel::now();
    for byte in b"thrulay/2:t:6553" {
        if slow.write_all(&[*byte]).is_err() {
            break;
        }
        kernel::sleep_for(Duration::from_millis(400));
    }
    assert!(is_closed(&mut slow) && is_closed(&mut unfinished) && is_closed(&mut silent));
    // A received byte does not restart the handshake timeout.
    assert!(kernel::now().saturating_since(start) < Duration::from_secs(9));
}

/// Both ends of a local connection.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

fn limits() -> Limits {
    Limits { stall_timeout: Duration::from_millis(500), until: kernel::now() + Duration::from_secs(20), rate: None }
}

#[test]
fn a_client_that_never_reads_its_echoes_is_bounded_in_buffer_and_time() {
    let (mut client, server) = pair();
    let flood = std::thread::spawn(move || {
        let block = [b'2'; 1 << 16];
        let mut sent = 0_u64;
        while client.write_all(&block).is_ok() {
            sent += block.len() as u64;
        }
        sent
    });
    let (tally, outcome) = echo::run(&server, Bytes::new(16), limits(), &|| false);
    assert!(matches!(outcome, Err(SessionError::Stalled(_))), "{outcome:?}");
    kernel::reset_on_close(&server);
    drop(server);
    // Every byte is echoed: the bytes read fit the socket buffers of both ends and the backlog.
    let room = 64 << 20;
    assert!(tally.bytes < room, "{}", tally.bytes);
    assert!(flood.join().unwrap() < 2 * room);
}

#[test]
fn a_stall_the_time_limit_or_the_server_shutdown_ends_a_session() {
    let (_client, server) = pair();
    let outcome = echo::run(&server, Bytes::new(64), limits(), &|| false).1;
    assert!(matches!(outcome, Err(SessionError::Stalled(_))), "{outcome:?}");
    let until = kernel::now() + Duration::from_millis(150);
    let outcome = echo::run(&server, Bytes::new(64), Limits { until, ..limits() }, &|| false).1;
    assert!(matches!(outcome, Err(SessionError::TooLong)), "{outcome:?}");
    let outcome = echo::run(&server, Bytes::new(64), limits(), &|| true).1;
    assert!(matches!(outcome, Err(SessionError::Ending)), "{outcome:?}");
}

#[test]
fn the_rate_limit_slows_the_client() {
    let (mut client, server) = pair();
    let flood = std::thread::spawn(move || while client.write_all(&[b'2'; 4096]).is_ok() {});
    let length = Duration::from_millis(500);
    let rate = Rate::from_bps(80_000_000);
    let bounds = Limits { until: kernel::now() + length, rate: Some(rate), ..limits() };
    let (tally, _) = echo::run(&server, Bytes::new(4096), bounds, &|| false);
    kernel::reset_on_close(&server);
    drop(server);
    flood.join().unwrap();
    // 5 MB in 500 ms, plus one read of 256 KiB.
    assert!((2_500_000..=5_300_000).contains(&tally.bytes), "{}", tally.bytes);
}
