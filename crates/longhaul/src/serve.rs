//! `longhaul serve`.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use kernel::Shutdown;
use measure::{Server, ServerOptions};
use tracing::info;
use wire::Key;

use crate::cli::ServeOptions;
use crate::input::SMALL_BYTES_MAX;
use crate::logs;

pub(crate) fn run(options: ServeOptions) -> anyhow::Result<ExitCode> {
    logs::start(options.log_format);
    Shutdown::install().context("cannot handle signals")?;
    kernel::raise_open_files();
    let server = Server::bind(ServerOptions {
        bind: options.bind,
        port: options.port,
        allow: options.allow,
        max_sessions: options.max_sessions,
        max_sessions_per_address: options.max_sessions_per_address,
        max_memory: options.max_memory,
        large_windows: options.large_windows,
        max_udp_silence: measure::PEER_TIMEOUT,
        max_duration: options.max_duration,
        max_rate: options.max_rate,
        max_probe_bytes: options.max_probe_bytes,
        key: options.key_file.as_deref().map(read_key).transpose()?,
        grace: options.grace,
        one_off: options.one_off,
    })?;
    info!(address = %server.local_addr()?, version = measure::VERSION, "listening");
    server.run(&Shutdown::requests)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the key from a file, which must be accessible to its owner only.
pub(crate) fn read_key(path: &Path) -> anyhow::Result<Key> {
    if kernel::is_open_to_others(path).with_context(|| format!("cannot read the key file {}", path.display()))? {
        let file = path.display();
        anyhow::bail!("the key file {file} is accessible to other users; run `chmod 600 {file}`");
    }
    // The file may be a pipe of the shell.
    let read = File::open(path).and_then(|file| kernel::read_at_most(file, SMALL_BYTES_MAX));
    let text = read.with_context(|| format!("cannot read the key file {}", path.display()))?;
    Key::from_file_text(&text).with_context(|| format!("invalid key file {}", path.display()))
}
