//! Each option reaches the kernel: read back from the records, which quote the kernel, or from `ss`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

mod common;

use std::io::Cursor;
use std::process::{Command, Stdio};

use common::{Serve, longhaul, text};
use results::{Record, StartRecord, read_records};

fn start_of(serve: &Serve, arguments: &[&str]) -> StartRecord {
    let out = serve.test(&[&["-t", "0.2", "--json"], arguments].concat());
    assert!(out.status.success(), "{arguments:?}: {}", text(&out.stderr));
    let Record::Start(start) = read_records(Cursor::new(out.stdout)).unwrap().remove(0) else { panic!("no start") };
    start
}

#[test]
fn sockets_get_what_was_asked_and_the_grant_is_reported() {
    let serve = Serve::start(&[]);
    let start = start_of(&serve, &["-C", "reno", "-w", "100kB", "-M", "1000", "-B", "127.0.0.2", "-P", "2"]);
    assert_eq!(start.streams.len(), 2);
    for s in &start.streams {
        assert_eq!(s.congestion_control.as_deref(), Some("reno"));
        // socket(7): the kernel doubles the value, and the doubled value is returned by getsockopt.
        assert_eq!((s.client_buffers.asked_bytes, s.client_buffers.send_bytes), (Some(100_000), 200_000));
        assert_eq!(s.server_buffers.receive_bytes, 200_000);
        // TCP_MAXSEG counts the options: 12 bytes of timestamps come off.
        assert!(s.mss_bytes.is_some_and(|m| (900..=1000).contains(&m)), "{:?}", s.mss_bytes);
        assert!(s.client.starts_with("127.0.0.2:"), "{}", s.client);
    }
}

#[test]
fn the_server_sends_with_the_congestion_control_asked_for() {
    let serve = Serve::start(&[]);
    let start = start_of(&serve, &["-C", "reno", "-R"]);
    assert_eq!(start.streams[0].congestion_control.as_deref(), Some("reno"));
    let unknown = serve.test(&["-t", "0.2", "-C", "nosuch", "-R"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("TCP_CONGESTION"), "{}", text(&unknown.stderr));
}

#[test]
fn ipv6_is_spoken_where_it_is_asked_for() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        println!("skipped: this host has no IPv6");
        return;
    }
    let serve = Serve::start_on("::1", &[]);
    let out = serve.test_host("::1", &["-6", "-t", "0.2", "-C", "reno", "--json"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let Record::Start(start) = read_records(Cursor::new(out.stdout)).unwrap().remove(0) else { panic!("no start") };
    assert!(start.streams[0].client.starts_with("[::1]:"), "{}", start.streams[0].client);
}

#[test]
fn dscp_and_pacing_are_on_the_socket_while_data_flows() {
    let serve = Serve::start(&[]);
    let port = serve.port.to_string();
    let mut child = longhaul()
        .args(["test", "127.0.0.1", "-p", &port, "-t", "20", "-C", "reno", "--dscp", "46", "--pacing", "8Mb/s"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The data connection appears within the handshake; the test is ended as soon as it was seen.
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(15);
    let seen = loop {
        let ss = Command::new("ss").args(["-tniO", "--tos", "dport", "=", &port]).output();
        let Ok(out) = ss else { break "skipped: ss is not installed".to_owned() };
        let sockets = text(&out.stdout);
        // DSCP 46 is 0xb8 with the two ECN bits. The rate is printed as rate/ceiling, with or without prefix.
        let line = sockets.lines().find(|l| l.contains("tos:0xb8")).map(str::to_owned);
        if let Some(line) = line.filter(|l| l.contains("/8000000bps") || l.contains("/8Mbps")) {
            break line;
        }
        assert!(std::time::Instant::now() < give_up, "not seen in: {sockets}");
    };
    child.kill().unwrap();
    child.wait().unwrap();
    println!("{seen}");
}
