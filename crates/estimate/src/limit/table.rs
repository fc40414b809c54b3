//! The truth table of verdicts: the limiting factor of a transfer and the verdict that must follow, each with BBR and
//! CUBIC.
//!
//! The series are one second of a path of 100 Mb/s and 40 ms as `lab path` makes it: a bandwidth-delay product of 500
//! kB and, unless stated otherwise, a queue of the same size.

use super::*;
use results::{Limit, TcpState};
use units::{Bytes, Duration, Rate};

const MS: u64 = 1_000_000;
const MSS: u64 = 1448;
/// Goodput of the full link: 1448 of 1538 bytes.
const FULL_BPS: u64 = 94_150_000;

/// Socket state of one second: its rate, its window and the round trips, with all other values unlimited.
struct Second {
    bps: u64,
    cwnd: u64,
    flight: u64,
    low_ms: u64,
    median_ms: u64,
    retransmits: u64,
}

fn evidence(bbr: bool, second: &Second) -> SenderEvidence {
    let pacing = if bbr { second.bps * 106 / 100 } else { second.cwnd * 8 * 1000 / second.median_ms * 12 / 10 };
    let state = |busy_ms: u64, retransmits| TcpState {
        busy_ns: busy_ms * MS,
        cwnd_bytes: second.cwnd,
        srtt_ns: second.median_ms * MS,
        rttvar_ns: MS / 2,
        min_rtt_ns: Some(40 * MS),
        mss_bytes: MSS,
        snd_wnd_bytes: 6_000_000,
        unacked_segments: second.flight / MSS,
        notsent_bytes: 700_000,
        pacing_rate_bps: Some(pacing),
        delivery_rate_bps: second.bps,
        retransmits,
        ..TcpState::default()
    };
    let (min, low) = (Duration::from_millis(40), Duration::from_millis(second.low_ms));
    SenderEvidence {
        interval: Duration::from_secs(1),
        before: state(3000, 100),
        after: state(4000, 100 + second.retransmits),
        thread_cpu: Duration::from_millis(20),
        blocked: Duration::from_millis(950),
        is_paced: bbr,
        round_trips: Some(RoundTrips { min, low, median: Duration::from_millis(second.median_ms) }),
        busiest_cpu: Some(0.3),
        bytes: second.bps / 8,
        ..SenderEvidence::default()
    }
}

fn full(bbr: bool) -> SenderEvidence {
    // CUBIC fills the queue by 12 to 38 ms and overflows it occasionally; BBR holds at most a quarter of a product.
    let cubic = Second { bps: FULL_BPS, cwnd: 800_000, flight: 790_000, low_ms: 56, median_ms: 64, retransmits: 40 };
    let own = Second { bps: FULL_BPS, cwnd: 1_000_000, flight: 520_000, low_ms: 40, median_ms: 42, retransmits: 0 };
    evidence(bbr, if bbr { &own } else { &cubic })
}

fn random_loss(bbr: bool) -> SenderEvidence {
    // One packet in a hundred: CUBIC is far below the link, with an empty queue; BBR is not affected.
    let cubic = Second { bps: 4_200_000, cwnd: 21_000, flight: 20_000, low_ms: 40, median_ms: 40, retransmits: 4 };
    let own = Second { bps: FULL_BPS, cwnd: 1_000_000, flight: 520_000, low_ms: 40, median_ms: 41, retransmits: 81 };
    evidence(bbr, if bbr { &own } else { &cubic })
}

fn short_queue(bbr: bool) -> SenderEvidence {
    // Ten packets of queue: CUBIC falls to 70 % without a queue to cover that; BBR overflows it in its probes.
    let cubic = Second { bps: 74_000_000, cwnd: 360_000, flight: 350_000, low_ms: 40, median_ms: 40, retransmits: 12 };
    let own = Second { bps: 92_000_000, cwnd: 1_000_000, flight: 510_000, low_ms: 40, median_ms: 41, retransmits: 300 };
    evidence(bbr, if bbr { &own } else { &cubic })
}

