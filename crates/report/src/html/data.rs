//! Data of the charts for the script of the page.

use results::DelayHistogram;
use serde::Serialize;

use super::Series;
use super::run::Track;
use crate::pairing::Row;
use crate::summary::finite;

/// Bars of the delay histogram: at the width of the chart each is some pixels wide.
const BINS: usize = 72;

/// Number of points of the distribution function.
const CDF_POINTS: usize = 240;

/// Minimum ratio of the largest to the smallest delay over time for a logarithmic axis: two decades. On a linear axis
/// of 280 pixels a hundredth of the largest delay is three pixels above zero.
const DELAY_LOG_RATIO_MIN: u64 = 100;
/// Minimum ratio of the largest to the smallest delay of a distribution for a logarithmic axis.
const LOG_SPAN_MIN: f64 = 8.0;

/// Maximum number of streams drawn as separate curves.
const STREAMS_MAX: usize = 32;

#[derive(Debug, Serialize)]
pub(crate) struct ChartData {
    /// End of the time axis.
    end_s: f64,
    /// Whether the axis of the delays over time is logarithmic at first; the reader can change it.
    is_delay_log: bool,
    tracks: Vec<TrackData>,
    distribution: Option<Distribution>,
}

/// Series of one direction of one run; all lists have one element per interval.
#[derive(Debug, Serialize)]
struct TrackData {
    label: String,
    /// Middle of each interval.
    t_s: Vec<f64>,
    goodput_bps: Vec<Option<u64>>,
    retransmits: Vec<Option<u64>>,
    rtt_p50_ns: Vec<Option<u64>>,
    rtt_p95_ns: Vec<Option<u64>>,
    srtt_ns: Vec<Option<u64>>,
    one_way_p50_ns: Vec<Option<i64>>,
    one_way_p95_ns: Vec<Option<i64>>,
    /// Maximum error of the one-way delays due to the clocks.
    one_way_bound_ns: Option<u64>,
    baseline_ns: Option<u64>,
    streams: Vec<StreamData>,
}

#[derive(Debug, Serialize)]
struct StreamData {
    stream: u32,
    bps: Vec<Option<u64>>,
}

/// Histogram and distribution function of the block round trips, on one grid for all tracks.
#[derive(Debug, Serialize)]
struct Distribution {
    is_log: bool,
    edges_ms: Vec<f64>,
    cdf_ms: Vec<f64>,
    tracks: Vec<DistributionTrack>,
}

#[derive(Debug, Serialize)]
struct DistributionTrack {
    label: String,
    /// Number of the track, for its colour.
    track: usize,
    /// Per cent of the samples in each bin.
    percent: Vec<f64>,
    /// Per cent of the samples up to each point of the grid.
    cdf_percent: Vec<f64>,
}

