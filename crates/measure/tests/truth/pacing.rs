//! Paced streams keep rates from 10 kb/s on, have few unsent bytes, and end a timed test at its time.

use std::time::Duration;

use results::{Direction, TestPlan};
use testbed::{Bottleneck, Lan, Place, Served, client_options, or_skip, plan, run_test, server_options};
use units::Rate;

use crate::{complete, ms};

/// One row: the settings of each stream.
struct Settings {
    bps: u64,
    block: u64,
    unsent: Option<u32>,
    streams: u32,
}

impl Settings {
    /// Bound on unsent bytes: 50 ms of the rate unless set.
    fn bound(&self) -> u64 {
        self.unsent.map_or(self.bps / 8 / 20, u64::from)
    }
}

#[test]
fn a_paced_test_keeps_its_rate_and_duration() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    let rows = [
        Settings { bps: 10_000, block: 62, unsent: None, streams: 1 },
        Settings { bps: 10_000, block: 125, unsent: None, streams: 1 },
        Settings { bps: 100_000, block: 65_536, unsent: None, streams: 4 },
        Settings { bps: 100_000, block: 1_000, unsent: None, streams: 1 },
        Settings { bps: 1_000_000, block: 1_000, unsent: None, streams: 1 },
        Settings { bps: 1_000_000, block: 1_000, unsent: Some(4_000), streams: 1 },
        Settings { bps: 200_000, block: 4_096, unsent: None, streams: 128 },
    ];
    for settings in rows {
        let seconds = 2;
        let plan = TestPlan {
            rate_bps: Some(settings.bps),
            block_bytes: settings.block,
            notsent_lowat_bytes: settings.unsent,
            streams: settings.streams,
            ..plan(Duration::from_secs(seconds))
        };
        let outcome = complete(&lan, plan);
        let up = outcome.direction(Direction::Up);
        let rtt = up.block_rtt.as_ref().map_or(0, |r| r.p50_ns);
        let (sent, took) = (up.sender.bytes, up.receiver.duration_s);
        println!("{} b/s x {}: {sent} B in {took:.2} s, block {:.1} ms", settings.bps, settings.streams, ms(rtt));
        assert!(up.agreement.agree, "{:?}", up.agreement);
        let (bytes, streams) = (settings.bps / 8 * seconds, u64::from(settings.streams));
        assert!(sent <= (bytes + settings.bound()) * streams, "{sent}");
        // The kernel does not make up for the time in which a busy host delays a thread; of 128 threads some are always
        // late.
        assert!(sent >= bytes * streams / 2, "{sent}");
        // Unsent bytes take 50 ms; the tolerance for a loaded machine is the duration of the test.
        assert!(took < 2.0 * seconds as f64, "{took} s");
        // The header of a block leaves at the latest when half of the unsent bytes are sent. Three times that for a
        // loaded machine; a packet buffer of 45 segments, which the kernel fills by itself, would take half a second
        // and more.
        let unsent = Duration::from_secs_f64(settings.bound() as f64 * 8.0 / settings.bps as f64);
        assert!(Duration::from_nanos(rtt) < unsent * 3, "{} ms", ms(rtt));
    }
}

#[test]
fn an_unpaced_slow_line_delivers_all_data_within_the_grace_time() {
    let Some(lan) = or_skip(Lan::with_router()) else { return };
    // 512 kb/s with 1.5 s of queue. Autotuned send buffers would hold megabytes, most of a minute.
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
