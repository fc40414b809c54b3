use std::os::fd::{AsFd, AsRawFd};

use results::TcpState;

use crate::{KernelError, Op};

/// Buffer size in bytes for the struct of any kernel; the kernel fills in and reports the part that it supports.
const INFO_BYTES_MAX: usize = 512;

/// `TCP_INFINITE_SSTHRESH` (include/net/tcp.h).
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

struct Raw {
    bytes: [u8; INFO_BYTES_MAX],
    len: usize,
}

impl Raw {
    fn read(socket: &impl AsFd) -> Result<Self, KernelError> {
        let mut bytes = [0_u8; INFO_BYTES_MAX];
        let mut len = INFO_BYTES_MAX as libc::socklen_t;
        // SAFETY: the buffer is writable for `len` bytes and outlives the call; the descriptor is open while borrowed.
        let rc = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if rc < 0 { Err(KernelError::last(Op::TcpInfo, "socket")) } else { Ok(Self { bytes, len: len as usize }) }
    }

    /// Takes bytes from another source than the socket itself.
    fn of(info: &[u8]) -> Self {
        let len = info.len().min(INFO_BYTES_MAX);
        let mut bytes = [0_u8; INFO_BYTES_MAX];
        bytes[..len].copy_from_slice(&info[..len]);
        Self { bytes, len }
    }

    fn u8(&self, at: usize) -> u8 {
        self.bytes[at]
    }

    /// Zero where the kernel is too old to fill in the field.
    fn u32(&self, at: usize) -> u32 {
        let mut b = [0; 4];
        if at + 4 <= self.len {
            b.copy_from_slice(&self.bytes[at..at + 4]);
        }
        u32::from_ne_bytes(b)
    }

    fn u64(&self, at: usize) -> u64 {
        let mut b = [0; 8];
        if at + 8 <= self.len {
            b.copy_from_slice(&self.bytes[at..at + 8]);
        }
        u64::from_ne_bytes(b)
    }
}

/// TCP options agreed on in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpOptions {
    /// Timestamps (RFC 7323): 12 bytes of each segment.
    pub timestamps: bool,
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Window scaling (RFC 7323).
    pub window_scale: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
}

/// The options of a connected TCP socket.
///
/// # Errors
/// The socket is not TCP.
pub fn tcp_options(socket: &impl AsFd) -> Result<TcpOptions, KernelError> {
    let bits = Raw::read(socket)?.u8(5);
    Ok(TcpOptions { timestamps: bits & 1 != 0, sack: bits & 2 != 0, window_scale: bits & 4 != 0, ecn: bits & 8 != 0 })
}

/// Packet counts of `TCP_INFO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segments {
    /// Congestion window.
    pub cwnd: u32,
    /// Slow start threshold; `None` while infinite.
    pub ssthresh: Option<u32>,
    /// Sent and not acknowledged.
    pub unacked: u32,
    /// Selectively acknowledged.
    pub sacked: u32,
    /// Marked as lost and not yet retransmitted.
    pub lost: u32,
    /// Retransmitted and not acknowledged.
    pub retransmitted: u32,
}

impl Segments {
    /// Packets in the network (`tcp_packets_in_flight` of the kernel).
    pub fn in_flight(&self) -> u32 {
        self.unacked.saturating_sub(self.sacked + self.lost) + self.retransmitted
    }
}

/// Parses the bytes of a `struct tcp_info` into the state of [`tcp_state`] and the packet counts.
pub(crate) fn tcp_info(bytes: &[u8]) -> (TcpState, Segments) {
    let raw = Raw::of(bytes);
    let ssthresh = raw.u32(76);
    let segments = Segments {
        cwnd: raw.u32(80),
        ssthresh: (ssthresh < INFINITE_SSTHRESH).then_some(ssthresh),
        unacked: raw.u32(24),
        sacked: raw.u32(28),
        lost: raw.u32(32),
        retransmitted: raw.u32(36),
    };
    (state(&raw), segments)
}

/// Reads `TCP_INFO`. Field offsets are those of `struct tcp_info` in include/uapi/linux/tcp.h, which only ever grows.
///
/// # Errors
/// The socket is not TCP.
pub fn tcp_state(socket: &impl AsFd) -> Result<TcpState, KernelError> {
    Ok(state(&Raw::read(socket)?))
}

fn state(raw: &Raw) -> TcpState {
    let us = |at| u64::from(raw.u32(at)) * 1000;
    let mss = u64::from(raw.u32(16));
    let ssthresh = raw.u32(76);
    let min_rtt = raw.u32(148);
    let pacing = raw.u64(104);
    TcpState {
        cwnd_bytes: u64::from(raw.u32(80)) * mss,
        ssthresh_bytes: (ssthresh < INFINITE_SSTHRESH).then(|| u64::from(ssthresh) * mss),
        srtt_ns: us(68),
        rttvar_ns: us(72),
        // ~0 is the kernel's "no sample yet".
        min_rtt_ns: (min_rtt != u32::MAX).then(|| us(148)),
        mss_bytes: mss,
        pmtu_bytes: u64::from(raw.u32(60)),
        retransmits: u64::from(raw.u32(100)),
        unacked_segments: u64::from(raw.u32(24)),
        ca_state: raw.u8(1),
        bytes_sent: raw.u64(200),
        bytes_retransmitted: raw.u64(208),
        bytes_acked: raw.u64(120),
        bytes_received: raw.u64(128),
        notsent_bytes: u64::from(raw.u32(144)),
        delivery_rate_bps: raw.u64(160).saturating_mul(8),
        delivery_rate_app_limited: raw.u8(7) & 1 != 0,
        pacing_rate_bps: (pacing != u64::MAX && pacing != 0).then(|| pacing.saturating_mul(8)),
        busy_ns: raw.u64(168) * 1000,
        rwnd_limited_ns: raw.u64(176) * 1000,
        sndbuf_limited_ns: raw.u64(184) * 1000,
        snd_wnd_bytes: u64::from(raw.u32(228)),
        reorder_events: u64::from(raw.u32(220)),
        out_of_order_segments: (raw.len >= 228).then(|| u64::from(raw.u32(224))),
        data_segments_sent: (raw.len >= 160).then(|| u64::from(raw.u32(156))),
        delivered_ce: u64::from(raw.u32(196)),
    }
}
