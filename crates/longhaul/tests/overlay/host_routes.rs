//! Addresses and routes of a node on a host whose network other programs change.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use testbed::{Lan, Namespace, or_skip};

use crate::common::text;
use crate::setup::{Alone, EAST, Members, answers, init, join, overlay, status, up};

/// Counts what leaves a host for the members' addresses by another device than the tunnel's, in the clear.
struct Witness<'a>(&'a Namespace);

impl<'a> Witness<'a> {
    fn new(host: &'a Namespace) -> Self {
        let rules = "add table inet witness
            add chain inet witness out { type filter hook output priority 0; }
            add rule inet witness out ip daddr 10.77.0.0/24 oifname != { \"lh0\", \"lo\" } counter\n";
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), rules).unwrap();
        host.run(|| {
            let made = Command::new("nft").arg("-f").arg(file.path()).output().unwrap();
            assert!(made.status.success(), "{}", text(&made.stderr));
        })
        .unwrap();
        Self(host)
    }

    fn packets(&self) -> u64 {
        let list = || Command::new("nft").args(["list", "table", "inet", "witness"]).output().unwrap();
        let shown = text(&self.0.run(list).unwrap().stdout);
        let (_, rest) = shown.split_once("counter packets ").unwrap_or_else(|| panic!("{shown}"));
        rest.split(' ').next().unwrap().parse().unwrap()
    }
}