pub(crate) fn chart_data(series: &[Series<'_>], end_s: f64) -> ChartData {
    let tracks: Vec<_> = series.iter().map(track_data).collect();
    ChartData { end_s: round(end_s), is_delay_log: spans_decades(&tracks), tracks, distribution: distribution(series) }
}

/// Whether the round trips over time span so much that a linear axis shows the short ones as zero.
fn spans_decades(tracks: &[TrackData]) -> bool {
    let of_track = |t: &TrackData| {
        let rows = t.rtt_p50_ns.iter().chain(&t.rtt_p95_ns).chain(&t.srtt_ns).chain([&t.baseline_ns]);
        rows.flatten().copied().filter(|ns| *ns > 0).collect::<Vec<_>>()
    };
    let all: Vec<u64> = tracks.iter().flat_map(of_track).collect();
    let (min, max) = (all.iter().min(), all.iter().max());
    min.zip(max).is_some_and(|(min, max)| max / min > DELAY_LOG_RATIO_MIN)
}

fn track_data(s: &Series<'_>) -> TrackData {
    let rows = &s.track.rows;
    TrackData {
        label: s.label.clone(),
        t_s: rows.iter().map(|r| round(f64::midpoint(finite(r.start_s()), finite(r.end_s())))).collect(),
        goodput_bps: rows.iter().map(|r| r.throughput().map(|(bps, _)| bps)).collect(),
        retransmits: rows.iter().map(Row::retransmits).collect(),
        rtt_p50_ns: rows.iter().map(|r| r.block_rtt().map(|d| d.p50_ns)).collect(),
        rtt_p95_ns: rows.iter().map(|r| r.block_rtt().map(|d| d.p95_ns)).collect(),
        srtt_ns: rows.iter().map(Row::srtt_ns).collect(),
        one_way_p50_ns: rows.iter().map(|r| r.one_way().map(|d| d.p50_ns)).collect(),
        one_way_p95_ns: rows.iter().map(|r| r.one_way().map(|d| d.p95_ns)).collect(),
        one_way_bound_ns: rows.iter().filter_map(Row::one_way).map(|d| d.bound_ns).max(),
        baseline_ns: s.run.start.baseline_rtt_ns,
        streams: streams(s.track),
    }
}

/// Rounds to microseconds, which suffice on a time axis of seconds and keep the file small.
fn round(v: f64) -> f64 {
    (v * 1e6).round() / 1e6
}

/// Rates of the streams in the records that count the goodput.
fn streams(track: &Track) -> Vec<StreamData> {
    let records: Vec<_> = track.rows.iter().map(Row::dating).collect();
    let mut numbers: Vec<u32> = records.iter().flatten().flat_map(|r| &r.streams).map(|s| s.stream).collect();
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.len() < 2 || numbers.len() > STREAMS_MAX {
        return Vec::new();
    }
    let rate = |stream: u32| {
        let of = |r: &results::IntervalRecord| r.streams.iter().find(|s| s.stream == stream).map(|s| s.throughput_bps);
        records.iter().map(|r| r.and_then(of)).collect()
    };
    numbers.into_iter().map(|stream| StreamData { stream, bps: rate(stream) }).collect()
}

/// One track's samples as (delay in ms, count), ascending.
type Buckets = Vec<(f64, u64)>;

fn distribution(series: &[Series<'_>]) -> Option<Distribution> {
    let all: Vec<(usize, &Series<'_>, Buckets)> = series
        .iter()
        .enumerate()
        .filter_map(|(i, s)| {
            let histogram = DelayHistogram::decode(&s.track.block_rtt.as_ref()?.histogram).ok()?;
            let buckets: Buckets = histogram.buckets().map(|(ns, n)| (ns as f64 / 1e6, n)).collect();
            (!buckets.is_empty()).then_some((i, s, buckets))
        })
        .collect();
    let min = all.iter().filter_map(|(_, _, b)| b.first()).map(|b| b.0).reduce(f64::min)?;
    let max = all.iter().filter_map(|(_, _, b)| b.last()).map(|b| b.0).reduce(f64::max)?;
    // A margin, so that a single value is a bar instead of a line of width zero.
    let (low, high) = ((min * 0.98).max(1e-6), (max * 1.02).max(2e-6));
    let is_log = high / low > LOG_SPAN_MIN;
    let edges_ms = grid(low, high, BINS, is_log);
    let cdf_ms = grid(low, high, CDF_POINTS, is_log);
    let tracks = all
        .iter()
        .map(|(track, s, buckets)| {
            let cumulative = cumulative_percent(buckets, &edges_ms);
            DistributionTrack {
                label: s.label.clone(),
                track: *track,
                percent: cumulative.windows(2).map(|w| round(w[1] - w[0])).collect(),
                cdf_percent: cumulative_percent(buckets, &cdf_ms).into_iter().map(round).collect(),
            }
        })
        .collect();
    Some(Distribution { is_log, edges_ms, cdf_ms, tracks })
}

/// `n` steps from `low` to `high`, of equal width or of equal ratio.
fn grid(low: f64, high: f64, n: usize, is_log: bool) -> Vec<f64> {
    let at = |i: usize| {
        let share = i as f64 / n as f64;
        if is_log { low * (high / low).powf(share) } else { low + (high - low) * share }
    };
    (0..=n).map(|i| round(at(i))).collect()
}

/// Percentage of the samples at or below each point.
fn cumulative_percent(buckets: &Buckets, points: &[f64]) -> Vec<f64> {
    let total = buckets.iter().fold(0_u64, |a, b| a.saturating_add(b.1)).max(1) as f64;
    let (mut i, mut sum) = (0, 0_u64);
    points
        .iter()
        .map(|p| {
            while let Some((ms, n)) = buckets.get(i).filter(|b| b.0 <= *p) {
                debug_assert!(*ms >= 0.0);
                sum = sum.saturating_add(*n);
                i += 1;
            }
            finite(sum as f64 / total * 100.0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_function_counts_every_sample() {
        let buckets = vec![(1.0, 1), (2.0, 2), (10.0, 1)];
        assert_eq!(cumulative_percent(&buckets, &[0.5, 1.0, 5.0, 10.0]), [0.0, 25.0, 75.0, 100.0]);
    }

    #[test]
    fn grids_end_where_the_delays_end() {
        for is_log in [false, true] {
            let g = grid(1.0, 100.0, 10, is_log);
            assert_eq!((g.len(), g[0], g[10]), (11, 1.0, 100.0));
            assert!(g.windows(2).all(|w| w[0] < w[1]));
        }
    }
}
