//! Attribution of the delay to its stages, and its size on an idle path.

use std::time::Duration;

use results::{Decomposition, DelaySummary, Direction, TestPlan};
use testbed::{Background, Bottleneck, Lan, Outcome, Place, idle_round_trip, or_skip, plan, undisturbed};
use units::{Bytes, Rate};

use crate::{complete, ms};

const RATE: Rate = Rate::from_bps(50_000_000);
/// Maximum size of an offloaded packet in bytes (GSO_LEGACY_MAX_SIZE in include/linux/netdevice.h).
const OFFLOADED_BYTES_MAX: u64 = 65_536;

/// Medians of the stages, in ms: socket buffer, queueing discipline, network, receiving application.
fn medians(d: &Decomposition) -> [f64; 4] {
    let p50 = |s: &Option<DelaySummary>| s.as_ref().map_or(f64::NAN, |s| ms(s.p50_ns));
    [p50(&d.socket_buffer), p50(&d.qdisc), p50(&d.network), p50(&d.receiver_app)]
}

/// Whether the observed queue explains a delay.
///
/// 15 %: the observation samples the queue of a growing load, at times that a busy host delays. 4 ms: the byte count
/// changes by whole offloaded packets (up to 64 KiB, 10 ms at this rate).
fn explains(queue_ms: f64, delay_ms: f64) -> bool {
    (delay_ms - queue_ms).abs() <= 0.15 * queue_ms + 4.0
}

/// Result of a test across a bottleneck at `place` (medians of the stages, in ms), and the median wait that the
/// observed queue explains.
struct Seen {
    outcome: Outcome,
    stages: [f64; 4],
    queue: f64,
}

fn measure(lan: &Lan, place: Place, plan: TestPlan) -> Seen {
    let bottleneck = Bottleneck::with_depth(RATE, Duration::from_millis(400));
    lan.shape(place, &bottleneck).unwrap();
    let watch = lan.watch(place).unwrap();
    let outcome = complete(lan, plan);
    let queue = bottleneck.delay_of(watch.median().unwrap()).as_secs_f64() * 1e3;
    let stages = medians(outcome.direction(Direction::Up).decomposition.as_ref().unwrap());
    println!("queue {queue:.1} ms; socket buffer, qdisc, network, receiver: {stages:.2?} ms");
    Seen { outcome, stages, queue }
}

fn load() -> TestPlan {
    // Reno has no HyStart, which would leave slow start before the queue is long enough to measure. The window bounds
    // it.
    TestPlan {
        congestion_control: Some("reno".to_owned()),
        window_bytes: Some(400_000),
        ..plan(Duration::from_secs(3))
    }
}

#[test]
fn a_queue_in_the_router_is_attributed_to_the_network() {
    undisturbed(|| {
        let Some(lan) = or_skip(Lan::with_router()) else { return };
        let Seen { outcome, stages, queue } = measure(&lan, Place::Router, load());
        let [_, qdisc, network, receiver] = stages;
        assert!(queue > 20.0, "no standing queue: {queue} ms");
        assert!(explains(queue, network), "queue {queue} ms, stages {stages:?}");
        assert!(qdisc < 0.1 * queue && receiver < 0.1 * queue, "queue {queue} ms, stages {stages:?}");
        // The queue is in one direction, which the two one-way delays distinguish.
        let up = outcome.direction(Direction::Up);
        let (there, back) = (up.one_way.as_ref().unwrap(), up.one_way_return.as_ref().unwrap());
        let there_ms = there.p50_ns as f64 / 1e6;
        assert!(explains(queue, there_ms), "queue {queue} ms, one-way delay {there_ms} ms");
        assert!(back.p50_ns as f64 / 1e6 < 0.1 * queue, "queue {queue} ms, back {} ns", back.p50_ns);
    });
}

