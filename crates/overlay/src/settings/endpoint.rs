//! Endpoints: parsing and display.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

use super::DEFAULT_PORT;

/// Maximum length of a host name in bytes (RFC 1035, section 2.3.4, without the last dot).
const HOST_NAME_BYTES_MAX: usize = 253;

/// Address or host name of a peer. A name is resolved while the member runs, as the resolver can be unavailable at the
/// start and the address can change.
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
    /// Host name in the form of the resolver.
    pub host: String,
    /// UDP port.
    pub port: u16,
}

impl FromStr for Endpoint {
    type Err = String;

    /// Parses an address or a name with an optional port. An IPv6 address with a port is in brackets. A link-local
    /// address needs its device after a `%`; the device is resolved while the member runs, as it can appear later or
    /// get another index.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return with_link(text, SocketAddr::new(ip, DEFAULT_PORT)).map(Self::Address);
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return if address.port() == 0 { no_port(text) } else { with_link(text, address).map(Self::Address) };
        }
        if let Some((ip, device, port)) = scoped(text) {
            return match port {
                _ if !ip.is_unicast_link_local() || !is_device(device) => Err(invalid_scope(text)),
                0 => no_port(text),
                port => Ok(Self::Name(HostPort { host: format!("{ip}%{device}"), port })),
            };
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, port.parse().unwrap_or(0)),
            None => (text, DEFAULT_PORT),
        };
        if port == 0 {
            return no_port(text);
        }
        if !is_name(host) {
            return Err(format!("`{text}` is neither an address nor a host name; write HOST or HOST:PORT"));
        }
        Ok(Self::Name(HostPort { host: host.to_owned(), port }))
    }
}

/// Whether a text is a valid host name.
pub(super) fn is_name(host: &str) -> bool {
    let is_valid = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    // An incomplete address is not a name: a resolver would take 10.1 as 10.0.0.1.
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let is_number = match last.strip_prefix("0x").or_else(|| last.strip_prefix("0X")) {
        Some(hex) => hex.chars().all(|c| c.is_ascii_hexdigit()),
        None => last.chars().all(|c| c.is_ascii_digit()),
    };
    host.len() <= HOST_NAME_BYTES_MAX && host.chars().all(is_valid) && !is_number
}

/// Address, device and port of a text such as `fe80::1%eth0` or `[fe80::1%eth0]:5460`; the port is 0 if it is invalid.
fn scoped(text: &str) -> Option<(Ipv6Addr, &str, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once("]:").map(|(host, port)| (host, port.parse().unwrap_or(0)))?,
        None => (text, DEFAULT_PORT),
    };
    let (ip, device) = host.split_once('%')?;
    Some((ip.parse().ok()?, device, port))
}

/// Whether a text is a valid device name (dev_valid_name).
fn is_device(name: &str) -> bool {
    let is_invalid = |c: char| matches!(c, '/' | ':' | '%' | ']') || c.is_whitespace() || c.is_control();
    (1..=15).contains(&name.len()) && !name.contains(is_invalid)
}

fn invalid_scope(text: &str) -> String {
    format!(
        "`{text}` has an invalid `%`; it separates a link-local address (fe80::/10) and its device, as in \
         `[fe80::1%eth0]:{DEFAULT_PORT}`"
    )
}

/// Rejects a link-local address without its device.
fn with_link(text: &str, address: SocketAddr) -> Result<SocketAddr, String> {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => {
            let (ip, port) = (v6.ip(), v6.port());
            Err(format!("`{text}` is a link-local address, which needs the device of its link: `[{ip}%eth0]:{port}`"))
        }
        SocketAddr::V4(_) | SocketAddr::V6(_) => Ok(address),
    }
}

/// Parses a local address and port for the setting `key`. The device of a link-local address must exist.
pub(super) fn socket_address(key: &str, text: &str) -> Result<SocketAddr, String> {
    let of_key = |what: String| format!("`{key}`: {what}");
    if let Ok(address) = text.parse::<SocketAddr>() {
        return with_link(text, address).map_err(of_key);
    }
    let Some((ip, device, port)) = scoped(text).filter(|_| text.starts_with('[')) else {
        return Err(format!(
            "`{key}` = `{text}` is not an address with a port; write, for example, `192.0.2.1:{DEFAULT_PORT}`"
        ));
    };
    if !ip.is_unicast_link_local() {
        return Err(of_key(invalid_scope(text)));
    }
    device_index(device).map(|index| SocketAddrV6::new(ip, port, 0, index).into()).map_err(of_key)
}

/// Address of a [`HostPort`] whose host is a link-local address with a device. Fails when the device does not exist.
pub(crate) fn device_and_scope(name: &HostPort) -> Option<Result<SocketAddr, String>> {
    let (ip, device) = name.host.split_once('%')?;
    let ip: Ipv6Addr = ip.parse().ok()?;
    Some(device_index(device).map(|index| SocketAddrV6::new(ip, name.port, 0, index).into()))
}

