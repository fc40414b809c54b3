//! Records of `longhaul choose`: the best of several far ends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Direction;
use crate::estimate::RateBound;

/// Name and version of the record format of `longhaul choose`.
pub const CHOOSE_SCHEMA: &str = "longhaul.choose/2";

/// One line of the output of `longhaul choose`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum ChooseRecord {
    /// First line: the request.
    Start(ChooseStart),
    /// One candidate; the best is first.
    Candidate(Candidate),
    /// Last line: the decision.
    Decision(Decision),
}

/// The request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChooseStart {
    /// Name and version of this format: `longhaul.choose/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// Time of the start in UTC (RFC 3339).
    pub time_utc: String,
    /// Direction of the intended transfer.
    pub direction: Direction,
    /// Probability of the best candidate at which probing ends, 0 to 1.
    pub confidence: f64,
    /// Limit of probe bytes for each candidate, with headers.
    pub budget_bytes: u64,
}

/// One candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Name of the candidate as given by the user.
    pub name: String,
    /// Address and port; absent if the candidate was not reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Minimum round trip of the idle path; absent if the candidate was not reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<u64>,
    /// Expected goodput of a CUBIC transfer; absent if the probes gave no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<u64>,
    /// Type of the goodput if it is a bound; absent for a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<RateBound>,
    /// Lower end of the 95 % interval of the goodput.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_bps: Option<u64>,
    /// Upper end of the 95 % interval of the goodput.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_bps: Option<u64>,
    /// Probability that this candidate is the best, 0 to 1.
    pub probability: f64,
    /// Bytes of probes, with headers.
    pub bytes: u64,
    /// Reason why the candidate was not reached, or its probing was aborted; absent without an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// Name of the candidate that is most probably the best; absent if no candidate gave a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<String>,
    /// Whether the probability of the best candidate reached the requested confidence, and no entry of `caveats`
    /// excludes a decision.
    pub decided: bool,
    /// Reasons why more probes cannot separate the candidates, such as a shared bottleneck.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<String>,
    /// Expected loss of goodput with this choice, as a share of the goodput of the true best candidate, 0 to 1.
    pub expected_loss: f64,
    /// Bytes of the probes of all candidates, with headers.
    pub bytes: u64,
    /// Duration of the probing.
    pub elapsed_ns: u64,
}
