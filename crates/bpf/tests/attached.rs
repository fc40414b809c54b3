//! Tests of the classifier in a filter of HTB on the loopback device of a namespace, with traffic of the kernel's
//! sockets. The reference is the output of `tc` for the classes. The tests need root and are skipped otherwise.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

use std::fs;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;

use bpf::{Classifier, Rule, Settings, counters};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use shaping::{Match, SizeLimits, Traffic};
use tc::Handle;
use testbed::Namespace;
use units::Bytes;

const DEFAULT: Handle = Handle::new(1, 0xff);
const FIRST: Handle = Handle::new(1, 1);
const SECOND: Handle = Handle::new(1, 2);

/// A namespace whose loopback device has three classes, and a classifier that selects among them.
fn attached(rules: Vec<Rule>, sizes: SizeLimits) -> Option<(Namespace, Classifier)> {
    let namespace = match Namespace::new() {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            println!("skipped: network namespaces take root");
            return None;
        }
        other => other.unwrap(),
    };
    namespace.iproute("tc qdisc add dev lo root handle 1: htb").unwrap();
    for class in [FIRST, SECOND, DEFAULT] {
        let line = format!("tc class add dev lo parent 1: classid {class} htb rate 10gbit quantum 60000");
        namespace.iproute(&line).unwrap();
    }
    let classifier = Classifier::load(&Settings { rules, default: DEFAULT, sizes }).unwrap();
    namespace.run(|| attach(classifier.descriptor())).unwrap().unwrap();
    Some((namespace, classifier))
}

/// Sends RTM_NEWTFILTER for the loopback device (index 1) below `1:`, as defined by rtnetlink(7) and linux/pkt_cls.h.
fn attach(descriptor: i32) -> io::Result<()> {
    let mut options = attribute(6, &descriptor.to_ne_bytes());
    options.extend(attribute(7, b"classify\0"));
    let mut body = vec![0; 4];
    let every_protocol = u32::from(3_u16.to_be());
    for number in [1, 0, Handle::new(1, 0).as_raw(), 1 << 16 | every_protocol] {
        body.extend(number.to_ne_bytes());
    }
    body.extend(attribute(1, b"bpf\0"));
    body.extend(attribute(2, &options));
    let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
    message.extend(44_u16.to_ne_bytes());
    // NLM_F_REQUEST, NLM_F_ACK, NLM_F_EXCL, NLM_F_CREATE.
    message.extend(0x605_u16.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.send_to(&message, &SocketAddr::new(0, 0), 0)?;
    let (answer, _) = socket.recv_from_full()?;
    match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(-code)),
    }
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Bytes and packets of a class, from `tc -s class show`.
fn class_bytes(namespace: &Namespace, class: Handle) -> (u64, u64) {
    let text = namespace.iproute(&format!("tc -s class show dev lo classid {class}")).unwrap();
    let fields: Vec<&str> = text.split_whitespace().collect();
    let sent = fields.iter().position(|&field| field == "Sent").unwrap();
    (fields[sent + 1].parse().unwrap(), fields[sent + 3].parse().unwrap())
}

/// Sends a datagram to port 9999 from a shell that first runs `before`.
fn send_from_shell(namespace: &Namespace, wrapper: &[&str], before: &str) {
    let script = format!("{before} echo 1234567 >/dev/udp/127.0.0.1/9999");
    let mut fields = wrapper.iter().copied().chain(["bash", "-c", &script]);
    let mut command = Command::new(fields.next().unwrap());
    let mut child = namespace.start(command.args(fields)).unwrap();
    assert!(child.wait().unwrap().success());
}

fn rule(class: Handle, matches: Match) -> Rule {
    Rule { class, matches }
}

#[test]
fn traffic_is_classified_by_user_and_cgroup() {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let Some(root) = mounts.lines().find_map(|line| line.split(' ').nth(1).filter(|_| line.contains(" cgroup2 ")))
    else {
        println!("skipped: no version 2 hierarchy of cgroups is mounted");
        return;
    };
    let name = format!("longhaul-test-{}", std::process::id());
    let below = format!("{root}/{name}/below");
    if fs::create_dir_all(&below).is_err() {
        println!("skipped: only root can make a cgroup");
        return;
    }
    let rules = vec![
        rule(FIRST, Match { cgroup: Some(format!("/{name}")), ..Match::default() }),
        rule(SECOND, Match { user: Some(1234), ..Match::default() }),
    ];
    if let Some((namespace, _classifier)) = attached(rules, SizeLimits::default()) {
        // The receiver prevents ICMP errors.
        let _receiver = namespace.run(|| UdpSocket::bind("127.0.0.1:9999")).unwrap().unwrap();
        send_from_shell(&namespace, &[], "");
        send_from_shell(&namespace, &["setpriv", "--reuid=1234"], "");
        send_from_shell(&namespace, &[], &format!("echo $$ >{below}/cgroup.procs;"));
        // 42 bytes of headers (14 + 20 + 8), and 8 bytes of text.
        for class in [DEFAULT, FIRST, SECOND] {
            assert_eq!(class_bytes(&namespace, class), (50, 1), "{class}");
        }
    }
    fs::remove_dir(below).unwrap();
    fs::remove_dir(format!("{root}/{name}")).unwrap();
}

#[test]
fn a_transfer_becomes_an_elephant_and_bytes_equal_those_of_the_class() {
    let size = |class, size| rule(class, Match { size: Some(size), ..Match::default() });
    let limits = SizeLimits { bytes: Some(Bytes::new(1_000_000)), ..SizeLimits::default() };
    let rules = vec![size(FIRST, Traffic::Mouse), size(SECOND, Traffic::Elephant)];
    let Some((namespace, classifier)) = attached(rules, limits) else { return };
    namespace
        .run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let sender = thread::spawn(move || TcpStream::connect(address)?.write_all(&vec![0; 20_000_000]));
            let received = io::copy(&mut listener.accept().unwrap().0, &mut io::sink()).unwrap();
            assert_eq!(received, 20_000_000);
            sender.join().unwrap().unwrap();
        })
        .unwrap();
    // The class of mice has the acknowledgements and the first 1 MB of the transfer; the super-packet that exceeds the
    // limit may already belong to the elephant. A super-packet has two segments even if one segment fills 64 kB
    // (net.ipv4.tcp_min_tso_segs). Each segment has 65 483 bytes and 66 bytes of headers at an MTU of 65 536.
    let super_packet = 2 * 65_549;
    let (mice, _) = class_bytes(&namespace, FIRST);
    let (elephants, _) = class_bytes(&namespace, SECOND);
    assert!(elephants > 19_000_000, "{elephants}");
    assert!(mice > 1_000_000 - super_packet && mice < 1_500_000, "{mice}");
    let counted = counters(classifier.id()).unwrap();
    assert_eq!((counted.rules[0].bytes, counted.rules[1].bytes), (mice, elephants));
    assert_eq!((counted.mice, counted.elephants), (1, 1));
}
