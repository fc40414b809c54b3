//! What both ends do with a data connection before the load: options, and reading back what was granted.

use std::net::TcpStream;

use kernel::{DataOptions, KernelError};
use results::{BufferGrant, Direction, End, TestPlan};
use units::{Bytes, Rate};

/// The socket options that a plan asks of `end` for a stream in `direction`.
pub(crate) fn options(plan: &TestPlan, end: End, direction: Direction) -> DataOptions {
    let sends = direction.sender() == end;
    DataOptions {
        window: plan.window_bytes.map(Bytes::new),
        congestion_control: plan.congestion_control.clone().filter(|_| sends),
        pacing: plan.rate_bps.map(Rate::from_bps).filter(|_| sends),
        dscp: plan.dscp,
        mss: plan.mss_bytes,
        notsent_lowat: plan.notsent_lowat_bytes.filter(|_| sends),
    }
}

/// Buffers as asked and granted.
pub(crate) fn grant(socket: &TcpStream, plan: &TestPlan) -> Result<BufferGrant, KernelError> {
    let b = kernel::buffers(socket)?;
    Ok(BufferGrant { asked_bytes: plan.window_bytes, send_bytes: b.send.as_u64(), receive_bytes: b.receive.as_u64() })
}
