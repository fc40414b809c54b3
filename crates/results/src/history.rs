//! Records of `longhaul history`: earlier measurements of paths, and the expectations derived from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Direction;
use crate::estimate::{Layer, Quantity};

/// Name and version of the record format of `longhaul history`.
pub const HISTORY_SCHEMA: &str = "longhaul.history/2";

/// One line of the output of `longhaul history`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum HistoryRecord {
    /// First line: the request and the file.
    Start(HistoryStart),
    /// A path; the most recently used one is first. The following lines up to the next path belong to it.
    Path(HistoryPath),
    /// A measurement of the path, the oldest first; only with a host in the request.
    Entry(HistoryEntry),
    /// The current expectation, one line for each quantity.
    Expectation(HistoryExpectation),
}

/// The request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryStart {
    /// Name and version of this format: `longhaul.history/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// Time in UTC (RFC 3339) to which the expectations refer.
    pub time_utc: String,
    /// Time in seconds since 1970 (UTC) to which the expectations refer.
    pub at_utc_s: f64,
    /// Path of the history file.
    pub file: String,
    /// Requested host, a name or an address; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Time in seconds since 1970 (UTC) before which entries are excluded; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_utc_s: Option<f64>,
    /// Requested quantity; absent for all.
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
    /// Address of this host on the path.
    pub local: String,
    /// Direction of the measured data.
    pub direction: Direction,
    /// Names under which the far end was measured, the latest first.
    pub hosts: Vec<String>,
    /// Number of entries that match the request.
    pub entries: u64,
    /// Time of the first matching entry, in seconds since 1970 (UTC).
    pub first_utc_s: f64,
    /// Time of the last matching entry, in seconds since 1970 (UTC).
    pub last_utc_s: f64,
}

/// Command that caused a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistorySource {
    /// `longhaul estimate`.
    Estimate,
    /// `longhaul test`, or the method `tcp` of `longhaul estimate`, which runs a test.
    Test,
    /// `longhaul choose`.
    Choose,
}

impl HistorySource {
    /// Name of the command as text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Estimate => "estimate",
            Self::Test => "test",
            Self::Choose => "choose",
        }
    }
}

/// One measurement of a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryEntry {
    /// Number of the path.
    pub path: u32,
    /// Time of the measurement, in seconds since 1970 (UTC).
    pub at_utc_s: f64,
    /// Host name or address as given by the user.
    pub host: String,
    /// Command that caused the measurement.
    pub source: HistorySource,
    /// Name of the method, such as `pathload`; for a test, the congestion control.
    pub method: String,
    /// Measured quantity.
    pub quantity: Quantity,
    /// Protocol layer whose bits the rates count.
    pub layer: Layer,
    /// Best estimate.
    pub rate_bps: u64,
    /// Lower end of the interval of the rate.
    pub low_bps: u64,
    /// Upper end of the interval of the rate.
    pub high_bps: u64,
    /// Round trip of the idle path; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<u64>,
    /// Bytes sent by the measurement, with headers.
    pub bytes: u64,
    /// Expectation just before this measurement, from the earlier entries; absent without any, and for methods without
    /// an expectation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_bps: Option<u64>,
    /// Lower end of the expected interval, which contains four of five values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_low_bps: Option<u64>,
    /// Upper end of the expected interval, which contains four of five values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_high_bps: Option<u64>,
}

/// Current expectation for a path. It is based on all entries of the path, including those outside the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryExpectation {
    /// Number of the path.
    pub path: u32,
    /// Expected quantity.
    pub quantity: Quantity,
    /// Protocol layer whose bits the rates count.
    pub layer: Layer,
    /// Best estimate.
    pub rate_bps: u64,
    /// Lower end of an interval that contains four of five values.
    pub low_bps: u64,
    /// Upper end of an interval that contains four of five values.
    pub high_bps: u64,
    /// Name of the predictor as text: the one with the smallest error so far.
    pub predictor: String,
    /// Number of values on which the expectation is based: at most 64 since the last level shift, without outliers.
    pub samples: u64,
    /// Time in seconds since the last level shift; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_shift_s: Option<f64>,
    /// Times of level shifts in seconds since 1970 (UTC): the first value of each new level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shifts_utc_s: Vec<f64>,
}
