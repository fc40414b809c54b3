//! Options of `longhaul tune`.

use std::time::Duration;

use clap::{Args, Subcommand};
use units::Rate;

use crate::cli::streams;
use crate::quantity::{NONZERO_TIME_MIN, rate, seconds_from, time};

use crate::peer::{PeerOptions, Target};

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul tune check --rate 10Gb/s --rtt 100ms\n          \
                  longhaul tune apply --rate 10Gb/s --rtt 100ms\n          \
                  longhaul tune undo\n\
                  `check` needs no privilege. The other commands need root, or CAP_NET_ADMIN in their network \
                  namespace, and change only that namespace.")]
pub(crate) struct TuneOptions {
    #[command(subcommand)]
    pub(crate) command: TuneCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TuneCommand {
    /// Compare this host's settings with what a path needs, with the reasons; change nothing.
    Check(CheckOptions),
    /// Apply the changes that `check` recommends and `undo` can revert.
    Apply(ApplyOptions),
    /// Revert everything that `apply` changed, also after a crash.
    Undo(UndoOptions),
    /// Measure the effect of the changes by alternating tests to HOST with and without them.
    Verify(Box<VerifyOptions>),
}

/// Path that the recommendations are for.
#[derive(Debug, Args)]
pub(crate) struct PathArguments {
    /// Rate of the path's bottleneck link, such as 10Gb/s [default: speed of the fastest device, else 1Gb/s].
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Path")]
    pub(crate) rate: Option<Rate>,
    /// Round-trip time of the path [default: 100ms].
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Path")]
    pub(crate) rtt: Option<Duration>,
    /// Network device of the path on this host [default: the fastest that is up].
    #[arg(long, value_name = "DEV", help_heading = "Path")]
    pub(crate) device: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul tune check --rate 10Gb/s --rtt 100ms\n\
    Exit status: 0 no change recommended; 1 changes recommended; 2 usage or setup error.")]
pub(crate) struct CheckOptions {
    #[command(flatten)]
    pub(crate) path: PathArguments,
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul tune apply --rate 10Gb/s --rtt 100ms\n\
    The previous values are saved first (in LONGHAUL_STATE, by default /run/longhaul for root). Each change is \
    verified by reading it back; if one fails, all are reverted.\n\
    Exit status: 0 all settings are as recommended; 1 a change failed and all were reverted; 2 usage or setup error.")]
pub(crate) struct ApplyOptions {
    /// Setting to change, by its name in `check` [default: all that `check` recommends].
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    #[command(flatten)]
    pub(crate) path: PathArguments,
    /// Print the changes without applying them; needs no privilege.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also write the sysctls to /etc/sysctl.d/90-longhaul.conf, so that they persist across reboots.
    #[arg(long)]
    pub(crate) persist: bool,
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul tune undo\n\
    A value that another program has changed since is kept and reported.\n\
    Exit status: 0 all values are restored; 1 a value was kept or could not be restored; 2 usage or setup error.")]
pub(crate) struct UndoOptions {
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul tune verify --rtt 100ms -t 20s --pairs 6 server.example.net\n\
    The order ABBA cancels a drift of the path. Settings of HOST are not changed. Ctrl-C reverts all changes.\n\
    Exit status: 0 better; 1 not better; 2 usage or setup error.")]
pub(crate) struct VerifyOptions {
    #[allow(rustdoc::broken_intra_doc_links, reason = "the brackets are those of an address, in the help")]
    /// Host name or address of the server: HOST, HOST:PORT or [IPV6]:PORT.
    #[arg(value_parser = Target::parse)]
    pub(crate) host: Target,
    /// Setting to compare, by its name in `check` [default: all that `apply` would change].
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    #[command(flatten)]
    pub(crate) path: PathArguments,
    /// Duration of each test.
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", value_parser = seconds_from(NONZERO_TIME_MIN))]
    pub(crate) time: Duration,
    /// Number of pairs of tests, one without and one with the changes.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) pairs: u32,
    /// Send from the server to this host.
    #[arg(long, short = 'R')]
    pub(crate) reverse: bool,
    /// Number of parallel streams in each test.
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1, value_parser = streams())]
    pub(crate) streams: u32,
    /// Congestion control of the sender [default: that of the sending host].
    #[arg(long, short = 'C', value_name = "NAME")]
    pub(crate) congestion: Option<String>,
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) peer: PeerOptions,
}
