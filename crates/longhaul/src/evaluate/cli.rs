//! Options of `longhaul evaluate`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul lab run scenarios/paths.toml -o paths\n          \
    longhaul lab run scenarios/paths.toml --variant loaded -o loaded\n          \
    longhaul evaluate paths loaded --report paths.html\n\
    Each directory is evaluated by itself. The estimates are the output of `longhaul estimate --json`, from \
    [estimates] or programs of the experiment; the reference values are the load that each link counts and the throughput of one TCP flow.\n\
    Exit status: 0 success; 2 usage or setup error.")]
pub(crate) struct EvaluateOptions {
    /// Result directory of `longhaul lab run`.
    #[arg(required = true, value_name = "RESULTS")]
    pub(crate) directories: Vec<PathBuf>,
    /// Name of the TCP flow whose throughput is the reference value.
    #[arg(long, value_name = "FLOW", default_value = "transfer")]
    pub(crate) transfer: String,
    /// Evaluate the runs of all directories as one ensemble.
    #[arg(long)]
    pub(crate) together: bool,
    /// Include runs whose emulation is not valid.
    #[arg(long)]
    pub(crate) include_invalid: bool,
    /// Bootstrap resamples of each confidence interval, 10 to 100000.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub(crate) resamples: u32,
    /// Seed of the resampling.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the records as JSON Lines to FILE, or to standard output instead of the tables.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with curves and tables to FILE, which opens without a network.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}
