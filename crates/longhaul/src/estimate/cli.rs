//! Options of `longhaul estimate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use kernel::LocalAddress;
use units::Bytes;

use crate::history::memory::MemoryOptions;
use crate::peer::{PeerOptions, Target};
use crate::quantity::{NONZERO_SIZE, NONZERO_TIME_MIN, bytes, seconds_from};

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul estimate mirror.example.net\n          \
    longhaul estimate mirror.example.net --reverse --transfer 10GB\n          \
    longhaul estimate mirror.example.net --all --json=methods.jsonl\n\
    Rates are those of IP packets, except for TCP methods and predictions, which are goodput.\n\
    Exit status: 0 success; 1 no method found a value; 2 usage or setup error.")]
pub(crate) struct EstimateOptions {
    #[allow(rustdoc::broken_intra_doc_links, reason = "the brackets are those of an address, in the help")]
    /// Host that runs `longhaul serve`: HOST, HOST:PORT or [IPV6]:PORT.
    #[arg(value_parser = Target::parse)]
    pub(crate) host: Target,
    /// Method of probing, repeatable; `auto` uses the budget for the probes that best predict a transfer.
    #[arg(long, short, value_enum, value_name = "METHOD", default_value = "auto", hide_possible_values = false)]
    pub(crate) method: Vec<MethodName>,
    /// Run all methods in turn.
    #[arg(long, conflicts_with = "method")]
    pub(crate) all: bool,
    /// Maximum volume of probes of all methods, headers included [default: auto 100kB, others 50MB each].
    #[arg(long, short, value_name = "BYTES", value_parser = bytes(NONZERO_SIZE))]
    pub(crate) budget: Option<Bytes>,
    /// Maximum duration of a method [default: 2min; 30min with --faithful-2002].
    #[arg(long, short = 't', value_name = "TIME", value_parser = seconds_from(NONZERO_TIME_MIN))]
    pub(crate) time: Option<Duration>,
    /// Measure the direction from the server to this host.
    #[arg(long, short = 'R')]
    pub(crate) reverse: bool,
    /// Use the parameters of the thesis of 2002 for the methods that it contains, to compare with its results only.
    #[arg(long)]
    pub(crate) faithful_2002: bool,
    /// Predict the duration of a transfer of this size.
    #[arg(long, value_name = "BYTES", value_parser = bytes(NONZERO_SIZE))]
    pub(crate) transfer: Option<Bytes>,
    /// Maximum window of the predicted transfer, the receiver's or the socket's [default: no limit].
    #[arg(long, short, value_name = "BYTES", value_parser = bytes(NONZERO_SIZE))]
    pub(crate) window: Option<Bytes>,
    /// Maximum size of a probe packet with its IP header [default: the known path MTU, at most 1500].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(128..=9216))]
    pub(crate) mtu: Option<u32>,
    /// Seed of random choices.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Local address to connect from [default: the kernel's choice].
    #[arg(long, short = 'B', value_name = "ADDRESS")]
    pub(crate) bind: Option<LocalAddress>,
    /// Write the records as JSON Lines to FILE, or to standard output instead of the table.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with tables and the histograms of squeezed pairs to FILE, which opens without a network.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) memory: MemoryOptions,
    #[command(flatten)]
    pub(crate) peer: PeerOptions,
}

/// Probing method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MethodName {
    /// Two-rate trains within the budget, and a prediction of the transfer.
    Auto,
    /// Available bandwidth and capacity: trains at two rates until the intervals are narrow.
    TwoRates,
    /// Asymptotic dispersion rate: two back-to-back trains of 30 packets.
    Adr,
    /// Asymptotic dispersion rate: two back-to-back trains of 15 packets.
    ShortAdr,
    /// Available bandwidth: gaps that cross traffic adds to packet pairs.
    Spruce,
    /// Available bandwidth: highest rate that trains keep (PTR), and gaps that cross traffic adds (IGI).
    Igi,
    /// Available bandwidth: trains of exponentially increasing rate.
    Pathchirp,
    /// Available bandwidth: trends of the one-way delay in periodic streams (SLoPS).
    Pathload,
    /// Capacity: modes of packet-pair rates, and the dispersion of trains.
    Pathrate,
    /// Whether queues form at the bottleneck: packet pairs sent closer together than it forwards them.
    SqueezedPairs,
    /// Score of RON: round trips and losses of 100 small probes.
    Loss,
    /// Score of RON, only if at least three probes are lost.
    LossOnly,
    /// Bulk transfer capacity: a TCP transfer of 128 kB.
    ShortTcp,
    /// Bulk transfer capacity: a TCP transfer of 10 s, or 30 s with --faithful-2002.
    Tcp,
}

impl MethodName {
    /// Methods that `--all` runs, cheapest first.
    pub(crate) const ALL: [Self; 13] = [
        Self::ShortAdr,
        Self::Adr,
        Self::TwoRates,
        Self::Spruce,
        Self::Igi,
        Self::Pathchirp,
        Self::Pathrate,
        Self::SqueezedPairs,
        Self::Pathload,
        Self::Loss,
        Self::LossOnly,
        Self::ShortTcp,
        Self::Tcp,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::TwoRates => "two-rates",
            Self::Adr => "adr",
            Self::ShortAdr => "short-adr",
            Self::Spruce => "spruce",
            Self::Igi => "igi",
            Self::Pathchirp => "pathchirp",
            Self::Pathload => "pathload",
            Self::Pathrate => "pathrate",
            Self::SqueezedPairs => "squeezed-pairs",
            Self::Loss => "loss",
            Self::LossOnly => "loss-only",
            Self::ShortTcp => "short-tcp",
            Self::Tcp => "tcp",
        }
    }
}
