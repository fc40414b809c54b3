//! Rate of a bottleneck, and the clocks, which both hosts share.

use std::time::Duration;

use results::{Direction, TestPlan};
use testbed::{Bottleneck, Lan, Place, or_skip, plan, undisturbed};
use units::Rate;

use crate::complete;

const RATE: Rate = Rate::from_bps(100_000_000);

/// Goodput behind a token bucket that counts Ethernet headers: the payload's share of each frame.
fn expected(rate: Rate, mss: u64, mtu: u64) -> f64 {
    rate.as_bps() as f64 * mss as f64 / (mtu + 14) as f64
}

#[test]
fn goodput_is_the_bottleneck_rate_minus_headers_and_the_clocks_agree() {
    undisturbed(|| {
        let Some(lan) = or_skip(Lan::with_router()) else { return };
        lan.shape(Place::Router, &Bottleneck::with_depth(RATE, Duration::from_millis(100))).unwrap();
        // Reno fills the queue at once, so that the bottleneck is never idle; the window prevents its overflow.
        let steady = TestPlan {
            congestion_control: Some("reno".to_owned()),
            window_bytes: Some(500_000),
            ..plan(Duration::from_secs(4))
        };
        let outcome = complete(&lan, steady);
        let up = outcome.direction(Direction::Up);
        let stream = &outcome.start.as_ref().unwrap().streams[0];
        let truth = expected(RATE, stream.mss_bytes.unwrap(), stream.pmtu_bytes.unwrap());
        let off = up.throughput_bps as f64 / truth - 1.0;
        println!("goodput {} bit/s, {:+.2} % of the bucket's goodput", up.throughput_bps, off * 100.0);
        assert!(off.abs() < 0.03, "goodput {} bit/s, expected {truth:.0}", up.throughput_bps);
        assert!(up.agreement.agree, "{:?}", up.agreement);

        // Both namespaces have one clock: the true offset and drift are zero.
        let clock = outcome.end.clock.as_ref().unwrap();
        println!(
            "offset {} ns +/- {} ns, drift {} ppm +/- {}",
            clock.offset_ns, clock.bound_ns, clock.drift_ppm, clock.drift_bound_ppm
        );
        assert!(clock.offset_ns.unsigned_abs() <= clock.bound_ns, "{clock:?}");
        assert!(clock.drift_ppm.abs() <= clock.drift_bound_ppm, "{clock:?}");
        // A large bound would also pass the checks above: the delay of the idle path is far below 1 ms even on a loaded
        // machine.
        assert!(clock.bound_ns < 1_000_000, "{clock:?}");
    });
}
