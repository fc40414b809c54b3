//! Where a member can be called, as people write it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use super::DEFAULT_PORT;

/// Longest host name in bytes (RFC 1035, section 2.3.4, without the last dot).
const LONGEST_NAME: usize = 253;

/// An address, or a name that is looked up while the member runs: a resolver that is not there yet, or an address that changes, is no reason not to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// Address and UDP port.
    Address(SocketAddr),
    /// Host name and UDP port.
    Name(HostPort),
}

/// Host name and UDP port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// As the resolver takes it.
    pub host: String,
    /// UDP port.
    pub port: u16,
}

impl FromStr for Endpoint {
    type Err = String;

    /// An address or a name, with a port or with the usual one. An IPv6 address with a port stands in brackets.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Self::Address(SocketAddr::new(ip, DEFAULT_PORT)));
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return if address.port() == 0 { no_port(text) } else { Ok(Self::Address(address)) };
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, port.parse().unwrap_or(0)),
            None => (text, DEFAULT_PORT),
        };
        if port == 0 {
            return no_port(text);
        }
        let is_of_names = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        // What looks like an address and is none is not a name either: a resolver would take 10.1 for 10.0.0.1.
        let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
        let is_number = match last.strip_prefix("0x").or_else(|| last.strip_prefix("0X")) {
            Some(hex) => hex.chars().all(|c| c.is_ascii_hexdigit()),
            None => last.chars().all(|c| c.is_ascii_digit()),
        };
        if host.len() > LONGEST_NAME || !host.chars().all(is_of_names) || is_number {
            return Err(format!("`{text}` is neither an address nor a host name"));
        }
        Ok(Self::Name(HostPort { host: host.to_owned(), port }))
    }
}

fn no_port(text: &str) -> Result<Endpoint, String> {
    Err(format!("`{text}` has no port behind the colon"))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Name(name) => write!(f, "{name}"),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_have_the_usual_port_unless_another_is_said() {
        for (text, shown) in [
            ("192.0.2.1", "192.0.2.1:5460"),
            ("192.0.2.1:7", "192.0.2.1:7"),
            ("2001:db8::1", "[2001:db8::1]:5460"),
            ("[2001:db8::1]:7", "[2001:db8::1]:7"),
            ("west.example.net", "west.example.net:5460"),
            ("west.example.net.:7", "west.example.net.:7"),
            ("b\u{fc}ro_1", "b\u{fc}ro_1:5460"),
            ("3com.example", "3com.example:5460"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), shown);
            assert_eq!(matches!(endpoint, Endpoint::Address(_)), shown.parse::<SocketAddr>().is_ok(), "{text}");
        }
    }

    #[test]
    fn what_is_neither_is_refused_and_quoted() {
        let long = "a".repeat(254);
        let wrong = [
            "",
            ":5460",
            "http://west",
            "west:",
            "west:70000",
            "west:0",
            "192.0.2.1:0",
            "[::1]",
            "a b",
            "a\nb",
            "10.1",
            "10.0.0.300",
            "0x7f000001",
            "127.0X1",
            "1:2:3",
            &long,
        ];
        for text in wrong {
            let said = text.parse::<Endpoint>().unwrap_err();
            assert!(said.contains(&format!("`{text}`")), "{said}");
        }
    }
}
