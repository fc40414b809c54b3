//! Far ends that answer probes too fast, with forged times or with a flood. A proxy between the client and a real
//! server replaces the server's messages.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use estimate::probe::{Adr, Bounds, Method, Path, RonProbes, Run};
use measure::ClientOptions;
use measure::probe::{ProbeOptions, Prober};
use results::estimate::Caveat;
use results::{Direction, TestPlan, Transport};
use testbed::{Served, client_options, plan};
use wire::{Frame, FrameReader, GREETING, Message, SESSION_BYTES_MAX};

use crate::{LOCAL, STEP_TIMEOUT, serve};

/// Replacement of a server's message: the messages sent instead, each with its number of copies.
type Rewrite = fn(Message) -> Vec<(Message, usize)>;

/// Starts a proxy between a client and the server, which counts the bytes that the client accepts. Returns its port.
fn start_proxy(served: &Served, rewrite: Rewrite, taken: Arc<AtomicUsize>) -> u16 {
    let server = SocketAddr::new(LOCAL, served.port());
    let listener = TcpListener::bind((LOCAL, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let udp = UdpSocket::bind((LOCAL, port)).unwrap();
    thread::spawn(move || forward_datagrams(&udp, server));
    thread::spawn(move || {
        // The first connection is the control connection; a probing session has no other.
        let Ok((client, _)) = listener.accept() else { return };
        let far = TcpStream::connect(server).unwrap();
        let (mut from_client, mut to_server) = (client.try_clone().unwrap(), far.try_clone().unwrap());
        thread::spawn(move || drop(std::io::copy(&mut from_client, &mut to_server)));
        rewrite_messages(far, client, rewrite, &taken);
    });
    port
}

fn forward_datagrams(near: &UdpSocket, server: SocketAddr) {
    let far = UdpSocket::bind((LOCAL, 0)).unwrap();
    far.connect(server).unwrap();
    let (back, mut buffer, mut client) = (far.try_clone().unwrap(), vec![0; 65_536], None);
    let to_client = near.try_clone().unwrap();
    while let Ok((length, from)) = near.recv_from(&mut buffer) {
        if client.replace(from).is_none() {
            let (back, to_client) = (back.try_clone().unwrap(), to_client.try_clone().unwrap());
            thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while let Ok(length) = back.recv(&mut buffer) {
                    let _ = to_client.send_to(&buffer[..length], from);
                }
            });
        }
        let _ = far.send(&buffer[..length]);
    }
}

fn rewrite_messages(mut server: TcpStream, mut client: TcpStream, rewrite: Rewrite, taken: &AtomicUsize) {
    let mut greeting = [0; GREETING.len()];
    server.read_exact(&mut greeting).unwrap();
    client.write_all(&greeting).unwrap();
    let (mut frames, mut chunk) = (FrameReader::new(SESSION_BYTES_MAX), vec![0; 65_536]);
    while let Ok(read @ 1..) = server.read(&mut chunk) {
        let mut unread = &chunk[..read];
        while !unread.is_empty() {
            unread = &unread[frames.feed(unread)..];
            while let Some(frame) = frames.next().unwrap() {
                for bytes in rewritten(&frame, rewrite).iter().flat_map(|(b, times)| std::iter::repeat_n(b, *times)) {
                    if client.write_all(bytes).is_err() {
                        return;
                    }
                    taken.fetch_add(bytes.len(), Ordering::Relaxed);
                }
            }
        }
    }
}

/// Replacement of a frame: the frames sent instead, each with its number of copies.
fn rewritten(frame: &Frame, rewrite: Rewrite) -> Vec<(Vec<u8>, usize)> {
    match frame {
        Frame::Json(json) => {
            let replacement = rewrite(Message::decode(json).unwrap());
            replacement.into_iter().map(|(m, times)| (m.encode_frame().unwrap(), times)).collect()
        }
        Frame::ClockPing(_) | Frame::ClockPong(_) => vec![(wire::encode_frame(frame).unwrap(), 1)],
    }
}

fn options(port: u16, direction: Direction) -> ProbeOptions {
    let plan = TestPlan {
        transport: Transport::Probe,
        directions: vec![direction],
        bytes: Some(1_000_000),
        duration_ns: None,
        ..plan(Duration::ZERO)
    };
    let client: ClientOptions = client_options(LOCAL, port, plan);
    ProbeOptions { client, mtu: None, seed: 1 }
}

