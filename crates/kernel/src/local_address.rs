use std::ffi::CString;
use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

/// An address of this host; a link-local one with the device that it belongs to, as `fe80::1%eth0` (RFC 4007 section
/// 11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalAddress {
    ip: IpAddr,
    /// Index of the device; zero for addresses that are not bound to a device.
    scope: u32,
}

/// A text that is not a host address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocalAddressError {
    /// Not an IP address.
    #[error("`{0}` is not an IP address")]
    Syntax(String),
    /// A device after an address that is not link-local.
    #[error("`{0}` is not link-local: leave %device out")]
    Global(String),
    /// A link-local address without its device.
    #[error("`{0}` is link-local and needs its device: {0}%device, as in {0}%eth0")]
    NeedsDevice(String),
    /// The device does not exist here.
    #[error("this host has no network device `{0}`")]
    NoDevice(String),
}

/// Whether an address needs a device to be reached: IPv6 unicast in fe80::/10 (RFC 4291 section 2.5.6).
pub fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

impl LocalAddress {
    /// The address without its device.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// The address with a port.
    pub fn with_port(&self, port: u16) -> SocketAddr {
        match self.ip {
            IpAddr::V4(ip) => SocketAddr::new(ip.into(), port),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, self.scope).into(),
        }
    }
}

impl From<IpAddr> for LocalAddress {
    fn from(ip: IpAddr) -> Self {
        Self { ip, scope: 0 }
    }
}

impl fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scope {
            0 => self.ip.fmt(f),
            scope => write!(f, "{}%{scope}", self.ip),
        }
    }
}

impl FromStr for LocalAddress {
    type Err = LocalAddressError;

    fn from_str(text: &str) -> Result<Self, LocalAddressError> {
        let (address, device) = text.split_once('%').map_or((text, None), |(a, d)| (a, Some(d)));
        let ip: IpAddr = address.parse().map_err(|_| LocalAddressError::Syntax(text.to_owned()))?;
        match device {
            Some(_) if !is_link_local(ip) => Err(LocalAddressError::Global(text.to_owned())),
            None if is_link_local(ip) => Err(LocalAddressError::NeedsDevice(text.to_owned())),
            None => Ok(ip.into()),
            Some(device) => Ok(Self { ip, scope: device_number(device)? }),
        }
    }
}

/// A device by its name or index (RFC 4007 section 11.2).
fn device_number(device: &str) -> Result<u32, LocalAddressError> {
    let unknown = || LocalAddressError::NoDevice(device.to_owned());
    let name = CString::new(device).map_err(|_| unknown())?;
    // SAFETY: the name is a valid C string during the call.
    let by_name = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if by_name != 0 {
        return Ok(by_name);
    }
    device.parse().ok().filter(|n| *n > 0).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LocalAddress, LocalAddressError> {
        text.parse()
    }

    /// The loopback device has index 1 in every network namespace (net/core/dev.c).
    #[test]
    fn a_link_local_address_has_its_device_by_name_or_index() {
        let lo: SocketAddr = SocketAddrV6::new("fe80::1".parse().unwrap(), 5003, 0, 1).into();
        assert_eq!(read("fe80::1%lo").unwrap().with_port(5003), lo);
        assert_eq!(read("fe80::1%1").unwrap().with_port(5003), lo);
        assert_eq!(read("fe80::1%lo").unwrap().to_string(), "fe80::1%1");
        assert_eq!(read("192.0.2.1").unwrap().with_port(1), "192.0.2.1:1".parse().unwrap());
        assert_eq!(read("2001:db8::1").unwrap().with_port(1), "[2001:db8::1]:1".parse().unwrap());
    }

    #[test]
    fn an_invalid_address_is_explained() {
        let error = |text| read(text).unwrap_err().to_string();
        assert!(error("fe80::1").contains("fe80::1%eth0"), "{}", error("fe80::1"));
        assert!(error("fe80::1%no-such-device").contains("no-such-device"));
        assert!(error("fe80::1%0").contains("has no network device"));
        assert!(error("fe80::1%").contains("has no network device"));
        assert!(error("2001:db8::1%lo").contains("not link-local"));
        assert!(error("eth0").contains("not an IP address"));
        assert!(error("").contains("not an IP address"));
    }
}
