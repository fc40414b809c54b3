use std::io;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State, Stats64,
};
use units::Bytes;

use super::socket::Request;

/// Changes to a device; absent settings stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkSettings {
    /// Administratively up or down (IFF_UP).
    pub up: Option<bool>,
    /// Largest packet in bytes, without the Ethernet header.
    pub mtu: Option<u32>,
    /// Length of the device's own queue in packets; queueing disciplines take it as their default limit.
    pub tx_queue_len: Option<u32>,
    /// Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// Stops the kernel from generating an IPv6 link-local address (IN6_ADDR_GEN_MODE_NONE). Takes effect before the
    /// device comes up.
    pub ipv6_address_generation_off: bool,
}

/// Counters of a device in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets; a GSO or GRO super-packet counts as one.
    pub packets: u64,
    /// Bytes, with the Ethernet header where the device has one.
    pub bytes: Bytes,
    /// Packets discarded for want of buffer space or, on receiving, because they were unwanted.
    pub dropped: u64,
    /// Packets that were damaged or could not be sent.
    pub errors: u64,
}

/// Counters of a device since its creation (struct rtnl_link_stats64), from the host's point of view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Into the host.
    pub received: Counters,
    /// Out of the host.
    pub sent: Counters,
}

/// A network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Index in its network namespace.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Ethernet address, where the device has one.
    pub mac: Option<[u8; 6]>,
    /// Largest packet in bytes, without the Ethernet header.
    pub mtu: u32,
    /// Length of the device's own queue in packets.
    pub tx_queue_len: u32,
    /// Administratively up (IFF_UP).
    pub up: bool,
    /// The device has a carrier (IFLA_CARRIER): a cable or, for a tunnel device, a process that holds one of its
    /// queues.
    pub carrier: bool,
    /// The device is operational: up, with a carrier and an attached queue (RFC 2863 states up and unknown). If the
    /// other end of a pair is set up last, the kernel reaches this state some time after `up` and silently drops
    /// earlier packets.
    pub operational: bool,
    /// Hardware type (ARPHRD_* in linux/if_arp.h): 1 is Ethernet, 772 loopback, 65534 none (TUN).
    pub hardware: u16,
    /// Kind of a virtual device (IFLA_INFO_KIND), such as `veth` or `ifb`.
    pub kind: Option<String>,
    /// Number of transmit queues.
    pub tx_queues: u32,
    /// Largest super-packet that the kernel passes to the device, in bytes (IFLA_GSO_MAX_SIZE); `None` where the
    /// kernel does not report it.
    pub gso_max_size: Option<u32>,
    /// Kind of the root queueing discipline.
    pub qdisc: Option<String>,
    /// Counters.
    pub statistics: Statistics,
}

/// Builds the requests that change a device, in order.
pub(super) fn changes(index: u32, settings: &LinkSettings) -> Vec<Request> {
    let mut attributes = Vec::new();
    attributes.extend(settings.mac.map(|mac| LinkAttribute::Address(mac.to_vec())));
    attributes.extend(settings.mtu.map(LinkAttribute::Mtu));
    attributes.extend(settings.tx_queue_len.map(LinkAttribute::TxQueueLen));
    let mut message = about(index);
    message.attributes = attributes;
    if let Some(up) = settings.up {
        message.header.change_mask = LinkFlags::Up;
        message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
    }
    vec![Request { message: RouteNetlinkMessage::SetLink(message), flags: 0 }]
}

/// Builds the request that disables automatic IPv6 addresses.
pub(super) fn without_own_addresses(index: u32) -> Request {
    let mut message = about(index);
    let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
    message.attributes.push(LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![mode])]));
    Request { message: RouteNetlinkMessage::SetLink(message), flags: 0 }
}

/// Builds the query for a device by its index.
pub(super) fn by_index(index: u32) -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetLink(about(index))
}

/// Builds the query for a device by its name.
pub(super) fn by_name(name: &str) -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.to_owned()));
    RouteNetlinkMessage::GetLink(message)
}

fn about(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

/// Parses a device from the kernel's answer. A missing number is an error, never zero.
pub(super) fn device(answer: RouteNetlinkMessage) -> io::Result<Device> {
    let RouteNetlinkMessage::NewLink(message) = answer else { return Err(incomplete("a device")) };
    let (mut name, mut mac, mut mtu, mut queue, mut state, mut counted) = (None, None, None, None, None, None);
    let (mut kind, mut tx_queues, mut gso_max_size, mut qdisc, mut carrier) = (None, 1, None, None, false);
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(v) => name = Some(v),
            LinkAttribute::Address(v) => mac = <[u8; 6]>::try_from(v).ok(),
            LinkAttribute::Mtu(v) => mtu = Some(v),
            LinkAttribute::TxQueueLen(v) => queue = Some(v),
            LinkAttribute::OperState(v) => state = Some(v),
            LinkAttribute::Stats64(v) => counted = Some(statistics(&v)),
            LinkAttribute::LinkInfo(v) => kind = info_kind(v),
            LinkAttribute::NumTxQueues(v) => tx_queues = v,
            LinkAttribute::GsoMaxSize(v) => gso_max_size = Some(v),
            LinkAttribute::Qdisc(v) => qdisc = Some(v),
            LinkAttribute::Carrier(v) => carrier = v != 0,
            _ => {}
        }
    }
    let up = message.header.flags.contains(LinkFlags::Up);
    let state = state.ok_or_else(|| incomplete("a state"))?;
    Ok(Device {
        index: message.header.index,
        name: name.ok_or_else(|| incomplete("a name"))?,
        mac,
        mtu: mtu.ok_or_else(|| incomplete("an MTU"))?,
        tx_queue_len: queue.ok_or_else(|| incomplete("a queue length"))?,
        up,
        carrier,
        hardware: u16::from(message.header.link_layer_type),
        kind,
        tx_queues,
        gso_max_size,
        qdisc,
        operational: up && matches!(state, State::Up | State::Unknown),
        statistics: counted.ok_or_else(|| incomplete("statistics"))?,
    })
}

fn info_kind(info: Vec<LinkInfo>) -> Option<String> {
    info.into_iter().find_map(|i| if let LinkInfo::Kind(kind) = i { Some(kind.to_string()) } else { None })
}

fn incomplete(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the kernel's answer lacks the {}", what.trim_start_matches("an ").trim_start_matches("a ")),
    )
}

fn statistics(counted: &Stats64) -> Statistics {
    Statistics {
        received: Counters {
            packets: counted.rx_packets,
            bytes: Bytes::new(counted.rx_bytes),
            dropped: counted.rx_dropped,
            errors: counted.rx_errors,
        },
        sent: Counters {
            packets: counted.tx_packets,
            bytes: Bytes::new(counted.tx_bytes),
            dropped: counted.tx_dropped,
            errors: counted.tx_errors,
        },
    }
}
