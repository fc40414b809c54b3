//! Log output of long-running commands.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// JSON Lines.
    Json,
}

/// Starts logging to standard error, one line per event, filtered by RUST_LOG (default: info).
pub(crate) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_writer(std::io::stderr);
    if format == LogFormat::Json { log.json().flatten_event(true).init() } else { log.init() }
}
