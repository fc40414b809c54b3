//! Records of `longhaul evaluate`: comparison of estimates with true values, and quality of the path choices based on
//! them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::estimate::{Quantity, Similarity};
use crate::lab::KeyValue;

/// Name and version of the record format of `longhaul evaluate`.
pub const EVALUATE_SCHEMA: &str = "longhaul.evaluate/2";

/// One line of the output of `longhaul evaluate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "some hundred records; boxing would only burden readers")]
pub enum EvaluateRecord {
    /// First line: the request.
    Start(EvaluateStart),
    /// A set of paths that are evaluated together; the following lines up to the next ensemble belong to it.
    Ensemble(Ensemble),
    /// One run: properties of the links, throughput of the transfer, estimates of the methods.
    Path(MeasuredPath),
    /// Accuracy of one method.
    Accuracy(MethodAccuracy),
    /// Share of correct choices between two paths by one method.
    Decisions(MethodDecisions),
    /// Share of equal decisions of two methods on the same pairs.
    Agreement(MethodAgreement),
}

/// The request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluateStart {
    /// Name and version of this format: `longhaul.evaluate/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// Name of the flow with which the estimates are compared.
    pub transfer: String,
    /// Whether invalid runs are included.
    pub include_invalid: bool,
    /// Number of bootstrap resamples of each interval.
    pub resamples: u32,
    /// Seed of the resampling.
    pub seed: u64,
}

/// A set of paths that are evaluated together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ensemble {
    /// Name: that of the result directory or directories.
    pub ensemble: String,
    /// Purpose of the experiment, as stated by its author.
    pub about: String,
    /// Number of recorded runs.
    pub runs: u32,
    /// Number of invalid runs; they are excluded unless the user includes them.
    pub invalid: u32,
    /// Number of runs that the user or a crash aborted; they are excluded.
    pub unfinished: u32,
    /// Number of runs excluded because the transfer has no throughput.
    pub without_transfer: u32,
    /// Number of runs excluded because no method probed the direction of the transfer.
    pub without_estimates: u32,
    /// Number of evaluated runs in which a method was still active when the transfer started.
    pub overlapping: u32,
    /// Number of evaluated runs: each is one measurement of a path.
    pub paths: u32,
    /// Geometric mean of the transfers' rates of payload; absent with fewer than two transfers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub centre_bps: Option<u64>,
    /// Standard deviation of the natural logarithm of the transfers' rates: the larger, the easier the choices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma_ln: Option<f64>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredPath {
    /// Name of the result directory.
    pub directory: String,
    /// Number of the run in its result directory.
    pub run: u32,
    /// Values of the sweep.
    pub values: Vec<KeyValue>,
    /// Name of the end that sends.
    pub sender: String,
    /// Name of the end that receives.
    pub receiver: String,
    /// Rate of the transfer in payload bits.
    pub transfer_bps: u64,
    /// Propagation delay of both directions together.
    pub round_trip_ns: u64,
    /// Class of the path by squeezed pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<Similarity>,
    /// Estimate of each method, in the order of the measurements.
    pub estimates: Vec<JoinedEstimate>,
}

/// Estimate of one method on one path, with the true value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JoinedEstimate {
    /// Name of the method, with its budget, and with the quantity unless it is the method's main one.
    pub method: String,
    /// Estimated quantity.
    pub quantity: Quantity,
    /// Estimate in the layer of the true value: IP bits, or payload for bulk transfer capacity; absent without a
    /// result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_bps: Option<u64>,
    /// Estimate converted to payload of full-size packets, the layer of a transfer's throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bps: Option<u64>,
    /// True value during the method's measurement; absent if it does not follow from the links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truth_bps: Option<u64>,
    /// Bytes sent by the method, with headers.
    pub bytes: u64,
    /// Duration of the method.
    pub elapsed_ns: u64,
}

/// Distribution of the ratios of estimates to their reference. A ratio above 1 is an overestimate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RatioSummary {
    /// Number of ratios.
    pub count: u32,
    /// 10th percentile of the ratios; absent if it is infinite, as for a reference of zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p10: Option<f64>,
    /// Median of the ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// 90th percentile of the ratios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90: Option<f64>,
    /// Share of the estimates within 15 % of the reference, 0 to 1.
    pub within_15_percent: f64,
    /// Share of the estimates within a factor of 2 of the reference, 0 to 1.
    pub within_factor_2: f64,
}

/// Accuracy of one method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MethodAccuracy {
    /// Name of the ensemble.
    pub ensemble: String,
    /// Name of the method.
    pub method: String,
    /// Estimated quantity.
    pub quantity: Quantity,
    /// Number of paths on which the method ran.
    pub attempted: u32,
    /// Number of paths on which the method gave a value.
    pub answered: u32,
    /// Ratios of the estimates to the true values; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_truth: Option<RatioSummary>,
    /// Ratios of the estimates, as payload, to the rates of the transfers; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_transfer: Option<RatioSummary>,
    /// Median of the bytes sent by the method, with headers.
    pub bytes: u64,
    /// Median of the durations of the method.
    pub elapsed_ns: u64,
}

/// Set of pairs of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PairSet {
    /// All pairs (Tables 5.1 and 5.8).
    All,
    /// Pairs with the same sender or the same receiver (Table 5.3).
    CommonEndpoint,
    /// Pairs of paths that squeezed pairs both classify as tight like narrow (Table 5.4).
    BothTightLikeNarrow,
    /// Pairs of paths that squeezed pairs both classify as tight unlike narrow (Table 5.5).
    BothTightUnlikeNarrow,
    /// Pairs of paths in different classes by squeezed pairs (Table 5.6).
    OneOfEach,
}

/// Share of correct choices between two paths by one method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MethodDecisions {
    /// Name of the ensemble.
    pub ensemble: String,
    /// Name of the method; `random choice` for the expected result of random choices.
    pub method: String,
    /// Set of pairs of paths.
    pub pair_set: PairSet,
    /// Number of pairs with an estimate for both paths.
    pub pairs: u64,
    /// Number of pairs without an estimate for both paths.
    pub undecided: u64,
    /// Results at each allowed variation, ascending.
    pub rates: Vec<DecisionRate>,
}

/// Share of correct choices at one allowed variation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionRate {
    /// Allowed variation: a choice is correct if the other path is faster by at most this factor.
    pub variation: f64,
    /// Share of correct choices, 0 to 1.
    pub share: f64,
    /// Lower end of the 95 % interval of the share, from resampled measurements; absent for random choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of the 95 % interval of the share; absent for random choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Share of correct choices over all pairs, if the undecided pairs are decided at random, 0 to 1.
    pub share_with_guesses: f64,
}

/// Share of equal decisions of two methods on the same pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MethodAgreement {
    /// Name of the ensemble.
    pub ensemble: String,
    /// Name of the first method.
    pub method: String,
    /// Name of the second method; `transfer` is the measured rate of the transfers, whose decisions are always correct.
    pub other: String,
    /// Allowed variation.
    pub variation: f64,
    /// Share of the pairs decided by both methods on which both are right or both are wrong, 0 to 1.
    pub share: f64,
}
