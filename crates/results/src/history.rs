//! Records of `longhaul history`: what was measured of paths before, and what is expected of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Direction;
use crate::estimate::{Layer, Quantity};

/// Name and version of the record format of `longhaul history`.
pub const HISTORY_SCHEMA: &str = "longhaul.history/2";

/// One line of what `longhaul history` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum HistoryRecord {
    /// First line: what was asked of which file.
    Start(HistoryStart),
    /// A path, the one used last first; what follows until the next one is of it.
    Path(HistoryPath),
    /// What was measured of it, the oldest first; only where a host was named.
    Entry(HistoryEntry),
    /// What is expected of it now, a line for each quantity.
    Expectation(HistoryExpectation),
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryStart {
    /// Name and version of this format: `longhaul.history/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// When, in UTC (RFC 3339): the time for which something is expected.
    pub time_utc: String,
    /// The same in seconds since 1970.
    pub at_utc_s: f64,
    /// File with the history.
    pub file: String,
    /// Host that was asked for, a name or an address; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Entries before this time, in seconds since 1970, are left out; absent without a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_utc_s: Option<f64>,
    /// The only quantity that is shown; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantity: Option<Quantity>,
}

/// A path: two addresses and a direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryPath {
    /// Number of the path in these records.
    pub path: u32,
    /// Address of the other host.
    pub remote: String,
    /// Address of this host by which it was reached.
    pub local: String,
    /// Which way the measured bytes went.
    pub direction: Direction,
    /// Names by which the far end was called, the latest first.
    pub hosts: Vec<String>,
    /// Entries of those that were asked for.
    pub entries: u64,
    /// When the first of them was made, in seconds since 1970.
    pub first_utc_s: f64,
    /// When the last of them was made.
    pub last_utc_s: f64,
}

/// What asked for a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistorySource {
    /// `longhaul estimate`.
    Estimate,
    /// `longhaul test`, or the method `tcp` of `longhaul estimate`, which is one.
    Test,
    /// `longhaul choose`.
    Choose,
}

impl HistorySource {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Estimate => "estimate",
            Self::Test => "test",
            Self::Choose => "choose",
        }
    }
}

/// What was measured of a path at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryEntry {
    /// Number of the path.
    pub path: u32,
    /// When, in seconds since 1970.
    pub at_utc_s: f64,
    /// The host as it was named.
    pub host: String,
    /// What asked for it.
    pub source: HistorySource,
    /// Name of the method, such as `pathload`; of a test the congestion control.
    pub method: String,
    /// What was measured.
    pub quantity: Quantity,
    /// Whose bits its rates count.
    pub layer: Layer,
    /// The best single answer.
    pub rate_bps: u64,
    /// Lower end of its interval.
    pub low_bps: u64,
    /// Upper end.
    pub high_bps: u64,
    /// Round trip of the idle path; absent where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<u64>,
    /// What it cost: bytes sent, headers included.
    pub bytes: u64,
    /// What was to be expected just before it, from the entries that were there; absent without any, and for methods that
    /// give no rate to expect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_bps: Option<u64>,
    /// Lower end of the interval that was expected to hold it, in four of five cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_low_bps: Option<u64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_high_bps: Option<u64>,
}

/// What is expected of a path now. It rests on all that is known of the path, whatever of it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryExpectation {
    /// Number of the path.
    pub path: u32,
    /// What is expected.
    pub quantity: Quantity,
    /// Whose bits its rates count.
    pub layer: Layer,
    /// The best single answer.
    pub rate_bps: u64,
    /// Lower end of an interval that holds four of five values.
    pub low_bps: u64,
    /// Upper end.
    pub high_bps: u64,
    /// Rule that gave it, in words: the one that was nearest so far.
    pub predictor: String,
    /// Values that it rests on: those since the last level shift, at most 64, without outliers.
    pub samples: u64,
    /// Time since the last level shift; absent when none was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_shift_s: Option<f64>,
    /// When levels shifted, in seconds since 1970: the first value of each new level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shifts_utc_s: Vec<f64>,
}
