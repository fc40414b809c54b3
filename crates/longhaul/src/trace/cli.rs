//! Options of `longhaul trace`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::quantity::seconds_from;

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul trace --port 5003 --interval 100ms --time 30s --csv=flows.csv\n          \
    longhaul trace -C fast --every-packet --json=trace.jsonl\n\
    With BPF (CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; root has all) it follows the connections of all network namespaces, without BPF those \
    of its own, or of the process named.\n\
    Exit status: 0 done; 1 events were lost; 2 it could not be done.")]
pub(crate) struct TraceOptions {
    /// Connections with this address at either end.
    #[arg(long, short, value_name = "ADDRESS")]
    pub(crate) address: Option<IpAddr>,
    /// Connections with this port at either end.
    #[arg(long, short, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Connections that this process holds, by number or name; of a name all, also those that come later.
    #[arg(long, value_name = "PID|NAME")]
    pub(crate) process: Option<String>,
    /// Connections whose congestion control begins with this name.
    #[arg(long, short = 'C', value_name = "NAME")]
    pub(crate) congestion: Option<String>,
    /// Least time between two samples of a connection; changes of state and repairs are always told.
    #[arg(long, short, value_name = "TIME", default_value = "100ms", value_parser = seconds_from(Duration::ZERO))]
    pub(crate) interval: Duration,
    /// A sample at every packet that arrives for a connection, which are its acknowledgements.
    #[arg(long, conflicts_with = "interval")]
    pub(crate) every_packet: bool,
    /// End after this time [default: with Ctrl-C].
    #[arg(long, short, value_name = "TIME", value_parser = seconds_from(Duration::ZERO))]
    pub(crate) time: Option<Duration>,
    /// Where samples come from: BPF programs at tracepoints, or socket diagnostics, which need no privilege and see what is
    /// there at each interval; `auto` takes BPF where it is allowed.
    #[arg(long, value_enum, value_name = "SOURCE", default_value_t = SourceChoice::Auto)]
    pub(crate) source: SourceChoice,
    /// A line for each sample, in place of the view on a terminal.
    #[arg(long)]
    pub(crate) lines: bool,
    /// Write JSON Lines to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Write comma-separated values to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) csv: Option<PathBuf>,
    /// Write a page with charts to FILE at the end (HTML); `longhaul report` makes it from JSON Lines too.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// Where samples come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceChoice {
    Auto,
    Bpf,
    Diagnostics,
}
