use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parse::{self, ParseQuantityError, split_quantity};

/// An amount of data in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Bytes(u64);

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Self = Self(0);

    /// `n` bytes.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The number of bytes.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Difference; zero if `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        Self(self.0.saturating_add(o.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, o: Self) {
        *self = *self + o;
    }
}

impl Sub for Bytes {
    type Output = Self;
    /// Saturates at zero, because a decreasing counter of a peer or the kernel must not cause a panic.
    fn sub(self, o: Self) -> Self {
        self.saturating_sub(o)
    }
}

impl core::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, |a, b| a + b)
    }
}

impl fmt::Display for Bytes {
    /// Formats four significant digits, SI prefix and unit: `1.250 GB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&parse::with_prefix(self.0, "B"))
    }
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;

    /// Accepts `64KiB`, `10GB`, `4M` and `64k` (SI), `4Mi`, `1460`: bytes, never bits.
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let (number, unit) = split_quantity(s)?;
        let unit = unit.strip_suffix('B').unwrap_or(unit);
        let factor = match unit {
            "Ki" | "ki" => Some(1024.0),
            "Mi" | "mi" => Some(1_048_576.0),
            "Gi" | "gi" => Some(1_073_741_824.0),
            "Ti" | "ti" => Some(1_099_511_627_776.0),
            si => parse::prefix(si),
        };
        let units = "B, kB, MB, GB, TB, KiB, MiB, GiB or TiB (bytes, not bits)";
        let factor = factor.ok_or_else(|| ParseQuantityError::unit(s, units))?;
        parse::to_u64(s, number * factor).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn si_and_binary_prefixes_are_kept_apart() {
        for (text, n) in [
            ("64KiB", 65_536),
            ("64Ki", 65_536),
            ("64ki", 65_536),
            ("64kB", 64_000),
            ("64KB", 64_000),
            ("64k", 64_000),
            ("64K", 64_000),
            ("4M", 4_000_000),
            ("4m", 4_000_000),
            ("4MiB", 4_194_304),
            ("1g", 1_000_000_000),
            ("10 GB", 10_000_000_000),
            ("1.5T", 1_500_000_000_000),
            ("1460", 1460),
            ("1460B", 1460),
            ("0", 0),
        ] {
            assert_eq!(text.parse::<Bytes>().map(Bytes::as_u64), Ok(n), "{text}");
        }
        for bad in ["", "k", "-1", "10Gb", "10kbit", "10 s", "64 KKi", "1e400", "99999999TB"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad}");
        }
        let bits = "10Gb".parse::<Bytes>().unwrap_err().to_string();
        assert!(bits.contains("bytes, not bits"), "{bits}");
        assert_eq!(Bytes::new(1_250_000_000).to_string(), "1.250 GB");
    }
}
