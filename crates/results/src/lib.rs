//! Common record types of all measurements: versioned and self-describing.
//!
//! A result is a stream of [`Record`]s, one JSON object a line: one `start`, any number of `interval` records from both
//! ends, and one `end`. Numbers are JSON numbers; the last part of a key is the unit (`_ns`, `_s`, `_bps`, `_bytes`).
//! All measuring commands write these types, and all reports read them. The crate is pure: no clock, no I/O beyond
//! `Write` and `BufRead`.

pub mod cc;
pub mod choose;
mod delay;
mod end;
pub mod estimate;
pub mod evaluate;
mod histogram;
pub mod history;
mod host;
mod interval;
pub mod lab;
pub mod model;
pub mod points;
mod read;
pub mod shape;
mod start;
mod tcp;
pub mod trace;
pub mod tune;

pub use delay::{Decomposition, DelaySummary, OneWayDelay};
pub use end::{
    Agreement, ClockSummary, Completion, DirectionSummary, EndRecord, EndTotals, LoadStart, LossEpisode, Memory,
    PathMtu, RampUp, Rfc6349, StreamTotals, UdpSummary,
};
pub use histogram::{DelayHistogram, HistogramError, RELATIVE_ERROR};
pub use host::HostReport;
pub use interval::{CpuUse, IntervalRecord, Limit, LimitVerdict, StreamInterval, UdpInterval};
pub use read::{
    EstimateReader, LINE_BYTES_MAX, LabFile, LabReader, ReadError, Reader, Streamed, TestReader, TraceReader,
    is_estimate_record, is_lab_record, is_trace_record, read_lab_records, read_records, without_mark,
};
pub use start::{BufferGrant, StartRecord, StreamStart, TestPlan, Transport};
pub use tcp::TcpState;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of the record format; the major number changes when an earlier reader would misinterpret a new
/// file.
pub const SCHEMA: &str = "longhaul.test/2";

/// One line of a result file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "a handful of records per second; boxing would only burden readers")]
pub enum Record {
    /// First line: the request, the granted settings and both hosts.
    Start(StartRecord),
    /// Counts of one end for one direction in one interval.
    Interval(IntervalRecord),
    /// Last line: totals of the whole test.
    End(EndRecord),
}

/// End of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The end that ran `longhaul test`.
    Client,
    /// The end that ran `longhaul serve`.
    Server,
}

/// Direction of the bulk data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From client to server.
    Up,
    /// From server to client.
    Down,
}

impl Direction {
    /// Returns the end that sends the bulk data.
    pub const fn sender(self) -> End {
        match self {
            Self::Up => End::Client,
            Self::Down => End::Server,
        }
    }
}

/// Role of an end for the bulk data of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The end sends the data.
    Sender,
    /// The end receives the data.
    Receiver,
}
