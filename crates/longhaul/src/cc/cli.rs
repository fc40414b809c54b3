//! Options of `longhaul cc`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul cc load htcp && longhaul test server.example.net --congestion htcp\n\
                  Loading needs Linux 6.1 with BTF, and root (CAP_BPF, CAP_NET_ADMIN, access to the BPF file system). \
                  Listing the controls that longhaul has loaded needs root, too.\n\
                  Exit status: 0 success; 2 usage or setup error.")]
pub(crate) struct CcOptions {
    #[command(subcommand)]
    pub(crate) command: CcCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CcCommand {
    /// List the congestion controls of this host, and those that longhaul can load.
    List(ListOptions),
    /// Load FAST TCP or H-TCP for all programs of this host.
    Load(LoadOptions),
    /// Unload congestion controls that longhaul has loaded; open connections keep them until they close.
    Unload(UnloadOptions),
    /// Show one congestion control with its parameters.
    Show(ShowOptions),
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul cc list --json")]
pub(crate) struct ListOptions {
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul cc load fast htcp\n          \
    longhaul cc load fast_a200 --param alpha=200 && longhaul test HOST -C fast_a200\n\
    `longhaul cc show fast` lists the parameters and their meanings.")]
pub(crate) struct LoadOptions {
    /// Name of at most 15 characters: fast or htcp, optionally with a suffix after an underscore, such as fast_a200.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
    /// Set a parameter of all controls named, such as --param alpha=200; repeatable.
    #[arg(long, short, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) param: Vec<(String, String)>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul cc unload --all")]
pub(crate) struct UnloadOptions {
    /// Name of a loaded congestion control.
    #[arg(value_name = "NAME", required_unless_present = "all")]
    pub(crate) names: Vec<String>,
    /// Unload all congestion controls that longhaul has loaded.
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: longhaul cc show fast")]
pub(crate) struct ShowOptions {
    /// Name of a loaded congestion control, or fast or htcp.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as alpha=200")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
