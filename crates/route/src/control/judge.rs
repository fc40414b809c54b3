//! Utility of a path, and the reasons that hold a change to it.

use units::{Instant, Rate};

use super::route::{Route, Use};
use crate::explanation::Hold;
use crate::{Judged, Metrics, Path, Policy};

/// A path with fewer relays is as good with this share of the rate: two capacities by packet trains differ by 5 % each.
const AS_GOOD_SHARE: f64 = 0.9;
/// Confidence from which on a path without a loss is taken to lose nothing.
const CLEAN_CONFIDENCE: f64 = 1.0;

/// A path without the losses of links that own flows to other destinations saturate, and the rate of each of those
/// flows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared {
    pub(super) clean: Metrics,
    pub(super) share: Rate,
}

/// Rate that `flows` to the destination get together on a path of these metrics.
///
/// The loss of flows on a path that they saturate is their own: n of them share the capacity, and each sees the loss
/// that belongs to an n-th of it. By the rate of one flow an idle path would look n times as good as the one in use, and
/// each would be better than the other in turn. Their sum, at most the capacity, does not depend on that.
pub(super) fn judge(policy: &Policy, metrics: Metrics, shared: Option<Shared>, flows: u32) -> Judged {
    let capacity = metrics.capacity.unwrap_or(policy.unknown_capacity);
    let rate = |loss| policy.model.rate_at(&metrics, loss, policy.mss, policy.unknown_capacity);
    let all = |one: Rate, min: Rate| {
        Rate::from_bps(one.max(min).as_bps().saturating_mul(u64::from(flows.max(1)))).min(capacity)
    };
    let min = |loss: fn(&Metrics) -> f64| {
        shared.map_or(Rate::ZERO, |s| {
            let loss = loss(&s.clean.widened(policy.ci_scale));
            policy.model.rate_at(&s.clean, loss, policy.mss, policy.unknown_capacity).min(s.share)
        })
    };
    let wide = metrics.widened(policy.ci_scale);
    let predicted = rate(metrics.loss);
    let utility = [
        all(rate(wide.loss_high), min(|m| m.loss_high)),
        all(predicted, min(|m| m.loss)),
        all(rate(wide.loss_low), min(|m| m.loss_low)),
    ];
    Judged { metrics, predicted, utility }
}

/// A route beside which candidates are compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Present {
    pub(super) used: Use,
    pub(super) judged: Judged,
    /// The predicted utility, or the throughput of a saturated path.
    pub(super) utility: Rate,
    /// Throughput that another path must carry as well.
    steady: Rate,
    /// The route has traffic, and its rate is a fraction of the one that was predicted when it was chosen.
    pub(super) is_degraded: bool,
}

impl Present {
    /// `flows`: number by which the path was judged.
    pub(super) fn new(policy: &Policy, now: Instant, used: Use, (judged, flows): (Judged, u32)) -> Self {
        let saturated = used.saturated_rate(now, policy, judged.metrics.capacity);
        let utility = judged.utility[1].max(saturated).max(used.paused_rate(now, policy, &judged.metrics));
        // A capacity that became known since was not predicted.
        let capacity = used.capacity.or(judged.metrics.capacity).unwrap_or(policy.unknown_capacity);
        let hoped = Rate::from_bps(used.chosen_for.as_bps().saturating_mul(u64::from(flows.max(1)))).min(capacity);
        let is_short = (utility.as_bps() as f64) < policy.degraded_share * hoped.as_bps() as f64;
        let is_degraded = policy.fast_fail && is_short && !used.is_idle(now, policy);
        Self { used, judged, utility, steady: used.steady(now, policy), is_degraded }
    }

    /// Whether the candidate carries the steady throughput of this route.
    fn fits(&self, policy: &Policy, candidate: &Judged) -> bool {
        candidate.metrics.capacity.unwrap_or(policy.unknown_capacity) >= self.steady
    }

    /// The candidate with at most the known capacity of the route: a larger rate because of an unknown capacity is a
    /// guess, and no reason to leave the route.
    fn as_known(&self, candidate: &Judged) -> Judged {
        match (candidate.metrics.capacity, self.judged.metrics.capacity) {
            (None, Some(known)) => Judged { utility: candidate.utility.map(|u| u.min(known)), ..*candidate },
            _ => *candidate,
        }
    }

