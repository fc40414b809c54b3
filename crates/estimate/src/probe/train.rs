use units::{Bytes, Duration, Rate};

/// Bytes of an IPv4 and a UDP header (RFC 791, RFC 768), which precede the payload of every probe packet.
///
/// Over IPv6 a packet is 20 bytes longer; the sender shortens its payload by that amount.
pub const UDP_HEADERS: u32 = 28;

/// Minimum length of a probe packet with headers in bytes: a driver writes the numbers of the train and of the packet
/// into the payload.
pub const PROBE_BYTES_MIN: u32 = UDP_HEADERS + 4;

/// One packet of a train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Departure time relative to the first packet of the train.
    pub after: Duration,
    /// Length with IP and UDP headers in bytes.
    pub bytes: u32,
}

/// Packets with their departure times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Train {
    departures: Vec<Departure>,
    echoed: bool,
}

impl Train {
    /// Creates a train from packets in order of departure. A packet no longer than the headers is enlarged to one byte
    /// more.
    pub fn new(mut departures: Vec<Departure>) -> Self {
        departures.iter_mut().for_each(|d| d.bytes = d.bytes.max(UDP_HEADERS + 1));
        Self { departures, echoed: false }
    }

    /// Packets of one size at equal gaps; with a gap of zero the sender sends as fast as it can.
    pub fn spaced(count: u32, bytes: u32, gap: Duration) -> Self {
        Self::new((0..count).map(|i| Departure { after: gap * i, bytes }).collect())
    }

    /// Packets of one size whose sizes and gaps give this rate.
    pub fn at_rate(count: u32, bytes: u32, rate: Rate) -> Self {
        let gap_ns = |i: u32| u128::from(i) * u128::from(bytes) * 8_000_000_000 / u128::from(rate.as_bps().max(1));
        let after = |i| Duration::from_nanos(u64::try_from(gap_ns(i)).unwrap_or(u64::MAX));
        Self::new((0..count).map(|i| Departure { after: after(i), bytes }).collect())
    }

    /// Requests that the far end echoes each packet on arrival. The packets are then *received* by the sender, on the
    /// sender's clock.
    #[must_use]
    pub fn echoed(mut self) -> Self {
        self.echoed = true;
        self
    }

    /// The packets.
    pub fn departures(&self) -> &[Departure] {
        &self.departures
    }

    /// Whether the far end echoes the packets.
    pub fn is_echoed(&self) -> bool {
        self.echoed
    }

    /// Time from the first departure to the last.
    pub fn span(&self) -> Duration {
        self.departures.last().map_or(Duration::ZERO, |d| d.after)
    }

    /// Bytes of all packets with headers in the forward direction.
    pub fn bytes(&self) -> Bytes {
        Bytes::new(self.departures.iter().map(|d| u64::from(d.bytes)).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_over_any_number_of_packets() {
        // 1500 B at 7 Gb/s are 1714.285714 ns: the last of 1001 packets leaves after 1 714 285.714 ns.
        let train = Train::at_rate(1001, 1500, Rate::from_bps(7_000_000_000));
        assert_eq!(train.span(), Duration::from_nanos(1_714_285));
        assert_eq!(train.bytes(), Bytes::new(1_501_500));
    }

    #[test]
    fn a_packet_is_never_shorter_than_its_headers() {
        assert_eq!(Train::spaced(1, 0, Duration::ZERO).departures()[0].bytes, UDP_HEADERS + 1);
    }
}
