//! Matches as u32 filter keys: comparisons of 32-bit words (tc-u32(8)).
//!
//! Offsets are those of the IPv4 (RFC 791, 3.1) and IPv6 headers (RFC 8200, 3). Ports are compared only in packets
//! without options or extension headers; other packets match no rule with ports.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use tc::Key;

use crate::policy::Match;

/// EtherType of IPv4 (IEEE 802).
pub(crate) const IPV4: u16 = 0x0800;
/// EtherType of IPv6 (IEEE 802).
pub(crate) const IPV6: u16 = 0x86dd;

/// Protocols of a match that has ports but no protocol: TCP and UDP.
const PROTOCOLS_WITH_PORTS: [u8; 2] = [6, 17];

/// Keys of each alternative of a match for one IP version; empty if no packet of this version matches.
pub(crate) fn alternatives(matched: &Match, protocol: u16) -> Vec<Vec<Key>> {
    let family = Family { v6: protocol == IPV6 };
    let Some(from) = family.networks(&matched.from) else { return Vec::new() };
    let Some(to) = family.networks(&matched.to) else { return Vec::new() };
    let has_ports = !(matched.from_ports.is_empty() && matched.to_ports.is_empty() && matched.ports.is_empty());
    let protocols: Vec<Option<u8>> = match matched.protocol {
        Some(protocol) => vec![Some(protocol)],
        None if has_ports => PROTOCOLS_WITH_PORTS.map(Some).to_vec(),
        None => vec![None],
    };
    let dscp: Vec<Option<u8>> =
        if matched.dscp.is_empty() { vec![None] } else { matched.dscp.iter().copied().map(Some).collect() };
    let ports = port_words(matched);
    let mut all = Vec::new();
    for from in &from {
        for to in &to {
            for protocol in &protocols {
                for dscp in &dscp {
                    for ports in &ports {
                        let mut words = Words::default();
                        family.network(&mut words, from.as_ref(), family.source());
                        family.network(&mut words, to.as_ref(), family.source() + family.address());
                        family.protocol(&mut words, *protocol);
                        family.dscp(&mut words, *dscp);
                        family.ports(&mut words, *ports);
                        all.push(words.keys());
                    }
                }
            }
        }
    }
    all
}

/// Comparisons by offset; comparisons of the same 32-bit word are merged.
#[derive(Default)]
struct Words(BTreeMap<i32, (u32, u32)>);

impl Words {
    fn add(&mut self, offset: i32, mask: u32, value: u32) {
        let word = self.0.entry(offset).or_default();
        word.0 |= mask;
        word.1 |= value & mask;
    }

    fn keys(self) -> Vec<Key> {
        let key = |(offset, (mask, value))| Key { offset, after_ip_header: false, mask, value };
        self.0.into_iter().map(key).collect()
    }
}

#[derive(Clone, Copy)]
struct Family {
    v6: bool,
}

impl Family {
    /// Offset of the source address.
    fn source(self) -> i32 {
        if self.v6 { 8 } else { 12 }
    }

    /// Length of an address in bytes.
    fn address(self) -> i32 {
        if self.v6 { 16 } else { 4 }
    }

    /// Networks of this version, or `None` as the only entry for any address. The result is `None` if all networks are
    /// of the other version.
    fn networks(self, nets: &[IpNet]) -> Option<Vec<Option<IpNet>>> {
        if nets.is_empty() {
            return Some(vec![None]);
        }
        let own: Vec<_> = nets.iter().filter(|n| n.addr().is_ipv6() == self.v6).copied().map(Some).collect();
        (!own.is_empty()).then_some(own)
    }

    fn network(self, words: &mut Words, net: Option<&IpNet>, at: i32) {
        let Some(net) = net else { return };
        let (address, mask): (Vec<u8>, Vec<u8>) = match net {
            IpNet::V4(net) => (net.network().octets().to_vec(), net.netmask().octets().to_vec()),
            IpNet::V6(net) => (net.network().octets().to_vec(), net.netmask().octets().to_vec()),
        };
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let offsets = (at..).step_by(4);
        for ((address, mask), offset) in address.chunks(4).zip(mask.chunks(4)).zip(offsets) {
            if word(mask) != 0 {
                words.add(offset, word(mask), word(address));
            }
        }
    }

    fn protocol(self, words: &mut Words, protocol: Option<u8>) {
        let Some(protocol) = protocol.map(u32::from) else { return };
        if self.v6 {
            words.add(4, 0x0000_ff00, protocol << 8);
        } else {
            words.add(8, 0x00ff_0000, protocol << 16);
        }
    }

    fn dscp(self, words: &mut Words, dscp: Option<u8>) {
        let Some(dscp) = dscp.map(u32::from) else { return };
        if self.v6 {
            words.add(0, 0x0fc0_0000, dscp << 22);
        } else {
            words.add(0, 0x00fc_0000, dscp << 18);
        }
    }

    fn ports(self, words: &mut Words, ports: Option<(u32, u32)>) {
        let Some((mask, value)) = ports else { return };
        if self.v6 {
            words.add(40, mask, value);
        } else {
            // Options would move the ports, and only the first fragment has ports; excluding both keeps all fragments
            // of a datagram in one class.
            words.add(0, 0x0f00_0000, 0x0500_0000);
            words.add(4, 0x0000_3fff, 0);
            words.add(20, mask, value);
        }
    }
}

/// Comparisons of the word that holds both ports, source port first; `None` compares nothing.
fn port_words(matched: &Match) -> Vec<Option<(u32, u32)>> {
    let source = side(&matched.from_ports);
    let destination = side(&matched.to_ports);
    let either = side(&matched.ports);
    let mut all = Vec::new();
    for (source_mask, source) in &source {
        for (destination_mask, destination) in &destination {
            let mask = u32::from(*source_mask) << 16 | u32::from(*destination_mask);
            let value = u32::from(*source) << 16 | u32::from(*destination);
            for (either_mask, either) in &either {
                let (either_mask, either) = (u32::from(*either_mask), u32::from(*either));
                let ends: &[u32] = if either_mask == 0 { &[0] } else { &[16, 0] };
                for end in ends {
                    let (second_mask, second) = (either_mask << end, either << end);
                    // Comparisons of the same port must agree.
                    if (mask & second_mask) & (value ^ second) == 0 {
                        all.push((mask | second_mask, value | second));
                    }
                }
            }
        }
    }
    all.into_iter().map(|(mask, value)| (mask != 0).then_some((mask, value))).collect()
}

/// Masks and values of ports; a single comparison with mask 0 for any port.
fn side(ranges: &[RangeInclusive<u16>]) -> Vec<(u16, u16)> {
    if ranges.is_empty() {
        return vec![(0, 0)];
    }
    ranges.iter().flat_map(prefixes).collect()
}

/// Splits a range of ports into the minimum number of prefixes, like CIDR aggregation.
fn prefixes(range: &RangeInclusive<u16>) -> Vec<(u16, u16)> {
    let (mut first, last) = (u32::from(*range.start()), u32::from(*range.end()));
    let mut all = Vec::new();
    while first <= last {
        let aligned = if first == 0 { 1 << 16 } else { 1 << first.trailing_zeros() };
        let mut size: u32 = aligned;
        while first + size - 1 > last {
            size /= 2;
        }
        let mask = (0xffff_u32 & !(size - 1)) as u16;
        all.push((mask, first as u16));
        first += size;
    }
    all
}

#[cfg(test)]
mod tests;
