//! Events of `bpf/trace.bpf.c`, which defines the same structures.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// An event of a connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Time in nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Socket cookie.
    pub cookie: u64,
    /// Congestion state of the connection: 0 open, 1 disorder, 2 congestion window reduced, 3 recovery, 4 loss (enum
    /// tcp_ca_state).
    pub state: u32,
    /// Kind and data of the event.
    pub kind: EventKind,
}

/// Kind of an event with its data.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// First event of a connection.
    Flow(Flow),
    /// A packet arrived; the sample precedes its processing.
    Sample(Sample),
    /// The congestion state changed to the state of the event.
    State(Sample),
    /// A segment was retransmitted.
    Retransmission(Sample),
    /// The connection ended.
    End(Sample),
}

/// Identity of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Local address and port.
    pub local: SocketAddr,
    /// Remote address and port.
    pub remote: SocketAddr,
    /// Name of the congestion control.
    pub congestion_control: String,
}

/// State of a TCP connection; windows and counts in packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Pacing rate in bytes per second; `u64::MAX`: no pacing.
    pub pacing_rate: u64,
    /// Total bytes acknowledged.
    pub bytes_acked: u64,
    /// Congestion window.
    pub window: u32,
    /// Slow start threshold.
    pub threshold: u32,
    /// Smoothed round-trip time.
    pub srtt_us: u32,
    /// Mean deviation of the round-trip time.
    pub rttvar_us: u32,
    /// Smallest round-trip time within net.ipv4.tcp_min_rtt_wlen (default 5 minutes).
    pub min_rtt_us: u32,
    /// Packets sent and not cumulatively acknowledged.
    pub packets_out: u32,
    /// Selectively acknowledged packets among `packets_out`.
    pub sacked_out: u32,
    /// Packets among `packets_out` that are considered lost.
    pub lost_out: u32,
    /// Packets among `packets_out` that were retransmitted.
    pub retrans_out: u32,
    /// Total retransmitted packets.
    pub total_retrans: u32,
    /// Total delivered packets.
    pub delivered: u32,
    /// Maximum segment size in bytes.
    pub mss: u32,
    /// Receive window of the peer in bytes.
    pub peer_window: u32,
    /// Packets of the last delivery rate sample.
    pub rate_delivered: u32,
    /// Interval of the last delivery rate sample.
    pub rate_interval_us: u32,
    /// Whether the application limits the sending rate.
    pub application_limited: bool,
    /// Whether the congestion window limits the sending rate.
    pub window_limited: bool,
    /// State of a congestion control of longhaul.
    pub inner: Option<Inner>,
}

/// Private state of a congestion control.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Inner {
    /// FAST TCP.
    Fast {
        /// Smallest round-trip time of the connection.
        base_us: u32,
        /// Mean round-trip time.
        average_us: u32,
        /// Packets in flight when the last acknowledged packet was sent.
        flight: u32,
        /// Target window.
        target: u32,
        /// Whether the window stays constant in this round.
        resting: bool,
    },
    /// H-TCP.
    Htcp {
        /// Smallest smoothed round-trip time.
        min_rtt_us: u32,
        /// Largest smoothed round-trip time, slowly decaying.
        max_rtt_us: u32,
        /// Increase of the window per round trip in packets.
        alpha: f64,
        /// Decrease factor.
        beta: f64,
        /// Mean throughput in packets per second.
        rate: u32,
        /// Maximum of `rate` since the last congestion event.
        max_rate: u32,
    },
}

/// Reader of consecutive native-endian numbers.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_at_checked(N)?;
        self.0 = rest;
        first.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_ne_bytes)
    }
}

impl Event {
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (time_ns, cookie) = (reader.u64()?, reader.u64()?);
        let (kind, state) = (reader.u32()?, reader.u32()?);
        let kind = match kind {
            0 => EventKind::Flow(flow(&mut reader)?),
            1 => EventKind::Sample(sample(&mut reader)?),
            2 => EventKind::State(sample(&mut reader)?),
            3 => EventKind::Retransmission(sample(&mut reader)?),
            4 => EventKind::End(sample(&mut reader)?),
            _ => return None,
        };
        Some(Self { time_ns, cookie, state, kind })
    }
}

fn flow(reader: &mut Reader<'_>) -> Option<Flow> {
    let (local, remote) = (reader.bytes::<16>()?, reader.bytes::<16>()?);
    let (local_port, remote_port) = (reader.u16()?, reader.u16()?);
    reader.u32()?;
    let name = reader.bytes::<16>()?;
    let name = name.split(|b| *b == 0).next().unwrap_or_default();
    let address = |bytes: [u8; 16]| -> IpAddr { Ipv6Addr::from(bytes).to_canonical() };
    Some(Flow {
        local: SocketAddr::new(address(local), local_port),
        remote: SocketAddr::new(address(remote), remote_port),
        congestion_control: String::from_utf8_lossy(name).into_owned(),
    })
}

fn sample(reader: &mut Reader<'_>) -> Option<Sample> {
    let (pacing_rate, bytes_acked) = (reader.u64()?, reader.u64()?);
    let mut sample = Sample {
        pacing_rate,
        bytes_acked,
        window: reader.u32()?,
        threshold: reader.u32()?,
        srtt_us: reader.u32()?,
        rttvar_us: reader.u32()?,
        min_rtt_us: reader.u32()?,
        packets_out: reader.u32()?,
        sacked_out: reader.u32()?,
        lost_out: reader.u32()?,
        retrans_out: reader.u32()?,
        total_retrans: reader.u32()?,
        delivered: reader.u32()?,
        mss: reader.u32()?,
        peer_window: reader.u32()?,
        rate_delivered: reader.u32()?,
        rate_interval_us: reader.u32()?,
        application_limited: false,
        window_limited: false,
        inner: None,
    };
    let limits = reader.u32()?;
    (sample.application_limited, sample.window_limited) = (limits & 1 != 0, limits & 2 != 0);
    let kind = reader.u32()?;
    let mut inner = || reader.u32();
    let all = [inner()?, inner()?, inner()?, inner()?, inner()?, inner()?];
    sample.inner = match (kind, all) {
        (1, [base_us, average_us, flight, target, resting, _]) => {
            Some(Inner::Fast { base_us, average_us, flight, target, resting: resting != 0 })
        }
        (2, [min_rtt_us, max_rtt_us, alpha, beta, rate, max_rate]) => Some(Inner::Htcp {
            min_rtt_us,
            max_rtt_us,
            alpha: f64::from(alpha) / 128.0,
            beta: f64::from(beta) / 128.0,
            rate,
            max_rate,
        }),
        _ => None,
    };
    Some(sample)
}

impl Sample {
    /// Packets in flight: sent, and neither acknowledged nor considered lost (pipe of RFC 6675).
    pub fn in_flight(&self) -> u32 {
        self.packets_out.saturating_sub(self.sacked_out + self.lost_out) + self.retrans_out
    }

    /// Rate of the last delivery rate sample in bits per second; `None` before the first sample.
    pub fn delivery_bps(&self) -> Option<u64> {
        let bits = u64::from(self.rate_delivered) * u64::from(self.mss) * 8;
        (self.rate_interval_us > 0).then(|| bits * 1_000_000 / u64::from(self.rate_interval_us))
    }
}
