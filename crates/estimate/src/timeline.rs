use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Instant, Rate};

/// Maximum number of bins that an external timeline can request: 512 KiB of counters, far more than any plot shows.
const BINS_MAX: usize = 65_536;

/// Bytes over time in bins of equal width, in bounded memory.
///
/// If the transfer outlasts the bins, neighbours are merged and the width doubles, so that a timeline covers any
/// duration with between half of and all its bins. Merging loses no byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Unchecked")]
pub struct Timeline {
    start: Instant,
    bin_ns: u64,
    bins_max: usize,
    bytes: Vec<u64>,
}

/// The serialised timeline. A peer can write any value, so nothing here is trusted before [`Timeline::from`].
#[derive(Deserialize)]
struct Unchecked {
    start: Instant,
    bin_ns: u64,
    bins_max: usize,
    bytes: Vec<u64>,
}

impl From<Unchecked> for Timeline {
    fn from(u: Unchecked) -> Self {
        let mut timeline =
            Self { start: u.start, bin_ns: u.bin_ns.max(1), bins_max: u.bins_max.clamp(2, BINS_MAX), bytes: u.bytes };
        while timeline.bytes.len() > timeline.bins_max {
            timeline.double_bin();
        }
        timeline
    }
}

impl Timeline {
    /// Creates an empty timeline that starts at `start` with bins of width `bin` (at least 1 ns) and at most `max_bins`
    /// bins (limited to 2..=65 536).
    pub fn new(start: Instant, bin: Duration, max_bins: usize) -> Self {
        let bin_ns = u64::try_from(bin.as_nanos()).unwrap_or(u64::MAX).max(1);
        Self { start, bin_ns, bins_max: max_bins.clamp(2, BINS_MAX), bytes: Vec::new() }
    }

    /// Counts `bytes` at `now`; bytes before the start count in the first bin.
    ///
    /// A call with zero bytes only advances the time, which makes a stall visible.
    pub fn add(&mut self, now: Instant, bytes: Bytes) {
        let elapsed_ns = now.as_nanos().saturating_sub(self.start.as_nanos());
        self.add_at(elapsed_ns, bytes.as_u64());
    }

    /// Current width of a bin.
    pub fn bin(&self) -> Duration {
        Duration::from_nanos(self.bin_ns)
    }

    /// Start of the first bin.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// All bytes counted.
    pub fn total(&self) -> Bytes {
        Bytes::new(self.bytes.iter().fold(0, |sum, b| u64::saturating_add(sum, *b)))
    }

