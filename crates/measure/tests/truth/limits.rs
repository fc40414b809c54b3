//! The limit verdict names the factor that limits the transfer.

use std::time::Duration;

use results::{Direction, Limit, TestPlan};
use testbed::{Background, Bottleneck, Lan, Place, or_skip, plan, undisturbed};
use units::Rate;

use crate::complete;

/// Runs a test and asserts that one of `expected` is the limit for most of its time.
fn assert_limit(lan: &Lan, plan: TestPlan, direction: Direction, expected: &[Limit]) {
    let outcome = complete(lan, plan);
    let limits = &outcome.direction(direction).limits;
    println!("{direction:?} {limits:?}");
    let share: f64 = expected.iter().filter_map(|l| limits.get(l)).sum();
    assert!(share > 0.5, "expected {expected:?}, got {limits:?}:\n{}", outcome.evidence(direction));
}

#[test]
fn a_rate_set_by_the_user_is_the_limit() {
    undisturbed(|| {
        let Some(lan) = or_skip(Lan::two_hosts()) else { return };
        let paced = TestPlan { rate_bps: Some(50_000_000), ..plan(Duration::from_secs(2)) };
        assert_limit(&lan, paced.clone(), Direction::Up, &[Limit::Pacing]);
        let reverse = TestPlan { directions: vec![Direction::Down], ..paced };
        assert_limit(&lan, reverse, Direction::Down, &[Limit::Pacing]);
    });
}

#[test]
fn a_window_below_the_bandwidth_delay_product_is_the_limit() {
    undisturbed(|| {
        let Some(lan) = or_skip(Lan::two_hosts()) else { return };
        // Other traffic in the return direction makes a path of 40 ms, on which 16 kB in flight are 3 Mb/s. In the
        // forward direction its queue would also be that of TCP small queues. The kernel determines which of the two
        // buffers of one size fills first.
        lan.shape(Place::Server, &Bottleneck::with_depth(Rate::from_bps(50_000_000), Duration::from_millis(400)))
            .unwrap();
        let _background = Background::start(&lan.server, &lan.client, lan.client_ip(), 400_000).unwrap();
        let small = TestPlan { window_bytes: Some(16_000), block_bytes: 4096, ..plan(Duration::from_secs(2)) };
        assert_limit(&lan, small, Direction::Up, &[Limit::ReceiveWindow, Limit::SendBuffer]);
    });
}

#[test]
fn a_full_bottleneck_is_the_limit() {
    undisturbed(|| {
        let Some(lan) = or_skip(Lan::with_router()) else { return };
        lan.shape(Place::Router, &Bottleneck::with_depth(Rate::from_bps(50_000_000), Duration::from_millis(20)))
            .unwrap();
        assert_limit(&lan, plan(Duration::from_secs(3)), Direction::Up, &[Limit::Bottleneck]);
    });
}

#[test]
fn without_a_bottleneck_the_hosts_are_the_limit() {
    undisturbed(|| {
        let Some(lan) = or_skip(Lan::two_hosts()) else { return };
        // At tens of Gb/s a delayed thread lets a buffer fill or run empty within the interval, which is also a limit
        // of the hosts. The network, which has no limit here, must not be the verdict.
        let hosts = [Limit::SenderCpu, Limit::ReceiverCpu, Limit::SendBuffer, Limit::ReceiveWindow];
        assert_limit(&lan, plan(Duration::from_secs(2)), Direction::Up, &hosts);
    });
}
