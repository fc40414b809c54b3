//! Options of `longhaul choose`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kernel::LocalAddress;
use units::Bytes;

use crate::history::memory::MemoryOptions;
use crate::peer::{PeerOptions, Target};
use crate::quantity::{NONZERO_SIZE, NONZERO_TIME_MIN, bytes, seconds_from};

#[derive(Debug, Args)]
#[command(after_help = "Examples: longhaul choose --reverse mirror1.example.net mirror2.example.net\n          \
    longhaul choose relay.example.net@192.0.2.1 relay.example.net@198.51.100.1\n          \
    longhaul choose -R a.example.net b.example.net --then 'rsync -a \"$1\"::data .'\n\
    Exit status: 0 decided (with --then, that of the command); 1 undecided; 2 usage or setup error.")]
pub(crate) struct ChooseOptions {
    /// Candidate that runs `longhaul serve`, with an optional :PORT and an optional local @ADDRESS to connect from.
    #[arg(required = true, num_args = 2.., value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// Stop probing when one candidate is the best with this probability, more than 0.5 and less than 1.
    #[arg(long, short, default_value = "0.95", value_name = "PROBABILITY", value_parser = probability)]
    pub(crate) confidence: f64,
    /// Maximum volume of probes for each candidate, headers included.
    #[arg(long, short, value_name = "BYTES", default_value = "500kB", value_parser = bytes(NONZERO_SIZE))]
    pub(crate) budget: Bytes,
    /// Maximum duration of probing.
    #[arg(long, short = 't', value_name = "TIME", default_value = "30s", value_parser = seconds_from(NONZERO_TIME_MIN))]
    pub(crate) time: Duration,
    /// Compare transfers from the candidates to this host.
    #[arg(long, short = 'R')]
    pub(crate) reverse: bool,
    /// Run this shell command after the decision, with the best candidate as `$1`, or appended if `$1` is absent. The
    /// candidate has its :PORT if one was given, and not its @ADDRESS.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) then: Option<String>,
    /// Seed of random choices.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Write the records as JSON Lines to FILE, or to standard output instead of the table.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) memory: MemoryOptions,
    #[command(flatten)]
    pub(crate) peer: PeerOptions,
}

/// Candidate as given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) bind: Option<LocalAddress>,
}

impl Named {
    pub(crate) fn parse(name: &str) -> anyhow::Result<Self> {
        let (host, bind) = match name.split_once('@') {
            None => (name, None),
            Some((host, from)) => {
                let bind = from.parse().map_err(|e| {
                    anyhow::anyhow!(
                        "{name}: the text after @ must be an address of this host, such as {host}@192.0.2.1: {e}"
                    )
                })?;
                (host, Some(bind))
            }
        };
        let target = Target::parse(host).map_err(|e| anyhow::anyhow!("{name}: {e}"))?;
        Ok(Self { name: name.to_owned(), target, bind })
    }

    /// Server as given: its host with an optional port, without the local address.
    pub(crate) fn server(&self) -> &str {
        self.name.split_once('@').map_or(self.name.as_str(), |(server, _)| server)
    }
}

fn probability(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().map_err(|_| "expected a probability such as 0.95".to_owned())?;
    if value > 0.5 && value < 1.0 {
        Ok(value)
    } else {
        Err("the probability must be more than 0.5 and less than 1".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_may_include_a_local_address() {
        let named = Named::parse("far@192.0.2.1").unwrap();
        assert_eq!((named.target.host.as_str(), named.bind), ("far", Some("192.0.2.1".parse().unwrap())));
        assert_eq!(Named::parse("2001:db8::1").unwrap().bind, None);
        assert!(Named::parse("far@eth0").unwrap_err().to_string().contains("address of this host"));
        assert!(Named::parse("@192.0.2.1").is_err());
        let named = Named::parse("far:5004@192.0.2.1").unwrap();
        assert_eq!((named.target.port, named.bind), (Some(5004), Some("192.0.2.1".parse().unwrap())));
        assert_eq!(named.server(), "far:5004");
        assert_eq!(Named::parse("[2001:db8::1]:5004").unwrap().server(), "[2001:db8::1]:5004");
    }
}
