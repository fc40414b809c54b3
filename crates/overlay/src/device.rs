use std::io::ErrorKind;

use kernel::{Device, LinkSettings, Netlink, Tun, TunKind};

use crate::OverlayError;
use crate::host_routes::{add_address, host_has};
use crate::offload::takes_super_packets;
use crate::settings::Settings;

/// Packets that the device keeps for us; the kernel's own is 500.
const QUEUE: u32 = 1000;

/// The queues of the tunnel device, with its addresses; and its index. Who may not change networks needs one that has all of it already. What it does not do is turned off in the settings.
pub(crate) fn make(settings: &mut Settings, queues: usize) -> Result<(Vec<Tun>, u32), OverlayError> {
    let mut netlink = Netlink::open()?;
    let tuns = open(settings, &mut netlink, queues)?;
    let device = netlink.index(tuns[0].name())?;
    settings.offload.tun_gso &= tuns.iter().all(|tun| tun.offloads().tcp);
    let is_down = netlink.links()?.iter().any(|d| d.index == device && !d.up);
    if settings.offload.tun_gro && is_down && !takes_super_packets(&tuns[0]) {
        settings.offload.tun_gro = false;
        tracing::warn!("tun_gro is off: this kernel refuses super-packets; packets are handed over one by one");
    }
    if !kernel::may_change_networks() {
        return prepared(settings, &mut netlink, device).map(|()| (tuns, device));
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
        match add_address(&mut netlink, device, *address) {
            // Whom the device outlives leaves its address there.
            Err(e) if e.source.kind() == ErrorKind::AlreadyExists => {}
            done => done?,
        }
    }
    netlink.set_link(device, &link)?;
    for key in not_forwarded(settings) {
        tracing::warn!("this host forwards nothing to the networks behind it (`subnets`): sysctl -w {key}=1");
    }
    Ok((tuns, device))
}

/// The hardware of a tunnel of IP packets (ARPHRD_NONE in linux/if_arp.h); that of frames has Ethernet's.
const NONE: u16 = 65_534;

/// Looks whether the device can be made, or taken: nothing of that name is there, or a tunnel. Where the kernel does not tell, [`make`] will.
pub(crate) fn check(name: &str) -> Result<(), String> {
    let devices = Netlink::open().and_then(|mut netlink| netlink.links()).unwrap_or_default();
    devices.iter().find(|d| d.name == name).map_or(Ok(()), is_tunnel)
}

fn is_tunnel(there: &Device) -> Result<(), String> {
    if there.kind.as_deref() == Some("tun") && there.hardware == NONE {
        return Ok(());
    }
    Err(format!("`device` is {}, which is there and is no tunnel device", there.name))
}

/// As many queues of the device as are wanted, or one where somebody made the device for one.
fn open(settings: &Settings, netlink: &mut Netlink, queues: usize) -> Result<Vec<Tun>, OverlayError> {
    let (name, offload) = (&settings.device, settings.offload.tun_gso);
    let there = netlink.links()?.into_iter().find(|d| d.name == *name);
    let checked = there.as_ref().map_or(Ok(()), is_tunnel);
    checked.map_err(|what| OverlayError::Settings { path: settings.path.clone(), what })?;
    if there.as_ref().is_some_and(|d| d.carrier) {
        return Err(OverlayError::Refused(format!(
            "another process has the tunnel device {name}; `device` names another"
        )));
    }
    let attach = |several: bool, offload| match several {
        true => Tun::with_queues(name, TunKind::Tun, offload, queues, there.is_some()),
        false => Tun::new(name, TunKind::Tun, offload).map(|tun| vec![tun]),
    };
    // A device that is there was made for one queue or for several; nothing but trying tells.
    let either = |offload| match attach(queues > 1, offload) {
        Err(first) if there.is_some() => attach(queues == 1, offload).map_err(|_| first),
        done => done,
    };
    let tuns = either(offload).or_else(|first| {
        let plain = either(false).map_err(|_| first)?;
        tracing::warn!(
            "tun_gso is off: this kernel hands over no super-packets (TUNSETOFFLOAD); packets come one by one"
        );
        Ok(plain)
    });
    let tuns = tuns.map_err(OverlayError::io(format!("the tunnel device {name} (needs CAP_NET_ADMIN)")))?;
    if tuns.len() < queues {
        tracing::warn!("the tunnel device {name} was made for one queue: one thread sends, one receives");
    }
    Ok(tuns)
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
    for key in not_forwarded(settings) {
        tracing::warn!("this host does not pass on what is for the networks behind it; for that root sets {key}=1");
    }
    match settings.addresses.iter().find(|a| !host_has(**a, device)) {
        Some(address) => refuse(format!("this host has no address {address}")),
        None => Ok(()),
    }
}

/// The kernel's settings that keep this host from passing on what is for the networks behind it.
fn not_forwarded(settings: &Settings) -> impl Iterator<Item = &'static str> {
    let has = move |v4: bool| settings.subnets.iter().any(|s| s.addr().is_ipv4() == v4);
    let families = [(true, "net.ipv4.ip_forward"), (false, "net.ipv6.conf.all.forwarding")];
    let is_off = |key: &str| kernel::read_sysctl(key).is_ok_and(|value| value.trim() == "0");
    families.into_iter().filter(move |(v4, key)| has(*v4) && is_off(key)).map(|(_, key)| key)
}
