//! Arithmetic of instants in whole nanoseconds. Unlike with a `Duration`, it needs no division by the nanoseconds of a
//! second, and it occurs several times per packet.

use units::Instant;

/// Nanoseconds from `from` to `to`; 0 if `to` is earlier.
pub(crate) const fn ns_between(from: Instant, to: Instant) -> u64 {
    to.as_nanos().saturating_sub(from.as_nanos())
}

/// The instant `ns` nanoseconds after `at`; saturates.
pub(crate) const fn after(at: Instant, ns: u64) -> Instant {
    Instant::from_nanos(at.as_nanos().saturating_add(ns))
}

/// The instant `ns` nanoseconds before `at`; saturates.
pub(crate) const fn before(at: Instant, ns: u64) -> Instant {
    Instant::from_nanos(at.as_nanos().saturating_sub(ns))
}
