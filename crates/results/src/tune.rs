//! Records of `longhaul tune`: current and recommended settings, changes, and their effect on the throughput.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lab::Estimate;
use crate::{Direction, HostReport};

/// Name and version of the record format of `longhaul tune`.
pub const TUNE_SCHEMA: &str = "longhaul.tune/2";

/// One line of the output of `longhaul tune`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "some dozens of records; boxing would only burden readers")]
pub enum TuneRecord {
    /// First line: the host, and the path of the recommendations.
    Start(TuneStart),
    /// One setting.
    Row(TuneRow),
    /// A change of one setting, its restoration, or the reason for neither.
    Change(TuneChange),
    /// One pair of tests, without and with the changes.
    Pair(TunePair),
    /// Last line of a check: counts of recommended changes.
    Summary(TuneSummary),
    /// Last line of a verification: the verdict.
    Verdict(TuneVerdict),
}

/// Subcommand of `longhaul tune` that wrote the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TuneCommand {
    /// `tune check`.
    Check,
    /// `tune apply`.
    Apply,
    /// `tune undo`.
    Undo,
    /// `tune verify`.
    Verify,
}

/// The host, and the path of the recommendations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuneStart {
    /// Name and version of this format: `longhaul.tune/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// Subcommand of `longhaul tune`.
    pub command: TuneCommand,
    /// Cookie of the inspected network namespace (SO_NETNS_COOKIE), unique until the machine reboots.
    pub namespace: u64,
    /// Whether the namespace is the initial one of the machine. Some settings do not exist in that of a container or a
    /// lab.
    pub is_host: bool,
    /// Path of the recommendations; absent for `undo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<TunePath>,
    /// Settings of the machine.
    pub host: HostReport,
}

/// Path of the recommendations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TunePath {
    /// Rate of the narrow link.
    pub rate_bps: u64,
    /// Source of the rate: an option, a device, or an assumption.
    pub rate_from: String,
    /// Round trip.
    pub rtt_ns: u64,
    /// Source of the round trip.
    pub rtt_from: String,
    /// Bandwidth-delay product: rate times round trip.
    pub bdp_bytes: u64,
    /// Inspected network device; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// Assessment of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// The value suits this path.
    Good,
    /// The value should change.
    Change,
    /// The value should change, but belongs to the host and cannot be changed from this network namespace.
    BelongsToHost,
    /// The available data does not suffice for an assessment.
    Unknown,
    /// The value is unreadable in this environment.
    CannotBeRead,
}

/// Recommendation of the shaping paper of 2014.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PaperAdvice {
    /// Recommendation of the paper (section 3.3).
    pub advised: String,
    /// Whether the current recommendation differs from the paper's.
    pub differs: bool,
    /// Reason why the recommendation differs, or why it still holds.
    pub why: String,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuneRow {
    /// Name: that of sysctl(8), `DEVICE:setting`, or a name for a property of the machine.
    pub key: String,
    /// Current value; absent if unreadable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Recommended value; absent: the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advised: Option<String>,
    /// Assessment of the setting.
    pub judgement: Judgement,
    /// Reason in one sentence.
    pub why: String,
    /// Source of the recommendation.
    pub source: String,
    /// Calculated effect of the change, or cost of the value; absent without a calculation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// Maximum rate of one connection on this path with the current value, one window per round trip; absent if the
    /// value sets no window. Since Linux 6.6 half of a receive buffer counts as window; the kernel may raise that
    /// share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bps: Option<u64>,
    /// Recommendation of the paper of 2014; absent if the paper does not mention the setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper_2014: Option<PaperAdvice>,
    /// Whether `longhaul tune apply` makes this change.
    pub applicable: bool,
}

/// Result for one setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOutcome {
    /// The setting would be changed; nothing was done (`--dry-run`).
    Planned,
    /// The setting was changed, as verified by reading it.
    Applied,
    /// The previous value was restored, as verified by reading it.
    Restored,
    /// The setting already had its previous value: the change was not made, or was already reverted.
    AsBefore,
    /// The setting has a third value, set by another program in the meantime, and was not changed.
    LeftAlone,
    /// The change failed; `note` contains the reason.
    Failed,
    /// A file was written that keeps the values after a restart.
    FileWritten,
    /// The file that keeps the values after a restart was removed.
    FileRemoved,
}

/// A change of one setting, its restoration, or the reason for neither.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TuneChange {
    /// Name of the setting, or path of the file.
    pub key: String,
    /// Value before the first change by longhaul; absent for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Value set by longhaul, or to be set; absent for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Result for the setting.
    pub outcome: ChangeOutcome,
    /// Additional information; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One pair of consecutive tests, without and with the changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TunePair {
    /// Number of the pair, from 1.
    pub pair: u32,
    /// Whether the test with the changes came first. The order alternates, so that a drift of the path favours neither.
    pub with_first: bool,
    /// Goodput without the changes.
    pub without_bps: u64,
    /// Goodput with the changes.
    pub with_bps: u64,
    /// Goodput with the changes minus goodput without them.
    pub difference_bps: i64,
}

/// Counts of recommended changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TuneSummary {
    /// Number of settings that should change.
    pub to_change: u32,
    /// Number of settings that should change and that `longhaul tune apply` changes.
    pub applicable: u32,
    /// Number of settings that should change and belong to the host.
    pub of_host: u32,
    /// Number of settings that could not be read or assessed.
    pub unknown: u32,
}

/// Result of a comparison by measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// Better: the interval of the difference lies above zero.
    Better,
    /// Worse: the interval of the difference lies below zero.
    Worse,
    /// No difference: the interval of the difference contains zero.
    NoDifference,
    /// No change was necessary, so nothing was measured.
    NothingToChange,
    /// Fewer than two pairs were measured.
    TooFew,
}

/// Verdict of a verification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuneVerdict {
    /// Result of the comparison.
    pub comparison: Comparison,
    /// Host at the far end, where nothing was changed.
    pub target: String,
    /// Direction of the bulk data: `up` is from this host.
    pub direction: Direction,
    /// Duration of each test.
    pub test_ns: u64,
    /// Names of the settings that differed.
    pub keys: Vec<String>,
    /// Goodput without the changes, in bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_bps: Option<Estimate>,
    /// Goodput with the changes, in bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_bps: Option<Estimate>,
    /// Mean of the paired differences with its 95 % confidence interval, in bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference_bps: Option<Estimate>,
    /// Whether the user stopped the verification before all pairs were measured.
    pub interrupted: bool,
}
