use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};

use crate::DelaySummary;

/// Maximum relative error of a quantile: three significant decimal digits of an HDR histogram.
///
/// The bound holds for any number of samples; that of thrulay's sketch ends at 2^20.
pub const RELATIVE_ERROR: f64 = 1e-3;

/// Maximum distinguishable delay; longer delays count as this one. One hour is far beyond any Tmax (RFC 6703: 51 s).
const DELAY_NS_MAX: u64 = 3_600_000_000_000;

/// Buckets of an octave: half of the number for three digits (HdrHistogram: 2048 sub-buckets).
const OCTAVE: u64 = 1024;

/// Maximum number of occupied buckets in a list: 4 kB, the size of the arrays of two octaves.
const LIST_BUCKETS_MAX: usize = 1024;

/// Error of decoding a histogram.
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

/// A mergeable histogram of delays, whose quantiles have the error [`RELATIVE_ERROR`] for any number of samples.
///
/// Its memory grows with the number of different delays: 4 bytes for each of the first 1024, then 2 kB for each octave
/// of delays, or 8 kB once a bucket of the octave counts more than 65,535. A test has about ten histograms for each
/// stream, of which most contain a few hundred delays.
#[derive(Debug, Clone)]
pub struct DelayHistogram(Buckets);

#[derive(Debug, Clone)]
enum Buckets {
    /// Occupied buckets in order: index and count.
    Few(Vec<(u16, u16)>),
    /// All buckets of each octave, by the number of the octave; the last one is occupied.
    Many(Vec<Octave>),
}

/// Counts of the buckets of one octave.
#[derive(Debug, Clone)]
enum Octave {
    Empty,
    /// Counts that all fit into 16 bits.
    Narrow(Box<[u16; OCTAVE as usize]>),
    Wide(Box<[u64; OCTAVE as usize]>),
}

impl Octave {
    fn add(&mut self, bucket: usize, count: u64) {
        if matches!(self, Self::Empty) {
            *self = Self::Narrow(Box::new([0; OCTAVE as usize]));
        }
        if let Self::Narrow(counts) = self
            && let Some(old) = counts.get_mut(bucket)
        {
            if let Ok(new) = u16::try_from(u64::from(*old).saturating_add(count)) {
                *old = new;
                return;
            }
            *self = Self::Wide(Box::new(counts.map(u64::from)));
        }
        if let Self::Wide(counts) = self
            && let Some(old) = counts.get_mut(bucket)
        {
            *old = old.saturating_add(count);
        }
    }

    fn count(&self, bucket: usize) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Narrow(counts) => counts.get(bucket).map_or(0, |n| u64::from(*n)),
            Self::Wide(counts) => counts.get(bucket).copied().unwrap_or(0),
        }
    }
}

/// Bucket of a delay: exact below 2048 ns, then 1024 buckets an octave.
fn index_of(ns: u64) -> u16 {
    let shift = u64::from((ns / OCTAVE).max(1).ilog2());
    (shift * OCTAVE + (ns >> shift)) as u16
}

/// Minimum delay of a bucket.
fn lowest(index: u16) -> u64 {
    let index = u64::from(index);
    let shift = (index / OCTAVE).saturating_sub(1);
    (index - shift * OCTAVE) << shift
}

#[allow(clippy::expect_used, reason = "constant arguments inside the documented range")]
fn all_buckets() -> Histogram<u64> {
    let mut h = Histogram::new_with_bounds(1, 2 * 1_000_000, 3).expect("1 <= 2e6 and 3 digits are valid");
    h.auto(true);
    h
}

impl Default for DelayHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl DelayHistogram {
    /// Creates an empty histogram, which occupies no heap memory.
    pub const fn new() -> Self {
        Self(Buckets::Few(Vec::new()))
    }

    /// Counts one delay.
    pub fn record(&mut self, delay: Duration) {
        self.record_nanos(u64::try_from(delay.as_nanos()).unwrap_or(DELAY_NS_MAX));
    }

