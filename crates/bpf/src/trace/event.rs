//! Events of `bpf/trace.bpf.c`, which has the same structures.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Something that happened to a connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The kernel's number of the socket.
    pub cookie: u64,
    /// State of the connection: 0 open, 1 disorder, 2 congestion window reduced, 3 recovery, 4 loss (enum tcp_ca_state).
    pub state: u32,
    /// The event.
    pub what: What,
}

/// Kind of an event, with its data.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A connection is seen for the first time.
    Flow(Flow),
    /// A packet arrived; what was kept before it was acted on.
    Sample(Sample),
    /// The state changed, to that of the event.
    State(Sample),
    /// Something was sent again.
    Retransmission(Sample),
    /// The connection ended.
    End(Sample),
}

/// Whose events these are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// This host's end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Its congestion control.
    pub congestion_control: String,
}

/// State of a TCP connection; windows and counts in packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Bytes a second that pacing allows; `u64::MAX`: no pacing.
    pub pacing_rate: u64,
    /// Bytes acknowledged in all.
    pub bytes_acked: u64,
    /// Congestion window.
    pub window: u32,
    /// Slow start threshold.
    pub threshold: u32,
    /// Smoothed round trip.
    pub srtt_us: u32,
    /// Its mean deviation.
    pub rttvar_us: u32,
    /// Smallest round trip of the last minutes (net.ipv4.tcp_min_rtt_wlen).
    pub min_rtt_us: u32,
    /// Packets sent and not acknowledged.
    pub packets_out: u32,
    /// Of those, selectively acknowledged.
    pub sacked_out: u32,
    /// Of those, thought lost.
    pub lost_out: u32,
    /// Of those, sent again.
    pub retrans_out: u32,
    /// Sent again in all.
    pub total_retrans: u32,
    /// Delivered in all.
    pub delivered: u32,
    /// Bytes of a segment.
    pub mss: u32,
    /// Window of the peer in bytes.
    pub peer_window: u32,
    /// Packets of the last measured delivery.
    pub rate_delivered: u32,
    /// Its time.
    pub rate_interval_us: u32,
    /// The application sends less than it could.
    pub application_limited: bool,
    /// The congestion window holds it back.
    pub window_limited: bool,
    /// State of one of longhaul's congestion controls.
    pub inner: Option<Inner>,
}

/// State that only the congestion control keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Inner {
    /// FAST TCP.
    Fast {
        /// Smallest round trip of the connection.
        base_us: u32,
        /// Mean round trip.
        average_us: u32,
        /// Packets in flight when the packet acknowledged last was sent.
        flight: u32,
        /// Window that it goes to.
        target: u32,
        /// Whether the window rests.
        resting: bool,
    },
    /// H-TCP.
    Htcp {
        /// Smallest smoothed round trip.
        min_rtt_us: u32,
        /// Largest, slowly forgotten.
        max_rtt_us: u32,
        /// Packets by which the window grows each round trip.
        alpha: f64,
        /// Factor of decrease.
        beta: f64,
        /// Mean throughput in packets a second.
        rate: u32,
        /// Its largest value since the last congestion.
        max_rate: u32,
    },
}

/// Reads numbers one after the other.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
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
        let mut words = Words(bytes);
        let (time_ns, cookie) = (words.u64()?, words.u64()?);
        let (kind, state) = (words.u32()?, words.u32()?);
        let what = match kind {
            0 => What::Flow(flow(&mut words)?),
            1 => What::Sample(sample(&mut words)?),
            2 => What::State(sample(&mut words)?),
            3 => What::Retransmission(sample(&mut words)?),
            4 => What::End(sample(&mut words)?),
            _ => return None,
        };
        Some(Self { time_ns, cookie, state, what })
    }
}

fn flow(words: &mut Words<'_>) -> Option<Flow> {
    let (local, remote) = (words.bytes::<16>()?, words.bytes::<16>()?);
    let (local_port, remote_port) = (words.u16()?, words.u16()?);
    words.u32()?;
    let name = words.bytes::<16>()?;
    let name = name.split(|b| *b == 0).next().unwrap_or_default();
    let address = |bytes: [u8; 16]| -> IpAddr { Ipv6Addr::from(bytes).to_canonical() };
    Some(Flow {
        local: SocketAddr::new(address(local), local_port),
        remote: SocketAddr::new(address(remote), remote_port),
        congestion_control: String::from_utf8_lossy(name).into_owned(),
    })
}

fn sample(words: &mut Words<'_>) -> Option<Sample> {
    let (pacing_rate, bytes_acked) = (words.u64()?, words.u64()?);
    let mut sample = Sample {
        pacing_rate,
        bytes_acked,
        window: words.u32()?,
        threshold: words.u32()?,
        srtt_us: words.u32()?,
        rttvar_us: words.u32()?,
        min_rtt_us: words.u32()?,
        packets_out: words.u32()?,
        sacked_out: words.u32()?,
        lost_out: words.u32()?,
        retrans_out: words.u32()?,
        total_retrans: words.u32()?,
        delivered: words.u32()?,
        mss: words.u32()?,
        peer_window: words.u32()?,
        rate_delivered: words.u32()?,
        rate_interval_us: words.u32()?,
        application_limited: false,
        window_limited: false,
        inner: None,
    };
    let limits = words.u32()?;
    (sample.application_limited, sample.window_limited) = (limits & 1 != 0, limits & 2 != 0);
    let kind = words.u32()?;
    let mut inner = || words.u32();
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
    /// Packets in the network: sent, and neither acknowledged nor thought lost (RFC 6675's pipe).
    pub fn in_flight(&self) -> u32 {
        self.packets_out.saturating_sub(self.sacked_out + self.lost_out) + self.retrans_out
    }

    /// Rate of the last measured delivery in bits a second; `None` before the first.
    pub fn delivery_bps(&self) -> Option<u64> {
        let bits = u64::from(self.rate_delivered) * u64::from(self.mss) * 8;
        (self.rate_interval_us > 0).then(|| bits * 1_000_000 / u64::from(self.rate_interval_us))
    }
}