/// Sends to a node continuously, a hundred times per second.
struct Load {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(from: &Namespace) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let send = move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            while !is_over.load(Ordering::Relaxed) {
                // A rejected datagram does not end the flow.
                let _ = socket.send_to(b"in the clear?", (EAST, 9));
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        let from = Namespace::of(from.run(|| std::fs::File::open("/proc/thread-self/ns/net").unwrap()).unwrap());
        let thread = std::thread::spawn(move || from.run(send).unwrap());
        Self { ends, thread: Some(thread) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a host answers with port unreachable.
fn is_reached(from: &Namespace, to: &str) -> bool {
    let to = SocketAddr::new(to.parse().unwrap(), 9);
    let tried = from.run(|| TcpStream::connect_timeout(&to, Duration::from_secs(1))).unwrap();
    tried.is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
}

fn events(directory: &Path, kind: &str) -> Vec<serde_json::Value> {
    let told = text(&overlay(directory, &["events", "--json", "--config", "west.toml"]).stdout);
    let all = told.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    all.filter(|e| e["event"] == kind).collect()
}

#[test]
fn overlay_traffic_never_leaves_in_the_clear_after_changes_of_device_addresses_or_routes() {
    let Some(lan) = or_skip(Lan::with_router()) else { return };
    let mut members = Members::start(&lan, "");
    let directory = members.directory.path().to_owned();
    let (host, tunnel) = (&lan.client, || status(&directory, "west")["tunnel"].clone());
    let witness = Witness::new(host);
    let route = || host.iproute(&format!("ip route get {EAST}")).is_ok_and(|got| got.contains("dev lh0 src 10.77.0.1"));
    assert!(route() && is_reached(host, EAST));
    let whole = serde_json::json!({ "up": true, "missing_addresses": [], "missing_routes": [], "other_routes": [] });
    assert_eq!(tunnel(), whole);

    let load = Load::start(host);
    for (number, done) in [
        &["ip link set lh0 down", "ip link set lh0 up"][..],
        &["ip route del 10.77.0.2/32 dev lh0"],
        &["ip address del 10.77.0.1/32 dev lh0"],
        &["ip route del unreachable 10.77.0.2/32", "ip route del 10.77.0.2/32 dev lh0"],
    ]
    .into_iter()
    .enumerate()
    {
        // The fallback alone is no leak: the route into the tunnel is there. It is restored before the next one is
        // done.
        for command in done {
            host.iproute(command).unwrap();
            if command.contains("unreachable") {
                until(command, || host.iproute("ip route").unwrap().contains("unreachable 10.77.0.2"));
            }
        }
        until(done[0], || route() && is_reached(host, EAST));
        let restored = || status(&directory, "west")["counters"]["routes_restored"].as_u64().unwrap();
        assert!(restored() > number as u64, "{done:?}: {}", restored());
    }
    assert!(!events(&directory, "routes-restored").is_empty());

    // While the device is down, packets are rejected, and the status reports it.
    host.iproute("ip link set lh0 down").unwrap();
    until("it is told", || tunnel()["up"] == false && tunnel()["missing_routes"][0] == "10.77.0.2/32");
    let told = text(&overlay(&directory, &["status", "--config", "west.toml"]).stdout);
    assert!(told.contains("the tunnel device lh0 is down"), "{told}");
    assert!(host.iproute(&format!("ip route get {EAST}")).is_err() && !is_reached(host, EAST));
    host.iproute("ip link set lh0 up").unwrap();
    until("it is whole again", || tunnel() == whole && is_reached(host, EAST));
    let missing = events(&directory, "routes-missing");
    assert!(missing.iter().any(|e| e["device_up"] == false) && missing.last().unwrap()["device_up"] == true);

    // `reload` looks at what is there.
    host.iproute("ip route del 10.77.0.2/32 dev lh0").unwrap();
    assert_eq!(overlay(&directory, &["reload", "--config", "west.toml"]).status.code(), Some(0));
    assert!(route());

    // One that is killed takes its device along, and nothing leaves in the clear; the next one finds what it left, and
    // leaves nothing.
    members.kill("west");
    until("the device is gone", || host.iproute("ip link show lh0").is_err());
    assert!(host.iproute("ip route").unwrap().contains("unreachable 10.77.0.2"));
    assert!(!is_reached(host, EAST));
    assert_eq!(witness.packets(), 0);
    drop(load);
    let mut again = Alone(up(host, &directory, "west"));
    answers(&directory, "west");
    assert_eq!(overlay(&directory, &["down", "--config", "west.toml"]).status.code(), Some(0));
    assert_eq!(again.0.wait().unwrap().code(), Some(0));
    let left = host.iproute("ip route").unwrap();
    assert!(!left.contains("10.77"), "{left}");
    // The witness sees what it is there for.
    assert!(!is_reached(host, EAST) && witness.packets() > 0);
}

#[test]
fn a_lan_that_the_host_comes_into_counts_before_the_member_that_serves_it() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let host = &lan.client;
    host.iproute("ip address flush dev eth0").unwrap();
    lan.server.iproute("ip address add 10.91.1.1/24 dev eth0").unwrap();
    init(directory.path(), "west", "10.77.0.1");
    let east = init(directory.path(), "east", EAST).replace("\"10.77.0.2/32\"", "\"10.77.0.2/32\", \"10.91.1.0/24\"");
    assert!(east.contains("10.91.1.0/24"), "{east}");
    assert_eq!(join(directory.path(), "west", &format!("{east}endpoint = \"10.91.2.2\"\n")).status.code(), Some(0));
    let mut member = Alone(up(host, directory.path(), "west"));
    answers(directory.path(), "west");
    let others = || status(directory.path(), "west")["tunnel"]["other_routes"].clone();
    let leaves_by = |ip: &str| host.iproute(&format!("ip route get {ip}")).unwrap_or_default();
    assert!(leaves_by("10.91.1.1").contains("dev lh0") && others().as_array().unwrap().is_empty());

    // DHCP, or a laptop that comes into the branch office.
    host.iproute("ip address add 10.91.1.77/24 dev eth0").unwrap();
    host.iproute("ip route add default via 10.91.1.1").unwrap();
    assert!(is_reached(host, "10.91.1.1"), "its gateway answers");
    assert!(leaves_by("10.91.2.2").contains("via 10.91.1.1 dev eth0"), "{}", leaves_by("10.91.2.2"));
    let expected = serde_json::json!([{ "subnet": "10.91.1.0/24", "device": "eth0" }]);
    until("it is told", || others() == expected);
    assert_eq!(events(directory.path(), "routes-overridden").last().unwrap()["routes"], expected);
    let told = text(&overlay(directory.path(), &["status", "--config", "west.toml"]).stdout);
    assert!(told.contains("another route of this host sends traffic for 10.91.1.0/24 over eth0"), "{told}");

    // Started in that LAN it says the same.
    assert_eq!(overlay(directory.path(), &["down", "--config", "west.toml"]).status.code(), Some(0));
    member.0.wait().unwrap();
    member.0 = up(host, directory.path(), "west");
    answers(directory.path(), "west");
    assert_eq!(others(), expected);
    assert!(is_reached(host, "10.91.1.1"));

    // When it leaves, the overlay has it.
    host.iproute("ip address del 10.91.1.77/24 dev eth0").unwrap();
    until("it is told", || others().as_array().unwrap().is_empty());
    assert!(leaves_by("10.91.1.1").contains("dev lh0"));
}
