use results::RampUp;
use units::{Bytes, Duration, Rate};

use crate::Timeline;
use crate::samples::median;

/// Share of the steady rate at which a transfer is up to speed.
const STEADY_SHARE_MIN: f64 = 0.9;

/// Minimum number of bins in a smoothing window: with fewer, one full and one empty bin already look steady.
const WINDOW_BINS_MIN: usize = 3;

/// Minimum length of a transfer in windows: two for the steady half, two to see a ramp at all.
const WINDOWS_MIN: usize = 4;

/// The ramp-up of a transfer; `None` if it is too short (fewer than 12 bins with bytes) or carried nothing.
///
/// Smoothing: the rate at a time is the mean over the window that ends there. The window is one baseline round trip,
/// because within a round trip TCP sends bursts that do not represent the rate. It is at least three bins and at most a
/// quarter of the transfer. A window counts as up to speed only if the window after it, which shares no bin with it, is
/// also: one bursty bin lifts only the windows that contain it.
///
/// The steady rate is the median of the smoothed rate in the second half. The time is the end of the first such window,
/// so it is late by up to one window; `resolution_s` is the length of the window.
///
/// The transfer lasts for `length` from its first byte; later bytes are drain.
pub fn ramp_up(timeline: &Timeline, baseline_rtt: Option<Duration>, length: Duration) -> Option<RampUp> {
    let bins = timeline.within(length)?;
    let window = window_bins(timeline.bin(), baseline_rtt, bins.len())?;
    let sums: Vec<u64> = bins.windows(window).map(sum).collect();
    let steady = median(sums.get(sums.len() / 2..)?.iter().map(|s| *s as f64))?;
    let threshold = (steady * STEADY_SHARE_MIN).ceil() as u64;
    if threshold == 0 {
        return None;
    }
    let reached = (0..sums.len()).find(|i| holds(&sums, *i, window, threshold))?;
    let end_bin = reached + window;
    let bin_s = timeline.bin().as_secs_f64();
    let time_to_90_s = end_bin as f64 * bin_s;
    let rtt_s = baseline_rtt.map(|r| r.as_secs_f64()).filter(|s| *s > 0.0);
    Some(RampUp {
        steady_bps: Rate::of(Bytes::new(steady.round() as u64), timeline.bin() * window as u32).as_bps(),
        time_to_90_s,
        time_to_90_rtts: rtt_s.map(|s| time_to_90_s / s),
        bytes_to_90: sum(bins.get(..end_bin)?),
        resolution_s: window as f64 * bin_s,
    })
}

/// Whether the window that starts at bin `i` and the one right after it both reach the threshold.
///
/// At the end of the transfer no window follows; the window alone then decides.
fn holds(sums: &[u64], i: usize, window: usize, threshold: u64) -> bool {
    let reaches = |at: usize| sums.get(at).is_none_or(|s| *s >= threshold);
    reaches(i) && reaches(i + window)
}

fn window_bins(bin: Duration, baseline_rtt: Option<Duration>, bins: usize) -> Option<usize> {
    let longest = bins / WINDOWS_MIN;
    if longest < WINDOW_BINS_MIN {
        return None;
    }
    let rtt_bins = baseline_rtt.map_or(0, |rtt| rtt.as_nanos().div_ceil(bin.as_nanos().max(1)));
    Some(usize::try_from(rtt_bins).unwrap_or(usize::MAX).clamp(WINDOW_BINS_MIN, longest))
}

