//! The one definition of the command line; parser, help, man page and completions come from it.

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
use crate::model::cli::ModelOptions;
use crate::overlay::cli::OverlayOptions;
use crate::peer::{PeerOptions, Target};
use crate::quantity::{NOT_ZERO, SOME_BYTES, bytes, rate, seconds_from, time};
use crate::shape::cli::ShapeOptions;
use crate::trace::cli::TraceOptions;
use crate::tune::cli::TuneOptions;

/// Measure, predict, choose, shape and emulate bulk data paths.
///
/// Quantities take units: rates are in bits per second (200Mb/s, 200mbit or 200M), sizes in bytes (64KiB, 10GB or 64k), times in
/// ns, us, ms, s, m, h, d or w (187ms, 10s, 30d). The prefixes k, M, G and T, in either case, are powers of ten; binary
/// prefixes must be spelled (KiB, MiB). A number without a unit is bytes where a size is wanted, and seconds in --time,
/// --omit and --interval, as in iperf3; every other rate or time needs its unit. Files follow the same rules, and want a unit always.
#[derive(Debug, Parser)]
#[command(
    name = "longhaul",
    version,
    max_term_width = 110,
    disable_help_subcommand = true,
    after_help = "Exit status: 0 done; 1 the answer is negative (a test broke, the two ends disagree, a lab is not valid); \
                  2 the question could not be asked (usage, files, privileges, no peer)."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer bulk tests on TCP and UDP port 5003.
    Serve(Box<ServeOptions>),
    /// Measure throughput and delay on the same bytes, to a host that runs `longhaul serve` or thrulayd.
    Test(Box<TestOptions>),
    /// Divide a device's traffic into classes with rates, or hold it to one.
    Shape(ShapeOptions),
    /// Load and list congestion controls: FAST TCP and H-TCP for a kernel that has none.
    Cc(CcOptions),
    /// Say which of several hosts a transfer goes fastest to, or comes fastest from.
    Choose(Box<ChooseOptions>),
    /// Say what a path gives, and what a transfer will get, from a few packets.
    Estimate(Box<EstimateOptions>),
    /// Compare estimates with the truth of emulated paths, and say how well they choose between paths.
    Evaluate(Box<EvaluateOptions>),
    /// Show what was measured of paths before, and what is expected of them.
    History(HistoryOptions),
    /// Emulate paths and networks on this machine, with the kernel's own TCP.
    Lab(LabOptions),
    /// First process of a lab's nodes.
    #[command(hide = true)]
    LabKeeper {
        /// Hosts file of the nodes.
        hosts: Option<PathBuf>,
    },
    /// Say what published formulas give for a path: rates by round trip and loss, times of transfers.
    Model(ModelOptions),
    /// Tunnel traffic over other members, each flow where TCP is predicted to be fastest.
    Overlay(OverlayOptions),
    /// Record what the kernel's TCP does with chosen connections: windows, round trips, rates, losses, inner state.
    Trace(TraceOptions),
    /// Compare this host's settings with what a long fast path needs, change them, and measure whether it helps.
    Tune(TuneOptions),
    /// Make a report page from saved results (JSON Lines), several runs side by side.
    Report(ReportOptions),
    /// Write man pages, shell completions or the schema of the records.
    Generate(GenerateOptions),
}

#[derive(Debug, Args)]
pub(crate) struct ServeOptions {
    /// Address to listen on [default: all, IPv4 and IPv6].
    #[arg(long, short = 'B', value_name = "ADDRESS", env = "LONGHAUL_BIND")]
    pub(crate) bind: Option<LocalAddress>,
    /// TCP and UDP port.
    #[arg(long, short, default_value_t = 5003, env = "LONGHAUL_PORT")]
    pub(crate) port: u16,
    /// Network that may use the server, repeatable [default: everyone].
    #[arg(long, value_name = "CIDR", value_parser = network)]
    pub(crate) allow: Vec<IpNet>,
    /// Most sessions at once.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) max_sessions: usize,
    /// Most sessions at once from one address, or from the 64-bit prefix of an IPv6 address.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) max_sessions_per_address: usize,
    /// Most memory for all sessions together; tests that may need more are refused. Socket buffers are not part of it.
    #[arg(long, value_name = "BYTES", default_value = "2GiB")]
    pub(crate) max_memory: Bytes,
    /// Let clients have socket buffers beyond net.core.rmem_max and wmem_max (needs CAP_NET_ADMIN).
    #[arg(long)]
    pub(crate) large_windows: bool,
    /// Longest test.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time)]
    pub(crate) max_duration: Duration,
    /// Highest rate of one session, its streams together [default: none].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) max_rate: Option<Rate>,
    /// Most bytes of probes (`longhaul estimate`) in a session, both directions together; 0 answers none.
    #[arg(long, value_name = "BYTES", default_value = "200MB")]
    pub(crate) max_probe_bytes: Bytes,
    /// File with the pre-shared key (at least 16 bytes of text) that clients must hold.
    #[arg(long, value_name = "FILE", env = "LONGHAUL_KEY_FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// How long running tests may go on after SIGTERM or the first Ctrl-C.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub(crate) grace: Duration,
    /// Serve one session, then exit.
    #[arg(long)]
    pub(crate) one_off: bool,
    /// Log in JSON instead of text.
    #[arg(long)]
    pub(crate) log_json: bool,
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
    /// The rows of thrulay, ready for gnuplot.
    Thrulay,
}