    /// Counts one delay given in nanoseconds.
    pub fn record_nanos(&mut self, ns: u64) {
        self.record_many(ns, 1);
    }

    /// Counts `count` delays of `ns` nanoseconds.
    pub fn record_many(&mut self, ns: u64, count: u64) {
        let ns = ns.min(DELAY_NS_MAX);
        if let Buckets::Few(list) = &mut self.0 {
            if count == 0 || add(list, index_of(ns), count) {
                return;
            }
            let mut octaves = Vec::new();
            list.iter().for_each(|(index, count)| add_to_octave(&mut octaves, *index, u64::from(*count)));
            self.0 = Buckets::Many(octaves);
        }
        if let Buckets::Many(octaves) = &mut self.0 {
            add_to_octave(octaves, index_of(ns), count);
        }
    }

    /// Occupied buckets in order: index and count.
    fn occupied(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        let (list, octaves) = match &self.0 {
            Buckets::Few(list) => (list.as_slice(), &[][..]),
            Buckets::Many(octaves) => (&[][..], octaves.as_slice()),
        };
        let of_octaves =
            octaves.iter().enumerate().filter(|(_, o)| !matches!(o, Octave::Empty)).flat_map(|(n, octave)| {
                let first = n * OCTAVE as usize;
                (0..OCTAVE as usize).map(move |bucket| ((first + bucket) as u16, octave.count(bucket)))
            });
        let of_list = list.iter().map(|(index, count)| (*index, u64::from(*count)));
        of_list.chain(of_octaves.filter(|(_, count)| *count > 0))
    }

    /// The histogram in the form that supports all queries.
    fn whole(&self) -> Histogram<u64> {
        let mut h = all_buckets();
        for (index, count) in self.occupied() {
            // Auto-resize supports any u64 up to DELAY_NS_MAX; an error would require a 32-bit host without memory.
            let _ = h.record_n(lowest(index), count);
        }
        h
    }

    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        other.occupied().for_each(|(index, count)| self.record_many(lowest(index), count));
    }

    /// Removes all samples and keeps the memory of a list.
    pub fn clear(&mut self) {
        match &mut self.0 {
            Buckets::Few(list) => list.clear(),
            Buckets::Many(_) => *self = Self::new(),
        }
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.occupied().fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// The `q`-quantile (0 to 1) in nanoseconds; `None` without samples (RFC 2681 §4: undefined for an empty sample).
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let h = self.whole();
        (!h.is_empty()).then(|| h.value_at_quantile(q).min(h.max()))
    }

    /// Non-empty buckets as (highest equivalent value in ns, count), ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let buckets: Vec<_> =
            self.whole().iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect();
        buckets.into_iter()
    }

    /// Minimum, quantiles, maximum and encoded histogram; `None` without samples.
    pub fn summary(&self) -> Option<DelaySummary> {
        let h = self.whole();
        if h.is_empty() {
            return None;
        }
        let q = |p: f64| h.value_at_quantile(p).min(h.max());
        Some(DelaySummary {
            count: h.len(),
            min_ns: h.min(),
            p25_ns: q(0.25),
            p50_ns: q(0.5),
            p75_ns: q(0.75),
            p90_ns: q(0.9),
            p95_ns: q(0.95),
            p99_ns: q(0.99),
            p999_ns: q(0.999),
            max_ns: h.max(),
            mean_ns: h.mean().round() as u64,
            histogram: encode(&h),
        })
    }

    /// HDR V2 encoding in base64, readable by every HdrHistogram implementation.
    pub fn encode(&self) -> String {
        encode(&self.whole())
    }

    /// Decodes the result of [`encode`](Self::encode).
    ///
    /// # Errors
    /// The text is not base64, or not an HDR V2 histogram.
    pub fn decode(text: &str) -> Result<Self, HistogramError> {
        let bytes = STANDARD.decode(text).map_err(|_| HistogramError::Base64)?;
        let h: Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|_| HistogramError::Encoding)?;
        let mut decoded = Self::new();
        h.iter_recorded().for_each(|v| decoded.record_many(v.value_iterated_to(), v.count_at_value()));
        Ok(decoded)
    }
}

