//! Options of `longhaul shape`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use units::Rate;

use crate::quantity::{rate_from, seconds_from, time};

/// Minimum rate of a device: about one packet per minute.
const RATE_MIN: Rate = Rate::from_bps(200);

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul shape constant --rate 200Mb/s eth0\n          \
                  longhaul shape apply eth0.toml --confirm 30s\n          \
                  longhaul shape clear eth0\n\
                  The previous configuration of a device is saved below /run/longhaul (LONGHAUL_STATE); `shape clear` \
                  restores it, also after a crash.\n\
                  Changing a device needs CAP_NET_ADMIN. Classes by size, cgroup or user also need CAP_BPF, and \
                  showing them CAP_SYS_ADMIN (root has all).\n\
                  Exit status: 0 success; 1 a device differs from the policy, or another program has changed it; 2 \
                  usage or setup error.")]
pub(crate) struct ShapeOptions {
    #[command(subcommand)]
    pub(crate) command: ShapeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ShapeCommand {
    /// Print the effect of a policy on its device and the equivalent tc commands; change nothing.
    Plan(PlanOptions),
    /// Install a policy, or the differences from the installed one.
    Apply(ApplyOptions),
    /// Limit all traffic of a device to one rate, without a policy file.
    Constant(ConstantOptions),
    /// Show the installed policy and the counters of its classes.
    Show(ShowOptions),
    /// Confirm a policy that was applied with --confirm, so that it is kept.
    Confirm(DeviceOptions),
    /// Restore the configuration that a device had before longhaul.
    Clear(ClearOptions),
    /// Wait for the expiry of an installation, and undo it.
    #[command(hide = true)]
    Guard {
        /// Device to limit.
        device: String,
        /// Identifier of the installation.
        id: u64,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul shape plan office.toml --device eth1")]
pub(crate) struct PlanOptions {
    /// Policy file (TOML).
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    /// Device to shape [default: that of the file].
    #[arg(long, short, value_name = "DEV")]
    pub(crate) device: Option<String>,
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of an installation.
#[derive(Debug, Args)]
pub(crate) struct Installing {
    /// Replace the configuration of another program; `shape clear` restores it.
    #[arg(long)]
    pub(crate) replace: bool,
    /// Restore the configuration from before longhaul after this time, such as 10m [default: never].
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub(crate) for_time: Option<Duration>,
    /// Restore the previous policy, or the configuration from before longhaul, unless `longhaul shape confirm DEV` is
    /// run within this time, such as 30s [default: no confirmation needed].
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) confirm: Option<Duration>,
    /// Check whether the installation is possible and print the plan; change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples: ssh HOST longhaul shape apply eth0.toml --confirm 30s && ssh HOST longhaul shape confirm \
    eth0\n          longhaul shape apply office.toml --device eth1 --for 10m"
)]
pub(crate) struct ApplyOptions {
    /// Policy file (TOML).
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    /// Device to shape [default: that of the file].
    #[arg(long, short, value_name = "DEV")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) installing: Installing,
}

/// Direction of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Direction {
    /// Traffic that leaves the host.
    Egress,
    /// Traffic that enters the host.
    Ingress,
    /// Both, each with its own limit.
    Both,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul shape constant --rate 200Mb/s eth0\n\
    The constant flow of \"Mice and Elephants\" (2014), section 3.5.")]
pub(crate) struct ConstantOptions {
    /// Device to limit.
    #[arg(value_name = "DEV")]
    pub(crate) device: String,
    /// Rate of frames (L2) in each direction, such as 200Mb/s.
    #[arg(long, value_name = "RATE", value_parser = rate_from(RATE_MIN))]
    pub(crate) rate: Rate,
    /// Direction of the limited traffic.
    #[arg(long, value_name = "DIRECTION", value_enum, default_value_t = Direction::Both)]
    pub(crate) direction: Direction,
    /// Maximum queueing delay of a packet at that rate.
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = time)]
    pub(crate) queue: Duration,
    #[command(flatten)]
    pub(crate) installing: Installing,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example: longhaul shape show eth0 --interval 1s --json | jq 'select(.record == \"counters\")'\n\
    The first reading covers the time since the last `shape apply`, each later one the time since the previous reading."
)]
pub(crate) struct ShowOptions {
    /// Device to show [default: all shaped devices].
    #[arg(value_name = "DEV")]
    pub(crate) devices: Vec<String>,
    /// Repeat the reading at this interval until Ctrl-C [default: one reading].
    #[arg(long, short, value_name = "TIME", value_parser = seconds_from(Duration::ZERO))]
    pub(crate) interval: Option<Duration>,
    /// Number of readings with --interval [default: no limit].
    #[arg(long, short = 'n', value_name = "N", requires = "interval")]
    pub(crate) count: Option<u64>,
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul shape confirm eth0")]
pub(crate) struct DeviceOptions {
    /// Device whose policy is confirmed.
    #[arg(value_name = "DEV")]
    pub(crate) device: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul shape clear eth0")]
pub(crate) struct ClearOptions {
    /// Device to restore.
    #[arg(value_name = "DEV", required_unless_present = "all")]
    pub(crate) devices: Vec<String>,
    /// Restore all devices of this network namespace that longhaul has shaped.
    #[arg(long, conflicts_with = "devices")]
    pub(crate) all: bool,
}