fn codel(bbr: bool) -> SenderEvidence {
    // CUBIC loses one packet in two seconds at a queue of 5 ms, and with 0.7 of the window keeps 93 % of the rate. BBR
    // at the same path, whose queue it fills in its probes only.
    let cubic = Second { bps: 87_600_000, cwnd: 480_000, flight: 470_000, low_ms: 41, median_ms: 44, retransmits: 1 };
    let own = Second { bps: FULL_BPS, cwnd: 1_000_000, flight: 520_000, low_ms: 40, median_ms: 41, retransmits: 20 };
    let mut e = evidence(bbr, if bbr { &own } else { &cubic });
    e.after.delivery_rate_bps = FULL_BPS;
    e
}

/// The data in flight is that of the window or buffer: 64 kB in 40 ms are 13.1 Mb/s.
fn held_at_64_kb(bbr: bool) -> SenderEvidence {
    let second = Second { bps: 13_100_000, cwnd: 130_000, flight: 65_000, low_ms: 40, median_ms: 40, retransmits: 0 };
    evidence(bbr, &second)
}

fn receive_window(bbr: bool) -> SenderEvidence {
    let mut e = held_at_64_kb(bbr);
    e.after.snd_wnd_bytes = 65_536;
    // BBR reaches the window only in its faster phases, and only there the kernel's clock runs.
    e.after.rwnd_limited_ns = if bbr { 300 * MS } else { 960 * MS };
    e
}

fn send_buffer(bbr: bool) -> SenderEvidence {
    let mut e = held_at_64_kb(bbr);
    e.after.notsent_bytes = 0;
    e.after.sndbuf_limited_ns = if bbr { 200 * MS } else { 940 * MS };
    e
}

fn paced(bbr: bool) -> SenderEvidence {
    let second = Second { bps: 19_100_000, cwnd: 190_000, flight: 97_000, low_ms: 40, median_ms: 40, retransmits: 0 };
    let mut e = evidence(bbr, &second);
    e.pacing_set = Some(Rate::from_bps(20_000_000));
    e
}

fn slow_application(bbr: bool) -> SenderEvidence {
    let second = Second { bps: 8_000_000, cwnd: 500_000, flight: 40_000, low_ms: 40, median_ms: 40, retransmits: 0 };
    let mut e = evidence(bbr, &second);
    (e.app_idle, e.blocked) = (Duration::from_millis(800), Duration::ZERO);
    e.after.busy_ns = e.before.busy_ns + 200 * MS;
    e.after.delivery_rate_app_limited = true;
    e
}

fn slow_cpu(bbr: bool) -> SenderEvidence {
    let second = Second { bps: 60_000_000, cwnd: 900_000, flight: 300_000, low_ms: 40, median_ms: 40, retransmits: 0 };
    let mut e = evidence(bbr, &second);
    (e.thread_cpu, e.blocked) = (Duration::from_millis(970), Duration::from_millis(10));
    e
}

