//! Members without one of their offloads, with a device on which somebody else left them on, and with what offloads
//! make of a stranger's datagrams.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use kernel::{Datagrams, Ethtool, Tun, TunKind};
use serde_json::Value;
use testbed::{Lan, Namespace, or_skip};
use units::Bytes;

use crate::setup::{EAST, Members, status};

/// The MTU of the tunnel device: no packet is longer, unless it is a super-packet.
const MTU: u64 = 1356;
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends some megabytes through the tunnel from west to east, where they must arrive as they are.
fn transfer(lan: &Lan) {
    let sent: Vec<u8> = (0..4_000_000_u32).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect();
    let listener = lan.server.run(|| TcpListener::bind((EAST, 0))).unwrap().unwrap();
    let to: SocketAddr = listener.local_addr().unwrap();
    let mut stream = lan.client.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap().unwrap();
    let (mut arriving, _) = listener.accept().unwrap();
    arriving.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            stream.write_all(&sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        arriving.read_to_end(&mut got).unwrap();
        assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    });
}

fn count(status: &Value, counter: &str) -> u64 {
    status["counters"][counter].as_u64().unwrap_or_else(|| panic!("{counter}: {status}"))
}

/// Bytes of the packets that a member took from its device, or gave to it, on average.
fn mean(status: &Value, direction: &str) -> u64 {
    count(status, &format!("bytes_{direction}")) / count(status, &format!("packets_{direction}"))
}

/// Packets that a host sent into its cable; many datagrams that are to be cut there are one.
fn into_cable(host: &Namespace) -> u64 {
    let shown: Value = serde_json::from_str(&host.iproute("ip -s -j link show eth0").unwrap()).unwrap();
    shown[0]["stats64"]["tx"]["packets"].as_u64().unwrap()
}

#[test]
fn each_offload_can_be_turned_off_and_all_arrives_without_it() {
    let all = ["udp_gso", "udp_gro", "tun_gso", "tun_gro"];
    for off in std::iter::once("none").chain(all) {
        let Some(lan) = or_skip(Lan::two_hosts()) else { return };
        let further = if off == "none" { String::new() } else { format!("offload.{off} = false") };
        let members = Members::start_with(&lan, [&further, &further]);
        let before = into_cable(&lan.client);
        transfer(&lan);
        let in_cable = into_cable(&lan.client) - before;
        let [west, east] = ["west", "east"].map(|name| status(members.directory.path(), name));
        for told in [&west, &east] {
            for switch in all {
                assert_eq!(told["offload"][switch], switch != off, "{off}: {}", told["offload"]);
            }
            for counter in ["malformed", "auth_failed", "replayed", "spoofed", "tun_errors"] {
                assert_eq!(count(told, counter), 0, "{off}: {counter}");
            }
        }
        // 4 MB are 3068 packets of 1304 bytes of payload.
        let (taken, given) = (mean(&west, "in"), mean(&east, "out"));
        println!("{off}: {taken} bytes taken at once, {given} given, {in_cable} packets in the cable");
        assert_eq!(taken <= MTU, off == "tun_gso", "{off}: {taken} bytes are taken at once");
        assert_eq!(in_cable > 3068, off == "udp_gso", "{off}: {in_cable} packets");
        match off {
            "tun_gro" => assert!(given <= MTU, "{given} bytes are given at once"),
            "none" => assert!(given > MTU, "{given} bytes are given at once"),
            // What comes datagram by datagram is not put together, nor are packets whose checksums west's kernel has
            // computed.
            _ => {}
        }
    }
}

#[test]
fn a_device_with_offloads_left_enabled_gives_whole_packets_without_offloads() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    lan.client.iproute("ip tuntap add lh0 mode tun").unwrap();
    let left = lan.client.run(|| Tun::new("lh0", TunKind::Tun, true)).unwrap().unwrap();
    assert!(left.offloads().tcp);
    drop(left);
    let features = lan.client.run(|| Ethtool::open().unwrap().features("lh0")).unwrap().unwrap();
    assert!(features["tx-tcp-segmentation"].active, "they outlive their process");
    let members = Members::start(&lan, "queues = 1\noffload.tun_gso = false");
    transfer(&lan);
    let west = status(members.directory.path(), "west");
    assert_eq!(west["offload"]["tun_gso"], false);
    assert!(mean(&west, "in") <= MTU, "{}", west["counters"]);
    assert_eq!((count(&west, "malformed"), count(&west, "too_large")), (0, 0));
}

#[test]
fn datagrams_that_may_be_fragmented_arrive_though_their_way_carries_less() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    // The cable takes as much as the device, and so the tunnel 68 bytes less.
    let members = Members::start_with(&lan, ["mtu = 1500", "mtu = 1500"]);
    let there = lan.server.run(|| std::net::UdpSocket::bind((EAST, 7))).unwrap().unwrap();
    there.set_read_timeout(Some(PATIENCE)).unwrap();
    let here = lan.client.run(|| {
        std::fs::write("/proc/sys/net/ipv4/ip_no_pmtu_disc", "1").unwrap();
        std::net::UdpSocket::bind("0.0.0.0:0")
    });
    let here = here.unwrap().unwrap();
    // One that fits, one that the tunnel cuts, and one that the host has cut before.
    for length in [1300, 1472, 4000] {
        let sent = Vec::from_iter((0..length).map(|i| (i * 7 % 251) as u8));
        here.send_to(&sent, (EAST, 7)).unwrap();
        let mut came = vec![0; 5000];
        let got = there.recv(&mut came).unwrap();
        assert_eq!(came[..got], sent);
    }
    let west = status(members.directory.path(), "west");
    assert_eq!((count(&west, "too_large"), count(&west, "malformed")), (0, 0));
}

#[test]
fn a_member_goes_on_after_the_largest_datagram_and_a_burst_of_nonsense() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let members = Members::start(&lan, "");
    let to = SocketAddr::new(lan.server_ip(), 5460);
    let stranger = lan.client.run(|| std::net::UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    // As long as UDP over IPv4 can be, in fragments.
    assert_eq!(stranger.send_to(&[0; 65_507], to).unwrap(), 65_507);
    // 64 at once, which arrive as one where the cable leaves them whole, of a length that no frame has; and the last of
    // a byte.
    let bind = || Datagrams::bind("0.0.0.0:0".parse().unwrap(), Bytes::new(1 << 20), true, false);
    let burst = lan.client.run(bind).unwrap().unwrap();
    burst.send(to, &[0xff; 63 * 1000 + 1], 1000, 0).unwrap();
    assert!(burst.segments(), "they went at once");
    let malformed = || count(&status(members.directory.path(), "east"), "malformed");
    let began = Instant::now();
    while malformed() < 1 + 64 {
        assert!(began.elapsed() < PATIENCE, "{} are counted", malformed());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(malformed(), 1 + 64);
    transfer(&lan);
}
