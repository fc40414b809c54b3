use std::process::Command;
use std::time::{Duration, Instant};

use tc::{
    Class, Classifier, Discipline, Filter, Handle, HtbClass, HtbRoot, Key, Object, Operation, Qdisc, TokenBucket, Tree,
};
use units::{Bytes, Rate};

use super::tests::{add_veth, inside, namespace};
use super::*;

/// What iproute2 says: truth from outside.
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
fn what_is_applied_is_what_iproute2_shows_and_what_is_read_back() {
    with_devices(|netlink, device| {
        assert_eq!(found(netlink, device), Tree::default(), "an untouched device");
        let wanted = Tree::planned(each_kind());
        netlink.change_all(&changes(device, wanted.operations_from(&Tree::default()))).unwrap();
        let there = found(netlink, device);
        assert_eq!(wanted.differences(&there), []);
        assert_eq!(wanted.operations_from(&there), []);
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
        // Nothing wanted: the device is as it was.
        netlink.change_all(&changes(device, Tree::default().operations_from(&there))).unwrap();
        assert_eq!(found(netlink, device), Tree::default());
    });
}

#[test]
fn a_thousand_classes_with_leaves_and_filters_go_in_one_call() {
    with_devices(|netlink, device| {
        let mut objects = vec![htb(1, 0), class(1, 0, 1_000_000_000)];
        for minor in 2..1002 {
            objects.push(class(minor, 1, 1_000_000));
            objects.push(leaf(minor, Discipline::ByteFifo { limit: Bytes::new(10_000) }));
            objects.push(filter(minor, port(minor), Some(Handle::new(1, minor)), None));
        }
        let wanted = Tree::planned(objects);
        let begin = Instant::now();
        let list = changes(device, wanted.operations_from(&Tree::default()));
        let planned = begin.elapsed();
        netlink.change_all(&list).unwrap();
        let applied = begin.elapsed() - planned;
        let there = found(netlink, device);
        let read = begin.elapsed() - applied - planned;
        assert_eq!(wanted.differences(&there), []);
        let all = begin.elapsed();
        println!(
            "{} changes: planned {planned:?}, made {applied:?}, read {read:?}, with comparison {all:?}",
            list.len()
        );
        assert_eq!(list.len(), 3002);
    });
}
