//! Loss, duplication and reordering, at two sockets and in the lab's records.

use std::collections::BTreeSet;
use std::time::Duration;

use testbed::undisturbed;

use crate::common::lab::{Ended, Turn, turn_of_root};
use crate::common::udp::{Arrival, Burst, over_path};

const QUIET: Duration = Duration::from_millis(500);
const BURST: Burst = Burst { packets: 20_000, gap: Duration::from_micros(50), length: 100 };

/// Sends a burst over a path with these options.
fn run(turn: &Turn, arguments: &[&str], burst: Burst) -> (Vec<Arrival>, Ended) {
    let lab = turn.path(&[&["--rtt", "10ms"], arguments].concat());
    let arrivals = over_path(&lab, burst, QUIET);
    // The kernel's own counters of both devices.
    let counters = |node, direction| {
        let shown = lab.node(node).iproute("ip -json -statistics link show dev path").unwrap();
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        shown[0]["stats64"][direction]["packets"].as_u64().unwrap()
    };
    let (sent, received) = (counters("near", "tx"), counters("far", "rx"));
    let ended = lab.end();
    let truth = ended.forward();
    assert_eq!(
        (truth.offered.packets, truth.delivered.packets),
        (sent, received),
        "the counters of kernel and lab must be equal"
    );
    assert_eq!(truth.offered.packets, burst.packets);
    assert_eq!(truth.offered.bytes, burst.packets * burst.length as u64);
    assert_eq!(truth.delivered.packets, arrivals.len() as u64);
    (arrivals, ended)
}

fn numbers(arrivals: &[Arrival]) -> BTreeSet<u64> {
    arrivals.iter().map(|a| a.number).collect()
}

fn lost(arrivals: &[Arrival], burst: Burst) -> Vec<u64> {
    let received = numbers(arrivals);
    (0..burst.packets).filter(|n| !received.contains(n)).collect()
}

#[test]
fn random_loss_has_the_configured_share_and_is_repeatable_by_seed() {
    let Some(turn) = turn_of_root() else { return };
    let losses = |seed: &str| {
        let (arrivals, ended) = run(&turn, &["--set", "forward.loss=0.01", "--seed", seed], BURST);
        let lost = lost(&arrivals, BURST);
        let truth = ended.forward();
        assert_eq!((truth.dropped.loss, truth.dropped.total()), (lost.len() as u64, lost.len() as u64));
        lost
    };
    let first = losses("7");
    // Binomial with n = 20000, p = 0.01: mean 200, standard deviation 14.07, 99 % within 2.576 of it.
    assert!((164..=236).contains(&first.len()), "{}", first.len());
    assert_eq!(losses("7"), first);
    assert_ne!(losses("8"), first);
}

#[test]
fn a_loss_list_drops_exactly_its_packets() {
    let Some(turn) = turn_of_root() else { return };
    let burst = Burst { packets: 100, ..BURST };
    let (arrivals, ended) = run(&turn, &["--set", "forward.loss_list=[0, 3, 4, 50, 99]"], burst);
    assert_eq!(lost(&arrivals, burst), [0, 3, 4, 50, 99]);
    assert_eq!(ended.forward().dropped.listed, 5);
    assert!(arrivals.is_sorted_by_key(|a| a.number), "the others stay in order");
}

#[test]
fn duplicates_arrive_and_are_counted() {
    let Some(turn) = turn_of_root() else { return };
    let burst = Burst { packets: 5000, ..BURST };
    let (arrivals, ended) = run(&turn, &["--set", "forward.duplicate=0.05"], burst);
    let copies = arrivals.len() - numbers(&arrivals).len();
    assert!(lost(&arrivals, burst).is_empty());
    assert_eq!(ended.forward().duplicated, copies as u64);
    // n = 5000, p = 0.05: mean 250, standard deviation 15.41.
    assert!((210..=290).contains(&copies), "{copies}");
}

#[test]
fn reordered_packets_arrive_late_and_are_counted() {
    undisturbed(|| {
        let Some(turn) = turn_of_root() else { return };
        let burst = Burst { packets: 5000, ..BURST };
        let (arrivals, ended) = run(&turn, &["--set", "forward.reorder={ probability = 0.02, by = \"100ms\" }"], burst);
        assert!(lost(&arrivals, burst).is_empty());
        // The delay is 5 ms, or 105 ms for reordered packets; a busy machine is late by less than half of the
        // difference.
        let reordered_packets = arrivals.iter().filter(|a| a.delay_ns > 55_000_000).count();
        assert_eq!(ended.forward().reordered, reordered_packets as u64);
        // n = 5000, p = 0.02: mean 100, standard deviation 9.9.
        assert!((75..=125).contains(&reordered_packets), "{reordered_packets}");
    });
}

#[test]
fn packets_above_the_path_mtu_are_dropped_without_an_icmp_message() {
    let Some(turn) = turn_of_root() else { return };
    let hole = ["--set", "forward.mtu=1000"];
    let large = Burst { packets: 20, length: 1001, ..BURST };
    let (arrivals, ended) = run(&turn, &hole, large);
    assert!(arrivals.is_empty());
    assert_eq!(ended.forward().dropped.mtu, 20);
    let backward = ended.link("path", "far");
    assert_eq!(backward.offered.packets, 0, "no ICMP message is sent");
    let (arrivals, _) = run(&turn, &hole, Burst { length: 1000, ..large });
    assert_eq!(arrivals.len(), 20);
}
