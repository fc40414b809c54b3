use std::fmt;

use crate::object::Object;

/// Flags of route netlink (linux/netlink.h): create the object (NLM_F_CREATE), fail if it exists (NLM_F_EXCL), replace
/// an existing one (NLM_F_REPLACE).
const CREATE: u16 = 0x400;
const EXCLUSIVE: u16 = 0x200;
const REPLACE: u16 = 0x100;

/// A change of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Creates the object; fails if it exists.
    Add(Object),
    /// Creates the object or replaces an existing one.
    Replace(Object),
    /// Changes the settings of an existing object.
    Change(Object),
    /// Deletes the object. A filter without a handle stands for all filters of its preference.
    Delete(Object),
}

/// A route netlink message, without its header (struct nlmsghdr).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Message type: RTM_NEWQDISC and so on.
    pub kind: u16,
    /// Header flags, in addition to NLM_F_REQUEST and NLM_F_ACK.
    pub flags: u16,
    /// Struct tcmsg and the attributes.
    pub body: Vec<u8>,
}

impl Operation {
    /// The object.
    pub fn object(&self) -> &Object {
        match self {
            Self::Add(object) | Self::Replace(object) | Self::Change(object) | Self::Delete(object) => object,
        }
    }

    /// Message that applies the operation to the device with this index.
    ///
    /// The kernel rejects objects that a message cannot represent: a u32 filter with more than 255 keys, or a BPF
    /// filter without a descriptor.
    pub fn message(&self, device: u32) -> Message {
        let new = match self.object() {
            Object::Qdisc(_) => 36,
            Object::Class(_) | Object::OtherClass(_) => 40,
            Object::Filter(_) => 44,
        };
        let (kind, flags) = match self {
            Self::Add(_) => (new, CREATE | EXCLUSIVE),
            Self::Replace(_) => (new, CREATE | REPLACE),
            Self::Change(_) => (new, 0),
            Self::Delete(_) => (new + 1, 0),
        };
        Message { kind, flags, body: crate::encode::body(self, device) }
    }
}

impl fmt::Display for Operation {
    /// `adding class 1:10`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self {
            Self::Add(_) => "adding",
            Self::Replace(_) => "creating or replacing",
            Self::Change(_) => "changing",
            Self::Delete(_) => "deleting",
        };
        write!(f, "{verb} {}", self.object())
    }
}

impl fmt::Display for Object {
    /// Formats the object for messages: `qdisc 10: htb at 1:10`, `class 1:10`, `filter at 1: preference 5 handle
    /// 80000801`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Qdisc(q) => write!(f, "qdisc {} {} at {}", q.handle, q.discipline.kind(), q.parent),
            Self::Class(c) => write!(f, "class {}", c.handle),
            Self::OtherClass(c) => write!(f, "class {}", c.handle),
            Self::Filter(filter) => {
                write!(f, "filter at {} preference {}", filter.parent, filter.preference)?;
                if filter.handle == 0 { Ok(()) } else { write!(f, " handle {:x}", filter.handle) }
            }
        }
    }
}
