//! Arrival curve of a train: cumulative bytes over time, read so that batches and token buckets do not distort the
//! rate.

use units::Rate;

use super::TrainObservation;
use crate::samples::rate;

/// Maximum gap within a batch, in ns. On no wide-area link do 1500 bytes take less, and packets that a receiver
/// delivers after one interrupt are closer.
const BATCH_GAP_NS_MAX: u64 = 1_000;

/// Maximum gap within a batch as a share of the mean gap, if that yields many batches. A bucket passes packets early
/// only once, and cross traffic arrives between packets, not behind them.
const BATCH_GAP_SHARE_MAX: f64 = 0.1;
const BATCHES_MIN: usize = 2;

/// Minimum ratio of the rate of the first part of a train to that of the rest for a burst: variation by cross traffic
/// stays below it for trains of ten packets and more.
const BURST_RATE_RATIO_MIN: f64 = 1.5;

/// Maximum squared error of a fit of two lines as a share of that of one line at which a bend exists: jitter does not
/// bend a train that much.
const BEND_ERROR_SHARE_MAX: f64 = 0.1;

/// Minimum share of the sent rate at which the first part of a train counts as undelayed.
const UNDELAYED_SHARE_MIN: f64 = 0.9;

/// Cumulative bytes over time: one point for each batch, at the time of its last packet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArrivalCurve {
    /// Time since the first arrival in ns, and bytes of the packets after the first batch.
    points: Vec<(f64, f64)>,
    packets: usize,
    batched: bool,
}

/// Service curve of a path that passes a burst at one rate and the rest at another: `min(peak t, depth + sustained t)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServiceCurve {
    /// The burst, if the first packets arrived faster than the rest.
    pub burst: Option<Burst>,
    /// Long-term rate.
    pub sustained: Rate,
}

/// The faster first part of a train.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Rate of the burst.
    pub peak: Rate,
    /// Bytes beyond the sustained rate: the depth of the bucket.
    pub depth_bytes: f64,
    /// Number of gaps that give the sustained rate.
    pub rest: usize,
}

impl ArrivalCurve {
    /// Builds the curve of a train, without overtaken packets.
    ///
    /// A batch is a set of packets that arrived within a microsecond of each other, as receivers deliver the packets of
    /// one interrupt. Otherwise it is a set of packets ten times closer than average, if that yields two batches or
    /// more, as links with aggregation deliver them.
    pub fn of(observation: &TrainObservation) -> Self {
        let (curve, _) = Self::grouped(observation, BATCH_GAP_NS_MAX);
        let span = curve.points.last().map_or(0.0, |p| p.0);
        let close = span / curve.packets.max(1) as f64 * BATCH_GAP_SHARE_MAX;
        if curve.batched || close <= BATCH_GAP_NS_MAX as f64 {
            return curve;
        }
        let (in_batches, several) = Self::grouped(observation, close as u64);
        if in_batches.batched && several >= BATCHES_MIN { in_batches } else { curve }
    }

    /// Groups packets that arrived within this time of each other into batches; also returns the number of batches of
    /// at least two packets.
    fn grouped(observation: &TrainObservation, batch_gap_ns: u64) -> (Self, usize) {
        let (mut curve, mut several, mut alone) = (Self::default(), 0, true);
        let (mut first, mut latest, mut bytes) = (None, 0_u64, 0.0);
        for p in &observation.packets {
            let Some(received) = p.received.map(|r| r.as_nanos()) else { continue };
            let origin = *first.get_or_insert(received);
            if received < latest {
                continue;
            }
            let in_batch = curve.packets > 0 && received - latest < batch_gap_ns;
            latest = received;
            curve.packets += 1;
            several += usize::from(in_batch && alone);
            alone = !in_batch;
            let at = (received - origin) as f64;
            match curve.points.last_mut().filter(|_| in_batch) {
                // Packets that arrive with the first one were served before the clock started.
                Some(last) if last.1 == 0.0 => last.0 = at,
                Some(last) => {
                    bytes += f64::from(p.bytes);
                    *last = (at, bytes);
                }
                None => {
                    bytes += if curve.packets == 1 { 0.0 } else { f64::from(p.bytes) };
                    curve.points.push((at, bytes));
                }
            }
        }
        curve.batched = curve.packets > 3 && curve.points.len() * 2 < curve.packets;
        if curve.batched && curve.points.len() > 2 {
            // The last batch is delivered when its time is up, whether it is full or not.
            curve.points.pop();
        }
        (curve, several)
    }

