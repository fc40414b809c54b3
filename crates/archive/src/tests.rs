mod content;
mod expectation;
mod file;

use std::net::IpAddr;
use std::path::PathBuf;

use results::Direction;
use results::estimate::{Layer, Quantity};
use results::history::HistorySource;
use tempfile::TempDir;

use crate::{Archive, Entry, PathKey};

/// An archive in a temporary directory.
struct TestFile {
    directory: TempDir,
    file: PathBuf,
}

impl TestFile {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("history.sqlite");
        Self { directory, file }
    }

    fn open(&self) -> Archive {
        Archive::open(&self.file).unwrap()
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn path(far: &str, local: &str) -> PathKey {
    PathKey::new(address(far), address(local), Direction::Up)
}

/// A test of the path from 198.51.100.3 to 192.0.2.7.
fn entry(at_s: f64, rate_bps: u64) -> Entry {
    Entry {
        at_s,
        host: "far.example.net".to_owned(),
        path: path("192.0.2.7", "198.51.100.3"),
        source: HistorySource::Test,
        method: "cubic".to_owned(),
        quantity: Quantity::BulkTransferCapacity,
        layer: Layer::Payload,
        rate_bps,
        low_bps: rate_bps / 10 * 9,
        high_bps: rate_bps / 10 * 11,
        round_trip_ns: Some(20_000_000),
        bytes: 1_000_000,
    }
}