fn run_rewritten(rewrite: Rewrite, direction: Direction, method: impl Fn(Path) -> Box<dyn Method>) -> Run {
    let served = serve(|_| ());
    let port = start_proxy(&served, rewrite, Arc::default());
    let mut prober = Prober::open(&options(port, direction)).unwrap();
    let bounds = Bounds { bytes: 1_000_000, time: Duration::from_secs(20) };
    let run = prober.run(method(prober.path()).as_mut(), bounds, &|| false).unwrap();
    prober.close();
    run
}

fn short_adr(path: Path) -> Box<dyn Method> {
    Box::new(Adr::short(path))
}

#[test]
fn arrivals_over_more_than_the_elapsed_time_give_no_rate() {
    let stretched = |message| match message {
        Message::TrainArrived { train, received_ns, clock_steps } => {
            let later = |(i, t): (usize, Option<u64>)| t.map(|t| t + i as u64 * 1_000_000_000);
            let received_ns = received_ns.into_iter().enumerate().map(later).collect();
            vec![(Message::TrainArrived { train, received_ns, clock_steps }, 1)]
        }
        other => vec![(other, 1)],
    };
    let run = run_rewritten(stretched, Direction::Up, short_adr);
    assert!(run.outcome.interval.is_none() && run.outcome.caveats.contains(&Caveat::Implausible), "{run:?}");
}

#[test]
fn departures_over_more_than_the_elapsed_time_give_no_rate() {
    let stretched = |message| match message {
        Message::TrainDeparted { train, sent_ns } => {
            let later = |(i, t): (usize, Option<u64>)| t.map(|t| t + i as u64 * 1_000_000_000);
            let sent_ns = sent_ns.into_iter().enumerate().map(later).collect();
            vec![(Message::TrainDeparted { train, sent_ns }, 1)]
        }
        other => vec![(other, 1)],
    };
    let run = run_rewritten(stretched, Direction::Down, short_adr);
    assert!(run.outcome.interval.is_none() && run.outcome.caveats.contains(&Caveat::Implausible), "{run:?}");
}

#[test]
fn continuous_clock_steps_of_the_far_end_give_no_rate() {
    static SET: AtomicUsize = AtomicUsize::new(1);
    let set = |message| match message {
        Message::TrainArrived { train, received_ns, .. } => {
            let clock_steps = SET.fetch_add(1, Ordering::Relaxed) as u64;
            vec![(Message::TrainArrived { train, received_ns, clock_steps }, 1)]
        }
        other => vec![(other, 1)],
    };
    let run = run_rewritten(set, Direction::Up, short_adr);
    assert!(run.outcome.interval.is_none() && run.outcome.caveats.contains(&Caveat::ClockStep), "{run:?}");
}

#[test]
fn reports_of_unsent_trains_are_ignored() {
    let eager = |message| {
        let number = |train| (Message::TrainArrived { train, received_ns: vec![Some(1); 3], clock_steps: 0 }, 1);
        let is_about_train = matches!(message, Message::TrainArrived { .. });
        (if is_about_train { 100..200 } else { 0..0 }).map(number).chain([(message, 1)]).collect()
    };
    let run = run_rewritten(eager, Direction::Up, short_adr);
    // On the loopback device the sender limits the rate, which ADR reports as a caveat.
    let wrong = [Caveat::Implausible, Caveat::NoAnswer, Caveat::Loss];
    assert!(run.outcome.interval.is_some() && !wrong.iter().any(|t| run.outcome.caveats.contains(t)), "{run:?}");
}

#[test]
fn unsolicited_messages_wait_in_the_connection() {
    // The flood arrives during the probes of the method, which take 10 s and do not read messages.
    let flood = |message| match message {
        Message::Started { .. } => {
            let useless = Message::TrainArrived { train: 9, received_ns: vec![Some(1 << 60); 3000], clock_steps: 0 };
            vec![(message, 1), (useless, 20_000)]
        }
        other => vec![(other, 1)],
    };
    let served = serve(|_| ());
    let taken = Arc::new(AtomicUsize::new(0));
    let port = start_proxy(&served, flood, Arc::clone(&taken));
    let mut prober = Prober::open(&options(port, Direction::Up)).unwrap();
    let start = Instant::now();
    let bounds = Bounds { bytes: 1_000_000, time: Duration::from_secs(20) };
    let interrupted = || start.elapsed() > Duration::from_secs(3);
    let ended = prober.run(&mut RonProbes::quick(prober.path()), bounds, &interrupted);
    assert!(ended.is_err() && start.elapsed() < STEP_TIMEOUT, "{ended:?}");
    // Each message has 60 kB, all of them 1.2 GB. 64 decoded ones wait in the inbox, some in the reader, and the others
    // fill two socket buffers.
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken < 64_000_000, "{taken} bytes were taken");
}
