//! Where a member can be called, as people write it.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
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

    /// An address or a name, with a port or with the usual one. An IPv6 address with a port stands in brackets; a link-local one has its device behind a
    /// `%`, which is looked up while the member runs, as names are: a device may come later, or anew with another number.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return on_a_link(text, SocketAddr::new(ip, DEFAULT_PORT)).map(Self::Address);
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return if address.port() == 0 { no_port(text) } else { on_a_link(text, address).map(Self::Address) };
        }
        if let Some((ip, device, port)) = scoped(text) {
            return match port {
                _ if !ip.is_unicast_link_local() || !is_device(device) => Err(odd_scope(text)),
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
            return Err(format!("`{text}` is neither an address nor a host name"));
        }
        Ok(Self::Name(HostPort { host: host.to_owned(), port }))
    }
}

/// Whether a resolver may be asked for it.
pub(super) fn is_name(host: &str) -> bool {
    let is_of_names = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    // What looks like an address and is none is not a name either: a resolver would take 10.1 for 10.0.0.1.
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let is_number = match last.strip_prefix("0x").or_else(|| last.strip_prefix("0X")) {
        Some(hex) => hex.chars().all(|c| c.is_ascii_hexdigit()),
        None => last.chars().all(|c| c.is_ascii_digit()),
    };
    host.len() <= LONGEST_NAME && host.chars().all(is_of_names) && !is_number
}

/// Address, device and port of a text like `fe80::1%eth0` or `[fe80::1%eth0]:5460`; port 0: what stands there is none.
fn scoped(text: &str) -> Option<(Ipv6Addr, &str, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once("]:").map(|(host, port)| (host, port.parse().unwrap_or(0)))?,
        None => (text, DEFAULT_PORT),
    };
    let (ip, device) = host.split_once('%')?;
    Some((ip.parse().ok()?, device, port))
}

/// Whether a device may be called so (dev_valid_name).
fn is_device(name: &str) -> bool {
    let is_odd = |c: char| matches!(c, '/' | ':' | '%' | ']') || c.is_whitespace() || c.is_control();
    (1..=15).contains(&name.len()) && !name.contains(is_odd)
}

fn odd_scope(text: &str) -> String {
    format!(
        "`{text}` has a `%`, behind which the device of a link-local address stands (fe80::/10), as in `[fe80::1%eth0]:{DEFAULT_PORT}`"
    )
}

/// A link-local address is one only together with the link.
fn on_a_link(text: &str, address: SocketAddr) -> Result<SocketAddr, String> {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => {
            let (ip, port) = (v6.ip(), v6.port());
            Err(format!("`{text}` is a link-local address, which needs the device of its link: `[{ip}%eth0]:{port}`"))
        }
        SocketAddr::V4(_) | SocketAddr::V6(_) => Ok(address),
    }
}

/// An address and a port of this host, for the setting `key`. The device of a link-local address must be there.
pub(super) fn socket_address(key: &str, text: &str) -> Result<SocketAddr, String> {
    let of_key = |what: String| format!("`{key}`: {what}");
    if let Ok(address) = text.parse::<SocketAddr>() {
        return on_a_link(text, address).map_err(of_key);
    }
    let Some((ip, device, port)) = scoped(text).filter(|_| text.starts_with('[')) else {
        return Err(format!("`{key}` is `{text}`, which is no address with a port, as `192.0.2.1:{DEFAULT_PORT}`"));
    };
    if !ip.is_unicast_link_local() {
        return Err(of_key(odd_scope(text)));
    }
    device_index(device).map(|index| SocketAddrV6::new(ip, port, 0, index).into()).map_err(of_key)
}

/// The address behind the host of a [`HostPort`], if that is one with a device; an error if the device is not there.
pub(crate) fn device_and_scope(name: &HostPort) -> Option<Result<SocketAddr, String>> {
    let (ip, device) = name.host.split_once('%')?;
    let ip: Ipv6Addr = ip.parse().ok()?;
    Some(device_index(device).map(|index| SocketAddrV6::new(ip, name.port, 0, index).into()))
}

/// The number of a device, by its name or by that.
fn device_index(device: &str) -> Result<u32, String> {
    let found = kernel::Netlink::open().and_then(|mut netlink| netlink.index(device));
    let by_number = || device.parse().ok().filter(|index| *index != 0);
    found.or_else(|e| by_number().ok_or(e)).map_err(|e| e.to_string())
}

/// An address as people write it: with the name of its device where it is a link-local one, or the number if the device is gone.
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

/// Whether an address means the same on other hosts. A link-local one does not: who gets it knows no link for it.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "for `Option::filter`")]
pub(crate) fn is_known_elsewhere(address: &SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
        IpAddr::V4(_) => true,
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
            let said = text.parse::<Endpoint>().unwrap_err();
            assert!(said.contains(&format!("`{text}`")), "{said}");
        }
    }

    #[test]
    fn a_link_local_address_without_its_device_is_refused_with_what_is_missing() {
        for text in ["fe80::1", "[fe80::1]:5460"] {
            let said = [text.parse::<Endpoint>().unwrap_err(), socket_address("listen", "[fe80::1]:5460").unwrap_err()];
            for said in said {
                assert!(said.contains("needs the device of its link: `[fe80::1%eth0]:5460`"), "{said}");
            }
        }
        let said = "2001:db8::1%c0".parse::<Endpoint>().unwrap_err();
        assert!(said.contains("the device of a link-local address"), "{said}");
    }

    #[test]
    fn addresses_of_this_host_have_the_number_of_their_device() {
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
    fn others_are_told_no_address_that_means_something_here_alone() {
        let is_told = |text: &str| is_known_elsewhere(&text.parse().unwrap());
        assert!(is_told("192.0.2.1:7") && is_told("[2001:db8::1]:7") && is_told("[fd00::1]:7"));
        assert!(!is_told("[fe80::1]:7") && !is_told("[fe80::1%3]:7"));
    }
}
