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
    The history is the file that LONGHAUL_HISTORY names, else longhaul/history.sqlite in the user's folder for data; \
    LONGHAUL_HISTORY=off keeps none.\n\
    Exit status: 0 done; 1 nothing is known, of this host or at all; 2 it could not be done.")]
pub(crate) struct HistoryOptions {
    /// A host as it was named, or its address [default: a table of all paths].
    pub(crate) host: Option<String>,
    /// Show what is not older than this, such as 12h, 30d or 8w.
    #[arg(long, short, value_name = "TIME", value_parser = time)]
    pub(crate) since: Option<Duration>,
    /// Show this quantity alone.
    #[arg(long, short, value_enum, value_name = "QUANTITY")]
    pub(crate) quantity: Option<QuantityName>,
    /// Write the records as JSON Lines to FILE, or to standard output in place of the text.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with charts of the values and of what was expected to FILE; it opens without a network.
    #[arg(long, value_name = "FILE.html", requires = "host")]
    pub(crate) report: Option<PathBuf>,
    /// Forget the paths to the host, by whatever names they were used.
    #[arg(long, requires = "host", conflicts_with_all = ["since", "quantity", "json", "report"])]
    pub(crate) forget: bool,
}

/// What a rate is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum QuantityName {
    /// Rate of the slowest link.
    Capacity,
    /// What is left of the link with the least left.
    AvailableBandwidth,
    /// Rate at which a long train comes out of the path.
    AsymptoticDispersion,
    /// What one long TCP connection gets.
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
