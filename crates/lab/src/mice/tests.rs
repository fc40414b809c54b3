use std::net::Ipv4Addr;
use std::sync::mpsc::{self, Receiver};

use units::Bytes;

use super::*;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn mice(bytes: u64) -> Mice {
    Mice {
        name: "web".to_owned(),
        from: 0,
        to: 1,
        start: Duration::ZERO,
        stop: Duration::from_secs(1),
        bytes: scenario::Sizes::Fixed(Bytes::new(bytes)),
        every: Duration::from_millis(20),
        poisson: false,
        congestion_control: "cubic".to_owned(),
    }
}

fn task(server: SocketAddr, bytes: u64, give_up: Duration) -> (Arc<Task>, Receiver<Transfer>) {
    let (transfers, receiver) = mpsc::channel();
    let run_start = kernel::now();
    let task = Task {
        run: 2,
        mice: mice(bytes),
        seed: 1,
        path: None,
        server,
        run_start,
        give_up: run_start + give_up,
        transfers,
        running: AtomicUsize::new(1),
        stop: Arc::new(AtomicBool::new(false)),
    };
    (Arc::new(task), receiver)
}

#[test]
fn a_transfer_is_complete_with_its_last_byte() {
    let listener = kernel::listen(Some(HERE.into()), 0).unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let server_stop = Arc::clone(&stop);
    let server = thread::spawn(move || serve(&listener, &DataOptions::default(), &server_stop));
    let (task, transfers) = task(address, 300_000, Duration::from_secs(20));
    let at = kernel::now();
    task.transfer(Mouse { at, bytes: Bytes::new(300_000) });
    let took = units::nanos(kernel::now().saturating_since(at));
    let transfer = transfers.try_recv().unwrap();
    assert_eq!((transfer.run, transfer.flow.as_str(), transfer.bytes), (2, "web", 300_000));
    assert!(transfer.completion_ns.is_some_and(|ns| ns > 0 && ns <= took), "{transfer:?}");
    assert_eq!(transfer.error, None);
    stop.store(true, Ordering::Relaxed);
    server.join().unwrap();
}

#[test]
fn a_broken_or_stalled_transfer_is_reported_as_incomplete() {
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    // The first connection is closed during the transfer, the second receives nothing.
    let server = thread::spawn(move || {
        let mut first = listener.accept().unwrap().0;
        first.read_exact(&mut [0; 8]).unwrap();
        first.write_all(&[0; 100]).unwrap();
        drop(first);
        listener.accept().unwrap().0
    });
    let (broken, transfers) = task(address, 300_000, Duration::from_secs(20));
    broken.transfer(Mouse { at: kernel::now(), bytes: Bytes::new(300_000) });
    let transfer = transfers.try_recv().unwrap();
    assert!(transfer.completion_ns.is_none() && transfer.error.is_some(), "{transfer:?}");
    let (stalled, transfers) = task(address, 300_000, Duration::from_millis(100));
    stalled.transfer(Mouse { at: kernel::now(), bytes: Bytes::new(300_000) });
    let transfer = transfers.try_recv().unwrap();
    assert!(transfer.error.is_some_and(|e| e.contains("before the transfer was complete")));
    drop(server.join().unwrap());
}

#[test]
fn failing_transfers_start_on_schedule() {
    // A port without a listener.
    let closed = TcpListener::bind((HERE, 0)).unwrap().local_addr().unwrap();
    let (mut own, transfers) = task(closed, 1000, Duration::from_secs(5));
    let inner = Arc::get_mut(&mut own).unwrap();
    inner.running = AtomicUsize::new(0);
    inner.mice.start = Duration::from_millis(40);
    inner.mice.stop = Duration::from_millis(200);
    start_transfers(&own, 1);
    let mut starts: Vec<f64> = transfers.try_iter().map(|t| t.start_s).collect();
    starts.sort_by(f64::total_cmp);
    // At 40, 60, ... 180 ms: the planned times, even if the machine was late.
    assert_eq!(starts.len(), 8);
    for (number, start) in starts.iter().enumerate() {
        assert!((start - 0.040 - 0.020 * number as f64).abs() < 1e-6, "{starts:?}");
    }
    assert_eq!(own.running.load(Ordering::Relaxed), 0);
}

#[test]
fn a_transfer_stuck_in_its_handshake_does_not_delay_the_end() {
    let (sender, handshake) = mpsc::channel::<()>();
    let hangs = thread::spawn(move || handshake.recv().unwrap_or_default());
    let stop = Arc::new(AtomicBool::new(false));
    let start = kernel::now();
    Stream { stop: Arc::clone(&stop), threads: vec![hangs] }.end();
    assert!(stop.load(Ordering::Relaxed));
    assert!(kernel::now().saturating_since(start) < END_TIMEOUT * 10);
    drop(sender);
}

#[test]
fn the_seed_alone_determines_the_sizes() {
    let sizes = |seed| {
        let closed = TcpListener::bind((HERE, 0)).unwrap().local_addr().unwrap();
        let (mut own, transfers) = task(closed, 1, Duration::from_secs(5));
        let inner = Arc::get_mut(&mut own).unwrap();
        inner.running = AtomicUsize::new(0);
        inner.mice.bytes = scenario::Sizes::Drawn { from: scenario::Published::WebSearch, most: None };
        (inner.mice.stop, inner.seed) = (Duration::from_millis(200), seed);
        start_transfers(&own, 1);
        let mut all: Vec<(f64, u64)> = transfers.try_iter().map(|t| (t.start_s, t.bytes)).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.into_iter().map(|(_, bytes)| bytes).collect::<Vec<u64>>()
    };
    let first = sizes(1);
    assert_eq!((first.len(), &first), (10, &sizes(1)));
    assert_ne!(first, sizes(2));
}
