//! Addresses and routes of the tunnel on this host: added, kept, and looked at again when the network of the host changes.
//!
//! The tunnel never fails open. Behind each route into the tunnel device stands an unreachable route of a worse metric: when the kernel takes the routes of
//! the device away, as it does when somebody sets the device down, packets for peers are refused, and do not leave by the default route in the clear.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::Arc;

use ipnet::IpNet;
use kernel::{KernelError, Netlink, Route};
use serde::Serialize;

use crate::OverlayError;
use crate::members::subnets;
use crate::settings::Settings;

/// Metric of the routes into the tunnel. A network that the host is in counts before them, whoever configures it: the kernel gives it 0 (IPv6: 256),
/// NetworkManager up to 600 and 20,000 more without connectivity, systemd-networkd 1024, dhcpcd 3000 and more.
const METRIC: u32 = 30_000;
/// Least metric of the unreachable routes. Each member has one of its own, by its number, so that it finds those that it left when it was killed, and no
/// other member's in the same network.
const UNREACHABLE: u32 = 1 << 31;

/// What this host has of the overlay.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct HostState {
    /// The tunnel device is up.
    pub(crate) up: bool,
    /// Addresses of this member that the host lacks.
    pub(crate) missing_addresses: Vec<IpAddr>,
    /// Subnets of peers that have no route into the tunnel.
    pub(crate) missing_routes: Vec<IpNet>,
    /// Subnets of peers to which the host has another route that counts before the tunnel's, as it is in that network.
    pub(crate) other_routes: Vec<OtherRoute>,
}

impl HostState {
    /// All that the tunnel needs is there.
    pub(crate) fn is_whole(&self) -> bool {
        self.up && self.missing_addresses.is_empty() && self.missing_routes.is_empty()
    }
}

/// A subnet of a peer, and the device by which its packets leave this host; `None`: several devices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct OtherRoute {
    pub(crate) subnet: IpNet,
    pub(crate) device: Option<String>,
}

/// What a look at the host found and did.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) state: HostState,
    /// What somebody had removed and is there again.
    pub(crate) restored: Restored,
    /// Routes that the kernel refused.
    pub(crate) refused: Vec<KernelError>,
}

/// Addresses and routes that somebody had removed and that were added again.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Restored {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) routes: BTreeSet<IpNet>,
}

impl Restored {
    pub(crate) fn len(&self) -> usize {
        self.addresses.len() + self.routes.len()
    }
}

/// Keeps addresses and routes as the settings want them, as far as this user may. The unreachable routes end with it.
pub(crate) struct HostRoutes {
    settings: Arc<Settings>,
    /// The tunnel device's index.
    device: u32,
    may_change: bool,
    /// Subnets whose routes were there at the last look.
    known: BTreeSet<IpNet>,
    /// Whether a look was taken: what is missing later was removed by somebody.
    has_looked: bool,
}

impl HostRoutes {
    /// `device`: index of the tunnel device.
    pub(crate) fn new(settings: Arc<Settings>, device: u32) -> Self {
        let may_change = kernel::may_change_networks();
        Self { settings, device, may_change, known: BTreeSet::new(), has_looked: false }
    }

    /// Removes what earlier runs left, and adds the routes.
    ///
    /// # Errors
    /// The kernel refused one.
    pub(crate) fn begin(&mut self) -> Result<Found, OverlayError> {
        if self.may_change {
            let mut netlink = Netlink::open()?;
            self.remove_unreachable(&mut netlink)?;
            // A device that outlives its member keeps the routes, perhaps with another source or metric. Those to other devices stay.
            let left = self.wanted().into_iter().map(|to| Route { source: None, metric: None, ..self.route(to) });
            let _ = netlink.remove_routes(&Vec::from_iter(left));
        }
        let mut found = self.look()?;
        match found.refused.pop() {
            Some(refused) => Err(refused.into()),
            None => Ok(found),
        }
    }

    /// Looks at what is there, and adds what is missing.
    ///
    /// # Errors
    /// The kernel does not answer, or the device is gone.
    pub(crate) fn look(&mut self) -> Result<Found, KernelError> {
        let mut netlink = Netlink::open()?;
        let wanted = self.wanted();
        let mut found = Found::default();
        found.state.up = netlink.link(self.device)?.up;
        self.look_at_addresses(&mut netlink, &mut found)?;
        if self.may_change {
            self.add_routes(&mut netlink, &wanted, &mut found);
        }
        for to in &wanted {
            self.look_at_route(&mut netlink, *to, &mut found.state);
        }
        self.known = wanted;
        self.has_looked = true;
        Ok(found)
    }

    fn look_at_addresses(&self, netlink: &mut Netlink, found: &mut Found) -> Result<(), KernelError> {
        let there = netlink.addresses(self.device)?;
        for address in &self.settings.addresses {
            let is_there = if self.may_change { there.contains(address) } else { host_has(*address, self.device) };
            if is_there {
                continue;
            }
            let added = self.may_change && add_address(netlink, self.device, *address).is_ok();
            if !added {
                found.state.missing_addresses.push(*address);
            } else if self.has_looked {
                found.restored.addresses.push(*address);
            }
        }
        Ok(())
    }

