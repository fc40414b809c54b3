//! Addresses that count as one host.

use std::net::{IpAddr, Ipv6Addr};

/// The network by which an address counts where a limit applies per address: the address itself for IPv4, the first
/// 64 bits of an IPv6 address, because one host may use all addresses of a /64 (RFC 4291 section 2.5.1). An
/// IPv4-mapped IPv6 address counts as its IPv4 address: a dual-stack socket reports those, and all of them share
/// their first half.
pub fn counted_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        v4 @ IpAddr::V4(_) => v4,
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_does_not_multiply_by_its_ipv6_addresses() {
        let of = |text: &str| counted_network(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("::ffff:192.0.2.1"), of("::ffff:192.0.2.2"));
    }
}
