use kernel::{Ethtool, FeatureSwitch, KernelError, LinkSettings, Netlink, Op};
use tuning::{Offload, Setting};

/// Reads a setting from the kernel, numbers separated by one blank.
///
/// # Errors
/// The kernel has no such setting, or no such device.
pub fn read(setting: &Setting) -> Result<String, KernelError> {
    match setting {
        Setting::Sysctl(key) => Ok(kernel::read_sysctl(key)?.split_whitespace().collect::<Vec<_>>().join(" ")),
        Setting::QueueLength(device) => {
            let found = Netlink::open()?.links()?.into_iter().find(|d| d.name == *device);
            found.map(|d| d.tx_queue_len.to_string()).ok_or_else(|| missing(device))
        }
        Setting::Offload(device, offload) => {
            let on = Ethtool::open()?.switch(device, feature(*offload))?;
            Ok(if on { "on" } else { "off" }.to_owned())
        }
    }
}

/// Changes a setting and reads it back.
///
/// # Errors
/// The kernel refuses, or holds another value afterwards.
pub fn write(setting: &Setting, value: &str) -> Result<(), KernelError> {
    match setting {
        // This function reads back by itself.
        Setting::Sysctl(key) => return kernel::write_sysctl(key, value),
        Setting::QueueLength(device) => {
            let length = value.parse().map_err(|_| refused(setting, value, "the value is not a number of packets"))?;
            let mut netlink = Netlink::open()?;
            let index = netlink.index(device)?;
            netlink.set_link(index, &LinkSettings { tx_queue_len: Some(length), ..LinkSettings::default() })?;
        }
        Setting::Offload(device, offload) => {
            Ethtool::open()?.set_switch(device, feature(*offload), value == "on")?;
        }
    }
    let holds = read(setting)?;
    if holds == value { Ok(()) } else { Err(refused(setting, value, &format!("the kernel holds `{holds}` instead"))) }
}

const fn feature(offload: Offload) -> FeatureSwitch {
    match offload {
        Offload::Tso => FeatureSwitch::Tso,
        Offload::Gso => FeatureSwitch::Gso,
        Offload::Gro => FeatureSwitch::Gro,
    }
}

fn missing(device: &str) -> KernelError {
    KernelError::new(Op::FindDevice, device, std::io::Error::from(std::io::ErrorKind::NotFound))
}

fn refused(setting: &Setting, value: &str, why: &str) -> KernelError {
    let source = std::io::Error::new(std::io::ErrorKind::InvalidData, why.to_owned());
    KernelError::new(Op::Sysctl, format!("{setting} = {value}"), source)
}
