//! Devices, addresses, routes and neighbours of a network namespace, over route netlink (rtnetlink(7)).
//!
//! Requests are made by small functions (`link`, `route`), carried by `socket`; another part of route netlink is another
//! module of such functions.

mod diagnostics;
mod link;
mod queueing;
#[cfg(test)]
mod queueing_tests;
mod route;
mod socket;
#[cfg(test)]
mod tests;
mod watch;

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::route::RouteMessage;

use crate::{KernelError, Op};
use socket::{Conversation, Refused, Request};

pub(crate) use socket::take_apart;

pub use diagnostics::{TcpConnection, TcpDiagnostics, processes_named, socket_inodes};
pub use link::{Counters, Device, LinkSettings, Statistics};
pub use queueing::Change;
pub use route::{MatchedRoute, Neighbour, Route};
pub use watch::NetworkWatch;

/// A connection with the kernel about one network namespace: the one in which the opening thread was.
///
/// Each call waits for the kernel's answer. Reading needs no privilege, changing needs CAP_NET_ADMIN in the user namespace
/// that owns the network.
#[derive(Debug)]
pub struct Netlink(Conversation);

impl Netlink {
    /// Opens the connection in the calling thread's network namespace. It stays there when the thread moves on.
    ///
    /// # Errors
    /// The socket cannot be opened.
    pub fn open() -> Result<Self, KernelError> {
        Conversation::open().map(Self).map_err(|e| KernelError::new(Op::Socket, "for route netlink", e))
    }

    /// The number of a device.
    ///
    /// # Errors
    /// There is no such device.
    pub fn index(&mut self, name: &str) -> Result<u32, KernelError> {
        let found = self.0.ask(link::by_name(name)).and_then(link::device);
        Ok(found.map_err(|e| KernelError::new(Op::FindDevice, name, e))?.index)
    }

    /// All devices, in the kernel's order.
    ///
    /// # Errors
    /// The kernel's answer is not understood.
    pub fn links(&mut self) -> Result<Vec<Device>, KernelError> {
        let question = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let found = self.0.list(&question).and_then(|all| all.into_iter().map(link::device).collect());
        found.map_err(|e| KernelError::new(Op::FindDevice, "(all)", e))
    }

    /// What a device counted.
    ///
    /// # Errors
    /// There is no such device.
    pub fn statistics(&mut self, index: u32) -> Result<Statistics, KernelError> {
        Ok(self.device(index).map_err(|e| KernelError::new(Op::FindDevice, index, e))?.statistics)
    }

    /// Changes a device: what IPv6 does by itself first, then the rest in one step.
    ///
    /// # Errors
    /// There is no such device, or the kernel refused a setting; then none of one step is changed.
    pub fn set_link(&mut self, index: u32, settings: &LinkSettings) -> Result<(), KernelError> {
        if settings.ipv6_address_generation_off {
            match self.0.carry_out(vec![link::without_own_addresses(index)]) {
                // A kernel without IPv6 makes no addresses.
                Err(e) if e.source.raw_os_error() == Some(libc::EAFNOSUPPORT) => {}
                other => other.map_err(|e| self.failure(Op::SetDevice, "", index, e.source))?,
            }
        }
        let done = self.0.carry_out(link::changes(index, settings));
        done.map_err(|e| self.failure(Op::SetDevice, "", index, e.source))
    }

    /// Gives a device an address. IPv6 addresses are usable at once: duplicate address detection is left out.
    ///
    /// With `peer` the prefix is the peer's: the device is a point-to-point link.
    ///
    /// # Errors
    /// There is no such device, the address is there already, or families differ.
    pub fn add_address(&mut self, index: u32, ip: IpAddr, prefix: u8, peer: Option<IpAddr>) -> Result<(), KernelError> {
        let subject = format!("{ip}/{prefix} on ");
        let request = route::address(index, ip, prefix, peer);
        let done = request.and_then(|r| self.0.carry_out(vec![r]).map_err(|e| e.source));
        done.map_err(|source| self.failure(Op::AddAddress, &subject, index, source))
    }

    /// Adds a route.
    ///
    /// # Errors
    /// The route is there already, the router is not reachable, the device is down, or families differ.
    pub fn add_route(&mut self, route: &Route) -> Result<(), KernelError> {
        self.add_routes(std::slice::from_ref(route))
    }

    /// Adds routes in order, many in one system call.
    ///
    /// # Errors
    /// The first that was refused; the others are added nevertheless.
    pub fn add_routes(&mut self, routes: &[Route]) -> Result<(), KernelError> {
        let mut requests = Vec::with_capacity(routes.len());
        for r in routes {
            let request = route::route(r);
            requests.push(request.map_err(|e| self.failure(Op::AddRoute, &format!("{r} on "), r.device, e))?);
        }
        self.all(requests, Op::AddRoute, |at| routes.get(at).map(|r| (r.to_string(), r.device)))
    }

