use units::{Bytes, Duration, Rate};

/// Bytes of an IPv4 and a UDP header (RFC 791, RFC 768), which every probe packet has in front of its payload.
///
/// Over IPv6 a packet is 20 bytes longer; the sender makes its payload that much shorter.
pub const UDP_HEADERS: u32 = 28;

/// One packet of a train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// How long after the first packet of the train it shall leave.
    pub after: Duration,
    /// Its length with IP and UDP headers.
    pub bytes: u32,
}

/// Packets that shall leave at given distances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Train {
    departures: Vec<Departure>,
    echoed: bool,
}

impl Train {
    /// Packets in order of departure. What is no longer than the headers is made one byte longer than them.
    pub fn new(mut departures: Vec<Departure>) -> Self {
        departures.iter_mut().for_each(|d| d.bytes = d.bytes.max(UDP_HEADERS + 1));
        Self { departures, echoed: false }
    }

    /// Packets of one size at equal distances; a distance of zero is as fast as the sender can.
    pub fn spaced(count: u32, bytes: u32, gap: Duration) -> Self {
        Self::new((0..count).map(|i| Departure { after: gap * i, bytes }).collect())
    }

    /// Packets of one size whose sizes and distances make this rate.
    pub fn at_rate(count: u32, bytes: u32, rate: Rate) -> Self {
        let gap_ns = |i: u32| u128::from(i) * u128::from(bytes) * 8_000_000_000 / u128::from(rate.as_bps().max(1));
        let after = |i| Duration::from_nanos(u64::try_from(gap_ns(i)).unwrap_or(u64::MAX));
        Self::new((0..count).map(|i| Departure { after: after(i), bytes }).collect())
    }

    /// The same packets, each sent back by the far end as soon as it comes. They are then *received* by the sender, on
    /// the sender's clock.
    #[must_use]
    pub fn echoed(mut self) -> Self {
        self.echoed = true;
        self
    }

    /// The packets.
    pub fn departures(&self) -> &[Departure] {
        &self.departures
    }

    /// Whether the far end sends them back.
    pub fn is_echoed(&self) -> bool {
        self.echoed
    }

    /// From the first departure to the last.
    pub fn span(&self) -> Duration {
        self.departures.last().map_or(Duration::ZERO, |d| d.after)
    }

    /// All packets together, with headers, on the way out.
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
