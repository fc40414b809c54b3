//! Options of `longhaul tune`.

use std::time::Duration;

use clap::{Args, Subcommand};
use units::Rate;

use crate::cli::streams;
use crate::quantity::{NOT_ZERO, rate, seconds_from, time};

use crate::peer::{PeerOptions, Target};

#[derive(Debug, Args)]
#[command(
    after_help = "`check` needs no privilege; the others need root, or CAP_NET_ADMIN over the network namespace that they run in. \
                  Only that namespace is changed."
)]
pub(crate) struct TuneOptions {
    #[command(subcommand)]
    pub(crate) command: TuneCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TuneCommand {
    /// Show this host's settings against what a path needs, with the reasons. Changes nothing.
    Check(CheckOptions),
    /// Make the changes that `check` advises and longhaul can take back.
    Apply(ApplyOptions),
    /// Set back everything that `apply` changed, also after a crash.
    Undo(UndoOptions),
    /// Measure whether the changes help: tests to HOST with and without them, in turn.
    Verify(Box<VerifyOptions>),
}

/// The path that the advice is for.
#[derive(Debug, Args)]
pub(crate) struct PathArguments {
    /// Rate of the path's narrow link, such as 10Gb/s [default: the fastest device's speed, else 1Gb/s].
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Path")]
    pub(crate) rate: Option<Rate>,
    /// Round trip of the path, such as 100ms [default: 100ms].
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Path")]
    pub(crate) rtt: Option<Duration>,
    /// Device that the path begins at [default: the fastest that is up].
    #[arg(long, value_name = "DEV", help_heading = "Path")]
    pub(crate) device: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul tune check --rate 10Gb/s --rtt 100ms\n\
    Exit status: 0 nothing should change; 1 something should; 2 it could not be looked at.")]
pub(crate) struct CheckOptions {
    #[command(flatten)]
    pub(crate) path: PathArguments,
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul tune apply --rate 10Gb/s --rtt 100ms\n\
    Values found are written down first (in LONGHAUL_STATE, /run/longhaul for root), each change is read back, and when one \
    fails the others are taken back.\n\
    Exit status: 0 all is as advised; 1 a change failed and all was taken back; 2 nothing was tried.")]
pub(crate) struct ApplyOptions {
    /// Change only these settings, by their names in `check` [default: all that `check` would change].
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    #[command(flatten)]
    pub(crate) path: PathArguments,
    /// Say what would change, and change nothing; needs no privilege.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also write the sysctls to /etc/sysctl.d/90-longhaul.conf, so that they hold after a restart.
    #[arg(long)]
    pub(crate) persist: bool,
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "A value that somebody else has changed since is left alone and named.\n\
    Exit status: 0 everything is as before; 1 something was left alone or could not be set back; 2 nothing was tried.")]
pub(crate) struct UndoOptions {
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul tune verify --rtt 100ms -t 20s --pairs 6 server.example.net\n\
    The order is ABBA: a drift of the path counts for neither side. Settings of HOST are not changed.\n\
    Exit status: 0 better; 1 not better; 2 it could not be measured. Ctrl-C sets everything back.")]
pub(crate) struct VerifyOptions {
    #[allow(rustdoc::broken_intra_doc_links, reason = "the brackets are those of an address, in the help")]
    /// Host name or address of a `longhaul serve`: HOST, HOST:PORT or [IPV6]:PORT.
    #[arg(value_parser = Target::parse)]
    pub(crate) host: Target,
    /// Compare only the change of these settings, by their names in `check` [default: all that `apply` would change].
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    #[command(flatten)]
    pub(crate) path: PathArguments,
    /// Length of each test.
    #[arg(long, short = 't', value_name = "TIME", default_value = "10s", value_parser = seconds_from(NOT_ZERO))]
    pub(crate) time: Duration,
    /// Pairs of tests, one without and one with the changes.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) pairs: u32,
    /// The server sends, this host receives.
    #[arg(long, short = 'R')]
    pub(crate) reverse: bool,
    /// Streams in each test.
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1, value_parser = streams())]
    pub(crate) streams: u32,
    /// Congestion control of the sending end [default: that host's].
    #[arg(long, short = 'C', value_name = "NAME")]
    pub(crate) congestion: Option<String>,
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) peer: PeerOptions,
}
