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
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// `n` bytes.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The number of bytes.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The difference, zero when `other` is larger.
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
    /// Saturates at zero: a count that went backwards is a peer's or kernel's doing, not a reason to panic.
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
    /// Four significant digits, SI prefix and unit: `1.250 GB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&parse::with_prefix(self.0, "B"))
    }
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;

    /// Accepts `64KiB`, `10GB`, `4M` (SI), `4Mi`, `1460`.
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let (number, unit) = split_quantity(s)?;
        let factor = match unit.strip_suffix('B').unwrap_or(unit) {
            "" => 1.0,
            "k" | "K" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            "T" => 1e12,
            "Ki" => 1024.0,
            "Mi" => 1_048_576.0,
            "Gi" => 1_073_741_824.0,
            "Ti" => 1_099_511_627_776.0,
            _ => return Err(ParseQuantityError::unit(s, "B, kB, MB, GB, TB, KiB, MiB, GiB or TiB")),
        };
        parse::to_u64(s, number * factor).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn si_and_binary_prefixes_are_kept_apart() {
        for (text, n) in [("64KiB", 65_536), ("64kB", 64_000), ("4M", 4_000_000), ("4MiB", 4_194_304), ("1460", 1460)] {
            assert_eq!(text.parse::<Bytes>().unwrap().as_u64(), n, "{text}");
        }
        assert!("10Gb".parse::<Bytes>().is_err(), "bits are not bytes");
        assert_eq!(Bytes::new(1_250_000_000).to_string(), "1.250 GB");
    }
}
