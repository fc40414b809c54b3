//! Ethernet frames as defined by the RFCs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const FRAGMENT: u8 = 44;

/// A frame to be built: TCP from 10.0.0.1 port 1000 to 10.0.0.2 port 2000 unless changed.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) from: IpAddr,
    pub(super) to: IpAddr,
    pub(super) from_port: u16,
    pub(super) to_port: u16,
    pub(super) protocol: u8,
    pub(super) dscp: u8,
    /// Flags and fragment offset of IPv4.
    pub(super) fragment: u16,
    /// 32-bit words of IPv4 options.
    pub(super) options: u8,
    /// Extension headers of IPv6: number and bytes, of which the builder fills the first two.
    pub(super) extensions: Vec<(u8, Vec<u8>)>,
    /// EtherTypes of VLAN tags.
    pub(super) tags: Vec<u16>,
    /// Bytes of the whole frame.
    pub(super) length: usize,
}

impl Default for Frame {
    fn default() -> Self {
        Self {
            from: Ipv4Addr::new(10, 0, 0, 1).into(),
            to: Ipv4Addr::new(10, 0, 0, 2).into(),
            from_port: 1000,
            to_port: 2000,
            protocol: TCP,
            dscp: 0,
            fragment: 0,
            options: 0,
            extensions: Vec::new(),
            tags: Vec::new(),
            length: 100,
        }
    }
}

impl Frame {
    /// The default frame over IPv6, from 2001:db8::1 to 2001:db8::2.
    pub(super) fn v6() -> Self {
        let address = |n| IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n));
        Self { from: address(1), to: address(2), ..Self::default() }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        // The kernel would treat a group address as broadcast.
        let mut bytes = vec![2; 12];
        for tag in &self.tags {
            bytes.extend(tag.to_be_bytes());
            bytes.extend([0x40, 0x07]);
        }
        match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => self.ipv4(&mut bytes, from, to),
            (IpAddr::V6(from), IpAddr::V6(to)) => self.ipv6(&mut bytes, from, to),
            _ => panic!("both ends have the same family"),
        }
        bytes.extend(self.from_port.to_be_bytes());
        bytes.extend(self.to_port.to_be_bytes());
        bytes.resize(self.length, 0);
        bytes
    }

    /// RFC 791, section 3.1.
    fn ipv4(&self, bytes: &mut Vec<u8>, from: Ipv4Addr, to: Ipv4Addr) {
        bytes.extend([0x08, 0x00]);
        bytes.extend([0x45 + self.options, self.dscp << 2 | 1]);
        bytes.extend(((self.length - bytes.len() + 2) as u16).to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(self.fragment.to_be_bytes());
        bytes.extend([64, self.protocol, 0, 0]);
        bytes.extend(from.octets());
        bytes.extend(to.octets());
        bytes.extend(vec![1; usize::from(self.options) * 4]);
    }

    /// RFC 8200, section 3.
    fn ipv6(&self, bytes: &mut Vec<u8>, from: Ipv6Addr, to: Ipv6Addr) {
        bytes.extend([0x86, 0xdd]);
        let class = self.dscp << 2 | 1;
        bytes.extend([0x60 | class >> 4, class << 4 | 0x0a, 0xbc, 0xde, 0, 40]);
        bytes.extend([self.extensions.first().map_or(self.protocol, |(number, _)| *number), 64]);
        bytes.extend(from.octets());
        bytes.extend(to.octets());
        for (index, (number, body)) in self.extensions.iter().enumerate() {
            let next = self.extensions.get(index + 1).map_or(self.protocol, |(number, _)| *number);
            let length = match *number {
                FRAGMENT => 0,
                51 => body.len() / 4 - 2,
                _ => body.len() / 8 - 1,
            };
            bytes.extend([next, length as u8]);
            bytes.extend(&body[2..]);
        }
    }
}