    /// Adds what is missing: the unreachable routes first, so that nothing leaves in the clear in between.
    fn add_routes(&self, netlink: &mut Netlink, wanted: &BTreeSet<IpNet>, found: &mut Found) {
        let mut routes = Vec::from_iter(wanted.iter().map(|to| self.unreachable(*to)));
        if found.state.up {
            routes.extend(wanted.iter().map(|to| self.route(*to)));
        }
        for (route, result) in routes.iter().zip(netlink.ensure_routes(&routes)) {
            match result {
                Ok(true) if self.known.contains(&route.to) => drop(found.restored.routes.insert(route.to)),
                Ok(_) => {}
                Err(refused) => found.refused.push(refused),
            }
        }
    }

    fn look_at_route(&self, netlink: &mut Netlink, to: IpNet, state: &mut HostState) {
        let Some(matched) = netlink.route_towards(middle(to)) else { return state.missing_routes.push(to) };
        if matched.device == Some(self.device) {
            return;
        }
        if matched.to.contains(&to) && matched.to.prefix_len() < to.prefix_len() {
            // The default route, say: nobody wants just this there.
            return state.missing_routes.push(to);
        }
        let device = matched.device.and_then(|index| netlink.link(index).ok()).map(|device| device.name);
        state.other_routes.push(OtherRoute { subnet: to, device });
    }

    /// Packets for these no longer go into the tunnel.
    pub(crate) fn remove(&mut self, gone: &[IpNet]) -> Result<(), OverlayError> {
        if !self.may_change {
            let all = gone.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            tracing::warn!("what is for {all} still goes to {}: only root can remove the routes", self.settings.device);
            return Ok(());
        }
        let routes = gone.iter().map(|to| self.route(*to)).chain(gone.iter().map(|to| self.unreachable(*to)));
        // One that somebody else has removed is gone as well.
        let _ = Netlink::open()?.remove_routes(&Vec::from_iter(routes));
        Ok(())
    }

    fn wanted(&self) -> BTreeSet<IpNet> {
        subnets(&self.settings.members.get()).into_iter().map(|net| net.trunc()).collect()
    }

    /// By what command root adds the route to this subnet.
    pub(crate) fn command(&self, to: IpNet) -> String {
        let source = self.route(to).source.map_or_else(String::new, |source| format!(" src {source}"));
        format!("ip route add {to} dev {}{source} metric {METRIC}", self.settings.device)
    }

    fn route(&self, to: IpNet) -> Route {
        let own = self.settings.addresses.iter().find(|a| a.is_ipv4() == to.addr().is_ipv4()).copied();
        let (device, metric) = (self.device, Some(METRIC));
        Route { to, via: None, device, onlink: false, source: own, metric, unreachable: false }
    }

    fn unreachable(&self, to: IpNet) -> Route {
        Route { source: None, metric: Some(self.unreachable_metric()), unreachable: true, ..self.route(to) }
    }

    fn unreachable_metric(&self) -> u32 {
        self.settings.identity.public().member().0 | UNREACHABLE
    }

    fn remove_unreachable(&self, netlink: &mut Netlink) -> Result<(), KernelError> {
        let left = netlink.unreachable_routes(self.unreachable_metric())?;
        let _ = netlink.remove_routes(&Vec::from_iter(left.into_iter().map(|to| self.unreachable(to))));
        Ok(())
    }
}

impl Drop for HostRoutes {
    fn drop(&mut self) {
        if self.may_change {
            let removed = Netlink::open().and_then(|mut netlink| self.remove_unreachable(&mut netlink));
            removed.unwrap_or_else(|e| tracing::warn!("unreachable routes to peers stay until the next start: {e}"));
        }
    }
}

/// Gives the tunnel device an address of this member.
pub(crate) fn add_address(netlink: &mut Netlink, device: u32, address: IpAddr) -> Result<(), KernelError> {
    netlink.add_address(device, address, if address.is_ipv4() { 32 } else { 128 }, None)
}

/// Whether this host has the address; `device`: of the tunnel.
pub(crate) fn host_has(address: IpAddr, device: u32) -> bool {
    let at = match address {
        // A link-local address is one only together with its device.
        IpAddr::V6(ip) if ip.is_unicast_link_local() => SocketAddrV6::new(ip, 0, 0, device).into(),
        IpAddr::V4(_) | IpAddr::V6(_) => SocketAddr::new(address, 0),
    };
    UdpSocket::bind(at).is_ok()
}

/// An address of this network for which the kernel has no meaning of its own: its first and last one may be that of all hosts, and those of 0.0.0.0/8 none.
fn middle(net: IpNet) -> IpAddr {
    match net.trunc() {
        IpNet::V4(net) => {
            let half = if net.prefix_len() == 32 { 0 } else { 1_u32 << (31 - net.prefix_len()) };
            Ipv4Addr::from(u32::from(net.addr()) | half).into()
        }
        IpNet::V6(net) => {
            let half = if net.prefix_len() == 128 { 0 } else { 1_u128 << (127 - net.prefix_len()) };
            Ipv6Addr::from(u128::from(net.addr()) | half).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_asked_for_by_an_address_within_it() {
        for (net, ip) in [
            ("10.77.0.2/32", "10.77.0.2"),
            ("10.91.1.0/24", "10.91.1.128"),
            ("10.91.1.8/31", "10.91.1.9"),
            ("0.0.0.0/0", "128.0.0.0"),
            ("fd77::2/128", "fd77::2"),
            ("fd07::/64", "fd07::8000:0:0:0"),
            ("::/0", "8000::"),
        ] {
            assert_eq!(middle(net.parse().unwrap()), ip.parse::<IpAddr>().unwrap(), "{net}");
        }
    }
}