    /// Lower confidence bound of the ratio of the candidate's rate to that of the route: the lower limit of the
    /// difference of two logarithms from the limits of each (MOVER; Zou and Donner, "Construction of confidence
    /// intervals about effect measures", Statistics in Medicine 27, 2008, equation 3).
    pub(super) fn confidence_ratio(&self, candidate: &Judged) -> f64 {
        let candidate = self.as_known(candidate);
        let ln = |rate: Rate| (rate.as_bps().max(1) as f64).ln();
        let (new, low, old) = (ln(candidate.utility[1]), ln(candidate.utility[0]), ln(self.utility));
        let high = ln(self.judged.utility[2]).max(old);
        let ratio = (new - old - (new - low).hypot(high - old)).exp();
        // The last bits depend on the mathematics library of the host, and a replay must decide the same elsewhere.
        (ratio * 1e6).round() / 1e6
    }

    /// Rate that a candidate must have.
    pub(super) fn required(&self, policy: &Policy) -> Rate {
        let by_share = (self.utility.as_bps() as f64 * (1.0 + policy.margin)).ceil() as u64;
        let at_least = self.utility.as_bps().saturating_add(policy.min_gain.as_bps().max(1));
        Rate::from_bps(by_share.max(at_least))
    }

    /// Rate that a candidate with fewer relays must have.
    pub(super) fn as_good(&self) -> Rate {
        Rate::from_bps((AS_GOOD_SHARE * self.utility.as_bps() as f64) as u64)
    }

    /// Whether the candidate has fewer relays and is as good, as far as both are known.
    pub(super) fn is_shortcut(&self, policy: &Policy, path: &Path, candidate: &Judged) -> bool {
        let is_shorter = policy.prefer_shorter && path.relays().len() < self.used.path.relays().len();
        let is_as_good = candidate.utility[1] >= self.as_good() && candidate.metrics.rtt <= self.judged.metrics.rtt;
        let is_within = |one: Rate, other: Rate| one.as_bps() as f64 * (1.0 + policy.margin) >= other.as_bps() as f64;
        let is_known = candidate.metrics.confidence >= policy.min_confidence;
        // Few frames may have made the candidate look better than it is. Without any loss its lower bound only shows
        // that it carries fewer frames, as an unused path does.
        let is_clean = candidate.metrics.loss <= 0.0 && candidate.metrics.confidence >= CLEAN_CONFIDENCE;
        let is_as_good_at_worst = is_clean || is_within(candidate.utility[0], self.judged.utility[0]);
        // Or the route worse than it is.
        let is_as_good_as_best = is_within(candidate.utility[1], self.judged.utility[2]);
        is_shorter
            && is_as_good
            && is_known
            && is_as_good_at_worst
            && is_as_good_as_best
            && self.fits(policy, candidate)
    }

    /// Reasons against the candidate, whatever the time.
    pub(super) fn objections(&self, policy: &Policy, path: &Path, candidate: &Judged) -> Vec<Hold> {
        if self.is_shortcut(policy, path, candidate) { Vec::new() } else { self.shortfalls(policy, candidate) }
    }

    /// What the candidate lacks to be significantly better by the margin.
    pub(super) fn shortfalls(&self, policy: &Policy, candidate: &Judged) -> Vec<Hold> {
        let mut holds = Vec::new();
        let required = self.required(policy);
        if self.as_known(candidate).utility[1] < required {
            holds.push(Hold::Margin { required });
        }
        if !self.fits(policy, candidate) {
            holds.push(Hold::InsufficientCapacity { carried: self.steady });
        }
        let ratio = self.confidence_ratio(candidate);
        // A scale of 0 asks for no significance; the rounding of the logarithms must not, either.
        if policy.ci_scale > 0.0 && ratio <= 1.0 {
            holds.push(Hold::NotSignificant { ratio });
        }
        if candidate.metrics.confidence < policy.min_confidence {
            holds.push(Hold::Confidence { confidence: candidate.metrics.confidence });
        }
        holds
    }

    /// Times that must pass before a change to a candidate without objections.
    pub(super) fn waits(&self, policy: &Policy, now: Instant, route: &Route, candidate: &Judged) -> Vec<Hold> {
        if self.is_degraded && self.shortfalls(policy, candidate).is_empty() {
            return Vec::new();
        }
        let held = route.changed_at(&self.used).map(|at| at + policy.hold_down).filter(|until| *until > now);
        let confirmed = route.better_since.unwrap_or(now) + self.used.confirmation(now, policy);
        let confirmed = if self.used.place == 0 { confirmed } else { now };
        let hold_down = held.map(|until| Hold::HoldDown { until });
        let confirm = (confirmed > now).then_some(Hold::Confirmation { until: confirmed });
        hold_down.into_iter().chain(confirm).collect()
    }
}
