//! Histograms of received gaps, and their similarity for both spacings.

use results::estimate::GapHistogram;
use units::{Bytes, Duration, Rate, nanos};

/// Width of a bin in bytes at the path's capacity. The relevant gaps then lie within bins and not on their edges. These
/// are two consecutive probes of 40 bytes at 1.7 bins, a packet of 500 or 1500 bytes between them at 22.5 and 64.2
/// bins, and the sent gaps at 10.4 and 31.25. The thesis does not state the width of its bins; at 100 Mb/s it mentions
/// a mode from 63 to 65 us, and these bins are 1.92 us.
const BIN_BYTES: u64 = 24;

/// Minimum width of a bin in ns: the precision of kernel timestamps (2002: 1 us of tcpdump).
const BIN_NS_MIN: u64 = 1_000;

/// Number of bins: gaps up to four packets of 1500 bytes. Larger gaps belong to no mode (§4.2 excludes them by the
/// median).
const BINS: usize = 250;

/// Divisor of the number of pairs that gives the minimum of a bin of a mode; the thesis does not define a mode. Pairs
/// without a mode spread over tens of bins. With a divisor of fifty, the packets that both histograms of a busy fast
/// link have between probes, many in one and few in the other, would count as similarity.
const MODE_DIVISOR: u64 = 20;

/// Minimum number of pairs of a mode: fewer fall into one bin by chance.
const MODE_PAIRS_MIN: u64 = 3;

/// Creates empty bins for a path of this capacity.
pub(super) fn empty(capacity: Rate, sent_gap: Duration) -> GapHistogram {
    let bin_ns = capacity.time_for(Bytes::new(BIN_BYTES)).map_or(0, nanos).max(BIN_NS_MIN);
    GapHistogram { sent_gap_ns: nanos(sent_gap), bin_ns, counts: vec![0; BINS], above_range: 0 }
}

/// Counts a pair.
pub(super) fn count(histogram: &mut GapHistogram, received: Duration) {
    let bin = usize::try_from(nanos(received) / histogram.bin_ns.max(1)).unwrap_or(usize::MAX);
    match histogram.counts.get_mut(bin) {
        Some(count) => *count += 1,
        None => histogram.above_range += 1,
    }
}

/// Number of pairs counted.
pub(super) fn pairs(histogram: &GapHistogram) -> u64 {
    histogram.counts.iter().sum::<u64>() + histogram.above_range
}

/// The score of the thesis (§3.5): it increases with each bin in which both histograms have a mode, and decreases with
/// each in which only one has.
///
/// The thesis does not state by how much. Its examples, 1055118 and -364009 of 2000 pairs a histogram, exceed any sum
/// of counts: here a bin weighs the product of its counts, or the square of the single count.
pub(super) fn score(a: &GapHistogram, b: &GapHistogram) -> i64 {
    let pairs_min = |h: &GapHistogram| pairs(h).div_ceil(MODE_DIVISOR).max(MODE_PAIRS_MIN);
    let (min_a, min_b) = (pairs_min(a), pairs_min(b));
    let weight = |(a, b): (&u64, &u64)| match (*a >= min_a, *b >= min_b) {
        (true, true) => product(*a, *b),
        (true, false) => -product(*a, *a),
        (false, true) => -product(*b, *b),
        (false, false) => 0,
    };
    a.counts.iter().zip(&b.counts).map(weight).fold(0, i64::saturating_add)
}

fn product(a: u64, b: u64) -> i64 {
    i64::try_from(a.saturating_mul(b)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of 100 Mb/s, with pairs in places given in microseconds.
    fn seen(places_us: &[(u64, usize)]) -> GapHistogram {
        let mut histogram = empty(Rate::from_bps(100_000_000), Duration::from_micros(20));
        for (us, pairs) in places_us {
            (0..*pairs).for_each(|_| count(&mut histogram, Duration::from_micros(*us)));
        }
        histogram
    }

    #[test]
    fn figure_3_2_modes_at_the_same_places_score_high() {
        // 10, 40, 120 and 160 us in both, with few pairs at the sent gaps of 20 and 60 us. The counts are made up: the
        // thesis gives the places alone.
        let short = seen(&[(10, 1000), (20, 150), (40, 300), (120, 400), (160, 150)]);
        let long = seen(&[(10, 800), (40, 350), (60, 150), (120, 500), (160, 200)]);
        // 800 000 + 105 000 + 200 000 + 30 000 - 22 500 - 22 500.
        assert_eq!(score(&short, &long), 1_090_000);
    }

    #[test]
    fn figure_3_1_modes_at_the_sent_gaps_alone_score_below_zero() {
        assert_eq!(score(&seen(&[(20, 2000)]), &seen(&[(60, 2000)])), -8_000_000);
    }

    #[test]
    fn thinly_spread_gaps_make_no_mode() {
        let thin: Vec<(u64, usize)> = (0..100).map(|i| (i * 4, 5)).collect();
        assert_eq!(score(&seen(&thin), &seen(&thin)), 0);
        assert_eq!(score(&seen(&[]), &seen(&[])), 0);
    }

    #[test]
    fn far_gaps_are_counted_beyond_the_bins() {
        let h = seen(&[(479, 1), (480, 2), (u64::MAX / 1000, 1)]);
        assert_eq!((h.bin_ns, h.counts[249], h.above_range, pairs(&h)), (1_920, 1, 3, 4));
    }

    #[test]
    fn a_fast_path_has_bins_of_a_microsecond_and_no_path_divides_by_zero() {
        assert_eq!(empty(Rate::from_bps(u64::MAX), Duration::ZERO).bin_ns, 1_000);
        assert_eq!(empty(Rate::ZERO, Duration::MAX).bin_ns, 1_000);
    }
}
