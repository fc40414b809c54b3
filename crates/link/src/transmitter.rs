//! The transmitter: start and end of each packet's transmission, and the used share of the capacity.

use std::sync::Arc;
use std::time::Duration;

use units::{Instant, nanos};

use crate::time::{after, ns_between};
use crate::trace::{OPPORTUNITY_BYTES, TRACE_OVERHEAD_BYTES, Trace};
use crate::{Capacity, Overhead};

/// Size of one opportunity in the unit of [`Usage`].
const OPPORTUNITY_UNITS: u128 = OPPORTUNITY_BYTES as u128 * BYTE_UNITS;
/// Size of one byte in the unit of [`Usage`].
const BYTE_UNITS: u128 = 8 * NS_PER_S;
const NS_PER_S: u128 = 1_000_000_000;

/// Used and offered capacity, in bits times 10^9, so that a rate times nanoseconds has no fraction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) used: u128,
    pub(crate) offered: u128,
}

/// The wire of one direction at one capacity. It sends one packet at a time.
#[derive(Debug)]
pub(crate) struct Transmitter {
    kind: Kind,
    /// Whether the link is up; an idle link offers capacity only while it is up.
    available: bool,
    busy: bool,
    usage: Usage,
}

#[derive(Debug)]
enum Kind {
    Unlimited,
    Constant(Constant),
    Trace(Opportunities),
}

/// A constant rate.
#[derive(Debug)]
struct Constant {
    bps: u64,
    /// Wire time of the last packet. Most packets have the size of the one before, and a division takes longer than all
    /// other steps of a transmission.
    last: WireTime,
    /// End of the last transmission: whole nanoseconds, and a remainder in units of 1/bps of a nanosecond. The next
    /// transmission starts exactly there, so that rounding errors do not accumulate.
    free: Instant,
    remainder: u64,
    accounted: Instant,
}

/// Wire time of a packet: whole nanoseconds, and a fraction in units of 1/bps of a nanosecond.
#[derive(Debug, Clone, Copy)]
struct WireTime {
    bytes: u32,
    whole_ns: u64,
    fraction: u64,
}

/// Delivery opportunities. Those before `next` are used or in the past.
#[derive(Debug)]
struct Opportunities {
    trace: Arc<Trace>,
    origin: Instant,
    next: u64,
    /// Unused bytes of the opportunity before `next`.
    leftover: u32,
    accounted: u64,
}

impl Transmitter {
    /// Creates a transmitter of this capacity that is free from `from` on. The trace started at `origin`.
    pub(crate) fn new(capacity: &Capacity, origin: Instant, from: Instant, available: bool) -> Self {
        let kind = match capacity {
            Capacity::Unlimited => Kind::Unlimited,
            Capacity::Constant(rate) => Kind::Constant(Constant {
                bps: rate.as_bps().max(1),
                last: WireTime { bytes: 0, whole_ns: 0, fraction: 0 },
                free: from,
                remainder: 0,
                accounted: from,
            }),
            Capacity::Trace(trace) => {
                let next = trace.opportunities_until(origin, from);
                Kind::Trace(Opportunities { trace: Arc::clone(trace), origin, next, leftover: 0, accounted: next })
            }
        };
        Self { kind, available, busy: false, usage: Usage::default() }
    }

    /// Start of the transmission of a packet that arrived at `arrival`, computed at `now` when the transmitter is free.
    ///
    /// A packet uses only opportunities after its arrival: mahimahi serves an opportunity before it queues a packet
    /// that arrives at the same time.
    pub(crate) fn start_at(&mut self, now: Instant, arrival: Instant) -> Instant {
        match &mut self.kind {
            Kind::Unlimited | Kind::Constant(_) => now,
            Kind::Trace(o) if o.leftover > 0 => now,
            Kind::Trace(o) => {
                if o.trace.at(o.origin, o.next) <= arrival {
                    o.next = o.trace.opportunities_until(o.origin, arrival);
                }
                o.trace.at(o.origin, o.next).max(now)
            }
        }
    }

