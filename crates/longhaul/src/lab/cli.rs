//! Options of `longhaul lab`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::quantity::{as_written, rate, time};

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul lab path --rate 1Gb/s --rtt 187ms -- longhaul test far\n\
                  Needs /dev/net/tun, and root or a kernel that allows unprivileged user namespaces. The host's own \
                  network is never changed.\n\
                  Exit status: 0 valid; 1 not valid (the machine was too slow for the emulation, or a flow or program \
                  failed); 2 usage or setup error.")]
pub(crate) struct LabOptions {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Run the experiment that a file describes: set up its network, run and record it, and remove the network.
    Run(Box<RunOptions>),
    /// Merge the results of parts of an experiment, such as shards, into the results of the whole.
    Merge(MergeOptions),
    /// Compare the results of an experiment with those of a reference, metric by metric, within tolerances.
    Compare(CompareOptions),
    /// Run a command at the near end of an emulated path, with `longhaul serve` at the far end.
    Path(Box<PathOptions>),
    /// Open a shell or run a command in a node of a running lab.
    Shell(ShellOptions),
    /// List the labs that run on this machine.
    Status(StatusOptions),
    /// Remove the remains of crashed labs, and nothing else.
    #[command(after_help = "Example: longhaul lab gc")]
    Gc,
    /// Print the capacity of a link over time as a mahimahi trace.
    Trace(TraceOptions),
    /// Build or remove the guest kernel of `lab run --virtual` and `lab path --virtual`.
    Virtual(VirtualOptions),
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul lab virtual setup\n\
    The guest is user-mode Linux with time travel (x86-64). It needs no privilege; building it needs Linux 6.1 source,\n\
    flex, bison, bc, make and gcc, about 2 GB of disk space and some minutes.")]
pub(crate) struct VirtualOptions {
    #[command(subcommand)]
    pub(crate) command: VirtualCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VirtualCommand {
    /// Build the guest kernel into the cache ($XDG_CACHE_HOME/longhaul/guest) and check that it starts.
    Setup {
        /// Archive or directory with the source of Linux 6.1 [default: Debian's linux-source-6.1 in /usr/src].
        #[arg(long, value_name = "PATH")]
        source: Option<PathBuf>,
        /// Take this kernel, built with CONFIG_UML_TIME_TRAVEL_SUPPORT, instead of building one.
        #[arg(long, value_name = "FILE", conflicts_with = "source")]
        kernel: Option<PathBuf>,
    },
    /// Remove the guest kernel from the cache.
    Remove,
}

/// Numbers of points of a sweep.
#[derive(Debug, Clone)]
pub(crate) struct PointList(pub(crate) Vec<RangeInclusive<u32>>);

/// Reads numbers and ranges that commas separate: `0,3-5`.
fn point_list(text: &str) -> Result<PointList, String> {
    let number = |part: &str| part.trim().parse::<u32>().map_err(|_| format!("`{part}` is not a number of a point"));
    let range = |part: &str| match part.split_once('-') {
        None => number(part).map(|n| n..=n),
        Some((first, last)) => {
            let range = number(first)?..=number(last)?;
            if range.is_empty() { Err(format!("`{part}` ends before it starts")) } else { Ok(range) }
        }
    };
    text.split(',').map(range).collect::<Result<_, _>>().map(PointList)
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul lab run scenarios/bufferbloat.toml --variant short --set duration=20s\n\
    DIR receives report.html, records.jsonl, experiment.toml, and run-N/ with logs, captures and the flows' records.\n\
    Ctrl-C ends the experiment and keeps the results so far.\n\
    Exit status: 0 the last attempt at each run is valid; 1 at least one is not; 2 usage or setup error.")]
pub(crate) struct RunOptions {
    /// Experiment file (TOML).
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    /// Override a key of the file, such as --set links.path.loss=1e-4; repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Apply a variant that the file defines, such as `short`, before --set.
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Option<String>,
    /// Number of runs of each sweep point, each with its own seed [default: that of the file, else 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) repeat: Option<u32>,
    /// Run only these points of the sweep, such as 0,3-5, in the order of --list.
    #[arg(long, value_name = "LIST", value_parser = point_list)]
    pub(crate) points: Option<PointList>,
    /// Run only every N-th of the selected runs, starting with the I-th; `lab merge` joins the results of all shards.
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<lab::Shard>,
    /// Maximum number of attempts at a run until one is valid; all are recorded, and means use the valid ones.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) attempts: u32,
    /// Directory for the results, which must not hold those of another experiment [default: lab-NAME-TIME].
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Check the file and print the network and the runs, without running them; needs no privilege.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the points of the sweep with their numbers, without running them; needs no privilege.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) list: bool,
    /// Print the list as a JSON document.
    #[arg(long, requires = "list")]
    pub(crate) json: bool,
    /// Run on a guest kernel in virtual time: slower than real time, without noise and without privilege; needs
    /// `longhaul lab virtual setup` once.
    #[arg(long = "virtual")]
    pub(crate) is_virtual: bool,
    /// Run in the packet-level simulator: modelled TCP, the same records from the same seed, much faster than real
    /// time, without privilege.
    #[arg(long = "simulate", conflicts_with_all = ["is_virtual", "workers", "attempts"])]
    pub(crate) is_simulated: bool,
    /// Number of threads that simulate points and repetitions in parallel [default: number of CPUs].
    #[arg(long, value_name = "N", requires = "is_simulated", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,
    /// Number of threads that forward packets; each link belongs to one of them [default: one per four CPUs].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: Option<u16>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul lab merge part-1 part-2 -o whole\n\
    The directories hold results of one experiment file, engine and version, with the same options except for --points \
    and --shard.\n\
    Exit status: 0 all runs are present and valid; 1 a run is missing or not valid; 2 usage error, or no parts of one \
    experiment.")]
pub(crate) struct MergeOptions {
    /// Result directories of `lab run`, or of `lab merge`.
    #[arg(value_name = "DIR", required = true)]
    pub(crate) parts: Vec<PathBuf>,
    /// Directory for the merged results, which must not hold those of another experiment.
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul lab compare judge/ simulated/\n\
    A metric is within its tolerance, differs, or is not known when the 95 % interval of the difference reaches over \
    the tolerance.\n\
    Exit status: 0 no metric differs; 1 at least one differs; 2 usage error, or no common metric.")]
pub(crate) struct CompareOptions {
    /// Directory of the reference's results, or its records.jsonl.
    #[arg(value_name = "REFERENCE")]
    pub(crate) reference: PathBuf,
    /// Directory of other results of the experiment, or their records.jsonl; repeatable.
    #[arg(value_name = "RESULTS", required = true)]
    pub(crate) compared: Vec<PathBuf>,
    /// Also write a page with all means side by side, and time lines where there is no sweep.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul lab path --rate 1Gb/s --rtt 187ms -- longhaul test far\n          \
    longhaul lab path --rate 50Mb/s --far 'iperf3 -s -1' -- 'sleep 1; iperf3 -c far'\n\
    The ends are named near and far; LONGHAUL_PEER holds the address of the other end. A single argument with spaces \
    is run by /bin/sh.\n\
    Exit status: that of the command; 1 also if the command succeeded and the emulation is not valid; 2 usage or setup \
    error.")]
pub(crate) struct PathOptions {
    /// Rate in each direction on the wire (see --overhead), such as 1Gb/s [default: no limit].
    #[arg(long, value_name = "RATE", value_parser = as_written(rate))]
    pub(crate) rate: Option<String>,
    /// Round-trip time of the empty path, such as 187ms, half of it in each direction.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = time)]
    pub(crate) rtt: Duration,
    /// Jitter in each direction: the delay varies uniformly by up to +/-TIME, without reordering [default: none].
    #[arg(long, value_name = "TIME", value_parser = as_written(time))]
    pub(crate) jitter: Option<String>,
    /// Random loss in each direction after the queue, such as 0.001 or 0.1% [default: 0].
    #[arg(long, value_name = "PROBABILITY")]
    pub(crate) loss: Option<String>,
    /// Tail-drop queue limit in each direction: 24MB, "1000 packets", 50ms, "0.5 bdp" or unlimited [default: "1 bdp",
    /// or "1000 packets" without --rate or --rtt].
    #[arg(long, value_name = "LIMIT")]
    pub(crate) queue: Option<String>,
    /// MTU of both ends, 576 to 9000 bytes.
    #[arg(long, value_name = "BYTES", default_value = "1500")]
    pub(crate) mtu: String,
    /// Bytes per packet that count against --rate in addition to the IP packet: ethernet (38), ethernet-frame (18), ip
    /// (0) or a number.
    #[arg(long, value_name = "KIND", default_value = "ethernet")]
    pub(crate) overhead: String,
    /// Set a link key of the experiment file, such as --set forward.loss=0.01 (near to far) or --set
    /// backward.rate=10Mb/s; repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Seed of random numbers; the same seed drops the packets with the same numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Maximum 99th-percentile lateness of packets in a valid emulation, such as 50ms for commands insensitive to
    /// timing [default: 1 % of the delay, at least 1ms]. With this option, CPU time stolen by the hypervisor does not
    /// count.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) lateness: Option<Duration>,
    /// Run this shell command at the far end instead of `longhaul serve`, and stop it after the near command.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) far: Option<String>,
    /// Write the counters of the link for each second to FILE (JSON Lines).
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Capture the first 128 bytes of each packet, as sent and as delivered, in both directions to FILE (pcapng).
    #[arg(long, value_name = "FILE")]
    pub(crate) pcapng: Option<PathBuf>,
    /// Run on a guest kernel in virtual time, as `longhaul lab run --virtual` does. The command may write to the
    /// working directory only.
    #[arg(long = "virtual")]
    pub(crate) is_virtual: bool,
    /// Do not print a summary of the link at the end, unless the emulation is not valid.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Command and arguments [default: a shell].
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul lab shell far -- ss -tin")]
pub(crate) struct ShellOptions {
    /// Name of the node; `lab status` lists them.
    pub(crate) node: String,
    /// Process id of the lab in `lab status`, needed if several labs have a node of this name.
    #[arg(long, value_name = "PID")]
    pub(crate) lab: Option<u32>,
    /// Command and arguments [default: a shell].
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul lab status --json")]
pub(crate) struct StatusOptions {
    /// Print JSON Lines, one per lab.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul lab trace scenarios/bufferbloat.toml bottleneck > bottleneck.trace")]
pub(crate) struct TraceOptions {
    /// Experiment file (TOML).
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    /// Name of the link.
    pub(crate) link: String,
    /// Print the direction from the link's second node to its first [default: first to second].
    #[arg(long)]
    pub(crate) backward: bool,
    /// Override a key of the file, such as --set links.path.loss=1e-4; repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Apply a variant that the file defines, before --set.
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Option<String>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!("`{text}` is not KEY=VALUE, such as links.path.loss=1e-4")),
    }
}
