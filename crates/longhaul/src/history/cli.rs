//! Options of `longhaul history`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use results::estimate::Quantity;

use crate::quantity::time;

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul history\n          \
    longhaul history mirror.example.net --since 30d --report mirror.html\n          \
    longhaul history 192.0.2.7 --forget\n\
    The history is the file named by LONGHAUL_HISTORY, or longhaul/history.sqlite in the user's data directory; \
    LONGHAUL_HISTORY=off disables it.\n\
    Exit status: 0 success; 1 the history has no entry, or none of this host; 2 usage or setup error.")]
pub(crate) struct HistoryOptions {
    /// Name of a host as it was given to `test`, `estimate` or `choose`, or its address [default: a table of all
    /// paths].
    pub(crate) host: Option<String>,
    /// Show entries of at most this age, such as 12h, 30d or 8w [default: any age].
    #[arg(long, short, value_name = "TIME", value_parser = time)]
    pub(crate) since: Option<Duration>,
    /// Show this quantity only [default: all].
    #[arg(long, short, value_enum, value_name = "QUANTITY")]
    pub(crate) quantity: Option<QuantityName>,
    /// Write the records as JSON Lines to FILE, or to standard output instead of the text.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with charts of measured and expected values to FILE, which opens without a network.
    #[arg(long, value_name = "FILE.html", requires = "host")]
    pub(crate) report: Option<PathBuf>,
    /// Delete all paths to the host from the history, under all names used for it.
    #[arg(long, requires = "host", conflicts_with_all = ["since", "quantity", "json", "report"])]
    pub(crate) forget: bool,
}

/// Quantity that a rate measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum QuantityName {
    /// Capacity of the bottleneck link.
    Capacity,
    /// Unused capacity of the link that has the least of it.
    AvailableBandwidth,
    /// Rate at which a long train leaves the path.
    AsymptoticDispersion,
    /// Throughput of one long TCP connection.
    BulkTransferCapacity,
}

impl From<QuantityName> for Quantity {
    fn from(name: QuantityName) -> Self {
        match name {
            QuantityName::Capacity => Self::Capacity,
            QuantityName::AvailableBandwidth => Self::AvailableBandwidth,
            QuantityName::AsymptoticDispersion => Self::AsymptoticDispersion,
            QuantityName::BulkTransferCapacity => Self::BulkTransferCapacity,
        }
    }
}
