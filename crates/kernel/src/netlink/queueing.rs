//! Queueing disciplines, classes and filters, and batches of changes.

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use netlink_packet_core::{Emitable, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use tc::{Discipline, Handle, Object, Operation, Statistics};

use super::Netlink;
use super::socket::{RawRequest, Refused};
use crate::{KernelError, Op};

/// Kinds of messages (linux/rtnetlink.h).
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETQDISC: u16 = 38;
const RTM_GETTCLASS: u16 = 42;
const RTM_GETTFILTER: u16 = 46;
/// Attribute without a value: also lists the disciplines that the kernel created by itself.
const TCA_DUMP_INVISIBLE: u16 = 10;
/// The two parents of `clsact` filters (TC_H_MIN_INGRESS and TC_H_MIN_EGRESS).
const CLSACT_INGRESS: Handle = Handle::new(0xffff, 0xfff2);
const CLSACT_EGRESS: Handle = Handle::new(0xffff, 0xfff3);

/// One change of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A change of traffic control.
    Tc {
        /// Index of the device.
        device: u32,
        /// The operation.
        operation: Operation,
    },
    /// A change of traffic control, as a prebuilt message.
    Message {
        /// Index of the device, which the message names as well.
        device: u32,
        /// The message.
        message: tc::Message,
    },
    /// Creates an IFB device. Its index is chosen here, so that later changes of the batch can refer to it.
    AddIfb {
        /// Name of the device.
        name: String,
        /// Index of the device.
        index: u32,
        /// Length of its queue in packets.
        tx_queue_len: u32,
    },
    /// Removes a device.
    DeleteLink {
        /// Index of the device.
        index: u32,
    },
    /// Sets a device administratively up or down.
    SetUp {
        /// Index of the device.
        index: u32,
        /// Up or down.
        up: bool,
    },
    /// Sets the length of a device's transmit queue.
    SetTxQueueLen {
        /// Index of the device.
        index: u32,
        /// Length in packets.
        packets: u32,
    },
}

impl Change {
    /// Index of the device that changes.
    fn device(&self) -> u32 {
        match self {
            Self::Tc { device: index, .. }
            | Self::Message { device: index, .. }
            | Self::AddIfb { index, .. }
            | Self::DeleteLink { index }
            | Self::SetUp { index, .. }
            | Self::SetTxQueueLen { index, .. } => *index,
        }
    }

    fn request(&self) -> RawRequest {
        match self {
            Self::Tc { device, operation } => raw(operation.message(*device)),
            Self::Message { message, .. } => raw(message.clone()),
            Self::AddIfb { name, tx_queue_len, .. } => {
                let attributes = vec![
                    LinkAttribute::IfName(name.clone()),
                    LinkAttribute::TxQueueLen(*tx_queue_len),
                    LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Ifb)]),
                ];
                self.about_link(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, None, attributes)
            }
            Self::DeleteLink { .. } => self.about_link(RTM_DELLINK, 0, None, Vec::new()),
            Self::SetUp { up, .. } => self.about_link(RTM_NEWLINK, 0, Some(*up), Vec::new()),
            Self::SetTxQueueLen { packets, .. } => {
                self.about_link(RTM_NEWLINK, 0, None, vec![LinkAttribute::TxQueueLen(*packets)])
            }
        }
    }

    fn about_link(&self, kind: u16, flags: u16, up: Option<bool>, attributes: Vec<LinkAttribute>) -> RawRequest {
        let mut message = LinkMessage::default();
        message.header.index = self.device();
        message.attributes = attributes;
        if let Some(up) = up {
            message.header.change_mask = LinkFlags::Up;
            message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        }
        let mut body = vec![0; message.buffer_len()];
        message.emit(&mut body);
        RawRequest { kind, flags, body }
    }
}

fn raw(tc::Message { kind, flags, body }: tc::Message) -> RawRequest {
    RawRequest { kind, flags, body }
}

