//! Present traffic control of a device.

use kernel::Netlink;
use shaping::{Device, Plan, SidePlan};
use tc::{Classifier, Discipline, Filter, Handle, Object, Operation, Qdisc, Tree};
use units::Bytes;

use super::ShapeError;

/// A device and its traffic control.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) device: Device,
    /// Objects below the root; empty for the kernel's default.
    pub(super) egress: Tree,
    /// Objects below the parent of ingress filters.
    pub(super) ingress: Tree,
}

/// Kinds of hardware with an Ethernet header (ARPHRD_ETHER, ARPHRD_LOOPBACK in linux/if_arp.h).
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;
/// Default size of super-packets in bytes (GSO_LEGACY_MAX_SIZE).
const SUPER_PACKET_BYTES_DEFAULT: u64 = 65_536;

pub(super) fn observe(netlink: &mut Netlink, name: &str) -> Result<Found, ShapeError> {
    let device = device(netlink, name)?;
    let (egress, ingress) = traffic_control(netlink, device.index)?;
    Ok(Found { device, egress, ingress })
}

/// Properties of a device.
pub(super) fn device(netlink: &mut Netlink, name: &str) -> Result<Device, ShapeError> {
    let all = netlink.links()?;
    let Some(found) = all.iter().find(|d| d.name == name) else {
        let known: Vec<&str> = all.iter().map(|d| d.name.as_str()).collect();
        return Err(ShapeError::NoDevice { device: name.to_owned(), known: known.join(", ") });
    };
    Ok(described(found))
}

pub(super) fn described(found: &kernel::Device) -> Device {
    Device {
        name: found.name.clone(),
        index: found.index,
        // The loopback device has an Ethernet header, too.
        ethernet: matches!(found.hardware, ARPHRD_ETHER | ARPHRD_LOOPBACK),
        mtu: found.mtu,
        super_packet: found.gso_max_size.map_or(Bytes::new(SUPER_PACKET_BYTES_DEFAULT), |n| Bytes::new(u64::from(n))),
    }
}

/// The objects of a device: egress, ingress.
pub(super) fn traffic_control(netlink: &mut Netlink, index: u32) -> Result<(Tree, Tree), ShapeError> {
    let objects = netlink.traffic_control(index)?.into_iter().map(|(object, _)| object);
    let (incoming, outgoing): (Vec<Object>, Vec<Object>) = objects.partition(is_incoming);
    Ok((Tree::found(outgoing), Tree::found(incoming)))
}

fn is_incoming(object: &Object) -> bool {
    let above = |handle: Handle| handle.major() == Handle::INGRESS_QDISC.major();
    match object {
        Object::Qdisc(qdisc) => qdisc.parent == Handle::INGRESS,
        Object::Class(class) => above(class.handle),
        Object::OtherClass(class) => above(class.handle),
        Object::Filter(filter) => above(filter.parent),
    }
}

pub(super) fn is_empty(tree: &Tree) -> bool {
    *tree == Tree::default()
}

pub(super) fn root(tree: &Tree) -> Option<&Qdisc> {
    tree.qdiscs.iter().find(|q| q.parent == Handle::ROOT)
}

/// Describes a tree for people: `htb 1:, fq_codel 10:`.
pub(super) fn describe(tree: &Tree) -> String {
    let first: Vec<String> =
        tree.qdiscs.iter().take(3).map(|q| format!("{} {}", q.discipline.kind(), q.handle)).collect();
    let more = tree.qdiscs.len().saturating_sub(first.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}

/// Id of the classifier program in a tree.
pub(super) fn program(tree: &Tree) -> Option<u32> {
    tree.filters.iter().find_map(|f| match &f.classifier {
        Classifier::Bpf(program) => Some(program.id),
        Classifier::U32 { .. } | Classifier::Other { .. } => None,
    })
}

/// Sets the program of a tree's filters: one to attach, or an attached one with this id.
pub(super) fn set_program(tree: &mut Tree, descriptor: Option<i32>, id: u32) {
    for Filter { classifier, .. } in &mut tree.filters {
        if let Classifier::Bpf(program) = classifier {
            (program.descriptor, program.id) = (descriptor, id);
        }
    }
}

/// Whether this plan or an earlier one of longhaul built the tree.
pub(super) fn is_ours(tree: &Tree, side: &SidePlan) -> bool {
    let same = |a: &Qdisc, b: &Qdisc| a.handle == b.handle && matches!(a.discipline, Discipline::Htb(_));
    matches!((root(tree), root(&side.tree)), (Some(found), Some(ours)) if same(found, ours))
}

/// The operations that turn the present state into the plan: on the device, and on the IFB device.
pub(super) fn operations(plan: &Plan, found: &Found, ifb: &Tree) -> [Vec<Operation>; 2] {
    let mut own = Vec::new();
    let mut other = Vec::new();
    if let Some(ingress) = &plan.ingress {
        other = ingress.side.tree.operations_from(ifb);
        own = ingress.hook.operations_from(&found.ingress);
    }
    if let Some(egress) = &plan.egress {
        own.extend(egress.tree.operations_from(&found.egress));
    }
    [own, other]
}
