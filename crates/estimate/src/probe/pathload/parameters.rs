//! The numbers of Pathload: those of release 1.3.2 (2006), and how those of 1.0.2 (2002) differ.

use units::Duration;

use crate::probe::{Path, Train, UDP_HEADERS};

/// Packets of a stream (1.3.2 and the SIGCOMM paper of 2002): long enough for ten groups of ten.
pub(super) const STREAM_PACKETS: u32 = 100;

/// Packets of a stream whose packets come in few batches: three times as many (1.3.2).
pub(super) const LONG_STREAM_PACKETS: u32 = 3 * STREAM_PACKETS;

/// Streams of a fleet (1.3.2 and 2002).
const FLEET_STREAMS: u32 = 12;

/// A stream that lasts this long is a fleet by itself (1.3.2): twelve with their pauses would take a minute.
const SLOW: Duration = Duration::from_millis(500);

/// Share of gaps without distance above which packets came in batches (1.3.2).
pub(super) const BATCHED: f64 = 0.6;

/// Smallest packet with headers (1.3.2; thesis §4.1.4: "at least 200 bytes"): shorter ones load hosts, not links.
const BYTES_MIN: u32 = 200 + UDP_HEADERS;

/// Distance of packets below 150 Mb/s (1.3.2): a timer of its day could keep it, and a stream lasts 8 ms.
const USUAL_GAP: Duration = Duration::from_micros(80);

/// Largest distance of packets (1.3.2); with the smallest packet it makes the lowest rate, 9.12 kb/s.
const LARGEST_GAP: Duration = Duration::from_millis(200);

/// Rate in b/s from which on packets have their full size and the distance makes the rate (1.3.2).
const FULL_SIZE_BPS: f64 = 150e6;

/// Rate in b/s from which on the size no longer makes up for the rounding of the distance (1.3.2).
const NO_REFIT_BPS: f64 = 600e6;

/// How fine the answer has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Resolution {
    /// 1.3.2: width in parts of the asymptotic dispersion rate, 2 % of it or 5 % where packets come in batches; a grey
    /// region may be 5 % of it, at most 12 Mb/s, from the rates that are not grey.
    OfDispersion,
    /// Thesis §4.1.4: the lower end is no more than this part below the upper end, and a grey region half of it from
    /// either. The 1.5 Mb/s that 1.0.2 allowed there would take twelve and more rates on a loaded path of 100 Mb/s, and
    /// "4 to 8 in most cases" is what the thesis saw.
    Ratio(f64),
}

/// What the two constructors differ in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Parameters {
    /// Share of a fleet's streams that decides: 0.6 since April 2003, 0.7 before.
    pub(super) share: f64,
    /// This many streams that all say the same, and nothing else, decide before the fleet is complete.
    pub(super) unanimous: Option<usize>,
    /// Steps of the distance between packets: the tools of 2002 counted in us.
    tick: Duration,
    /// Smallest distance of packets, in multiples of what the sender can do, and as time.
    least_gap: (u32, Duration),
    /// Bounds of the distance below which packets came together.
    together: (Duration, Duration),
    /// Whether packets get larger when the sender cannot send them at the distance that was asked for.
    pub(super) enlarges: bool,
    /// Share of the sender's gaps, the smallest, that tell its rate.
    pub(super) kept_gaps: f64,
    pub(super) resolution: Resolution,
    /// Fleets after which the search ends, whatever it has found.
    pub(super) most_fleets: u32,
    /// Bytes after which it ends.
    pub(super) most_bytes: u64,
}

impl Parameters {
    /// Release 1.3.2 with bounds, in ns instead of us, with large packets as far as the sender can go.
    pub(super) const fn modern() -> Self {
        Self {
            share: 0.6,
            // Streams of a rate that is 40 % likely to say the opposite agree five times in 8 % of all fleets.
            unanimous: Some(5),
            tick: Duration::from_nanos(1),
            // The measured rate replaces the requested one: a sender may be taken to its limit.
            least_gap: (1, Duration::from_micros(1)),
            // 10 Gb/s bring 1500 bytes each 1.2 us; what an interrupt brings is closer.
            together: (Duration::from_micros(1), Duration::from_micros(7)),
            enlarges: true,
            // Packets with deadlines catch up after a late one: without the late gap the others are too short.
            kept_gaps: 1.0,
            resolution: Resolution::OfDispersion,
            // Bisection from the capacity to 2 % takes 8; a start without any idea takes 17 more to halve down.
            most_fleets: 25,
            // A fleet of full packets is 1.8 MB; reference §7: 1 to 10 MB an answer.
            most_bytes: 20_000_000,
        }
    }

