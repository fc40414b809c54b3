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
use crate::setup::{EAST, Members, Node, init, join, overlay, status, up, wait_for_start};

/// Counter of packets that leave a host for an overlay address through any device except the tunnel, in the clear.
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

/// Sender of a datagram to a node every 10 ms.
struct Load {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(from: &Namespace) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
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
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a connection attempt to the host is refused, which proves that it is reachable.
fn is_reached(from: &Namespace, to: &str) -> bool {
    let to = SocketAddr::new(to.parse().unwrap(), 9);
    let tried = from.run(|| TcpStream::connect_timeout(&to, Duration::from_secs(1))).unwrap();
    tried.is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
}

fn events(directory: &Path, kind: &str) -> Vec<serde_json::Value> {
    let output = text(&overlay(directory, &["events", "--json", "--config", "west.toml"]).stdout);
    let all = output.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    all.filter(|e| e["event"] == kind).collect()
}

#[test]
fn overlay_traffic_never_leaves_in_the_clear_after_device_address_or_route_changes() {
    let Some(lan) = or_skip(Lan::with_router()) else { return };
    let mut members = Members::start(&lan, "");
    let directory = members.directory.path().to_owned();
    let (host, tunnel) = (&lan.client, || status(&directory, "west")["tunnel"].clone());
    let witness = Witness::new(host);
    let route = || host.iproute(&format!("ip route get {EAST}")).is_ok_and(|got| got.contains("dev lh0 src 10.77.0.1"));
    assert!(route() && is_reached(host, EAST));
    let complete = serde_json::json!({ "up": true, "missing_addresses": [], "missing_routes": [], "other_routes": [] });
    assert_eq!(tunnel(), complete);

    let load = Load::start(host);
    for (number, commands) in [
        &["ip link set lh0 down", "ip link set lh0 up"][..],
        &["ip route del 10.77.0.2/32 dev lh0"],
        &["ip address del 10.77.0.1/32 dev lh0"],
        &["ip route del unreachable 10.77.0.2/32", "ip route del 10.77.0.2/32 dev lh0"],
    ]
    .into_iter()
    .enumerate()
    {
        // Without its fallback route the host leaks nothing while the tunnel's route exists. The node restores the
        // fallback before the next command.
        for command in commands {
            host.iproute(command).unwrap();
            if command.contains("unreachable") {
                wait_until(command, || host.iproute("ip route").unwrap().contains("unreachable 10.77.0.2"));
            }
        }
        wait_until(commands[0], || route() && is_reached(host, EAST));
        let restored = || status(&directory, "west")["counters"]["routes_restored"].as_u64().unwrap();
        assert!(restored() > number as u64, "{commands:?}: {}", restored());
    }
    assert!(!events(&directory, "routes-restored").is_empty());

    // While the device is down, packets are rejected, and the status reports it.
    host.iproute("ip link set lh0 down").unwrap();
    wait_until("the status reports it", || tunnel()["up"] == false && tunnel()["missing_routes"][0] == "10.77.0.2/32");
    let output = text(&overlay(&directory, &["status", "--config", "west.toml"]).stdout);
    assert!(output.contains("the tunnel device lh0 is down"), "{output}");
    assert!(host.iproute(&format!("ip route get {EAST}")).is_err() && !is_reached(host, EAST));
    host.iproute("ip link set lh0 up").unwrap();
    wait_until("the tunnel is complete again", || tunnel() == complete && is_reached(host, EAST));
    let missing = events(&directory, "routes-missing");
    assert!(missing.iter().any(|e| e["device_up"] == false) && missing.last().unwrap()["device_up"] == true);

    // `reload` restores missing routes at once.
    host.iproute("ip route del 10.77.0.2/32 dev lh0").unwrap();
    assert_eq!(overlay(&directory, &["reload", "--config", "west.toml"]).status.code(), Some(0));
    assert!(route());

    // The device of a killed node disappears, and the fallback route keeps traffic from leaving in the clear. The next
    // node takes over the leftover routes and removes them when it ends.
    members.kill("west");
    wait_until("the device is gone", || host.iproute("ip link show lh0").is_err());
    assert!(host.iproute("ip route").unwrap().contains("unreachable 10.77.0.2"));
    assert!(!is_reached(host, EAST));
    assert_eq!(witness.packets(), 0);
    drop(load);
    let mut restarted = Node(up(host, &directory, "west"));
    wait_for_start(&directory, "west");
    assert_eq!(overlay(&directory, &["down", "--config", "west.toml"]).status.code(), Some(0));
    assert_eq!(restarted.0.wait().unwrap().code(), Some(0));
    let remaining = host.iproute("ip route").unwrap();
    assert!(!remaining.contains("10.77"), "{remaining}");
    // Without the fallback route the witness counts packets, so the zero above is meaningful.
    assert!(!is_reached(host, EAST) && witness.packets() > 0);
}

#[test]
fn a_directly_connected_lan_overrides_the_overlay_route_to_it() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let host = &lan.client;
    host.iproute("ip address flush dev eth0").unwrap();
    lan.server.iproute("ip address add 10.91.1.1/24 dev eth0").unwrap();
    init(directory.path(), "west", "10.77.0.1");
    let east = init(directory.path(), "east", EAST).replace("\"10.77.0.2/32\"", "\"10.77.0.2/32\", \"10.91.1.0/24\"");
    assert!(east.contains("10.91.1.0/24"), "{east}");
    assert_eq!(join(directory.path(), "west", &format!("{east}endpoint = \"10.91.2.2\"\n")).status.code(), Some(0));
    let mut member = Node(up(host, directory.path(), "west"));
    wait_for_start(directory.path(), "west");
    let others = || status(directory.path(), "west")["tunnel"]["other_routes"].clone();
    let leaves_by = |ip: &str| host.iproute(&format!("ip route get {ip}")).unwrap_or_default();
    assert!(leaves_by("10.91.1.1").contains("dev lh0") && others().as_array().unwrap().is_empty());

    // The host gets an address in the LAN, as by DHCP.
    host.iproute("ip address add 10.91.1.77/24 dev eth0").unwrap();
    host.iproute("ip route add default via 10.91.1.1").unwrap();
    assert!(is_reached(host, "10.91.1.1"), "the gateway is reachable");
    assert!(leaves_by("10.91.2.2").contains("via 10.91.1.1 dev eth0"), "{}", leaves_by("10.91.2.2"));
    let expected = serde_json::json!([{ "subnet": "10.91.1.0/24", "device": "eth0" }]);
    wait_until("the status reports it", || others() == expected);
    assert_eq!(events(directory.path(), "routes-overridden").last().unwrap()["routes"], expected);
    let output = text(&overlay(directory.path(), &["status", "--config", "west.toml"]).stdout);
    assert!(output.contains("another route of this host sends traffic for 10.91.1.0/24 over eth0"), "{output}");

    // A node that starts in that LAN reports the same route.
    assert_eq!(overlay(directory.path(), &["down", "--config", "west.toml"]).status.code(), Some(0));
    member.0.wait().unwrap();
    member.0 = up(host, directory.path(), "west");
    wait_for_start(directory.path(), "west");
    assert_eq!(others(), expected);
    assert!(is_reached(host, "10.91.1.1"));

    // When the host leaves the LAN, the tunnel carries the subnet again.
    host.iproute("ip address del 10.91.1.77/24 dev eth0").unwrap();
    wait_until("the status reports it", || others().as_array().unwrap().is_empty());
    assert!(leaves_by("10.91.1.1").contains("dev lh0"));
}
