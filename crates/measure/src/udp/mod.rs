//! Native UDP tests: datagrams at a fixed rate, counted and timed at the other end.
//!
//! Only the plan limits the rate of a UDP sender. Therefore the client proves that it receives at its source address
//! before the first bulk datagram ([`prove`], [`admission`]). Each stream then has one connected socket at each end: a
//! [`sender`] follows the departures of a [`pacer`], a [`receiver`] counts arrivals. The control connection carries the
//! number of sent datagrams, so that no lost datagram delays the end of a test.

mod admission;
mod cut;
mod end;
mod opened;
mod pacer;
mod prove;
mod receiver;
mod sender;
mod traffic;

pub(crate) use admission::{Proofs, admit};
pub(crate) use cut::{DatagramCut, merged};
pub(crate) use end::{Totals, UdpDone, both_ends, contradiction};
pub(crate) use opened::ServerStreams;
pub(crate) use prove::join_all;
pub(crate) use receiver::Receiver;
pub(crate) use sender::Sender;
pub(crate) use traffic::Traffic;

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use results::{Direction, TestPlan, Transport};
use units::Bytes;

/// Waiting time that separates late from lost datagrams (Tmax of RFC 7680 §2.4), counted from the sender's report of
/// its count. RFC 6703 §4.1 recommends a time far beyond any plausible delay; 2 s exceed three satellite round trips.
pub(crate) const TMAX: Duration = Duration::from_secs(2);

/// Default size of the socket buffer: 50 ms at 1 Gb/s, about 6 MB with the kernel's overhead.
const BUFFER_BYTES: Bytes = Bytes::new(8 << 20);

/// One datagram stream between this end and a peer with a validated address.
#[derive(Debug)]
pub(crate) struct UdpStream {
    /// Number of the stream, unique over both directions.
    pub(crate) stream: u32,
    /// Direction of its datagrams.
    pub(crate) direction: Direction,
    /// Socket, connected to the peer.
    pub(crate) socket: UdpSocket,
    /// Identifier at the start of each datagram.
    pub(crate) token: [u8; 8],
    /// Rate, size and schedule of the datagrams.
    pub(crate) traffic: Traffic,
}

/// Number of sent datagrams, once the sender has reported it.
#[derive(Debug, Clone)]
pub(crate) struct Expected(Arc<AtomicU64>);

impl Default for Expected {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Expected {
    pub(crate) fn set(&self, datagrams: u64) {
        self.0.store(datagrams, Ordering::Relaxed);
    }

    fn known(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|n| *n != u64::MAX)
    }
}

/// Whether a plan's bulk data is sent in datagrams.
pub(crate) fn is_udp(plan: &TestPlan) -> bool {
    match plan.transport {
        Transport::Tcp => false,
        Transport::UdpConstant | Transport::UdpPoisson | Transport::Probe => true,
    }
}

fn buffer(plan: &TestPlan) -> Bytes {
    plan.window_bytes.map_or(BUFFER_BYTES, Bytes::new)
}

/// Discards the datagrams in a socket's buffer: those of the address validation, of an earlier train, or of other
/// origin from before the socket was connected.
pub(crate) fn drain(socket: &UdpSocket) {
    /// Enough for any default receive buffer. More datagrams would be a flood, which the token keeps out of the counts.
    const ROUNDS_MAX: usize = 256;
    let mut buffer = [0; 32 * 64];
    for _ in 0..ROUNDS_MAX {
        if !matches!(kernel::recv_batch(socket, &mut buffer, |_| ()), Ok(n) if n > 0) {
            return;
        }
    }
}
