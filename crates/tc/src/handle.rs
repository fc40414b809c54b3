use std::fmt;

/// Handle of a queueing discipline (`1:`) or class (`1:10`): a major and a minor number, 16 bits each (tc(8),
/// "classid").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Handle(u32);

impl Handle {
    /// No handle: the kernel chooses one, or the kernel created the object.
    pub const NONE: Self = Self(0);
    /// Parent of a device's root discipline (TC_H_ROOT).
    pub const ROOT: Self = Self(0xffff_ffff);
    /// Parent of the discipline that holds ingress filters (TC_H_INGRESS, equal to TC_H_CLSACT).
    pub const INGRESS: Self = Self(0xffff_fff1);
    /// Handle of the ingress discipline: `ffff:`.
    pub const INGRESS_QDISC: Self = Self(0xffff_0000);

    /// Creates a handle from its major and minor numbers.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self((major as u32) << 16 | minor as u32)
    }

    /// Creates a handle from the kernel's representation.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// The kernel's representation.
    pub const fn as_raw(self) -> u32 {
        self.0
    }

    /// Number of the discipline.
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Number of the class; 0 for a discipline.
    pub const fn minor(self) -> u16 {
        self.0 as u16
    }
}

impl fmt::Display for Handle {
    /// Formats the handle like tc(8): both numbers in hexadecimal, `1:` for a discipline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ROOT => f.write_str("root"),
            Self::INGRESS => f.write_str("ingress"),
            Self::NONE => f.write_str("none"),
            Self(_) if self.minor() == 0 => write!(f, "{:x}:", self.major()),
            Self(_) => write!(f, "{:x}:{:x}", self.major(), self.minor()),
        }
    }
}
