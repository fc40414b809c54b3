use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::socket::Request;

/// A unicast route in the main table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Destination; `0.0.0.0/0` and `::/0` are the default routes. Host bits are ignored.
    pub to: IpNet,
    /// Next hop; absent where the destination is on the link itself.
    pub via: Option<IpAddr>,
    /// Index of the egress device.
    pub device: u32,
    /// Treats the next hop as on-link although no address of this host covers it.
    pub onlink: bool,
    /// Preferred source address on this route.
    pub source: Option<IpAddr>,
    /// Metric; the kernel uses the route with the smallest metric among those to the same destination. Absent: the
    /// kernel's default, 0 for IPv4 and 1024 for IPv6. In requests to remove a route, absent matches any metric.
    pub metric: Option<u32>,
    /// Packets to the destination are refused with "no route to host" (RTN_UNREACHABLE); `via`, `device` and `source`
    /// are then ignored.
    pub unreachable: bool,
}

/// The route that this host uses to reach an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchedRoute {
    /// Destination of the route.
    pub to: IpNet,
    /// Index of the egress device; absent for a multipath route.
    pub device: Option<u32>,
}

/// A permanent neighbour entry: the kernel sends no ARP or neighbour discovery for the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the device.
    pub device: u32,
    /// Address on the link.
    pub ip: IpAddr,
    /// Ethernet address.
    pub mac: [u8; 6],
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to.trunc())?;
        self.via.map_or(Ok(()), |via| write!(f, " via {via}"))
    }
}

fn family(ip: IpAddr) -> AddressFamily {
    if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// Checks that two addresses have one family. The kernel reads only as many bytes of an address as its message's
/// family has, so that it would misread a mixture.
fn same_family(ip: IpAddr, other: Option<IpAddr>) -> io::Result<()> {
    match other {
        Some(o) if o.is_ipv4() != ip.is_ipv4() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{o} is of another address family than {ip}")))
        }
        _ => Ok(()),
    }
}

/// Builds the request that adds an address to a device.
pub(super) fn address(device: u32, ip: IpAddr, prefix: u8, peer: Option<IpAddr>) -> io::Result<Request> {
    same_family(ip, peer)?;
    let mut message = AddressMessage::default();
    message.header.family = family(ip);
    message.header.prefix_len = prefix;
    message.header.index = device;
    if ip.is_ipv6() {
        // This program assigns all addresses here, and duplicate address detection delays an address by a second.
        message.header.flags = AddressHeaderFlags::Nodad;
    }
    message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(peer.unwrap_or(ip))];
    Ok(Request { message: RouteNetlinkMessage::NewAddress(message), flags: NLM_F_CREATE | NLM_F_EXCL })
}

/// Builds the request that adds a route.
pub(super) fn route(route: &Route) -> io::Result<Request> {
    Ok(Request { message: RouteNetlinkMessage::NewRoute(message(route)?), flags: NLM_F_CREATE | NLM_F_EXCL })
}

/// Builds the request that removes a route.
pub(super) fn without_route(route: &Route) -> io::Result<Request> {
    Ok(Request { message: RouteNetlinkMessage::DelRoute(message(route)?), flags: 0 })
}

fn message(route: &Route) -> io::Result<RouteMessage> {
    let to = route.to.trunc();
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: family(to.addr()),
        destination_prefix_length: to.prefix_len(),
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Static,
        scope: if route.via.is_some() || route.unreachable || to.addr().is_ipv6() {
            RouteScope::Universe
        } else {
            RouteScope::Link
        },
        kind: if route.unreachable { RouteType::Unreachable } else { RouteType::Unicast },
        flags: if route.onlink { RouteFlags::Onlink } else { RouteFlags::empty() },
        ..RouteHeader::default()
    };
    if to.prefix_len() > 0 {
        message.attributes.push(RouteAttribute::Destination(RouteAddress::from(to.addr())));
    }
    message.attributes.extend(route.metric.map(RouteAttribute::Priority));
    if route.unreachable {
        return Ok(message);
    }
    same_family(to.addr(), route.via)?;
    same_family(to.addr(), route.source)?;
    message.attributes.push(RouteAttribute::Oif(route.device));
    message.attributes.extend(route.via.map(|ip| RouteAttribute::Gateway(RouteAddress::from(ip))));
    message.attributes.extend(route.source.map(|ip| RouteAttribute::PrefSource(RouteAddress::from(ip))));
    Ok(message)
}

