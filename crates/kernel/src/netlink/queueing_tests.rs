use std::process::Command;
use std::time::{Duration, Instant};

use tc::{
    Class, Classifier, Discipline, Filter, Handle, HtbClass, HtbRoot, Key, Object, Operation, Qdisc, TokenBucket, Tree,
};
use units::{Bytes, Rate};

use super::tests::{add_veth, inside, namespace};
use super::*;

/// Output of iproute2, as independent ground truth.
fn tc(line: &str) -> String {
    let out = Command::new("tc").args(line.split(' ')).output().unwrap();
    assert!(out.status.success(), "tc {line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn htb(handle: u16, default_class: u16) -> Object {
    let root = HtbRoot { default_class, rate_to_quantum: 10, direct_queue: 77 };
    Object::Qdisc(Qdisc { handle: Handle::new(handle, 0), parent: Handle::ROOT, discipline: Discipline::Htb(root) })
}

fn class(minor: u16, parent: u16, bps: u64) -> Object {
    let htb = HtbClass {
        rate: Rate::from_bps(bps),
        ceiling: Rate::from_bps(2 * bps),
        burst: Duration::from_millis(1),
        ceiling_burst: Duration::from_millis(1),
        priority: 3,
        quantum: 1514,
    };
    Object::Class(Class { handle: Handle::new(1, minor), parent: Handle::new(1, parent), htb })
}

fn leaf(class: u16, discipline: Discipline) -> Object {
    let handle = Handle::new(class.wrapping_add(0x10), 0);
    Object::Qdisc(Qdisc { handle, parent: Handle::new(1, class), discipline })
}

fn filter(preference: u16, keys: Vec<Key>, class: Option<Handle>, redirect: Option<u32>) -> Object {
    Object::Filter(Filter {
        parent: Handle::new(1, 0),
        preference,
        protocol: 0x0800,
        handle: 0,
        classifier: Classifier::U32 { keys, class, redirect },
    })
}

fn port(port: u16) -> Vec<Key> {
    vec![Key { offset: 20, after_ip_header: false, mask: 0xffff, value: port.into() }]
}

fn changes(device: u32, operations: Vec<Operation>) -> Vec<Change> {
    operations.into_iter().map(|operation| Change::Tc { device, operation }).collect()
}

fn found(netlink: &mut Netlink, device: u32) -> Tree {
    Tree::found(netlink.traffic_control(device).unwrap().into_iter().map(|(object, _)| object))
}

/// A namespace with two connected devices, `a` and `b`, and IFB device number 40.
fn with_devices(job: impl FnOnce(&mut Netlink, u32) + Send) {
    let Some(namespace) = namespace() else { return };
    inside(&namespace, || {
        let mut netlink = Netlink::open().unwrap();
        add_veth(&mut netlink, "a", "b", &namespace);
        let device = netlink.index("a").unwrap();
        let ifb = Change::AddIfb { name: "ifb-a".to_owned(), index: 40, tx_queue_len: 123 };
        netlink.change_all(&[ifb, Change::SetUp { index: 40, up: true }]).unwrap();
        job(&mut netlink, device);
    });
}

/// A tree with each kind of object that the kernel of the tests has.
fn each_kind() -> Vec<Object> {
    let bucket =
        TokenBucket { rate: Rate::from_bps(1_000_000), burst: Duration::from_millis(80), limit: Bytes::new(30_000) };
    let inside = Filter {
        parent: Handle::from_raw(0xffff_fff2),
        preference: 7,
        protocol: 3,
        handle: 0,
        classifier: Classifier::U32 { keys: vec![], class: None, redirect: Some(40) },
    };
    let clsact = Qdisc { handle: Handle::INGRESS_QDISC, parent: Handle::INGRESS, discipline: Discipline::Clsact };
    vec![
        htb(1, 0x30),
        class(1, 0, 200_000_000),
        class(0x10, 1, 100_000_000),
        class(0x20, 1, 50_000_000_000),
        class(0x30, 1, 8_000_000),
        leaf(0x10, Discipline::ByteFifo { limit: Bytes::new(100_000) }),
        leaf(0x20, Discipline::PacketFifo { limit: 55 }),
        leaf(0x30, Discipline::Tbf(bucket)),
        filter(5, port(80), Some(Handle::new(1, 0x10)), None),
        filter(5, port(81), Some(Handle::new(1, 0x20)), None),
        filter(6, port(82), None, Some(40)),
        Object::Qdisc(clsact),
        Object::Filter(inside),
    ]
}

#[test]
fn an_applied_tree_matches_iproute2_and_reads_back_unchanged() {
    with_devices(|netlink, device| {
        assert_eq!(found(netlink, device), Tree::default(), "an unmodified device");
        let wanted = Tree::planned(each_kind());
        netlink.change_all(&changes(device, wanted.operations_from(&Tree::default()))).unwrap();
        let read_back = found(netlink, device);
        assert_eq!(wanted.differences(&read_back), []);
        assert_eq!(wanted.operations_from(&read_back), []);
        let shown = tc("qdisc show dev a");
        for line in [
            "r2q 10 default 0x30 direct_packets_stat 0 direct_qlen 77",
            "qdisc bfifo 20: parent 1:10 limit 100000b",
            "qdisc pfifo 30: parent 1:20 limit 55p",
            "qdisc tbf 40: parent 1:30 rate 1Mbit burst 10000b lat 160ms",
            "qdisc clsact ffff: parent ffff:fff1",
        ] {
            assert!(shown.contains(line), "{line} in {shown}");
        }
        let shown = tc("class show dev a");
        for line in [
            "class htb 1:1 root rate 200Mbit ceil 400Mbit burst 25000b cburst 50000b",
            "class htb 1:10 parent 1:1 leaf 20: prio 3 rate 100Mbit ceil 200Mbit burst 12500b cburst 25000b",
            "class htb 1:20 parent 1:1 leaf 30: prio 3 rate 50Gbit ceil 100Gbit burst 6250000b cburst 12500000b",
        ] {
            assert!(shown.contains(line), "{line} in {shown}");
        }
        let shown = tc("filter show dev a");
        for line in ["flowid 1:10", "match 00000050/0000ffff at 20", "(Egress Redirect to device ifb-a) stolen"] {
            assert!(shown.contains(line), "{line} in {shown}");
        }
        assert!(tc("filter show dev a ingress").contains("(Egress Redirect to device ifb-a) stolen"));
        // An empty plan restores the device's initial state.
        netlink.change_all(&changes(device, Tree::default().operations_from(&read_back))).unwrap();
        assert_eq!(found(netlink, device), Tree::default());
    });
}

#[test]
fn a_thousand_classes_with_leaves_and_filters_are_applied_in_one_call() {
    with_devices(|netlink, device| {
        let mut objects = vec![htb(1, 0), class(1, 0, 1_000_000_000)];
        for minor in 2..1002 {
            objects.push(class(minor, 1, 1_000_000));
            objects.push(leaf(minor, Discipline::ByteFifo { limit: Bytes::new(10_000) }));
            objects.push(filter(minor, port(minor), Some(Handle::new(1, minor)), None));
        }
        let wanted = Tree::planned(objects);
        let start = Instant::now();
        let list = changes(device, wanted.operations_from(&Tree::default()));
        let planned = start.elapsed();
        netlink.change_all(&list).unwrap();
        let applied = start.elapsed() - planned;
        let read_back = found(netlink, device);
        let read = start.elapsed() - applied - planned;
        assert_eq!(wanted.differences(&read_back), []);
        let all = start.elapsed();
        println!(
            "{} changes: planned {planned:?}, made {applied:?}, read {read:?}, with comparison {all:?}",
            list.len()
        );
        assert_eq!(list.len(), 3002);
    });
}

/// Pseudo-random numbers with a fixed seed (Knuth, MMIX).
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn chance(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// A random tree: nested classes, leaves of several kinds, filters with shared preferences, either ingress
/// discipline.
fn some_tree(draw: &mut Draw) -> Tree {
    let mut objects = Vec::new();
    let mut parents: Vec<(u16, u16)> = Vec::new();
    for minor in 1..9 {
        let at = draw.below(parents.len() as u64 + 1) as usize;
        let parent = parents.get(at).map_or(0, |(minor, _)| *minor);
        parents.extend((draw.below(4) > 0).then_some((minor, parent)));
    }
    if draw.below(8) > 0 {
        objects.push(htb(1, if draw.below(8) == 0 { 2 } else { 1 }));
        for (minor, parent) in &parents {
            objects.push(class(*minor, *parent, 1_000_000 * (1 + draw.below(2))));
        }
    }
    let leaves = parents.iter().filter(|(minor, _)| !parents.iter().any(|(_, parent)| parent == minor));
    let turn = draw.below(3) as u16;
    for (minor, _) in leaves.filter(|_| !objects.is_empty()).copied().collect::<Vec<_>>() {
        let discipline = match draw.below(4) {
            0 => None,
            1 => Some(Discipline::ByteFifo { limit: Bytes::new(10_000 * (1 + draw.below(2))) }),
            2 => Some(Discipline::PacketFifo { limit: 10 }),
            _ => Some(Discipline::Tbf(TokenBucket {
                rate: Rate::from_bps(8_000_000),
                burst: Duration::from_micros(1600 + 16 * draw.below(2)),
                limit: Bytes::new(30_000),
            })),
        };
        // Handles move from leaf to leaf.
        let handle = Handle::new(0x10 + (minor + turn) % 9, 0);
        let parent = Handle::new(1, minor);
        objects.extend(discipline.map(|discipline| Object::Qdisc(Qdisc { handle, parent, discipline })));
        for preference in 1..3 + draw.below(2) as u16 {
            if draw.chance() {
                objects.push(filter(preference, port(draw.below(3) as u16), Some(parent), None));
            }
        }
    }
    let discipline = [None, Some(Discipline::Ingress), Some(Discipline::Clsact)][draw.below(3) as usize].clone();
    let at_ingress = |discipline| Qdisc { handle: Handle::INGRESS_QDISC, parent: Handle::INGRESS, discipline };
    objects.extend(discipline.map(|d| Object::Qdisc(at_ingress(d))));
    Tree::planned(objects)
}

#[test]
fn any_tree_can_be_changed_into_any_other() {
    with_devices(|netlink, device| {
        let mut draw = Draw(4);
        let mut operations = 0;
        for step in 0..300 {
            let wanted = some_tree(&mut draw);
            let before = found(netlink, device);
            let list = wanted.operations_from(&before);
            operations += list.len();
            let made = netlink.change_all(&changes(device, list.clone()));
            made.unwrap_or_else(|e| panic!("step {step}: {e}\n{before:#?}\n{wanted:#?}\n{list:#?}"));
            let read_back = found(netlink, device);
            assert_eq!(wanted.differences(&read_back), [], "step {step}: {before:#?} {wanted:#?} {list:#?}");
            assert_eq!(wanted.operations_from(&read_back), [], "step {step}");
            // The tree that was read back is a valid plan.
            assert_eq!(read_back.operations_from(&read_back), [], "step {step}");
        }
        println!("{operations} operations for 300 trees");
        let last = found(netlink, device);
        netlink.change_all(&changes(device, Tree::default().operations_from(&last))).unwrap();
        assert_eq!(found(netlink, device), Tree::default());
    });
}

#[test]
fn one_changed_setting_is_one_operation() {
    with_devices(|netlink, device| {
        let wanted = Tree::planned(each_kind());
        netlink.change_all(&changes(device, wanted.operations_from(&Tree::default()))).unwrap();
        let mut other = wanted.clone();
        other.classes[1].htb.ceiling = Rate::from_bps(199_000_000);
        other.filters.retain(|f| f.preference != 6);
        let read_back = found(netlink, device);
        let listed: Vec<String> = other.differences(&read_back).iter().map(ToString::to_string).collect();
        assert_eq!(listed[0], "class 1:10: ceiling wanted 199Mb/s, found 200Mb/s");
        let list = other.operations_from(&read_back);
        let listed: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(listed, ["changing class 1:10", "deleting filter at 1: preference 6"]);
        netlink.change_all(&changes(device, list)).unwrap();
        assert_eq!(other.differences(&found(netlink, device)), []);
    });
}

#[test]
fn a_refusal_in_the_middle_is_named_and_the_remaining_changes_are_made() {
    with_devices(|netlink, device| {
        let orphan = leaf(0x99, Discipline::PacketFifo { limit: 1 });
        let objects = [htb(1, 0), class(1, 0, 1_000_000), orphan, class(2, 0, 1_000_000)];
        let list = changes(device, objects.into_iter().map(Operation::Add).collect());
        let e = netlink.change_all(&list).unwrap_err();
        assert_eq!((e.op, e.source.kind()), (Op::Change, io::ErrorKind::NotFound));
        let expected =
            "change 3 of 4, adding qdisc a9: pfifo at 1:99 on device a: No such file or directory (os error 2)";
        assert!(e.to_string().starts_with(expected), "{e}");
        assert_eq!(found(netlink, device).classes.len(), 2);
        let e = netlink.traffic_control(4711).unwrap_err();
        assert_eq!((e.op, e.source.raw_os_error()), (Op::FindDevice, Some(libc::ENODEV)));
        let e = netlink.change_all(&changes(4711, vec![Operation::Add(htb(1, 0))])).unwrap_err().to_string();
        assert!(e.starts_with("change 1 of 1, adding qdisc 1: htb at root on device 4711: "), "{e}");
    });
}

#[test]
fn traffic_control_made_by_other_programs_is_restored_exactly() {
    with_devices(|netlink, device| {
        for line in [
            "qdisc add dev a root handle 7: stab overhead 24 linklayer ethernet htb default 3 direct_qlen 50",
            "class add dev a parent 7: classid 7:1 htb rate 10mbit overhead 18 mpu 64",
            "class add dev a parent 7:1 classid 7:3 htb rate 2mbit burst 7000",
            "qdisc add dev a parent 7:3 handle 73: pfifo limit 9",
            "filter add dev a parent 7: protocol ip prio 9 u32 match ip dport 22 0xffff flowid 7:3",
            "filter add dev a parent 7: protocol ip prio 4 u32 match ip dport 23 0xffff flowid 7:3",
            "filter add dev a parent 7: protocol ip prio 3 u32 match u32 5 0xff at 4 action mirred egress mirror dev ifb-a",
            "filter add dev a parent 7: protocol all prio 2 chain 3 u32 match u32 0 0 action mirred egress redirect dev ifb-a",
        ] {
            tc(line);
        }
        let show = || {
            let lists =
                ["-d qdisc show dev a", "-d class show dev a", "filter show dev a", "filter show dev a chain 3"];
            // The kernel renumbers hash tables, from 800 on.
            let word =
                |w: &str| w.split_once("::").filter(|(t, _)| t.starts_with('8')).map_or(w, |(_, n)| n).to_owned();
            let table = |w: &&str| !(w.len() == 3 && w.starts_with('8') || w.len() == 4 && w.ends_with(':'));
            let line = |l: &str| l.split_whitespace().filter(table).map(word).collect::<Vec<_>>().join(" ");
            lists.map(tc).join("\n").lines().filter(|l| !l.contains("index ")).map(line).collect::<Vec<_>>()
        };
        let (shown, read_back) = (show(), found(netlink, device));
        let wanted = Tree::planned(each_kind());
        netlink.change_all(&changes(device, wanted.operations_from(&read_back))).unwrap();
        let ours = found(netlink, device);
        assert_eq!(wanted.differences(&ours), []);
        netlink.change_all(&changes(device, read_back.operations_from(&ours))).unwrap();
        assert_eq!(show(), shown);
        assert_eq!(read_back.operations_from(&found(netlink, device)), []);
    });
}

#[test]
fn a_redirection_into_an_ifb_device_moves_packets_through_its_queue() {
    let (Some(a), Some(b)) = (namespace(), namespace()) else { return };
    inside(&a, || add_veth(&mut Netlink::open().unwrap(), "link", "link", &b));
    for (namespace, own) in [(&a, "10.9.0.1"), (&b, "10.9.0.2")] {
        inside(namespace, || {
            let mut netlink = Netlink::open().unwrap();
            let link = netlink.index("link").unwrap();
            netlink.set_link(link, &tests::UP).unwrap();
            netlink.add_address(link, own.parse().unwrap(), 24, None).unwrap();
        });
    }
    let (ingress, device) = inside(&b, || {
        let mut netlink = Netlink::open().unwrap();
        let device = netlink.index("link").unwrap();
        let ingress = Qdisc { handle: Handle::INGRESS_QDISC, parent: Handle::INGRESS, discipline: Discipline::Ingress };
        let all = Classifier::U32 { keys: vec![], class: None, redirect: Some(40) };
        let filter = Filter { parent: Handle::INGRESS_QDISC, preference: 1, protocol: 3, handle: 0, classifier: all };
        let mut list = vec![
            Change::AddIfb { name: "in".to_owned(), index: 40, tx_queue_len: 1000 },
            Change::SetUp { index: 40, up: true },
        ];
        list.extend(changes(40, vec![Operation::Add(htb(1, 1)), Operation::Add(class(1, 0, 100_000_000))]));
        list.extend(changes(device, vec![Operation::Add(Object::Qdisc(ingress.clone()))]));
        list.extend(changes(device, vec![Operation::Add(Object::Filter(filter))]));
        netlink.change_all(&list).unwrap();
        (ingress, device)
    });
    tests::await_operational(&a, "link");
    let socket = inside(&b, || std::net::UdpSocket::bind("10.9.0.2:7000").unwrap());
    inside(&a, || {
        let from = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
        for _ in 0..10 {
            from.send_to(&[7; 1000], "10.9.0.2:7000").unwrap();
        }
    });
    for _ in 0..10 {
        assert_eq!(socket.recv(&mut [0; 2000]).unwrap(), 1000);
    }
    inside(&b, || {
        let mut netlink = Netlink::open().unwrap();
        let (_, counted) = netlink
            .traffic_control(40)
            .unwrap()
            .into_iter()
            .find(|(object, _)| matches!(object, Object::Class(_)))
            .unwrap();
        // Ten packets of Ethernet 14, IPv4 20, UDP 8 and 1000; the peer's neighbour discovery may be among them.
        assert!(counted.packets >= 10 && counted.bytes.as_u64() >= 10 * 1042, "{counted:?}");
        assert_eq!(counted.lends + counted.borrows, counted.packets, "{counted:?}");
        let links = netlink.links().unwrap();
        let ifb = links.iter().find(|d| d.index == 40).unwrap();
        assert_eq!((ifb.kind.as_deref(), ifb.hardware, ifb.tx_queue_len), (Some("ifb"), 1, 1000));
        assert_eq!((ifb.qdisc.as_deref(), ifb.up), (Some("htb"), true));
        let veth = links.iter().find(|d| d.index == device).unwrap();
        assert_eq!((veth.kind.as_deref(), veth.hardware), (Some("veth"), 1));
        assert!(veth.tx_queues >= 1 && veth.gso_max_size == Some(65_536), "{veth:?}");
        let lo = links.iter().find(|d| d.index == 1).unwrap();
        assert_eq!((lo.kind.as_deref(), lo.hardware), (None, 772));
        let undo = [
            Change::Tc { device, operation: Operation::Delete(Object::Qdisc(ingress)) },
            Change::SetTxQueueLen { index: device, packets: 77 },
            Change::DeleteLink { index: 40 },
        ];
        netlink.change_all(&undo).unwrap();
        let left = netlink.links().unwrap();
        assert!(left.iter().all(|d| d.kind.as_deref() != Some("ifb")));
        assert_eq!(left.iter().find(|d| d.index == device).unwrap().tx_queue_len, 77);
    });
}

#[test]
fn bursts_match_the_computed_values() {
    with_devices(|netlink, device| {
        let bursts = [(1_000_000, 12_345_678), (123_456_789, 1_000_000), (10_000_000_000, 999), (9_999_999, 64)];
        let mut objects = vec![htb(1, 0)];
        for (minor, (bps, nanos)) in (1..).zip(bursts) {
            let Object::Class(mut class) = class(minor, 0, bps) else { unreachable!() };
            class.htb.burst = Duration::from_nanos(nanos);
            objects.push(Object::Class(class));
        }
        let wanted = Tree::planned(objects);
        netlink.change_all(&changes(device, wanted.operations_from(&Tree::default()))).unwrap();
        let read_back = found(netlink, device);
        assert_eq!(wanted.differences(&read_back), []);
        let shown = tc("-s class show dev a");
        for (minor, (bps, nanos)) in (1..).zip(bursts) {
            let (rate, burst) = (Rate::from_bps(bps), Duration::from_nanos(nanos));
            let own = read_back.classes.iter().find(|c| c.handle.minor() == minor).unwrap();
            assert_eq!((own.htb.rate, own.htb.burst), (tc::kernel_rate(rate), tc::kernel_burst(burst)));
            // tc 6.1 reads the kernel's value in whole microseconds.
            let whole = Duration::from_micros(tc::kernel_burst(burst).as_micros() as u64);
            let bytes = tc::kernel_rate(rate).bytes_in(whole).as_u64();
            let block = shown.split("class htb ").find(|b| b.starts_with(&format!("1:{minor} "))).unwrap();
            assert!(block.contains(&format!(" burst {bytes}b ")), "{bytes} in {block}");
            let ticks = tc::kernel_burst(burst).as_nanos() / 64;
            assert!(block.contains(&format!(" tokens: {ticks} ")), "{ticks} in {block}");
        }
    });
}
