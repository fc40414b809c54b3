//! Data connections before the load: socket options, and the values that the kernel granted.

use std::net::{SocketAddr, TcpStream};

use kernel::{DataOptions, KernelError};
use results::{BufferGrant, Direction, End, StreamStart, TestPlan};
use units::{Bytes, Rate};

use crate::address;

/// Socket options that a plan requests of `end` for a stream in `direction`.
pub(crate) fn options(plan: &TestPlan, end: End, direction: Direction) -> DataOptions {
    let sends = direction.sender() == end;
    DataOptions {
        window: plan.window_bytes.map(Bytes::new),
        // The plan comes from the client's user; the limits of the server's kernel still apply.
        beyond_limits: end == End::Client,
        congestion_control: plan.congestion_control.clone().filter(|_| sends),
        pacing: plan.rate_bps.map(Rate::from_bps).filter(|_| sends),
        dscp: plan.dscp,
        mss: plan.mss_bytes,
    }
}

/// Requested and granted buffer sizes.
pub(crate) fn grant(socket: &TcpStream, plan: &TestPlan) -> Result<BufferGrant, KernelError> {
    let b = kernel::buffers(socket)?;
    Ok(BufferGrant {
        requested_bytes: plan.window_bytes,
        send_bytes: b.send.as_u64(),
        receive_bytes: b.receive.as_u64(),
    })
}

/// Describes a data connection of the client. `ends` are the addresses of client and server.
pub(crate) fn describe(
    socket: &TcpStream,
    plan: &TestPlan,
    (stream, direction): (u32, Direction),
    ends: (SocketAddr, SocketAddr),
    server_buffers: BufferGrant,
) -> Result<StreamStart, KernelError> {
    let state = kernel::tcp_state(socket)?;
    let tcp = kernel::tcp_options(socket)?;
    let named = [(tcp.timestamps, "timestamps"), (tcp.sack, "sack"), (tcp.window_scale, "wscale"), (tcp.ecn, "ecn")];
    Ok(StreamStart {
        stream,
        direction,
        client: address::plain(ends.0).to_string(),
        server: address::plain(ends.1).to_string(),
        mss_bytes: Some(state.mss_bytes),
        pmtu_bytes: Some(state.pmtu_bytes),
        congestion_control: kernel::congestion_control(socket),
        options: named.iter().filter(|(on, _)| *on).map(|(_, n)| (*n).to_owned()).collect(),
        client_buffers: grant(socket, plan)?,
        server_buffers,
    })
}
