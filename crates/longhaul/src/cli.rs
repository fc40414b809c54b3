//! Definition of the command line, the source of parser, help, man pages and completions.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;
use kernel::LocalAddress;
use units::{Bytes, Rate};

use crate::cc::cli::CcOptions;
use crate::choose::cli::ChooseOptions;
use crate::estimate::cli::EstimateOptions;
use crate::evaluate::cli::EvaluateOptions;
use crate::history::cli::HistoryOptions;
use crate::history::memory::MemoryOptions;
use crate::lab::cli::LabOptions;
use crate::logs::LogFormat;
use crate::model::cli::ModelOptions;
use crate::overlay::cli::OverlayOptions;
use crate::peer::{PeerOptions, Target};
use crate::quantity::{NONZERO_SIZE, NONZERO_TIME_MIN, bytes, rate, seconds_from, time};
use crate::shape::cli::ShapeOptions;
use crate::trace::cli::TraceOptions;
use crate::tune::cli::TuneOptions;

/// Measure, predict, choose, shape and emulate bulk data paths.
///
/// Rates are in bits per second (200Mb/s, 200mbit or 200M), sizes in bytes (64KiB, 10GB or 64k), times in ns, us, ms,
/// s, m, h, d or w (187ms, 10s, 30d). The prefixes k, M, G and T, in either case, are powers of ten; binary prefixes
/// must be spelled (KiB, MiB). A size without a unit is in bytes. A number without a unit is in seconds in --time,
/// --omit and --interval, as in iperf3. Every other rate or time needs its unit, and so does every quantity in a file.
#[derive(Debug, Parser)]
#[command(
    name = "longhaul",
    version,
    max_term_width = 110,
    after_help = "Examples: longhaul serve\n          \
                  longhaul test server.example.net --reverse --report test.html\n          \
                  longhaul lab path --rate 1Gb/s --rtt 187ms -- longhaul test far\n\
                  Exit status: 0 success; 1 negative result (a test failed, the counts of its ends differ, an \
                  emulation is not valid); 2 usage or setup error (options, files, privileges, no connection)."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure throughput and delay on the same bytes, to a host that runs `longhaul serve` or thrulayd.
    Test(Box<TestOptions>),
    /// Run the server that `test`, `estimate`, `choose` and `tune verify` connect to, on TCP and UDP port 5003.
    Serve(Box<ServeOptions>),
    /// Write a report page from saved results (JSON Lines), several runs side by side.
    Report(ReportOptions),
    /// Estimate capacity, available bandwidth and TCP throughput of a path from a few packets.
    Estimate(Box<EstimateOptions>),
    /// Find out which of several hosts gives the fastest transfer, in either direction.
    Choose(Box<ChooseOptions>),
    /// Show earlier measurements of paths, and the values expected of them.
    History(HistoryOptions),
    /// Emulate paths and networks on this machine, with the kernel's own TCP.
    Lab(LabOptions),
    /// Divide a device's traffic into classes with rates, or limit the device to one rate.
    Shape(ShapeOptions),
    /// Compare this host's settings with what a long fast path needs, change them, and measure the effect.
    Tune(TuneOptions),
    /// List and load congestion controls: FAST TCP and H-TCP for a kernel without them.
    Cc(CcOptions),
    /// Record the TCP state of chosen connections in the kernel: windows, round trips, rates, losses.
    Trace(TraceOptions),
    /// Tunnel traffic between nodes, each flow over the path with the highest predicted TCP throughput.
    Overlay(OverlayOptions),
    /// Calculate TCP rates and transfer times for a path from published formulas.
    Model(ModelOptions),
    /// Compare estimates with the known properties of emulated paths.
    Evaluate(Box<EvaluateOptions>),
    /// Write man pages, shell completions or the schema of the records.
    Generate(GenerateOptions),
    /// First process of a lab's nodes.
    #[command(hide = true)]
    LabKeeper {
        /// Hosts file of the nodes.
        hosts: Option<PathBuf>,
    },
    /// First process of a guest kernel.
    #[command(hide = true)]
    LabGuest {
        /// File with the task.
        task: PathBuf,
        /// Parameters that the kernel adds, such as its console.
        rest: Vec<String>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul serve --allow 192.0.2.0/24\n          \
    longhaul serve --key-file server.key --max-rate 1Gb/s")]
pub(crate) struct ServeOptions {
    /// TCP and UDP port to listen on.
    #[arg(long, short, default_value_t = 5003, env = "LONGHAUL_PORT")]
    pub(crate) port: u16,
    /// Address to listen on [default: all, IPv4 and IPv6].
    #[arg(long, short = 'B', value_name = "ADDRESS", env = "LONGHAUL_BIND")]
    pub(crate) bind: Option<LocalAddress>,
    /// Allow clients in this network only; repeatable [default: all networks].
    #[arg(long, value_name = "CIDR", value_parser = network)]
    pub(crate) allow: Vec<IpNet>,
    /// File with the pre-shared key (at least 16 bytes of text) that clients must have.
    #[arg(long, value_name = "FILE", env = "LONGHAUL_KEY_FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Maximum duration of a test.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time)]
    pub(crate) max_duration: Duration,
    /// Maximum rate of a session, all its streams together [default: no limit].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) max_rate: Option<Rate>,
    /// Maximum number of concurrent sessions.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = sessions)]
    pub(crate) max_sessions: usize,
    /// Maximum number of concurrent sessions from one IPv4 address or one IPv6 /64 prefix.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = sessions)]
    pub(crate) max_sessions_per_address: usize,
    /// Maximum memory of all sessions together, without socket buffers; tests that may need more are rejected.
    #[arg(long, value_name = "BYTES", default_value = "2GiB")]
    pub(crate) max_memory: Bytes,
    /// Maximum volume of probes (`longhaul estimate`) in a session, both directions together; 0 disables probes.
    #[arg(long, value_name = "BYTES", default_value = "200MB")]
    pub(crate) max_probe_bytes: Bytes,
    /// Allow socket buffers larger than net.core.rmem_max and wmem_max (needs CAP_NET_ADMIN).
    #[arg(long)]
    pub(crate) large_windows: bool,
    /// Time that running tests have to finish after SIGTERM or the first Ctrl-C.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub(crate) grace: Duration,
    /// Serve one session, then exit.
    #[arg(long)]
    pub(crate) one_off: bool,
    /// Format of the log on standard error.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Live view on a terminal, plain lines in a pipe.
    Auto,
    /// Plain lines.
    Text,
    /// JSON Lines: start, interval and end records.
    Json,
    /// One row per interval and stream.
    Csv,
    /// Rows in the format of thrulay, ready for gnuplot.
    Thrulay,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul test server.example.net\n          \
    longhaul test server.example.net -R -P 4 -t 30 --json=test.jsonl --report test.html\n          \
    longhaul test server.example.net --udp=100Mb/s")]
pub(crate) struct TestOptions {
    #[allow(rustdoc::broken_intra_doc_links, reason = "the brackets are those of an address, in the help")]
    /// Host name or address of the server: HOST, HOST:PORT or [IPV6]:PORT.
    #[arg(value_parser = Target::parse)]
    pub(crate) host: Target,

    /// Duration of the test [default: 10s].
    #[arg(long, short = 't', value_name = "TIME", value_parser = seconds_from(NONZERO_TIME_MIN), help_heading = "Traffic")]
    pub(crate) time: Option<Duration>,
    /// Send this volume in each direction instead of --time.
    #[arg(long, short = 'n', value_name = "BYTES", value_parser = bytes(NONZERO_SIZE), conflicts_with = "time",
        help_heading = "Traffic")]
    pub(crate) bytes: Option<Bytes>,
    /// Number of parallel streams in each direction.
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1, value_parser = streams(), help_heading = "Traffic")]
    pub(crate) streams: u32,
    /// Send from the server to this host.
    #[arg(long, short = 'R', help_heading = "Traffic")]
    pub(crate) reverse: bool,
    /// Send in both directions at once.
    #[arg(long, conflicts_with = "reverse", help_heading = "Traffic")]
    pub(crate) bidir: bool,
    /// Send UDP datagrams instead of TCP, evenly spaced in each stream, at this rate or that of --bitrate [default:
    /// 1Mb/s, as in iperf3].
    #[arg(long, short, value_name = "RATE", value_parser = rate, num_args = 0..=1, require_equals = true,
        help_heading = "Traffic")]
    pub(crate) udp: Option<Option<Rate>>,
    /// Rate of each stream: the rate of its datagrams for UDP, a ceiling like --pacing for TCP.
    #[arg(long, short, value_name = "RATE", value_parser = rate, conflicts_with = "pacing", help_heading = "Traffic")]
    pub(crate) bitrate: Option<Rate>,
    /// Send for this time before --time starts, and leave it out of goodput, block RTT and limits [default: 0s].
    #[arg(long, short = 'O', value_name = "TIME", value_parser = seconds_from(Duration::ZERO), conflicts_with = "bytes",
        help_heading = "Traffic")]
    pub(crate) omit: Option<Duration>,
    /// Size of a block (TCP), or of a datagram's payload (UDP) [default: TCP 64KiB, or 50 ms of --pacing if less; UDP
    /// 1448].
    #[arg(long, short = 'l', value_name = "BYTES", help_heading = "Traffic")]
    pub(crate) block: Option<Bytes>,
    /// Send the content of FILE, once without --time and --bytes; with --reverse, write the received data to a new file
    /// of this name, which is unlinked at once.
    #[arg(long, short = 'F', value_name = "FILE", conflicts_with_all = ["udp", "bidir", "zero_copy"],
        help_heading = "Traffic")]
    pub(crate) file: Option<PathBuf>,
    /// Space the datagrams as a Poisson process with the given mean rate (RFC 2330).
    #[arg(long, requires = "udp", help_heading = "Traffic")]
    pub(crate) poisson: bool,
    /// Seed of the Poisson process.
    #[arg(long, requires = "poisson", default_value_t = 1, help_heading = "Traffic")]
    pub(crate) seed: u64,
    /// Maximum wait after the test for data that is still in flight.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time, help_heading = "Traffic")]
    pub(crate) grace: Duration,

    /// Socket buffer size at both ends (SO_SNDBUF, SO_RCVBUF) [default: the kernel's autotuning].
    #[arg(long, short, value_name = "BYTES", value_parser = bytes(1..=wire::WINDOW_BYTES_MAX), help_heading = "Socket")]
    pub(crate) window: Option<Bytes>,
    /// Congestion control of the sender [default: that of the sending host].
    #[arg(long, short = 'C', value_name = "NAME", help_heading = "Socket")]
    pub(crate) congestion: Option<String>,
    /// Ceiling of each stream's rate, paced by the sending kernel (SO_MAX_PACING_RATE) [default: no limit].
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with = "udp", help_heading = "Socket")]
    pub(crate) pacing: Option<Rate>,
    /// Differentiated services code point of the data packets: 0 to 63, or a name such as cs1, af41 or ef [default: 0].
    #[arg(long, value_name = "N|NAME", value_parser = dscp, help_heading = "Socket")]
    pub(crate) dscp: Option<u8>,
    /// TCP maximum segment size [default: the kernel's].
    #[arg(long, short = 'M', value_name = "BYTES", value_parser = mss(), help_heading = "Socket")]
    pub(crate) mss: Option<u32>,
    /// Maximum unsent data in the sender's socket (TCP_NOTSENT_LOWAT) [default: 250 ms of the path's rate, or 50 ms of
    /// --pacing].
    #[arg(long, value_name = "BYTES", value_parser = bytes(1..=u32::MAX.into()), help_heading = "Socket")]
    pub(crate) notsent_lowat: Option<Bytes>,
    /// Send from the page cache (sendfile) and discard in the receiving kernel (MSG_TRUNC), without copies.
    #[arg(long, short = 'Z', conflicts_with = "udp", help_heading = "Socket")]
    pub(crate) zero_copy: bool,
    /// Local address to connect from [default: the kernel's choice].
    #[arg(long, short = 'B', value_name = "ADDRESS", help_heading = "Socket")]
    pub(crate) bind: Option<LocalAddress>,
    /// Run this end on this CPU only [default: any CPU].
    #[arg(long, short = 'A', value_name = "CPU", value_parser = cpu, help_heading = "Socket")]
    pub(crate) affinity: Option<usize>,

    /// Length of a reporting interval.
    #[arg(long, short, value_name = "TIME", default_value = "1s",
        value_parser = seconds_from(Duration::from_nanos(wire::INTERVAL_NS_MIN)), help_heading = "Output")]
    pub(crate) interval: Duration,
    /// Print the summary only, without the live view and the intervals.
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Write a report page to FILE, which opens without a network.
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub(crate) report: Option<PathBuf>,
    /// Write the records as JSON Lines to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-",
        help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Write one JSON document to standard output: the records in an array, `{"records": [...]}`.
    #[arg(long, short = 'J', help_heading = "Output")]
    pub(crate) json_document: bool,
    /// Write the intervals as CSV to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-",
        help_heading = "Output")]
    pub(crate) csv: Option<PathBuf>,
    /// Format of standard output.
    #[arg(long, value_enum, default_value_t = Format::Auto, help_heading = "Output")]
    pub(crate) format: Format,
    /// Label of this run in records and reports.
    #[arg(long, value_name = "TEXT", help_heading = "Output")]
    pub(crate) title: Option<String>,
    /// Rate of the bottleneck link, for the RFC 6349 metrics [default: that of the best interval].
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Output")]
    pub(crate) link_rate: Option<Rate>,
    /// Print more columns in --format thrulay.
    #[arg(long, short, help_heading = "Output")]
    pub(crate) verbose: bool,
    #[command(flatten, next_help_heading = "Output")]
    pub(crate) memory: MemoryOptions,

    #[command(flatten)]
    pub(crate) peer: PeerOptions,
    /// Start the test at this reading of CLOCK_MONOTONIC_RAW; the lab starts its flows with it.
    #[arg(long, value_name = "NS", hide = true)]
    pub(crate) start_at_ns: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul report test.jsonl\n          \
    longhaul report before.jsonl after.jsonl --output comparison.html")]
