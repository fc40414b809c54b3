//! Effect of each option in the kernel, read from the records, which report the kernel's values, or from `ss`.
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
fn socket_options_are_set_and_the_kernels_values_are_reported() {
    let serve = Serve::start(&[]);
    let start = start_of(&serve, &["-C", "reno", "-w", "100kB", "-M", "1000", "-B", "127.0.0.2", "-P", "2"]);
    assert_eq!(start.streams.len(), 2);
    for s in &start.streams {
        assert_eq!(s.congestion_control.as_deref(), Some("reno"));
        // socket(7): the kernel doubles the value, and the doubled value is returned by getsockopt.
        assert_eq!((s.client_buffers.requested_bytes, s.client_buffers.send_bytes), (Some(100_000), 200_000));
        assert_eq!(s.server_buffers.receive_bytes, 200_000);
        // TCP_MAXSEG counts the options: 12 bytes of timestamps are subtracted.
        assert!(s.mss_bytes.is_some_and(|m| (900..=1000).contains(&m)), "{:?}", s.mss_bytes);
        assert!(s.client.starts_with("127.0.0.2:"), "{}", s.client);
    }
}

#[test]
fn the_server_sends_with_the_requested_congestion_control() {
    let serve = Serve::start(&[]);
    let start = start_of(&serve, &["-C", "reno", "-R"]);
    assert_eq!(start.streams[0].congestion_control.as_deref(), Some("reno"));
    let unknown = serve.test(&["-t", "0.2", "-C", "nosuch", "-R"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("TCP_CONGESTION"), "{}", text(&unknown.stderr));
}

#[test]
fn ipv6_is_used_on_request() {
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
fn dscp_and_pacing_are_set_on_the_data_socket() {
    let serve = Serve::start(&[]);
    let port = serve.port.to_string();
    let mut child = longhaul()
        .args(["test", "127.0.0.1", "-p", &port, "-t", "20", "-C", "reno", "--dscp", "46", "--pacing", "8Mb/s"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The data connection exists after the handshake; the test is killed once `ss` has listed it.
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(15);
    let listed = loop {
        let ss = Command::new("ss").args(["-tniO", "--tos", "dport", "=", &port]).output();
        let Ok(out) = ss else { break "skipped: ss is not installed".to_owned() };
        let sockets = text(&out.stdout);
        // DSCP 46 is 0xb8 with the two ECN bits. The rate is printed as rate/ceiling, with or without prefix.
        let line = sockets.lines().find(|l| l.contains("tos:0xb8")).map(str::to_owned);
        if let Some(line) = line.filter(|l| l.contains("/8000000bps") || l.contains("/8Mbps")) {
            break line;
        }
        assert!(std::time::Instant::now() < give_up, "the socket is not in: {sockets}");
    };
    child.kill().unwrap();
    child.wait().unwrap();
    println!("{listed}");
}

#[test]
fn udp_without_a_rate_uses_the_default_of_iperf3_and_does_not_take_the_host_as_rate() {
    let serve = Serve::start(&[]);
    let port = serve.port.to_string();
    let out = longhaul().args(["test", "-p", &port, "-t", "0.2", "--json", "-u", "127.0.0.1"]).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("UDP at the default rate of 1.000 Mb/s"), "{}", text(&out.stderr));
    let Record::Start(start) = read_records(Cursor::new(out.stdout)).unwrap().remove(0) else { panic!("no start") };
    assert_eq!((start.plan.transport, start.plan.rate_bps), (results::Transport::UdpConstant, Some(1_000_000)));
}

#[test]
fn the_bitrate_of_iperf3_paces_tcp_and_is_the_rate_of_udp() {
    use results::Transport::{Tcp, UdpConstant, UdpPoisson};
    let serve = Serve::start(&[]);
    for (arguments, transport, rate) in [
        (&["-b", "8M"][..], Tcp, 8_000_000),
        (&["--bitrate", "8mbit", "-R"], Tcp, 8_000_000),
        (&["-u", "-b", "2M"], UdpConstant, 2_000_000),
        (&["-u", "3M"], UdpConstant, 3_000_000),
        (&["-u3M", "--poisson"], UdpPoisson, 3_000_000),
    ] {
        let start = start_of(&serve, arguments);
        assert_eq!((start.plan.transport, start.plan.rate_bps), (transport, Some(rate)), "{arguments:?}");
    }
    let twice = serve.test(&["-u", "3M", "-b", "2M"]);
    assert_eq!(twice.status.code(), Some(2));
    assert!(text(&twice.stderr).contains("set it once"), "{}", text(&twice.stderr));
}

#[test]
fn dscp_accepts_names() {
    let serve = Serve::start(&[]);
    for (name, number) in [("af41", 34), ("EF", 46), ("cs1", 8), ("12", 12)] {
        assert_eq!(start_of(&serve, &["--dscp", name]).plan.dscp, Some(number), "{name}");
    }
}

#[test]
fn json_document_writes_one_document_even_after_an_error() {
    let serve = Serve::start(&[]);
    let out = serve.test(&["-t", "0.3", "-i", "0.1", "-J"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let document: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let records: Vec<Record> = serde_json::from_value(document["records"].clone()).unwrap();
    assert!(matches!(records.first(), Some(Record::Start(_))) && matches!(records.last(), Some(Record::End(_))));
    assert!(records.len() > 4, "{} records", records.len());

    // Without a test, the document has the error.
    let closed_port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let out = longhaul().args(["test", "-J", &closed_port]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let document: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(document["records"], serde_json::json!([]));
    assert!(document["error"].as_str().unwrap().contains("refused"), "{document}");
}

#[test]
fn quiet_prints_only_the_summary_with_which_every_output_ends() {
    let serve = Serve::start(&[]);
    for (arguments, rows) in [(&["-t", "0.3", "-i", "0.1", "-q"][..], false), (&["-t", "0.3", "-i", "0.1"], true)] {
        let out = serve.test(arguments);
        let parts = text(&out.stdout);
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert_eq!(parts.contains("start-end"), rows, "{parts}");
        let mut last = parts.lines().rev();
        assert!(last.next().is_some_and(|l| l.contains("idle RTT") && l.contains("retransmitted")), "{parts}");
        assert!(last.next().is_some_and(|l| l.starts_with("up: ") && l.contains("goodput ")), "{parts}");
    }
}

#[test]
fn affinity_selects_the_cpu_of_this_end() {
    let serve = Serve::start(&[]);
    assert!(serve.test(&["-t", "0.2", "-A", "0"]).status.success());
    for (cpu, expected) in [("99999", "--affinity"), ("0,1", "taskset -c 1 longhaul serve"), ("x", "number of a CPU")] {
        let out = serve.test(&["-t", "0.2", "-A", cpu]);
        assert_eq!(out.status.code(), Some(2), "{cpu}");
        assert!(text(&out.stderr).contains(expected), "{cpu}: {}", text(&out.stderr));
    }
}

#[test]
fn options_of_iperf3_are_rejected_with_the_equivalent() {
    for (arguments, expected) in [
        (&["test", "-c", "192.0.2.1"][..], "longhaul test HOST"),
        (&["-c", "192.0.2.1"], "longhaul test HOST"),
        (&["-s"], "longhaul serve"),
        (&["test", "-s"], "longhaul serve"),
        (&["test", "192.0.2.1", "-S", "0x20"], "--dscp"),
    ] {
        let out = longhaul().args(arguments).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        let parts = text(&out.stderr);
        assert!(parts.starts_with("error: ") && parts.contains(expected), "{arguments:?}: {parts}");
        assert!(!parts.contains("as a value"), "the advice of the parser is misleading: {parts}");
    }
}

#[test]
fn the_command_help_prints_the_help_of_a_command() {
    let of = |arguments: &[&str]| {
        let out = longhaul().args(arguments).output().unwrap();
        assert!(out.status.success(), "{arguments:?}: {}", text(&out.stderr));
        text(&out.stdout)
    };
    for (help, option) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "test"], &["test", "--help"]),
        (&["help", "lab", "path"], &["lab", "path", "--help"]),
        (&["lab", "help", "path"], &["lab", "path", "--help"]),
    ] {
        let printed = of(help);
        assert_eq!(printed, of(option), "{help:?}");
        assert!(printed.contains("Usage: longhaul"), "{printed}");
    }
}

#[test]
fn omitted_intervals_are_shown_and_not_counted() {
    let serve = Serve::start(&[]);
    let out = serve.test(&["-O", "0.4", "-t", "0.6", "-i", "0.2", "--pacing", "80Mb/s", "--json"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let records = read_records(Cursor::new(out.stdout)).unwrap();
    let (mut bytes, mut first, mut last) = (0, None, 0.0);
    for record in &records {
        let Record::Interval(i) = record else { continue };
        assert_eq!(i.omitted, i.start_s < 0.4, "{} to {}", i.start_s, i.end_s);
        if i.role == results::Role::Receiver && !i.omitted {
            bytes += i.bytes;
            first.get_or_insert(i.start_s);
            last = i.end_s;
        }
    }
    let (Some(Record::Start(start)), Some(Record::End(end))) = (records.first(), records.last()) else { panic!() };
    // The duration includes the omitted time.
    assert_eq!(start.plan.duration_ns, Some(1_000_000_000));
    let direction = &end.directions[0];
    assert_eq!(direction.omitted_s, first);
    assert_eq!((direction.measured_bytes, direction.measured_s), (Some(bytes), first.map(|first| last - first)));
    assert!(bytes > 0 && bytes < direction.receiver.bytes, "{bytes} of {}", direction.receiver.bytes);
    let rate = bytes as f64 * 8.0 / (last - first.unwrap());
    assert!((rate / direction.throughput_bps as f64 - 1.0).abs() < 1e-3, "{rate} {}", direction.throughput_bps);

    let parts = serve.test(&["-O", "0.2", "-t", "0.2", "-i", "0.1"]);
    let parts = text(&parts.stdout);
    assert!(parts.contains("(omitted)") && parts.contains("without the first"), "{parts}");
}

#[test]
fn a_file_is_sent_once_and_a_received_file_is_unlinked() {
    let serve = Serve::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source");
    std::fs::write(&source, vec![1; 3_000_000]).unwrap();
    let path = source.to_str().unwrap();

    let end = |arguments: &[&str]| {
        let out = serve.test(&[arguments, &["--json"]].concat());
        assert!(out.status.success(), "{arguments:?}: {}", text(&out.stderr));
        let Some(Record::End(end)) = read_records(Cursor::new(out.stdout)).unwrap().pop() else { panic!("no end") };
        end
    };
    // 46 bodies of 65,520 bytes, each behind a header of 16 bytes (docs/reference/protocol.md).
    assert_eq!(end(&["-F", path]).directions[0].agreement.received_bytes, 3_000_000 + 46 * 16);

    let sink = directory.path().join("sink");
    let down = end(&["-R", "-n", "20MB", "-F", sink.to_str().unwrap()]);
    assert_eq!(down.directions[0].agreement.received_bytes, 20_000_000);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "only the source file remains");

    for (arguments, why) in [
        (["-R", "-F", path], "the file exists; give the name of a new file"),
        (["-t1", "-F", directory.path().to_str().unwrap()], "neither a regular file nor a block device"),
        (["-R", "-F", "/dev/full"], "No space left on device"),
    ] {
        let refused = serve.test(&arguments);
        let message = format!("{}{}", text(&refused.stdout), text(&refused.stderr));
        assert!(!refused.status.success() && message.contains(why), "{arguments:?}: {message}");
    }
    assert_eq!(std::fs::read(&source).unwrap(), vec![1; 3_000_000]);
}
