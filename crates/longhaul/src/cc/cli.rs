//! Options of `longhaul cc`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(
    after_help = "Loading takes Linux 6.1 with BTF, and root (CAP_BPF, CAP_NET_ADMIN, and the BPF file system); listing what longhaul \
                  loaded takes root as well.\n\
                  Exit status: 0 done; 2 it could not be done."
)]
pub(crate) struct CcOptions {
    #[command(subcommand)]
    pub(crate) command: CcCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CcCommand {
    /// List the congestion controls of this host, and those that longhaul can load.
    List(ListOptions),
    /// Load FAST TCP or H-TCP, for all programs of this host.
    Load(LoadOptions),
    /// Unload what was loaded; connections that use it keep it until they end.
    Unload(UnloadOptions),
    /// Show one congestion control with its parameters.
    Show(ShowOptions),
}

#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul cc load fast htcp\n          \
    longhaul cc load fast_a200 --param alpha=200 && longhaul test HOST -C fast_a200\n\
    `longhaul cc show fast` lists the parameters and what they do.")]
pub(crate) struct LoadOptions {
    /// Name: that of the algorithm, fast or htcp, and whatever follows an underscore: fast_a200. At most 15 letters.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
    /// Parameter of all that are loaded, repeatable: --param alpha=200.
    #[arg(long, short, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) param: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub(crate) struct UnloadOptions {
    /// Name.
    #[arg(value_name = "NAME", required_unless_present = "all")]
    pub(crate) names: Vec<String>,
    /// All that longhaul has loaded.
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowOptions {
    /// Name; loaded, or fast or htcp.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Print JSON Lines.
    #[arg(long)]
    pub(crate) json: bool,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, such as alpha=200")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
