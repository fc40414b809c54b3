//! Addresses and routes of the tunnel on this host. They are added at the start and restored after changes of the
//! host's network.
//!
//! The tunnel never fails open. Behind each route into the tunnel device stands an unreachable route with a worse
//! metric. When the kernel removes the routes of the device, as after `ip link set DEV down`, packets for peers are
//! rejected and do not leave unencrypted over the default route.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::Arc;

use ipnet::IpNet;
use kernel::{KernelError, Netlink, Route};
use serde::Serialize;

use crate::OverlayError;
use crate::members::subnets;
use crate::settings::Settings;

/// Metric of the routes into the tunnel. The host's connected networks take precedence: the kernel gives them metric 0
/// (IPv6: 256), NetworkManager up to 600 and 20,000 more without connectivity, systemd-networkd 1024, dhcpcd 3000 and
/// more.
const METRIC: u32 = 30_000;
/// Minimum metric of the unreachable routes. Each member adds its number, so that after a crash it finds its own
/// routes, and not those of another member in the same network namespace.
const UNREACHABLE_METRIC_MIN: u32 = 1 << 31;

/// State of the overlay's device, addresses and routes on this host.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct HostState {
    /// Whether the tunnel device is up.
    pub(crate) up: bool,
    /// Addresses of this member that the host lacks.
    pub(crate) missing_addresses: Vec<IpAddr>,
    /// Subnets of peers without a route into the tunnel.
    pub(crate) missing_routes: Vec<IpNet>,
    /// Subnets of peers for which another route of the host overrides the tunnel's, for example a connected network.
    pub(crate) other_routes: Vec<OtherRoute>,
}

impl HostState {
    /// Whether the device is up and no address or route is missing.
    pub(crate) fn is_complete(&self) -> bool {
        self.up && self.missing_addresses.is_empty() && self.missing_routes.is_empty()
    }
}

/// A route that overrides the tunnel's: the subnet of a peer, and the egress device; `None`: several devices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct OtherRoute {
    pub(crate) subnet: IpNet,
    pub(crate) device: Option<String>,
}

/// Result of [`HostRoutes::sync`].
#[derive(Debug, Default)]
pub(crate) struct SyncReport {
    pub(crate) state: HostState,
    pub(crate) restored: Restored,
    /// Errors of routes that the kernel rejected.
    pub(crate) rejected: Vec<KernelError>,
}

/// Addresses and routes that were removed from outside and have been added again.
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

/// Keeps the addresses and routes of the settings in place, as far as this user is permitted. Dropping it removes the
/// unreachable routes.
pub(crate) struct HostRoutes {
    settings: Arc<Settings>,
    /// The tunnel device's index.
    device: u32,
    may_change: bool,
    /// Subnets with routes at the last sync.
    known: BTreeSet<IpNet>,
    /// Whether a sync has completed: addresses that are missing later have been removed from outside.
    has_synced: bool,
}

impl HostRoutes {
    /// `device`: index of the tunnel device.
    pub(crate) fn new(settings: Arc<Settings>, device: u32) -> Self {
        let may_change = kernel::may_change_networks();
        Self { settings, device, may_change, known: BTreeSet::new(), has_synced: false }
    }

    /// Removes routes of earlier runs and adds the current ones.
    ///
    /// # Errors
    /// The kernel rejects a route.
    pub(crate) fn start(&mut self) -> Result<SyncReport, OverlayError> {
        if self.may_change {
            let mut netlink = Netlink::open()?;
            self.remove_unreachable(&mut netlink)?;
            // A persistent device keeps the routes of an earlier run, perhaps with another source or metric. Routes to
            // other devices stay.
            let stale = self.wanted().into_iter().map(|to| Route { source: None, metric: None, ..self.route(to) });
            let _ = netlink.remove_routes(&Vec::from_iter(stale));
        }
        let mut report = self.sync()?;
        match report.rejected.pop() {
            Some(error) => Err(error.into()),
            None => Ok(report),
        }
    }

    /// Reads the host's state and adds missing addresses and routes.
    ///
    /// # Errors
    /// A netlink request fails, or the device no longer exists.
    pub(crate) fn sync(&mut self) -> Result<SyncReport, KernelError> {
        let mut netlink = Netlink::open()?;
        let wanted = self.wanted();
        let mut report = SyncReport::default();
        report.state.up = netlink.link(self.device)?.up;
        self.sync_addresses(&mut netlink, &mut report)?;
        if self.may_change {
            self.add_routes(&mut netlink, &wanted, &mut report);
        }
        for to in &wanted {
            self.check_route(&mut netlink, *to, &mut report.state);
        }
        self.known = wanted;
        self.has_synced = true;
        Ok(report)
    }

