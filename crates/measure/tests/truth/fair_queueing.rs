//! Detection of fair queueing before a link, as opposed to one shared queue.

use std::net::IpAddr;
use std::time::Duration;

use estimate::probe::{Bounds, TwoRates};
use measure::probe::{ProbeOptions, Prober};
use results::estimate::Caveat;
use results::{Direction, TestPlan, Transport};
use testbed::{Lan, Served, client_options, or_skip, plan, server_options, undisturbed};

/// Commands for an HTB of this rate before the other host, with one queue for all or with a separate one for TCP.
fn htb(mbit: u32, is_fair: bool) -> Vec<String> {
    let class =
        |id| format!("tc class add dev eth0 parent 1: classid 1:{id} htb rate {mbit}mbit burst 3000 cburst 3000");
    let mut lines = vec!["tc qdisc add dev eth0 root handle 1: htb default 10".to_owned(), class(10)];
    if is_fair {
        let tcp = "tc filter add dev eth0 parent 1: protocol ip u32 match ip protocol 6 0xff flowid 1:20";
        lines.extend([class(20), tcp.to_owned()]);
    }
    lines
}

/// Caveats of `two-rates` behind these queues, at the sending host.
fn caveats(direction: Direction, lines: &[String]) -> Option<Vec<Caveat>> {
    let lan = or_skip(Lan::two_hosts())?;
    let sender = if direction == Direction::Up { &lan.client } else { &lan.server };
    for line in lines {
        sender.iproute(line).unwrap();
    }
    let served = Served::start(&lan.server, server_options(lan.server_ip())).unwrap();
    let caveats = lan.client.run(|| probe(lan.server_ip(), served.port(), direction)).unwrap();
    println!("{direction:?}: {caveats:?}");
    Some(caveats)
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

/// A burst of ten packets causes a queueing delay of 11 ms at one rate, and of 2 ms at the other.
fn check_both_directions(is_fair: bool) {
    for mbit in [10, 50] {
        for direction in [Direction::Up, Direction::Down] {
            // A stall of the host by milliseconds looks like a queue.
            undisturbed(|| {
                let Some(caveats) = caveats(direction, &htb(mbit, is_fair)) else { return };
                let is_reported = caveats.contains(&Caveat::FairQueueing);
                assert_eq!(is_reported, is_fair, "{mbit} Mb/s, {direction:?}: {caveats:?}");
            });
        }
    }
}

#[test]
fn a_message_that_overtakes_a_train_indicates_fair_queueing() {
    check_both_directions(true);
}

#[test]
fn one_shared_queue_is_not_reported_as_fair_queueing() {
    check_both_directions(false);
}
