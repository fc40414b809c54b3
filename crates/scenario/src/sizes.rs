//! Sizes of small transfers: one size, or a published distribution.
//!
//! A published distribution is a table of sizes and of the share of transfers up to each size. Sizes between two
//! entries are uniform, as in the traffic generators of the papers that use these tables.

use std::fmt;

use units::Bytes;

use crate::problem::Fault;
use crate::quantity;
use crate::section::Item;
use crate::tree::Kind;

/// Web search: Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, figure 4, as bytes and share in the traffic
/// generators of HPCC (Li et al., SIGCOMM 2019, `WebSearch_distribution.txt`) and of Bai et al. (NSDI 2015,
/// `DCTCP_CDF.txt`).
const WEB_SEARCH: &[(u64, f64)] = &[
    (0, 0.0),
    (10_000, 0.15),
    (20_000, 0.2),
    (30_000, 0.3),
    (50_000, 0.4),
    (80_000, 0.53),
    (200_000, 0.6),
    (1_000_000, 0.7),
    (2_000_000, 0.8),
    (5_000_000, 0.9),
    (10_000_000, 0.97),
    (30_000_000, 1.0),
];

/// Data mining: Greenberg et al., "VL2: A Scalable and Flexible Data Center Network", SIGCOMM 2009, figure 2, as bytes
/// and share in the traffic generator of Bai et al. (NSDI 2015, `VL2_CDF.txt`).
const DATA_MINING: &[(u64, f64)] = &[
    (0, 0.0),
    (180, 0.1),
    (216, 0.2),
    (560, 0.3),
    (900, 0.4),
    (1_100, 0.5),
    (1_870, 0.6),
    (3_160, 0.7),
    (10_000, 0.8),
    (400_000, 0.9),
    (3_160_000, 0.95),
    (100_000_000, 0.98),
    (1_000_000_000, 1.0),
];

/// A published distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// Responses of a web search: Alizadeh et al. 2010 (DCTCP), figure 4. Mean 1.711 MB.
    WebSearch,
    /// Flows of a data mining cluster: Greenberg et al. 2009 (VL2), figure 2. Mean 12.66 MB, and half of all below 1.1
    /// kB.
    DataMining,
}

impl Published {
    /// Sizes in bytes, ascending, and the share of transfers up to each size, from 0 to 1.
    pub const fn table(self) -> &'static [(u64, f64)] {
        match self {
            Self::WebSearch => WEB_SEARCH,
            Self::DataMining => DATA_MINING,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::WebSearch => "web-search",
            Self::DataMining => "data-mining",
        }
    }

    /// Largest size of the table in bytes.
    fn largest(self) -> u64 {
        self.table().last().map_or(0, |(size, _)| *size)
    }

    /// The table up to `most` bytes, with the share at `most` as its last entry.
    fn cut(self, most: Option<Bytes>) -> Vec<(f64, f64)> {
        let most = most.map_or(f64::INFINITY, |b| b.as_u64() as f64);
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (size, share) in self.table().iter().map(|(size, share)| (*size as f64, *share)) {
            if size <= most {
                points.push((size, share));
                continue;
            }
            if let Some((below, under)) = points.last().copied().filter(|(below, _)| *below < most) {
                points.push((most, under + (share - under) * (most - below) / (size - below)));
            }
            break;
        }
        points
    }
}

/// Sizes of the transfers of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// All transfers have the same size.
    Fixed(Bytes),
    /// The size of each transfer is drawn from a distribution.
    Drawn {
        /// The distribution.
        from: Published,
        /// Maximum size: a larger size is drawn again, so the distribution is that of the transfers up to this size.
        /// Clipping instead would turn a tail of, say, 30 % into as many transfers of one size, which no publication
        /// has measured.
        most: Option<Bytes>,
    },
}

impl Sizes {
    /// Mean of the distribution in bytes: the middle of each segment of the table, weighted by its share.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(bytes) => bytes.as_u64() as f64,
            Self::Drawn { from, most } => {
                let points = from.cut(*most);
                let all = points.last().map_or(1.0, |(_, share)| *share);
                let of = |w: &[(f64, f64)]| (w[1].1 - w[0].1) / all * f64::midpoint(w[0].0, w[1].0);
                points.windows(2).map(of).sum()
            }
        }
    }

    /// The size below which a `share` of all transfers lies (0..=1), at least one byte. A uniform random number from 0
    /// to 1 as `share` gives a random size.
    pub fn quantile(&self, share: f64) -> Bytes {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Drawn { from, most } => {
                let points = from.cut(*most);
                let wanted = share.clamp(0.0, 1.0) * points.last().map_or(1.0, |(_, all)| *all);
                let stretch = points.windows(2).find(|w| wanted <= w[1].1).or_else(|| points.windows(2).last());
                let size = stretch.map_or(0.0, |w| {
                    w[0].0 + (w[1].0 - w[0].0) * ((wanted - w[0].1) / (w[1].1 - w[0].1)).clamp(0.0, 1.0)
                });
                Bytes::new((size.round() as u64).max(1))
            }
        }
    }
}

