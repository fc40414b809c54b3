//! Creation of the tunnel device, its addresses and its offloads.

use std::io::ErrorKind;

use kernel::{Device, LinkSettings, Netlink, Tun, TunKind};

use crate::OverlayError;
use crate::host_routes::{add_address, host_has};
use crate::offload::accepts_super_packets;
use crate::settings::Settings;

/// Transmit queue length of the device in packets; the kernel's default is 500.
const TX_QUEUE_PACKETS: u32 = 1000;

/// Creates or opens the tunnel device and configures it; returns its queues and its index. Without CAP_NET_ADMIN the
/// device must exist and be configured. Unsupported offloads are turned off in the settings.
pub(crate) fn create(settings: &mut Settings, queues: usize) -> Result<(Vec<Tun>, u32), OverlayError> {
    let mut netlink = Netlink::open()?;
    let tuns = open(settings, &mut netlink, queues)?;
    let device = netlink.index(tuns[0].name())?;
    settings.offload.tun_gso &= tuns.iter().all(|tun| tun.offloads().tcp);
    let is_down = netlink.links()?.iter().any(|d| d.index == device && !d.up);
    if settings.offload.tun_gro && is_down && !accepts_super_packets(&tuns[0]) {
        settings.offload.tun_gro = false;
        tracing::warn!("tun_gro is off: this kernel rejects super-packets; packets are delivered one by one");
    }
    if !kernel::may_change_networks() {
        return check_prepared(settings, &mut netlink, device).map(|()| (tuns, device));
    }
    let link = LinkSettings {
        up: Some(true),
        mtu: Some(u32::from(settings.mtu)),
        tx_queue_len: Some(TX_QUEUE_PACKETS),
        ipv6_address_generation_off: true,
        ..LinkSettings::default()
    };
    netlink.set_link(device, &LinkSettings { up: None, ..link })?;
    for address in &settings.addresses {
        match add_address(&mut netlink, device, *address) {
            // A persistent device keeps the address of an earlier run.
            Err(e) if e.source.kind() == ErrorKind::AlreadyExists => {}
            done => done?,
        }
    }
    netlink.set_link(device, &link)?;
    warn_about_forwarding(settings);
    Ok((tuns, device))
}

/// Hardware type of a TUN device (ARPHRD_NONE in linux/if_arp.h); a TAP device has that of Ethernet.
const HARDWARE_NONE: u16 = 65_534;

/// Checks that no device has the name, or a TUN device. If the kernel does not list its devices, [`create`] reports the
/// error.
pub(crate) fn check(name: &str) -> Result<(), String> {
    let devices = Netlink::open().and_then(|mut netlink| netlink.links()).unwrap_or_default();
    devices.iter().find(|d| d.name == name).map_or(Ok(()), is_tunnel)
}

fn is_tunnel(existing: &Device) -> Result<(), String> {
    if existing.kind.as_deref() == Some("tun") && existing.hardware == HARDWARE_NONE {
        return Ok(());
    }
    Err(format!("{} exists and is not a TUN device; set `device` to another name", existing.name))
}

/// Opens `queues` queues of the device, or one if the device exists with a single queue.
fn open(settings: &Settings, netlink: &mut Netlink, queues: usize) -> Result<Vec<Tun>, OverlayError> {
    let (name, offload) = (&settings.device, settings.offload.tun_gso);
    let existing = netlink.links()?.into_iter().find(|d| d.name == *name);
    let checked = existing.as_ref().map_or(Ok(()), is_tunnel);
    checked.map_err(|what| OverlayError::Settings { path: settings.path.clone(), what })?;
    if existing.as_ref().is_some_and(|d| d.carrier) {
        return Err(OverlayError::Refused(format!(
            "another process uses the tunnel device {name}; stop it, or set `device` to another name"
        )));
    }
    let attach = |several: bool, offload| match several {
        true => Tun::with_queues(name, TunKind::Tun, offload, queues, existing.is_some()),
        false => Tun::new(name, TunKind::Tun, offload).map(|tun| vec![tun]),
    };
    // Only an attempt shows whether an existing device has one queue or several.
    let either = |offload| match attach(queues > 1, offload) {
        Err(first) if existing.is_some() => attach(queues == 1, offload).map_err(|_| first),
        done => done,
    };
    let tuns = either(offload).or_else(|first| {
        let plain = either(false).map_err(|_| first)?;
        tracing::warn!("tun_gso is off: this kernel has no TUN offloads (TUNSETOFFLOAD); packets are read one by one");
        Ok(plain)
    });
    let tuns = tuns.map_err(OverlayError::io(format!("the tunnel device {name} (needs CAP_NET_ADMIN)")))?;
    if tuns.len() < queues {
        tracing::warn!("the tunnel device {name} has a single queue; one thread sends and one receives");
    }
    Ok(tuns)
}

/// Checks that root has prepared the device for this user.
fn check_prepared(settings: &Settings, netlink: &mut Netlink, device: u32) -> Result<(), OverlayError> {
    let name = &settings.device;
    let is_up = netlink.links()?.iter().any(|d| d.index == device && d.up && d.mtu <= u32::from(settings.mtu));
    let refuse = |what: String| {
        let hint = "without CAP_NET_ADMIN, root must prepare the device (see \"Without root\" in the guide)";
        Err(OverlayError::Refused(format!("{what}; {hint}")))
    };
    if !is_up {
        return refuse(format!("the tunnel device {name} is down, or its MTU is larger than {}", settings.mtu));
    }
    warn_about_forwarding(settings);
    match settings.addresses.iter().find(|a| !host_has(**a, device)) {
        Some(address) => refuse(format!("this host has no address {address}")),
        None => Ok(()),
    }
}

fn warn_about_forwarding(settings: &Settings) {
    for key in disabled_forwarding(settings) {
        tracing::warn!("IP forwarding to `subnets` is disabled; enable it with `sysctl -w {key}=1`");
    }
}

/// Sysctl keys that disable forwarding to the subnets behind this host.
fn disabled_forwarding(settings: &Settings) -> impl Iterator<Item = &'static str> {
    let has = move |v4: bool| settings.subnets.iter().any(|s| s.addr().is_ipv4() == v4);
    let families = [(true, "net.ipv4.ip_forward"), (false, "net.ipv6.conf.all.forwarding")];
    let is_off = |key: &str| kernel::read_sysctl(key).is_ok_and(|value| value.trim() == "0");
    families.into_iter().filter(move |(v4, key)| has(*v4) && is_off(key)).map(|(_, key)| key)
}
