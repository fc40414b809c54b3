//! Two nodes on a cable, a flow through their tunnel, and an attacker.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use results::{Direction, TestPlan};
use testbed::{Lan, Served, client_options, or_skip, plan, resident, run_test, server_options, undisturbed};

use crate::common::lab::turn;
use crate::common::{longhaul, text};
use crate::setup::{EAST, Members, init, join, status};

/// Rate of the flow, far below the capacity of the tunnel of a debug build on two cores that the flood also uses.
const RATE_BPS: u64 = 50_000_000;
/// Rate of the flood, in initiations per second; consecutive ones have different source addresses.
const FLOOD_PER_S: u64 = 10_000;

/// Initiation of an unknown sender that knows the public key of a node: its MAC1 is valid.
fn initiation(lan: &Lan, members: &Path) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    init(directory.path(), "stranger", "10.77.0.9");
    let key = fs::read_to_string(members.join("west.toml")).unwrap();
    let key = key.lines().find(|l| l.starts_with("key = ") && !l.contains("west.key")).unwrap().to_owned();
    let socket = lan.client.run(|| UdpSocket::bind("127.0.0.1:0")).unwrap().unwrap();
    let endpoint = socket.local_addr().unwrap();
    let lines =
        format!("[[member]]\nname = \"east\"\n{key}\nendpoint = \"{endpoint}\"\nsubnets = [\"10.78.0.1/32\"]\n");
    let joined = join(directory.path(), "stranger", &lines);
    assert_eq!(joined.status.code(), Some(0), "{}", text(&joined.stderr));
    let settings = directory.path().join("stranger.toml");
    // The stranger must not use the device or the port of the node on this host.
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, format!("device = \"lh9\"\nlisten = \"127.0.0.1:0\"\n{text}")).unwrap();
    let mut command = longhaul();
    command.current_dir(directory.path()).args(["overlay", "up", "--config", "stranger.toml"]);
    let mut stranger = lan.client.start(&mut command).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut buffer = [0; 2000];
    let got = socket.recv(&mut buffer);
    let _ = stranger.kill();
    let _ = stranger.wait();
    buffer[..got.unwrap()].to_vec()
}

/// Sends the datagram from alternating addresses until `over` is set, and counts the datagrams in `sent`.
fn flood(datagram: &[u8], to: SocketAddr, over: &AtomicBool, sent: &AtomicU64) {
    let start = Instant::now();
    // Each socket is used many times: 250 addresses fit into this process's limit of open files.
    let sockets: Vec<UdpSocket> =
        (0..250_u8).map(|i| UdpSocket::bind((IpAddr::V4(Ipv4Addr::new(10, 200, i, 1)), 0)).unwrap()).collect();
    while !over.load(Ordering::Relaxed) {
        let due = (start.elapsed().as_secs_f64() * FLOOD_PER_S as f64) as u64;
        while sent.load(Ordering::Relaxed) < due {
            let number = sent.fetch_add(1, Ordering::Relaxed);
            let _ = sockets[number as usize % sockets.len()].send_to(datagram, to);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Goodput of a flow of five seconds through the tunnel.
fn goodput(lan: &Lan, port: u16) -> u64 {
    let plan = TestPlan { rate_bps: Some(RATE_BPS), ..plan(Duration::from_secs(5)) };
    let outcome =
        run_test(&lan.client, client_options(EAST.parse().unwrap(), port, plan), Duration::from_secs(40)).unwrap();
    outcome.direction(Direction::Up).throughput_bps
}

#[test]
fn a_flood_of_handshakes_reduces_goodput_by_less_than_5_percent() {
    // The test must not run at the same time as an emulator, which has real-time priority.
    let Some(_turn) = turn() else { return };
    undisturbed(|| {
        let Some(lan) = or_skip(Lan::two_hosts()) else { return };
        // The flood uses addresses that no interface has: the client accepts all of them, and the server routes its
        // replies to the client.
        lan.client.iproute("ip link set lo up").unwrap();
        lan.client.iproute("ip route add local 10.200.0.0/16 dev lo").unwrap();
        lan.server.iproute(&format!("ip route add 10.200.0.0/16 via {}", lan.client_ip())).unwrap();
        let members = Members::start(&lan, "");
        let datagram = initiation(&lan, members.directory.path());
        let served = Served::start(&lan.server, server_options(EAST.parse().unwrap())).unwrap();
        let quiet = goodput(&lan, served.port());
        let before = resident(members.ids()[1]).unwrap();

        let (over, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let to = SocketAddr::new(lan.server_ip(), 5460);
        let of_flood = (Arc::clone(&over), Arc::clone(&sent));
        let start = Instant::now();
        let flooding = lan.client.spawn("flood", move || flood(&datagram, to, &of_flood.0, &of_flood.1)).unwrap();
        let flooded = goodput(&lan, served.port());
        let rate = sent.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        flooding.join().unwrap().unwrap();

        let grown = resident(members.ids()[1]).unwrap().saturating_sub(before);
        let report = status(members.directory.path(), "east");
        println!("{quiet} b/s, {flooded} b/s under {rate:.0} initiations per second; {}", report["counters"]);
        assert!(rate > 0.95 * FLOOD_PER_S as f64, "{rate} initiations per second were sent");
        assert!(flooded as f64 > 0.95 * quiet as f64, "{flooded} b/s with the flood, {quiet} b/s without it");
        // The flood has at least 50,000 initiations: 200 bytes of state for each would be 10 MB.
        assert!(grown < 4_000_000, "resident memory grew by {grown} bytes");
        // No peer was added or lost.
        assert_eq!(report["members"].as_array().map(Vec::len), Some(1));
        assert_eq!(report["members"][0]["link"]["up"], true, "{report}");
    });
}