    /// Starts a transmission of `bytes` at `now`, the time returned by [`Self::start_at`]. Returns its end.
    pub(crate) fn send(&mut self, now: Instant, bytes: u32) -> Instant {
        if !self.busy {
            match &self.kind {
                Kind::Unlimited | Kind::Constant(_) => self.account(now),
                Kind::Trace(o) => self.account_opportunities(o.next),
            }
            self.busy = true;
        }
        match &mut self.kind {
            Kind::Unlimited => now,
            Kind::Constant(c) => c.send(now, bytes),
            Kind::Trace(o) => o.send(now, bytes),
        }
    }

    /// Starts another transmission of as many bytes at the end of the last one, `now`. Returns its end.
    ///
    /// Only for a transmitter that [`Self::is_continuous`].
    #[inline]
    pub(crate) fn send_next(&mut self, now: Instant) -> Instant {
        match &mut self.kind {
            Kind::Unlimited | Kind::Trace(_) => now,
            Kind::Constant(c) => c.send_next(),
        }
    }

    /// Marks the wire as idle from `now` on, after a transmission.
    pub(crate) fn set_idle(&mut self, now: Instant) {
        if !self.busy {
            return;
        }
        match &mut self.kind {
            Kind::Unlimited | Kind::Constant(_) => self.account(now),
            Kind::Trace(o) => {
                let (next, leftover) = (o.next, core::mem::take(&mut o.leftover));
                self.account_opportunities(next);
                self.usage.used -= u128::from(leftover) * BYTE_UNITS;
            }
        }
        self.busy = false;
    }

    /// Sets whether the link is up from `now` on.
    pub(crate) fn set_available(&mut self, now: Instant, available: bool) {
        self.account(now);
        self.available = available;
    }

    /// Used and offered capacity up to `now`, since the previous call.
    pub(crate) fn take_usage(&mut self, now: Instant) -> Usage {
        self.account(now);
        core::mem::take(&mut self.usage)
    }

    /// Replaces the capacity at `now`, when the wire is free.
    pub(crate) fn replace(&mut self, now: Instant, by: Self) {
        self.set_idle(now);
        self.account(now);
        let usage = self.usage;
        *self = Self { usage, ..by };
    }

    /// Whether a packet behind `ahead` wire bytes would wait at most `limit`. `free` is the end of the present
    /// transmission, or `now`.
    pub(crate) fn waits_at_most(&self, limit: Duration, now: Instant, free: Instant, ahead: u64) -> bool {
        let left = nanos(free.saturating_since(now));
        let Some(limit_left) = nanos(limit).checked_sub(left) else {
            return false;
        };
        match &self.kind {
            Kind::Unlimited => true,
            Kind::Constant(c) => u128::from(ahead) * BYTE_UNITS <= u128::from(limit_left) * u128::from(c.bps),
            Kind::Trace(o) => o.start_behind(free, ahead).saturating_since(now) <= limit,
        }
    }

    /// Wire time of a packet of `bytes`, rounded up to nanoseconds; `None` with delivery opportunities.
    pub(crate) fn duration_ns(&self, bytes: u32) -> Option<u64> {
        match &self.kind {
            Kind::Unlimited => Some(0),
            Kind::Constant(c) => {
                let time = c.wire_time(bytes);
                Some(time.whole_ns.saturating_add(u64::from(time.fraction > 0)))
            }
            Kind::Trace(_) => None,
        }
    }

    /// Whether the transmission of a packet starts when the previous one ends.
    pub(crate) const fn is_continuous(&self) -> bool {
        match &self.kind {
            Kind::Unlimited | Kind::Constant(_) => true,
            Kind::Trace(_) => false,
        }
    }

