//! Checks whether a test can follow a plan at all; the server's policy decides whether it may.

use results::{TestPlan, Transport};

/// Maximum number of streams in each direction (also that of iperf3; each costs a thread at both ends).
pub const STREAMS_MAX: u32 = 128;

/// Longest TCP block in bytes (16 MiB).
pub const BLOCK_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Longest UDP payload in bytes over IPv4: 65 535 minus 20 of IP and 8 of UDP (RFC 768, RFC 791).
pub const DATAGRAM_BYTES_MAX: u64 = 65_507;

/// Shortest reporting interval in ns (10 ms): below it the sampling itself would affect the numbers.
pub const INTERVAL_NS_MIN: u64 = 10_000_000;

/// Largest window in bytes: `setsockopt` takes an `int`.
pub const WINDOW_BYTES_MAX: u64 = i32::MAX as u64;

/// Range of TCP_MAXSEG in bytes that Linux accepts (TCP_MIN_MSS, MAX_TCP_WINDOW in include/net/tcp.h).
pub const MSS_BYTES: core::ops::RangeInclusive<u32> = 88..=32_767;

/// Longest name of a congestion control in bytes (TCP_CA_NAME_MAX in include/net/tcp.h, without the NUL).
pub const CC_NAME_BYTES_MAX: usize = 15;

const TCP_BLOCK_MIN: u64 = crate::BLOCK_HEADER_BYTES as u64;
const DATAGRAM_MIN: u64 = crate::DATAGRAM_HEADER_BYTES as u64;

/// Reason why no test can follow a plan, as text for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A value outside its range.
    #[error("{what} = {value} is out of range ({min}-{max}{unit})")]
    Range {
        /// Name of the value.
        what: &'static str,
        /// The requested value.
        value: u64,
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
        /// Unit with a blank before it; empty for counts.
        unit: &'static str,
    },
    /// Neither a duration nor an amount of data.
    #[error("the test needs an end: give a duration or an amount of data")]
    NoEnd,
    /// Both a duration and an amount of data.
    #[error("give either a duration or an amount of data, not both")]
    TwoEnds,
    /// No direction.
    #[error("the test needs a direction: without one it moves no data")]
    NoDirection,
    /// A direction named twice.
    #[error("the same direction is given twice; use more streams for more load")]
    RepeatedDirection,
    /// Not a name that a kernel module can have.
    #[error("the name of a congestion control has 1 to 15 characters of a-z, 0-9, _ and -")]
    CongestionControl,
    /// UDP without a rate.
    #[error("a UDP test needs a rate: UDP has no congestion control")]
    UdpWithoutRate,
    /// Probing without an end.
    #[error("probing needs a maximum number of bytes to send")]
    ProbeWithoutBytes,
    /// A TCP option in a UDP test.
    #[error("{0} applies to TCP only")]
    TcpOnly(&'static str),
}

/// Checks everything about a plan that does not depend on a host or its policy.
///
/// # Errors
/// The first fault, as text for the user.
pub fn validate_plan(plan: &TestPlan) -> Result<(), PlanError> {
    range("number of streams", plan.streams.into(), 1, STREAMS_MAX.into(), "")?;
    range("reporting interval", plan.interval_ns, INTERVAL_NS_MIN, u64::MAX, " ns")?;
    check_directions(plan)?;
    check_end(plan)?;
    check_options(plan)?;
    match plan.transport {
        Transport::Tcp => range("block size", plan.block_bytes, TCP_BLOCK_MIN, BLOCK_BYTES_MAX, " bytes"),
        Transport::UdpConstant | Transport::UdpPoisson => check_udp(plan),
        Transport::Probe => check_probe(plan),
    }
}

fn range(what: &'static str, value: u64, min: u64, max: u64, unit: &'static str) -> Result<(), PlanError> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(PlanError::Range { what, value, min, max, unit }) }
}

fn check_directions(plan: &TestPlan) -> Result<(), PlanError> {
    match plan.directions.as_slice() {
        [] => Err(PlanError::NoDirection),
        [_] => Ok(()),
        [a, b] if a != b => Ok(()),
        // There are two directions, so a list of three repeats one.
        _ => Err(PlanError::RepeatedDirection),
    }
}

fn check_end(plan: &TestPlan) -> Result<(), PlanError> {
    match (plan.duration_ns, plan.bytes) {
        (None, None) => Err(PlanError::NoEnd),
        (Some(_), Some(_)) => Err(PlanError::TwoEnds),
        (Some(ns), None) => range("duration", ns, 1, u64::MAX, " ns"),
        (None, Some(bytes)) => range("amount of data", bytes, 1, u64::MAX, " bytes"),
    }
}

fn check_options(plan: &TestPlan) -> Result<(), PlanError> {
    if let Some(dscp) = plan.dscp {
        range("DSCP", dscp.into(), 0, 63, "")?;
    }
    if let Some(window) = plan.window_bytes {
        range("window", window, 1, WINDOW_BYTES_MAX, " bytes")?;
    }
    if let Some(rate) = plan.rate_bps {
        range("rate", rate, 1, u64::MAX, " bit/s")?;
    }
    if let Some(mss) = plan.mss_bytes {
        range("MSS", mss.into(), (*MSS_BYTES.start()).into(), (*MSS_BYTES.end()).into(), " bytes")?;
    }
    if let Some(lowat) = plan.notsent_lowat_bytes {
        range("unsent limit", lowat.into(), 1, u32::MAX.into(), " bytes")?;
    }
    match &plan.congestion_control {
        Some(name) if !is_cc_name(name) => Err(PlanError::CongestionControl),
        _ => Ok(()),
    }
}

fn is_cc_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    (1..=CC_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

fn check_udp(plan: &TestPlan) -> Result<(), PlanError> {
    range("datagram size", plan.block_bytes, DATAGRAM_MIN, DATAGRAM_BYTES_MAX, " bytes")?;
    if plan.rate_bps.is_none() {
        return Err(PlanError::UdpWithoutRate);
    }
    let tcp_only = [
        ("a congestion control", plan.congestion_control.is_some()),
        ("an MSS", plan.mss_bytes.is_some()),
        ("an unsent limit", plan.notsent_lowat_bytes.is_some()),
        ("zero copy", plan.zero_copy),
    ];
    match tcp_only.iter().find(|(_, given)| *given) {
        Some((what, _)) => Err(PlanError::TcpOnly(what)),
        None => Ok(()),
    }
}

fn check_probe(plan: &TestPlan) -> Result<(), PlanError> {
    range("number of streams", plan.streams.into(), 1, 1, "")?;
    range("number of directions", plan.directions.len() as u64, 1, 1, "")?;
    if plan.bytes.is_none() { Err(PlanError::ProbeWithoutBytes) } else { Ok(()) }
}

/// The bytes of a plan that a proof covers: its JSON in the order of the type's fields, without white space.
///
/// Both ends encode the plan as they parsed it: a request with a field that the server does not know fails its proof
/// instead of running as a different test.
///
/// # Errors
/// No plan causes one; only `serde_json`'s types allow for it.
pub fn canonical_json(plan: &TestPlan) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(plan)
}

#[cfg(test)]
pub(crate) mod tests;
