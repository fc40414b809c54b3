//! Nodes without one of the offloads, with a device whose offloads another process left enabled, and with coalesced
//! datagrams of an unknown sender.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use kernel::{Datagrams, Ethtool, Tun, TunKind};
use serde_json::Value;
use testbed::{Lan, Namespace, or_skip};
use units::Bytes;

use crate::setup::{EAST, Members, status};

/// MTU of the tunnel device in bytes; only a super-packet is larger.
const MTU_BYTES: u64 = 1356;
const TIMEOUT: Duration = Duration::from_secs(20);

/// Sends 4 MB through the tunnel from west to east and checks that they arrive unchanged.
fn transfer(lan: &Lan) {
    let sent: Vec<u8> = (0..4_000_000_u32).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect();
    let listener = lan.server.run(|| TcpListener::bind((EAST, 0))).unwrap().unwrap();
    let to: SocketAddr = listener.local_addr().unwrap();
    let mut stream = lan.client.run(|| TcpStream::connect_timeout(&to, TIMEOUT)).unwrap().unwrap();
    let (mut arriving, _) = listener.accept().unwrap();
    arriving.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
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

/// Returns the mean size in bytes of the packets that a node read from its device (`in`) or wrote to it (`out`).
fn mean_bytes(status: &Value, direction: &str) -> u64 {
    count(status, &format!("bytes_{direction}")) / count(status, &format!("packets_{direction}"))
}

/// Returns the number of packets that a host sent on its cable; a super-packet of many datagrams counts as one.
fn packets_on_cable(host: &Namespace) -> u64 {
    let shown: Value = serde_json::from_str(&host.iproute("ip -s -j link show eth0").unwrap()).unwrap();
    shown[0]["stats64"]["tx"]["packets"].as_u64().unwrap()
}

#[test]
fn all_data_arrives_with_any_one_offload_disabled() {
    let all = ["udp_gso", "udp_gro", "tun_gso", "tun_gro"];
    for off in std::iter::once("none").chain(all) {
        let Some(lan) = or_skip(Lan::two_hosts()) else { return };
        let settings = if off == "none" { String::new() } else { format!("offload.{off} = false") };
        let members = Members::start_with(&lan, [&settings, &settings]);
        let before = packets_on_cable(&lan.client);
        transfer(&lan);
        let in_cable = packets_on_cable(&lan.client) - before;
        let [west, east] = ["west", "east"].map(|name| status(members.directory.path(), name));
        for report in [&west, &east] {
            for switch in all {
                assert_eq!(report["offload"][switch], switch != off, "{off}: {}", report["offload"]);
            }
            for counter in ["malformed", "auth_failed", "replayed", "spoofed", "tun_errors"] {
                assert_eq!(count(report, counter), 0, "{off}: {counter}");
            }
        }
        // 4 MB are 3068 packets with 1304 bytes of payload each.
        let (read_bytes, written_bytes) = (mean_bytes(&west, "in"), mean_bytes(&east, "out"));
        println!(
            "{off}: {read_bytes} bytes per read, {written_bytes} bytes per write, {in_cable} packets on the cable"
        );
        assert_eq!(read_bytes <= MTU_BYTES, off == "tun_gso", "{off}: {read_bytes} bytes per read");
        assert_eq!(in_cable > 3068, off == "udp_gso", "{off}: {in_cable} packets");
        match off {
            "tun_gro" => assert!(written_bytes <= MTU_BYTES, "{written_bytes} bytes per write"),
            "none" => assert!(written_bytes > MTU_BYTES, "{written_bytes} bytes per write"),
            // GRO on the device merges neither datagrams that arrive singly nor packets whose checksums the kernel of
            // west has computed.
            _ => {}
        }
    }
}

#[test]
fn tun_gso_off_disables_offloads_that_were_left_enabled() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    lan.client.iproute("ip tuntap add lh0 mode tun").unwrap();
    let tun = lan.client.run(|| Tun::new("lh0", TunKind::Tun, true)).unwrap().unwrap();
    assert!(tun.offloads().tcp);
    drop(tun);
    let features = lan.client.run(|| Ethtool::open().unwrap().features("lh0")).unwrap().unwrap();
    assert!(features["tx-tcp-segmentation"].active, "offload flags outlive their process");
    let members = Members::start(&lan, "queues = 1\noffload.tun_gso = false");
    transfer(&lan);
    let west = status(members.directory.path(), "west");
    assert_eq!(west["offload"]["tun_gso"], false);
    assert!(mean_bytes(&west, "in") <= MTU_BYTES, "{}", west["counters"]);
    assert_eq!((count(&west, "malformed"), count(&west, "too_large")), (0, 0));
}

#[test]
fn fragmentable_datagrams_larger_than_the_tunnel_mtu_arrive() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    // Cable and device have the same MTU, so the tunnel carries 68 bytes less.
    let members = Members::start_with(&lan, ["mtu = 1500", "mtu = 1500"]);
    let server = lan.server.run(|| std::net::UdpSocket::bind((EAST, 7))).unwrap().unwrap();
    server.set_read_timeout(Some(TIMEOUT)).unwrap();
    let client = lan.client.run(|| {
        std::fs::write("/proc/sys/net/ipv4/ip_no_pmtu_disc", "1").unwrap();
        std::net::UdpSocket::bind("0.0.0.0:0")
    });
    let client = client.unwrap().unwrap();
    // The first datagram fits, the tunnel fragments the second, and the host fragments the third.
    for length in [1300, 1472, 4000] {
        let sent = Vec::from_iter((0..length).map(|i| (i * 7 % 251) as u8));
        client.send_to(&sent, (EAST, 7)).unwrap();
        let mut buffer = vec![0; 5000];
        let length = server.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..length], sent);
    }
    let west = status(members.directory.path(), "west");
    assert_eq!((count(&west, "too_large"), count(&west, "malformed")), (0, 0));
}

#[test]
fn a_node_continues_after_the_largest_datagram_and_a_malformed_burst() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let members = Members::start(&lan, "");
    let to = SocketAddr::new(lan.server_ip(), 5460);
    let stranger = lan.client.run(|| std::net::UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    // The largest datagram of UDP over IPv4, sent as fragments.
    assert_eq!(stranger.send_to(&[0; 65_507], to).unwrap(), 65_507);
    // 64 datagrams in one GSO buffer, which may arrive coalesced: 63 of a length that no frame has, and one of 1 byte.
    let bind = || Datagrams::bind("0.0.0.0:0".parse().unwrap(), Bytes::new(1 << 20), true, false);
    let burst = lan.client.run(bind).unwrap().unwrap();
    burst.send(to, &[0xff; 63 * 1000 + 1], 1000, 0).unwrap();
    assert!(burst.segments(), "the burst was sent as one GSO buffer");
    let malformed = || count(&status(members.directory.path(), "east"), "malformed");
    let start = Instant::now();
    while malformed() < 1 + 64 {
        assert!(start.elapsed() < TIMEOUT, "{} malformed datagrams are counted", malformed());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(malformed(), 1 + 64);
    transfer(&lan);
}
