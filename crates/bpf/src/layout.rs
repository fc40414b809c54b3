//! Structures shared by the program (`bpf/classify.bpf.c`), its maps and the loader, as bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use shaping::SizeLimits;

pub(crate) const MATCH_FAMILY: u16 = 0x001;
pub(crate) const MATCH_PROTOCOL: u16 = 0x002;
pub(crate) const MATCH_FROM_PORTS: u16 = 0x004;
pub(crate) const MATCH_TO_PORTS: u16 = 0x008;
pub(crate) const MATCH_PORTS: u16 = 0x010;
pub(crate) const MATCH_DSCP: u16 = 0x020;
pub(crate) const MATCH_CGROUP: u16 = 0x040;
pub(crate) const MATCH_USER: u16 = 0x080;
pub(crate) const MATCH_MOUSE: u16 = 0x100;
pub(crate) const MATCH_ELEPHANT: u16 = 0x200;

/// Number of averaging windows in the time for which a flow must exceed the rate. Averaging over a window hides the
/// gaps of a sender that fills its window once per round trip, if the window spans several round trips.
const WINDOWS_PER_LIMIT: u32 = 4;

/// A rule of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rule {
    pub(crate) from: [u8; 16],
    pub(crate) from_mask: [u8; 16],
    pub(crate) to: [u8; 16],
    pub(crate) to_mask: [u8; 16],
    pub(crate) dscp: u64,
    pub(crate) origin: u32,
    pub(crate) user: u32,
    pub(crate) cgroup: u32,
    pub(crate) from_ports: [u16; 2],
    pub(crate) to_ports: [u16; 2],
    pub(crate) ports: [u16; 2],
    pub(crate) conditions: u16,
    pub(crate) protocol: u8,
    pub(crate) family: u8,
}

impl Rule {
    /// Size of `struct rule`.
    pub(crate) const SIZE: usize = 104;

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::SIZE);
        for address in [self.from, self.from_mask, self.to, self.to_mask] {
            bytes.extend(address);
        }
        bytes.extend(self.dscp.to_ne_bytes());
        for number in [self.origin, self.user, self.cgroup] {
            bytes.extend(number.to_ne_bytes());
        }
        for port in [self.from_ports, self.to_ports, self.ports].as_flattened() {
            bytes.extend(port.to_ne_bytes());
        }
        bytes.extend(self.conditions.to_ne_bytes());
        bytes.extend([self.protocol, self.family]);
        bytes.resize(Self::SIZE, 0);
        bytes
    }
}

/// `struct settings`: limits of a mouse, and the number of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) bytes: u64,
    /// Maximum rate of a mouse in bytes per second.
    pub(crate) rate: u64,
    pub(crate) above_ns: u64,
    /// Averaging window in nanoseconds; 0: no rate limit.
    pub(crate) window_ns: u64,
    pub(crate) idle_ns: u64,
    pub(crate) rules: u32,
}

impl Limits {
    /// Size of `struct settings`.
    pub(crate) const SIZE: usize = 48;

    pub(crate) fn new(sizes: &SizeLimits, rules: u32) -> Self {
        let (rate, above) = sizes.above.map_or((0, Duration::ZERO), |(rate, time)| (rate.as_bytes_per_second(), time));
        // An extra nanosecond makes the windows together longer than the time.
        let window = sizes.above.map_or(0, |_| (nanos(above / WINDOWS_PER_LIMIT) + 1).max(1_000));
        Self {
            bytes: sizes.bytes.map_or(u64::MAX, |bytes| bytes.as_u64()),
            rate,
            above_ns: nanos(above),
            window_ns: window,
            idle_ns: nanos(sizes.idle),
            rules,
        }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::SIZE);
        for number in [self.bytes, self.rate, self.above_ns, self.window_ns, self.idle_ns] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(self.rules.to_ne_bytes());
        bytes.resize(Self::SIZE, 0);
        bytes
    }

    /// Idle timeout in nanoseconds in the settings of a program.
    pub(crate) fn idle_from(bytes: &[u8]) -> Option<u64> {
        number(bytes, 32)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Key of the flow map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowKey {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) from_port: u16,
    pub(crate) to_port: u16,
    pub(crate) protocol: u8,
}

impl FlowKey {
    /// Size of `struct flow_key`.
    pub(crate) const SIZE: usize = 40;

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            from: address(bytes.first_chunk()?),
            to: address(bytes.get(16..)?.first_chunk()?),
            from_port: u16::from_be_bytes(*bytes.get(32..)?.first_chunk()?),
            to_port: u16::from_be_bytes(*bytes.get(34..)?.first_chunk()?),
            protocol: *bytes.get(36)?,
        })
    }
}

/// Value of the flow map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) bytes: u64,
    /// Time of the last packet on the clock of `bpf_ktime_get_ns`.
    pub(crate) seen_ns: u64,
    pub(crate) elephant: bool,
}

impl Flow {
    /// Size of `struct flow`.
    pub(crate) const SIZE: usize = 48;

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self { bytes: number(bytes, 0)?, seen_ns: number(bytes, 8)?, elephant: number(bytes, 40)? != 0 })
    }
}

/// The 64-bit number at `offset`.
pub(crate) fn number(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn address(bytes: &[u8; 16]) -> IpAddr {
    Ipv6Addr::from(*bytes).to_canonical()
}

/// Address in the program's form: IPv4 addresses are mapped into IPv6 (RFC 4291, section 2.5.5.2).
pub(crate) fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The mask of a network's prefix.
pub(crate) fn mask(address: IpAddr, prefix: u8) -> [u8; 16] {
    let bits = match address {
        IpAddr::V4(_) => u32::from(prefix) + (Ipv6Addr::BITS - Ipv4Addr::BITS),
        IpAddr::V6(_) => u32::from(prefix),
    };
    u128::MAX.checked_shl(Ipv6Addr::BITS - bits).unwrap_or(0).to_be_bytes()
}