/// Builds the query for the route by which this host reaches an address.
pub(super) fn towards(ip: IpAddr) -> RouteNetlinkMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(ip);
    message.header.destination_prefix_length = if ip.is_ipv4() { 32 } else { 128 };
    // Asks for the matching route itself, not for the result that applies to this address.
    message.header.flags = RouteFlags::FibMatch;
    message.attributes.push(RouteAttribute::Destination(RouteAddress::from(ip)));
    RouteNetlinkMessage::GetRoute(message)
}

/// Parses the route of an answer.
pub(super) fn matched(answer: &RouteNetlinkMessage) -> Option<MatchedRoute> {
    let RouteNetlinkMessage::NewRoute(route) = answer else { return None };
    let device =
        route.attributes.iter().find_map(|a| if let RouteAttribute::Oif(device) = a { Some(*device) } else { None });
    Some(MatchedRoute { to: destination(route)?, device })
}

/// Parses the destination of an unreachable route with this metric; `None` for any other route.
pub(super) fn unreachable(answer: &RouteNetlinkMessage, metric: u32) -> Option<IpNet> {
    let RouteNetlinkMessage::NewRoute(route) = answer else { return None };
    let is_it = route.header.kind == RouteType::Unreachable
        && route.header.table == RouteHeader::RT_TABLE_MAIN
        && route.attributes.contains(&RouteAttribute::Priority(metric));
    is_it.then(|| destination(route)).flatten()
}

fn destination(route: &RouteMessage) -> Option<IpNet> {
    let to = route.attributes.iter().find_map(|a| match a {
        RouteAttribute::Destination(RouteAddress::Inet(ip)) => Some(IpAddr::from(*ip)),
        RouteAttribute::Destination(RouteAddress::Inet6(ip)) => Some(IpAddr::from(*ip)),
        _ => None,
    });
    let all = if route.header.address_family == AddressFamily::Inet6 {
        IpAddr::from(Ipv6Addr::UNSPECIFIED)
    } else {
        IpAddr::from(Ipv4Addr::UNSPECIFIED)
    };
    IpNet::new(to.unwrap_or(all), route.header.destination_prefix_length).ok()
}

/// Parses the address of an answer, if it belongs to this device.
pub(super) fn address_of(answer: &RouteNetlinkMessage, device: u32) -> Option<IpAddr> {
    let RouteNetlinkMessage::NewAddress(message) = answer else { return None };
    if message.header.index != device {
        return None;
    }
    // IPv6 reports the local address separately only where there is a peer.
    let local =
        message.attributes.iter().find_map(|a| if let AddressAttribute::Local(ip) = a { Some(*ip) } else { None });
    let any =
        || message.attributes.iter().find_map(|a| if let AddressAttribute::Address(ip) = a { Some(*ip) } else { None });
    local.or_else(any)
}

/// Builds the request that adds or replaces a neighbour entry.
pub(super) fn neighbour(neighbour: &Neighbour) -> Request {
    let mut message = NeighbourMessage::default();
    message.header.family = family(neighbour.ip);
    message.header.ifindex = neighbour.device;
    message.header.state = NeighbourState::Permanent;
    message.attributes = vec![
        NeighbourAttribute::Destination(NeighbourAddress::from(neighbour.ip)),
        NeighbourAttribute::LinkLayerAddress(neighbour.mac.to_vec()),
    ];
    Request { message: RouteNetlinkMessage::NewNeighbour(message), flags: NLM_F_CREATE | NLM_F_REPLACE }
}