    /// Number of batches, without the last one if it may be incomplete.
    pub fn batches(&self) -> usize {
        self.points.len()
    }

    /// One point for each batch: time since the first arrival in ns, and bytes after the first batch.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// Whether the receiver took packets in batches: more than half of them arrived together with another.
    pub fn is_batched(&self) -> bool {
        self.batched
    }

    /// Rate in b/s between two points, by their indices.
    fn rate_between(&self, a: usize, b: usize) -> Option<f64> {
        let (from, to) = (self.points.get(a)?, self.points.get(b)?);
        let ns = to.0 - from.0;
        (ns > 0.0 && to.1 > from.1).then(|| (to.1 - from.1) * 8e9 / ns)
    }

    /// The rate over all points in b/s: the slope of the least-squares line, on which the jitter of single arrivals
    /// weighs less than on the line from the first point to the last. `None` with fewer than two batches.
    pub fn rate(&self) -> Option<f64> {
        self.slope(0, self.points.len().checked_sub(1)?)
    }

    fn slope(&self, a: usize, b: usize) -> Option<f64> {
        let points = self.points.get(a..=b).filter(|p| p.len() > 1)?;
        let n = points.len() as f64;
        let (t, bytes) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
        let both = points.iter().map(|p| (p.0 - t) * (p.1 - bytes)).sum::<f64>();
        let time = points.iter().map(|p| (p.0 - t).powi(2)).sum::<f64>();
        Some(both / time * 8e9).filter(|bps| bps.is_finite() && *bps > 0.0)
    }

    /// Fits two lines: of all possible ends of the burst, the one with the least squared error.
    ///
    /// A burst must be clearly faster, and have three points on each side.
    pub fn service(&self) -> Option<ServiceCurve> {
        self.fit_burst(3)
    }

    /// Fits the curve of a train that was sent at once, far faster than the path. A queue then spaces its packets from
    /// the first on. Even two packets that are closer were passed early by a bucket, or by a host that woke up late;
    /// neither indicates the rate.
    pub fn service_at_once(&self) -> Option<ServiceCurve> {
        self.fit_burst(1)
    }

