//! The formulas of RFC 6349 (framework for TCP throughput testing) and a report made of them.
//!
//! Inputs: measured values. Outputs: the RFC's metrics, `None` where the RFC's formula divides by zero.

use results::Rfc6349;
use units::{Bytes, Duration, Rate};

/// Minimum round trip for a buffer delay. Shorter ones consist of delays of the hosts themselves.
const MEASURABLE_RTT_MIN: Duration = Duration::from_millis(1);

/// Ethernet's overhead per frame in addition to the MTU: header 14, FCS 4, gap 12, preamble 7, start of frame 1 (RFC
/// 6349 §3.3.2).
pub const ETHERNET_FRAMING: Bytes = Bytes::new(38);

/// IPv4 and TCP headers without options (RFC 6349 §3.3.2 subtracts 40 from the MTU).
const IPV4_TCP_BYTES: u64 = 40;
/// IPv6 and TCP headers without options.
const IPV6_TCP_BYTES: u64 = 60;
/// The timestamps option with its padding (RFC 7323 appendix A).
const TIMESTAMPS_BYTES: u64 = 12;

/// Inputs of [`report`] for one direction of one test.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Inputs {
    /// Rate of the narrow link, if the user gave one.
    pub link_rate: Option<Rate>,
    /// Highest rate over several round trips within the load.
    pub highest_rate: Rate,
    /// Path MTU that TCP used.
    pub mtu: Bytes,
    /// Maximum segment size; it distinguishes IPv4 from IPv6, with or without the space for timestamps.
    pub mss: Bytes,
    /// Whether the TCP timestamps option was on.
    pub timestamps: bool,
    /// Whether segments of the MTU's size were delivered.
    pub mtu_verified: bool,
    /// Bytes that the receiving application read.
    pub bytes_transferred: Bytes,
    /// Duration in which it read them.
    pub actual_duration: Duration,
    /// Payload bytes that TCP handed to the network, retransmissions included each time (`tcpi_bytes_sent`).
    pub bytes_sent: Bytes,
    /// Bytes of them retransmitted (`tcpi_bytes_retrans`).
    pub bytes_retransmitted: Bytes,
    /// Smallest round trip, measured like the mean: by the kernel.
    pub baseline_rtt: Duration,
    /// Mean of the round trips sampled every second during the transfer; zero without samples.
    pub mean_rtt: Duration,
    /// Receive window that the user set; `None` with autotuning.
    pub window: Option<Bytes>,
}

/// Bandwidth-delay product (RFC 6349 §3.3.1): `RTT x BB / 8`, which is also the smallest sufficient window.
pub fn bdp(rtt: Duration, bottleneck: Rate) -> Bytes {
    bottleneck.bytes_in(rtt)
}

/// Full frames per second (RFC 6349 §3.3.2): `link / ((MTU + framing) x 8)`; zero without a frame.
///
/// `framing` is the link's overhead per frame: [`ETHERNET_FRAMING`], or 8 bytes for the RFC's T3 with PPP.
pub fn frames_per_second(link: Rate, mtu: Bytes, framing: Bytes) -> f64 {
    let bits = (mtu + framing).as_u64() as f64 * 8.0;
    if bits > 0.0 { link.as_bps() as f64 / bits } else { 0.0 }
}

/// Highest TCP throughput of an Ethernet link (RFC 6349 §3.3.2): `FPS x (MTU - headers) x 8`.
///
/// `header_bytes` are IP and TCP headers with options: 40 for plain IPv4, 52 with timestamps, 20 more for IPv6.
pub fn max_tcp_throughput(link: Rate, mtu: Bytes, header_bytes: Bytes) -> Rate {
    let payload_bits = mtu.saturating_sub(header_bytes).as_u64() as f64 * 8.0;
    Rate::from_bps((frames_per_second(link, mtu, ETHERNET_FRAMING) * payload_bits) as u64)
}

/// TCP transfer time ratio (RFC 6349 §4.1): actual over ideal time; `None` if the ideal is zero.
pub fn transfer_time_ratio(actual: Duration, ideal: Duration) -> Option<f64> {
    (!ideal.is_zero()).then(|| actual.as_secs_f64() / ideal.as_secs_f64())
}

/// TCP efficiency in per cent (RFC 6349 §4.2): `(sent - retransmitted) / sent x 100`; `None` when nothing was sent.
///
/// `sent` includes the retransmissions, repeated ones each time.
pub fn tcp_efficiency_percent(sent: Bytes, retransmitted: Bytes) -> Option<f64> {
    let unique = sent.saturating_sub(retransmitted).as_u64() as f64;
    (sent > Bytes::ZERO).then(|| unique / sent.as_u64() as f64 * 100.0)
}

/// Buffer delay in per cent (RFC 6349 §4.3): `(mean - baseline) / baseline x 100`; `None` without a baseline.
///
/// It is negative if the loaded path was faster than the idle one, which invalidates the baseline.
pub fn buffer_delay_percent(mean_rtt: Duration, baseline_rtt: Duration) -> Option<f64> {
    let (mean, baseline) = (mean_rtt.as_secs_f64(), baseline_rtt.as_secs_f64());
    (baseline > 0.0).then(|| (mean - baseline) / baseline * 100.0)
}

