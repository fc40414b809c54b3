//! Options of `longhaul shape`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use units::Rate;

use crate::quantity::{rate, seconds_from, time};

#[derive(Debug, Args)]
#[command(
    after_help = "What was on a device before is noted below /run/longhaul (LONGHAUL_STATE) and brought back by `shape clear`, also after a crash.\n\
                  Changing a device takes CAP_NET_ADMIN; classes by size, cgroup or user take CAP_BPF as well, and showing them CAP_SYS_ADMIN (root has all).\n\
                  Exit status: 0 done; 1 a device is not as planned, or was changed by somebody else; 2 it could not be done."
)]
pub(crate) struct ShapeOptions {
    #[command(subcommand)]
    pub(crate) command: ShapeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ShapeCommand {
    /// Print what a policy comes to on its device, and the tc commands that do the same; change nothing.
    Plan(PlanOptions),
    /// Install a policy, or the difference to the one that is installed.
    Apply(ApplyOptions),
    /// Hold all traffic of a device to one rate, without a file.
    Constant(ConstantOptions),
    /// Show what is installed and what its classes do.
    Show(ShowOptions),
    /// Keep a policy that was applied with --confirm and would be undone.
    Confirm(DeviceOptions),
    /// Bring back what was there before longhaul.
    Clear(ClearOptions),
    /// Wait for the time of an installation, and take it back.
    #[command(hide = true)]
    Guard {
        /// Device.
        device: String,
        /// Number of the installation.
        id: u64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PlanOptions {
    /// Policy file (TOML).
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    /// Device instead of the one that the file names.
    #[arg(long, short, value_name = "DEV")]
    pub(crate) device: Option<String>,
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How to install.
#[derive(Debug, Args)]
pub(crate) struct Installing {
    /// Take the place of what somebody else installed; `shape clear` brings it back.
    #[arg(long)]
    pub(crate) replace: bool,
    /// Undo it after this time, such as 10m: back to what was there before longhaul.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub(crate) for_time: Option<Duration>,
    /// Go back to the policy before, or to what was there before longhaul, unless `longhaul shape confirm DEV` comes within
    /// this time, such as 30s.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) confirm: Option<Duration>,
    /// Find out whether it can be done, and print the plan; change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples: ssh HOST longhaul shape apply eth0.toml --confirm 30s && ssh HOST longhaul shape confirm eth0\n          \
    longhaul shape apply office.toml --device eth1 --for 10m"
)]
pub(crate) struct ApplyOptions {
    /// Policy file (TOML).
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    /// Device instead of the one that the file names.
    #[arg(long, short, value_name = "DEV")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) installing: Installing,
}

/// Which way packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Direction {
    /// Out of the host.
    Egress,
    /// Into the host.
    Ingress,
    /// Each by itself.
    Both,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul shape constant --rate 200Mb/s eth0\n\
    The constant flow of \"Mice and Elephants\" (2014), section 3.5.")]
pub(crate) struct ConstantOptions {
    /// Device.
    #[arg(value_name = "DEV")]
    pub(crate) device: String,
    /// Rate of frames (L2) for each direction by itself, such as 200Mb/s.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Rate,
    /// Which way.
    #[arg(long, value_name = "WAY", value_enum, default_value_t = Direction::Both)]
    pub(crate) direction: Direction,
    /// Longest wait of a packet at that rate.
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = time)]
    pub(crate) queue: Duration,
    #[command(flatten)]
    pub(crate) installing: Installing,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example: longhaul shape show eth0 --interval 1s --json | jq 'select(.record == \"counters\")'\n\
    The first reading counts from the last `shape apply` on, later ones from the reading before."
)]
pub(crate) struct ShowOptions {
    /// Device, repeatable [default: all that are shaped].
    #[arg(value_name = "DEV")]
    pub(crate) devices: Vec<String>,
    /// Read again after this time, until interrupted.
    #[arg(long, short, value_name = "TIME", value_parser = seconds_from(Duration::ZERO))]
    pub(crate) interval: Option<Duration>,
    /// Readings, with --interval [default: no end].
    #[arg(long, short = 'n', value_name = "N", requires = "interval")]
    pub(crate) count: Option<u64>,
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeviceOptions {
    /// Device.
    #[arg(value_name = "DEV")]
    pub(crate) device: String,
}

#[derive(Debug, Args)]
pub(crate) struct ClearOptions {
    /// Device, repeatable.
    #[arg(value_name = "DEV", required_unless_present = "all")]
    pub(crate) devices: Vec<String>,
    /// All devices of this network namespace that longhaul has shaped.
    #[arg(long, conflicts_with = "devices")]
    pub(crate) all: bool,
}