#[test]
fn each_cause_has_its_verdict_with_bbr_and_with_cubic() {
    type Row = (&'static str, fn(bool) -> SenderEvidence, Limit, Limit);
    let rows: [Row; 9] = [
        ("full link", full, Limit::Bottleneck, Limit::Bottleneck),
        ("random loss", random_loss, Limit::Bottleneck, Limit::Loss),
        ("short queue", short_queue, Limit::Bottleneck, Limit::Loss),
        ("CoDel", codel, Limit::Bottleneck, Limit::Bottleneck),
        ("receive window", receive_window, Limit::ReceiveWindow, Limit::ReceiveWindow),
        ("send buffer", send_buffer, Limit::SendBuffer, Limit::SendBuffer),
        ("paced", paced, Limit::Pacing, Limit::Pacing),
        ("slow application", slow_application, Limit::Application, Limit::Application),
        ("slow CPU", slow_cpu, Limit::SenderCpu, Limit::SenderCpu),
    ];
    for (name, cause, bbr, cubic) in rows {
        let verdict = |paces| judge(&cause(paces), None);
        assert_eq!(verdict(true).limit, bbr, "{name}, BBR: {:?}", verdict(true));
        assert_eq!(verdict(false).limit, cubic, "{name}, CUBIC: {:?}", verdict(false));
    }
}

#[test]
fn a_full_path_reports_its_rate_its_queue_and_its_losses() {
    let text = judge(&full(false), None).evidence;
    for part in ["path full: 94.15 Mb/s", "24.000 ms of queue", "40 retransmits"] {
        assert!(text.contains(part), "`{part}` is not in `{text}`");
    }
    let lossless = judge(&SenderEvidence { before: full(false).after, ..full(false) }, None);
    assert!(!lossless.evidence.contains("retransmits"), "{lossless:?}");
}

#[test]
fn a_window_larger_than_the_path_fills_it_and_is_not_the_limit() {
    let mut e = full(false);
    e.after.rwnd_limited_ns = 990 * MS;
    assert_eq!(judge(&e, None).limit, Limit::Bottleneck);
}

#[test]
fn a_window_below_the_path_is_the_limit_although_its_bursts_queue() {
    // CUBIC and BBR with a window of 60 kB over `lab path --rate 20Mb/s --rtt 40ms`, as the kernel reported them.
    for (bbr, srtt_us, delivery_bps) in [(false, 49_736, 13_106_968), (true, 45_596, 12_562_504)] {
        let second =
            Second { bps: 10_485_000, cwnd: 104_256, flight: 65_000, low_ms: 40, median_ms: 50, retransmits: 0 };
        let mut e = evidence(bbr, &second);
        let srtt = Duration::from_micros(srtt_us);
        e.round_trips = Some(RoundTrips { min: Duration::from_micros(40_083), low: srtt, median: srtt });
        (e.after.srtt_ns, e.after.notsent_bytes, e.after.snd_wnd_bytes) = (srtt_us * 1000, 376, 65_536);
        (e.after.delivery_rate_bps, e.after.delivery_rate_app_limited) = (delivery_bps, true);
        e.after.sndbuf_limited_ns = 1000 * MS;
        assert_eq!(judge(&e, None).limit, Limit::SendBuffer, "{:?}", judge(&e, None));
    }
}

#[test]
fn a_round_trip_that_only_varies_is_no_queue() {
    // Random delay of 0 to 20 ms, and loss of one packet in a hundred: the smoothed round trip is always above the
    // smallest.
    let mut e = random_loss(false);
    e.round_trips = Some(RoundTrips {
        min: Duration::from_millis(40),
        low: Duration::from_millis(48),
        median: Duration::from_millis(50),
    });
    e.after.rttvar_ns = 5 * MS;
    assert_eq!(judge(&e, None).limit, Limit::Loss);
    // Jitter of 10 ms in `lab path`: the smallest of all round trips is far below the mean.
    let min = Duration::from_micros(23_323);
    e.round_trips = Some(RoundTrips { min, low: Duration::from_millis(47), median: Duration::from_millis(49) });
    assert_eq!(judge(&e, None).limit, Limit::Loss);
    // The same round trip with hardly any deviation is a queue of cross traffic.
    e.after.rttvar_ns = MS / 2;
    e.bytes = 2_000_000;
    assert_eq!(judge(&e, None).limit, Limit::Bottleneck);
}

#[test]
fn a_given_link_rate_that_is_reached_makes_the_link_the_limit() {
    let (link, payload, frame) = (Rate::from_bps(100_000_000), Bytes::new(MSS), Bytes::new(1538));
    let loss = judge(&short_queue(false), None);
    let at = |bps, before: &_| full_link(Rate::from_bps(bps), link, payload, frame, before);
    let verdict = at(93_900_000, &loss).unwrap();
    assert_eq!(verdict.limit, Limit::Bottleneck);
    assert!(verdict.evidence.starts_with("path full: 93.90 Mb/s of 94.15 Mb/s; "), "{}", verdict.evidence);
    assert_eq!(at(74_000_000, &loss), None, "well below the link");
    assert_eq!(at(94_000_000, &judge(&paced(true), None)), None, "a rate that was set stays the limit");
    assert_eq!(full_link(link, link, payload, Bytes::ZERO, &loss), None);
}

#[test]
fn a_slow_disk_at_either_end_is_the_limit() {
    let second = Second { bps: 20_000_000, cwnd: 300_000, flight: 100_000, low_ms: 40, median_ms: 40, retransmits: 0 };
    let reading = SenderEvidence {
        disk: Duration::from_millis(900),
        blocked: Duration::from_millis(20),
        ..evidence(false, &second)
    };
    assert_eq!(judge(&reading, None).limit, Limit::Disk);
    let quick_disk = SenderEvidence { disk: Duration::from_millis(100), ..full(false) };
    assert_eq!(judge(&quick_disk, None).limit, Limit::Bottleneck);
    // A host whose CPUs other work occupies: the thread waits for the disk, not for a CPU.
    let busy_host = SenderEvidence { busiest_cpu: Some(1.0), ..reading };
    assert_eq!(judge(&busy_host, None).limit, Limit::Disk);
    // A receiver that waits for its disk does not read, so that the window closes.
    let writing = ReceiverEvidence {
        disk: Duration::from_millis(950),
        interval: Duration::from_secs(1),
        ..ReceiverEvidence::default()
    };
    assert_eq!(judge(&receive_window(false), Some(&writing)).limit, Limit::Disk);
    let idle = ReceiverEvidence { disk: Duration::from_millis(50), ..writing };
    assert_eq!(judge(&receive_window(false), Some(&idle)).limit, Limit::ReceiveWindow);
}

#[test]
fn a_receiver_that_spends_its_time_at_the_disk_is_the_limit_whatever_its_full_buffer_causes() {
    let at_disk = |ms| ReceiverEvidence {
        disk: Duration::from_millis(ms),
        thread_cpu: Duration::from_millis(30),
        interval: Duration::from_secs(1),
        ..ReceiverEvidence::default()
    };
    for bbr in [false, true] {
        // Over loopback with a disk of 20 MB/s: the kernel of the receiver drops segments for which it has no memory.
        let second =
            Second { bps: 160_000_000, cwnd: 320_000, flight: 300_000, low_ms: 40, median_ms: 40, retransmits: 38 };
        let drops = evidence(bbr, &second);
        // The bytes that wait in the receive buffer delay the round trips.
        let queue = full(bbr);
        for e in [drops, queue, random_loss(bbr)] {
            assert_eq!(judge(&e, Some(&at_disk(970))).limit, Limit::Disk, "{:?}", judge(&e, Some(&at_disk(970))));
            // A disk that waits for the network for a part of the time is faster than the path.
            assert_ne!(judge(&e, Some(&at_disk(600))).limit, Limit::Disk);
        }
        let text = judge(&random_loss(bbr), Some(&at_disk(970))).evidence;
        assert_eq!(text, "writing to the disk took 97 %; receiving thread 3 % CPU");
        // A thread that computes all the time, for example in copies to the page cache, is limited by its CPU.
        let computing = ReceiverEvidence { thread_cpu: Duration::from_millis(960), ..at_disk(950) };
        assert_ne!(judge(&random_loss(bbr), Some(&computing)).limit, Limit::Disk);
        // A rate that the user set is the limit of a disk that follows it.
        assert_eq!(judge(&paced(bbr), Some(&at_disk(950))).limit, Limit::Pacing);
    }
}

#[test]
fn a_queue_of_half_the_time_is_a_full_path_only_at_the_rate_of_the_path() {
    // After a burst of losses CUBIC needs seconds to fill the path again; other traffic makes a queue meanwhile.
    let mut e = codel(false);
    e.bytes = 60_000_000 / 8;
    assert_eq!(judge(&e, None).limit, Limit::Loss);
    // `lab path --rate 50Mb/s --rtt 40ms` with CoDel after such a burst: the smallest round trip is 1 ms below the
    // others.
    let second = Second { bps: 31_600_000, cwnd: 175_000, flight: 170_000, low_ms: 41, median_ms: 41, retransmits: 1 };
    assert_eq!(judge(&evidence(false, &second), None).limit, Limit::Loss);
}