impl fmt::Display for Change {
    /// Writes the change as `adding class 1:10 on`, to be followed by the device's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tc { operation, .. } => write!(f, "{operation} on"),
            Self::Message { .. } => f.write_str("restoring the earlier traffic control of"),
            Self::AddIfb { name, .. } => write!(f, "creating the IFB device {name},"),
            Self::DeleteLink { .. } => f.write_str("deleting"),
            Self::SetUp { up, .. } => write!(f, "setting {}", if *up { "up" } else { "down" }),
            Self::SetTxQueueLen { packets, .. } => write!(f, "setting a queue length of {packets} for"),
        }
    }
}

impl Netlink {
    /// Lists all traffic-control objects of a device with their counters: disciplines (also those that the kernel
    /// created by itself), classes, and the filters of each.
    ///
    /// # Errors
    /// There is no such device, or the kernel's answer cannot be parsed.
    pub fn traffic_control(&mut self, device: u32) -> Result<Vec<(Object, Statistics)>, KernelError> {
        self.device(device).map_err(|e| KernelError::new(Op::FindDevice, device, e))?;
        let found = self.read_traffic_control(device);
        found.map_err(|e| self.failure(Op::ReadTrafficControl, "", device, e))
    }

    fn read_traffic_control(&mut self, device: u32) -> io::Result<Vec<(Object, Statistics)>> {
        let mut found = self.tc_list(RTM_GETQDISC, device, Handle::NONE)?;
        found.extend(self.tc_list(RTM_GETTCLASS, device, Handle::NONE)?);
        let mut askers = BTreeSet::new();
        for (object, _) in &found {
            match object {
                Object::Qdisc(q) if q.discipline == Discipline::Clsact => {
                    askers.extend([CLSACT_INGRESS, CLSACT_EGRESS])
                }
                Object::Qdisc(q) if q.handle != Handle::NONE => askers.extend([q.handle]),
                Object::Qdisc(_) | Object::Filter(_) => {}
                Object::Class(c) => askers.extend([c.handle]),
                Object::OtherClass(c) => askers.extend([c.handle]),
            }
        }
        for parent in askers {
            let filters = self.tc_list(RTM_GETTFILTER, device, parent)?;
            found.extend(filters.into_iter().map(|(object, counted)| (below(parent, object), counted)));
        }
        Ok(found)
    }

    /// Reads one list and keeps the objects of one device: the kernel lists the disciplines of all devices.
    fn tc_list(&mut self, kind: u16, device: u32, parent: Handle) -> io::Result<Vec<(Object, Statistics)>> {
        // Struct tcmsg: family and padding, device, handle, parent, info.
        let mut body: Vec<u8> = [0, device, 0, parent.as_raw(), 0].iter().flat_map(|w: &u32| w.to_ne_bytes()).collect();
        if kind == RTM_GETQDISC {
            // Struct nlattr without a value: only its own length and type.
            body.extend([4_u16, TCA_DUMP_INVISIBLE].iter().flat_map(|w| w.to_ne_bytes()));
        }
        let mut found = Vec::new();
        for (kind, body) in self.0.list_raw(&RawRequest { kind, flags: 0, body })? {
            let (of, object, counted) =
                tc::decode(kind, &body).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            if of == device {
                found.push((object, counted));
            }
        }
        Ok(found)
    }

    /// Applies changes in order, in one system call: if this process is killed meanwhile, either all changes are made
    /// or none.
    ///
    /// # Errors
    /// The first change that was refused, with its position and the kernel's message. The remaining changes are made
    /// nevertheless; the caller must undo those that it does not want.
    pub fn change_all(&mut self, changes: &[Change]) -> Result<(), KernelError> {
        let requests = changes.iter().map(Change::request).collect();
        let Err(Refused { at, source }) = self.0.carry_out_at_once(requests) else { return Ok(()) };
        let (what, device) = changes.get(at).map_or_else(Default::default, |c| (c.to_string(), c.device()));
        let before = format!("{} of {}, {what} ", at + 1, changes.len());
        Err(self.failure(Op::Change, &before, device, source))
    }
}

/// Sets the parent of a filter: the kernel omits it in lists of the filters of `clsact`.
fn below(parent: Handle, object: Object) -> Object {
    match object {
        Object::Filter(filter) => Object::Filter(tc::Filter { parent, ..filter }),
        other => other,
    }
}
