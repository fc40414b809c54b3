use super::*;
use crate::policy::{Queue, SizeLimits, Traffic};

fn mbps(n: u64) -> Rate {
    Rate::from_bps(n * 1_000_000)
}

fn device(name: &str, index: u32) -> Device {
    Device { name: name.to_owned(), index, ethernet: true, mtu: 1500, super_packet: Bytes::new(65_536) }
}

fn class(name: &str, parent: Option<usize>, rate: Rate, ceiling: Rate) -> Class {
    let queue = Queue { limit: Duration::from_millis(10), kind: QueueKind::Best };
    Class { name: name.to_owned(), parent, rate, ceiling, priority: 0, queue, burst: None, matches: Vec::new() }
}

/// 800 and 200 Mb/s of 1 Gb/s, with borrowing: section 3.6.3 of the paper.
fn division() -> Policy {
    let mut second = class("second", None, mbps(200), mbps(1000));
    second.matches = vec![Match { ports: vec![5002..=5002], ..Match::default() }];
    Policy {
        device: "eth0".to_owned(),
        accounting: Accounting::Frame,
        sizes: SizeLimits::default(),
        egress: Some(Side {
            rate: mbps(1000),
            classes: vec![class("first", None, mbps(800), mbps(1000)), second],
            default: 0,
        }),
        ingress: None,
    }
}

const PLAIN: Facilities = Facilities { fq_codel: false, bpf: false };

fn planned(policy: &Policy, facilities: Facilities) -> Result<Plan, PlanError> {
    plan(policy, &device("eth0", 2), &device("ifb-eth0", 9), facilities)
}

