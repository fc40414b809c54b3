//! Members of an overlay: programs of nodes that carry packets of their nodes in datagrams of their own.

use std::collections::VecDeque;
use std::fmt;
use std::net::Ipv4Addr;

use link::Train;
use scenario::Scenario;
use units::{Duration, Instant};

use crate::packet::{Address, Body, Packet};

/// Bytes of the headers of a datagram that carries a frame: IPv4 and UDP.
pub(crate) const DATAGRAM_HEADER_BYTES: u32 = 28;
/// Time after which a packet in a tunnel counts as lost: TCP has sent its bytes again long before.
const LIFETIME: Duration = Duration::from_secs(60);
/// Position of the number of a packet in its bytes: behind IPv4 and UDP headers.
const NUMBER_AT: usize = 28;
/// Ports of the packets in a tunnel: that of the connection, above a base, and that of the server.
const PORT_BASE: u16 = 10_000;
const SERVER_PORT: u16 = 5201;

/// An action of a member.
#[derive(Debug)]
pub enum TunnelAction {
    /// Send a datagram.
    Send {
        /// Node of the peer.
        to: usize,
        /// Payload of UDP.
        datagram: Vec<u8>,
    },
    /// Give an IP packet to the node, as another member's node sent it.
    Deliver(Vec<u8>),
}

/// A member of an overlay, as a state machine. The simulator moves time, datagrams and packets.
pub trait Tunnel: fmt::Debug {
    /// Maximum IP packet in bytes.
    fn mtu(&self) -> u32;
    /// Whether each other member can be reached.
    fn is_ready(&self) -> bool;
    /// Time at which [`Self::handle_timeout`] is due.
    fn poll_timeout(&self) -> Instant;
    /// Time has passed.
    fn handle_timeout(&mut self, now: Instant);
    /// A datagram arrives from the member of a node.
    fn handle_datagram(&mut self, now: Instant, from: usize, datagram: Vec<u8>);
    /// The node sends an IP packet.
    fn handle_packet(&mut self, now: Instant, ip: &[u8]);
    /// The next action; `None`: nothing to do.
    fn poll_action(&mut self) -> Option<TunnelAction>;
}

/// Members by their nodes, and the packets in their tunnels.
#[derive(Debug, Default)]
pub(crate) struct Tunnels {
    members: Vec<Option<Box<dyn Tunnel>>>,
    addresses: Vec<Option<Ipv4Addr>>,
    /// Packets in tunnels, by their numbers, with the times at which they were sent.
    carried: VecDeque<(Instant, Option<Packet>)>,
    /// Number of the first of them.
    first: u64,
}

impl Tunnels {
    pub(crate) fn new(scenario: &Scenario, members: Vec<(usize, Box<dyn Tunnel>)>) -> Self {
        let overlay = scenario.overlay.as_ref();
        let addresses = (0..scenario.nodes.len()).map(|node| overlay.and_then(|o| o.address_of(node))).collect();
        let mut all = Self { addresses, ..Self::default() };
        all.members.resize_with(scenario.nodes.len(), || None);
        for (node, member) in members {
            if let Some(place) = all.members.get_mut(node) {
                *place = Some(member);
            }
        }
        all
    }

    pub(crate) fn member(&mut self, node: usize) -> Option<&mut dyn Tunnel> {
        match self.members.get_mut(node) {
            Some(Some(member)) => Some(&mut **member),
            Some(None) | None => None,
        }
    }

    /// Nodes with a member.
    pub(crate) fn nodes(&self) -> Vec<usize> {
        self.members.iter().enumerate().filter(|(_, m)| m.is_some()).map(|(node, _)| node).collect()
    }

    /// Whether all members reach each other.
    pub(crate) fn are_ready(&self) -> bool {
        self.members.iter().flatten().all(|m| m.is_ready())
    }

    /// Maximum IP packet between two nodes in bytes.
    pub(crate) fn mtu(&self) -> u32 {
        self.members.iter().flatten().map(|m| m.mtu()).min().unwrap_or(u32::MAX)
    }

    /// Gives each segment of a train to the member of the node that sends it.
    pub(crate) fn enter(&mut self, now: Instant, (from, to): (usize, usize), train: Train<Packet>) {
        let (Some(Some(source)), Some(Some(destination))) = (self.addresses.get(from), self.addresses.get(to)) else {
            return;
        };
        let ends = (*source, *destination);
        for index in 0..train.count {
            let bytes = if index + 1 == train.count { train.last } else { train.full };
            let packet = train.payload.segment(index, bytes);
            let ip = ip_packet(ends, &packet, self.first + self.carried.len() as u64, bytes);
            self.carried.push_back((now, Some(packet)));
            if let Some(member) = self.member(from) {
                member.handle_packet(now, &ip);
            }
        }
        while self.carried.front().is_some_and(|(sent, p)| p.is_none() || *sent + LIFETIME < now) {
            self.carried.pop_front();
            self.first += 1;
        }
    }

    /// The packet that leaves a tunnel as these bytes; `None`: it is not one of these, or it was delivered before.
    pub(crate) fn leave(&mut self, ip: &[u8]) -> Option<Packet> {
        let number = u64::from_be_bytes(*ip.get(NUMBER_AT..)?.first_chunk()?);
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.carried.get_mut(index)?.1.take()
    }
}

/// A packet as bytes: headers by which a member finds destination and flow, and the number of the packet.
fn ip_packet((source, destination): (Ipv4Addr, Ipv4Addr), packet: &Packet, number: u64, bytes: u32) -> Vec<u8> {
    const UDP: u8 = 17;
    let mut ip = vec![0; (bytes as usize).max(NUMBER_AT + 8)];
    let length = ip.len() as u16;
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    (ip[8], ip[9]) = (64, UDP);
    ip[12..16].copy_from_slice(&source.octets());
    ip[16..20].copy_from_slice(&destination.octets());
    let index = match packet.to {
        Address::Connection(index, _) | Address::Datagrams(index) | Address::Estimate(index) => index,
        Address::Member(node) => node,
    };
    let port = PORT_BASE.wrapping_add(index as u16);
    let ports = if matches!(packet.body, Body::Ack(_)) { [SERVER_PORT, port] } else { [port, SERVER_PORT] };
    ip[20..22].copy_from_slice(&ports[0].to_be_bytes());
    ip[22..24].copy_from_slice(&ports[1].to_be_bytes());
    ip[24..26].copy_from_slice(&(length - 20).to_be_bytes());
    ip[NUMBER_AT..NUMBER_AT + 8].copy_from_slice(&number.to_be_bytes());
    ip
}
