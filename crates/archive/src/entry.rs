//! Entries of the archive, and queries of it.

use std::net::IpAddr;

use results::Direction;
use results::estimate::{Layer, Quantity};
use results::history::HistorySource;

/// Methods whose answers rank paths and are no rate to be expected: RON's scores, and a transfer that is over within its
/// slow start.
const SCORES: [&str; 3] = ["loss", "loss-only", "short-tcp"];

/// Identity of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathKey {
    far: IpAddr,
    local: IpAddr,
    direction: Direction,
}

impl PathKey {
    /// The path between these addresses. An IPv4 address that is written as an IPv6 one is the IPv4 one.
    pub const fn new(far: IpAddr, local: IpAddr, direction: Direction) -> Self {
        Self { far: far.to_canonical(), local: local.to_canonical(), direction }
    }

    /// Address of the far end.
    pub const fn far(&self) -> IpAddr {
        self.far
    }

    /// Address of this host by which it is reached.
    pub const fn local(&self) -> IpAddr {
        self.local
    }

    /// Direction of the measured bytes.
    pub const fn direction(&self) -> Direction {
        self.direction
    }
}

/// A measurement of a path at a time.
///
/// The caller adds only properties of the path: a test at a rate that the user set is not one.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// When, in seconds since 1970 (UTC).
    pub at_s: f64,
    /// The host as the user named it.
    pub host: String,
    /// The path.
    pub path: PathKey,
    /// Command that measured it.
    pub source: HistorySource,
    /// Name of the method, such as `pathload` or `pathload-2002`; of a test the congestion control.
    pub method: String,
    /// The measured value.
    pub quantity: Quantity,
    /// Whose bits the rates count.
    pub layer: Layer,
    /// The best single answer, in b/s.
    pub rate_bps: u64,
    /// Lower end of its interval.
    pub low_bps: u64,
    /// Upper end.
    pub high_bps: u64,
    /// Round trip of the idle path, if it was measured.
    pub round_trip_ns: Option<u64>,
    /// Cost in bytes sent, headers included.
    pub bytes: u64,
}

impl Entry {
    /// Whether its rate is one to be expected again, and not a score by which paths are ranked.
    pub fn is_rate(&self) -> bool {
        let method = self.method.strip_suffix("-2002").unwrap_or(&self.method);
        self.source == HistorySource::Test || !SCORES.contains(&method)
    }
}

/// Which entries are asked for: those that fit all that is given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Those of the paths to this host: a name by which one of their entries was made, or the far address.
    pub host: Option<String>,
    /// Those of this path.
    pub path: Option<PathKey>,
    /// Those of this quantity.
    pub quantity: Option<Quantity>,
    /// Those that count the bits of this layer.
    pub layer: Option<Layer>,
    /// Those since this time, in seconds since 1970 (UTC).
    pub since_s: Option<f64>,
}

/// A path with what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct PathSummary {
    /// Which one.
    pub path: PathKey,
    /// Names by which the far end was called, the latest first.
    pub hosts: Vec<String>,
    /// How many entries fit what was asked.
    pub entries: u64,
    /// When the first of them was made, in seconds since 1970 (UTC).
    pub first_s: f64,
    /// When the last of them was made.
    pub last_s: f64,
}
