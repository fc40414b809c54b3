//! Options that reach the server, shared by all commands that connect to `longhaul serve`.

use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use measure::{ClientOptions, Family};
use results::TestPlan;

use crate::serve::read_key;

#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct PeerOptions {
    /// Port of the server, unless HOST includes one.
    #[arg(long, short, default_value_t = 5003, env = "LONGHAUL_PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Use IPv4 only.
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only.
    #[arg(short = '6', long)]
    ipv6: bool,
    /// File with the pre-shared key that the server requires.
    #[arg(long, value_name = "FILE", env = "LONGHAUL_KEY_FILE")]
    key_file: Option<PathBuf>,
}

/// Server as given on the command line: `HOST`, `HOST:PORT`, `[IPV6]:PORT`, or an IPv6 address without brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Host name or address, without brackets.
    pub(crate) host: String,
    /// Port, if the argument includes one.
    pub(crate) port: Option<u16>,
}

impl Target {
    /// Parses a server without an `@ADDRESS` suffix.
    ///
    /// # Errors
    /// A URL or a text with spaces, missing host, invalid port, or brackets around anything but an IPv6 address.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.contains(|c: char| c == '/' || c.is_whitespace()) {
            return Err("a server is HOST or HOST:PORT, without spaces, and not a URL".to_owned());
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(|| format!("`{text}` has no closing bracket"))?;
                // The scope (%eth0) is resolved later.
                let address = host.split_once('%').map_or(host, |(address, _)| address);
                if address.parse::<Ipv6Addr>().is_err() {
                    return Err(format!("`{host}` in brackets is not an IPv6 address"));
                }
                match port {
                    "" => (host, None),
                    port => (host, Some(port.strip_prefix(':').ok_or_else(|| format!("write [{host}]:PORT"))?)),
                }
            }
            None => match text.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                _ => (text, None),
            },
        };
        if host.is_empty() {
            return Err(format!("`{text}` has no host"));
        }
        let read = |port: &str| {
            port.parse().ok().filter(|p| *p > 0).ok_or_else(|| format!("port `{port}` is out of range (1-65535)"))
        };
        Ok(Self { host: host.to_owned(), port: port.map(read).transpose()? })
    }
}

impl PeerOptions {
    /// Builds client options for a plan with all other options at their defaults, and reads the key file.
    pub(crate) fn client(&self, target: &Target, plan: TestPlan) -> anyhow::Result<ClientOptions> {
        let family = match (self.ipv4, self.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            (false, false) => Family::Any,
        };
        Ok(ClientOptions {
            host: target.host.clone(),
            port: target.port.unwrap_or(self.port),
            family,
            bind: None,
            plan,
            key: self.key_file.as_deref().map(read_key).transpose()?,
            title: None,
            link_rate: None,
            disk: None,
            grace: Duration::from_secs(10),
            start_at: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_may_include_a_port() {
        for (text, host, port) in [
            ("far", "far", None),
            ("far:5004", "far", Some(5004)),
            ("192.0.2.1:65535", "192.0.2.1", Some(65_535)),
            ("2001:db8::1", "2001:db8::1", None),
            ("[2001:db8::1]", "2001:db8::1", None),
            ("[2001:db8::1]:5004", "2001:db8::1", Some(5004)),
            ("[fe80::1%eth0]:5004", "fe80::1%eth0", Some(5004)),
            ("fe80::1%eth0", "fe80::1%eth0", None),
        ] {
            assert_eq!(Target::parse(text), Ok(Target { host: host.to_owned(), port }), "{text}");
        }
        for wrong in [
            " ",
            "far away",
            "http://far:6310/",
            "far/",
            "",
            ":5003",
            "far:",
            "far:0",
            "far:65536",
            "far:ssh",
            "[far]:5003",
            "[::1",
            "[::1]5003",
            "[]:1",
        ] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}
