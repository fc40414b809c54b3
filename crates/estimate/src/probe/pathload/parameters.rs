//! Parameters of Pathload: those of release 1.3.2 (2006), and the differences of 1.0.2 (2002).

use units::Duration;

use crate::probe::{Path, Train, UDP_HEADERS};

/// Packets of a stream (1.3.2 and the SIGCOMM paper of 2002): long enough for ten groups of ten.
pub(super) const STREAM_PACKETS: u32 = 100;

/// Packets of a stream that arrives in few batches: three times as many (1.3.2).
pub(super) const LONG_STREAM_PACKETS: u32 = 3 * STREAM_PACKETS;

/// Streams of a fleet (1.3.2 and 2002).
const FLEET_STREAMS: u32 = 12;

/// Minimum duration of a stream that is a fleet by itself (1.3.2): twelve with their pauses would take a minute.
const SLOW_STREAM_MIN: Duration = Duration::from_millis(500);

/// Share of gaps within batches above which packets arrive in batches (1.3.2).
pub(super) const BATCHED_SHARE: f64 = 0.6;

/// Minimum packet size with headers (1.3.2; thesis §4.1.4: "at least 200 bytes"): shorter ones load hosts, not links.
const BYTES_MIN: u32 = 200 + UDP_HEADERS;

/// Gap of packets below 150 Mb/s (1.3.2): a timer of its day could keep it, and a stream takes 8 ms.
const USUAL_GAP: Duration = Duration::from_micros(80);

/// Maximum gap of packets (1.3.2); with the smallest packet it gives the lowest rate, 9.12 kb/s.
const GAP_MAX: Duration = Duration::from_millis(200);

/// Rate in b/s from which on packets have full size and the gap sets the rate (1.3.2).
const FULL_SIZE_BPS: f64 = 150e6;

/// Rate in b/s from which on the size no longer compensates the rounding of the gap (1.3.2).
const REFIT_BPS_MAX: f64 = 600e6;

/// Required resolution of the result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Resolution {
    /// 1.3.2: the width is at most 2 % of the asymptotic dispersion rate, or 5 % if packets arrive in batches. A grey
    /// region can be 5 % of it, at most 12 Mb/s, from the rates that are not grey.
    OfDispersion,
    /// Thesis §4.1.4: the lower end is at most this share below the upper end, and a grey region half of it from
    /// either. The 1.5 Mb/s that 1.0.2 allowed there would take twelve and more rates on a loaded path of 100 Mb/s, and
    /// the thesis reports "4 to 8 in most cases".
    Ratio(f64),
}

/// Parameters in which the two constructors differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Parameters {
    /// Share of a fleet's streams that decides: 0.6 since April 2003, 0.7 before.
    pub(super) share: f64,
    /// Number of streams with the same trend, and no other, that decide before the fleet is complete.
    pub(super) unanimous: Option<usize>,
    /// Unit of the gap between packets: the tools of 2002 counted in us.
    tick: Duration,
    /// Minimum gap of packets, as a multiple of the sender's minimum and as a time.
    gap_min: (u32, Duration),
    /// Minimum and maximum of the gap below which packets arrived together.
    batch_gap: (Duration, Duration),
    /// Whether packets are enlarged if the sender cannot keep the requested gap.
    pub(super) enlarges: bool,
    /// Share of the sender's gaps, the smallest ones, that give its rate.
    pub(super) kept_gaps: f64,
    pub(super) resolution: Resolution,
    /// Maximum number of fleets.
    pub(super) fleets_max: u32,
    /// Maximum number of bytes.
    pub(super) bytes_max: u64,
}

impl Parameters {
    /// Release 1.3.2 with limits, in ns instead of us, with large packets as far as the sender can send them.
    pub(super) const fn modern() -> Self {
        Self {
            share: 0.6,
            // Streams with a 40 % probability of the opposite trend agree five times in 8 % of all fleets.
            unanimous: Some(5),
            tick: Duration::from_nanos(1),
            // The measured rate replaces the requested one, so that the sender can be used up to its limit.
            gap_min: (1, Duration::from_micros(1)),
            // At 10 Gb/s, 1500 bytes take 1.2 us; packets of one interrupt are closer.
            batch_gap: (Duration::from_micros(1), Duration::from_micros(7)),
            enlarges: true,
            // Packets with deadlines catch up after a late one: without the late gap the others are too short.
            kept_gaps: 1.0,
            resolution: Resolution::OfDispersion,
            // Bisection from the capacity to 2 % takes 8; a start without an estimate takes 17 more halvings.
            fleets_max: 25,
            // A fleet of full packets is 1.8 MB; reference §7: 1 to 10 MB per result.
            bytes_max: 20_000_000,
        }
    }

    /// The tool of the thesis: 1.0.2 with its patches (§4.1.4).
    pub(super) const fn faithful() -> Self {
        Self {
            share: 0.7,
            unanimous: None,
            tick: Duration::from_micros(1),
            // Twice the time that a host of 2002 needed for a packet, at least 7 us.
            gap_min: (2, Duration::from_micros(7)),
            batch_gap: (Duration::from_micros(7), Duration::from_micros(7)),
            enlarges: false,
            kept_gaps: 0.85,
            resolution: Resolution::Ratio(0.2),
            // The thesis reports 4 to 8 "in most cases"; its tool had no limit, so this is twice that.
            fleets_max: 16,
            // 16 fleets of 1200 packets of 1500 bytes and the start: this limit is never reached.
            bytes_max: 40_000_000,
        }
    }