/// Index of a device, given by its name or its index.
fn device_index(device: &str) -> Result<u32, String> {
    let found = kernel::Netlink::open().and_then(|mut netlink| netlink.index(device));
    let by_number = || device.parse().ok().filter(|index| *index != 0);
    found.or_else(|e| by_number().ok_or(e)).map_err(|e| e.to_string())
}

/// Displays an address. A link-local address has the name of its device, or the index if the device does not exist.
pub(crate) fn shown_address(address: SocketAddr) -> String {
    let name =
        |index: u32| kernel::Netlink::open().and_then(|mut netlink| netlink.link(index)).map(|device| device.name);
    match address {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => match name(v6.scope_id()) {
            Ok(device) => format!("[{}%{device}]:{}", v6.ip(), v6.port()),
            Err(_) => address.to_string(),
        },
        SocketAddr::V4(_) | SocketAddr::V6(_) => address.to_string(),
    }
}

/// Whether an address is valid on other hosts, which a link-local address is not.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "for `Option::filter`")]
pub(crate) fn is_known_elsewhere(address: &SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
        IpAddr::V4(_) => true,
    }
}

fn no_port(text: &str) -> Result<Endpoint, String> {
    Err(format!("`{text}` has no valid port after the colon (1-65535)"))
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
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
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
            ("fe80::1%c0", "[fe80::1%c0]:5460"),
            ("[fe80::1%c0]:7", "[fe80::1%c0]:7"),
            ("[fe80::1%3]:7", "[fe80::1%3]:7"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), shown);
            assert_eq!(matches!(endpoint, Endpoint::Address(_)), shown.parse::<SocketAddr>().is_ok(), "{text}");
        }
    }

    #[test]
    fn an_invalid_endpoint_is_rejected_and_quoted() {
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
            "fe80::1%",
            "[fe80::1%c0]",
            "[fe80::1%c0]:0",
            "[fe80::1%c0]:x",
            "[fe80::1%c 0]:7",
            "2001:db8::1%c0",
            "192.0.2.1%c0",
            "west%c0",
            &long,
        ];
        for text in wrong {
            let error = text.parse::<Endpoint>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn the_error_of_a_link_local_address_without_device_shows_the_form() {
        for text in ["fe80::1", "[fe80::1]:5460"] {
            let error =
                [text.parse::<Endpoint>().unwrap_err(), socket_address("listen", "[fe80::1]:5460").unwrap_err()];
            for error in error {
                assert!(error.contains("needs the device of its link: `[fe80::1%eth0]:5460`"), "{error}");
            }
        }
        let error = "2001:db8::1%c0".parse::<Endpoint>().unwrap_err();
        assert!(error.contains("separates a link-local address (fe80::/10) and its device"), "{error}");
    }

    #[test]
    fn local_addresses_have_the_index_of_their_device() {
        let loopback = SocketAddr::from(SocketAddrV6::new("fe80::1".parse().unwrap(), 7, 0, 1));
        assert_eq!(socket_address("listen", "[fe80::1%lo]:7"), Ok(loopback));
        assert_eq!(socket_address("listen", "[fe80::1%1]:7"), Ok(loopback));
        assert_eq!(socket_address("status", "127.0.0.1:7"), Ok("127.0.0.1:7".parse().unwrap()));
        let name = HostPort { host: "fe80::1%lo".to_owned(), port: 7 };
        assert_eq!(device_and_scope(&name), Some(Ok(loopback)));
        assert_eq!(device_and_scope(&HostPort { host: "west".to_owned(), port: 7 }), None);
        assert_eq!(shown_address(loopback), "[fe80::1%lo]:7");
        assert_eq!(shown_address("192.0.2.1:7".parse().unwrap()), "192.0.2.1:7");
        let none = socket_address("listen", "[fe80::1%nothing]:7").unwrap_err();
        assert!(none.contains("`listen`") && none.contains("device nothing: No such device"), "{none}");
        for text in ["7", "west:7", "fe80::1%lo", "127.0.0.1", "[2001:db8::1%lo]:7"] {
            assert!(socket_address("listen", text).unwrap_err().contains("`listen`"), "{text}");
        }
    }

    #[test]
    fn a_link_local_address_is_not_valid_on_other_hosts() {
        let is_valid_elsewhere = |text: &str| is_known_elsewhere(&text.parse().unwrap());
        assert!(
            is_valid_elsewhere("192.0.2.1:7")
                && is_valid_elsewhere("[2001:db8::1]:7")
                && is_valid_elsewhere("[fd00::1]:7")
        );
        assert!(!is_valid_elsewhere("[fe80::1]:7") && !is_valid_elsewhere("[fe80::1%3]:7"));
    }
}
