//! What a path has shown to carry, whatever a formula makes of its losses.

use units::{Duration, Instant, Rate};

use super::route::Load;
use crate::{Judged, Metrics, Policy};

/// What arrives is a mean over a second or so, in which it may still be that of a loss that has just changed: by spans of this length.
const SPAN: Duration = Duration::from_secs(2);
/// For how long it counts. Those who count losses forget half in some 20 s: what full queues dropped is an eighth then.
const REMEMBERED: Duration = Duration::from_secs(60);
/// A path whose round trip has become this much longer is another one.
const LONGER: f64 = 1.25;
/// Who carries more than this many times what the formula predicts is in luck, and will not be for long.
const LUCK: u64 = 4;

/// What flows that filled a path got of late, at these losses. The losses are theirs: while they pause, what a formula makes of them is what no sender
/// would get, and the path must not be left for that.
#[derive(Debug, Clone, Copy)]
pub(super) struct Proof {
    /// Since when the losses have been no worse.
    since: Instant,
    /// When the path was last full.
    full: Instant,
    loss: f64,
    rtt: Duration,
    /// Most in the span that began then, and in the one before.
    span: Instant,
    carried: [Rate; 2],
}

impl Proof {
    /// The proof after this load; `None`: there is none any more.
    pub(super) fn after(
        proof: Option<Self>,
        policy: &Policy,
        now: Instant,
        judged: &Judged,
        load: Load,
    ) -> Option<Self> {
        let metrics = &judged.metrics;
        let held = proof.filter(|p| p.holds(now, metrics));
        if !is_full(policy, metrics, load) || load.carried.as_bps() > judged.worth[1].as_bps().saturating_mul(LUCK) {
            return held;
        }
        let (loss, rtt, carried) = (metrics.loss_high, metrics.rtt, [Rate::ZERO; 2]);
        let mut proof = held.unwrap_or(Self { since: now, full: now, loss, rtt, span: now, carried });
        proof.full = now;
        if now.saturating_since(proof.span) >= SPAN {
            (proof.span, proof.carried) = (now, [Rate::ZERO, proof.carried[0]]);
        }
        if now.saturating_since(proof.since) >= SPAN {
            proof.carried[0] = proof.carried[0].max(load.carried);
        }
        Some(proof)
    }

    fn holds(&self, now: Instant, metrics: &Metrics) -> bool {
        now.saturating_since(self.full) < REMEMBERED
            && metrics.loss_low <= self.loss
            && metrics.rtt <= self.rtt.mul_f64(LONGER)
    }

    /// What the path carries at least, as far as it is what it was.
    pub(super) fn carries(&self, now: Instant, metrics: &Metrics) -> Rate {
        let capacity = metrics.capacity.filter(|_| self.holds(now, metrics));
        capacity.map_or(Rate::ZERO, |capacity| self.carried[0].max(self.carried[1]).min(capacity))
    }
}

/// Whether our flows fill a path whose capacity is known.
fn is_full(policy: &Policy, metrics: &Metrics, load: Load) -> bool {
    let is_filled = |capacity: Rate| load.carried.as_bps() as f64 >= policy.filled * capacity.as_bps() as f64;
    load.flows > 0 && metrics.capacity.is_some_and(is_filled)
}
