//! Options of `longhaul lab`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::quantity::{as_written, rate, time};

#[derive(Debug, Args)]
#[command(
    after_help = "Needs root, or a kernel that lets users make user namespaces, and /dev/net/tun. The host's own network is \
                  never changed.\n\
                  Exit status: 0 valid; 1 not valid (the machine did not carry the emulation, a flow or program failed); \
                  2 nothing could be run."
)]
pub(crate) struct LabOptions {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Run the experiment that a file describes: build its network, run it, record, take all down.
    Run(Box<RunOptions>),
    /// Run a command at the near end of an emulated path, with `longhaul serve` at the far end.
    Path(Box<PathOptions>),
    /// Open a shell, or run a command, in a node of a running lab.
    Shell(ShellOptions),
    /// List the labs that run on this machine.
    Status(StatusOptions),
    /// Remove what a crashed lab left, and nothing else.
    Gc,
    /// Print a link's capacity over time as a mahimahi trace.
    Trace(TraceOptions),
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul lab run scenarios/bufferbloat.toml --variant short --set duration=20s\n\
    Results in DIR: report.html, records.jsonl, experiment.toml, and run-N/ with logs, captures and the flows' records.\n\
    Exit status: 0 every run is valid, or the last attempt at it; 1 one is not; 2 it could not be run. Ctrl-C ends it with what it has.")]
pub(crate) struct RunOptions {
    /// Experiment file (TOML).
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    /// Change a key of the file for this call, repeatable: --set links.path.loss=1e-4.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Use a variant that the file defines, such as `short`, before --set.
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Option<String>,
    /// Runs of each point of the sweep, each with another seed [default: as the file says, else 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) repeat: Option<u32>,
    /// How often a run is made at most until one is valid; all stay on record, the valid ones make the means.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) attempts: u32,
    /// Folder for the results; one with results of another experiment is refused [default: lab-NAME-TIME].
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Check the file and print what would be built and run; needs no privilege.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Threads that move packets; a link belongs to one [default: one for every four CPUs].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: Option<u16>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul lab path --rate 1Gb/s --rtt 187ms -- longhaul test far\n          \
    longhaul lab path --rate 50Mb/s --far 'iperf3 -s -1' -- 'sleep 1; iperf3 -c far'\n\
    The ends have the names near and far; LONGHAUL_PEER holds the other end's address. One argument with spaces is a line \
    for /bin/sh.\n\
    Exit status: the command's; 1 also when the command succeeded and the emulation is not valid; 2 nothing could be run.")]
pub(crate) struct PathOptions {
    /// Rate in each direction, such as 1Gb/s, counted on the wire (see --overhead) [default: no limit].
    #[arg(long, value_name = "RATE", value_parser = as_written(rate))]
    pub(crate) rate: Option<String>,
    /// Round trip of the empty path, such as 187ms, half of it in each direction.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = time)]
    pub(crate) rtt: Duration,
    /// Variation of the delay in each direction, evenly from minus to plus TIME; packets stay in order.
    #[arg(long, value_name = "TIME", value_parser = as_written(time))]
    pub(crate) jitter: Option<String>,
    /// Random loss in each direction, such as 0.001 or 0.1%, after the queue.
    #[arg(long, value_name = "PROBABILITY")]
    pub(crate) loss: Option<String>,
    /// What may wait before the rate, in each direction: 24MB, "1000 packets", 50ms, "0.5 bdp" or unlimited; tail drop
    /// [default: "1 bdp"; without rate or round trip "1000 packets"].
    #[arg(long, value_name = "LIMIT")]
    pub(crate) queue: Option<String>,
    /// MTU of both ends, 576 to 9000.
    #[arg(long, value_name = "BYTES", default_value = "1500")]
    pub(crate) mtu: String,
    /// Bytes of each packet that count against the rate besides its IP bytes: ethernet (38), ethernet-frame (18), ip (0) or
    /// a number.
    #[arg(long, value_name = "KIND", default_value = "ethernet")]
    pub(crate) overhead: String,
    /// Any key of a link in an experiment file, repeatable: --set forward.loss=0.01, --set backward.rate=10Mb/s. Forward
    /// is from near to far.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Seed of the random draws: the same seed loses the same packets, by their number.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Lateness of packets at the 99th percentile up to which the emulation is called valid, such as 50ms for commands that
    /// are not about time [default: 1 % of the delay, at least 1ms]. CPU time that a virtual machine's host takes does not count then.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) lateness: Option<Duration>,
    /// Shell command at the far end instead of `longhaul serve`; ended with the near one.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) far: Option<String>,
    /// Write what the link did in each second to FILE (JSON Lines).
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the first 128 bytes of each packet to FILE (pcapng), as sent and as delivered, both directions.
    #[arg(long, value_name = "FILE")]
    pub(crate) pcapng: Option<PathBuf>,
    /// Print no summary of the link at the end, unless the emulation is not valid.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Command and arguments [default: a shell].
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ShellOptions {
    /// Name of the node; `lab status` lists them.
    pub(crate) node: String,
    /// Number of the lab, as `lab status` shows it, when several have such a node.
    #[arg(long, value_name = "PID")]
    pub(crate) lab: Option<u32>,
    /// Command and arguments [default: a shell].
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusOptions {
    /// Print JSON, one lab a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TraceOptions {
    /// Experiment file (TOML).
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    /// Name of the link.
    pub(crate) link: String,
    /// The direction from its second node to its first, instead of the other one.
    #[arg(long)]
    pub(crate) backward: bool,
    /// Change a key of the file for this call, repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Use a variant that the file defines.
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Option<String>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!("`{text}` is not KEY=VALUE, such as links.path.loss=1e-4")),
    }
}
