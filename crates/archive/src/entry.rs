//! Entries of the archive, and filters for queries.

use std::net::IpAddr;

use results::Direction;
use results::estimate::{Layer, Quantity};
use results::history::HistorySource;

/// Methods whose results rank paths and do not predict a rate: RON's scores, and transfers that end within slow start.
const RANKING_METHODS: [&str; 3] = ["loss", "loss-only", "short-tcp"];

/// Identity of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathKey {
    far: IpAddr,
    local: IpAddr,
    direction: Direction,
}

impl PathKey {
    /// Path between these addresses. IPv4-mapped IPv6 addresses are converted to IPv4.
    pub const fn new(far: IpAddr, local: IpAddr, direction: Direction) -> Self {
        Self { far: far.to_canonical(), local: local.to_canonical(), direction }
    }

    /// Address of the far end.
    pub const fn far(&self) -> IpAddr {
        self.far
    }

    /// Address of this host on the path.
    pub const fn local(&self) -> IpAddr {
        self.local
    }

    /// Direction of the measured bytes.
    pub const fn direction(&self) -> Direction {
        self.direction
    }
}

/// A measurement of a path.
///
/// The caller adds only properties of the path, and no tests at a rate that the user set.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Time in seconds since 1970 (UTC).
    pub at_s: f64,
    /// The host as the user named it.
    pub host: String,
    /// The path.
    pub path: PathKey,
    /// Command that measured it.
    pub source: HistorySource,
    /// Method, such as `pathload` or `pathload-2002`; the congestion control for a test.
    pub method: String,
    /// The measured value.
    pub quantity: Quantity,
    /// Layer whose bits the rates count.
    pub layer: Layer,
    /// Point estimate in b/s.
    pub rate_bps: u64,
    /// Lower end of the interval in b/s.
    pub low_bps: u64,
    /// Upper end of the interval in b/s.
    pub high_bps: u64,
    /// Round-trip time of the idle path in nanoseconds, if measured.
    pub round_trip_ns: Option<u64>,
    /// Cost in bytes sent, headers included.
    pub bytes: u64,
}

impl Entry {
    /// Whether the rate predicts later rates; `false` for a score that only ranks paths.
    pub fn is_rate(&self) -> bool {
        let method = self.method.strip_suffix("-2002").unwrap_or(&self.method);
        self.source == HistorySource::Test || !RANKING_METHODS.contains(&method)
    }
}

/// Conditions of a query, all of which must hold. `None` matches any entry.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Host name with which an entry of the path was made, or far address.
    pub host: Option<String>,
    /// Path.
    pub path: Option<PathKey>,
    /// Quantity.
    pub quantity: Option<Quantity>,
    /// Layer.
    pub layer: Option<Layer>,
    /// Earliest time in seconds since 1970 (UTC).
    pub since_s: Option<f64>,
}

/// A path with a summary of its entries.
#[derive(Debug, Clone, PartialEq)]
pub struct PathSummary {
    /// Path.
    pub path: PathKey,
    /// Host names of the far end, most recent first.
    pub hosts: Vec<String>,
    /// Number of entries that match the filter.
    pub entries: u64,
    /// Time of the first of these entries in seconds since 1970 (UTC).
    pub first_s: f64,
    /// Time of the last of these entries in seconds since 1970 (UTC).
    pub last_s: f64,
}