    /// The tool of the thesis: 1.0.2 with its patches (§4.1.4).
    pub(super) const fn faithful() -> Self {
        Self {
            share: 0.7,
            unanimous: None,
            tick: Duration::from_micros(1),
            // Twice the time that a host of 2002 needed for a packet, 7 us at least.
            least_gap: (2, Duration::from_micros(7)),
            together: (Duration::from_micros(7), Duration::from_micros(7)),
            enlarges: false,
            kept_gaps: 0.85,
            resolution: Resolution::Ratio(0.2),
            // The thesis saw 4 to 8 "in most cases"; its tool had no bound, twice that is one.
            most_fleets: 16,
            // 16 fleets of 1200 packets of 1500 bytes and the start: never the bound that acts.
            most_bytes: 40_000_000,
        }
    }

    /// Packets that come no further apart than this came together. A part of the sender's distance, for packets that
    /// queued behind others on a link come apart by what they take there, and that is no batch.
    pub(super) fn together(&self, gap: Duration) -> Duration {
        (gap / 16).clamp(self.together.0, self.together.1)
    }
}

/// Sizes and distances of the streams of one rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bytes of a packet with headers.
    pub(super) bytes: u32,
    /// Distance of packets.
    pub(super) gap: Duration,
}

impl Shape {
    /// Of this rate in b/s, as near as the bounds allow.
    ///
    /// Where packets for the usual distance would be too long, 1.3.2 takes the smallest distance and so a far higher
    /// rate; here the distance follows from the rate.
    pub(super) fn of(bps: f64, p: &Parameters, path: &Path) -> Self {
        let (least, most) = sizes(path);
        let least_gap = shortest_gap(p, path);
        let gap_for = |bytes: u32| {
            let tick = p.tick.as_nanos().max(1) as f64;
            let ns = (f64::from(bytes) * 8e9 / bps / tick).round() * tick;
            // `as` saturates; the bounds hold for what is no number too.
            Duration::from_nanos(ns as u64).clamp(least_gap, LARGEST_GAP)
        };
        let bytes_for = |gap: Duration| (bps * gap.as_secs_f64() / 8.0).round() as u32;
        if bps >= FULL_SIZE_BPS {
            let gap = gap_for(most);
            let bytes = if bps < NO_REFIT_BPS { bytes_for(gap).clamp(least, most) } else { most };
            return Self { bytes, gap };
        }
        let gap = USUAL_GAP.max(least_gap);
        match bytes_for(gap) {
            bytes if bytes < least => Self { bytes: least, gap: gap_for(least) },
            bytes if bytes > most => Self { bytes: most, gap: gap_for(most) },
            bytes => Self { bytes, gap },
        }
    }

    /// The lowest and the highest rate in b/s.
    pub(super) fn limits(p: &Parameters, path: &Path) -> (f64, f64) {
        let (least, most) = sizes(path);
        let rate = |bytes: u32, gap: Duration| f64::from(bytes) * 8.0 / gap.as_secs_f64();
        (rate(least, LARGEST_GAP), rate(most, shortest_gap(p, path)))
    }

    /// A stream.
    pub(super) fn train(&self, packets: u32) -> Train {
        Train::spaced(packets, self.bytes, self.gap)
    }

    /// Streams of a fleet.
    pub(super) fn streams(&self) -> u32 {
        if self.gap * STREAM_PACKETS >= SLOW { 1 } else { FLEET_STREAMS }
    }
}

/// The smallest and the largest packet with headers.
fn sizes(path: &Path) -> (u32, u32) {
    // No path of IP has a smaller one than 68 (RFC 791), and none of IPv4 or IPv6 a larger one than 65 575.
    let most = path.mtu.clamp(68, 65_575);
    (BYTES_MIN.min(most), most)
}

fn shortest_gap(p: &Parameters, path: &Path) -> Duration {
    path.least_gap.saturating_mul(p.least_gap.0).clamp(p.least_gap.1, LARGEST_GAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: Path =
        Path { round_trip: Duration::from_millis(20), mtu: 1500, least_gap: Duration::from_nanos(1200), seed: 1 };

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
        let (least, most) = Shape::limits(&p, &PATH);
        // 228 bytes in 0.2 s; 1500 bytes in 7 us.
        assert!((least - 9120.0).abs() < 1e-6 && (most - 12_000.0 / 7e-6).abs() < 1.0, "{least} {most}");
        // 228 bytes in 5 ms are 364.8 kb/s.
        assert_eq!(Shape::of(360e3, &p, &PATH).streams(), 1);
        assert_eq!(Shape::of(370e3, &p, &PATH).streams(), 12);
    }

    #[test]
    fn no_path_and_no_rate_is_too_absurd() {
        for mtu in [0, 28, 500, u32::MAX] {
            for least_gap in [Duration::ZERO, Duration::MAX] {
                let path = Path { round_trip: Duration::MAX, mtu, least_gap, seed: 0 };
                for bps in [0.0, 1e-9, 40e6, 1e30, f64::INFINITY, f64::NAN] {
                    let shape = Shape::of(bps, &Parameters::modern(), &path);
                    assert!(shape.gap > Duration::ZERO && shape.train(300).span() <= LARGEST_GAP * 300);
                }
            }
        }
    }
}