/// Connections that fill the path with this window (RFC 6349 §5.1): `ceil(BDP / RWND)`; `None` for a window of zero.
pub fn connections_needed(bdp: Bytes, window: Bytes) -> Option<u64> {
    (window > Bytes::ZERO).then(|| bdp.as_u64().div_ceil(window.as_u64()))
}

/// The metrics of one direction.
///
/// With a link rate given, the ideal throughput is that of Ethernet framing with this MTU. Without one it is the
/// highest rate over several round trips, which excludes headers; the ratio then compares the transfer's own mean with
/// its best time. Neither is below the transfer's own rate, so that the ratio is at least 1 as in the RFC. A metric
/// whose formula is undefined (nothing sent, no round trip) is zero.
pub fn report(inputs: Inputs) -> Rfc6349 {
    let highest = inputs.highest_rate.max(Rate::of(inputs.bytes_transferred, inputs.actual_duration));
    let bottleneck = inputs.link_rate.unwrap_or(highest);
    let ideal = inputs.link_rate.map_or(highest, |l| max_tcp_throughput(l, inputs.mtu, header(&inputs)));
    let ideal_time = ideal.time_for(inputs.bytes_transferred).unwrap_or_default();
    let bdp = bdp(inputs.baseline_rtt, bottleneck);
    let mean_rtt = Some(inputs.mean_rtt).filter(|m| !m.is_zero());
    Rfc6349 {
        path_mtu_bytes: inputs.mtu.as_u64(),
        path_mtu_verified: inputs.mtu_verified,
        baseline_rtt_ns: nanos(inputs.baseline_rtt),
        bottleneck_bps: bottleneck.as_bps(),
        bottleneck_given: inputs.link_rate.is_some(),
        bdp_bytes: bdp.as_u64(),
        ideal_throughput_bps: ideal.as_bps(),
        transfer_time_ratio: transfer_time_ratio(inputs.actual_duration, ideal_time).map_or(0.0, |r| r.max(1.0)),
        tcp_efficiency_percent: tcp_efficiency_percent(inputs.bytes_sent, inputs.bytes_retransmitted).unwrap_or(0.0),
        mean_rtt_ns: nanos(inputs.mean_rtt),
        buffer_delay_percent: mean_rtt
            .filter(|mean| (*mean).max(inputs.baseline_rtt) >= MEASURABLE_RTT_MIN)
            .and_then(|mean| buffer_delay_percent(mean, inputs.baseline_rtt))
            .map(|percent| percent.max(0.0)),
        connections_needed: inputs.window.and_then(|w| connections_needed(bdp, w)),
    }
}

