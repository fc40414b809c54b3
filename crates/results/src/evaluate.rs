//! Records of `longhaul evaluate`: estimates against the truth, and how well they choose between paths.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::estimate::{Quantity, Similarity};
use crate::lab::KeyValue;

/// Name and version of the record format of `longhaul evaluate`.
pub const EVALUATE_SCHEMA: &str = "longhaul.evaluate/2";

/// One line of what `longhaul evaluate` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "some hundred records; boxing would only burden readers")]
pub enum EvaluateRecord {
    /// First line: what was asked.
    Start(EvaluateStart),
    /// Paths that are judged together; what follows, up to the next, is about them.
    Ensemble(Ensemble),
    /// One run: what the link was, what the transfer got, what each method had said.
    Path(MeasuredPath),
    /// How near one method came.
    Accuracy(MethodAccuracy),
    /// How often one method chose the better of two paths.
    Decisions(MethodDecisions),
    /// How often two methods were right or wrong on the same pairs.
    Agreement(MethodAgreement),
}

/// What was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluateStart {
    /// Name and version of this format: `longhaul.evaluate/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// Name of the flow that the estimates are compared with.
    pub transfer: String,
    /// Whether invalid runs count.
    pub include_invalid: bool,
    /// Resamples of each interval.
    pub resamples: u32,
    /// Seed of the resamples.
    pub seed: u64,
}

/// Paths that are judged together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ensemble {
    /// Name: that of the result directory, or of the directories.
    pub ensemble: String,
    /// What the experiment shows, in its author's words.
    pub about: String,
    /// Runs on record.
    pub runs: u32,
    /// Runs that the machine did not carry, left out unless they were asked for.
    pub invalid: u32,
    /// Runs that were broken off, by the user or by a crash; left out.
    pub unfinished: u32,
    /// Runs left out because the transfer has no throughput.
    pub without_transfer: u32,
    /// Runs left out because no method was asked about the way of the transfer.
    pub without_estimates: u32,
    /// Runs of those judged in which a method was still at work when the transfer began.
    pub overlapping: u32,
    /// Runs that are judged: each is a path measured once.
    pub paths: u32,
    /// Geometric mean of what the transfers got, payload; absent with fewer than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub centre_bps: Option<u64>,
    /// Standard deviation of the natural logarithm of what the transfers got: the wider, the easier choices are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sigma_ln: Option<f64>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredPath {
    /// Name of the result directory.
    pub directory: String,
    /// Number of the run in it.
    pub run: u32,
    /// The values of the sweep.
    pub values: Vec<KeyValue>,
    /// Name of the end that sends.
    pub sender: String,
    /// Name of the end that receives.
    pub receiver: String,
    /// What the transfer got, payload.
    pub transfer_bps: u64,
    /// Propagation delay there and back.
    pub round_trip_ns: u64,
    /// What squeezed pairs said of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<Similarity>,
    /// What each method said, in the order in which they were asked.
    pub estimates: Vec<JoinedEstimate>,
}

/// What one method said of one path, and what was true.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JoinedEstimate {
    /// Name of the method; with the budget that it was given, and with the quantity where it is not the method's main
    /// one.
    pub method: String,
    /// What it is an estimate of.
    pub quantity: Quantity,
    /// What it said, in the layer of the truth: IP bits, of bulk transfer capacity payload; absent without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_bps: Option<u64>,
    /// The same as payload of full packets, which a transfer's throughput counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bps: Option<u64>,
    /// What was true while the method was at work; absent where the links do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truth_bps: Option<u64>,
    /// What it cost, headers included.
    pub bytes: u64,
    /// How long it took.
    pub elapsed_ns: u64,
}

/// How the ratios of estimates to what they are compared with are distributed. Above 1 the estimate was too high.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RatioSummary {
    /// Number of ratios.
    pub count: u32,
    /// One in ten does not exceed this; absent when it is infinite, as over a truth of zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p10: Option<f64>,
    /// Half of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// Nine in ten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90: Option<f64>,
    /// Share of estimates that are off by at most 15 % of the truth.
    pub within_15_percent: f64,
    /// Share that are off by at most a factor of 2.
    pub within_factor_2: f64,
}

/// How near one method came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MethodAccuracy {
    /// Name of the ensemble.
    pub ensemble: String,
    /// Name of the method.
    pub method: String,
    /// What it is an estimate of.
    pub quantity: Quantity,
    /// Paths on which the method ran.
    pub attempted: u32,
    /// Paths on which the method gave a value.
    pub answered: u32,
    /// Estimates over the truth of what they estimate; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_truth: Option<RatioSummary>,
    /// Estimates, as payload, over what the transfer got; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_transfer: Option<RatioSummary>,
    /// What it cost, headers included: median.
    pub bytes: u64,
    /// How long it took: median.
    pub elapsed_ns: u64,
}

/// Which pairs of paths are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PairSet {
    /// Every pair (Tables 5.1 and 5.8).
    All,
    /// Pairs with the same sender or the same receiver (Table 5.3).
    CommonEndpoint,
    /// Pairs of which squeezed pairs call both tight like narrow (Table 5.4).
    BothTightLikeNarrow,
    /// Pairs of which they call both tight unlike narrow (Table 5.5).
    BothTightUnlikeNarrow,
    /// Pairs of which they call one so and one so (Table 5.6).
    OneOfEach,
}

/// How often one method chose the better of two paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MethodDecisions {
    /// Name of the ensemble.
    pub ensemble: String,
    /// Name of the method; `random choice` for what tossing a coin is expected to give.
    pub method: String,
    /// Which pairs.
    pub pair_set: PairSet,
    /// Pairs with an estimate for both paths.
    pub pairs: u64,
    /// Pairs without.
    pub undecided: u64,
    /// At each allowed variation, ascending.
    pub rates: Vec<DecisionRate>,
}

/// Share of correct choices at one allowed variation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionRate {
    /// How much faster the path not chosen may be.
    pub variation: f64,
    /// Share of correct choices.
    pub share: f64,
    /// Lower end of the 95 % interval, from resampled measurements; absent for random choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Share over all pairs if the undecided ones are tosses of a coin.
    pub share_with_guesses: f64,
}

/// How often two methods were right or wrong on the same pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MethodAgreement {
    /// Name of the ensemble.
    pub ensemble: String,
    /// Name of one method.
    pub method: String,
    /// Name of the other; `transfer` is what the transfer got itself, which is always right.
    pub other: String,
    /// Allowed variation.
    pub variation: f64,
    /// Share of the pairs that both decide.
    pub share: f64,
}