    /// Maximum gap of packets that arrived together. It is a share of the sender's gap: packets that queued behind
    /// others on a link arrive at the service time of that link, and are no batch.
    pub(super) fn batch_gap(&self, gap: Duration) -> Duration {
        (gap / 16).clamp(self.batch_gap.0, self.batch_gap.1)
    }
}

/// Packet size and gap of the streams of one rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Packet size with headers in bytes.
    pub(super) bytes: u32,
    /// Gap of packets.
    pub(super) gap: Duration,
}

impl Shape {
    /// The shape for this rate in b/s, as near as the limits allow.
    ///
    /// If packets for the usual gap would be too long, 1.3.2 takes the smallest gap and so a far higher rate; here the
    /// gap follows from the rate.
    pub(super) fn of(bps: f64, p: &Parameters, path: &Path) -> Self {
        let (low, high) = sizes(path);
        let gap_min = shortest_gap(p, path);
        let gap_for = |bytes: u32| {
            let tick = p.tick.as_nanos().max(1) as f64;
            let ns = (f64::from(bytes) * 8e9 / bps / tick).round() * tick;
            // `as` saturates, and the limits also hold for NaN.
            Duration::from_nanos(ns as u64).clamp(gap_min, GAP_MAX)
        };
        let bytes_for = |gap: Duration| (bps * gap.as_secs_f64() / 8.0).round() as u32;
        if bps >= FULL_SIZE_BPS {
            let gap = gap_for(high);
            let bytes = if bps < REFIT_BPS_MAX { bytes_for(gap).clamp(low, high) } else { high };
            return Self { bytes, gap };
        }
        let gap = USUAL_GAP.max(gap_min);
        match bytes_for(gap) {
            bytes if bytes < low => Self { bytes: low, gap: gap_for(low) },
            bytes if bytes > high => Self { bytes: high, gap: gap_for(high) },
            bytes => Self { bytes, gap },
        }
    }

    /// The lowest and the highest rate in b/s.
    pub(super) fn limits(p: &Parameters, path: &Path) -> (f64, f64) {
        let (low, high) = sizes(path);
        let rate = |bytes: u32, gap: Duration| f64::from(bytes) * 8.0 / gap.as_secs_f64();
        (rate(low, GAP_MAX), rate(high, shortest_gap(p, path)))
    }

    /// Builds a stream.
    pub(super) fn train(&self, packets: u32) -> Train {
        Train::spaced(packets, self.bytes, self.gap)
    }

    /// Number of streams of a fleet.
    pub(super) fn streams(&self) -> u32 {
        if self.gap * STREAM_PACKETS >= SLOW_STREAM_MIN { 1 } else { FLEET_STREAMS }
    }
}

/// Minimum and maximum packet size with headers.
fn sizes(path: &Path) -> (u32, u32) {
    // The minimum MTU of IPv4 is 68 (RFC 791); the largest packet of IPv4 or IPv6 has 65 575 bytes.
    let high = path.mtu.clamp(68, 65_575);
    (BYTES_MIN.min(high), high)
}

fn shortest_gap(p: &Parameters, path: &Path) -> Duration {
    path.gap_min.saturating_mul(p.gap_min.0).clamp(p.gap_min.1, GAP_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: Path =
        Path { round_trip: Duration::from_millis(20), mtu: 1500, gap_min: Duration::from_nanos(1200), seed: 1 };

    fn shape(bps: f64, p: &Parameters) -> (u32, u64) {
        let shape = Shape::of(bps, p, &PATH);
        (shape.bytes, u64::try_from(shape.gap.as_nanos()).unwrap())
    }

    #[test]
    fn sizes_and_distances_are_those_of_the_table() {
        let p = Parameters::faithful();
        // 228 bytes are 1824 bits; 80 us at 100 Mb/s are 8000 bits; 1500 bytes in whole us.
        for (bps, bytes, ns) in [
            (1e6, 228, 1_824_000),
            (10e6, 228, 182_000),
            (100e6, 1000, 80_000),
            (400e6, 1500, 30_000),
            // 12000 bits / 290 Mb/s are 41.4 us; 41 us at 290 Mb/s are 1486 bytes.
            (290e6, 1486, 41_000),
            (900e6, 1500, 13_000),
            (5e9, 1500, 7_000),
        ] {
            assert_eq!(shape(bps, &p), (bytes, ns), "{bps}");
        }
        assert_eq!(shape(5e9, &Parameters::modern()), (1500, 2_400));
    }

    #[test]
    fn the_lowest_rate_is_that_of_the_tool_and_a_slow_stream_is_a_fleet() {
        let p = Parameters::faithful();
        let (low, high) = Shape::limits(&p, &PATH);
        // 228 bytes in 0.2 s; 1500 bytes in 7 us.
        assert!((low - 9120.0).abs() < 1e-6 && (high - 12_000.0 / 7e-6).abs() < 1.0, "{low} {high}");
        // 228 bytes in 5 ms are 364.8 kb/s.
        assert_eq!(Shape::of(360e3, &p, &PATH).streams(), 1);
        assert_eq!(Shape::of(370e3, &p, &PATH).streams(), 12);
    }

    #[test]
    fn any_path_and_any_rate_gives_a_shape() {
        for mtu in [0, 28, 500, u32::MAX] {
            for gap_min in [Duration::ZERO, Duration::MAX] {
                let path = Path { round_trip: Duration::MAX, mtu, gap_min, seed: 0 };
                for bps in [0.0, 1e-9, 40e6, 1e30, f64::INFINITY, f64::NAN] {
                    let shape = Shape::of(bps, &Parameters::modern(), &path);
                    assert!(shape.gap > Duration::ZERO && shape.train(300).span() <= GAP_MAX * 300);
                }
            }
        }
    }
}
