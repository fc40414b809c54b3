use std::net::{IpAddr, UdpSocket};

use ipnet::IpNet;
use kernel::{LinkSettings, Netlink, Route, Tun, TunKind};

use crate::OverlayError;
use crate::settings::Settings;

/// Packets that the device keeps for us; the kernel's own is 500.
const QUEUE: u32 = 1000;

/// The tunnel device with its addresses, and routes to what the members serve; and its index. Who may not change networks needs one that
/// has all of it already.
pub(crate) fn make(settings: &Settings) -> Result<(Tun, u32), OverlayError> {
    let what = || format!("the tunnel device {} (needs CAP_NET_ADMIN)", settings.device);
    let make = |offload| Tun::new(&settings.device, TunKind::Tun, offload);
    let tun = make(settings.offload.tun_gso).or_else(|first| {
        let plain = make(false).map_err(|_| first)?;
        tracing::warn!("this kernel hands over no super-packets (TUNSETOFFLOAD): packets come one by one");
        Ok(plain)
    });
    let tun = tun.map_err(OverlayError::io(what()))?;
    let mut netlink = Netlink::open()?;
    let device = netlink.index(tun.name())?;
    if !kernel::may_change_networks() {
        return prepared(settings, &mut netlink, device).map(|()| (tun, device));
    }
    let link = LinkSettings {
        up: Some(true),
        mtu: Some(u32::from(settings.mtu)),
        tx_queue_len: Some(QUEUE),
        ipv6_address_generation_off: true,
        ..LinkSettings::default()
    };
    netlink.set_link(device, &LinkSettings { up: None, ..link })?;
    for address in &settings.addresses {
        netlink.add_address(device, *address, if address.is_ipv4() { 32 } else { 128 }, None)?;
    }
    netlink.set_link(device, &link)?;
    let subnets: Vec<IpNet> = settings.members.get().values().flat_map(|m| m.subnets.clone()).collect();
    add_routes(settings, device, &subnets)?;
    Ok((tun, device))
}

/// Looks whether somebody who may has made the device ready.
fn prepared(settings: &Settings, netlink: &mut Netlink, device: u32) -> Result<(), OverlayError> {
    let name = &settings.device;
    let is_up = netlink.links()?.iter().any(|d| d.index == device && d.up && d.mtu <= u32::from(settings.mtu));
    let refuse = |what: String| {
        let rest = "without CAP_NET_ADMIN a device is needed that root has made ready for this user";
        Err(OverlayError::Refused(format!("{what}: {rest} (see \"Without root\" in the guide)")))
    };
    if !is_up {
        return refuse(format!("the tunnel device {name} is down, or its MTU larger than {}", settings.mtu));
    }
    match settings.addresses.iter().find(|a| UdpSocket::bind((**a, 0)).is_err()) {
        Some(address) => refuse(format!("this host has no address {address}")),
        None => Ok(()),
    }
}

/// Lets packets for these go to the device.
pub(crate) fn add_routes(settings: &Settings, device: u32, subnets: &[IpNet]) -> Result<(), OverlayError> {
    Ok(Netlink::open()?.add_routes(&routes(settings, device, subnets))?)
}

/// Packets for these no longer go there.
pub(crate) fn remove_routes(settings: &Settings, device: u32, subnets: &[IpNet]) -> Result<(), OverlayError> {
    Ok(Netlink::open()?.remove_routes(&routes(settings, device, subnets))?)
}

fn routes(settings: &Settings, device: u32, subnets: &[IpNet]) -> Vec<Route> {
    let own = |net: &IpNet| settings.addresses.iter().find(|a: &&IpAddr| a.is_ipv4() == net.addr().is_ipv4()).copied();
    let route = |to: &IpNet| Route { to: *to, via: None, device, onlink: false, source: own(to) };
    subnets.iter().map(route).collect()
}
