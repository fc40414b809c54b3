use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parse::{ParseQuantityError, split_quantity};
use crate::{Bytes, parse};

/// A data rate in bits per second (SI prefixes: 1 Gb/s = 10^9 bit/s).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Rate(u64);

impl Rate {
    /// Zero rate.
    pub const ZERO: Self = Self(0);

    /// A rate of `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Bytes per second, rounded down.
    pub const fn as_bytes_per_second(self) -> u64 {
        self.0 / 8
    }

    /// Mean rate of `bytes` over `elapsed`; zero if no time has passed.
    pub fn of(bytes: Bytes, elapsed: Duration) -> Self {
        let ns = elapsed.as_nanos();
        if ns == 0 {
            return Self::ZERO;
        }
        let bps = u128::from(bytes.as_u64()) * 8 * 1_000_000_000 / ns;
        Self(u64::try_from(bps).unwrap_or(u64::MAX))
    }

    /// Transmission time of `bytes` at this rate; `None` at rate zero.
    pub fn time_for(self, bytes: Bytes) -> Option<Duration> {
        if self.0 == 0 {
            return None;
        }
        let ns = u128::from(bytes.as_u64()) * 8 * 1_000_000_000 / u128::from(self.0);
        Some(Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    /// Bytes transmitted in `d` at this rate, rounded down; for a round-trip time `d` the bandwidth-delay product.
    pub fn bytes_in(self, d: Duration) -> Bytes {
        let bytes = u128::from(self.0) * d.as_nanos() / 8 / 1_000_000_000;
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Rate {
    /// Formats four significant digits and the unit: `94.93 Mb/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&parse::with_prefix(self.0, "b/s"))
    }
}

impl FromStr for Rate {
    type Err = ParseQuantityError;

    /// Accepts `10Gb/s`, `10Gbit/s`, `10Gbps`, `10gbit`, `10G`, `2.5 Mb/s`: bits and never bytes. A number without a
    /// unit is invalid except zero.
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let (number, unit) = split_quantity(s)?;
        if unit.is_empty() {
            return parse::bare(s, number, &["Mb/s", "kb/s", "b/s"]).map(Self);
        }
        let prefix = ["bit/s", "bits/s", "b/s", "bps", "bit"].iter().find_map(|u| unit.strip_suffix(u)).unwrap_or(unit);
        let units = "b/s, kb/s, Mb/s, Gb/s or Tb/s (bits, not bytes)";
        let factor = parse::prefix(prefix).ok_or_else(|| ParseQuantityError::unit(s, units))?;
        parse::to_u64(s, number * factor).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parsed_in_common_notations() {
        for (text, bps) in [
            ("10Gb/s", 10_000_000_000),
            ("10G", 10_000_000_000),
            ("2.5 Mb/s", 2_500_000),
            ("10m", 10_000_000),
            ("10g", 10_000_000_000),
            ("64k", 64_000),
            ("64kbit", 64_000),
            ("100mbit", 100_000_000),
            ("1000bit", 1000),
            ("1000b/s", 1000),
            ("1000bps", 1000),
            ("10Mbits/s", 10_000_000),
            ("0", 0),
            ("1Tbit/s", 1_000_000_000_000),
            ("64kbps", 64_000),
        ] {
            assert_eq!(text.parse::<Rate>().unwrap().as_bps(), bps, "{text}");
        }
        for bad in ["", "G", "-1G", "10GB/s", "10 GiB", "1e400", "nan", "10Xb/s", "10Kibit", "10 s", "1,5Mb/s"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
        let refused = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
        assert_eq!(refused("100"), "100 has no unit; write 100Mb/s, 100kb/s or 100b/s");
        assert!(refused("10MB/s").contains("bits, not bytes"));
    }

    #[test]
    fn rate_time_and_volume_agree() {
        let gig = Rate::from_bps(1_000_000_000);
        assert_eq!(gig.bytes_in(Duration::from_millis(100)), Bytes::new(12_500_000));
        assert_eq!(gig.time_for(Bytes::new(12_500_000)), Some(Duration::from_millis(100)));
        assert_eq!(Rate::of(Bytes::new(12_500_000), Duration::from_millis(100)), gig);
        assert_eq!(Rate::ZERO.time_for(Bytes::new(1)), None);
        assert_eq!(gig.to_string(), "1.000 Gb/s");
        assert_eq!(Rate::from_bps(94_930_000).to_string(), "94.93 Mb/s");
        assert_eq!(Rate::from_bps(999).to_string(), "999 b/s");
    }
}