pub(crate) struct ReportOptions {
    /// Result files (JSON Lines): tests saved by `longhaul test --json=FILE`, or the `records.jsonl` of one or several
    /// emulated experiments, which are compared in one table; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Write the page to FILE.
    #[arg(long, short, value_name = "FILE.html", default_value = "longhaul-report.html")]
    pub(crate) output: PathBuf,
    /// Title of the page.
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Man pages, one per command.
    Man,
    /// Completions for bash, zsh, fish, elvish and PowerShell.
    Completions,
    /// JSON Schema of the result records.
    Schema,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul generate completions ./completions")]
pub(crate) struct GenerateOptions {
    /// Files to write.
    #[arg(value_enum)]
    pub(crate) what: What,
    /// Directory to write to, created if it is missing.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// Reader of a number of streams, 1 to [`wire::STREAMS_MAX`] in each direction.
pub(crate) fn streams() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(wire::STREAMS_MAX))
}

/// Reader of a number of sessions, at least one: a server without sessions would refuse every client.
fn sessions(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("0 is out of range (1 or more)".to_owned()),
        Ok(n) => Ok(n),
        Err(_) => Err(format!("`{text}` is not a number of sessions (1 or more)")),
    }
}

/// Reader of a maximum segment size within the range that Linux accepts for TCP_MAXSEG.
fn mss() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(*wire::MSS_BYTES.start())..=i64::from(*wire::MSS_BYTES.end()))
}

/// Reads a code point: 0 to 63, or a name.
fn dscp(text: &str) -> Result<u8, String> {
    let number = text.parse().ok().filter(|n| *n < 64).or_else(|| scenario::code_point(text));
    number.ok_or_else(|| "write 0 to 63, or a name: cs0 to cs7, af11 to af43, ef, le or voice-admit".to_owned())
}

/// Reads the number of one CPU. iperf3 accepts a second one for the server; here the server's command line sets it.
fn cpu(text: &str) -> Result<usize, String> {
    if let Some((_, server)) = text.split_once(',') {
        return Err(format!(
            "--affinity sets the CPU of this end only; to run the server on CPU {server}, start it with `taskset -c {server} longhaul serve`"
        ));
    }
    text.parse().map_err(|_| "write the number of a CPU, from 0".to_owned())
}

/// Reads a network (`192.0.2.0/24`) or a single address.
fn network(text: &str) -> Result<IpNet, String> {
    text.parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| format!("`{text}` is neither a network such as 192.0.2.0/24 or 2001:db8::/32 nor an address"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
