//! thrulay server against longhaul client.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use results::{Completion, Direction, End, Record, Role, TestPlan};

use super::{HERE, client_options, one_read, plan, run_client};
use crate::MeasureError;

/// Data received on one connection.
#[derive(Debug, Default)]
pub(super) struct Seen {
    proposal: Vec<u8>,
    bytes: u64,
    blocks: u64,
}

/// Deviations of the script from thrulayd.
#[derive(Clone, Copy)]
struct Script {
    /// Answer in place of the doubled window and the block size.
    answer: Option<&'static [u8]>,
    /// Maximum bytes read of a proposal.
    read: usize,
    /// Received bytes after which the script closes the connection.
    last: u64,
    /// Received bytes after which the script stops reading and echoing.
    stall: u64,
    /// The script reads all data and echoes nothing.
    silent: bool,
}

const AS_THRULAYD: Script = Script { answer: None, read: 1023, last: u64::MAX, stall: u64::MAX, silent: false };

/// Serves connections until the test ends; each reports its data at its end.
fn start(script: Script) -> (u16, mpsc::Receiver<Seen>) {
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (out, seen) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let out = out.clone();
            std::thread::spawn(move || {
                let _ = out.send(serve(stream.unwrap(), script));
            });
        }
    });
    (port, seen)
}

fn serve(mut stream: TcpStream, script: Script) -> Seen {
    stream.write_all(b"thrulay/2+").unwrap();
    let mut buffer = vec![0; script.read];
    let n = stream.read(&mut buffer).unwrap();
    let mut seen = Seen { proposal: buffer[..n].to_vec(), ..Seen::default() };
    // thrulayd closes the connection without an answer to an unknown type.
    let Some(numbers) = seen.proposal.strip_prefix(b"thrulay/2:t:") else { return seen };
    let text = std::str::from_utf8(numbers).unwrap();
    let (window, block) = text.strip_suffix('+').unwrap().split_once(':').unwrap();
    let (window, mut block): (u64, usize) = (window.parse().unwrap(), block.parse().unwrap());
    let answer = script.answer.map_or_else(|| format!("{}:{block}+", 2 * window).into_bytes(), <[u8]>::to_vec);
    if let Some((_, granted)) = std::str::from_utf8(&answer).unwrap().trim_end_matches('+').split_once(':') {
        block = granted.parse().unwrap();
    }
    stream.write_all(&answer).unwrap();
    echo(&mut stream, block, script, &mut seen);
    seen
}

/// Reads each block and echoes its first 16 bytes before it reads further, as thrulayd does.
fn echo(stream: &mut TcpStream, block: usize, script: Script, seen: &mut Seen) {
    let mut buffer = vec![0; block];
    loop {
        let mut filled = 0;
        while filled < block {
            match stream.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == ErrorKind::ConnectionReset => break,
                Err(e) => panic!("{e}"),
            }
        }
        if filled == 0 {
            return;
        }
        seen.bytes += filled as u64;
        seen.blocks += 1;
        assert!(buffer[16.min(filled)..filled].iter().all(|b| *b == b'2'), "filler");
        if !script.silent && stream.write_all(&buffer[..16.min(filled)]).is_err() || seen.bytes >= script.last {
            return;
        }
        if seen.bytes >= script.stall {
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
    }
}

/// Connections with a test; the client's first connection ends with its native hello.
fn finished(seen: &mpsc::Receiver<Seen>, streams: usize) -> Vec<Seen> {
    let mut all: Vec<Seen> = (0..=streams).map(|_| seen.recv().unwrap()).collect();
    let hello = all.iter().position(|s| s.proposal.starts_with(b"thrulay/2:L:2+")).unwrap();
    all.remove(hello);
    all
}

#[test]
fn records_of_a_two_stream_test_name_the_missing_values() {
    let (port, seen) = start(AS_THRULAYD);
    let (end, records) = run_client(&client_options(port, TestPlan { streams: 2, ..plan() })).unwrap();
    let seen = finished(&seen, 2);
    for s in &seen {
        assert_eq!(s.proposal, b"thrulay/2:t:4194304:65536+");
    }
    let Record::Start(start) = &records[0] else { panic!("{:?}", records[0]) };
    assert_eq!((start.protocol.as_str(), start.streams.len(), start.server.is_none()), ("thrulay/2", 2, true));
    assert_eq!(start.streams[0].server_buffers.receive_bytes, 8_388_608);
    assert!(start.baseline_rtt_ns.is_some());
    assert!(start.notes.iter().any(|n| n.contains("reports nothing of what it received")), "{:?}", start.notes);
    let intervals: Vec<_> =
        records.iter().filter_map(|r| if let Record::Interval(i) = r { Some(i) } else { None }).collect();
    assert!(intervals.len() >= 2);
    assert!(intervals.iter().all(|i| i.end == End::Client && i.role == Role::Sender && i.streams.len() == 2));
    assert!(intervals[0].block_rtt.is_some() && intervals[0].limit.is_some());

    assert_eq!(end.completion, Completion::Complete);
    assert!(end.clock.is_none());
    let [d] = &end.directions[..] else { panic!("{:?}", end.directions) };
    assert_eq!(d.direction, Direction::Up);
    assert_eq!(d.agreement.sent_bytes, seen.iter().map(|s| s.bytes).sum::<u64>());
    assert_eq!(d.agreement.echoed_blocks, seen.iter().map(|s| s.blocks).sum::<u64>());
    assert!(!d.agreement.agree);
    assert!(d.agreement.explanation.as_ref().unwrap().contains("not available with thrulay"));
    assert!(d.throughput_bps > 0 && d.agreement.received_bytes <= d.agreement.sent_bytes);
    assert!(d.block_rtt.as_ref().unwrap().count > 0 && d.kernel_min_rtt_ns.is_some() && d.rfc6349.is_some());
    let stages = d.decomposition.as_ref().unwrap();
    assert!(stages.receiver_app.is_none());
    if stages.missing.iter().all(|m| m.contains("receiver_app")) {
        assert!(stages.samples > 0 && stages.network.is_some());
    }
    assert!(d.one_way.is_none() && d.ramp_up.is_none());
}

