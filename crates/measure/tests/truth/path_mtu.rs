//! Paths that silently drop large packets: sessions survive, and the verdict names the size that passes.

use std::time::Duration;

use results::{Direction, Limit, TestPlan};
use testbed::{Lan, Outcome, Place, or_skip, plan};

use crate::complete;

/// Full-size packets have 1500 bytes.
const PASSES: u32 = 1400;

fn network(towards: &[Place]) -> Option<Lan> {
    let lan = or_skip(Lan::with_router())?;
    for place in towards {
        match lan.drop_larger_towards(*place, PASSES) {
            Ok(()) => {}
            Err(e) => {
                println!("skipped: needs nft: {e}");
                return None;
            }
        }
    }
    Some(lan)
}

fn assert_named(outcome: &Outcome, direction: Direction) {
    let found = outcome.direction(direction).path_mtu.unwrap_or_else(|| panic!("{:?}", outcome.end.warnings));
    assert_eq!((found.lost_bytes, found.passing_bytes, found.passing_mss_bytes), (1500, 1400, 1360));
    let is_reported = outcome
        .end
        .warnings
        .iter()
        .any(|w| w.contains("1500 B do not get through, 1400 B do") && w.contains("-M 1360"));
    assert!(is_reported, "{:?}", outcome.end.warnings);
}

#[test]
fn a_black_hole_is_reported_in_either_direction() {
    let Some(lan) = network(&[Place::Client, Place::Server]) else { return };
    for direction in [Direction::Up, Direction::Down] {
        let outcome = complete(&lan, TestPlan { directions: vec![direction], ..plan(Duration::from_secs(2)) });
        assert_named(&outcome, direction);
        let summary = outcome.direction(direction);
        assert_eq!((summary.receiver.bytes, summary.limits.get(&Limit::PathMtu)), (0, Some(&1.0)));
    }
    // The recommended setting works.
    let outcome = complete(&lan, TestPlan { mss_bytes: Some(1360), ..plan(Duration::from_secs(1)) });
    let up = outcome.direction(Direction::Up);
    assert!(up.agreement.agree && up.receiver.bytes > 1_000_000, "{:?}", up.agreement);
    assert_eq!((up.path_mtu, up.limits.get(&Limit::PathMtu)), (None, None));
}

#[test]
fn a_sender_with_mtu_probing_is_measured_and_the_black_hole_reported() {
    let Some(lan) = network(&[Place::Client, Place::Server]) else { return };
    lan.client.set("net/ipv4/tcp_mtu_probing", "1").unwrap();
    // The kernel starts to probe after two retransmission timeouts instead of three: within a second.
    lan.client.set("net/ipv4/tcp_retries1", "2").unwrap();
    let outcome = complete(&lan, plan(Duration::from_secs(8)));
    let up = outcome.direction(Direction::Up);
    assert!(up.receiver.bytes > 100_000 && up.agreement.agree, "{:?}", up.agreement);
    assert_named(&outcome, Direction::Up);
    assert_eq!(up.limits.get(&Limit::PathMtu), None, "data was transferred");
}

#[test]
fn an_upload_works_if_only_the_return_path_drops_large_packets() {
    let Some(lan) = network(&[Place::Client]) else { return };
    let outcome = complete(&lan, plan(Duration::from_secs(2)));
    let up = outcome.direction(Direction::Up);
    assert!(up.agreement.agree && up.receiver.bytes > 1_000_000, "{:?}", up.agreement);
    assert_eq!(up.path_mtu, None);
    // The server's report arrived over the return path.
    assert!(outcome.intervals.iter().any(|i| i.role == results::Role::Receiver));
}
