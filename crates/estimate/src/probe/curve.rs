//! The arrival curve of a train: what came by when, read in a way that batches and token buckets do not mislead.

use units::Rate;

use super::TrainObservation;
use crate::samples::rate;

/// Packets that come within this of each other came together, in ns: no link of a wide area network is so fast that
/// 1500 bytes take less, and what a receiver hands over after an interrupt is closer.
const TOGETHER_NS: u64 = 1_000;

/// Or closer than this share of their mean distance, where that makes so many batches: a bucket lets packets through once, and others
/// of a load come between packets, not behind them.
const CLOSE: f64 = 0.1;
const BATCHES_MIN: usize = 2;

/// How much faster the first part of a train must come than the rest before it is called a burst: variation by cross
/// traffic stays below this for trains of ten packets and more.
const BURST: f64 = 1.5;

/// A bend is one if two lines leave less than this of the squared error of one line: jitter bends no train that much.
const EXPLAINED: f64 = 0.1;

/// A first part that is no slower than this share of what was sent has passed as it was.
const AS_SENT: f64 = 0.9;

/// What came by when: one point for each batch, at the time of its last packet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArrivalCurve {
    /// Time since the first arrival in ns, and bytes of the packets that came after the first batch.
    points: Vec<(f64, f64)>,
    packets: usize,
    batched: bool,
}

/// A path that passes a burst at one rate and what follows at another: `min(peak t, depth + sustained t)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServiceCurve {
    /// Rate of the first packets, when it differs from what follows.
    pub burst: Option<Burst>,
    /// Rate in the long run.
    pub sustained: Rate,
}

/// The first part of a train that came faster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Rate of the burst.
    pub peak: Rate,
    /// Bytes beyond the sustained rate: the depth of the bucket.
    pub depth_bytes: f64,
    /// Gaps that tell the sustained rate.
    pub rest: usize,
}

impl ArrivalCurve {
    /// The curve of a train. Packets that were overtaken are left out.
    ///
    /// Batches are what came within a microsecond, as receivers hand over what an interrupt found; or else what came ten
    /// times closer than on average, where that makes two batches or more, as links that aggregate deliver it.
    pub fn of(passage: &TrainObservation) -> Self {
        let (curve, _) = Self::grouped(passage, TOGETHER_NS);
        let span = curve.points.last().map_or(0.0, |p| p.0);
        let close = span / curve.packets.max(1) as f64 * CLOSE;
        if curve.batched || close <= TOGETHER_NS as f64 {
            return curve;
        }
        let (in_batches, several) = Self::grouped(passage, close as u64);
        if in_batches.batched && several >= BATCHES_MIN { in_batches } else { curve }
    }

    /// The curve with what came closer than this as one; and how often two packets or more did.
    fn grouped(passage: &TrainObservation, together_ns: u64) -> (Self, usize) {
        let (mut curve, mut several, mut alone) = (Self::default(), 0, true);
        let (mut first, mut latest, mut bytes) = (None, 0_u64, 0.0);
        for p in &passage.packets {
            let Some(received) = p.received.map(|r| r.as_nanos()) else { continue };
            let origin = *first.get_or_insert(received);
            if received < latest {
                continue;
            }
            let together = curve.packets > 0 && received - latest < together_ns;
            latest = received;
            curve.packets += 1;
            several += usize::from(together && alone);
            alone = !together;
            let at = (received - origin) as f64;
            match curve.points.last_mut().filter(|_| together) {
                // What comes with the first packet was served before the clock started.
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
            // The last batch is handed over when its time is up, whether it is full or not.
            curve.points.pop();
        }
        (curve, several)
    }

    /// How many batches, the last left out where it may not be full.
    pub fn batches(&self) -> usize {
        self.points.len()
    }

    /// One point for each batch: time since the first arrival in ns, and bytes that came after the first batch.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// Whether the receiver took packets in batches: more than half of them came together with another.
    pub fn is_batched(&self) -> bool {
        self.batched
    }

    /// Bits a second between two points, by their numbers.
    fn rate_between(&self, a: usize, b: usize) -> Option<f64> {
        let (from, to) = (self.points.get(a)?, self.points.get(b)?);
        let ns = to.0 - from.0;
        (ns > 0.0 && to.1 > from.1).then(|| (to.1 - from.1) * 8e9 / ns)
    }

    /// The rate over all points in b/s: the slope of the least squares line, on which the jitter of single arrivals weighs
    /// less than on the line from the first to the last. `None` with fewer than two batches.
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

    /// Fits the two lines: of all places where the burst could end, the one that leaves the least squared error.
    ///
    /// A burst is one only if it is clearly faster and something of substance follows: three points on each side.
    pub fn service(&self) -> Option<ServiceCurve> {
        self.bent(3)
    }

    /// The same of a train that was sent at once, far faster than the path: a queue then keeps its packets apart from the
    /// first on, so that even two of them that are closer than the rest were let through by a bucket, or by a host that
    /// woke up late. Neither tells of the rate.
    pub fn service_at_once(&self) -> Option<ServiceCurve> {
        self.bent(1)
    }

    fn bent(&self, least: usize) -> Option<ServiceCurve> {
        let last = self.points.len().checked_sub(1)?;
        let plain = self.rate()?;
        let whole = self.squared_error(0, last);
        let split = (least..=last.saturating_sub(3))
            .filter_map(|k| Some((k, self.squared_error(0, k)? + self.squared_error(k, last)?)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let burst = split.filter(|(_, e)| whole.is_none_or(|w| *e < w * EXPLAINED)).and_then(|(k, _)| {
            // What the bucket still held let the next packet through early.
            let rest = if k + 4 <= last { k + 1 } else { k };
            let (peak, sustained) = (self.slope(0, k)?, self.slope(rest, last)?);
            let (at, bytes) = *self.points.get(k)?;
            let depth = bytes - sustained / 8e9 * at;
            (peak > sustained * BURST && depth > 0.0)
                .then(|| (Burst { peak: rate(peak), depth_bytes: depth, rest: last - rest }, sustained))
        });
        Some(match burst {
            Some((burst, sustained)) => ServiceCurve { burst: Some(burst), sustained: rate(sustained) },
            None => ServiceCurve { burst: None, sustained: rate(plain) },
        })
    }

    /// The rate in b/s of what follows a burst that came as fast as the train was sent, at `sent` b/s: a bucket let it
    /// through. A first part that was slowed down met the packets of others.
    pub(super) fn behind_bucket(&self, sent: f64) -> Option<f64> {
        let service = self.service()?;
        let passed = service.burst.is_some_and(|b| b.peak.as_bps() as f64 >= sent * AS_SENT);
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
        let fate = |t| PacketOutcome { bytes: 1500, sent: Some(Instant::ZERO), received: Some(Instant::from_nanos(t)) };
        TrainObservation { packets: times_ns.into_iter().map(fate).collect() }
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
    fn a_bucket_of_ten_packets_before_100_mbps_is_told_apart() {
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
    fn a_bucket_of_three_packets_is_told_apart_of_a_train_sent_at_once() {
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
    fn what_cannot_be_a_curve_is_none() {
        assert!(ArrivalCurve::of(&arrivals([])).service().is_none());
        assert!(ArrivalCurve::of(&arrivals([5])).service().is_none());
        assert!(ArrivalCurve::of(&arrivals([5, 5, 5])).service().is_none());
        assert!(ArrivalCurve::of(&arrivals([u64::MAX, 0, 7])).service().is_none());
    }
}
