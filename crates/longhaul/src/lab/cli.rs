//! Options of `longhaul lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(
    after_help = "Needs root, or a kernel that lets users make user namespaces. The host's own network is never changed."
)]
pub(crate) struct LabOptions {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Make the experiment that a file describes: build, run, record, take everything down.
    Run(Box<RunOptions>),
    /// Run a command at the near end of an emulated path; LONGHAUL_PEER tells it the far end's address.
    Path(Box<PathOptions>),
    /// Open a shell, or run a command, in a node of a running lab.
    Shell(ShellOptions),
    /// List the labs that run on this machine.
    Status(StatusOptions),
    /// Remove what a crashed lab left, and nothing else.
    Gc,
    /// Write a link's capacity over time as a mahimahi trace.
    Trace(TraceOptions),
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// Experiment file (TOML).
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    /// Change a key of the file, repeatable: --set links.path.loss=1e-4.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Use a variant that the file defines, such as `short`.
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Option<String>,
    /// Make each point so often, each time with another seed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) repeat: Option<u32>,
    /// Folder for records, logs, captures and the report [default: lab-NAME-TIME].
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Show what would be built and run, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Threads that move packets [default: one for every four CPUs].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: Option<u16>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul lab path --rate 1Gb/s --rtt 187ms -- longhaul test '$LONGHAUL_PEER'\n\
    A command of one word with spaces is run by /bin/sh. Exit status: the command's; 1 when the run is not valid.")]
pub(crate) struct PathOptions {
    /// Rate in each direction, counted on the wire [default: no limit].
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<String>,
    /// Round trip of the path, half of it in each direction.
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    pub(crate) rtt: String,
    /// Variation of the delay in each direction, evenly between minus and plus this; packets stay in order.
    #[arg(long, value_name = "TIME")]
    pub(crate) jitter: Option<String>,
    /// Random loss in each direction: 0.001 or 0.1%.
    #[arg(long, value_name = "PROBABILITY")]
    pub(crate) loss: Option<String>,
    /// Queue of each direction: 24MB, "1000 packets", 50ms, "0.5 bdp" or unlimited [default: 1 bdp, without a rate 1000 packets].
    #[arg(long, value_name = "LIMIT")]
    pub(crate) queue: Option<String>,
    /// MTU of the path.
    #[arg(long, value_name = "BYTES", default_value = "1500")]
    pub(crate) mtu: String,
    /// What counts against the rate besides IP bytes: ethernet (38 bytes a packet), ethernet-frame (18), ip or a number.
    #[arg(long, value_name = "KIND", default_value = "ethernet")]
    pub(crate) overhead: String,
    /// Any other key of a link, repeatable: --set forward.loss=0.01 or --set backward.rate=10Mb/s.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Seed of the random draws.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Shell command at the far end instead of `longhaul serve`.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) far: Option<String>,
    /// Write what the link did, every second, as JSON Lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the packets of the path to FILE.pcapng, before and after the link.
    #[arg(long, value_name = "FILE")]
    pub(crate) pcapng: Option<PathBuf>,
    /// Say nothing at the end unless the run is not valid.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Command and arguments [default: a shell].
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ShellOptions {
    /// Node.
    pub(crate) node: String,
    /// Process of the lab, when several have such a node.
    #[arg(long, value_name = "PID")]
    pub(crate) lab: Option<u32>,
    /// Command and arguments [default: a shell].
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusOptions {
    /// As JSON, one lab a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TraceOptions {
    /// Experiment file (TOML).
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    /// Link whose capacity is wanted.
    pub(crate) link: String,
    /// The direction from its second node to its first.
    #[arg(long)]
    pub(crate) backward: bool,
    /// Change a key of the file, repeatable.
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
