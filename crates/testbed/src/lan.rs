use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::qdisc::{self, Bottleneck};
use crate::{Counters, Namespace};

/// Serialises the networks of a process: test machines have two cores, and simultaneous loads would disturb each other.
static IN_USE: Mutex<()> = Mutex::new(());

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 99, 1, 2);
const ROUTER_NEAR: Ipv4Addr = Ipv4Addr::new(10, 99, 1, 1);
const ROUTER_FAR: Ipv4Addr = Ipv4Addr::new(10, 99, 2, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 99, 2, 2);
/// Address of the server on the client's network.
const SERVER_NEAR: Ipv4Addr = Ipv4Addr::new(10, 99, 1, 3);

/// An interface through which the load leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The client's interface.
    Client,
    /// The server's interface.
    Server,
    /// The router's interface towards the server.
    Router,
}

/// Two hosts on a virtual cable or behind a router. Dropping the value removes the network.
#[derive(Debug)]
pub struct Lan {
    /// Runs `longhaul test`.
    pub client: Namespace,
    /// Runs `longhaul serve`.
    pub server: Namespace,
    router: Option<Namespace>,
    _turn: MutexGuard<'static, ()>,
}

impl Lan {
    /// Client and server on one cable (a veth pair). Waits until no other network of this process is in use.
    ///
    /// # Errors
    /// `PermissionDenied` without root; otherwise the error of iproute2.
    pub fn two_hosts() -> io::Result<Self> {
        let lan = Self::nodes(false)?;
        cable(&lan.client, "eth0", CLIENT, &lan.server, "eth0", SERVER_NEAR)?;
        Ok(lan)
    }

    /// Client and server on either side of a router. Waits until no other network of this process is in use.
    ///
    /// # Errors
    /// As [`Self::two_hosts`].
    pub fn with_router() -> io::Result<Self> {
        let lan = Self::nodes(true)?;
        if let Some(router) = &lan.router {
            cable(&lan.client, "eth0", CLIENT, router, "near", ROUTER_NEAR)?;
            cable(&lan.server, "eth0", SERVER, router, "far", ROUTER_FAR)?;
            router.set("net/ipv4/ip_forward", "1")?;
            lan.client.iproute(&format!("ip route add default via {ROUTER_NEAR}"))?;
            lan.server.iproute(&format!("ip route add default via {ROUTER_FAR}"))?;
        }
        Ok(lan)
    }

    fn nodes(routed: bool) -> io::Result<Self> {
        // A test that failed while holding the lock left no network behind, so that a poisoned lock is usable.
        let turn = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let router = if routed { Some(Namespace::new()?) } else { None };
        Ok(Self { client: Namespace::new()?, server: Namespace::new()?, router, _turn: turn })
    }

    /// Address of the server.
    pub fn server_ip(&self) -> IpAddr {
        if self.router.is_some() { SERVER.into() } else { SERVER_NEAR.into() }
    }

    /// Address of the client.
    pub fn client_ip(&self) -> IpAddr {
        CLIENT.into()
    }

    /// Puts a bottleneck in front of an interface.
    ///
    /// # Errors
    /// The error of tc.
    ///
    /// # Panics
    /// `Place::Router` without a router.
    pub fn shape(&self, place: Place, bottleneck: &Bottleneck) -> io::Result<()> {
        let (node, device) = self.interface(place);
        qdisc::shape(node, device, bottleneck)
    }

    /// Bytes in the queue of an interface.
    ///
    /// # Errors
    /// The error of tc.
    pub fn backlog(&self, place: Place) -> io::Result<u64> {
        let (node, device) = self.interface(place);
        qdisc::backlog(node, device)
    }

    /// Watches the backlog of an interface.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn watch(&self, place: Place) -> io::Result<qdisc::BacklogWatch> {
        let (node, device) = self.interface(place);
        qdisc::BacklogWatch::start(node, device)
    }

    /// Counters of an interface since its creation.
    ///
    /// # Errors
    /// The error of ip.
    pub fn counters(&self, place: Place) -> io::Result<Counters> {
        let (node, device) = self.interface(place);
        qdisc::counters(node, device)
    }

    /// Makes the router silently drop IP packets of more than `bytes` towards the host at `place` (nft). The hosts
    /// disable segmentation offload, so that the router sees the transmitted packets.
    ///
    /// # Errors
    /// The error of ip or nft.
    ///
    /// # Panics
    /// The network has no router.
    pub fn drop_larger_towards(&self, place: Place, bytes: u32) -> io::Result<()> {
        let Some(router) = &self.router else { panic!("this network has no router") };
        for host in [&self.client, &self.server] {
            host.iproute("ip link set dev eth0 gso_max_segs 1")?;
        }
        let device = if place == Place::Client { "near" } else { "far" };
        router.iproute("nft add table ip t")?;
        router.iproute("nft add chain ip t f { type filter hook forward priority 0 ; }")?;
        router.iproute(&format!("nft add rule ip t f oifname {device} meta length > {bytes} drop")).map(|_| ())
    }

    /// Disconnects a host without notifying its peer.
    ///
    /// # Errors
    /// The error of ip.
    pub fn unplug(&self, place: Place) -> io::Result<()> {
        let (node, device) = self.interface(place);
        node.iproute(&format!("ip link set {device} down")).map(|_| ())
    }

    fn interface(&self, place: Place) -> (&Namespace, &'static str) {
        match (place, &self.router) {
            (Place::Client, _) => (&self.client, "eth0"),
            (Place::Server, _) => (&self.server, "eth0"),
            (Place::Router, Some(router)) => (router, "far"),
            (Place::Router, None) => panic!("this network has no router"),
        }
    }
}

/// Both ends are created inside the namespaces, so that their names conflict with no other device.
fn cable(a: &Namespace, a_name: &str, a_ip: Ipv4Addr, b: &Namespace, b_name: &str, b_ip: Ipv4Addr) -> io::Result<()> {
    a.iproute(&format!("ip link add {a_name} type veth peer name {b_name} netns {}", b.path()))?;
    for (node, name, ip) in [(a, a_name, a_ip), (b, b_name, b_ip)] {
        node.iproute(&format!("ip address add {ip}/24 dev {name}"))?;
        node.iproute(&format!("ip link set {name} up"))?;
    }
    Ok(())
}

/// Returns the network, or `None` with a note if this process lacks the privilege.
///
/// # Panics
/// The network could not be created for another reason, which is a failed test.
#[allow(clippy::print_stderr, reason = "a skipped test must not look like a passed one")]
pub fn or_skip<T>(made: io::Result<T>) -> Option<T> {
    match made {
        Ok(made) => Some(made),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            eprintln!("skipped: network namespaces need root (CAP_SYS_ADMIN, CAP_NET_ADMIN)");
            None
        }
        Err(e) => panic!("the test network could not be made: {e}"),
    }
}
