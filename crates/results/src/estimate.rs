//! Records of `longhaul estimate`: properties of a path, from a few packets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Direction;

/// Name and version of the record format of `longhaul estimate`.
pub const ESTIMATE_SCHEMA: &str = "longhaul.estimate/2";

/// One line of the output of `longhaul estimate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "a handful of records; boxing would only burden readers")]
pub enum EstimateRecord {
    /// First line: the path.
    Start(EstimateStart),
    /// Expectation from the history of the path, one line for each quantity.
    Expected(Expected),
    /// Result of one method.
    Estimate(EstimateResult),
    /// Prediction of a TCP transfer.
    Prediction(TransferPrediction),
}

/// The probed path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EstimateStart {
    /// Name and version of this format: `longhaul.estimate/2`.
    pub schema: String,
    /// Version of longhaul.
    pub version: String,
    /// Time of the start in UTC (RFC 3339). A simulated run starts in 1970.
    pub time_utc: String,
    /// Host name or address as given by the user.
    pub host: String,
    /// Address and port of the far end.
    pub address: String,
    /// Direction of the probes.
    pub direction: Direction,
    /// Minimum round trip of the idle path.
    pub round_trip_ns: u64,
    /// Maximum packet that passes without fragmentation, in bytes of IP.
    pub mtu_bytes: u32,
    /// Limit of the bytes of all methods together, with headers; absent without a limit set by the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_bytes: Option<u64>,
    /// Differences between the requested and the granted session, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Estimated quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Capacity: rate of the slowest link, independent of its load.
    Capacity,
    /// Available bandwidth: minimum over the links of capacity minus load.
    AvailableBandwidth,
    /// Asymptotic dispersion rate: rate of a long packet train at the receiver, between available bandwidth and
    /// capacity.
    AsymptoticDispersion,
    /// Bulk transfer capacity: goodput of one long TCP connection (RFC 3148).
    BulkTransferCapacity,
    /// Rate of one long TCP connection that the losses alone would allow.
    LossLimit,
}

impl Quantity {
    /// Name of the quantity as text.
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

/// Condition that limits the validity of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Caveat {
    /// Packets arrived in batches: interrupt moderation, aggregation on a radio link, or a busy receiver.
    Batching,
    /// The sender did not reach the rate or did not keep the gaps that the method requires.
    SenderTooSlow,
    /// A burst passes faster than the following packets: a token bucket.
    TokenBucket,
    /// A message of another flow overtook the probes in a queue: fair queueing or priorities. The estimate is the share
    /// of one flow.
    FairQueueing,
    /// Packets arrived out of order.
    Reordering,
    /// Packets were lost.
    Loss,
    /// Too few samples for an estimate, or for a narrow interval.
    TooFewSamples,
    /// The load changed during the measurement, or the samples contradict each other.
    Unsteady,
    /// The estimate is a lower bound of the true value.
    LowerBound,
    /// The estimate is an upper bound of the true value.
    UpperBound,
    /// The byte budget was spent before the method had finished.
    BudgetSpent,
    /// The time limit was reached before the method had finished.
    TimeSpent,
    /// The far end stopped answering.
    NoAnswer,
    /// The clock of an end was stepped during the measurement.
    ClockStep,
    /// The far end reported impossible values.
    Implausible,
}

impl Caveat {
    /// Text for the user.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Batching => "packets arrived in batches",
            Self::SenderTooSlow => "the sender was too slow or too uneven",
            Self::TokenBucket => "a burst passes faster than what follows (token bucket)",
            Self::FairQueueing => {
                "another flow passes the probes (fair queueing, or priorities): this is the share of one"
            }
            Self::Reordering => "packets were reordered",
            Self::Loss => "packets were lost",
            Self::TooFewSamples => "too few samples",
            Self::Unsteady => "the load changed during the run, or samples contradict each other",
            Self::LowerBound => "the true value is this or more",
            Self::UpperBound => "the true value is this or less",
            Self::BudgetSpent => "the byte budget was spent before an answer",
            Self::TimeSpent => "the time limit was reached before an answer",
            Self::NoAnswer => "the other host stopped answering",
            Self::ClockStep => "a clock was set during the run",
            Self::Implausible => "the other host reported impossible values",
        }
    }
}

/// Type of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateBound {
    /// Upper bound: the true value is at most the rate.
    AtMost,
    /// Lower bound: the true value is at least the rate.
    AtLeast,
}

impl RateBound {
    /// Text before the rate.
    pub const fn text(self) -> &'static str {
        match self {
            Self::AtMost => "at most",
            Self::AtLeast => "at least",
        }
    }
}

