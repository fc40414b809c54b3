use std::net::{IpAddr, SocketAddr};

/// The address that a person knows: IPv4-mapped IPv6 addresses of a dual-stack socket become IPv4.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(plain_ip(address.ip()), address.port())
}

/// As [`plain`], without port.
pub(crate) fn plain_ip(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}
