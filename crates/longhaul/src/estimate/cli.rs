//! Options of `longhaul estimate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use kernel::LocalAddress;
use units::Bytes;

use crate::history::memory::MemoryOptions;
use crate::peer::{PeerOptions, Target};
use crate::quantity::{NOT_ZERO, SOME_BYTES, bytes, seconds_from};

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul estimate mirror.example.net\n          \
    longhaul estimate mirror.example.net --reverse --transfer 10GB\n          \
    longhaul estimate mirror.example.net --all --json=methods.jsonl\n\
    Rates count bits of IP packets, those of TCP methods and of predictions payload.\n\
    Exit status: 0 done; 1 no method found a value; 2 it could not be done.")]
pub(crate) struct EstimateOptions {
    #[allow(rustdoc::broken_intra_doc_links, reason = "the brackets are those of an address, in the help")]
    /// Host that runs `longhaul serve`: HOST, HOST:PORT or [IPV6]:PORT.
    #[arg(value_parser = Target::parse)]
    pub(crate) host: Target,
    /// How to probe, repeatable; `auto` spends the budget on what tells most of a transfer.
    #[arg(long, short, value_enum, value_name = "METHOD", default_value = "auto", hide_possible_values = false)]
    pub(crate) method: Vec<MethodName>,
    /// All methods in turn.
    #[arg(long, conflicts_with = "method")]
    pub(crate) all: bool,
    /// Most bytes of probes, headers included, all methods together [default: 100kB for auto, 50MB a method for others].
    #[arg(long, short, value_name = "BYTES", value_parser = bytes(SOME_BYTES))]
    pub(crate) budget: Option<Bytes>,
    /// Longest time for a method [default: 2min; 30min with --faithful-2002].
    #[arg(long, short = 't', value_name = "TIME", value_parser = seconds_from(NOT_ZERO))]
    pub(crate) time: Option<Duration>,
    /// From the host to here.
    #[arg(long, short = 'R')]
    pub(crate) reverse: bool,
    /// The parameters of the thesis of 2002 where a method was part of it: numbers to be compared, not to be relied on.
    #[arg(long)]
    pub(crate) faithful_2002: bool,
    /// Say how long a transfer of this size takes.
    #[arg(long, value_name = "BYTES", value_parser = bytes(SOME_BYTES))]
    pub(crate) transfer: Option<Bytes>,
    /// Largest window of that transfer, the receiver's or the socket's [default: never the limit].
    #[arg(long, short, value_name = "BYTES", value_parser = bytes(SOME_BYTES))]
    pub(crate) window: Option<Bytes>,
    /// Largest packet with IP header [default: what this host knows of the path, 1500 at most].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(128..=9216))]
    pub(crate) mtu: Option<u32>,
    /// Seed of what methods choose at random.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Local address.
    #[arg(long, short = 'B', value_name = "ADDRESS")]
    pub(crate) bind: Option<LocalAddress>,
    /// Write the records as JSON Lines to FILE, or to standard output in place of the table.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with tables and the histograms of squeezed pairs to FILE; it opens without a network.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) memory: MemoryOptions,
    #[command(flatten)]
    pub(crate) peer: PeerOptions,
}

/// The methods by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MethodName {
    /// Trains at two rates within the budget, and what follows for a transfer.
    Auto,
    /// Trains at two rates until the answer is narrow: what is left, and the capacity.
    TwoRates,
    /// Dispersion of two trains of 30 packets, back to back.
    Adr,
    /// Of two trains of 15.
    ShortAdr,
    /// What is left, by what the load adds to pairs of packets.
    Spruce,
    /// What is left, by the rate at which trains come out as they went in (PTR), and by what the load adds to them (IGI).
    Igi,
    /// What is left, by trains that grow ever faster.
    Pathchirp,
    /// What is left, by streams whose delays rise or not (SLoPS).
    Pathload,
    /// Capacity, by the modes of packet pairs and the dispersion of trains.
    Pathrate,
    /// Whether queues form where the path is slowest, by pairs closer together than it passes them.
    SqueezedPairs,
    /// RON's score: 100 small probes, their round trips and losses.
    Loss,
    /// The same, only if three probes or more are lost.
    LossOnly,
    /// A TCP transfer of 128 kB.
    ShortTcp,
    /// A TCP transfer of ten seconds, of thirty in 2002.
    Tcp,
}

impl MethodName {
    /// All that `--all` runs, the cheapest first.
    pub(crate) const EACH: [Self; 13] = [
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