/// A rate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RateInterval {
    /// Quantity of the rate.
    pub quantity: Quantity,
    /// Best estimate; the bound if `bound` is present.
    pub rate_bps: u64,
    /// Lower end of the interval; zero for an upper bound.
    pub low_bps: u64,
    /// Upper end of the interval; for a lower bound, the rate itself.
    pub high_bps: u64,
    /// Type of the rate if it is a bound; absent for a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<RateBound>,
}

/// Expectation of a quantity before the path is probed, from earlier measurements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Expected {
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
    /// Number of values on which the expectation is based.
    pub samples: u64,
    /// Congestion control of the transfers; absent if the quantity does not come from transfers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
}

/// Counts of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeLoss {
    /// Probes that did not arrive, or whose echo did not arrive.
    pub lost: u64,
    /// Probes sent.
    pub sent: u64,
}

/// Presence of queues at the bottleneck, by squeezed pairs (*Choosing Internet Paths*, 2002, §3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Similarity {
    /// The received gaps do not depend on the sent ones: pairs wait in the queue of a link about as slow as the narrow
    /// link.
    TightLikeNarrow,
    /// The received gaps are close to the sent ones: no queues, or queues only at faster links.
    TightUnlikeNarrow,
}

impl Similarity {
    /// Name of the class as text.
    pub const fn text(self) -> &'static str {
        match self {
            Self::TightLikeNarrow => "tight like narrow",
            Self::TightUnlikeNarrow => "tight unlike narrow",
        }
    }
}

/// Distribution of the received gaps of pairs sent with one gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GapHistogram {
    /// Planned gap of the pairs at the sender.
    pub sent_gap_ns: u64,
    /// Width of a bin; the first bin starts at zero.
    pub bin_ns: u64,
    /// Number of pairs in each bin.
    pub counts: Vec<u64>,
    /// Number of pairs with a gap above the last bin.
    pub above_range: u64,
}

/// Result of squeezed pairs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SqueezedPairsResult {
    /// Class of the path; absent if the pairs gave no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Similarity>,
    /// Score: positive if the modes of both histograms agree, negative if they differ. Its unit is the square of pairs.
    pub score: i64,
    /// Pairs with half the gap of 500 bytes at the path's capacity.
    pub short: GapHistogram,
    /// Pairs with half the gap of 1500 bytes at the path's capacity.
    pub long: GapHistogram,
}

/// Result of one method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EstimateResult {
    /// Name of the method, such as `pathload`.
    pub method: String,
    /// Whether the parameters of 2002 were used (`--faithful-2002`).
    pub faithful: bool,
    /// Congestion control of the transfer that gave the estimate; absent for methods without a transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// Estimated quantity.
    pub quantity: Quantity,
    /// Protocol layer whose bits the rates count.
    pub layer: Layer,
    /// The estimate; absent if the probes gave no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<RateInterval>,
    /// Estimates of other quantities from the same probes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_estimates: Vec<RateInterval>,
    /// Loss of probes that were sent singly; absent for methods with trains only, whose losses do not apply to other
    /// packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<ProbeLoss>,
    /// Maximum queueing delay at the bottleneck, if probes filled its queue; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_ns: Option<u64>,
    /// Class of the path and histograms; only for squeezed pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub squeezed: Option<SqueezedPairsResult>,
    /// Packets sent, echoes included.
    pub packets: u64,
    /// Bytes of all packets sent, including echoes and the headers of IP and UDP or TCP.
    pub bytes: u64,
    /// Duration of the method.
    pub elapsed_ns: u64,
    /// Conditions that limit the validity of the estimate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<Caveat>,
    /// Error that aborted the method, as text; absent if it finished or reached a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Factor that limits a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PredictionBound {
    /// Available bandwidth of the path.
    Link,
    /// Maximum window divided by the round trip.
    Window,
    /// Losses on the path.
    Loss,
}

/// Protocol layer whose bits a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// IP packets, with headers.
    Ip,
    /// TCP payload.
    Payload,
}

/// Prediction of a TCP transfer over the path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransferPrediction {
    /// Congestion control of the transfer.
    pub congestion_control: String,
    /// Best estimate of the long-term rate of payload.
    pub goodput_bps: u64,
    /// Lower end of the interval of the rate.
    pub low_bps: u64,
    /// Upper end of the interval of the rate.
    pub high_bps: u64,
    /// Factor that limits the transfer.
    pub bound: PredictionBound,
    /// Number of earlier transfers over the path that the prediction uses in addition to the probes; absent without
    /// any, or if they contradict each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_transfers: Option<u64>,
    /// Size of the transfer as requested by the user; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Completion time of the transfer, including slow start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_ns: Option<u64>,
    /// Completion time at the upper end of the rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_low_ns: Option<u64>,
    /// Completion time at the lower end of the rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_high_ns: Option<u64>,
}
