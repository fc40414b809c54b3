//! Records of `longhaul estimate`: what a path gives, from a few packets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Direction;

/// Name and version of the record format of `longhaul estimate`.
pub const ESTIMATE_SCHEMA: &str = "longhaul.estimate/2";

/// One line of what `longhaul estimate` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "a handful of records; boxing would only burden readers")]
pub enum EstimateRecord {
    /// First line: which path.
    Start(EstimateStart),
    /// What the history of the path lets expect, a line for each quantity.
    Expected(Expected),
    /// What one method found.
    Estimate(EstimateResult),
    /// What a TCP transfer will get.
    Prediction(TransferPrediction),
}

/// Which path was probed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EstimateStart {
    /// Name and version of this format: `longhaul.estimate/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// When, in UTC (RFC 3339).
    pub time_utc: String,
    /// The host as it was named.
    pub host: String,
    /// Address and port of the far end.
    pub address: String,
    /// Which way the probes go.
    pub direction: Direction,
    /// Smallest round trip of the idle path.
    pub round_trip_ns: u64,
    /// Largest packet that passes in one piece, in bytes of IP.
    pub mtu_bytes: u32,
    /// Bytes that all methods together may send, headers included; absent without a bound of the user's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_bytes: Option<u64>,
    /// What the far end granted differently from what was asked, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What a value is an estimate of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Rate of the slowest link, whatever uses it.
    Capacity,
    /// What is left of the link with the least left: capacity less load.
    AvailableBandwidth,
    /// Rate at which a long train of packets comes out of the path: between available bandwidth and capacity.
    AsymptoticDispersion,
    /// What one long TCP connection gets (RFC 3148).
    BulkTransferCapacity,
    /// What losses allow one long TCP connection, whatever the links allow.
    LossLimit,
}

impl Quantity {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::AvailableBandwidth => "available bandwidth",
            Self::AsymptoticDispersion => "asymptotic dispersion rate",
            Self::BulkTransferCapacity => "bulk transfer capacity",
            Self::LossLimit => "rate that losses allow",
        }
    }
}

/// What stood in the way of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Caveat {
    /// Packets came in batches: interrupt moderation, aggregation on a radio link, a busy receiver.
    Batching,
    /// The sender did not reach the rate, or did not keep the distances, that the method asked for.
    SenderTooSlow,
    /// A burst passes faster than what follows: a token bucket.
    TokenBucket,
    /// A message of another flow passed the probes where they waited: flows take turns (fair queueing), or have priorities. What is told is the share of
    /// one flow.
    FairQueueing,
    /// Packets overtook each other.
    Reordering,
    /// Packets were lost.
    Loss,
    /// Too few samples for an answer, or for a narrow one.
    TooFewSamples,
    /// The load changed while it was measured, or the samples contradict each other.
    Unsteady,
    /// The true value is this or more.
    LowerBound,
    /// The true value is this or less.
    UpperBound,
    /// The bytes that were allowed were spent before the method had ended.
    BudgetSpent,
    /// The time that was allowed was over before the method had ended.
    TimeSpent,
    /// The far end stopped answering.
    NoAnswer,
    /// A clock was set in mid-measurement.
    ClockStep,
    /// The far end reported what cannot be.
    Implausible,
}

impl Caveat {
    /// In words, for the user.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Batching => "packets came in batches",
            Self::SenderTooSlow => "the sender was not fast or even enough",
            Self::TokenBucket => "a burst passes faster than what follows (token bucket)",
            Self::FairQueueing => {
                "another flow passes the probes (fair queueing, or priorities): this is the share of one"
            }
            Self::Reordering => "packets overtook each other",
            Self::Loss => "packets were lost",
            Self::TooFewSamples => "too few samples",
            Self::Unsteady => "the load changed meanwhile, or samples contradict each other",
            Self::LowerBound => "the true value is this or more",
            Self::UpperBound => "the true value is this or less",
            Self::BudgetSpent => "the byte budget was spent first",
            Self::TimeSpent => "the time was over first",
            Self::NoAnswer => "the far end stopped answering",
            Self::ClockStep => "a clock was set meanwhile",
            Self::Implausible => "the far end reported what cannot be",
        }
    }
}

/// On which side of a rate the true value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateBound {
    /// The true value is this or less.
    AtMost,
    /// The true value is this or more.
    AtLeast,
}

impl RateBound {
    /// In words, before the rate.
    pub const fn text(self) -> &'static str {
        match self {
            Self::AtMost => "at most",
            Self::AtLeast => "at least",
        }
    }
}

