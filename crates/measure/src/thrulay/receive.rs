//! Server of a UDP test: counts datagrams and reports the counts at the end.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use estimate::{SequenceTracker, SignedDelays};
use kernel::{KernelError, Op, Received, UdpReceived};
use units::{Bytes, Instant};
use wire::Progress;
use wire::thrulay::{DelayQuantiles, ThrulayDatagram, UdpReport, UdpTerms, parse_end};

use super::echo::Tally;
use crate::MeasureError;

/// Number of UDP ports tried, the value of thrulay.
const PORTS_MAX: u16 = 1000;

/// Size of the socket's receive buffer, the value of thrulay.
const BUFFER_BYTES: Bytes = Bytes::new(4 << 20);

/// Maximum wait on the UDP socket between two checks of the control connection.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Buffer for the headers of 32 datagrams; the rest of a datagram is filler.
const BATCH_BYTES: usize = 32 * 64;

/// Maximum time to empty the socket after the client has reported the end of its transmission.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// Binds the first free UDP port above the server's own port: thrulay uses ports from 5003 on, and native tests use
/// 5003.
pub(super) fn bind(mut local: SocketAddr, server_port: u16) -> Option<(UdpSocket, u16)> {
    (1..=PORTS_MAX).find_map(|n| {
        let port = server_port.checked_add(n)?;
        local.set_port(port);
        Some((kernel::udp_socket(local, false, BUFFER_BYTES, None).ok()?, port))
    })
}

/// A running UDP test.
pub(super) struct Reception {
    socket: UdpSocket,
    terms: UdpTerms,
    buffer: Bytes,
    tracker: SequenceTracker,
    delays: SignedDelays,
    /// Copies of datagrams; the tracker returns its own count only at the end.
    duplicates: u64,
    tally: Tally,
}

impl Reception {
    pub(super) fn new(socket: UdpSocket, terms: UdpTerms) -> Result<Self, KernelError> {
        socket.set_read_timeout(Some(POLL_INTERVAL)).map_err(|e| KernelError::new(Op::Receive, "udp", e))?;
        Ok(Self {
            buffer: kernel::buffers(&socket)?.receive,
            tracker: SequenceTracker::new(terms.packets),
            delays: SignedDelays::new(),
            duplicates: 0,
            tally: Tally::default(),
            socket,
            terms,
        })
    }

    /// Counts up to now; a block is a datagram.
    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    /// Receives until the client reports on `control` how many packets it sent, and returns that number.
    ///
    /// The reception fails at `until`, or when no datagram arrives for the stall timeout, which frees the session. A
    /// client whose path loses all datagrams must report the end within that timeout.
    pub(super) fn receive(
        &mut self,
        control: &TcpStream,
        peer: SocketAddr,
        (until, stall_timeout): (Instant, Duration),
        is_ending: &dyn Fn() -> bool,
    ) -> Result<u64, MeasureError> {
        let start = kernel::now();
        let mut last_arrival = start;
        let (mut got, mut chunk, mut next_check) = (Vec::new(), [0; 256], start);
        let mut datagrams = vec![0; BATCH_BYTES];
        loop {
            let before = self.tally.blocks;
            self.receive_batch(&mut datagrams)?;
            let now = kernel::now();
            if self.tally.blocks > before {
                last_arrival = now;
            }
            if now < next_check {
                continue;
            }
            next_check = now + POLL_INTERVAL;
            if is_ending() {
                return Err(MeasureError::Unsupported("the server is ending".to_owned()));
            }
            if now >= until {
                let (peer, after) = (peer.to_string(), until.saturating_since(start));
                return Err(MeasureError::Silent { peer, after, during: "about the end of its UDP test" });
            }
            if now.saturating_since(last_arrival) > stall_timeout {
                return Err(MeasureError::Silent {
                    peer: peer.to_string(),
                    after: stall_timeout,
                    during: "during its UDP test",
                });
            }
            match kernel::read_some(control, &mut chunk)? {
                Received::Bytes(n) => got.extend_from_slice(&chunk[..n]),
                Received::End => {
                    return Err(MeasureError::Closed { peer: peer.to_string(), during: "during its UDP test" });
                }
                Received::Nothing => {}
            }
            if let Progress::Complete { value, .. } = parse_end(&got).map_err(|e| MeasureError::protocol(peer, e))? {
                self.drain(&mut datagrams)?;
                return Ok(value);
            }
        }
    }

    /// Receives the datagrams in the socket buffer. The client has waited 1 s for datagrams in flight.
    fn drain(&mut self, datagrams: &mut [u8]) -> Result<(), KernelError> {
        self.socket.set_nonblocking(true).map_err(|e| KernelError::new(Op::Receive, "udp", e))?;
        let give_up = kernel::now() + DRAIN_TIME_MAX;
        while self.receive_batch(datagrams)? > 0 && kernel::now() < give_up {}
        Ok(())
    }

    fn receive_batch(&mut self, datagrams: &mut [u8]) -> Result<usize, KernelError> {
        let Self { socket, terms, tracker, delays, duplicates, tally, .. } = self;
        kernel::recv_batch(socket, datagrams, |d| {
            let Some((header, arrived_ns)) = decode(&d, terms) else { return };
            // A time before 1970 yields no delay, but the packet counts as received.
            let sent_ns = header.sent.to_unix_nanos();
            let sent = Instant::from_nanos(sent_ns.unwrap_or(arrived_ns));
            match tracker.handle(header.sequence, sent, Instant::from_nanos(arrived_ns)) {
                estimate::Arrival::InOrder | estimate::Arrival::Reordered => {
                    tally.blocks += 1;
                    tally.count(terms.packet_size.as_u64());
                    if let Some(sent_ns) = sent_ns {
                        delays.record(arrived_ns.wrapping_sub(sent_ns) as i64);
                    }
                }
                estimate::Arrival::Duplicate => *duplicates += 1,
                estimate::Arrival::LateBeyondWindow | estimate::Arrival::Rejected => {}
            }
        })
    }

    /// Report with the counts and quantiles of thrulayd -v.
    pub(super) fn report(&mut self, sent: u64) -> String {
        let tracker = std::mem::replace(&mut self.tracker, SequenceTracker::new(0));
        let received = tracker.received() + self.duplicates;
        let q = |q| self.delays.quantile(q);
        let delay = (|| {
            Some(DelayQuantiles {
                p0_ns: q(0.0)?,
                p25_ns: q(0.25)?,
                p50_ns: q(0.5)?,
                p75_ns: q(0.75)?,
                p95_ns: q(0.95)?,
            })
        })();
        UdpReport {
            buffer: self.buffer,
            proposed: self.terms.packets,
            sent,
            received,
            duplicates: self.duplicates,
            delay,
            n_reordering: tracker.finish(Some(sent)).n_reordering,
        }
        .encode(true)
    }
}

/// Header of a datagram of this test, and its arrival time by the wall clock.
fn decode(d: &UdpReceived<'_>, terms: &UdpTerms) -> Option<(ThrulayDatagram, u64)> {
    let header = ThrulayDatagram::decode(d.data).filter(|h| h.nonce == terms.nonce)?;
    Some((header, d.realtime_ns.unwrap_or_else(wall_clock_ns)))
}

/// Wall clock in nanoseconds since 1970, the time base of thrulay's datagrams.
pub(super) fn wall_clock_ns() -> u64 {
    let (seconds, nanos) = kernel::utc_seconds();
    seconds * 1_000_000_000 + u64::from(nanos)
}
