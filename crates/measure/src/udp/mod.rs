//! Native UDP tests: datagrams at a fixed rate, counted and timed at the other end.
//!
//! Nothing but the plan slows a UDP sender down, so before any bulk datagram the client proves that it receives where it
//! sends from ([`prove`], [`admission`]). Then each stream has one connected socket at each end; a [`sender`] keeps to the
//! departures of a [`pacer`], a [`receiver`] counts what arrives. How many were sent travels on the control connection, so
//! that no lost datagram can hold up the end of a test.

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

/// Waiting time that separates late from lost (Tmax of RFC 7680 §2.4), counted from the sender's word that it has sent
/// all. RFC 6703 §4.1 wants it far longer than any plausible delay; two seconds exceed three satellite round trips.
pub(crate) const TMAX: Duration = Duration::from_secs(2);

/// Socket buffer asked for when the plan names none: 50 ms at 1 Gb/s, some 6 MB with the kernel's bookkeeping.
const BUFFER: Bytes = Bytes::new(8 << 20);

/// One stream of datagrams between this end and a peer that was proven to receive at its address.
#[derive(Debug)]
pub(crate) struct UdpStream {
    /// Number of the stream, unique over both directions.
    pub(crate) stream: u32,
    /// Which way its datagrams go.
    pub(crate) direction: Direction,
    /// Connected to the peer.
    pub(crate) socket: UdpSocket,
    /// What each datagram begins with.
    pub(crate) token: [u8; 8],
    /// What is sent.
    pub(crate) traffic: Traffic,
}

/// How many datagrams the sender says it has sent, once it has said so.
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

/// Whether a plan's bulk bytes travel in datagrams.
pub(crate) fn is_udp(plan: &TestPlan) -> bool {
    match plan.transport {
        Transport::Tcp => false,
        Transport::UdpConstant | Transport::UdpPoisson | Transport::Probe => true,
    }
}

fn buffer(plan: &TestPlan) -> Bytes {
    plan.window_bytes.map_or(BUFFER, Bytes::new)
}

/// Forgets what waits in a socket: datagrams of the address validation, of an earlier train, or of strangers from before it was
/// connected.
pub(crate) fn drain(socket: &UdpSocket) {
    /// Enough for any default receive buffer; more would be a flood, which the token keeps out of the counts.
    const ROUNDS: usize = 256;
    let mut buffer = [0; 32 * 64];
    for _ in 0..ROUNDS {
        if !matches!(kernel::recv_batch(socket, &mut buffer, |_| ()), Ok(n) if n > 0) {
            return;
        }
    }
}