/// Saturates, because a peer can send any timeline.
fn sum(bytes: &[u64]) -> u64 {
    bytes.iter().fold(0, |s, b| u64::saturating_add(s, *b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Instant;

    const BIN_MS: u64 = 10;

    /// A timeline of 10 ms bins with the given bytes, closed by an empty bin in progress.
    fn timeline(bins: &[u64]) -> Timeline {
        let mut t = Timeline::new(Instant::ZERO, Duration::from_millis(BIN_MS), 10_000);
        for (i, b) in bins.iter().chain([&0]).enumerate() {
            t.add(Instant::from_nanos(i as u64 * BIN_MS * 1_000_000), Bytes::new(*b));
        }
        t
    }

    #[test]
    fn slow_start_takes_the_round_trips_that_doubling_takes() {
        // RTT 50 ms = 5 bins; the rate doubles each round trip from 1/16 of the steady rate: 1/16, 1/8, 1/4, 1/2, 1.
        let bins: Vec<u64> = (0..200).map(|i| 16_000 >> (4_usize.saturating_sub(i / 5))).collect();
        let r = ramp_up(&timeline(&bins), Some(Duration::from_millis(50)), Duration::MAX).unwrap();
        assert_eq!(r.steady_bps, 12_800_000, "16 kB in 10 ms");
        // Full speed starts at 200 ms; a 5-bin window with at most one half-rate bin averages 90 %: ends at 240 ms.
        assert_eq!((r.time_to_90_s * 1e3).round() as u64, 240);
        assert!((r.time_to_90_rtts.unwrap() - 4.8).abs() < 1e-9);
        assert_eq!(r.bytes_to_90, 5 * (1_000 + 2_000 + 4_000 + 8_000) + 4 * 16_000);
        assert!((r.resolution_s - 0.05).abs() < 1e-12);
    }

    #[test]
    fn a_single_bursty_bin_does_not_count() {
        let mut bins = vec![1_000; 50];
        bins.extend(vec![10_000; 150]);
        bins[20] = 100_000;
        let r = ramp_up(&timeline(&bins), None, Duration::MAX).unwrap();
        assert!((0.5..=0.53).contains(&r.time_to_90_s), "{r:?}");
    }

    #[test]
    fn bursts_within_a_round_trip_are_not_mistaken_for_a_rate() {
        // A window-limited transfer: all of each 100 ms round trip's bytes arrive in one bin of ten.
        let bins: Vec<u64> = (0..300).map(|i| if i % 10 == 0 { 50_000 } else { 0 }).collect();
        let r = ramp_up(&timeline(&bins), Some(Duration::from_millis(100)), Duration::MAX).unwrap();
        assert_eq!(r.steady_bps, 4_000_000, "50 kB per 100 ms");
        assert!((r.time_to_90_s - 0.1).abs() < 1e-9);
    }

    #[test]
    fn time_counts_from_the_first_byte() {
        let mut bins = vec![0; 30];
        bins.extend(vec![5_000; 100]);
        let r = ramp_up(&timeline(&bins), None, Duration::MAX).unwrap();
        assert!((r.time_to_90_s - 0.03).abs() < 1e-9, "one window of three bins: {r:?}");
        assert_eq!(r.time_to_90_rtts, None);
    }

    #[test]
    fn the_drain_does_not_lower_the_steady_rate() {
        // A load of 1 s, then twice that time in which the streams end one after the other.
        let mut bins = vec![10_000; 100];
        bins.extend(vec![1_000; 200]);
        let r = ramp_up(&timeline(&bins), None, Duration::from_secs(1)).unwrap();
        assert_eq!(r.steady_bps, 8_000_000, "10 kB in 10 ms");
    }

    #[test]
    fn too_little_gives_no_answer() {
        assert_eq!(ramp_up(&timeline(&[]), None, Duration::MAX), None);
        assert_eq!(ramp_up(&timeline(&[0; 100]), None, Duration::MAX), None);
        assert_eq!(ramp_up(&timeline(&[1_000; 11]), None, Duration::MAX), None);
        let died: Vec<u64> = (0..100).map(|i| if i < 10 { 1_000 } else { 0 }).collect();
        assert_eq!(
            ramp_up(&timeline(&died), None, Duration::MAX),
            None,
            "a second half without bytes has no steady rate"
        );
    }
}
