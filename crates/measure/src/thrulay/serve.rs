//! Server side of a thrulay proposal, within the limits of native sessions.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use kernel::{DataOptions, KernelError, Op};
use tracing::info;
use units::{Bytes, Rate};
use wire::Proposal;
use wire::thrulay::{IpVersion, TcpTerms, UDP_REFUSAL, UdpTerms};

use super::echo::{self, Limits, Tally};
use super::receive::Reception;
use super::{PROTOCOL, text};
use crate::server::registry::{ConnectionPermit, SessionPermit};
use crate::server::{Shared, THRULAY_MEMORY};
use crate::{MeasureError, PEER_TIMEOUT, address, random};

/// Serves one proposal to the end. `rest` contains the bytes behind the proposal.
pub(crate) fn serve(
    shared: &Shared,
    socket: &TcpStream,
    peer: SocketAddr,
    proposal: Proposal,
    rest: &[u8],
    connection_permit: ConnectionPermit,
) -> Result<(), MeasureError> {
    let permit = match admit(shared, peer, rest) {
        Ok(permit) => permit,
        Err(reason) => return refuse(shared, socket, peer, proposal, &reason),
    };
    drop(connection_permit);
    kernel::set_user_timeout(socket, PEER_TIMEOUT);
    let outcome = match proposal {
        Proposal::ThrulayTcp { window, block } => tcp(shared, socket, peer, TcpTerms { window, block }.clamped()),
        Proposal::ThrulayUdp { packet_size, rate_per_1000s, packets, .. } => {
            udp(shared, socket, peer, packet_size, rate_per_1000s, packets)
        }
        Proposal::Native { .. } => Err(MeasureError::protocol(peer, "not a thrulay proposal")),
    };
    drop(permit);
    kernel::release_memory();
    outcome
}

/// Admits a session, or returns the reason of the refusal.
fn admit(shared: &Shared, peer: SocketAddr, rest: &[u8]) -> Result<SessionPermit, String> {
    if shared.options.key.is_some() {
        return Err("this server requires a pre-shared key, which thrulay cannot prove".to_owned());
    }
    if !rest.is_empty() {
        return Err("data before the answer to the proposal".to_owned());
    }
    shared.registry.admit(peer.ip(), THRULAY_MEMORY).map_err(|(_, reason)| reason)
}

/// Refuses a proposal after the greeting, when thrulay carries no reason: TCP clients see a close, UDP clients a text.
fn refuse(
    shared: &Shared,
    socket: &TcpStream,
    peer: SocketAddr,
    proposal: Proposal,
    reason: &str,
) -> Result<(), MeasureError> {
    shared.log_refusal(|| info!(%peer, protocol = PROTOCOL, reason, "session refused"));
    if matches!(proposal, Proposal::ThrulayUdp { .. }) {
        text::send(socket, &peer.to_string(), UDP_REFUSAL)?;
    }
    Ok(())
}

fn tcp(shared: &Shared, socket: &TcpStream, peer: SocketAddr, requested: TcpTerms) -> Result<(), MeasureError> {
    let started = kernel::now();
    let (window, beyond_limits) = (Some(requested.window), shared.options.large_windows);
    kernel::apply_data_options(socket, &DataOptions { window, beyond_limits, ..DataOptions::default() })?;
    // The client measures the echoes, which must not wait for earlier acknowledgements (Nagle).
    let _ = socket.set_nodelay(true);
    let granted = kernel::buffers(socket)?;
    let terms = TcpTerms { window: granted.send.min(granted.receive), ..requested };
    text::send(socket, &peer.to_string(), &terms.encode_response())?;
    let limits = Limits {
        stall_timeout: PEER_TIMEOUT,
        until: started + shared.options.max_duration + shared.options.grace,
        rate: shared.options.max_rate,
    };
    let (tally, outcome) = echo::run(socket, terms.block, limits, &|| shared.registry.is_aborted());
    if outcome.is_err() {
        // A reset discards the data that an unresponsive or refused client has not read.
        kernel::reset_on_close(socket);
    }
    log(peer, "tcp", started, &tally, outcome.err().map(|e| e.to_string()));
    Ok(())
}

