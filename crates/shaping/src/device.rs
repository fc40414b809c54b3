use serde::{Deserialize, Serialize};
use units::{Bytes, Rate};

/// Bytes of an Ethernet header: two addresses and a type (IEEE 802.3, 3.1.1).
const HEADER_BYTES: u64 = 14;
/// Bytes on the wire that the kernel does not count: preamble and delimiter (8), checksum (4), gap (12).
const WIRE_BYTES: u64 = 24;

/// Properties of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Name.
    pub name: String,
    /// Interface index.
    pub index: u32,
    /// Whether packets have an Ethernet header.
    pub ethernet: bool,
    /// Largest packet in bytes, without the Ethernet header.
    pub mtu: u32,
    /// Largest super-packet: segments that the kernel passes to the device as one packet (GSO).
    pub super_packet: Bytes,
}

impl Device {
    /// Largest frame in bytes, as the kernel counts it.
    pub fn frame(&self) -> Bytes {
        Bytes::new(u64::from(self.mtu) + if self.ethernet { HEADER_BYTES } else { 0 })
    }

    /// Converts a rate of full-size frames to the rate on the wire; the rates are equal on a device without Ethernet.
    pub fn on_wire(&self, frames: Rate) -> Rate {
        self.scale(frames, self.frame().as_u64() + self.uncounted_bytes(), self.frame().as_u64())
    }

    /// Converts a rate on the wire to the rate of full-size frames.
    pub fn of_wire(&self, wire: Rate) -> Rate {
        self.scale(wire, self.frame().as_u64(), self.frame().as_u64() + self.uncounted_bytes())
    }

    fn uncounted_bytes(&self) -> u64 {
        if self.ethernet { WIRE_BYTES } else { 0 }
    }

    fn scale(&self, rate: Rate, by: u64, of: u64) -> Rate {
        let scaled = u128::from(rate.as_bps()) * u128::from(by) / u128::from(of.max(1));
        Rate::from_bps(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

/// Facilities of the kernel on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facilities {
    /// Whether the kernel has fq_codel.
    pub fq_codel: bool,
    /// Whether the kernel has BPF classifiers, and the process may load them.
    pub bpf: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_takes_24_bytes_more_on_the_wire() {
        let device =
            Device { name: "eth0".to_owned(), index: 2, ethernet: true, mtu: 1500, super_packet: Bytes::new(65_536) };
        // A frame of 1514 bytes takes 1538 bytes on the wire.
        assert_eq!(device.of_wire(Rate::from_bps(1_538_000_000)), Rate::from_bps(1_514_000_000));
        assert_eq!(device.on_wire(Rate::from_bps(1_514_000_000)), Rate::from_bps(1_538_000_000));
        let tunnel = Device { ethernet: false, ..device };
        assert_eq!(tunnel.on_wire(Rate::from_bps(1_000)), Rate::from_bps(1_000));
        assert_eq!(tunnel.frame(), Bytes::new(1500));
    }
}
