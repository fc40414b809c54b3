//! Flows that take turns in front of a link are told from one queue for all.

use std::net::IpAddr;
use std::time::Duration;

use estimate::probe::TwoRates;
use measure::probe::{Bounds, ProbeOptions, Prober};
use results::estimate::Caveat;
use results::{Direction, TestPlan, Transport};
use testbed::{Lan, Served, client_options, or_skip, plan, server_options, undisturbed};

/// HTB of this rate in front of the other host, with a queue for all, or with one of its own for TCP.
fn htb(mbit: u32, takes_turns: bool) -> Vec<String> {
    let class =
        |id| format!("tc class add dev eth0 parent 1: classid 1:{id} htb rate {mbit}mbit burst 3000 cburst 3000");
    let mut lines = vec!["tc qdisc add dev eth0 root handle 1: htb default 10".to_owned(), class(10)];
    if takes_turns {
        let tcp = "tc filter add dev eth0 parent 1: protocol ip u32 match ip protocol 6 0xff flowid 1:20";
        lines.extend([class(20), tcp.to_owned()]);
    }
    lines
}

/// What with_caveats `two-rates` behind these, at the host that sends.
fn caveats(direction: Direction, lines: &[String]) -> Option<Vec<Caveat>> {
    let lan = or_skip(Lan::two_hosts())?;
    let sender = if direction == Direction::Up { &lan.client } else { &lan.server };
    for line in lines {
        sender.iproute(line).unwrap();
    }
    let served = Served::start(&lan.server, server_options(lan.server_ip())).unwrap();
    let told = lan.client.run(|| probe(lan.server_ip(), served.port(), direction)).unwrap();
    println!("{direction:?}: {told:?}");
    Some(told)
}

fn probe(server: IpAddr, port: u16, direction: Direction) -> Vec<Caveat> {
    let bytes = 300_000;
    let plan = TestPlan {
        transport: Transport::Probe,
        directions: vec![direction],
        bytes: Some(bytes),
        duration_ns: None,
        ..plan(Duration::ZERO)
    };
    let options = ProbeOptions { client: client_options(server, port, plan), mtu: None, seed: 1 };
    let mut prober = Prober::open(&options).unwrap();
    let mut method = TwoRates::new(prober.path());
    let run = prober.run(&mut method, Bounds { bytes, time: Duration::from_secs(20) }, &|| false).unwrap();
    prober.close();
    assert!(run.outcome.interval.is_some(), "{run:?}");
    run.outcome.caveats.iter().copied().collect()
}

/// A burst of ten packets makes a queue of 11 ms, and of 2 ms.
fn both_ways(takes_turns: bool) {
    for mbit in [10, 50] {
        for direction in [Direction::Up, Direction::Down] {
            // A host that is held up for milliseconds looks like a queue.
            undisturbed(|| {
                let Some(told) = caveats(direction, &htb(mbit, takes_turns)) else { return };
                let is_told = told.contains(&Caveat::FairQueueing);
                assert_eq!(is_told, takes_turns, "{mbit} Mb/s, {direction:?}: {told:?}");
            });
        }
    }
}

#[test]
fn a_message_that_need_not_wait_behind_a_train_tells_that_flows_take_turns() {
    both_ways(true);
}

#[test]
fn one_queue_for_all_is_not_taken_for_turns() {
    both_ways(false);
}