    /// Adds those of the routes that are missing; gives for each whether it was. Another route to the same destination with the same metric counts as it.
    ///
    /// # Errors
    /// In the place of each route that was refused: as of [`Netlink::add_route`].
    pub fn ensure_routes(&mut self, routes: &[Route]) -> Vec<Result<bool, KernelError>> {
        let requests = routes.iter().map(|r| (route::route(r), r));
        let mut results = Vec::with_capacity(routes.len());
        for (request, r) in requests {
            let done = request.and_then(|request| self.0.carry_out(vec![request]).map_err(|refused| refused.source));
            results.push(match done {
                Ok(()) => Ok(true),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                Err(e) => Err(self.failure(Op::AddRoute, &format!("{r} on "), r.device, e)),
            });
        }
        results
    }

    /// The route by which packets of this host to an address leave; `None`: there is none, or they are refused.
    pub fn route_towards(&mut self, ip: IpAddr) -> Option<MatchedRoute> {
        self.0.ask(route::towards(ip)).ok().as_ref().and_then(route::matched)
    }

    /// Destinations of all unreachable routes of this metric in the main table.
    ///
    /// # Errors
    /// The kernel's answer is not understood.
    pub fn unreachable_routes(&mut self, metric: u32) -> Result<Vec<IpNet>, KernelError> {
        let question = RouteNetlinkMessage::GetRoute(RouteMessage::default());
        let found = self.0.list(&question).map_err(|e| KernelError::new(Op::ReadRoutes, "all devices", e))?;
        Ok(found.iter().filter_map(|answer| route::unreachable(answer, metric)).collect())
    }

    /// The addresses of a device.
    ///
    /// # Errors
    /// The kernel's answer is not understood.
    pub fn addresses(&mut self, index: u32) -> Result<Vec<IpAddr>, KernelError> {
        let question = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let found = self.0.list(&question).map_err(|e| self.failure(Op::ReadAddresses, "", index, e))?;
        Ok(found.iter().filter_map(|answer| route::address_of(answer, index)).collect())
    }

    /// A device by its number.
    ///
    /// # Errors
    /// There is no such device.
    pub fn link(&mut self, index: u32) -> Result<Device, KernelError> {
        self.device(index).map_err(|e| KernelError::new(Op::FindDevice, index, e))
    }

    /// Removes routes that were added with the same words.
    ///
    /// # Errors
    /// The first that was refused, as one that is not there; the others are removed nevertheless.
    pub fn remove_routes(&mut self, routes: &[Route]) -> Result<(), KernelError> {
        let mut requests = Vec::with_capacity(routes.len());
        for r in routes {
            let request = route::without_route(r);
            requests.push(request.map_err(|e| self.failure(Op::RemoveRoute, &format!("{r} on "), r.device, e))?);
        }
        self.all(requests, Op::RemoveRoute, |at| routes.get(at).map(|r| (r.to_string(), r.device)))
    }

    /// Makes a neighbour known for good, in place of what was known of it.
    ///
    /// # Errors
    /// There is no such device, or it is down.
    pub fn add_neighbour(&mut self, index: u32, ip: IpAddr, mac: [u8; 6]) -> Result<(), KernelError> {
        self.add_neighbours(&[Neighbour { device: index, ip, mac }])
    }

    /// Makes neighbours known, many in one system call.
    ///
    /// # Errors
    /// The first that was refused; the others are known nevertheless.
    pub fn add_neighbours(&mut self, neighbours: &[Neighbour]) -> Result<(), KernelError> {
        let requests = neighbours.iter().map(route::neighbour).collect();
        self.all(requests, Op::AddNeighbour, |at| neighbours.get(at).map(|n| (n.ip.to_string(), n.device)))
    }

    fn all(
        &mut self,
        requests: Vec<Request>,
        op: Op,
        subject: impl Fn(usize) -> Option<(String, u32)>,
    ) -> Result<(), KernelError> {
        let Err(Refused { at, source }) = self.0.carry_out(requests) else { return Ok(()) };
        let (what, device) = subject(at).unwrap_or_default();
        Err(self.failure(op, &format!("{what} on "), device, source))
    }

    fn device(&mut self, index: u32) -> io::Result<Device> {
        self.0.ask(link::by_index(index)).and_then(link::device)
    }

    /// Names the device as people know it.
    fn failure(&mut self, op: Op, before: &str, index: u32, source: io::Error) -> KernelError {
        let name = self.device(index).map_or_else(|_| index.to_string(), |d| d.name);
        KernelError::new(op, format!("{before}device {name}"), source)
    }
}