/// A single TCP stream keeps its bytes in the socket buffer for any bottleneck in the host: TCP small queues let at
/// most two offloaded packets, or 1 ms at the pacing rate, wait in the queueing discipline (tcp_small_queue_check in
/// net/ipv4/tcp_output.c). `net.ipv4.tcp_limit_output_bytes` only lowers that bound, so that raising it has no effect.
#[test]
fn a_bottleneck_in_the_local_interface_keeps_the_bytes_in_the_socket_buffer() {
    undisturbed(|| {
        let Some(lan) = or_skip(Lan::two_hosts()) else { return };
        let Seen { outcome, stages, queue } = measure(&lan, Place::Client, load());
        let [buffer, qdisc, network, receiver] = stages;
        // The queue holds one or two whole packets, and the median of its samples is one of these two values.
        let packet = RATE.time_for(Bytes::new(OFFLOADED_BYTES_MAX)).unwrap().as_secs_f64() * 1e3;
        assert!(qdisc > 0.85 * queue && qdisc < 1.15 * (queue + packet), "queue {queue} ms, stages {stages:?}");
        assert!(buffer > 2.0 * qdisc, "stages {stages:?}");
        assert!(network < 0.1 * qdisc && receiver < 0.1 * qdisc, "stages {stages:?}");
        // The application's delay contains all stages. 15 %: medians of sums are not sums of medians.
        let felt = ms(outcome.direction(Direction::Up).block_rtt.as_ref().unwrap().p50_ns);
        let sum: f64 = stages.iter().sum();
        assert!((felt - sum).abs() <= 0.15 * felt, "block round trip {felt} ms, stages {stages:?}");
    });
}

/// The same bottleneck, with a standing queue of other traffic of the same host before it.
#[test]
fn a_queue_in_the_local_interface_is_attributed_to_the_queueing_discipline() {
    undisturbed(|| {
        let Some(lan) = or_skip(Lan::two_hosts()) else { return };
        // The kernel charges 400 000 bytes for about 250 000 bytes in the queue: 40 ms.
        let background = Background::start(&lan.client, &lan.server, lan.server_ip(), 400_000).unwrap();
        let gentle = TestPlan { rate_bps: Some(5_000_000), ..load() };
        let Seen { stages, queue, .. } = measure(&lan, Place::Client, gentle);
        drop(background);
        let [_, qdisc, network, receiver] = stages;
        assert!(queue > 20.0, "no standing queue: {queue} ms");
        assert!(explains(queue, qdisc), "queue {queue} ms, stages {stages:?}");
        assert!(network < 0.1 * queue && receiver < 0.1 * queue, "queue {queue} ms, stages {stages:?}");
    });
}

#[test]
fn the_minimum_round_trips_equal_those_of_an_idle_probe() {
    undisturbed(|| {
        let Some(lan) = or_skip(Lan::two_hosts()) else { return };
        let idle = idle_round_trip(&lan.client, &lan.server, lan.server_ip(), 300).unwrap();
        // Buffers for a few small blocks: each is written and sent into an empty path, like a ping. A pacing rate would
        // make blocks wait in the socket, and on an idle path that wait would dominate their round trip.
        let idle_path = TestPlan { window_bytes: Some(8_000), block_bytes: 1400, ..plan(Duration::from_secs(2)) };
        let outcome = complete(&lan, idle_path);
        let up = outcome.direction(Direction::Up);
        let (kernel, block) = (up.kernel_min_rtt_ns.unwrap(), up.block_rtt.as_ref().unwrap().min_ns);
        println!("idle probe {idle:?}, kernel {:.3} ms, block {:.3} ms", ms(kernel), ms(block));
        for (name, ns) in [("kernel", kernel), ("block", block)] {
            let apart = Duration::from_nanos(ns).abs_diff(idle);
            assert!(apart < Duration::from_micros(200), "{name} {:.3} ms, idle probe {idle:?}", ms(ns));
        }
    });
}

/// Pacing splits the blocks into packet buffers at arbitrary offsets; each sampled header must keep its timestamps.
#[test]
fn no_block_arrives_before_it_was_sent() {
    let Some(lan) = or_skip(Lan::two_hosts()) else { return };
    for zero_copy in [false, true] {
        let paced = TestPlan { rate_bps: Some(100_000_000), zero_copy, ..plan(Duration::from_secs(2)) };
        let outcome = complete(&lan, paced);
        let up = outcome.direction(Direction::Up);
        let (there, stages) = (up.one_way.as_ref().unwrap(), up.decomposition.as_ref().unwrap());
        println!("{there:?} {:?}", stages.missing);
        // 200 samples a second.
        assert!(there.count > 100, "{there:?}");
        assert_eq!(there.discarded, 0, "{:?}", stages.missing);
        // 100 us for reading the clocks.
        assert!(there.min_ns >= -(there.bound_ns as i64) - 100_000, "{there:?}");
        assert!(!stages.missing.iter().any(|m| m.contains("backwards")), "{:?}", stages.missing);
        // Nearly every sample has a timestamp of its acknowledgement if the timestamps stay with their bytes.
        let acknowledged = stages.network.as_ref().unwrap().count;
        assert!(acknowledged * 20 > stages.samples * 19, "{acknowledged} of {}", stages.samples);
    }
}
