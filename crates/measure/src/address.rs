use std::net::{IpAddr, SocketAddr};

/// The address that a person knows: IPv4-mapped IPv6 addresses of a dual-stack socket become IPv4; others keep their scope.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    match plain_ip(address.ip()) {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

/// As [`plain`], without port.
pub(crate) fn plain_ip(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}