    fn fit_burst(&self, first: usize) -> Option<ServiceCurve> {
        let last = self.points.len().checked_sub(1)?;
        let plain = self.rate()?;
        let whole = self.squared_error(0, last);
        let split = (first..=last.saturating_sub(3))
            .filter_map(|k| Some((k, self.squared_error(0, k)? + self.squared_error(k, last)?)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let burst = split.filter(|(_, e)| whole.is_none_or(|w| *e < w * BEND_ERROR_SHARE_MAX)).and_then(|(k, _)| {
            // The rest of the bucket passed the next packet early.
            let rest = if k + 4 <= last { k + 1 } else { k };
            let (peak, sustained) = (self.slope(0, k)?, self.slope(rest, last)?);
            let (at, bytes) = *self.points.get(k)?;
            let depth = bytes - sustained / 8e9 * at;
            (peak > sustained * BURST_RATE_RATIO_MIN && depth > 0.0)
                .then(|| (Burst { peak: rate(peak), depth_bytes: depth, rest: last - rest }, sustained))
        });
        Some(match burst {
            Some((burst, sustained)) => ServiceCurve { burst: Some(burst), sustained: rate(sustained) },
            None => ServiceCurve { burst: None, sustained: rate(plain) },
        })
    }

    /// The rate in b/s after a burst that arrived at the sent rate, `sent` b/s, because a bucket passed it. A first
    /// part that was delayed met cross traffic.
    pub(super) fn behind_bucket(&self, sent: f64) -> Option<f64> {
        let service = self.service()?;
        let passed = service.burst.is_some_and(|b| b.peak.as_bps() as f64 >= sent * UNDELAYED_SHARE_MIN);
        passed.then_some(service.sustained.as_bps() as f64)
    }

    /// Squared distance in bytes from the straight line between two points.
    fn squared_error(&self, a: usize, b: usize) -> Option<f64> {
        let per_ns = self.rate_between(a, b)? / 8e9;
        let (t0, b0) = *self.points.get(a)?;
        let within = self.points.get(a..=b)?;
        Some(within.iter().map(|(t, bytes)| (bytes - b0 - per_ns * (t - t0)).powi(2)).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::PacketOutcome;
    use units::Instant;

    fn arrivals(times_ns: impl IntoIterator<Item = u64>) -> TrainObservation {
        let outcome =
            |t| PacketOutcome { bytes: 1500, sent: Some(Instant::ZERO), received: Some(Instant::from_nanos(t)) };
        TrainObservation { packets: times_ns.into_iter().map(outcome).collect() }
    }

    #[test]
    fn an_even_train_has_one_rate() {
        // 1500 bytes in 120 us: 100 Mb/s.
        let curve = ArrivalCurve::of(&arrivals((0..20).map(|i| i * 120_000)));
        let service = curve.service().unwrap();
        assert_eq!((service.burst, service.sustained), (None, Rate::from_bps(100_000_000)));
        assert!(!curve.is_batched());
    }

    #[test]
    fn a_bucket_of_ten_packets_before_100_mbps_is_detected() {
        // Ten packets at 1 Gb/s, thirty at 100 Mb/s.
        let burst = (0..10).map(|i| i * 12_000);
        let rest = (1..=30).map(|i| 9 * 12_000 + i * 120_000);
        let service = ArrivalCurve::of(&arrivals(burst.chain(rest))).service().unwrap();
        assert_eq!(service.sustained, Rate::from_bps(100_000_000));
        let burst = service.burst.unwrap();
        assert_eq!(burst.peak, Rate::from_bps(1_000_000_000));
        // 9 packets behind the first, less what 100 Mb/s carry in 108 us: 13500 - 1350.
        assert!((burst.depth_bytes - 12_150.0).abs() < 1.0, "{burst:?}");
    }

    #[test]
    fn a_bucket_of_three_packets_is_detected_in_a_train_sent_at_once() {
        // 5000 bytes before 50 Mb/s: two gaps of 1.2 us, one of 160 us while 500 bytes are left, then 240 us each.
        let at = [0, 1_200, 2_400, 162_400].into_iter().chain((1..=6).map(|i| 162_400 + i * 240_000));
        let curve = ArrivalCurve::of(&arrivals(at));
        let service = curve.service_at_once().unwrap();
        assert_eq!(service.sustained, Rate::from_bps(50_000_000));
        assert!(service.burst.unwrap().depth_bytes > 2_900.0, "{service:?}");
        let even = ArrivalCurve::of(&arrivals((0..10).map(|i| i * 240_000))).service_at_once().unwrap();
        assert_eq!((even.burst, even.sustained), (None, Rate::from_bps(50_000_000)));
    }

    #[test]
    fn batches_do_not_bend_the_rate() {
        // 100 Mb/s, handed over every 600 us: five packets each time, 100 ns apart.
        let batched = (1..=8_u64).flat_map(|batch| (0..5).map(move |i| batch * 600_000 + i * 100));
        let curve = ArrivalCurve::of(&arrivals(batched));
        assert!(curve.is_batched());
        assert_eq!(curve.batches(), 7);
        assert_eq!(curve.service().unwrap().sustained, Rate::from_bps(100_000_000));
    }

    #[test]
    fn a_link_that_aggregates_is_one_of_batches_and_a_bucket_is_none() {
        // 100 Mb/s, every 600 us: five packets each time, 6 us apart, as over 2 Gb/s.
        let batched = (1..=8_u64).flat_map(|batch| (0..5).map(move |i| batch * 600_000 + i * 6_000));
        let curve = ArrivalCurve::of(&arrivals(batched));
        assert!(curve.is_batched());
        assert!((curve.rate().unwrap() / 100e6 - 1.0).abs() < 0.01, "{curve:?}");
        let bucket = (0..20).map(|i| i * 6_000).chain((1..=10).map(|i| 19 * 6_000 + i * 1_200_000));
        assert!(!ArrivalCurve::of(&arrivals(bucket)).is_batched());
    }

    #[test]
    fn an_invalid_curve_is_none() {
        assert!(ArrivalCurve::of(&arrivals([])).service().is_none());
        assert!(ArrivalCurve::of(&arrivals([5])).service().is_none());
        assert!(ArrivalCurve::of(&arrivals([5, 5, 5])).service().is_none());
        assert!(ArrivalCurve::of(&arrivals([u64::MAX, 0, 7])).service().is_none());
    }
}
