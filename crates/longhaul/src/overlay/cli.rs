//! Options of `longhaul overlay`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ipnet::IpNet;

#[derive(Debug, Args)]
#[command(after_help = "Settings, status, metrics and events: longhaul-overlay(5).\n\
                  A member needs CAP_NET_ADMIN for its tunnel device, and /dev/net/tun.\n\
                  Exit status: 0 done; 1 a member could not begin now or had to end, or a replay differs; 2 it could not be done.")]
pub(crate) struct OverlayOptions {
    #[command(subcommand)]
    pub(crate) command: OverlayCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OverlayCommand {
    /// Make a key and settings for a new member.
    Init(InitOptions),
    /// Run a member until it is asked to end.
    Up(UpOptions),
    /// Add a member to the settings.
    Join(JoinOptions),
    /// Make the key of an authority, whose certificates make members.
    Authority(AuthorityOptions),
    /// Make a certificate for a member.
    Certify(CertifyOptions),
    /// Show members, links, and what was counted.
    Status(AskOptions),
    /// Show the ways in use.
    Routes(AskOptions),
    /// Show how many flows there are, and which way they go.
    Flows(AskOptions),
    /// Explain why packets to a destination go as they go.
    Why(WhyOptions),
    /// Show what happened lately, one JSON object a line.
    Events(AskOptions),
    /// Let a running member take the others and its certificate from the settings again.
    Reload(AskOptions),
    /// Decide anew by the record of a member, and compare.
    Replay(ReplayOptions),
    /// End a running member.
    Down(AskOptions),
}

/// Refuses what `overlay up` of another member would refuse later.
fn endpoint(text: &str) -> Result<String, String> {
    text.parse::<overlay::Endpoint>().map(|_| text.to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct ConfigOptions {
    /// Settings of the member.
    #[arg(long, short, value_name = "FILE", default_value = "node.toml")]
    pub(crate) config: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul overlay init --address 10.77.0.1 --config west.toml\n\
    It prints the lines by which the other members know this one.")]
pub(crate) struct InitOptions {
    #[command(flatten)]
    pub(crate) config: ConfigOptions,
    /// Address in the overlay, repeatable: one for IPv4, one for IPv6.
    #[arg(long, short, value_name = "ADDRESS", required = true)]
    pub(crate) address: Vec<IpAddr>,
    /// Network behind this host that it serves, repeatable.
    #[arg(long, value_name = "NETWORK/LENGTH")]
    pub(crate) subnet: Vec<IpNet>,
    /// Where other members reach this one, for the lines that are printed.
    #[arg(long, value_name = "HOST[:PORT]", value_parser = endpoint)]
    pub(crate) endpoint: Option<String>,
    /// File with what all members of the overlay share, or - for standard input; without it a new secret is made, as for
    /// the first member.
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    /// The secret itself, which all users of this host can see while this runs.
    #[arg(long, value_name = "TEXT", conflicts_with = "secret_file")]
    pub(crate) secret: Option<String>,
    /// Address and port to receive at.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
}

#[derive(Debug, Args)]
pub(crate) struct UpOptions {
    #[command(flatten)]
    pub(crate) config: ConfigOptions,
    /// Send all flows to a destination one way, as `single_path` in the settings does.
    #[arg(long)]
    pub(crate) single_path: bool,
    /// Read and check the settings, and say what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul overlay join --config east.toml < west-member.txt\n\
    Reads the lines that `longhaul overlay init` printed for another member.")]
pub(crate) struct JoinOptions {
    #[command(flatten)]
    pub(crate) config: ConfigOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul overlay authority --key net.key\n\
    It prints the line by which members know the authority.")]
pub(crate) struct AuthorityOptions {
    /// File of the authority's key, which is made.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul overlay certify --key net.key --valid 365d < west-member.txt > west.cert\n\
    Reads the lines that `longhaul overlay init` printed for the member.")]
pub(crate) struct CertifyOptions {
    /// File of the authority's key.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// How long the certificate holds.
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
pub(crate) struct WhyOptions {
    #[command(flatten)]
    pub(crate) ask: AskOptions,
    /// Name or number of a member, or an address behind it.
    #[arg(value_name = "DEST")]
    pub(crate) destination: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul overlay replay west.decisions\n\
    The file is what a member writes whose settings have `record`: what its route control was told, and what it decided.\n\
    Exit status: 0 the same is decided again; 1 something else is; 2 it could not be done.")]
pub(crate) struct ReplayOptions {
    /// Record of a member's decisions.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