    fn sync_addresses(&self, netlink: &mut Netlink, report: &mut SyncReport) -> Result<(), KernelError> {
        let present = netlink.addresses(self.device)?;
        for address in &self.settings.addresses {
            let is_present = if self.may_change { present.contains(address) } else { host_has(*address, self.device) };
            if is_present {
                continue;
            }
            let is_added = self.may_change && add_address(netlink, self.device, *address).is_ok();
            if !is_added {
                report.state.missing_addresses.push(*address);
            } else if self.has_synced {
                report.restored.addresses.push(*address);
            }
        }
        Ok(())
    }

    /// Adds missing routes. The unreachable routes come first, so that no packet leaves unencrypted in between.
    fn add_routes(&self, netlink: &mut Netlink, wanted: &BTreeSet<IpNet>, report: &mut SyncReport) {
        let mut routes = Vec::from_iter(wanted.iter().map(|to| self.unreachable(*to)));
        if report.state.up {
            routes.extend(wanted.iter().map(|to| self.route(*to)));
        }
        for (route, result) in routes.iter().zip(netlink.ensure_routes(&routes)) {
            match result {
                Ok(true) if self.known.contains(&route.to) => drop(report.restored.routes.insert(route.to)),
                Ok(_) => {}
                Err(error) => report.rejected.push(error),
            }
        }
    }

    /// Records a subnet whose route is missing or overridden.
    fn check_route(&self, netlink: &mut Netlink, to: IpNet, state: &mut HostState) {
        let Some(matched) = netlink.route_towards(middle(to)) else { return state.missing_routes.push(to) };
        if matched.device == Some(self.device) {
            return;
        }
        if matched.to.contains(&to) && matched.to.prefix_len() < to.prefix_len() {
            // A shorter prefix, such as the default route, is not a deliberate override.
            return state.missing_routes.push(to);
        }
        let device = matched.device.and_then(|index| netlink.link(index).ok()).map(|device| device.name);
        state.other_routes.push(OtherRoute { subnet: to, device });
    }

    /// Removes the routes to these subnets.
    pub(crate) fn remove(&mut self, subnets: &[IpNet]) -> Result<(), OverlayError> {
        if !self.may_change {
            let all = subnets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            tracing::warn!("the routes to {all} over {} remain; only root can remove them", self.settings.device);
            return Ok(());
        }
        let routes = subnets.iter().map(|to| self.route(*to)).chain(subnets.iter().map(|to| self.unreachable(*to)));
        // A route that is already removed is no error.
        let _ = Netlink::open()?.remove_routes(&Vec::from_iter(routes));
        Ok(())
    }

    fn wanted(&self) -> BTreeSet<IpNet> {
        subnets(&self.settings.members.get()).into_iter().map(|net| net.trunc()).collect()
    }

    /// Command with which root adds the route to a subnet.
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
        self.settings.identity.public().member().0 | UNREACHABLE_METRIC_MIN
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
            removed.unwrap_or_else(|e| tracing::warn!("unreachable routes to peers remain until the next start: {e}"));
        }
    }
}

/// Adds an address of this member to the tunnel device.
pub(crate) fn add_address(netlink: &mut Netlink, device: u32, address: IpAddr) -> Result<(), KernelError> {
    netlink.add_address(device, address, if address.is_ipv4() { 32 } else { 128 }, None)
}

/// Whether this host has an address; `device`: index of the tunnel device.
pub(crate) fn host_has(address: IpAddr, device: u32) -> bool {
    let at = match address {
        // A link-local address is valid only together with its device.
        IpAddr::V6(ip) if ip.is_unicast_link_local() => SocketAddrV6::new(ip, 0, 0, device).into(),
        IpAddr::V4(_) | IpAddr::V6(_) => SocketAddr::new(address, 0),
    };
    UdpSocket::bind(at).is_ok()
}

/// An address inside a network that the kernel treats as a host: the first and last address may be broadcast, and
/// 0.0.0.0/8 is special.
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
    fn the_route_of_a_network_is_looked_up_by_an_address_inside_it() {
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
