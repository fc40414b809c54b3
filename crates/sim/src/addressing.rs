//! Sizes of headers, and the paths between nodes.

use std::collections::BTreeMap;

use scenario::Scenario;
use units::Duration;

/// Bytes of a TCP header with timestamps (RFC 7323, appendix A).
const TCP_BYTES: u32 = 32;
/// Bytes of timestamps, which a segment size given by the user includes (TCP_MAXSEG).
pub(crate) const TIMESTAMP_BYTES: u32 = 12;
/// Bytes of a UDP header.
const UDP_BYTES: u32 = 8;

const fn ip_bytes(ipv6: bool) -> u32 {
    if ipv6 { 40 } else { 20 }
}

/// Bytes of the headers of a TCP segment.
pub(crate) const fn tcp_header(ipv6: bool) -> u32 {
    ip_bytes(ipv6) + TCP_BYTES
}

/// Bytes of the headers of a datagram.
pub(crate) const fn udp_header(ipv6: bool) -> u32 {
    ip_bytes(ipv6) + UDP_BYTES
}

/// Bytes of an acknowledgement with `blocks` SACK blocks: 2 bytes and 8 for each, padded to a multiple of 4.
pub(crate) const fn ack_bytes(ipv6: bool, blocks: usize) -> u32 {
    tcp_header(ipv6) + if blocks == 0 { 0 } else { 4 + 8 * blocks as u32 }
}

/// The paths in use, each a list of wires.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    lists: Vec<Box<[u32]>>,
    known: BTreeMap<(usize, usize), u32>,
    /// Ends of the paths that lead through the members of an overlay.
    tunnels: BTreeMap<u32, (usize, usize)>,
}

impl Paths {
    /// Index of the path from one node to another; an empty path if there is no route, which the scenario excludes.
    pub(crate) fn between(&mut self, scenario: &Scenario, from: usize, to: usize) -> u32 {
        *self.known.entry((from, to)).or_insert_with(|| {
            let wires = scenario.path_wires(from, to).unwrap_or_default();
            self.lists.push(wires.into_iter().map(|w| w as u32).collect());
            (self.lists.len() - 1) as u32
        })
    }

    /// Index of the path from one member of an overlay to another, which the members choose.
    pub(crate) fn through_tunnel(&mut self, from: usize, to: usize) -> u32 {
        if let Some((path, _)) = self.tunnels.iter().find(|(_, ends)| **ends == (from, to)) {
            return *path;
        }
        self.lists.push(Box::default());
        let path = (self.lists.len() - 1) as u32;
        self.tunnels.insert(path, (from, to));
        path
    }

    /// Ends of a path through an overlay; `None`: it leads over wires.
    pub(crate) fn tunnel(&self, path: u32) -> Option<(usize, usize)> {
        self.tunnels.get(&path).copied()
    }

    /// The wire at a position of a path; `None`: the path ends there.
    pub(crate) fn wire(&self, path: u32, hop: u32) -> Option<u32> {
        self.lists.get(path as usize)?.get(hop as usize).copied()
    }
}

/// Sum of the propagation delays there and back.
pub(crate) fn round_trip(scenario: &Scenario, from: usize, to: usize) -> Duration {
    let one_way = |from, to| scenario.path_delay(from, to).unwrap_or_default();
    one_way(from, to) + one_way(to, from)
}

/// Smallest MTU between two nodes in bytes.
pub(crate) fn mtu(scenario: &Scenario, from: usize, to: usize) -> u32 {
    let segments = scenario.path_segments(from, to).unwrap_or_default();
    segments.iter().map(|s| s.mtu).min().unwrap_or(1500)
}
