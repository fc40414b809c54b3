//! Queries and settings of a network device and its driver over SIOCETHTOOL (include/uapi/linux/ethtool.h), in the
//! network namespace of the calling thread.

use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use units::Rate;

use crate::{KernelError, Op};

const GET_SETTINGS: u32 = 0x01;
const GET_DRIVER: u32 = 0x03;
const GET_RINGS: u32 = 0x10;
const GET_STRINGS: u32 = 0x1b;
const GET_STRING_COUNT: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;

/// The set of strings that names the features (ETH_SS_FEATURES).
const FEATURE_NAMES: u32 = 4;
/// Length of a name in bytes (ETH_GSTRING_LEN).
const NAME_BYTES: usize = 32;
/// Maximum number of features that are read; the kernel has about sixty.
const FEATURES_MAX: usize = 256;

/// A feature of a device, such as `tx-tcp-segmentation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceFeature {
    /// The feature is on.
    pub active: bool,
    /// The feature can be switched.
    pub changeable: bool,
}

/// Sizes of a device's rings, in descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingSizes {
    /// Receive ring.
    pub receive: u32,
    /// Maximum size of the receive ring.
    pub receive_max: u32,
    /// Transmit ring.
    pub send: u32,
    /// Maximum size of the transmit ring.
    pub send_max: u32,
}

/// A group of features that is switched as one (`ethtool -K`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureSwitch {
    /// TCP segmentation by the device, for IPv4 and IPv6.
    Tso,
    /// Generic segmentation, just before the driver.
    Gso,
    /// Generic receive offload.
    Gro,
}

impl FeatureSwitch {
    /// The requests that read and write the switch (ETHTOOL_GTSO, ETHTOOL_STSO and so on).
    const fn requests(self) -> (u32, u32) {
        match self {
            Self::Tso => (0x1e, 0x1f),
            Self::Gso => (0x23, 0x24),
            Self::Gro => (0x2b, 0x2c),
        }
    }
}

/// Queries and changes devices over the ethtool interface.
#[derive(Debug)]
pub struct Ethtool(UdpSocket);

impl Ethtool {
    /// Opens a socket for the requests in the calling thread's network namespace. The socket stays in that namespace.
    ///
    /// # Errors
    /// The socket cannot be opened.
    pub fn open() -> Result<Self, KernelError> {
        // Any socket serves for the requests, because it sends nothing. A socket without an address needs no active
        // device.
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)
            .or_else(|_| socket2::Socket::new(socket2::Domain::IPV6, socket2::Type::DGRAM, None));
        Ok(Self(socket.map_err(|e| KernelError::new(Op::Socket, "for ethtool", e))?.into()))
    }

    /// Name of the device's driver.
    ///
    /// # Errors
    /// There is no such device, or it does not report a driver.
    pub fn driver(&self, device: &str) -> Result<String, KernelError> {
        // struct ethtool_drvinfo: the request, then names of 32 bytes, first the driver's; 196 bytes in all.
        let mut data = [0_u32; 49];
        data[0] = GET_DRIVER;
        self.ask(device, &mut data)?;
        Ok(text(&bytes(&data[1..9])))
    }

    /// Speed of the device's link; `None` where it is unknown, as on virtual devices.
    ///
    /// # Errors
    /// There is no such device, or it has no link.
    pub fn speed(&self, device: &str) -> Result<Option<Rate>, KernelError> {
        // struct ethtool_cmd, 44 bytes: the speed in Mb/s at byte 12, its upper half at byte 28.
        let mut data = [0_u32; 11];
        data[0] = GET_SETTINGS;
        self.ask(device, &mut data)?;
        let half = |word: u32| {
            let b = word.to_ne_bytes();
            u32::from(u16::from_ne_bytes([b[0], b[1]]))
        };
        let megabits = half(data[7]) << 16 | half(data[3]);
        // SPEED_UNKNOWN is -1; 16 bits of it from drivers that are older than the upper half.
        let is_known = !matches!(megabits, 0 | 0xffff | u32::MAX);
        Ok(is_known.then(|| Rate::from_bps(u64::from(megabits) * 1_000_000)))
    }

    /// Sizes of the device's rings.
    ///
    /// # Errors
    /// There is no such device, or it has no rings.
    pub fn rings(&self, device: &str) -> Result<RingSizes, KernelError> {
        // struct ethtool_ringparam: maxima of rx, rx_mini, rx_jumbo, tx, then the sizes in the same order.
        let mut data = [0_u32; 9];
        data[0] = GET_RINGS;
        self.ask(device, &mut data)?;
        Ok(RingSizes { receive_max: data[1], send_max: data[4], receive: data[5], send: data[8] })
    }

    /// All features of the device by their names.
    ///
    /// # Errors
    /// There is no such device.
    pub fn features(&self, device: &str) -> Result<BTreeMap<String, DeviceFeature>, KernelError> {
        let names = self.feature_names(device)?;
        let blocks = names.len().div_ceil(32);
        // struct ethtool_gfeatures: request, number of blocks, then for each: available, requested, active,
        // never_changed.
        let mut data = vec![0_u32; 2 + 4 * blocks];
        data[0] = GET_FEATURES;
        data[1] = blocks as u32;
        self.ask(device, &mut data)?;
        let bit = |n: usize, word: usize| data[2 + n / 32 * 4 + word] >> (n % 32) & 1 == 1;
        let feature = |n| DeviceFeature { active: bit(n, 2), changeable: bit(n, 0) && !bit(n, 3) };
        Ok(names.into_iter().enumerate().map(|(n, name)| (name, feature(n))).collect())
    }

    fn feature_names(&self, device: &str) -> Result<Vec<String>, KernelError> {
        // struct ethtool_sset_info: request, reserved, a mask of 64 bits, and the number for each set in it.
        let mask = (1_u64 << FEATURE_NAMES).to_ne_bytes();
        let word = |at: usize| u32::from_ne_bytes([mask[at], mask[at + 1], mask[at + 2], mask[at + 3]]);
        let mut data = [GET_STRING_COUNT, 0, word(0), word(4), 0];
        self.ask(device, &mut data)?;
        let count = (data[4] as usize).min(FEATURES_MAX);
        // struct ethtool_gstrings: request, set, number, names. The kernel writes at most the number of names that it
        // reported: devices cannot gain features while the kernel runs.
        let mut strings = vec![0_u32; 3 + FEATURES_MAX * NAME_BYTES / 4];
        strings[..3].copy_from_slice(&[GET_STRINGS, FEATURE_NAMES, count as u32]);
        if data[4] as usize > FEATURES_MAX {
            let e = io::Error::new(io::ErrorKind::InvalidData, format!("it has more than {FEATURES_MAX} features"));
            return Err(KernelError::new(Op::Ethtool, device, e));
        }
        self.ask(device, &mut strings)?;
        Ok(bytes(&strings[3..]).chunks(NAME_BYTES).take(count).map(text).collect())
    }

    /// Whether any feature of a group is on.
    ///
    /// # Errors
    /// There is no such device.
    pub fn switch(&self, device: &str, switch: FeatureSwitch) -> Result<bool, KernelError> {
        let mut data = [switch.requests().0, 0];
        self.ask(device, &mut data)?;
        Ok(data[1] != 0)
    }

    /// Switches a group of features.
    ///
    /// # Errors
    /// There is no such device, the device cannot switch the group, or the caller may not (CAP_NET_ADMIN).
    pub fn set_switch(&self, device: &str, switch: FeatureSwitch, on: bool) -> Result<(), KernelError> {
        self.ask(device, &mut [switch.requests().1, u32::from(on)])
    }

    /// Carries out the request in `data[0]`; `data` holds the request's whole structure.
    fn ask(&self, device: &str, data: &mut [u32]) -> Result<(), KernelError> {
        let e = |source| KernelError::new(Op::Ethtool, device, source);
        if device.len() >= libc::IFNAMSIZ {
            return Err(e(io::Error::from_raw_os_error(libc::ENODEV)));
        }
        // SAFETY: all-zero is a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
        // SAFETY: every caller in this module passes the whole structure of its request, with room for the kernel's
        // answer; it outlives the call.
        let rc = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        if rc < 0 { Err(e(io::Error::last_os_error())) } else { Ok(()) }
    }
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