#[test]
fn a_division_is_a_tree_of_three_classes_with_a_queue_at_each_leaf() {
    let plan = planned(&division(), PLAIN).unwrap();
    let side = plan.egress.unwrap();
    let found: Vec<_> = side.tree.classes.iter().map(|c| (c.handle.to_string(), c.parent.to_string())).collect();
    let wanted = [("1:1", "1:"), ("1:10", "1:1"), ("1:11", "1:1")];
    assert_eq!(found, wanted.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let queues: Vec<_> = side.tree.qdiscs.iter().map(|q| (q.handle.to_string(), q.parent.to_string())).collect();
    let wanted = [("1:", "root"), ("10:", "1:10"), ("11:", "1:11")];
    assert_eq!(queues, wanted.map(|(a, b)| (a.to_owned(), b.to_owned())));
    // 10 ms at 1 Gb/s.
    let fifo = Discipline::ByteFifo { limit: Bytes::new(1_250_000) };
    assert_eq!(side.tree.qdiscs[1].discipline, fifo);
    let Discipline::Htb(root) = side.tree.qdiscs[0].discipline.clone() else { panic!("{side:?}") };
    assert_eq!(root.default_class, 0x10);
    // TCP and UDP, source and destination port, both IP versions.
    assert_eq!(side.tree.filters.len(), 8);
    assert!(side.rules.is_none());
    // The quanta have the ratio of the rates, 4 to 1.
    assert_eq!(side.classes[0].htb.quantum, 4 * side.classes[1].htb.quantum);
}

#[test]
fn a_queue_and_its_delay_are_limited_to_the_bytes_that_the_kernel_counts() {
    let mut policy = division();
    let side = policy.egress.as_mut().unwrap();
    // 500 ms at 100 Gb/s would be 6.25 GB. The limit of a FIFO has 32 bits, and fq_codel accepts 2^31 bytes of memory.
    side.rate = mbps(100_000);
    side.classes.truncate(1);
    (side.classes[0].rate, side.classes[0].ceiling) = (mbps(100_000), mbps(100_000));
    side.classes[0].queue.limit = Duration::from_millis(500);
    let leaf = |facilities| planned(&policy, facilities).unwrap().egress.unwrap().classes[0].leaf.clone().unwrap();
    let fifo = leaf(PLAIN);
    assert_eq!(fifo.discipline, Discipline::ByteFifo { limit: Bytes::new(4_294_967_295) });
    assert_eq!(fifo.wait.as_millis(), 343, "4,294,967,295 bytes at 100 Gb/s");
    let codel = leaf(Facilities { fq_codel: true, ..PLAIN });
    let Discipline::FqCodel { memory_limit, .. } = codel.discipline else { panic!("{codel:?}") };
    assert_eq!((memory_limit, codel.limit), (Bytes::new(1 << 31), Bytes::new(1 << 30)));
    assert_eq!(codel.wait.as_millis(), 85, "1,073,741,824 bytes at 100 Gb/s");
}

#[test]
fn a_wire_rate_includes_the_overhead_outside_frames() {
    let policy = Policy { accounting: Accounting::Wire, ..division() };
    let side = planned(&policy, PLAIN).unwrap().egress.unwrap();
    // A frame takes 1514 of 1538 bytes on the wire; the kernel counts whole bytes per second.
    let expected = 1_000_000_000_u64 * 1514 / 1538 / 8 * 8;
    assert_eq!(side.tree.classes[0].htb.rate.as_bps(), expected);
    assert_eq!(side.tree.classes[0].htb.ceiling.as_bps(), expected);
}

#[test]
fn classes_by_size_need_a_program_which_evaluates_all_rules() {
    let mut policy = division();
    let side = policy.egress.as_mut().unwrap();
    side.classes[0].matches = vec![Match { size: Some(Traffic::Elephant), ..Match::default() }];
    let refused = planned(&policy, PLAIN).unwrap_err();
    assert_eq!(refused, PlanError::NeedsProgram { class: "first".to_owned() });
    let side = planned(&policy, Facilities { bpf: true, ..PLAIN }).unwrap().egress.unwrap();
    let rules = side.rules.unwrap();
    assert_eq!(rules.iter().map(|(h, _)| h.to_string()).collect::<Vec<_>>(), ["1:10", "1:11"]);
    assert_eq!(side.tree.filters.len(), 1);
}

#[test]
fn ingress_packets_are_redirected_through_an_ifb_device() {
    let mut policy = division();
    policy.ingress = policy.egress.take();
    let plan = planned(&policy, PLAIN).unwrap();
    assert!(plan.egress.is_none());
    let ingress = plan.ingress.unwrap();
    assert_eq!(ingress.side.device.name, "ifb-eth0");
    let led = ingress.hook.filters.iter().map(|f| f.classifier.clone()).collect::<Vec<_>>();
    assert_eq!(led, [Classifier::U32 { keys: Vec::new(), class: None, redirect: Some(9) }]);
}

#[test]
fn fq_codel_is_used_where_it_exists() {
    let with = Facilities { fq_codel: true, bpf: false };
    let side = planned(&division(), with).unwrap().egress.unwrap();
    assert!(matches!(side.tree.qdiscs[1].discipline, Discipline::FqCodel { ecn: true, .. }));
    let mut policy = division();
    policy.egress.as_mut().unwrap().classes[0].queue.kind = QueueKind::Fifo;
    let side = planned(&policy, with).unwrap().egress.unwrap();
    assert!(matches!(side.tree.qdiscs[1].discipline, Discipline::ByteFifo { .. }));
    policy.egress.as_mut().unwrap().classes[0].queue.kind = QueueKind::FqCodel;
    assert_eq!(planned(&policy, PLAIN).unwrap_err(), PlanError::NoFqCodel { class: "first".to_owned() });
}

#[test]
fn children_borrow_from_their_parent() {
    let mut policy = division();
    let side = policy.egress.as_mut().unwrap();
    side.classes = vec![
        class("office", None, mbps(600), mbps(1000)),
        class("mail", Some(0), mbps(100), mbps(600)),
        class("rest", None, mbps(400), mbps(400)),
    ];
    side.default = 2;
    let side = planned(&policy, PLAIN).unwrap().egress.unwrap();
    let mail = side.tree.classes.iter().find(|c| c.handle.to_string() == "1:11").unwrap();
    assert_eq!(mail.parent.to_string(), "1:10");
    assert!(side.classes[0].leaf.is_none(), "an inner class has no queue");
    assert_eq!(side.classes[1].depth, 1);
}
