//! Records of `longhaul choose`: which of several far ends is the best.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Direction;
use crate::estimate::RateBound;

/// Name and version of the record format of `longhaul choose`.
pub const CHOOSE_SCHEMA: &str = "longhaul.choose/2";

/// One line of what `longhaul choose` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum ChooseRecord {
    /// First line: what was asked.
    Start(ChooseStart),
    /// One candidate, the best first.
    Candidate(Candidate),
    /// Last line: what was decided.
    Decision(Decision),
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChooseStart {
    /// Name and version of this format: `longhaul.choose/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// When, in UTC (RFC 3339).
    pub time_utc: String,
    /// Which way a transfer would go.
    pub direction: Direction,
    /// Probability of the best at which probing ends.
    pub confidence: f64,
    /// Bytes of probes that each candidate may cost.
    pub budget_bytes: u64,
}

/// One candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// As it was named.
    pub name: String,
    /// Address and port; absent when it was not reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Smallest round trip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<u64>,
    /// Goodput that a CUBIC transfer is expected to get; absent when the probes did not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<u64>,
    /// Present where the goodput is a bound and no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<RateBound>,
    /// Lower end of its 95 % interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_bps: Option<u64>,
    /// Upper end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_bps: Option<u64>,
    /// Probability that it is the best.
    pub probability: f64,
    /// Bytes of probes with headers.
    pub bytes: u64,
    /// Why it could not be reached, or probed to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// The most probable best; absent when no candidate told anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<String>,
    /// Whether its probability reached the confidence that was asked for, and no caveat in `caveats` excludes a decision.
    pub decided: bool,
    /// Reasons for which more probes cannot separate the candidates, such as a shared bottleneck.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<String>,
    /// Share of the goodput of the true best that is lost in the mean by taking this one.
    pub expected_loss: f64,
    /// Bytes of probes of all candidates.
    pub bytes: u64,
    /// How long it took.
    pub elapsed_ns: u64,
}