fn text(bytes: &(impl AsRef<[u8]> + ?Sized)) -> String {
    let name = bytes.as_ref().split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_loopback_device_has_features_and_no_rings() {
        let ethtool = Ethtool::open().unwrap();
        let features = ethtool.features("lo").unwrap();
        assert!(features["tx-tcp-segmentation"].active, "{features:?}");
        // The loopback feature cannot be switched off (NETIF_F_LOOPBACK is NETIF_F_NEVER_CHANGE).
        assert!(features["loopback"].active && !features["loopback"].changeable);
        assert!(ethtool.switch("lo", FeatureSwitch::Tso).unwrap());
        assert!(ethtool.rings("lo").is_err());
        let e = ethtool.driver("absent0").unwrap_err().to_string();
        assert!(e.starts_with("querying the driver (SIOCETHTOOL) of absent0: "), "{e}");
        assert!(ethtool.driver("a-name-that-no-device-can-have").is_err());
    }

    #[test]
    fn a_switch_takes_effect_and_the_driver_of_a_veth_pair_is_known() {
        let Ok(namespace) = crate::new_namespace().inspect_err(|e| eprintln!("skipped: no network namespace: {e}"))
        else {
            return;
        };
        std::thread::spawn(move || {
            crate::enter_namespace(&namespace).unwrap();
            let made = Command::new("ip")
                .args(["link", "add", "pair0", "type", "veth", "peer", "name", "pair1"])
                .status()
                .unwrap();
            assert!(made.success());
            let ethtool = Ethtool::open().unwrap();
            assert_eq!(ethtool.driver("pair0").unwrap(), "veth");
            // A veth pair reports 10 Gb/s whatever its throughput (veth_get_link_ksettings).
            assert_eq!(ethtool.speed("pair0").unwrap(), Some(Rate::from_bps(10_000_000_000)));
            for switch in [FeatureSwitch::Tso, FeatureSwitch::Gso, FeatureSwitch::Gro] {
                let was = ethtool.switch("pair0", switch).unwrap();
                ethtool.set_switch("pair0", switch, !was).unwrap();
                assert_eq!(ethtool.switch("pair0", switch).unwrap(), !was, "{switch:?}");
                ethtool.set_switch("pair0", switch, was).unwrap();
            }
        })
        .join()
        .unwrap();
    }
}
