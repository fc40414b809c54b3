//! Integrity of TCP transfers in the kernel's super-packets under all impairments of a link.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::common::lab::{Ended, turn_of_root};
use crate::tcp;

const TRANSFER_BYTES: usize = 12_000_000;

/// Network with a slow, lossy, duplicating link to a router, and a LAN behind it. Because of the flow, the lab assigns
/// IPv6 addresses. Two transfers take 4 s at the link's rate and 6 s with losses; the lab runs longer.
const NETWORK: &str = r#"
duration = "16s"
record.interval = "100ms"
nodes = ["sender", "router", "receiver", "bystander"]
[links.path]
between = ["sender", "router"]
rate = "50Mb/s"
delay = "2ms"
queue = "100 packets"
[lans.hall]
members = ["router", "receiver", "bystander"]
rate = "200Mb/s"
[[schedule]]
link = "path"
at = "50ms"
loss = 0.002
duplicate = 0.002
reorder = { probability = 0.002, by = "1ms" }
[flows.six]
from = "sender"
to = "bystander"
ipv6 = true
protocol = "udp"
rate = "10kb/s"
"#;

#[test]
fn a_transfer_over_loss_a_router_and_a_lan_arrives_intact_over_ipv4_and_ipv6() {
    let Some(turn) = turn_of_root() else { return };
    let lab = turn.run(NETWORK, &[]);
    lab.await_start();
    let (sender, receiver) = (lab.node("sender"), lab.node("receiver"));
    let address = |family: &str| {
        let shown = receiver.iproute(&format!("ip -json {family} address show dev lo")).unwrap();
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        let mut all = shown[0]["addr_info"].as_array().unwrap().iter().map(|a| a["local"].as_str().unwrap());
        all.find(|a| !["127.0.0.1", "::1"].contains(a)).unwrap().to_owned()
    };
    let v4: Ipv4Addr = address("-4").parse().unwrap();
    let v6: Ipv6Addr = address("-6").parse().unwrap();
    for address in [IpAddr::from(v4), IpAddr::from(v6)] {
        let (sent, arrived) = tcp::transfer(sender, receiver, address, TRANSFER_BYTES);
        assert_eq!(sent, arrived, "{address}");
    }
    let shown = sender.iproute("ip -json -statistics link show dev path").unwrap();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let (packets, bytes) = (&shown[0]["stats64"]["tx"]["packets"], &shown[0]["stats64"]["tx"]["bytes"]);
    // A packet has at most 1500 bytes, so a larger mean proves super-packets.
    let mean = bytes.as_u64().unwrap() / packets.as_u64().unwrap();
    assert!(mean > 2000, "the kernel sent no super-packets: mean size {mean} bytes");
    let ended = lab.end();
    let truth = ended.link("path", "sender");
    assert!(truth.dropped.loss > 5 && truth.duplicated > 5 && truth.reordered > 5, "{truth:?}");
    assert_eq!(lost_by_the_emulator(&ended), 0);
}

#[test]
fn a_transfer_over_a_bare_path_without_a_rate_arrives_intact() {
    let Some(turn) = turn_of_root() else { return };
    let lab = turn.path(&["--rtt", "2ms", "--mtu", "9000", "--loss", "0.0005", "--jitter", "200us"]);
    let (sent, arrived) =
        tcp::transfer(lab.node("near"), lab.node("far"), IpAddr::from(crate::common::udp::FAR), 4 * TRANSFER_BYTES);
    assert_eq!(sent, arrived);
    assert_eq!(lost_by_the_emulator(&lab.end()), 0);
}

fn lost_by_the_emulator(ended: &Ended) -> u64 {
    ended.end.links.iter().map(|l| l.dropped.emulator).sum()
}
