use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use crate::DelaySummary;

/// Largest relative error of a quantile: three significant decimal digits of an HDR histogram.
///
/// The bound holds for any number of samples; the sketch of thrulay stopped holding at 2^20.
pub const RELATIVE_ERROR: f64 = 1e-3;

/// Longest delay that is told apart; longer ones count as this long. One hour is far beyond any Tmax (RFC 6703: 51 s).
const MAX_NS: u64 = 3_600_000_000_000;

/// A histogram that could not be read or merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistogramError {
    /// The text is not base64.
    #[error("histogram is not base64")]
    Base64,
    /// The bytes are not an HDR histogram in V2 encoding.
    #[error("histogram is not in HDR V2 encoding")]
    Encoding,
}

/// A mergeable histogram of delays, with quantiles good to [`RELATIVE_ERROR`] at any number of samples.
///
/// Grows with the range of delays (some tens of kilobytes), never with the number of samples.
#[derive(Debug, Clone)]
pub struct DelayHistogram(Histogram<u64>);

impl Default for DelayHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl DelayHistogram {
    /// An empty histogram.
    #[allow(clippy::expect_used, reason = "constant arguments inside the documented range")]
    pub fn new() -> Self {
        let mut h = Histogram::new_with_bounds(1, 2 * 1_000_000, 3).expect("1 <= 2e6 and 3 digits are valid");
        h.auto(true);
        Self(h)
    }

    /// Counts one delay.
    pub fn record(&mut self, delay: Duration) {
        self.record_nanos(u64::try_from(delay.as_nanos()).unwrap_or(MAX_NS));
    }

    /// Counts one delay given in nanoseconds.
    pub fn record_nanos(&mut self, ns: u64) {
        let clamped = ns.min(MAX_NS);
        // Auto-resize grows to any u64 up to MAX_NS; an error would need a 32-bit host without memory.
        let _ = self.0.record(clamped);
    }

    /// Counts `count` delays of `ns` nanoseconds.
    pub fn record_many(&mut self, ns: u64, count: u64) {
        let _ = self.0.record_n(ns.min(MAX_NS), count);
    }

    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        let _ = self.0.add(&other.0);
    }

    /// Forgets all samples, keeps the memory.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The `q`-quantile (0..=1) in nanoseconds; `None` without samples (RFC 2681 §4: undefined on an empty sample).
    pub fn quantile(&self, q: f64) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(q).min(self.0.max()))
    }

    /// Non-empty buckets as (highest equivalent value in ns, count), ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value()))
    }

    /// Minimum, quantiles, maximum and the histogram itself; `None` without samples.
    pub fn summary(&self) -> Option<DelaySummary> {
        if self.0.is_empty() {
            return None;
        }
        let q = |p: f64| self.0.value_at_quantile(p).min(self.0.max());
        Some(DelaySummary {
            count: self.0.len(),
            min_ns: self.0.min(),
            p25_ns: q(0.25),
            p50_ns: q(0.5),
            p75_ns: q(0.75),
            p90_ns: q(0.9),
            p95_ns: q(0.95),
            p99_ns: q(0.99),
            p999_ns: q(0.999),
            max_ns: self.0.max(),
            mean_ns: self.0.mean().round() as u64,
            histogram: self.encode(),
        })
    }

    /// The HDR V2 encoding in base64: readable by every HdrHistogram implementation.
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        match V2Serializer::new().serialize(&self.0, &mut bytes) {
            Ok(_) => STANDARD.encode(bytes),
            Err(_) => String::new(),
        }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// Not base64, or not an HDR V2 histogram.
    pub fn decode(text: &str) -> Result<Self, HistogramError> {
        let bytes = STANDARD.decode(text).map_err(|_| HistogramError::Base64)?;
        let mut h: Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|_| HistogramError::Encoding)?;
        h.auto(true);
        Ok(Self(h))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_keep_their_bound_beyond_the_millionth_sample() {
        let mut h = DelayHistogram::new();
        for i in 1..=2_000_000_u64 {
            h.record_nanos(i * 1000);
        }
        for (q, exact) in [(0.25, 5e8), (0.5, 1e9), (0.99, 1.98e9)] {
            let got = h.quantile(q).unwrap() as f64;
            assert!((got - exact).abs() <= exact * RELATIVE_ERROR, "q{q}: {got} against {exact}");
        }
    }

    #[test]
    fn encoding_and_merging_lose_nothing() {
        let (mut a, mut b) = (DelayHistogram::new(), DelayHistogram::new());
        a.record_nanos(1_500);
        b.record_nanos(40_000_000_000);
        let mut merged = DelayHistogram::decode(&a.encode()).unwrap();
        merged.merge(&DelayHistogram::decode(&b.encode()).unwrap());
        assert_eq!(merged.count(), 2);
        let s = merged.summary().unwrap();
        assert_eq!(s.min_ns, 1_500);
        assert!(s.max_ns.abs_diff(40_000_000_000) <= 40_000_000);
        assert_eq!(DelayHistogram::decode("!!").unwrap_err(), HistogramError::Base64);
        assert_eq!(DelayHistogram::decode("AAAA").unwrap_err(), HistogramError::Encoding);
    }

    #[test]
    fn an_empty_sample_has_no_quantiles() {
        assert!(DelayHistogram::new().summary().is_none());
        assert!(DelayHistogram::new().quantile(0.5).is_none());
    }
}
