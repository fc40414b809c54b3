use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkInfo};

use super::*;
use crate::{enter_namespace, new_namespace};

/// Creates a veth pair whose second end is in another namespace.
pub(super) fn add_veth(netlink: &mut Netlink, name: &str, peer: &str, peers: &File) {
    let mut other = LinkMessage::default();
    other.attributes = vec![LinkAttribute::IfName(peer.to_owned()), LinkAttribute::NetNsFd(peers.as_raw_fd())];
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
        ]),
    ];
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    let made = netlink.0.carry_out(vec![Request { message: RouteNetlinkMessage::NewLink(message), flags }]);
    made.map_err(|e| e.source).unwrap();
}

/// Runs a job in a thread inside a namespace.
pub(super) fn inside<T: Send>(namespace: &File, job: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            enter_namespace(namespace).unwrap();
            job()
        });
        inside.join().unwrap()
    })
}

/// Output of iproute2, as independent ground truth.
fn ip(line: &str) -> String {
    let out = Command::new("ip").args(line.split(' ')).output().unwrap();
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// A new namespace; `None`, with a note, where it cannot be created.
pub(super) fn namespace() -> Option<File> {
    new_namespace().inspect_err(|e| eprintln!("skipped: no network namespace: {e}")).ok()
}

/// Waits until the kernel has attached the queue of a device, which happens some time after the other end is up.
pub(super) fn await_operational(namespace: &File, name: &str) {
    let limit = Instant::now() + Duration::from_secs(20);
    let mut netlink = inside(namespace, || Netlink::open().unwrap());
    while !netlink.links().unwrap().iter().any(|d| d.name == name && d.operational) {
        assert!(Instant::now() < limit, "{name} does not become operational");
        thread::sleep(Duration::from_millis(1));
    }
}

pub(super) const UP: LinkSettings =
    LinkSettings { up: Some(true), mtu: None, tx_queue_len: None, mac: None, ipv6_address_generation_off: true };

#[test]
fn two_hosts_made_with_netlink_reach_each_other() {
    let (Some(a), Some(b)) = (namespace(), namespace()) else { return };
    let ends: [(&File, [&str; 2], [u8; 6]); 2] =
        [(&a, ["10.9.0.1", "fd09::1"], [2, 0, 0, 0, 0, 1]), (&b, ["10.9.0.2", "fd09::2"], [2, 0, 0, 0, 0, 2])];
    inside(&a, || add_veth(&mut Netlink::open().unwrap(), "link", "link", &b));
    for ((namespace, own, mac), (_, other, others_mac)) in [(ends[0], ends[1]), (ends[1], ends[0])] {
        inside(namespace, || {
            let mut netlink = Netlink::open().unwrap();
            let link = netlink.index("link").unwrap();
            let settings = LinkSettings { mtu: Some(9000), tx_queue_len: Some(77), mac: Some(mac), ..UP };
            netlink.set_link(link, &settings).unwrap();
            netlink.add_address(link, own[0].parse().unwrap(), 24, None).unwrap();
            netlink.add_address(link, own[1].parse().unwrap(), 64, None).unwrap();
            for ip in other {
                netlink.add_neighbour(link, ip.parse().unwrap(), others_mac).unwrap();
            }
        });
    }
    await_operational(&a, "link");
    let mtu = inside(&a, || ip("link show link"));
    assert!(mtu.contains("mtu 9000") && mtu.contains("qlen 77") && mtu.contains("02:00:00:00:00:01"), "{mtu}");
    let sockets = inside(&b, || ["10.9.0.2:7000", "[fd09::2]:7000"].map(|s| std::net::UdpSocket::bind(s).unwrap()));
    inside(&a, || {
        for (from, to) in [("10.9.0.1:0", "10.9.0.2:7000"), ("[fd09::1]:0", "[fd09::2]:7000")] {
            std::net::UdpSocket::bind(from).unwrap().send_to(&[7; 1000], to).unwrap();
        }
    });
    for socket in sockets {
        assert_eq!(socket.recv(&mut [0; 2000]).unwrap(), 1000);
    }
    assert!(inside(&a, || !ip("address show dev link").contains("fe80")), "no automatic link-local address");
}

#[test]
fn counters_count_the_packets_that_passed() {
    let (Some(a), Some(b)) = (namespace(), namespace()) else { return };
    inside(&a, || add_veth(&mut Netlink::open().unwrap(), "link", "link", &b));
    let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
    for (namespace, own, other) in [(&a, 0, 1), (&b, 1, 0)] {
        inside(namespace, || {
            // IPv6 would send multicast reports at unpredictable times.
            let _ = std::fs::write("/proc/sys/net/ipv6/conf/link/disable_ipv6", "1");
            let mut netlink = Netlink::open().unwrap();
            let link = netlink.index("link").unwrap();
            netlink.set_link(link, &LinkSettings { mac: Some(macs[own]), ..UP }).unwrap();
            let ip = |end: usize| format!("10.9.0.{}", end + 1).parse().unwrap();
            netlink.add_address(link, ip(own), 24, None).unwrap();
            netlink.add_neighbour(link, ip(other), macs[other]).unwrap();
        });
    }
    await_operational(&a, "link");
    let socket = inside(&b, || std::net::UdpSocket::bind("10.9.0.2:7000").unwrap());
    inside(&a, || {
        let from = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
        for size in [100, 1000] {
            from.send_to(&vec![7; size], "10.9.0.2:7000").unwrap();
        }
    });
    for size in [100, 1000] {
        assert_eq!(socket.recv(&mut [0; 2000]).unwrap(), size);
    }
    let read = |n: &File| inside(n, || Netlink::open().unwrap().links().unwrap().pop().unwrap().statistics);
    // Ethernet 14, IPv4 20, UDP 8, and the data.
    let passed = Counters { packets: 2, bytes: units::Bytes::new(2 * 42 + 1100), dropped: 0, errors: 0 };
    assert_eq!(read(&a), Statistics { sent: passed, received: Counters::default() });
    assert_eq!(read(&b), Statistics { sent: Counters::default(), received: passed });
}

#[test]
fn routes_match_what_iproute2_reads_back() {
    let Some(a) = namespace() else { return };
    inside(&a, || {
        let mut netlink = Netlink::open().unwrap();
        add_veth(&mut netlink, "link", "other", &a);
        let link = netlink.index("link").unwrap();
        netlink.set_link(link, &UP).unwrap();
        let peer = netlink.index("other").unwrap();
        netlink.set_link(peer, &UP).unwrap();
        netlink.add_address(link, "10.9.1.1".parse().unwrap(), 32, Some("10.9.1.2".parse().unwrap())).unwrap();
        netlink.add_address(link, "fd09::1".parse().unwrap(), 64, None).unwrap();
        let route = |to: &str, via: Option<&str>| Route {
            to: to.parse().unwrap(),
            via: via.map(|v| v.parse().unwrap()),
            device: link,
            onlink: false,
            source: None,
            metric: None,
            unreachable: false,
        };
        let onlink = Route { onlink: true, ..route("10.7.0.0/16", Some("172.16.0.1")) };
        let source = Route { source: Some("10.9.1.1".parse().unwrap()), ..route("10.8.0.5/16", Some("10.9.1.2")) };
        let plain = [route("0.0.0.0/0", Some("10.9.1.2")), route("10.6.0.0/24", None)];
        let six = [route("::/0", Some("fd09::2")), route("fd08::/48", Some("fd09::2"))];
        netlink.add_routes(&[plain[0], plain[1], onlink, source, six[0], six[1]]).unwrap();
        let read = ip("route show");
        for line in [
            "default via 10.9.1.2 dev link",
            "10.9.1.2 dev link proto kernel scope link src 10.9.1.1",
            "10.6.0.0/24 dev link proto static scope link",
            "10.7.0.0/16 via 172.16.0.1 dev link proto static onlink",
            "10.8.0.0/16 via 10.9.1.2 dev link proto static src 10.9.1.1",
        ] {
            assert!(read.contains(line), "{line} in {read}");
        }
        let read = ip("-6 route show");
        assert!(read.contains("default via fd09::2 dev link") && read.contains("fd08::/48 via fd09::2"), "{read}");
        let towards = |netlink: &mut Netlink, ip: &str| netlink.route_towards(ip.parse().unwrap());
        for (ip, to) in [
            ("10.6.0.9", "10.6.0.0/24"),
            ("10.8.7.7", "10.8.0.0/16"),
            ("9.9.9.9", "0.0.0.0/0"),
            ("fd08::7", "fd08::/48"),
        ] {
            let expected = MatchedRoute { to: to.parse().unwrap(), device: Some(link) };
            assert_eq!(towards(&mut netlink, ip), Some(expected), "{ip}");
        }
        assert_eq!(
            netlink
                .addresses(link)
                .unwrap()
                .iter()
                .map(ToString::to_string)
                .filter(|a| !a.starts_with("fe80"))
                .collect::<Vec<_>>(),
            ["10.9.1.1", "fd09::1"]
        );
        // An unreachable route applies unless another route is better.
        for (to, via) in [("10.5.0.0/16", None), ("10.6.0.0/24", None), ("fd05::/48", None)] {
            let route = Route { metric: Some(4_000_000_000), unreachable: true, ..route(to, via) };
            assert!(netlink.ensure_routes(&[route, route]).into_iter().map(Result::unwrap).eq([true, false]), "{to}");
        }
        assert!(ip("route show").contains("unreachable 10.5.0.0/16 proto static metric 4000000000"));
        assert_eq!((towards(&mut netlink, "10.5.0.1"), towards(&mut netlink, "fd05::1")), (None, None));
        assert_eq!(towards(&mut netlink, "10.6.0.9").unwrap().device, Some(link));
        let unreachable = netlink.unreachable_routes(4_000_000_000).unwrap();
        assert_eq!(unreachable, ["10.5.0.0/16", "10.6.0.0/24", "fd05::/48"].map(|net| net.parse().unwrap()));
        assert!(netlink.unreachable_routes(4_000_000_001).unwrap().is_empty());
    });
}

#[test]
fn ten_thousand_routes_are_added_in_batches() {
    let Some(a) = namespace() else { return };
    inside(&a, || {
        let mut netlink = Netlink::open().unwrap();
        netlink.set_link(1, &UP).unwrap();
        let routes: Vec<Route> = (0..10_000_u32)
            .map(|i| Route {
                to: format!("10.{}.{}.0/24", i / 250, i % 250).parse().unwrap(),
                via: None,
                device: 1,
                onlink: false,
                source: None,
                metric: None,
                unreachable: false,
            })
            .collect();
        let start = Instant::now();
        netlink.add_routes(&routes).unwrap();
        println!("10 000 routes in {:?}", start.elapsed());
        assert_eq!(ip("route show").lines().count(), 10_000);
        // The error names the route in the middle of a batch.
        let again = [Route { to: "11.0.0.0/8".parse().unwrap(), ..routes[0] }, routes[5]];
        let e = netlink.add_routes(&again).unwrap_err().to_string();
        assert_eq!(e, "adding the route 10.0.5.0/24 on device lo: File exists (os error 17)");
        assert!(ip("route show").contains("11.0.0.0/8"), "the remaining routes are added nevertheless");
    });
}

#[test]
fn refusals_name_the_operation_the_device_and_the_kernels_text() {
    let Some(a) = namespace() else { return };
    inside(&a, || {
        let mut netlink = Netlink::open().unwrap();
        let e = netlink.index("nothing").unwrap_err();
        assert_eq!((e.op, e.address.as_str()), (Op::FindDevice, "nothing"));
        assert_eq!(e.source.raw_os_error(), Some(libc::ENODEV));
        let e = netlink.set_link(1, &LinkSettings { mtu: Some(u32::MAX), ..LinkSettings::default() }).unwrap_err();
        assert!(e.to_string().starts_with("setting device lo: "), "{e}");
        netlink.set_link(1, &UP).unwrap();
        let route = |via: &str| Route {
            to: "10.1.0.0/16".parse().unwrap(),
            via: Some(via.parse().unwrap()),
            device: 1,
            onlink: false,
            source: None,
            metric: None,
            unreachable: false,
        };
        let e = netlink.add_route(&route("10.3.0.1")).unwrap_err().to_string();
        assert!(
            e.starts_with("adding the route 10.1.0.0/16 via 10.3.0.1 on device lo: ") && e.contains("exthop"),
            "{e}"
        );
        let e = netlink.add_route(&route("fd00::1")).unwrap_err().to_string();
        assert!(e.contains("another address family"), "{e}");
        assert!(netlink.add_address(99, "10.0.0.1".parse().unwrap(), 24, None).unwrap_err().to_string().contains("99"));
        // After refusals the socket still answers queries.
        assert_eq!(netlink.links().unwrap().iter().filter(|d| d.name == "lo" && d.up).count(), 1);
    });
}

#[test]
fn devices_agree_with_proc() {
    // The host's own network, only read.
    let text = std::fs::read_to_string("/proc/self/net/dev").unwrap();
    let names: Vec<&str> = text.lines().filter_map(|l| Some(l.split_once(':')?.0.trim())).collect();
    let mut netlink = Netlink::open().unwrap();
    let devices = netlink.links().unwrap();
    for device in &devices {
        assert!(names.contains(&device.name.as_str()), "{device:?} in {names:?}");
        assert_eq!(netlink.index(&device.name).unwrap(), device.index);
    }
    assert_eq!(devices.len(), names.len());
}

#[test]
fn a_watch_reports_changes_by_iproute2_and_nothing_else() {
    let Some(a) = namespace() else { return };
    inside(&a, || {
        let mut netlink = Netlink::open().unwrap();
        let mut watch = NetworkWatch::open().unwrap();
        assert!(!watch.wait(Duration::ZERO).unwrap());
        let add = [
            "link set lo up",
            "address add 10.9.0.1/32 dev lo",
            "-6 address add fd09::1/128 dev lo",
            "route add 10.7.0.0/16 dev lo",
            "-6 route add fd07::/64 dev lo",
            "rule add pref 77 lookup main",
        ];
        for line in add.into_iter().chain([
            "route del 10.7.0.0/16 dev lo",
            "address del 10.9.0.1/32 dev lo",
            "link set lo down",
        ]) {
            ip(line);
            // The kernel reports before iproute2 has ended, or in the case of IPv6 a moment later.
            assert!(watch.wait(Duration::from_secs(10)).unwrap(), "{line}");
            while watch.wait(Duration::from_millis(20)).unwrap() {}
        }
        netlink.links().unwrap();
        assert!(!watch.wait(Duration::from_millis(20)).unwrap(), "reading changes nothing");
        // More messages than the socket's buffer holds.
        netlink.set_link(1, &UP).unwrap();
        for _ in 0..3 {
            let route = |i: u32| Route {
                to: format!("10.{}.{}.0/24", i / 250, i % 250).parse().unwrap(),
                via: None,
                device: 1,
                onlink: false,
                source: None,
                metric: None,
                unreachable: false,
            };
            let routes = Vec::from_iter((0..2000).map(route));
            netlink.add_routes(&routes).unwrap();
            netlink.remove_routes(&routes).unwrap();
        }
        assert!(watch.wait(Duration::ZERO).unwrap());
    });
}
