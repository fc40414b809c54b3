use core::net::{IpAddr, Ipv6Addr};

use crate::hash::sip_hash;

/// What packets of one flow have in common: the five fields of the paper (addresses, ports, priority), and the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Source and destination address, IPv4 ones mapped into IPv6 (RFC 4291 §2.5.5.2).
    addresses: [[u8; 16]; 2],
    /// Source and destination port; zero where the protocol has none or the packet is a fragment.
    ports: [u16; 2],
    protocol: u8,
    dscp: u8,
}

impl FlowKey {
    /// Of a packet from `source` to `destination`, each with its port.
    pub fn new(source: (IpAddr, u16), destination: (IpAddr, u16), protocol: u8, dscp: u8) -> Self {
        let octets = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        Self { addresses: [octets(source.0), octets(destination.0)], ports: [source.1, destination.1], protocol, dscp }
    }

    /// Where its packets go.
    pub fn destination(&self) -> IpAddr {
        Ipv6Addr::from(self.addresses[1]).to_canonical()
    }

    /// SipHash-2-4 of the key under a secret: who sends packets cannot choose flows that fall together. A caller with a faster keyed hash may use that one.
    pub fn hash(&self, secret: [u64; 2]) -> u64 {
        let mut bytes = [0; 38];
        bytes[..16].copy_from_slice(&self.addresses[0]);
        bytes[16..32].copy_from_slice(&self.addresses[1]);
        bytes[32..34].copy_from_slice(&self.ports[0].to_be_bytes());
        bytes[34..36].copy_from_slice(&self.ports[1].to_be_bytes());
        bytes[36..].copy_from_slice(&[self.protocol, self.dscp]);
        sip_hash(secret, &bytes)
    }
}
