use std::fmt;
use std::str::FromStr;

use crate::catalogue::sysctls;

/// An offload of a device that can be switched (ethtool(8), `-K`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Offload {
    /// TCP segmentation by the device.
    Tso,
    /// Segmentation just before the driver.
    Gso,
    /// Merging of received segments before the protocol.
    Gro,
}

impl Offload {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tso, Self::Gso, Self::Gro];

    /// Name for `ethtool -K`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tso => "tso",
            Self::Gso => "gso",
            Self::Gro => "gro",
        }
    }
}

/// All settings that `longhaul tune` changes.
///
/// The text of a setting is the key of its row: a sysctl's name, or `DEVICE:setting`. The kernel allows no colon in a
/// device name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// A variable of sysctl(8) that has a row.
    Sysctl(String),
    /// Length of a device's transmit queue in packets.
    QueueLength(String),
    /// An offload of a device.
    Offload(String, Offload),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysctl(key) => f.write_str(key),
            Self::QueueLength(device) => write!(f, "{device}:txqueuelen"),
            Self::Offload(device, offload) => write!(f, "{device}:{}", offload.name()),
        }
    }
}

/// The name of a setting that longhaul does not change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a setting that longhaul changes")]
pub struct UnknownSetting(String);

impl FromStr for Setting {
    type Err = UnknownSetting;

    fn from_str(text: &str) -> Result<Self, UnknownSetting> {
        let unknown = || UnknownSetting(text.to_owned());
        if sysctls().any(|key| key == text) {
            return Ok(Self::Sysctl(text.to_owned()));
        }
        let (device, name) = text.split_once(':').ok_or_else(unknown)?;
        if name == "txqueuelen" {
            return Ok(Self::QueueLength(device.to_owned()));
        }
        let offload = Offload::ALL.into_iter().find(|o| o.name() == name).ok_or_else(unknown)?;
        Ok(Self::Offload(device.to_owned(), offload))
    }
}

/// Whether two values are equal apart from white space; the kernel separates numbers by tabs.
pub fn same_value(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_parsed_from_its_text() {
        for text in ["net.ipv4.tcp_rmem", "eth0.5:txqueuelen", "eth0:tso"] {
            assert_eq!(text.parse::<Setting>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn names_outside_the_catalogue_are_rejected() {
        for text in ["net.ipv4.ip_forward", "kernel.hostname", "eth0:mtu", "net.ipv4.tcp_available_congestion_control"]
        {
            assert!(text.parse::<Setting>().is_err(), "{text}");
        }
    }
}
