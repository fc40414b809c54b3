//! Tests against scripted peers, written byte by byte from the reference's tables without the encoders of this program.

mod both;
mod client;
mod hostile;
mod thrulayd;
mod udp_client;
mod udp_server;

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use results::{Direction, Record, TestPlan, Transport};

use crate::client::{ClientOptions, Family};
use crate::{Server, ServerOptions};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn plan() -> TestPlan {
    TestPlan {
        transport: Transport::Tcp,
        directions: vec![Direction::Up],
        streams: 1,
        duration_ns: Some(600_000_000),
        bytes: None,
        interval_ns: 200_000_000,
        block_bytes: 65_536,
        window_bytes: None,
        congestion_control: None,
        rate_bps: None,
        dscp: None,
        mss_bytes: None,
        notsent_lowat_bytes: None,
        zero_copy: false,
        seed: 0,
    }
}

fn client_options(port: u16, plan: TestPlan) -> ClientOptions {
    ClientOptions {
        host: HERE.to_string(),
        port,
        family: Family::Any,
        bind: None,
        plan,
        key: None,
        title: None,
        link_rate: None,
        disk: None,
        grace: Duration::from_secs(2),
        start_at: None,
    }
}

/// Runs the client. Returns its final record and all other records.
fn run_client(options: &ClientOptions) -> Result<(results::EndRecord, Vec<Record>), crate::MeasureError> {
    let mut records = Vec::new();
    let end = crate::run_test(options, &mut |r| records.push(r.clone()), &|| 0)?;
    Ok((end, records))
}

fn server_options() -> ServerOptions {
    ServerOptions {
        bind: Some(HERE.into()),
        port: 0,
        allow: Vec::new(),
        max_sessions: 4,
        max_sessions_per_address: 4,
        max_memory: units::Bytes::new(4 << 30),
        large_windows: false,
        max_udp_silence: Duration::from_secs(20),
        max_duration: Duration::from_secs(60),
        max_rate: None,
        max_probe_bytes: units::Bytes::new(10_000_000),
        key: None,
        grace: Duration::from_millis(200),
        one_off: false,
    }
}

/// A server in a thread; dropping it stops the server and waits for its sessions.
struct Served {
    port: u16,
    stop_requests: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn start(options: ServerOptions) -> Self {
        let server = Server::bind(options).unwrap();
        let port = server.local_addr().unwrap().port();
        let stop_requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&stop_requests);
        let run = move || server.run(&|| count.load(Ordering::Relaxed)).unwrap();
        Self { port, stop_requests, thread: Some(std::thread::spawn(run)) }
    }

    /// Waits until the server ends by itself (`one_off`), which it does once its session is freed.
    fn wait(mut self) {
        self.thread.take().unwrap().join().unwrap();
    }

    /// Connects and reads the greeting.
    fn greeted(&self) -> TcpStream {
        let mut stream = TcpStream::connect(SocketAddr::new(HERE, self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        let mut greeting = [0; 10];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"thrulay/2+");
        stream
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop_requests.fetch_add(1, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads once with `recv`, as thrulay reads each text.
fn one_read(stream: &mut TcpStream) -> Vec<u8> {
    let mut buffer = [0; 1023];
    let n = stream.read(&mut buffer).unwrap();
    buffer[..n].to_vec()
}

/// Whether the peer closes or resets without sending another byte.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 1]) {
        Ok(n) => n == 0,
        Err(e) => e.kind() == std::io::ErrorKind::ConnectionReset,
    }
}