/// A rate with the interval that it lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RateInterval {
    /// What it is a rate of.
    pub quantity: Quantity,
    /// The best single answer; the bound where `bound` is present.
    pub rate_bps: u64,
    /// Lower end; zero where the rate is an upper bound.
    pub low_bps: u64,
    /// Upper end; the rate once more where it is a lower bound.
    pub high_bps: u64,
    /// Present where the rate is a bound and no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<RateBound>,
}

/// What is to be expected of a path before it is probed, from what was measured of it before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Expected {
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
    /// Values that it rests on.
    pub samples: u64,
    /// Congestion control of the transfers that got it; absent where it is not of transfers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
}

/// A count of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeLoss {
    /// Those that did not arrive, or whose echo did not.
    pub lost: u64,
    /// Those that left.
    pub sent: u64,
}

/// Whether queues form where the path is slowest, by squeezed pairs (*Choosing Internet Paths*, 2002, §3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Similarity {
    /// Received gaps do not depend on the sent ones: pairs wait in the queue of a link about as slow as the narrowest.
    TightLikeNarrow,
    /// Received gaps lie around the sent ones: no queues, or queues only at faster links.
    TightUnlikeNarrow,
}

impl Similarity {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::TightLikeNarrow => "tight like narrow",
            Self::TightUnlikeNarrow => "tight unlike narrow",
        }
    }
}

/// At what distances the packets of pairs came that were sent at one distance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GapHistogram {
    /// Distance at which the pairs were to leave.
    pub sent_gap_ns: u64,
    /// Width of a bin; the first begins at zero.
    pub bin_ns: u64,
    /// Pairs in each bin.
    pub counts: Vec<u64>,
    /// Pairs with a gap above the last bin.
    pub above_range: u64,
}

/// What squeezed pairs told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SqueezedPairsResult {
    /// The class of the path; absent when the pairs did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Similarity>,
    /// Positive: modes of both histograms agree; negative: each has its own. In squares of pairs.
    pub score: i64,
    /// Pairs sent half of 500 bytes at the path's capacity apart.
    pub short: GapHistogram,
    /// Pairs sent half of 1500 bytes at the path's capacity apart.
    pub long: GapHistogram,
}

/// What one method found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EstimateResult {
    /// Name of the method, such as `pathload`.
    pub method: String,
    /// Whether the parameters of 2002 were used (`--faithful-2002`).
    pub faithful: bool,
    /// Congestion control of the transfer that told it; absent where packets alone did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// What it is an estimate of.
    pub quantity: Quantity,
    /// Whose bits its rates count.
    pub layer: Layer,
    /// The value; absent when the probes did not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<RateInterval>,
    /// Estimates of other quantities from the same probes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_estimates: Vec<RateInterval>,
    /// Probes that were lost, of those that were sent one by one; absent where trains say nothing of the loss of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<ProbeLoss>,
    /// Longest that a packet can wait at the bottleneck, where probes filled its queue; absent where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_ns: Option<u64>,
    /// Class of the path and histograms; of squeezed pairs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub squeezed: Option<SqueezedPairsResult>,
    /// Packets sent, echoes included.
    pub packets: u64,
    /// Their bytes, headers of IP and UDP (or TCP) included.
    pub bytes: u64,
    /// How long it took.
    pub elapsed_ns: u64,
    /// What stood in the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<Caveat>,
    /// What broke it off, in words; absent when it ended by itself or at a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What holds a transfer below more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PredictionBound {
    /// What is left of the link.
    Link,
    /// The largest window over the round trip.
    Window,
    /// Losses on the path.
    Loss,
}

/// Whose bits a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// IP packets, headers included.
    Ip,
    /// Payload of TCP.
    Payload,
}

/// What a TCP transfer over the path will get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransferPrediction {
    /// Congestion control of the transfer.
    pub congestion_control: String,
    /// Payload a second in the long run: best single answer.
    pub goodput_bps: u64,
    /// Lower end.
    pub low_bps: u64,
    /// Upper end.
    pub high_bps: u64,
    /// What decides.
    pub bound: PredictionBound,
    /// Earlier transfers over the path that it rests on besides the probes; absent when they contradict each other, or
    /// without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_transfers: Option<u64>,
    /// Size of the transfer that was asked for; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How long it takes, slow start included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_ns: Option<u64>,
    /// At the upper end of the rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_low_ns: Option<u64>,
    /// At the lower end of the rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_high_ns: Option<u64>,
}
