use std::net::{IpAddr, SocketAddr};

/// Address for display: an IPv4-mapped IPv6 address of a dual-stack socket becomes IPv4; others keep their scope.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    match plain_ip(address.ip()) {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

/// IP address for display: an IPv4-mapped IPv6 address becomes IPv4.
pub(crate) fn plain_ip(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}