/// Adds to a list; returns `false` without a change if the list is full.
fn add(list: &mut Vec<(u16, u16)>, index: u16, count: u64) -> bool {
    match list.binary_search_by_key(&index, |(i, _)| *i) {
        Ok(at) => {
            let Some((_, old)) = list.get_mut(at) else { return false };
            let new = u64::from(*old).saturating_add(count);
            u16::try_from(new).map(|new| *old = new).is_ok()
        }
        Err(at) => {
            let count = u16::try_from(count).ok().filter(|_| list.len() < LIST_BUCKETS_MAX);
            count.map(|count| list.insert(at, (index, count))).is_some()
        }
    }
}

fn add_to_octave(octaves: &mut Vec<Octave>, index: u16, count: u64) {
    let (octave, bucket) = (usize::from(index) / OCTAVE as usize, usize::from(index) % OCTAVE as usize);
    if octaves.len() <= octave {
        octaves.resize_with(octave + 1, || Octave::Empty);
    }
    if let Some(octave) = octaves.get_mut(octave) {
        octave.add(bucket, count);
    }
}

fn encode(h: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    match V2Serializer::new().serialize(h, &mut bytes) {
        Ok(_) => STANDARD.encode(bytes),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_keep_their_error_bound_beyond_a_million_samples() {
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

    #[test]
    fn a_list_of_few_buckets_equals_all_buckets() {
        let delays = |n: u64| {
            (0..n).map(|i| i * i % 7_919 * 10_u64.pow((i % 7) as u32) + i).chain([
                0,
                1,
                2047,
                2048,
                DELAY_NS_MAX,
                u64::MAX,
            ])
        };
        // Numbers of delays below and above the capacity of the list, and counts above that of a list entry.
        for (n, many) in [(300, 1), (300, 70_000), (3_000, 70_000), (100_000, 1), (100_000, u64::from(u32::MAX))] {
            let (mut ours, mut exact) = (DelayHistogram::new(), all_buckets());
            for ns in delays(n) {
                ours.record_nanos(ns);
                exact.record(ns.min(DELAY_NS_MAX)).unwrap();
            }
            ours.record_many(5_000, many);
            exact.record_n(5_000, many).unwrap();
            assert_eq!(matches!(ours.0, Buckets::Few(_)), n == 300 && many == 1);
            assert_eq!((ours.count(), ours.encode()), (exact.len(), encode(&exact)));
            let summary = ours.summary().unwrap();
            assert_eq!((summary.min_ns, summary.max_ns), (exact.min(), exact.max()));
            let (mut twice, mut fresh) = (ours.clone(), DelayHistogram::new());
            twice.merge(&ours);
            fresh.merge(&ours);
            fresh.merge(&ours);
            assert_eq!(twice.count(), 2 * exact.len());
            assert!(
                twice.buckets().eq(fresh.buckets()) && twice.buckets().map(|(ns, n)| (ns, n / 2)).eq(ours.buckets())
            );
        }
    }

    #[test]
    fn a_thousand_delays_occupy_a_few_kilobytes() {
        let mut h = DelayHistogram::new();
        (0..1000).for_each(|i| h.record_nanos(20_000_000 + i * 10_000));
        let Buckets::Few(list) = &h.0 else { panic!("all buckets for a thousand delays") };
        assert!(list.capacity() * 4 <= 4096, "{}", list.capacity());
        // A million delays between 20 and 60 ms: two octaves, the arrays of which have 2 kB each.
        (0..1_000_000).for_each(|i| h.record_nanos(20_000_000 + i * 40));
        let Buckets::Many(octaves) = &h.0 else { panic!("a list of a million delays") };
        let narrow = octaves.iter().filter(|o| matches!(o, Octave::Narrow(_))).count();
        assert!(narrow <= 3 && !octaves.iter().any(|o| matches!(o, Octave::Wide(_))), "{narrow}");
    }
}
