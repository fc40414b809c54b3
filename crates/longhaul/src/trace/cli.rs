//! Options of `longhaul trace`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::quantity::seconds_from;

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul trace --port 5003 --interval 100ms --time 30s --csv=flows.csv\n          \
    longhaul trace -C fast --every-packet --json=trace.jsonl\n\
    With BPF (CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN; root has all) the trace covers all network namespaces; without \
    BPF, the current one, or that of --process.\n\
    Exit status: 0 success; 1 events were lost; 2 usage or setup error.")]
pub(crate) struct TraceOptions {
    /// Trace connections with this address at either end [default: any].
    #[arg(long, short, value_name = "ADDRESS")]
    pub(crate) address: Option<IpAddr>,
    /// Trace connections with this port at either end [default: any].
    #[arg(long, short, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Trace connections of the process with this number, or of all present and future processes of this name.
    #[arg(long, value_name = "PID|NAME")]
    pub(crate) process: Option<String>,
    /// Trace connections whose congestion control starts with this name [default: any].
    #[arg(long, short = 'C', value_name = "NAME")]
    pub(crate) congestion: Option<String>,
    /// Minimum sampling interval; state changes and retransmissions are always recorded.
    #[arg(long, short, value_name = "TIME", default_value = "100ms", value_parser = seconds_from(Duration::ZERO))]
    pub(crate) interval: Duration,
    /// Take a sample at every packet received on a connection, such as an acknowledgement.
    #[arg(long, conflicts_with = "interval")]
    pub(crate) every_packet: bool,
    /// Stop after this time [default: at Ctrl-C].
    #[arg(long, short, value_name = "TIME", value_parser = seconds_from(Duration::ZERO))]
    pub(crate) time: Option<Duration>,
    /// Source of samples: BPF programs at tracepoints, or socket diagnostics, which need no privilege and read the
    /// state once per interval; `auto` uses BPF if it is permitted.
    #[arg(long, value_enum, value_name = "SOURCE", default_value_t = SourceChoice::Auto)]
    pub(crate) source: SourceChoice,
    /// Print one line per sample instead of the live view on a terminal.
    #[arg(long)]
    pub(crate) lines: bool,
    /// Write JSON Lines to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Write comma-separated values to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) csv: Option<PathBuf>,
    /// Write a page with charts to FILE (HTML) at the end; `longhaul report` can also write it from JSON Lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// Source of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceChoice {
    Auto,
    Bpf,
    Diagnostics,
}