/// IP and TCP header bytes of a full segment.
///
/// The kernel's MSS leaves room for IPv6 exactly if it is 60 (or 72 with timestamps) below the MTU; any other
/// difference is IPv4, possibly with an MSS clamped by a middlebox.
fn header(inputs: &Inputs) -> Bytes {
    let difference = inputs.mtu.saturating_sub(inputs.mss).as_u64();
    let is_ipv6 = [IPV6_TCP_BYTES, IPV6_TCP_BYTES + TIMESTAMPS_BYTES].contains(&difference);
    let plain = if is_ipv6 { IPV6_TCP_BYTES } else { IPV4_TCP_BYTES };
    Bytes::new(plain + if inputs.timestamps { TIMESTAMPS_BYTES } else { 0 })
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: Bytes = Bytes::new(1500);

    fn mbps(m: f64) -> Rate {
        Rate::from_bps((m * 1e6) as u64)
    }

    #[test]
    fn the_rfcs_link_table_holds() {
        // RFC 6349 §3.3.2 truncates; T3 carries PPP: flags 2, address and control 2 + protocol 2, CRC 2.
        assert_eq!(frames_per_second(mbps(44.21), MTU, Bytes::new(8)) as u64, 3664);
        assert!((frames_per_second(mbps(44.21), MTU, Bytes::new(8)) * 1460.0 * 8.0 / 1e6 - 42.8).abs() < 0.01);
        for (link, frames, truncated_mbps) in [(100.0, 8127, 94.9), (1e3, 81_274, 949.2), (1e4, 812_743, 9492.0)] {
            assert_eq!(frames_per_second(mbps(link), MTU, ETHERNET_FRAMING) as u64, frames);
            let got = max_tcp_throughput(mbps(link), MTU, Bytes::new(40)).as_bps() as f64 / 1e6;
            assert!(got >= truncated_mbps && got < truncated_mbps * 1.001, "{link} Mb/s: {got}");
        }
    }

    #[test]
    fn timestamps_and_jumbo_frames_match_the_computed_reference() {
        assert_eq!(max_tcp_throughput(mbps(1e3), MTU, Bytes::new(52)).as_bps() / 10_000, 94_148);
        assert_eq!(max_tcp_throughput(mbps(1e5), Bytes::new(9000), Bytes::new(52)).as_bps() / 1_000_000, 99_004);
    }

    #[test]
    fn the_rfcs_metric_examples_hold() {
        // Ideal 8 s, actual 12 s (§4.1); 102,000 bytes sent with 2,000 again (§4.2); 25 ms idle, 32 ms loaded (§4.3).
        let ttr = transfer_time_ratio(Duration::from_secs(12), Duration::from_secs(8));
        assert_eq!(ttr, Some(1.5));
        let efficiency = tcp_efficiency_percent(Bytes::new(102_000), Bytes::new(2_000)).unwrap();
        assert!((efficiency - 98.039).abs() < 5e-4, "{efficiency}");
        let buffer = buffer_delay_percent(Duration::from_millis(32), Duration::from_millis(25)).unwrap();
        assert!((buffer - 28.0).abs() < 1e-9);
    }

    #[test]
    fn the_rfcs_table_of_connections_holds() {
        // 500 Mb/s and 5 ms: BDP 312.5 kB (RFC 6349 §5.1).
        let product = bdp(Duration::from_millis(5), mbps(500.0));
        assert_eq!(product, Bytes::new(312_500));
        for (window_kb, connections) in [(16, 20), (32, 10), (64, 5), (128, 3)] {
            assert_eq!(connections_needed(product, Bytes::new(window_kb * 1_000)), Some(connections));
        }
    }

    #[test]
    fn a_quotient_without_a_divisor_is_no_number() {
        assert_eq!(transfer_time_ratio(Duration::from_secs(1), Duration::ZERO), None);
        assert_eq!(tcp_efficiency_percent(Bytes::ZERO, Bytes::ZERO), None);
        assert_eq!(buffer_delay_percent(Duration::from_secs(1), Duration::ZERO), None);
        assert_eq!(connections_needed(Bytes::new(1), Bytes::ZERO), None);
        assert_eq!(frames_per_second(mbps(1.0), Bytes::ZERO, Bytes::ZERO), 0.0);
        assert_eq!(report(Inputs::default()), Rfc6349::default());
    }

    fn measured() -> Inputs {
        Inputs {
            highest_rate: mbps(800.0),
            mtu: MTU,
            mss: Bytes::new(1448),
            timestamps: true,
            bytes_transferred: Bytes::new(750_000_000),
            actual_duration: Duration::from_secs(10),
            bytes_sent: Bytes::new(1_000),
            bytes_retransmitted: Bytes::new(100),
            baseline_rtt: Duration::from_millis(100),
            mean_rtt: Duration::from_millis(150),
            window: Some(Bytes::new(1_000_000)),
            ..Inputs::default()
        }
    }

    #[test]
    fn without_a_link_rate_the_highest_rate_is_the_ideal() {
        let r = report(measured());
        assert_eq!((r.ideal_throughput_bps, r.bottleneck_given), (800_000_000, false));
        // 750 MB at 800 Mb/s take 7.5 s.
        assert!((r.transfer_time_ratio - 10.0 / 7.5).abs() < 1e-9);
        assert!((r.tcp_efficiency_percent - 90.0).abs() < 1e-9);
        assert!((r.buffer_delay_percent.unwrap() - 50.0).abs() < 1e-9);
        assert_eq!((r.bdp_bytes, r.connections_needed), (10_000_000, Some(10)));
    }

    #[test]
    fn any_measurement_gives_figures_within_their_definition() {
        // A transfer above the given link rate, and round trips under load below the idle one.
        let fast = Inputs { highest_rate: mbps(100.0), mean_rtt: Duration::from_millis(90), ..measured() };
        for inputs in [fast, Inputs { link_rate: Some(mbps(500.0)), ..fast }] {
            let r = report(inputs);
            assert_eq!((r.transfer_time_ratio, r.buffer_delay_percent), (1.0, Some(0.0)));
        }
        assert_eq!(report(fast).bottleneck_bps, 600_000_000, "750 MB in 10 s");
    }

    #[test]
    fn metrics_that_a_lan_cannot_show_are_absent() {
        let us = Duration::from_micros;
        let lan = Inputs { baseline_rtt: us(5), mean_rtt: us(60), ..measured() };
        assert_eq!(report(lan).buffer_delay_percent, None);
        let queue = report(Inputs { mean_rtt: us(12_005), ..lan }).buffer_delay_percent.unwrap();
        assert!((queue - 240_000.0).abs() < 1e-6, "a queue of 12 ms is measurable anywhere: {queue}");
    }

    #[test]
    fn a_given_link_rate_is_framed_with_the_headers_that_the_mss_shows() {
        for (mss, timestamps, header) in [
            (1448, true, 52),
            (1460, true, 52),
            (1460, false, 40),
            (1428, true, 72),
            (1440, false, 60),
            (1440, true, 72),
            (1380, true, 52),
        ] {
            let inputs = Inputs { link_rate: Some(mbps(1e3)), mss: Bytes::new(mss), timestamps, ..measured() };
            let expected = max_tcp_throughput(mbps(1e3), MTU, Bytes::new(header));
            assert_eq!(report(inputs).ideal_throughput_bps, expected.as_bps(), "mss {mss}");
            assert!(report(inputs).bottleneck_given);
        }
    }
}