#[derive(Debug, Args)]
pub(crate) struct TestOptions {
    #[allow(rustdoc::broken_intra_doc_links, reason = "the brackets are those of an address, in the help")]
    /// Host name or address of the server: HOST, HOST:PORT or [IPV6]:PORT.
    #[arg(value_parser = Target::parse)]
    pub(crate) host: Target,
    #[command(flatten)]
    pub(crate) memory: MemoryOptions,
    #[command(flatten)]
    pub(crate) peer: PeerOptions,

    /// How long to send [default: 10s].
    #[arg(long, short = 't', value_name = "TIME", value_parser = seconds_from(NOT_ZERO), help_heading = "Load")]
    pub(crate) time: Option<Duration>,
    /// How many bytes to send in each direction, instead of --time.
    #[arg(long, short = 'n', value_name = "BYTES", value_parser = bytes(SOME_BYTES), conflicts_with = "time", help_heading = "Load")]
    pub(crate) bytes: Option<Bytes>,
    /// Run this long before --time begins, and leave it out of goodput, block round trip and limits.
    #[arg(long, short = 'O', value_name = "TIME", value_parser = seconds_from(Duration::ZERO), conflicts_with = "bytes", help_heading = "Load")]
    pub(crate) omit: Option<Duration>,
    /// Streams in each direction.
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1, value_parser = streams(), help_heading = "Load")]
    pub(crate) streams: u32,
    /// The server sends, this host receives.
    #[arg(long, short = 'R', help_heading = "Load")]
    pub(crate) reverse: bool,
    /// Both directions at once.
    #[arg(long, conflicts_with = "reverse", help_heading = "Load")]
    pub(crate) bidir: bool,
    /// Bytes in a block (TCP), or of payload in a datagram (UDP) [default: 64KiB, with --pacing 50 ms of it if that is
    /// less; UDP 1448].
    #[arg(long, short = 'l', value_name = "BYTES", help_heading = "Load")]
    pub(crate) block: Option<Bytes>,
    /// Send UDP datagrams instead of TCP, each stream at equal gaps, at this rate or that of --bitrate [default: 1Mb/s, as in iperf3].
    #[arg(long, short, value_name = "RATE", value_parser = rate, num_args = 0..=1, require_equals = true, help_heading = "Load")]
    pub(crate) udp: Option<Option<Rate>>,
    /// Rate of each stream: of UDP its datagrams', of TCP a ceiling as --pacing sets it.
    #[arg(long, short, value_name = "RATE", value_parser = rate, conflicts_with = "pacing", help_heading = "Load")]
    pub(crate) bitrate: Option<Rate>,
    /// Send the datagrams as a Poisson process of that mean rate (RFC 2330).
    #[arg(long, requires = "udp", help_heading = "Load")]
    pub(crate) poisson: bool,
    /// Seed of the Poisson process.
    #[arg(long, requires = "poisson", default_value_t = 1, help_heading = "Load")]
    pub(crate) seed: u64,

    /// Socket buffers at both ends (SO_SNDBUF, SO_RCVBUF) [default: the kernel's autotuning].
    #[arg(long, short, value_name = "BYTES", value_parser = bytes(1..=wire::MAX_WINDOW_BYTES), help_heading = "Socket")]
    pub(crate) window: Option<Bytes>,
    /// Congestion control of the sending end [default: that host's].
    #[arg(long, short = 'C', value_name = "NAME", help_heading = "Socket")]
    pub(crate) congestion: Option<String>,
    /// Ceiling of each stream's rate, paced by the sending kernel (SO_MAX_PACING_RATE).
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with = "udp", help_heading = "Socket")]
    pub(crate) pacing: Option<Rate>,
    /// Differentiated services code point of the data packets, 0 to 63 or by name, such as cs1, af41 or ef.
    #[arg(long, value_name = "N|NAME", value_parser = dscp, help_heading = "Socket")]
    pub(crate) dscp: Option<u8>,
    /// TCP maximum segment size.
    #[arg(long, short = 'M', value_name = "BYTES", value_parser = mss(), help_heading = "Socket")]
    pub(crate) mss: Option<u32>,
    /// Most bytes waiting unsent in the sender's socket [default: what the path takes in 250 ms; with --pacing 50 ms of it].
    #[arg(long, value_name = "BYTES", value_parser = bytes(1..=u32::MAX.into()), help_heading = "Socket")]
    pub(crate) notsent_lowat: Option<Bytes>,
    /// Send from the page cache (sendfile) and discard in the receiving kernel (MSG_TRUNC), without copies.
    #[arg(long, short = 'Z', conflicts_with = "udp", help_heading = "Socket")]
    pub(crate) zero_copy: bool,
    /// Send the content of this file, once without --time and --bytes; with --reverse, write what arrives to a new file there, which has no name and is gone at the end.
    #[arg(long, short = 'F', value_name = "FILE", conflicts_with_all = ["udp", "bidir", "zero_copy"], help_heading = "Socket")]
    pub(crate) file: Option<PathBuf>,
    /// Local address.
    #[arg(long, short = 'B', value_name = "ADDRESS", help_heading = "Socket")]
    pub(crate) bind: Option<LocalAddress>,
    /// Run this end on this CPU only.
    #[arg(long, short = 'A', value_name = "CPU", value_parser = cpu, help_heading = "Socket")]
    pub(crate) affinity: Option<usize>,

    /// Length of a reporting interval.
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = seconds_from(Duration::from_nanos(wire::MIN_INTERVAL_NS)), help_heading = "Output")]
    pub(crate) interval: Duration,
    /// What goes to standard output.
    #[arg(long, value_enum, default_value_t = Format::Auto, help_heading = "Output")]
    pub(crate) format: Format,
    /// Write the records as JSON Lines to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Write one JSON document to standard output: the records in an array, `{"records": [...]}`.
    #[arg(long, short = 'J', help_heading = "Output")]
    pub(crate) json_document: bool,
    /// Print the summary only: neither the live view nor intervals.
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Write the intervals as CSV to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-", help_heading = "Output")]
    pub(crate) csv: Option<PathBuf>,
    /// Write a report page to FILE; it opens without a network.
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub(crate) report: Option<PathBuf>,
    /// Label of this run in records and reports.
    #[arg(long, value_name = "TEXT", help_heading = "Output")]
    pub(crate) title: Option<String>,
    /// Rate of the narrow link, for the RFC 6349 metrics [default: the best interval].
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Output")]
    pub(crate) link_rate: Option<Rate>,
    /// More columns in --format thrulay.
    #[arg(long, short, help_heading = "Output")]
    pub(crate) verbose: bool,

    /// How long to wait after the load for what is still under way.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub(crate) grace: Duration,
    /// Begin the load at this reading of CLOCK_MONOTONIC_RAW; the lab starts its flows with it.
    #[arg(long, value_name = "NS", hide = true)]
    pub(crate) start_at_ns: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// Result files (JSON Lines): of tests, as `longhaul test --json=FILE` writes them, or the `records.jsonl` of
    /// emulated experiments, several of which are compared in one table; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Page to write.
    #[arg(long, short, value_name = "FILE.html", default_value = "longhaul-report.html")]
    pub(crate) output: PathBuf,
    /// Title of the page.
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Man pages, one for each command.
    Man,
    /// Completions for bash, zsh, fish, elvish and PowerShell.
    Completions,
    /// JSON Schema of the result records.
    Schema,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateOptions {
    /// What to write.
    #[arg(value_enum)]
    pub(crate) what: What,
    /// Folder to write into; made when missing.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// How many streams a test may have in a direction.
pub(crate) fn streams() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(wire::MAX_STREAMS))
}

/// What Linux takes as TCP_MAXSEG.
fn mss() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(*wire::MSS_BYTES.start())..=i64::from(*wire::MSS_BYTES.end()))
}

/// 0 to 63, or a name.
fn dscp(text: &str) -> Result<u8, String> {
    let number = text.parse().ok().filter(|n| *n < 64).or_else(|| scenario::code_point(text));
    number.ok_or_else(|| "write 0 to 63, or a name: cs0 to cs7, af11 to af43, ef, le or voice-admit".to_owned())
}

/// One CPU. iperf3 takes a second one for the server, which is the server's own business here.
fn cpu(text: &str) -> Result<usize, String> {
    if let Some((_, server)) = text.split_once(',') {
        return Err(format!(
            "a server chooses its CPU itself; to have it on CPU {server}, start it with `taskset -c {server} longhaul serve`"
        ));
    }
    text.parse().map_err(|_| "write the number of a CPU, from 0".to_owned())
}

/// `192.0.2.0/24`, or a single address.
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
