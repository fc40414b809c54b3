//! IPv4 and IPv6, outside and inside, and a subnet behind a node.

use results::Direction;
use testbed::{Lan, Namespace, or_skip};

use crate::setup::{Members, TRANSFER_BYTES, init_with, join, status, transferred};

/// Creates a host whose only link is to the second host of `lan`.
pub(crate) fn host_behind(lan: &Lan) -> Namespace {
    let host = Namespace::new().unwrap();
    lan.server.iproute(&format!("ip link add net0 type veth peer name eth0 netns {}", host.path())).unwrap();
    for (node, device, addresses) in
        [(&lan.server, "net0", ["192.168.7.1/24", "fd07::1/64"]), (&host, "eth0", ["192.168.7.2/24", "fd07::2/64"])]
    {
        node.iproute(&format!("ip address add {} dev {device}", addresses[0])).unwrap();
        node.iproute(&format!("ip address add {} dev {device} nodad", addresses[1])).unwrap();
        node.iproute(&format!("ip link set {device} up")).unwrap();
    }
    host.iproute("ip route add default via 192.168.7.1").unwrap();
    host.iproute("ip -6 route add default via fd07::1").unwrap();
    lan.server.set("net/ipv4/ip_forward", "1").unwrap();
    lan.server.set("net/ipv6/conf/all/forwarding", "1").unwrap();
    host
}

#[test]
fn subnets_behind_nodes_are_reachable_over_ipv6_in_both_families() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    lan.client.iproute("ip address add fd99::1/64 dev eth0 nodad").unwrap();
    lan.server.iproute("ip address add fd99::2/64 dev eth0 nodad").unwrap();
    let host = host_behind(&lan);
    let directory = tempfile::tempdir().unwrap();
    let west = init_with(directory.path(), "west", &["--address", "10.77.0.1", "--address", "fd77::1"]);
    let east =
        ["--address", "10.77.0.2", "--address", "fd77::2", "--subnet", "192.168.7.0/24", "--subnet", "fd07::/64"];
    let east = init_with(directory.path(), "east", &east);
    for (name, other) in [("west", format!("{east}endpoint = \"fd99::2\"\n")), ("east", west)] {
        assert_eq!(join(directory.path(), name, &other).status.code(), Some(0));
    }
    let members = Members::up(&lan, directory);
    // A node without a configured endpoint has learned it.
    let reports = [status(members.directory.path(), "west"), status(members.directory.path(), "east")];
    let endpoints = reports.map(|t| t["members"][0]["link"]["endpoint"].as_str().map(str::to_owned));
    assert_eq!(endpoints, [Some("[fd99::2]:5460".to_owned()), Some("[fd99::1]:5460".to_owned())]);

    for (at, to) in [(&lan.server, "10.77.0.2"), (&lan.server, "fd77::2"), (&host, "192.168.7.2"), (&host, "fd07::2")] {
        // The peer both receives and sends for the subnet behind it.
        for direction in [Direction::Up, Direction::Down] {
            assert_eq!(transferred(&lan.client, direction, (at, to)), TRANSFER_BYTES, "{to} {direction:?}");
        }
    }
    // The tunnel must have carried all transfers: 24 MB of payload, half in each direction.
    let east = status(members.directory.path(), "east");
    let bytes = ["tx_bytes", "rx_bytes"].map(|key| east["members"][0]["link"][key].as_u64().unwrap());
    assert!(bytes.iter().all(|b| *b > 12_000_000), "{bytes:?}");
}
