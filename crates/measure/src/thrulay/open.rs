//! Client connections of a TCP test: one for each stream, each with its own proposal.

use std::net::{SocketAddr, TcpStream};

use results::{BufferGrant, Direction, End, StreamStart, TestPlan};
use units::Bytes;
use wire::thrulay::{TcpTerms, parse_tcp_response};

use super::text;
use crate::client::{ClientOptions, greet};
use crate::control::HANDSHAKE_TIMEOUT;
use crate::load::{StreamSocket, share_of};
use crate::{MeasureError, PEER_TIMEOUT, data};

/// Window in bytes proposed without a user setting (the default of thrulay): the protocol cannot request autotuning.
pub(super) const DEFAULT_WINDOW: Bytes = Bytes::new(4 << 20);

/// A connection with agreed terms.
struct Link {
    socket: TcpStream,
    terms: TcpTerms,
}

/// The connections of a test, and the plan as the server granted it.
pub(super) struct Links {
    pub(super) plan: TestPlan,
    pub(super) terms: TcpTerms,
    pub(super) sockets: Vec<StreamSocket>,
    pub(super) starts: Vec<StreamStart>,
}

/// Opens all connections in parallel: on a long path each takes three round trips.
///
/// # Errors
/// A connection failed, or the server grants the streams of one test different terms.
pub(super) fn open_all(options: &ClientOptions, target: SocketAddr) -> Result<Links, MeasureError> {
    let links: Vec<_> = std::thread::scope(|scope| {
        let open = || scope.spawn(|| open(options, target));
        let threads: Vec<_> = std::iter::repeat_with(open).take(options.plan.streams as usize).collect();
        threads.into_iter().map(|t| t.join()).collect()
    });
    let mut all = Vec::new();
    for link in links {
        all.push(link.map_err(|_| MeasureError::protocol("client", "a connecting thread ended abnormally"))??);
    }
    let Some(terms) = all.first().map(|l| l.terms) else {
        return Err(MeasureError::protocol("client", "no stream"));
    };
    // The server's block size divides the data of all streams, so the test needs a single size. thrulay rejects
    // different sizes too.
    if all.iter().any(|l| l.terms.block != terms.block) {
        return Err(MeasureError::protocol(target, "it grants the streams of one test different block sizes"));
    }
    let plan = TestPlan { block_bytes: terms.block.as_u64(), ..options.plan.clone() };
    let starts = all
        .iter()
        .zip(0..)
        .map(|(link, number)| describe(link, &plan, number, target))
        .collect::<Result<_, MeasureError>>()?;
    let sockets = all
        .into_iter()
        .zip(0..)
        .map(|(link, stream)| StreamSocket {
            stream,
            direction: Direction::Up,
            socket: link.socket,
            budget: plan.bytes.map(|b| share_of(b, plan.streams, stream)),
        })
        .collect();
    Ok(Links { plan, terms, sockets, starts })
}

fn open(options: &ClientOptions, target: SocketAddr) -> Result<Link, MeasureError> {
    let plan = &options.plan;
    let peer = target.to_string();
    let socket = greet(options, target, &data::options(plan, End::Client, Direction::Up))?;
    let window = plan.window_bytes.map_or(DEFAULT_WINDOW, Bytes::new);
    let requested = TcpTerms { window, block: Bytes::new(plan.block_bytes) };
    text::send(&socket, &peer, &requested.proposal().encode())?;
    let deadline = kernel::now() + HANDSHAKE_TIMEOUT;
    let terms = text::read(&socket, &peer, deadline, "when a TCP test was proposed", parse_tcp_response)?;
    kernel::set_user_timeout(&socket, PEER_TIMEOUT);
    Ok(Link { socket, terms })
}

fn describe(link: &Link, plan: &TestPlan, stream: u32, target: SocketAddr) -> Result<StreamStart, MeasureError> {
    // The server reports the smaller of its two buffers.
    let window = link.terms.window.as_u64();
    let requested_bytes = Some(plan.window_bytes.unwrap_or(DEFAULT_WINDOW.as_u64()));
    let server = BufferGrant { requested_bytes, send_bytes: window, receive_bytes: window };
    let local = super::serve::local_address(&link.socket, target)?;
    Ok(data::describe(&link.socket, plan, (stream, Direction::Up), (local, target), server)?)
}
