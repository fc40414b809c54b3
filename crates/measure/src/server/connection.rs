//! An accepted connection until its purpose is known: control connection, data connection, or thrulay.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use kernel::{DataOptions, KernelError, Op, Received};
use results::{Direction, End};
use tracing::info;
use units::Instant;
use wire::{GREETING, Message, Progress, Proposal, RefuseCode, parse_proposal};

use super::event::SessionEvent;
use super::registry::ConnectionPermit;
use super::session;
use super::{Shared, reject};
use crate::control::{ControlReader, ControlWriter, HANDSHAKE_TIMEOUT};
use crate::load::StreamSocket;
use crate::{MeasureError, data, thrulay};

/// Sends the greeting, reads the proposal and serves it. An error ends only this connection.
pub(crate) fn handle(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr, permit: ConnectionPermit) {
    if let Err(e) = serve(shared, stream, peer, permit) {
        shared.log_refusal(|| info!(%peer, error = %e, "connection ended"));
    }
}

fn serve(
    shared: &Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    permit: ConnectionPermit,
) -> Result<(), MeasureError> {
    let io = |e| KernelError::new(Op::Socket, peer, e);
    stream.set_nonblocking(false).map_err(io)?;
    let deadline = kernel::now() + HANDSHAKE_TIMEOUT;
    kernel::send_some(&stream, GREETING, false)?;
    let (proposal, rest) = read_proposal(&stream, peer, deadline)?;
    match proposal {
        Proposal::Native { version } if version == wire::NATIVE_VERSION => {
            let writer = ControlWriter::new(stream.try_clone().map_err(io)?, &peer.to_string());
            let mut reader = ControlReader::new(stream.try_clone().map_err(io)?, &writer, &rest);
            match reader.message(deadline, "during the handshake")? {
                Message::Hello { nonce, fill, .. } => {
                    session::run(shared, writer, reader, peer, local(&stream), nonce, fill, permit, deadline)
                }
                Message::Join { session, stream: number, direction, proof } => {
                    let join = Join { session, number, direction, proof };
                    join.run(shared, stream, &writer, &reader, peer)
                }
                other => Err(MeasureError::protocol(peer, format!("unexpected message {}", other.name()))),
            }
        }
        Proposal::Native { version } => {
            reject(&stream, "unsupported version of the longhaul protocol");
            Err(MeasureError::protocol(peer, format!("asks for protocol version {version}")))
        }
        proposal @ (Proposal::ThrulayTcp { .. } | Proposal::ThrulayUdp { .. }) => {
            thrulay::serve(shared, &stream, peer, proposal, &rest, permit)
        }
    }
}

fn local(stream: &TcpStream) -> SocketAddr {
    stream.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)))
}

/// Reads the proposal. Returns it with the bytes read behind it.
fn read_proposal(stream: &TcpStream, peer: SocketAddr, deadline: Instant) -> Result<(Proposal, Vec<u8>), MeasureError> {
    let mut got = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match parse_proposal(&got).map_err(|e| MeasureError::protocol(peer, e))? {
            Progress::Complete { value, consumed } => return Ok((value, got.split_off(consumed))),
            Progress::Incomplete => {}
        }
        match kernel::read_some(stream, &mut chunk)? {
            Received::Bytes(n) => got.extend_from_slice(&chunk[..n]),
            Received::End => {
                let during = "before it proposed a test";
                return Err(MeasureError::Closed { peer: peer.to_string(), during });
            }
            Received::Nothing => {
                let now = kernel::now();
                if now >= deadline {
                    let (peer, after) = (peer.to_string(), HANDSHAKE_TIMEOUT);
                    return Err(MeasureError::Silent { peer, after, during: "before it proposed a test" });
                }
                kernel::wait(stream, false, deadline.saturating_since(now))?;
            }
        }
    }
}

/// Request of a data connection to join a session.
struct Join {
    session: [u8; 8],
    number: u32,
    direction: Direction,
    proof: Option<[u8; 32]>,
}

impl Join {
    fn run(
        &self,
        shared: &Shared,
        socket: TcpStream,
        writer: &ControlWriter,
        reader: &ControlReader,
        peer: SocketAddr,
    ) -> Result<(), MeasureError> {
        let refuse = |code, reason: &str| {
            let _ = writer.send(&Message::Refuse { code, reason: reason.to_owned() });
            Err(MeasureError::protocol(peer, format!("data connection refused: {reason}")))
        };
        let Some(session) = shared.registry.find(self.session) else {
            return refuse(RefuseCode::BadRequest, "there is no such session");
        };
        if crate::udp::is_udp(&session.plan) {
            return refuse(RefuseCode::BadRequest, "the session's streams are datagrams");
        }
        // The session's address has been validated; a data connection must come from the same address.
        if session.address != peer.ip() {
            return refuse(RefuseCode::NotAllowed, "the session belongs to another address");
        }
        if let Some(key) = &shared.options.key {
            let (cn, sn) = (&session.client_nonce, &session.server_nonce);
            let proven = |p| wire::verify_join(key, cn, sn, self.session, self.number, self.direction, p);
            if !self.proof.as_ref().is_some_and(proven) {
                let reason = "the data connection does not prove the key";
                shared.log_failed_authentication(peer, reason);
                return refuse(RefuseCode::BadKey, reason);
            }
        }
        if reader.has_unread() {
            return refuse(RefuseCode::BadRequest, "data before the start");
        }
        let mut options = data::options(&session.plan, End::Server, self.direction);
        options.beyond_limits = shared.options.large_windows;
        if self.direction.sender() == End::Server && options.congestion_control.is_none() {
            options.congestion_control = kernel::accepted_congestion_control();
        }
        if let Err(e) = apply(&socket, &options) {
            return refuse(RefuseCode::Unsupported, &e.to_string());
        }
        // Losses alone do not end the connection, as at the client.
        kernel::clear_user_timeout(&socket);
        let joined = Message::Joined {
            buffers: data::grant(&socket, &session.plan)?,
            congestion_control: kernel::congestion_control(&socket),
            mss_bytes: kernel::tcp_state(&socket).ok().map(|s| s.mss_bytes),
        };
        let stream = StreamSocket { stream: self.number, direction: self.direction, socket, budget: None };
        // The session receives the stream before the client receives the confirmation. The client's start, which
        // arrives on the control connection, must not overtake it. If the session has ended, the socket closes with the
        // event.
        let _ = session.inbox.send(SessionEvent::Joined(stream));
        writer.send(&joined)
    }
}

fn apply(socket: &TcpStream, options: &DataOptions) -> Result<(), KernelError> {
    kernel::apply_data_options(socket, options)
}
