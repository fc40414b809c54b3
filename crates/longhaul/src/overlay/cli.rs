//! Options of `longhaul overlay`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ipnet::IpNet;

use crate::logs::LogFormat;

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul overlay init --address 10.77.0.1 --config west.toml\n          \
                  longhaul overlay peer add --config west.toml < east-member.txt\n          \
                  longhaul overlay up --config west.toml\n\
                  longhaul-overlay(5) describes configuration, status, metrics and events.\n\
                  A member needs CAP_NET_ADMIN for its tunnel device, and /dev/net/tun.\n\
                  Exit status: 0 success; 1 the member failed to start or stopped on an error, or a replay differs; 2 \
                  usage or configuration error.")]
pub(crate) struct OverlayOptions {
    #[command(subcommand)]
    pub(crate) command: OverlayCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OverlayCommand {
    /// Create a key and a configuration for a new member.
    Init(InitOptions),
    /// Run a member until Ctrl-C, SIGTERM or `overlay down`.
    Up(UpOptions),
    /// Edit the peers in the configuration.
    #[command(subcommand)]
    Peer(PeerCommand),
    /// Manage the certificate authority of an overlay.
    #[command(subcommand)]
    Ca(CaCommand),
    /// Show peers, links and counters.
    #[command(after_help = "Example: longhaul overlay status --config west.toml")]
    Status(AskOptions),
    /// Show the routes in use.
    #[command(after_help = "Example: longhaul overlay routes --config west.toml")]
    Routes(AskOptions),
    /// Show the number of flows on each path.
    #[command(after_help = "Example: longhaul overlay flows --config west.toml")]
    Flows(AskOptions),
    /// Explain the choice of the route to a destination.
    Why(WhyOptions),
    /// Show recent events: time and text; with --json one JSON object per line.
    #[command(after_help = "Example: longhaul overlay events --config west.toml")]
    Events(AskOptions),
    /// Reload peers and certificate from the configuration.
    #[command(after_help = "Example: longhaul overlay reload --config west.toml")]
    Reload(AskOptions),
    /// Replay a decision log and report differences.
    Replay(ReplayOptions),
    /// Stop a running member.
    #[command(after_help = "Example: longhaul overlay down --config west.toml")]
    Down(AskOptions),
}

#[derive(Debug, Subcommand)]
pub(crate) enum PeerCommand {
    /// Add a peer to the configuration.
    Add(PeerAddOptions),
}

#[derive(Debug, Subcommand)]
pub(crate) enum CaCommand {
    /// Create the key of a certificate authority for the overlay.
    Init(CaInitOptions),
    /// Sign a certificate for a member with the key of the authority.
    Sign(CaSignOptions),
}

/// Checks an endpoint as `overlay up` of a peer does.
fn endpoint(text: &str) -> Result<String, String> {
    text.parse::<overlay::Endpoint>().map(|_| text.to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct ConfigOptions {
    /// Configuration file of the member.
    #[arg(long, short, value_name = "FILE", default_value = "node.toml")]
    pub(crate) config: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul overlay init --address 10.77.0.1 --config west.toml\n\
    The command prints the peer entry that the other members need.")]
pub(crate) struct InitOptions {
    #[command(flatten)]
    pub(crate) config: ConfigOptions,
    /// Address of the member in the overlay; repeatable, one for IPv4 and one for IPv6.
    #[arg(long, short, value_name = "ADDRESS", required = true)]
    pub(crate) address: Vec<IpAddr>,
    /// Subnet behind this host that the member serves; repeatable [default: none].
    #[arg(long, value_name = "NETWORK/LENGTH")]
    pub(crate) subnet: Vec<IpNet>,
    /// Public endpoint of the member, for the printed peer entry [default: none, the member connects to its peers].
    #[arg(long, value_name = "HOST[:PORT]", value_parser = endpoint)]
    pub(crate) endpoint: Option<String>,
    /// File with the network secret that all members share, or - for standard input [default: a new secret, for the
    /// first member].
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    /// Network secret as text, visible to all users of this host while the command runs; prefer --secret-file.
    #[arg(long, value_name = "TEXT", conflicts_with = "secret_file")]
    pub(crate) secret: Option<String>,
    /// UDP address and port to listen on [default: port 5460 of all addresses].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul overlay up --config west.toml")]
pub(crate) struct UpOptions {
    #[command(flatten)]
    pub(crate) config: ConfigOptions,
    /// Send all flows to a destination over one path, like `single_path` in the configuration.
    #[arg(long)]
    pub(crate) single_path: bool,
    /// Check the configuration and print what `up` would do; change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Format of the log on standard error.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul overlay peer add --config east.toml < west-member.txt\n\
    The command reads the peer entry that `longhaul overlay init` printed for the peer.")]
pub(crate) struct PeerAddOptions {
    #[command(flatten)]
    pub(crate) config: ConfigOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul overlay ca init --key net.key\n\
    The command prints the line that the configuration of each member needs.")]
pub(crate) struct CaInitOptions {
    /// File to create for the key of the authority.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul overlay ca sign --key net.key --valid 365d < west-member.txt > west.cert\n\
    The command reads the peer entry that `longhaul overlay init` printed for the member.")]
pub(crate) struct CaSignOptions {
    /// File with the key of the authority.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// Validity period of the certificate.
    #[arg(long, value_name = "TIME", default_value = "365d", value_parser = crate::quantity::time)]
    pub(crate) valid: std::time::Duration,
}

#[derive(Debug, Args)]
pub(crate) struct AskOptions {
    #[command(flatten)]
    pub(crate) config: ConfigOptions,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul overlay why --config west.toml east")]
pub(crate) struct WhyOptions {
    #[command(flatten)]
    pub(crate) ask: AskOptions,
    /// Name or number of a peer, or an address in its subnets.
    #[arg(value_name = "DEST")]
    pub(crate) destination: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul overlay replay west.decisions\n\
    A member writes a decision log, the inputs and decisions of its route control, if `decision_log` is configured.\n\
    Exit status: 0 all decisions are equal; 1 a decision differs; 2 usage or setup error.")]
pub(crate) struct ReplayOptions {
    /// Decision log of a member.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
