//! Options of `longhaul evaluate`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul lab run scenarios/paths.toml -o paths\n          \
    longhaul lab run scenarios/paths.toml --variant loaded -o loaded\n          \
    longhaul evaluate paths loaded --report paths.html\n\
    Each folder is judged by itself. What is compared: the output of `longhaul estimate --json` in programs of the experiment, the links' own \
    account of their load, and the throughput of one TCP flow.\n\
    Exit status: 0 done; 2 it could not be done.")]
pub(crate) struct EvaluateOptions {
    /// Result folders of `longhaul lab run`.
    #[arg(required = true, value_name = "RESULTS")]
    pub(crate) folders: Vec<PathBuf>,
    /// The TCP flow whose throughput the estimates are compared with.
    #[arg(long, value_name = "FLOW", default_value = "transfer")]
    pub(crate) transfer: String,
    /// Judge the runs of all folders as one ensemble.
    #[arg(long)]
    pub(crate) together: bool,
    /// Count runs that the machine did not carry, too.
    #[arg(long)]
    pub(crate) include_invalid: bool,
    /// Resamples of each interval.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub(crate) resamples: u32,
    /// Seed of the resamples.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the records as JSON Lines to FILE, or to standard output in place of the tables.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with curves and tables to FILE; it opens without a network.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}
