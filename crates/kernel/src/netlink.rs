//! Devices, addresses, routes and neighbours of a network namespace, over route netlink (rtnetlink(7)).
//!
//! `link`, `route` and `queueing` build the requests, `socket` carries them; another part of route netlink is another
//! module of request builders.

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

/// A route netlink socket in the network namespace of the thread that opened it.
///
/// Each call waits for the kernel's answer. Reading needs no privilege; changes need CAP_NET_ADMIN in the user
/// namespace that owns the network.
#[derive(Debug)]
pub struct Netlink(Conversation);

impl Netlink {
    /// Opens the socket in the calling thread's network namespace. The socket stays in that namespace.
    ///
    /// # Errors
    /// The socket cannot be opened.
    pub fn open() -> Result<Self, KernelError> {
        Conversation::open().map(Self).map_err(|e| KernelError::new(Op::Socket, "for route netlink", e))
    }

    /// Looks up the index of a device.
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
    /// The kernel's answer cannot be parsed.
    pub fn links(&mut self) -> Result<Vec<Device>, KernelError> {
        let question = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let found = self.0.list(&question).and_then(|all| all.into_iter().map(link::device).collect());
        found.map_err(|e| KernelError::new(Op::FindDevice, "(all)", e))
    }

    /// Reads the counters of a device.
    ///
    /// # Errors
    /// There is no such device.
    pub fn statistics(&mut self, index: u32) -> Result<Statistics, KernelError> {
        Ok(self.device(index).map_err(|e| KernelError::new(Op::FindDevice, index, e))?.statistics)
    }

    /// Changes a device: IPv6 address generation first, then the rest in one step.
    ///
    /// # Errors
    /// There is no such device, or the kernel refused a setting; then no setting of that step has changed.
    pub fn set_link(&mut self, index: u32, settings: &LinkSettings) -> Result<(), KernelError> {
        if settings.ipv6_address_generation_off {
            match self.0.carry_out(vec![link::without_own_addresses(index)]) {
                // A kernel without IPv6 generates no IPv6 addresses.
                Err(e) if e.source.raw_os_error() == Some(libc::EAFNOSUPPORT) => {}
                other => other.map_err(|e| self.failure(Op::SetDevice, "", index, e.source))?,
            }
        }
        let done = self.0.carry_out(link::changes(index, settings));
        done.map_err(|e| self.failure(Op::SetDevice, "", index, e.source))
    }

    /// Adds an address to a device. IPv6 addresses are usable at once: duplicate address detection is disabled.
    ///
    /// With `peer` the prefix is the peer's: the device is a point-to-point link.
    ///
    /// # Errors
    /// There is no such device, the address exists already, or the address families differ.
    pub fn add_address(&mut self, index: u32, ip: IpAddr, prefix: u8, peer: Option<IpAddr>) -> Result<(), KernelError> {
        let subject = format!("{ip}/{prefix} on ");
        let request = route::address(index, ip, prefix, peer);
        let done = request.and_then(|r| self.0.carry_out(vec![r]).map_err(|e| e.source));
        done.map_err(|source| self.failure(Op::AddAddress, &subject, index, source))
    }

    /// Adds a route.
    ///
    /// # Errors
    /// The route exists already, the router is not reachable, the device is down, or the address families differ.
    pub fn add_route(&mut self, route: &Route) -> Result<(), KernelError> {
        self.add_routes(std::slice::from_ref(route))
    }

    /// Adds routes in order, many in one system call.
    ///
    /// # Errors
    /// The first route that was refused; the remaining routes are added nevertheless.
    pub fn add_routes(&mut self, routes: &[Route]) -> Result<(), KernelError> {
        let mut requests = Vec::with_capacity(routes.len());
        for r in routes {
            let request = route::route(r);
            requests.push(request.map_err(|e| self.failure(Op::AddRoute, &format!("{r} on "), r.device, e))?);
        }
        self.all(requests, Op::AddRoute, |at| routes.get(at).map(|r| (r.to_string(), r.device)))
    }

    /// Adds those of the routes that are missing; returns for each whether it was missing. A route with the same
    /// destination and metric counts as present.
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

    /// Looks up the route of this host's packets to an address; `None` when there is no route or it is unreachable.
    pub fn route_towards(&mut self, ip: IpAddr) -> Option<MatchedRoute> {
        self.0.ask(route::towards(ip)).ok().as_ref().and_then(route::matched)
    }

    /// Lists the destinations of all unreachable routes with this metric in the main table.
    ///
    /// # Errors
    /// The kernel's answer cannot be parsed.
    pub fn unreachable_routes(&mut self, metric: u32) -> Result<Vec<IpNet>, KernelError> {
        let question = RouteNetlinkMessage::GetRoute(RouteMessage::default());
        let found = self.0.list(&question).map_err(|e| KernelError::new(Op::ReadRoutes, "all devices", e))?;
        Ok(found.iter().filter_map(|answer| route::unreachable(answer, metric)).collect())
    }

    /// Lists the addresses of a device.
    ///
    /// # Errors
    /// The kernel's answer cannot be parsed.
    pub fn addresses(&mut self, index: u32) -> Result<Vec<IpAddr>, KernelError> {
        let question = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let found = self.0.list(&question).map_err(|e| self.failure(Op::ReadAddresses, "", index, e))?;
        Ok(found.iter().filter_map(|answer| route::address_of(answer, index)).collect())
    }

    /// Looks up a device by its index.
    ///
    /// # Errors
    /// There is no such device.
    pub fn link(&mut self, index: u32) -> Result<Device, KernelError> {
        self.device(index).map_err(|e| KernelError::new(Op::FindDevice, index, e))
    }

    /// Removes routes that were added with the same values.
    ///
    /// # Errors
    /// The first route that was refused, for example because it does not exist; the remaining routes are removed
    /// nevertheless.
    pub fn remove_routes(&mut self, routes: &[Route]) -> Result<(), KernelError> {
        let mut requests = Vec::with_capacity(routes.len());
        for r in routes {
            let request = route::without_route(r);
            requests.push(request.map_err(|e| self.failure(Op::RemoveRoute, &format!("{r} on "), r.device, e))?);
        }
        self.all(requests, Op::RemoveRoute, |at| routes.get(at).map(|r| (r.to_string(), r.device)))
    }

    /// Adds a permanent neighbour entry, or replaces the existing one.
    ///
    /// # Errors
    /// There is no such device, or it is down.
    pub fn add_neighbour(&mut self, index: u32, ip: IpAddr, mac: [u8; 6]) -> Result<(), KernelError> {
        self.add_neighbours(&[Neighbour { device: index, ip, mac }])
    }

    /// Adds permanent neighbour entries, many in one system call.
    ///
    /// # Errors
    /// The first entry that was refused; the remaining entries are added nevertheless.
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

    /// Builds an error that names the device rather than its index.
    fn failure(&mut self, op: Op, before: &str, index: u32, source: io::Error) -> KernelError {
        let name = self.device(index).map_or_else(|_| index.to_string(), |d| d.name);
        KernelError::new(op, format!("{before}device {name}"), source)
    }
}
