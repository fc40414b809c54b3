//! Rates that are set are kept from 10 kb/s on, little waits unsent, and a test by time ends at its time.

use std::time::Duration;

use results::{Direction, TestPlan};
use testbed::{Bottleneck, Lan, Place, Served, client_options, or_skip, plan, run_test, server_options};
use units::Rate;

use crate::{complete, ms};

/// One row: what each stream is asked for.
struct Asked {
    bps: u64,
    block: u64,
    unsent: Option<u32>,
    streams: u32,
}

impl Asked {
    /// 50 ms of the rate where nothing is asked for.
    fn bound(&self) -> u64 {
        self.unsent.map_or(self.bps / 8 / 20, u64::from)
    }
}

#[test]
fn a_paced_test_sends_what_was_asked_for_and_ends_at_its_time() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let rows = [
        Asked { bps: 10_000, block: 62, unsent: None, streams: 1 },
        Asked { bps: 10_000, block: 125, unsent: None, streams: 1 },
        Asked { bps: 100_000, block: 65_536, unsent: None, streams: 4 },
        Asked { bps: 100_000, block: 1_000, unsent: None, streams: 1 },
        Asked { bps: 1_000_000, block: 1_000, unsent: None, streams: 1 },
        Asked { bps: 1_000_000, block: 1_000, unsent: Some(4_000), streams: 1 },
        Asked { bps: 200_000, block: 4_096, unsent: None, streams: 128 },
    ];
    for asked in rows {
        let seconds = 2;
        let plan = TestPlan {
            rate_bps: Some(asked.bps),
            block_bytes: asked.block,
            notsent_lowat_bytes: asked.unsent,
            streams: asked.streams,
            ..plan(Duration::from_secs(seconds))
        };
        let outcome = complete(&lan, plan);
        let up = outcome.direction(Direction::Up);
        let rtt = up.block_rtt.as_ref().map_or(0, |r| r.p50_ns);
        let (sent, took) = (up.sender.bytes, up.receiver.duration_s);
        println!("{} b/s x {}: {sent} B in {took:.2} s, block {:.1} ms", asked.bps, asked.streams, ms(rtt));
        assert!(up.agreement.agree, "{:?}", up.agreement);
        let (bytes, streams) = (asked.bps / 8 * seconds, u64::from(asked.streams));
        assert!(sent <= (bytes + asked.bound()) * streams, "{sent}");
        // The kernel does not make up for the time in which a busy host does not run a thread; of 128 it runs some late all the time.
        assert!(sent >= bytes * streams / 2, "{sent}");
        // What is unsent takes 50 ms; a loaded machine gets as much as the test is long.
        assert!(took < 2.0 * seconds as f64, "{took} s");
        // The header of a block goes when half of what waited is sent at the latest. Three times that for a loaded machine;
        // the packet buffer of 45 segments that the kernel fills by itself would take half a second and more.
        let unsent = Duration::from_secs_f64(asked.bound() as f64 * 8.0 / asked.bps as f64);
        assert!(Duration::from_nanos(rtt) < unsent * 3, "{} ms", ms(rtt));
    }
}

#[test]
fn a_slow_line_that_nobody_paces_delivers_all_within_the_grace_time() {
    let Some(lan) = or_skip(Lan::with_router()) else { return };
    // 512 kb/s and 1.5 s of queue. Send buffers that tune themselves would hold megabytes, most of a minute.
    let rate = Rate::from_bps(512_000);
    lan.shape(Place::Router, &Bottleneck::with_depth(rate, Duration::from_millis(1500))).unwrap();
    let served = Served::start(&lan.server, server_options(lan.server_ip())).unwrap();
    let plan = TestPlan { streams: 3, ..plan(Duration::from_secs(4)) };
    let mut options = client_options(lan.server_ip(), served.port(), plan);
    options.grace = Duration::from_secs(10);
    let outcome = run_test(&lan.client, options, Duration::from_secs(60)).unwrap();
    let up = outcome.direction(Direction::Up);
    println!("{} B sent, {} B received in {:.1} s", up.sender.bytes, up.receiver.bytes, up.receiver.duration_s);
    assert!(up.agreement.agree, "{:?}", up.agreement);
}
