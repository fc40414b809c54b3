//! How a far end is reached: options of all commands that talk to `longhaul serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use measure::{ClientOptions, Family};
use results::TestPlan;

use crate::serve::read_key;

#[derive(Debug, Args)]
#[command(next_help_heading = "Far end")]
pub(crate) struct PeerOptions {
    /// Port of `longhaul serve`.
    #[arg(long, short, default_value_t = 5003, env = "LONGHAUL_PORT")]
    port: u16,
    /// Use IPv4 only.
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only.
    #[arg(short = '6', long)]
    ipv6: bool,
    /// File with the key that the server requires.
    #[arg(long, value_name = "FILE", env = "LONGHAUL_KEY_FILE")]
    key_file: Option<PathBuf>,
}

impl PeerOptions {
    /// What a client needs for this plan, with nothing else decided. Reads the key.
    pub(crate) fn client(&self, host: &str, plan: TestPlan) -> anyhow::Result<ClientOptions> {
        let family = match (self.ipv4, self.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            (false, false) => Family::Any,
        };
        Ok(ClientOptions {
            host: host.to_owned(),
            port: self.port,
            family,
            bind: None,
            plan,
            key: self.key_file.as_deref().map(read_key).transpose()?,
            title: None,
            link_rate: None,
            grace: Duration::from_secs(10),
            start_at: None,
        })
    }
}