fn udp(
    shared: &Shared,
    control: &TcpStream,
    peer: SocketAddr,
    packet_size: Bytes,
    rate_per_1000s: u64,
    packets: u64,
) -> Result<(), MeasureError> {
    let refused = |reason: &str| {
        let proposal = Proposal::ThrulayUdp { client_port: 0, packet_size, rate_per_1000s, packets };
        refuse(shared, control, peer, proposal, reason)
    };
    let duration_max = shared.options.max_duration;
    let ceiling = shared.options.max_rate;
    let planned = match check_udp(version(peer), duration_max, ceiling, packet_size, rate_per_1000s, packets) {
        Ok(planned) => planned,
        Err(reason) => return refused(&reason),
    };
    let started = kernel::now();
    let Some((socket, server_port)) = super::receive::bind(local_address(control, peer)?, shared.port) else {
        return refused("no UDP port is free");
    };
    // The server sends only on the TCP connection, whose handshake has validated the client's address. A forged address
    // gains nothing, so the UDP address needs no validation. The nonce excludes datagrams of other origin from the
    // count.
    let terms = UdpTerms { server_port, packet_size, rate_per_1000s, packets, nonce: random::bytes()? };
    text::send(control, &peer.to_string(), &terms.encode_response())?;
    let mut reception = Reception::new(socket, terms)?;
    // The duration of a Poisson stream is planned only on average; a short stream can take twice that time.
    let until = started + (planned * 2).min(duration_max) + shared.options.grace + PEER_TIMEOUT;
    let stall_timeout = shared.options.max_udp_silence;
    let outcome = reception
        .receive(control, peer, (until, stall_timeout), &|| shared.registry.is_aborted())
        .and_then(|sent| text::send(control, &peer.to_string(), reception.report(sent).as_bytes()));
    log(peer, "udp", started, &reception.tally(), outcome.err().map(|e| e.to_string()));
    Ok(())
}

/// Local address of a connection, for a UDP socket beside it. An IPv6 address keeps its scope.
pub(super) fn local_address(control: &TcpStream, peer: SocketAddr) -> Result<SocketAddr, KernelError> {
    let local = control.local_addr().map_err(|e| KernelError::new(Op::Socket, peer, e))?;
    let plain = address::plain(local);
    Ok(if plain.is_ipv4() { plain } else { local })
}

pub(super) fn version(peer: SocketAddr) -> IpVersion {
    if address::plain(peer).is_ipv4() { IpVersion::V4 } else { IpVersion::V6 }
}

/// Duration of a proposed UDP test, or the reason why this server refuses it.
fn check_udp(
    version: IpVersion,
    duration_max: Duration,
    ceiling: Option<Rate>,
    packet_size: Bytes,
    rate_per_1000s: u64,
    packets: u64,
) -> Result<Duration, String> {
    if version.udp_payload(packet_size).is_none() {
        return Err(format!("packets of {packet_size} cannot be sent or hold no header"));
    }
    if packets == 0 {
        return Ok(Duration::ZERO);
    }
    let bps = u128::from(rate_per_1000s) * u128::from(packet_size.as_u64()) * 8 / 1000;
    if ceiling.is_some_and(|c| bps > u128::from(c.as_bps())) {
        return Err("the rate is higher than this server allows".to_owned());
    }
    let ns = (u128::from(packets) * 1_000_000_000_000).checked_div(u128::from(rate_per_1000s));
    ns.filter(|ns| *ns <= duration_max.as_nanos())
        .and_then(|ns| u64::try_from(ns).ok())
        .map(Duration::from_nanos)
        .ok_or_else(|| "the test is longer than this server allows".to_owned())
}

/// Logs one line for each session, with the keys of the native sessions.
fn log(peer: SocketAddr, transport: &str, started: units::Instant, tally: &Tally, error: Option<String>) {
    info!(
        client = %peer,
        protocol = PROTOCOL,
        transport,
        received_bytes = tally.bytes,
        received_blocks = tally.blocks,
        received_rate = %tally.rate(),
        lasted_s = kernel::now().saturating_since(started).as_secs_f64(),
        outcome = error.as_deref().unwrap_or("complete"),
        "session"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn udp_proposals_beyond_the_limits_are_refused() {
        let check = |size, rate, packets| {
            let (duration_max, ceiling) = (Duration::from_secs(60), Some(Rate::from_bps(12_000_000)));
            check_udp(IpVersion::V4, duration_max, ceiling, Bytes::new(size), rate, packets)
        };
        assert_eq!(check(1500, 1_000_000, 60_000), Ok(Duration::from_secs(60)));
        assert_eq!(check(1500, 0, 0), Ok(Duration::ZERO));
        for (size, rate, packets) in [
            (1500, 1_000_001, 1000),
            (1500, 1_000_000, 60_001),
            (51, 1000, 1),
            (65_536, 1000, 1),
            (1500, 0, 1),
            (u64::MAX, u64::MAX, u64::MAX),
            (100, 1, u64::MAX),
        ] {
            assert!(check(size, rate, packets).is_err(), "{size} {rate} {packets}");
        }
    }
}
