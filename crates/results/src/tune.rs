//! Records of `longhaul tune`: settings as found and as advised, changes, and what a change did to the throughput.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lab::Estimate;
use crate::{Direction, HostReport};

/// Name and version of the record format of `longhaul tune`.
pub const TUNE_SCHEMA: &str = "longhaul.tune/2";

/// One line of what `longhaul tune` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "some dozens of records; boxing would only burden readers")]
pub enum TuneRecord {
    /// First line: the host, and the path that the advice is for.
    Start(TuneStart),
    /// One setting.
    Row(TuneRow),
    /// One setting changed, restored, or left alone.
    Change(TuneChange),
    /// One pair of tests, without and with the changes.
    Pair(TunePair),
    /// Last line of a check: what to do.
    Summary(TuneSummary),
    /// Last line of a verification.
    Verdict(TuneVerdict),
}

/// Which part of `longhaul tune` wrote the records.
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

/// The host, and the path that the advice is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuneStart {
    /// Name and version of this format: `longhaul.tune/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// Which part of `longhaul tune` this is.
    pub command: TuneCommand,
    /// Number of the network namespace that was looked at.
    pub namespace: u64,
    /// It is the machine's first; false: a container's or a lab's, to which some settings do not belong.
    pub is_host: bool,
    /// The path that the advice is for; absent for `undo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<TunePath>,
    /// The machine.
    pub host: HostReport,
}

/// The path that the advice is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TunePath {
    /// Rate of its narrow link.
    pub rate_bps: u64,
    /// Where the rate comes from: an option, a device, an assumption.
    pub rate_from: String,
    /// Round trip.
    pub rtt_ns: u64,
    /// Where the round trip comes from.
    pub rtt_from: String,
    /// Bytes under way on the full path: rate times round trip.
    pub bdp_bytes: u64,
    /// The device that was looked at; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// What is to be done about a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// As it should be for this path.
    Good,
    /// Should change.
    Change,
    /// Should change, and is the host's: it cannot be changed from this network namespace.
    BelongsToHost,
    /// What was found does not suffice to judge.
    Unknown,
    /// The value cannot be read here.
    CannotBeRead,
}

/// What the shaping paper of 2014 advised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PaperAdvice {
    /// Its advice (section 3.3).
    pub advised: String,
    /// Today's advice differs.
    pub differs: bool,
    /// Why it differs, or why it still holds.
    pub why: String,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuneRow {
    /// Name: that of sysctl(8), or `DEVICE:setting`, or a word for the machine.
    pub key: String,
    /// Value found; absent where it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Value advised; absent: as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advised: Option<String>,
    /// What is to be done.
    pub judgement: Judgement,
    /// Why, in a sentence.
    pub why: String,
    /// Who says so.
    pub source: String,
    /// What the change does, or the value costs, where arithmetic tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// Rate of one connection that the value found allows on this path, where it sets one: a window each round trip. Of a receive
    /// buffer half counts as window since Linux 6.6, where the kernel may make it more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bps: Option<u64>,
    /// What the paper of 2014 advised, where it spoke of this setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper_2014: Option<PaperAdvice>,
    /// `longhaul tune apply` would make this change.
    pub applicable: bool,
}

/// What became of one setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOutcome {
    /// Would be changed; nothing was (`--dry-run`).
    Planned,
    /// Changed, and read back.
    Applied,
    /// Set back to what it was, and read back.
    Restored,
    /// Was already as before: the change had not been made, or had been taken back.
    AsBefore,
    /// Holds a third value: somebody else changed it since, and it was left alone.
    LeftAlone,
    /// Could not be changed; `note` says why.
    Failed,
    /// A file written, so that the values hold after a restart.
    FileWritten,
    /// That file removed.
    FileRemoved,
}

/// One setting changed, restored, or left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TuneChange {
    /// Name of the setting, or path of the file.
    pub key: String,
    /// Value before the first change by longhaul; absent for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Value that longhaul set or would set; absent for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// What became of it.
    pub outcome: ChangeOutcome,
    /// More about it, where there is more to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One pair of tests, one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TunePair {
    /// Number from 1.
    pub pair: u32,
    /// The test with the changes came first: the order alternates, so that a drift of the path counts for neither.
    pub with_first: bool,
    /// Goodput without the changes.
    pub without_bps: u64,
    /// Goodput with them.
    pub with_bps: u64,
    /// With minus without.
    pub difference_bps: i64,
}

/// What a check says to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TuneSummary {
    /// Settings that should change.
    pub to_change: u32,
    /// Of those, the ones that `longhaul tune apply` changes.
    pub applicable: u32,
    /// Settings that should change and belong to the host.
    pub of_host: u32,
    /// Settings that could not be read or judged.
    pub unknown: u32,
}

/// What a comparison by measurement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// The interval of the difference lies above zero.
    Better,
    /// It lies below zero.
    Worse,
    /// It holds zero: no difference seen.
    NoDifference,
    /// There was nothing to change, so nothing was measured.
    NothingToChange,
    /// Fewer than two pairs were measured.
    TooFew,
}

/// Last line of a verification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TuneVerdict {
    /// What the measurement says.
    pub comparison: Comparison,
    /// Host at the other end. Nothing was changed there.
    pub target: String,
    /// Which way the bulk bytes went: `up` is from this host.
    pub direction: Direction,
    /// Length of each test.
    pub test_ns: u64,
    /// Settings that differed.
    pub keys: Vec<String>,
    /// Goodput without the changes, bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_bps: Option<Estimate>,
    /// Goodput with them, bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_bps: Option<Estimate>,
    /// Mean of the paired differences with its 95 % confidence interval, bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference_bps: Option<Estimate>,
    /// The user ended it before all pairs were measured.
    pub interrupted: bool,
}
