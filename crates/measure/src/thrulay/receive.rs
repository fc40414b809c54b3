//! The server's part of a UDP test: counts datagrams, and says at the end what it saw.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use estimate::{SequenceTracker, SignedDelays};
use kernel::{KernelError, Op, Received, UdpReceived};
use units::{Bytes, Instant};
use wire::Progress;
use wire::thrulay::{DelayQuantiles, ThrulayDatagram, UdpReport, UdpTerms, parse_end};

use super::echo::Tally;
use crate::MeasureError;

/// Ports tried, as many as thrulay tries.
const PORTS: u16 = 1000;

/// Receive buffer of the socket (thrulay's).
const BUFFER: Bytes = Bytes::new(4 << 20);

/// How long one look at the UDP socket waits; between two of them the control connection is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Room for 32 datagrams as far as they are looked at: the header. The rest is filler.
const BATCH: usize = 32 * 64;

/// Longest emptying of the socket after the client said that it had sent all.
const DRAIN: Duration = Duration::from_secs(1);

/// The first free UDP port above the server's own: thrulay's ports are 5003 and up, and 5003 is for native tests.
pub(super) fn bind(mut local: SocketAddr, server_port: u16) -> Option<(UdpSocket, u16)> {
    (1..=PORTS).find_map(|n| {
        let port = server_port.checked_add(n)?;
        local.set_port(port);
        Some((kernel::udp_socket(local, false, BUFFER, None).ok()?, port))
    })
}

/// A UDP test under way.
pub(super) struct Reception {
    socket: UdpSocket,
    terms: UdpTerms,
    buffer: Bytes,
    tracker: SequenceTracker,
    delays: SignedDelays,
    /// Copies of datagrams; the tracker tells its own count only when it ends.
    duplicates: u64,
    tally: Tally,
}

impl Reception {
    pub(super) fn new(socket: UdpSocket, terms: UdpTerms) -> Result<Self, KernelError> {
        socket.set_read_timeout(Some(LOOK_EVERY)).map_err(|e| KernelError::new(Op::Receive, "udp", e))?;
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

    /// What was received so far; a block is a datagram.
    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    /// Receives until the client tells on `control` how many packets it sent, and returns that number.
    ///
    /// It ends without that at `until`, or when no datagram came for the patience behind it: a seat is not held for nothing. A client
    /// whose path loses all has that long to say that it is done.
    pub(super) fn receive(
        &mut self,
        control: &TcpStream,
        peer: SocketAddr,
        (until, patience): (Instant, Duration),
        is_ending: &dyn Fn() -> bool,
    ) -> Result<u64, MeasureError> {
        let begin = kernel::now();
        let mut moved = begin;
        let (mut got, mut chunk, mut next_look) = (Vec::new(), [0; 256], begin);
        let mut datagrams = vec![0; BATCH];
        loop {
            let before = self.tally.blocks;
            self.take_batch(&mut datagrams)?;
            let now = kernel::now();
            if self.tally.blocks > before {
                moved = now;
            }
            if now < next_look {
                continue;
            }
            next_look = now + LOOK_EVERY;
            if is_ending() {
                return Err(MeasureError::Unsupported("the server is ending".to_owned()));
            }
            if now >= until {
                let (peer, after) = (peer.to_string(), until.saturating_since(begin));
                return Err(MeasureError::Silent { peer, after, during: "about the end of its UDP test" });
            }
            if now.saturating_since(moved) > patience {
                return Err(MeasureError::Silent {
                    peer: peer.to_string(),
                    after: patience,
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

    /// Takes what waits in the socket. The client has waited a second for what is under way.
    fn drain(&mut self, datagrams: &mut [u8]) -> Result<(), KernelError> {
        self.socket.set_nonblocking(true).map_err(|e| KernelError::new(Op::Receive, "udp", e))?;
        let give_up = kernel::now() + DRAIN;
        while self.take_batch(datagrams)? > 0 && kernel::now() < give_up {}
        Ok(())
    }

    fn take_batch(&mut self, datagrams: &mut [u8]) -> Result<usize, KernelError> {
        let Self { socket, terms, tracker, delays, duplicates, tally, .. } = self;
        kernel::recv_batch(socket, datagrams, |d| {
            let Some((header, arrived_ns)) = ours(&d, terms) else { return };
            // A time before 1970 says nothing of a delay, and the packet arrived all the same.
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

    /// The report, with counts and quantiles as thrulayd -v gives them.
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

/// The header of a datagram of this test, and when it arrived by the wall clock.
fn ours(d: &UdpReceived<'_>, terms: &UdpTerms) -> Option<(ThrulayDatagram, u64)> {
    let header = ThrulayDatagram::decode(d.data).filter(|h| h.nonce == terms.nonce)?;
    Some((header, d.realtime_ns.unwrap_or_else(wall_clock_ns)))
}

/// Nanoseconds since 1970: thrulay's datagrams carry the time of day.
pub(super) fn wall_clock_ns() -> u64 {
    let (seconds, nanos) = kernel::utc_seconds();
    seconds * 1_000_000_000 + u64::from(nanos)
}
