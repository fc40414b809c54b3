use serde::{Deserialize, Serialize};
use units::{Bytes, Rate};

/// Ethernet header: two addresses and a type (IEEE 802.3, 3.1.1).
const HEADER: u64 = 14;
/// Bytes on the wire beside the frame that the kernel counts: preamble and delimiter (8), checksum (4), gap (12).
const WIRE: u64 = 24;

/// Properties of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Whether packets on it have an Ethernet header.
    pub ethernet: bool,
    /// Largest packet without the Ethernet header.
    pub mtu: u32,
    /// Largest super-packet: segments that the kernel hands over as one (GSO).
    pub super_packet: Bytes,
}

impl Device {
    /// The largest packet as the kernel counts it.
    pub fn frame(&self) -> Bytes {
        Bytes::new(u64::from(self.mtu) + if self.ethernet { HEADER } else { 0 })
    }

    /// Converts a rate of frames of full size to the wire; unchanged on a device without Ethernet.
    pub fn on_wire(&self, frames: Rate) -> Rate {
        self.scale(frames, self.frame().as_u64() + self.beside(), self.frame().as_u64())
    }

    /// The rate of frames that fills a rate of the wire when they are of full size.
    pub fn of_wire(&self, wire: Rate) -> Rate {
        self.scale(wire, self.frame().as_u64(), self.frame().as_u64() + self.beside())
    }

    fn beside(&self) -> u64 {
        if self.ethernet { WIRE } else { 0 }
    }

    fn scale(&self, rate: Rate, by: u64, of: u64) -> Rate {
        let scaled = u128::from(rate.as_bps()) * u128::from(by) / u128::from(of.max(1));
        Rate::from_bps(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

/// Facilities of the kernel on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facilities {
    /// Flow queues with CoDel.
    pub fq_codel: bool,
    /// BPF classifiers, and the privilege to load them.
    pub bpf: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_takes_24_bytes_more_on_the_wire() {
        let device =
            Device { name: "eth0".to_owned(), index: 2, ethernet: true, mtu: 1500, super_packet: Bytes::new(65_536) };
        // 1538 bytes of the wire carry a frame of 1514.
        assert_eq!(device.of_wire(Rate::from_bps(1_538_000_000)), Rate::from_bps(1_514_000_000));
        assert_eq!(device.on_wire(Rate::from_bps(1_514_000_000)), Rate::from_bps(1_538_000_000));
        let tunnel = Device { ethernet: false, ..device };
        assert_eq!(tunnel.on_wire(Rate::from_bps(1_000)), Rate::from_bps(1_000));
        assert_eq!(tunnel.frame(), Bytes::new(1500));
    }
}
