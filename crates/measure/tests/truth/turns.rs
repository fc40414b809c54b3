//! Flows that take turns in front of a link are told from one queue for all.

use std::net::IpAddr;
use std::time::Duration;

use estimate::probe::TwoRates;
use measure::probe::{Bounds, ProbeOptions, Prober};
use results::estimate::Trouble;
use results::{Direction, TestPlan, Transport};
use testbed::{Lan, Served, client_options, or_skip, plan, server_options, undisturbed};

/// HTB of 10 Mb/s in front of the server, with a queue for all, or with one of its own for TCP.
const ONE_QUEUE: [&str; 2] = [
    "tc qdisc add dev eth0 root handle 1: htb default 10",
    "tc class add dev eth0 parent 1: classid 1:10 htb rate 10mbit burst 3000 cburst 3000",
];
const TURNS: [&str; 2] = [
    "tc class add dev eth0 parent 1: classid 1:20 htb rate 10mbit burst 3000 cburst 3000",
    "tc filter add dev eth0 parent 1: protocol ip u32 match ip protocol 6 0xff flowid 1:20",
];

/// What troubled `two-rates` behind these.
fn troubles(lines: &[&str]) -> Option<Vec<Trouble>> {
    let lan = or_skip(Lan::two_hosts())?;
    for line in lines {
        lan.client.iproute(line).unwrap();
    }
    let served = Served::start(&lan.server, server_options(lan.server_ip())).unwrap();
    let told = lan.client.run(|| probe(lan.server_ip(), served.port())).unwrap();
    println!("{told:?}");
    Some(told)
}

fn probe(server: IpAddr, port: u16) -> Vec<Trouble> {
    let bytes = 300_000;
    let plan = TestPlan {
        transport: Transport::Probe,
        directions: vec![Direction::Up],
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
    run.outcome.troubles.iter().copied().collect()
}

#[test]
fn a_message_that_need_not_wait_behind_a_train_tells_that_flows_take_turns() {
    // A host that is held up for milliseconds looks like a queue.
    undisturbed(|| {
        let Some(told) = troubles(&[&ONE_QUEUE[..], &TURNS].concat()) else { return };
        assert!(told.contains(&Trouble::FairQueueing), "{told:?}");
    });
}

#[test]
fn one_queue_for_all_is_not_taken_for_turns() {
    undisturbed(|| {
        let Some(told) = troubles(&ONE_QUEUE) else { return };
        assert!(!told.contains(&Trouble::FairQueueing), "{told:?}");
    });
}
