//! Tests of the test network. A single test, because it counts the namespaces of this process.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use testbed::{Background, Bottleneck, Lan, Place, idle_round_trip, or_skip};
use units::Rate;

/// Number of network namespaces that this process keeps alive.
fn namespaces() -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|f| fs::read_link(f.ok()?.path()).ok());
    links.filter(|l| l.to_string_lossy().starts_with("net:[")).count()
}

#[test]
fn a_network_follows_its_settings_and_is_removed_afterwards() {
    let before = namespaces();
    let Some(lan) = or_skip(Lan::with_router()) else { return };
    assert_eq!(namespaces(), before + 3);
    // The path crosses the router twice; even on a loaded machine the delay is far below that of the queue.
    let idle = idle_round_trip(&lan.client, &lan.server, lan.server_ip(), 50).unwrap();
    assert!(idle < Duration::from_millis(5), "{idle:?}");

    let bottleneck = Bottleneck::with_depth(Rate::from_bps(50_000_000), Duration::from_millis(400));
    lan.shape(Place::Client, &bottleneck).unwrap();
    assert_eq!(lan.backlog(Place::Client).unwrap(), 0);
    let background = Background::start(&lan.client, &lan.server, lan.server_ip(), 400_000).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let queue = bottleneck.delay_of(lan.backlog(Place::Client).unwrap());
    let probe = idle_round_trip(&lan.client, &lan.server, lan.server_ip(), 10).unwrap();
    drop(background);
    assert!(queue > Duration::from_millis(20), "{queue:?}");
    // The tolerance is 5 ms: up to one refill is missing, and a busy machine refills late. The queue could be empty for
    // a moment, but not at each of ten probes, so that the minimum must be at least half of the queue.
    assert!(probe > queue / 2 && probe < queue + Duration::from_millis(5), "queue {queue:?}, probe {probe:?}");
    drop(lan);
    assert_eq!(namespaces(), before);

    let broken = catch_unwind(AssertUnwindSafe(|| {
        let _lan = Lan::two_hosts().unwrap();
        panic!("a test fails with a network in hand");
    }));
    assert!(broken.is_err());
    assert_eq!(namespaces(), before);
    // Dropping the network frees the lock for the next test.
    drop(Lan::two_hosts().unwrap());
}
