use std::net::IpAddr;

use ipnet::IpNet;
use kernel::{LinkSettings, Netlink, Route, Tun, TunKind};

use crate::OverlayError;
use crate::settings::Settings;

/// Packets that the device keeps for us; the kernel's own is 500.
const QUEUE: u32 = 1000;

/// The tunnel device with its addresses, and routes to what the members serve; and its index.
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

/// Lets packets for these go to the device.
pub(crate) fn add_routes(settings: &Settings, device: u32, subnets: &[IpNet]) -> Result<(), OverlayError> {
    let own = |net: &IpNet| settings.addresses.iter().find(|a: &&IpAddr| a.is_ipv4() == net.addr().is_ipv4()).copied();
    let route = |to: &IpNet| Route { to: *to, via: None, device, onlink: false, source: own(to) };
    let routes: Vec<Route> = subnets.iter().map(route).collect();
    Ok(Netlink::open()?.add_routes(&routes)?)
}
