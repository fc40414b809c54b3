//! The one vocabulary of what was measured: versioned, self-describing records.
//!
//! A result is a stream of [`Record`]s, one JSON object a line: one `start`, any number of `interval`s from both ends, one
//! `end`. Numbers are numbers, the unit is the last part of each key (`_ns`, `_s`, `_bps`, `_bytes`). Everything that
//! measures writes these types; everything that shows reads them. The crate is pure: no clock, no I/O beyond `Write`/`BufRead`.

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
    EstimateReader, LabFile, LabReader, ReadError, Reader, Streamed, TestReader, TraceReader, is_estimate_record,
    is_lab_record, is_trace_record, read_lab_records, read_records, without_mark,
};
pub use start::{BufferGrant, StartRecord, StreamStart, TestPlan, Transport};
pub use tcp::TcpState;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name and version of the record format; the major number changes when an old reader would misread a new file.
pub const SCHEMA: &str = "longhaul.test/2";

/// One line of a result file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "record", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "a handful of records per second; boxing would only burden readers")]
pub enum Record {
    /// First line: what was asked, what was granted, who took part.
    Start(StartRecord),
    /// What one end saw in one interval of one direction.
    Interval(IntervalRecord),
    /// Last line: the whole test.
    End(EndRecord),
}

/// Which end of the test measured something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The end that ran `longhaul test`.
    Client,
    /// The end that ran `longhaul serve`.
    Server,
}

/// Which way the bulk bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From client to server.
    Up,
    /// From server to client.
    Down,
}

impl Direction {
    /// The end that sends the bulk bytes.
    pub const fn sender(self) -> End {
        match self {
            Self::Up => End::Client,
            Self::Down => End::Server,
        }
    }
}

/// What an end did with the bulk bytes of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Sent them.
    Sender,
    /// Received them.
    Receiver,
}
