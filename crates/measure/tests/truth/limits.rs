//! The verdict names what limits the transfer.

use std::time::Duration;

use results::{Direction, Limit, TestPlan};
use testbed::{Background, Bottleneck, Lan, Place, or_skip, plan, undisturbed};
use units::Rate;

use crate::complete;

/// Runs a test and checks that most of its time is blamed on one of `expected`.
fn assert_limit(lan: &Lan, plan: TestPlan, direction: Direction, expected: &[Limit]) {
    let outcome = complete(lan, plan);
    let limits = &outcome.direction(direction).limits;
    println!("{direction:?} {limits:?}");
    let share: f64 = expected.iter().filter_map(|l| limits.get(l)).sum();
    assert!(share > 0.5, "expected {expected:?}, got {limits:?}:\n{}", outcome.evidence(direction));
}

#[test]
fn a_ceiling_that_the_user_sets_is_the_limit() {
    undisturbed(|| {
        let Some(lan) = or_skip(Lan::two_hosts()) else { return };
        let paced = TestPlan { rate_bps: Some(50_000_000), ..plan(Duration::from_secs(2)) };
        assert_limit(&lan, paced.clone(), Direction::Up, &[Limit::Pacing]);
        let reverse = TestPlan { directions: vec![Direction::Down], ..paced };
        assert_limit(&lan, reverse, Direction::Down, &[Limit::Pacing]);
    });
}

#[test]
fn a_window_smaller_than_the_path_is_the_limit() {
    undisturbed(|| {
        let Some(lan) = or_skip(Lan::two_hosts()) else { return };
        // Foreign traffic on the way back makes a path of 40 ms, on which 16 kB in flight are 3 Mb/s. (On the way there its queue
        // would also be that of TCP small queues.) Which of the two buffers of one size is full first is the kernel's affair.
        lan.shape(Place::Server, &Bottleneck::with_depth(Rate::from_bps(50_000_000), Duration::from_millis(400)))
            .unwrap();
        let _background = Background::start(&lan.server, &lan.client, lan.client_ip(), 400_000).unwrap();
        let small = TestPlan { window_bytes: Some(16_000), block_bytes: 4096, ..plan(Duration::from_secs(2)) };
        assert_limit(&lan, small, Direction::Up, &[Limit::ReceiveWindow, Limit::SendBuffer]);
    });
}

#[test]
fn a_bottleneck_that_is_full_is_the_limit() {
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
        // At tens of Gb/s a thread that runs late lets a buffer fill or run empty within the interval: the hosts' doing, too.
        // What must not be blamed is the network, which has no limit here.
        let hosts = [Limit::SenderCpu, Limit::ReceiverCpu, Limit::SendBuffer, Limit::ReceiveWindow];
        assert_limit(&lan, plan(Duration::from_secs(2)), Direction::Up, &hosts);
    });
}
