//! Client side of the address validation.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use kernel::{KernelError, Op};
use results::{BufferGrant, Direction, StreamStart, TestPlan};
use units::Instant;
use wire::{UDP_CONTROL_BYTES, UdpControl};

use super::{Traffic, UdpStream};
use crate::control::HANDSHAKE_TIMEOUT;
use crate::load::stream_numbers;
use crate::{MeasureError, address};

/// Interval at which an unanswered request is repeated: the round trip of a long path. Copies are harmless.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Address validation of one stream. It reads no clock.
#[derive(Debug)]
struct Prover {
    token: [u8; 8],
    nonce: Option<[u8; 16]>,
}

impl Prover {
    /// Request to send now.
    fn request(&self) -> UdpControl {
        match self.nonce {
            None => UdpControl::Hello { token: self.token },
            Some(nonce) => UdpControl::Proof { token: self.token, nonce },
        }
    }

    /// Handles a datagram from the server. Returns the progress that it made.
    fn handle(&mut self, datagram: &[u8]) -> Progress {
        match UdpControl::decode(datagram) {
            Some(UdpControl::Challenge { token, nonce }) if token == self.token && self.nonce != Some(nonce) => {
                self.nonce = Some(nonce);
                Progress::Challenged
            }
            Some(UdpControl::Ready { token }) if token == self.token && self.nonce.is_some() => Progress::Ready,
            Some(
                UdpControl::Hello { .. }
                | UdpControl::Challenge { .. }
                | UdpControl::Proof { .. }
                | UdpControl::Ready { .. },
            )
            | None => Progress::Same,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Same,
    Challenged,
    Ready,
}

/// Opens and validates a socket for each stream of the plan in parallel: on a long path each takes two round trips.
///
/// # Errors
/// No answer within [`HANDSHAKE_TIMEOUT`].
pub(crate) fn join_all(
    plan: &TestPlan,
    name: [u8; 8],
    local: SocketAddr,
    server: SocketAddr,
) -> Result<(Vec<UdpStream>, Vec<StreamStart>), MeasureError> {
    if server.port() == 0 {
        return Err(MeasureError::Unsupported(format!("{} offers no UDP tests", server.ip())));
    }
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = stream_numbers(plan)
            .into_iter()
            .map(|(n, d)| scope.spawn(move || join(plan, name, local, server, n, d)))
            .collect();
        threads.into_iter().map(|t| t.join()).collect()
    });
    let joined: Result<Vec<_>, _> = outcomes
        .into_iter()
        .map(|o| o.map_err(|_| MeasureError::protocol("client", "a connecting thread ended abnormally"))?)
        .collect();
    Ok(joined?.into_iter().unzip())
}

fn join(
    plan: &TestPlan,
    name: [u8; 8],
    mut local: SocketAddr,
    server: SocketAddr,
    stream: u32,
    direction: Direction,
) -> Result<(UdpStream, StreamStart), MeasureError> {
    // Same address as the control connection: the server answers only for sessions of the sender's address.
    local.set_port(0);
    let socket = kernel::udp_socket(local, false, super::buffer(plan), plan.dscp)?;
    let e = |source| KernelError::new(Op::Connect, server, source);
    socket.connect(server).map_err(e)?;
    socket.set_nonblocking(true).map_err(e)?;
    let token = wire::stream_token(name, stream);
    prove(&socket, server, token)?;
    let buffers = kernel::buffers(&socket)?;
    let start = StreamStart {
        stream,
        direction,
        client: address::plain(socket.local_addr().unwrap_or(local)).to_string(),
        server: address::plain(server).to_string(),
        mss_bytes: None,
        pmtu_bytes: kernel::path_mtu(&socket),
        congestion_control: None,
        options: Vec::new(),
        client_buffers: BufferGrant {
            requested_bytes: Some(super::buffer(plan).as_u64()),
            send_bytes: buffers.send.as_u64(),
            receive_bytes: buffers.receive.as_u64(),
        },
        server_buffers: BufferGrant::default(),
    };
    Ok((UdpStream { stream, direction, socket, token, traffic: Traffic::new(plan, stream) }, start))
}

/// Exchanges hello, challenge, proof and ready; each request is repeated until it is answered.
fn prove(socket: &UdpSocket, server: SocketAddr, token: [u8; 8]) -> Result<(), MeasureError> {
    let mut prover = Prover { token, nonce: None };
    let give_up = kernel::now() + HANDSHAKE_TIMEOUT;
    let mut retry_at = Instant::ZERO;
    let mut buffer = [0; 32 * (UDP_CONTROL_BYTES + 1)];
    loop {
        let now = kernel::now();
        if now >= give_up {
            return Err(MeasureError::UdpBlocked { server, after: HANDSHAKE_TIMEOUT });
        }
        if now >= retry_at {
            // Refusals (a closed port, a full queue) may be temporary; the deadline handles permanent ones.
            kernel::send_datagram(socket, None, &prover.request().encode())?;
            retry_at = now + RETRY_INTERVAL;
        }
        let mut progress = Progress::Same;
        let got = kernel::recv_batch(socket, &mut buffer, |d| progress = progress.max(prover.handle(d.data)))?;
        match progress {
            Progress::Ready => return Ok(()),
            Progress::Challenged => retry_at = now,
            Progress::Same if got == 0 => {
                let until = retry_at.min(give_up);
                kernel::wait(socket, false, until.saturating_since(now))?;
            }
            Progress::Same => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_validation_needs_both_answers_of_the_right_session() {
        let (token, nonce) = ([1; 8], [2; 16]);
        let mut p = Prover { token, nonce: None };
        assert_eq!(p.request(), UdpControl::Hello { token });
        assert_eq!(p.handle(&UdpControl::Ready { token }.encode()), Progress::Same, "no challenge was received");
        assert_eq!(p.handle(&UdpControl::Challenge { token: [3; 8], nonce }.encode()), Progress::Same);
        assert_eq!(p.handle(b"noise"), Progress::Same);
        assert_eq!(p.handle(&UdpControl::Challenge { token, nonce }.encode()), Progress::Challenged);
        assert_eq!(p.handle(&UdpControl::Challenge { token, nonce }.encode()), Progress::Same, "a copy");
        assert_eq!(p.request(), UdpControl::Proof { token, nonce });
        assert_eq!(p.handle(&UdpControl::Ready { token }.encode()), Progress::Ready);
    }

    #[test]
    fn the_error_of_a_silent_server_names_the_udp_port() {
        let error = MeasureError::UdpBlocked { server: "192.0.2.7:5003".parse().unwrap(), after: HANDSHAKE_TIMEOUT };
        assert_eq!(
            error.to_string(),
            "no answer on UDP port 5003 of 192.0.2.7 for 5 s, while its TCP port answers: is UDP filtered on the path?"
        );
    }
}
