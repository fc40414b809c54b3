//! Options of `longhaul estimate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use estimate::probe::{MethodName, UnknownMethod};
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
    #[arg(long, short, value_parser = method_parser(), value_name = "METHOD", default_value = "auto")]
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

/// Parser of a method's name, with all names and their descriptions for the help.
fn method_parser() -> impl TypedValueParser<Value = MethodName> {
    let values = MethodName::KNOWN.map(|m| PossibleValue::new(m.name()).help(m.about()));
    PossibleValuesParser::new(values).try_map(|text| text.parse().map_err(|UnknownMethod| "is not a method"))
}
