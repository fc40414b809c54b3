//! Options of `longhaul trace`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use units::parse_duration;

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul trace --port 5003 --interval 100ms --time 30s --csv=flows.csv\n          \
    longhaul trace -C fast --every-packet --json=trace.jsonl\n\
    Takes CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN (root has all), for BPF programs at the kernel's tracepoints, and follows the connections of \
    all network namespaces.\n\
    Exit status: 0 done; 1 events were lost; 2 it could not be done.")]
pub(crate) struct TraceOptions {
    /// Connections with this address at either end.
    #[arg(long, short, value_name = "ADDRESS")]
    pub(crate) address: Option<IpAddr>,
    /// Connections with this port at either end.
    #[arg(long, short, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Connections whose congestion control begins with this name.
    #[arg(long, short = 'C', value_name = "NAME")]
    pub(crate) congestion: Option<String>,
    /// Least time between two samples of a connection; changes of state and repairs are always told.
    #[arg(long, short, value_name = "TIME", default_value = "100ms", value_parser = parse_duration)]
    pub(crate) interval: Duration,
    /// A sample at every packet that arrives for a connection, which are its acknowledgements.
    #[arg(long, conflicts_with = "interval")]
    pub(crate) every_packet: bool,
    /// End after this time [default: with Ctrl-C].
    #[arg(long, short, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) time: Option<Duration>,
    /// Write JSON Lines to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Write comma-separated values to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) csv: Option<PathBuf>,
}
