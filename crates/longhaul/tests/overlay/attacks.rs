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

/// What the flow takes: far below what the tunnel of a test's binary carries on two cores that the flood shares.
const RATE: u64 = 50_000_000;
/// Initiations a second, of which no two in a row have the same address.
const FLOOD: u64 = 10_000;

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
    // The device and the port of the member in this host are its own.
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, format!("device = \"lh9\"\nlisten = \"127.0.0.1:0\"\n{text}")).unwrap();
    let mut command = longhaul();
    command.current_dir(directory.path()).args(["overlay", "up", "--config", "stranger.toml"]);
    let mut stranger = lan.client.start(&mut command).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut room = [0; 2000];
    let got = socket.recv(&mut room);
    let _ = stranger.kill();
    let _ = stranger.wait();
    room[..got.unwrap()].to_vec()
}

/// Sends the datagram from one address after the other until `over`; counts what went out.
fn flood(datagram: &[u8], to: SocketAddr, over: &AtomicBool, sent: &AtomicU64) {
    let began = Instant::now();
    // As many sockets as an address has room for in this host's table of files, each used many times.
    let sockets: Vec<UdpSocket> =
        (0..250_u8).map(|i| UdpSocket::bind((IpAddr::V4(Ipv4Addr::new(10, 200, i, 1)), 0)).unwrap()).collect();
    while !over.load(Ordering::Relaxed) {
        let due = (began.elapsed().as_secs_f64() * FLOOD as f64) as u64;
        while sent.load(Ordering::Relaxed) < due {
            let number = sent.fetch_add(1, Ordering::Relaxed);
            let _ = sockets[number as usize % sockets.len()].send_to(datagram, to);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Goodput of a flow of five seconds through the tunnel.
fn goodput(lan: &Lan, port: u16) -> u64 {
    let plan = TestPlan { rate_bps: Some(RATE), ..plan(Duration::from_secs(5)) };
    let outcome =
        run_test(&lan.client, client_options(EAST.parse().unwrap(), port, plan), Duration::from_secs(40)).unwrap();
    outcome.direction(Direction::Up).throughput_bps
}

#[test]
fn a_flood_of_handshakes_takes_less_than_a_twentieth_of_the_traffic() {
    // Not beside an emulator, which has priority over all.
    let Some(_turn) = turn() else { return };
    undisturbed(|| {
        let Some(lan) = or_skip(Lan::two_hosts()) else { return };
        // Unassigned addresses: this host has all of them, and the other one sends its replies there.
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
        let began = Instant::now();
        let flooding = lan.client.spawn("flood", move || flood(&datagram, to, &of_flood.0, &of_flood.1)).unwrap();
        let flooded = goodput(&lan, served.port());
        let rate = sent.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        flooding.join().unwrap().unwrap();

        let grown = resident(members.ids()[1]).unwrap().saturating_sub(before);
        let told = status(members.directory.path(), "east");
        println!("{quiet} b/s, {flooded} b/s under {rate:.0} initiations a second; {}", told["counters"]);
        assert!(rate > 0.95 * FLOOD as f64, "{rate} a second were sent");
        assert!(flooded as f64 > 0.95 * quiet as f64, "{flooded} of {quiet} b/s");
        // 50,000 callers and more: 200 bytes of each would be 10 MB.
        assert!(grown < 4_000_000, "{grown} bytes more");
        // No peer was added or lost.
        assert_eq!(told["members"].as_array().map(Vec::len), Some(1));
        assert_eq!(told["members"][0]["link"]["up"], true, "{told}");
    });
}