    /// Whether the transmission of a packet takes no time.
    pub(crate) const fn is_unlimited(&self) -> bool {
        match &self.kind {
            Kind::Unlimited => true,
            Kind::Constant(_) | Kind::Trace(_) => false,
        }
    }

    fn account(&mut self, now: Instant) {
        match &mut self.kind {
            Kind::Unlimited => {}
            Kind::Constant(c) => {
                let amount = u128::from(c.bps) * u128::from(ns_between(c.accounted, now));
                c.accounted = c.accounted.max(now);
                self.add(amount);
            }
            Kind::Trace(o) => {
                let until = o.trace.opportunities_until(o.origin, now);
                self.account_opportunities(until);
            }
        }
    }

    /// Accounts for all opportunities before number `until`.
    fn account_opportunities(&mut self, until: u64) {
        if let Kind::Trace(o) = &mut self.kind {
            let count = until.saturating_sub(o.accounted);
            o.accounted = o.accounted.max(until);
            self.add(u128::from(count).saturating_mul(OPPORTUNITY_UNITS));
        }
    }

    const fn add(&mut self, amount: u128) {
        if self.busy {
            self.usage.used = self.usage.used.saturating_add(amount);
        }
        if self.busy || self.available {
            self.usage.offered = self.usage.offered.saturating_add(amount);
        }
    }
}

impl Constant {
    fn send(&mut self, now: Instant, bytes: u32) -> Instant {
        if now > self.free {
            (self.free, self.remainder) = (now, 0);
        }
        self.last = self.wire_time(bytes);
        self.send_next()
    }

    /// Sends a packet of the last size at the end of the last transmission.
    #[inline]
    fn send_next(&mut self) -> Instant {
        // Both are below `bps`, so that the sum exceeds it at most once; the sum may exceed 64 bits.
        let (sum, exceeds) = self.remainder.overflowing_add(self.last.fraction);
        let carry = exceeds || sum >= self.bps;
        self.remainder = if carry { sum.wrapping_sub(self.bps) } else { sum };
        self.free = after(self.free, self.last.whole_ns.saturating_add(u64::from(carry)));
        self.free
    }

    fn wire_time(&self, bytes: u32) -> WireTime {
        if bytes == self.last.bytes {
            return self.last;
        }
        let (units, bps) = (u128::from(bytes) * BYTE_UNITS, u128::from(self.bps));
        let whole_ns = u64::try_from(units / bps).unwrap_or(u64::MAX);
        WireTime { bytes, whole_ns, fraction: (units % bps) as u64 }
    }
}

impl Opportunities {
    fn send(&mut self, now: Instant, bytes: u32) -> Instant {
        if bytes <= self.leftover {
            self.leftover -= bytes;
            return now;
        }
        let need = bytes - self.leftover;
        let count = need.div_ceil(OPPORTUNITY_BYTES);
        self.next = self.next.saturating_add(u64::from(count));
        // The leftover is less than one opportunity.
        self.leftover = (u64::from(count) * u64::from(OPPORTUNITY_BYTES) - u64::from(need)) as u32;
        self.trace.at(self.origin, self.next - 1)
    }

    /// Start of the transmission of a packet behind `ahead` bytes; `free` is the end of the present transmission.
    fn start_behind(&self, free: Instant, ahead: u64) -> Instant {
        match ahead.checked_sub(u64::from(self.leftover)) {
            None => free,
            Some(rest) => self.trace.at(self.origin, self.next.saturating_add(rest / u64::from(OPPORTUNITY_BYTES))),
        }
    }
}

/// Bytes on the wire of a packet with `ip` IP bytes.
pub(crate) fn wire_bytes(capacity: &Capacity, overhead: Overhead, ip: u32) -> u32 {
    match capacity {
        Capacity::Unlimited | Capacity::Constant(_) => overhead.wire(ip),
        Capacity::Trace(_) => ip.saturating_add(TRACE_OVERHEAD_BYTES),
    }
}