#[test]
fn a_data_amount_arrives_exactly_with_the_block_size_of_the_server() {
    let (port, seen) = start(Script { answer: Some(b"3000:1024+"), ..AS_THRULAYD });
    let requested = TestPlan { duration_ns: None, bytes: Some(1_000_001), window_bytes: Some(50_000), ..plan() };
    let (end, records) = run_client(&client_options(port, requested)).unwrap();
    let seen = finished(&seen, 1);
    assert_eq!(seen[0].proposal, b"thrulay/2:t:50000:65536+");
    // 976 whole blocks and one of 577 bytes.
    assert_eq!((seen[0].bytes, seen[0].blocks), (1_000_001, 977));
    let Record::Start(start) = &records[0] else { panic!("{:?}", records[0]) };
    assert_eq!(start.plan.block_bytes, 1024);
    assert_eq!(start.notes.iter().filter(|n| n.contains("instead of") || n.contains("below the window")).count(), 2);
    assert_eq!(end.completion, Completion::Complete);
    assert_eq!(end.directions[0].agreement.received_bytes, 1_000_001, "the short block counts its own length");
    assert!(!end.directions[0].agreement.agree);
}

#[test]
fn a_server_that_resets_after_a_partly_read_hello_is_supported() {
    // The proposals fit one read of 26 bytes; the hello does not.
    let (port, _seen) = start(Script { read: 26, ..AS_THRULAYD });
    let (end, _) = run_client(&client_options(port, plan())).unwrap();
    assert_eq!(end.completion, Completion::Complete);
}

#[test]
fn a_server_that_closes_fails_the_test_with_a_reason() {
    let (port, _seen) = start(Script { last: 5_000_000, ..AS_THRULAYD });
    let (end, _) = run_client(&client_options(port, TestPlan { duration_ns: Some(20_000_000_000), ..plan() })).unwrap();
    let Completion::Failed { reason } = &end.completion else { panic!("{:?}", end.completion) };
    assert!(reason.contains("stream 0"), "{reason}");
    assert!(end.directions[0].agreement.received_bytes > 0);
}

#[test]
fn a_server_that_stops_reading_ends_the_test_after_the_grace_time() {
    let (port, _seen) = start(Script { stall: 1_000_000, ..AS_THRULAYD });
    let start = kernel::now();
    let (end, _) = run_client(&client_options(port, plan())).unwrap();
    assert!(kernel::now().saturating_since(start) < std::time::Duration::from_secs(5));
    let Completion::Failed { reason } = &end.completion else { panic!("{:?}", end.completion) };
    assert!(reason.contains("took no data"), "{reason}");
    let d = &end.directions[0];
    assert!(d.agreement.received_bytes < d.agreement.sent_bytes);
    assert!(d.agreement.explanation.as_ref().unwrap().contains("unconfirmed"));
}

#[test]
fn a_server_that_echoes_nothing_fails_the_test() {
    let (port, _seen) = start(Script { silent: true, ..AS_THRULAYD });
    let (end, _) = run_client(&client_options(port, plan())).unwrap();
    let Completion::Failed { reason } = &end.completion else { panic!("{:?}", end.completion) };
    assert!(reason.contains("are unconfirmed"), "{reason}");
    assert_eq!(end.directions[0].throughput_bps, 0);
}

#[test]
fn answers_that_thrulay_rejects_fail_the_test() {
    for answer in [&b"4194304:8+"[..], b"100:65536+", b"4194304:65536+x", b"bad:1+"] {
        let listener = TcpListener::bind((HERE, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                stream.write_all(b"thrulay/2+").unwrap();
                if one_read(&mut stream).starts_with(b"thrulay/2:t:") {
                    stream.write_all(answer).unwrap();
                    let _ = stream.read(&mut [0; 1]);
                }
            }
        });
        let error = run_client(&client_options(port, plan())).unwrap_err();
        assert!(matches!(error, MeasureError::Protocol { .. }), "{error}");
    }
}

#[test]
fn the_text_of_a_rejection_is_reported() {
    for rejection in [&b"thrulay/2-too busy, come back later\n"[..], b"thrulay/2 too busy, come back later"] {
        let listener = TcpListener::bind((HERE, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || listener.accept().unwrap().0.write_all(rejection).unwrap());
        let error = run_client(&client_options(port, plan())).unwrap_err();
        assert!(error.to_string().contains("refuses: too busy, come back later"), "{error}");
    }
}

#[test]
fn an_unsupported_option_is_an_error() {
    let (port, _seen) = start(AS_THRULAYD);
    for directions in [vec![Direction::Down], vec![Direction::Up, Direction::Down]] {
        let error = run_client(&client_options(port, TestPlan { directions, ..plan() })).unwrap_err();
        assert!(error.to_string().contains("--reverse"), "{error}");
    }
    let mut options = client_options(port, plan());
    options.key = Some(wire::Key::from_file_text("0123456789abcdef0123456789abcdef").unwrap());
    let error = run_client(&options).unwrap_err();
    assert!(error.to_string().contains("--key-file"), "{error}");
}