impl fmt::Display for Sizes {
    /// Formats as `100 kB` or `web-search sizes up to 1 MB (mean 123.2 kB)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(bytes) => bytes.fmt(f),
            Self::Drawn { from, most } => {
                write!(f, "{} sizes", from.name())?;
                if let Some(most) = most {
                    write!(f, " up to {most}")?;
                }
                write!(f, " (mean {})", Bytes::new(self.mean().round() as u64))
            }
        }
    }
}

/// Reads `bytes` of a stream of transfers: an amount, or a table that names a distribution.
pub(crate) fn read(item: &Item<'_>) -> Option<Sizes> {
    if !matches!(item.value.kind, Kind::Table(_)) {
        return item.read(quantity::bytes).map(Sizes::Fixed);
    }
    const NAMES: &[(&str, Published)] = &[("web-search", Published::WebSearch), ("data-mining", Published::DataMining)];
    let mut section = item.section()?;
    let from = section
        .required("distribution", "name it: distribution = \"web-search\" or \"data-mining\"")
        .and_then(|i| i.read(quantity::name(NAMES)));
    let most = section.item("most");
    section.finish();
    let most = match (most, from) {
        (None, _) | (_, None) => None,
        (Some(item), Some(from)) => {
            let most = item.read(quantity::bytes)?;
            if most.as_u64() >= from.largest() {
                let message =
                    format!("has no effect: the largest size of {} is {}", from.name(), Bytes::new(from.largest()));
                item.complain(Fault::new(message, "make it smaller, or leave it out"));
            }
            Some(most)
        }
    };
    Some(Sizes::Drawn { from: from?, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn drawn(from: Published, most: Option<u64>) -> Sizes {
        Sizes::Drawn {
            from,
            most: match most {
                Some(n) => Some(Bytes::new(n)),
                None => None,
            },
        }
    }

    #[test]
    fn the_tables_rise_from_zero_to_one() {
        for table in [Published::WebSearch.table(), Published::DataMining.table()] {
            assert_eq!((table[0], table[table.len() - 1].1), ((0, 0.0), 1.0));
            assert!(table.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
        }
    }

    #[test]
    fn the_means_equal_the_sums_by_hand() {
        // Shares times midpoints: 0.15 x 5 kB + 0.05 x 15 kB + 0.1 x 25 kB + 0.1 x 40 kB + 0.13 x 65 kB + 0.07 x 140 kB
        // + 0.1 x 600 kB = 86.25 kB; + 0.1 x 1.5 MB + 0.1 x 3.5 MB + 0.07 x 7.5 MB + 0.03 x 20 MB.
        let near = |sizes: Sizes, bytes: f64| assert!((sizes.mean() / bytes - 1.0).abs() < 1e-9, "{}", sizes.mean());
        near(drawn(Published::WebSearch, None), 1_711_250.0);
        // The mean over the first 70 % is 86.25 kB / 0.7.
        near(drawn(Published::WebSearch, Some(1_000_000)), 86_250.0 / 0.7);
        // The bound lies inside a segment: the share up to 600 kB is 0.65, from 26.25 kB and 0.05 x 400 kB.
        near(drawn(Published::WebSearch, Some(600_000)), (26_250.0 + 20_000.0) / 0.65);
        // 640.6 B of the first 70 %, 658 B, 20.5 kB, 89 kB, 1.5474 MB, 11 MB.
        near(drawn(Published::DataMining, None), 12_658_198.6);
        near(Sizes::Fixed(Bytes::new(100_000)), 100_000.0);
    }

    #[test]
    fn sizes_follow_the_table() {
        let web = drawn(Published::WebSearch, None);
        for (share, bytes) in
            [(0.0, 1), (0.15, 10_000), (0.25, 25_000), (0.53, 80_000), (0.65, 600_000), (1.0, 30_000_000)]
        {
            assert_eq!(web.quantile(share), Bytes::new(bytes), "{share}");
        }
        // Up to 1 MB are 70 % of all: half of them is at the share of 0.35, in the middle of 30 and 50 kB.
        let cut = drawn(Published::WebSearch, Some(1_000_000));
        assert_eq!((cut.quantile(0.5), cut.quantile(1.0)), (Bytes::new(40_000), Bytes::new(1_000_000)));
        for odd in [-1.0, 2.0, f64::NAN] {
            assert!((1..=1_000_000).contains(&cut.quantile(odd).as_u64()), "{odd}");
        }
    }

    #[test]
    fn the_mean_is_that_of_the_quantiles() {
        // Midpoint rule over a million shares; the tail of the table is straight lines.
        for sizes in [drawn(Published::WebSearch, None), drawn(Published::DataMining, Some(50_000_000))] {
            let n = 200_000;
            let sum: f64 = (0..n).map(|i| sizes.quantile((f64::from(i) + 0.5) / f64::from(n)).as_u64() as f64).sum();
            // Rounding to whole bytes, and to one byte at least: below a byte in the mean.
            assert!((sum / f64::from(n) - sizes.mean()).abs() < 1.0 + sizes.mean() * 1e-6, "{sizes}");
        }
    }

    #[test]
    fn sizes_are_formatted_as_text() {
        assert_eq!(Sizes::Fixed(Bytes::new(100_000)).to_string(), Bytes::new(100_000).to_string());
        let text = drawn(Published::WebSearch, Some(1_000_000)).to_string();
        assert!(text.starts_with("web-search sizes up to 1") && text.contains("mean 123"), "{text}");
    }
}