    /// The rate of each completed bin, with the bin's start in seconds since the start of the timeline.
    ///
    /// The bin in progress is left out: its bytes over a whole bin would understate the rate.
    pub fn rates(&self) -> impl Iterator<Item = (f64, Rate)> + '_ {
        let (bin_s, bin) = (self.bin_ns as f64 / 1e9, self.bin());
        self.completed().iter().enumerate().map(move |(i, b)| (i as f64 * bin_s, Rate::of(Bytes::new(*b), bin)))
    }

    /// Maximum mean rate over any `window` of completed bins within `length` after the first byte; `None` if less was
    /// recorded. A window of several round trips averages out data that waited behind a lost segment and was read at
    /// once.
    pub fn highest_rate(&self, window: Duration, length: Duration) -> Option<Rate> {
        let bins = |d: Duration| usize::try_from(d.as_nanos() / u128::from(self.bin_ns)).unwrap_or(usize::MAX);
        let wide = bins(window.saturating_add(Duration::from_nanos(self.bin_ns - 1))).max(1);
        let bytes_max =
            self.within(length)?.windows(wide).map(|w| w.iter().fold(0, |s, b| u64::saturating_add(s, *b))).max()?;
        let span_ns = self.bin_ns.saturating_mul(u64::try_from(wide).unwrap_or(u64::MAX));
        Some(Rate::of(Bytes::new(bytes_max), Duration::from_nanos(span_ns)))
    }

    /// Adds the bytes of another timeline with the same start (another stream of the same direction).
    ///
    /// The result has bins at least as wide as the wider of the two. If the narrower bins do not divide the wider ones,
    /// a bin's bytes are distributed in proportion to the time.
    pub fn merge(&mut self, other: &Self) {
        while self.bin_ns < other.bin_ns {
            self.double_bin();
        }
        for (i, bytes) in other.bytes.iter().enumerate() {
            let start_ns = other.bin_ns.saturating_mul(i as u64);
            // The bins of `self` are not narrower, so a bin of `other` overlaps at most two of them.
            let until_next_ns = self.bin_ns - start_ns % self.bin_ns;
            let here_ns = until_next_ns.min(other.bin_ns);
            let here = (u128::from(*bytes) * u128::from(here_ns) / u128::from(other.bin_ns)) as u64;
            self.add_at(start_ns, here);
            if here < *bytes {
                self.add_at(start_ns.saturating_add(here_ns), bytes - here);
            }
        }
    }

    /// The bytes of the completed bins within `length` after the first byte; `None` without bytes.
    pub(crate) fn within(&self, length: Duration) -> Option<&[u64]> {
        let first = self.bytes.iter().position(|b| *b > 0)?;
        let bins = usize::try_from(length.as_nanos() / u128::from(self.bin_ns)).unwrap_or(usize::MAX);
        let all = self.completed().get(first..)?;
        all.get(..all.len().min(bins))
    }

    /// The bytes of the completed bins.
    pub(crate) fn completed(&self) -> &[u64] {
        self.bytes.split_last().map_or(&[], |(_, completed)| completed)
    }

    fn add_at(&mut self, elapsed_ns: u64, bytes: u64) {
        // The loop ends: each iteration doubles the bin, and the quotient of a u64 reaches zero after at most 64
        // iterations.
        while elapsed_ns / self.bin_ns >= self.bins_max as u64 {
            self.double_bin();
        }
        let index = (elapsed_ns / self.bin_ns) as usize;
        if index >= self.bytes.len() {
            self.bytes.resize(index + 1, 0);
        }
        if let Some(bin) = self.bytes.get_mut(index) {
            *bin = bin.saturating_add(bytes);
        }
    }

    fn double_bin(&mut self) {
        self.bytes = self.bytes.chunks(2).map(|pair| pair.iter().fold(0, |s, b| u64::saturating_add(s, *b))).collect();
        self.bin_ns = self.bin_ns.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(5_000 * MS + ms * MS)
    }

    fn timeline(bin_ms: u64, max_bins: usize) -> Timeline {
        Timeline::new(at(0), Duration::from_millis(bin_ms), max_bins)
    }

    #[test]
    fn a_bin_holds_the_bytes_of_its_time_and_the_last_one_is_not_yet_a_rate() {
        let mut t = timeline(10, 100);
        for (ms, bytes) in [(0, 1_000), (9, 250), (10, 5_000), (35, 1)] {
            t.add(at(ms), Bytes::new(bytes));
        }
        let rates: Vec<_> = t.rates().map(|(s, r)| ((s * 1e3).round() as u64, r.as_bps())).collect();
        // 1250 B in 10 ms = 1 Mb/s; 5000 B = 4 Mb/s; nothing in 20..30 ms; 30..40 ms is in progress.
        assert_eq!(rates, [(0, 1_000_000), (10, 4_000_000), (20, 0)]);
        assert_eq!(t.total(), Bytes::new(6_251));
    }

    #[test]
    fn neither_delayed_bytes_nor_bytes_after_the_load_make_the_highest_rate() {
        // 512 kb/s for 30 s, but nothing between 20 and 22 s, whose bytes are read at 22 s; a burst at 45 s.
        let mut t = timeline(100, 1000);
        for tenth in 0..500_u64 {
            let bytes = match tenth {
                200..220 => 0,
                220 => 6_400 * 21,
                450 => 357_000,
                _ => 6_400,
            };
            t.add(at(tenth * 100), Bytes::new(bytes));
        }
        let highest = |window| t.highest_rate(Duration::from_secs(window), Duration::from_secs(30)).unwrap().as_bps();
        assert!(highest(1) > 1_400_000, "one interval is impossible on this line");
        assert!((512_000..=640_000).contains(&highest(8)), "{}", highest(8));
        assert_eq!(t.highest_rate(Duration::from_secs(31), Duration::from_secs(30)), None, "shorter than the window");
        assert_eq!(timeline(100, 10).highest_rate(Duration::from_secs(1), Duration::from_secs(1)), None);
    }

    #[test]
    fn outlasting_the_bins_doubles_their_width() {
        let mut t = timeline(10, 4);
        for ms in 0..80 {
            t.add(at(ms), Bytes::new(100));
        }
        assert_eq!(t.bin(), Duration::from_millis(20));
        assert_eq!(t.rates().count(), 3);
        assert!(t.rates().all(|(_, r)| r.as_bps() == 800_000), "100 B per ms is 800 kb/s at any width");
    }

    #[test]
    fn merging_resolves_different_widths() {
        let (mut fine, mut coarse) = (timeline(10, 100), timeline(40, 100));
        for ms in 0..200 {
            fine.add(at(ms), Bytes::new(1_000));
            coarse.add(at(ms), Bytes::new(3_000));
        }
        let mut sum = fine.clone();
        sum.merge(&coarse);
        assert_eq!(sum.bin(), Duration::from_millis(40));
        assert!(sum.rates().all(|(_, r)| r.as_bps() == 32_000_000), "4 kB per ms");
        coarse.merge(&fine);
        assert_eq!(coarse, Timeline { bins_max: coarse.bins_max, ..sum });
    }

    #[test]
    fn a_hostile_timeline_is_made_harmless() {
        let text = r#"{"start":0,"bin_ns":0,"bins_max":18446744073709551615,"bytes":[18446744073709551615,7]}"#;
        let mut t: Timeline = serde_json::from_str(text).unwrap();
        t.add(Instant::from_nanos(u64::MAX), Bytes::new(u64::MAX));
        t.merge(&t.clone());
        assert!(t.bytes.len() <= BINS_MAX);
        assert_eq!(t.total(), Bytes::new(u64::MAX), "saturates");
    }

    proptest! {
        #[test]
        fn no_byte_is_lost(
            adds in prop::collection::vec((0_u64..100_000, 0_u64..1_000_000), 1..200),
            others in prop::collection::vec((0_u64..100_000, 0_u64..1_000_000), 1..200),
            bins in (1_u64..50, 1_u64..50),
            sizes in (2_usize..100, 2_usize..100),
        ) {
            let (mut a, mut b) = (timeline(bins.0, sizes.0), timeline(bins.1, sizes.1));
            for (ms, bytes) in &adds { a.add(at(*ms), Bytes::new(*bytes)); }
            for (ms, bytes) in &others { b.add(at(*ms), Bytes::new(*bytes)); }
            let expected = a.total() + b.total();
            a.merge(&b);
            prop_assert_eq!(a.total(), expected);
            prop_assert!(a.bytes.len() <= sizes.0);
            let back: Timeline = serde_json::from_str(&serde_json::to_string(&a).unwrap()).unwrap();
            prop_assert_eq!(back, a);
        }
    }
}
