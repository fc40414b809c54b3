//! The client's side of the address validation.

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

/// How long an answer is waited for before the question is asked again: a long path's round trip; a copy harms nobody.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// The exchange of one stream. Reads no clock.
#[derive(Debug)]
struct Prover {
    token: [u8; 8],
    nonce: Option<[u8; 16]>,
}

impl Prover {
    /// What to send now.
    fn question(&self) -> UdpControl {
        match self.nonce {
            None => UdpControl::Hello { token: self.token },
            Some(nonce) => UdpControl::Proof { token: self.token, nonce },
        }
    }

    /// Takes a datagram from the server; tells what it changed.
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

/// Opens and proves a socket for each stream of the plan, all at once: on a long path each takes two round trips.
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
    // The address of the control connection: the server gives datagrams only to who asked for them.
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

/// Hello, challenge, proof, ready; each question again until it is answered.
fn prove(socket: &UdpSocket, server: SocketAddr, token: [u8; 8]) -> Result<(), MeasureError> {
    let mut prover = Prover { token, nonce: None };
    let give_up = kernel::now() + HANDSHAKE_TIMEOUT;
    let mut ask = Instant::ZERO;
    let mut buffer = [0; 32 * (UDP_CONTROL_BYTES + 1)];
    loop {
        let now = kernel::now();
        if now >= give_up {
            return Err(MeasureError::UdpBlocked { server, after: HANDSHAKE_TIMEOUT });
        }
        if now >= ask {
            // Refusals (a closed port, a full queue) may pass; the deadline tells when they do not.
            kernel::send_datagram(socket, None, &prover.question().encode())?;
            ask = now + ASK_EVERY;
        }
        let mut progress = Progress::Same;
        let got = kernel::recv_batch(socket, &mut buffer, |d| progress = progress.max(prover.handle(d.data)))?;
        match progress {
            Progress::Ready => return Ok(()),
            Progress::Challenged => ask = now,
            Progress::Same if got == 0 => {
                let until = ask.min(give_up);
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
    fn the_exchange_needs_both_answers_of_the_right_session() {
        let (token, nonce) = ([1; 8], [2; 16]);
        let mut p = Prover { token, nonce: None };
        assert_eq!(p.question(), UdpControl::Hello { token });
        assert_eq!(p.handle(&UdpControl::Ready { token }.encode()), Progress::Same, "nobody was challenged");
        assert_eq!(p.handle(&UdpControl::Challenge { token: [3; 8], nonce }.encode()), Progress::Same);
        assert_eq!(p.handle(b"noise"), Progress::Same);
        assert_eq!(p.handle(&UdpControl::Challenge { token, nonce }.encode()), Progress::Challenged);
        assert_eq!(p.handle(&UdpControl::Challenge { token, nonce }.encode()), Progress::Same, "a copy");
        assert_eq!(p.question(), UdpControl::Proof { token, nonce });
        assert_eq!(p.handle(&UdpControl::Ready { token }.encode()), Progress::Ready);
    }

    #[test]
    fn a_silent_server_is_told_from_a_refusing_one_in_plain_words() {
        let error = MeasureError::UdpBlocked { server: "192.0.2.7:5003".parse().unwrap(), after: HANDSHAKE_TIMEOUT };
        assert_eq!(
            error.to_string(),
            "no answer on UDP port 5003 of 192.0.2.7 for 5 s, while its TCP port answers: is UDP filtered on the way?"
        );
    }
}
