//! What a path is worth, and what holds a change to it back.

use units::{Instant, Rate};

use super::route::{Need, Route, Use};
use crate::explanation::Hold;
use crate::{Judged, Metrics, Path, Policy};

/// A path with fewer relays is as good with this share of the rate: two capacities that trains tell differ by 5 % each.
const AS_GOOD: f64 = 0.9;
/// With so many times the rate a path over a link that has been back for the shortest refractory time is better, however often that link failed: if it
/// fails each time, half a second of each 8 s is lost.
pub(super) const DIRE: f64 = 4.0;
/// Confidence from which on a path that has lost nothing is taken for one that does not.
const KNOWN: f64 = 1.0;

/// What is known of a path without the losses of links that our flows to other destinations fill, and what each of those flows gets there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared {
    pub(super) beside: Metrics,
    pub(super) share: Rate,
}

/// What `flows` to the destination would get on a path of these metrics.
///
/// The loss that flows meet on a path that they fill is their own: n of them share the capacity and each sees the loss that goes with a
/// n-th of it. So an idle path looks n times as good as the one that carries them, and better by any margin, in turn. What all of them get
/// together, at most the capacity, does not depend on that.
pub(super) fn judge(policy: &Policy, metrics: Metrics, shared: Option<Shared>, flows: u32) -> Judged {
    let capacity = metrics.capacity.unwrap_or(policy.unknown_capacity);
    let rate = |loss| policy.model.rate_at(&metrics, loss, policy.mss, policy.unknown_capacity);
    let all = |one: Rate, least: Rate| {
        Rate::from_bps(one.max(least).as_bps().saturating_mul(u64::from(flows.max(1)))).min(capacity)
    };
    let least = |loss: fn(&Metrics) -> f64| {
        shared.map_or(Rate::ZERO, |s| {
            let loss = loss(&s.beside.widened(policy.certainty));
            policy.model.rate_at(&s.beside, loss, policy.mss, policy.unknown_capacity).min(s.share)
        })
    };
    let wide = metrics.widened(policy.certainty);
    let predicted = rate(metrics.loss);
    let worth = [
        all(rate(wide.loss_high), least(|m| m.loss_high)),
        all(predicted, least(|m| m.loss)),
        all(rate(wide.loss_low), least(|m| m.loss_low)),
    ];
    Judged { metrics, predicted, worth }
}

/// The path that is used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    pub(super) used: Use,
    pub(super) judged: Judged,
    /// What paths are held against: what is predicted, or what the path demonstrably carries.
    pub(super) worth: Rate,
    /// What arrives over it all the time, whatever is predicted.
    steady: Rate,
    pub(super) collapsed: bool,
    /// It has collapsed, and what is sent over it may suffer, so that haste helps.
    is_urgent: bool,
}

impl Standing {
    /// `flows`: by which the path was judged.
    pub(super) fn new(policy: &Policy, now: Instant, used: Use, (judged, flows): (Judged, u32)) -> Self {
        let filled = used.shown_to_fill(now, policy, judged.metrics.capacity);
        let worth = judged.worth[1].max(filled).max(used.paused(now, policy, &judged.metrics));
        // A capacity that became known since is no disappointment, as there was no promise.
        let capacity = used.capacity.or(judged.metrics.capacity).unwrap_or(policy.unknown_capacity);
        let hoped = Rate::from_bps(used.chosen_for.as_bps().saturating_mul(u64::from(flows.max(1)))).min(capacity);
        let is_short = |rate: Rate| (rate.as_bps() as f64) < policy.collapse * hoped.as_bps() as f64;
        let collapsed = policy.fast_fail && is_short(worth);
        // By loss and delay alone.
        let is_narrowed = || {
            let roomy = policy.predict(&Metrics { capacity: Some(capacity), ..judged.metrics });
            !is_short(Rate::from_bps(roomy.as_bps().saturating_mul(u64::from(flows.max(1)))))
        };
        let has_room = || used.has_room(now, policy, judged.metrics.capacity) && is_narrowed();
        let is_urgent = collapsed && !used.is_idle(now, policy) && !has_room();
        Self { used, judged, worth, steady: used.steady(now, policy), collapsed, is_urgent }
    }

    /// Whether what arrives all the time over this path fits the candidate.
    fn fits(&self, policy: &Policy, candidate: &Judged) -> bool {
        candidate.metrics.capacity.unwrap_or(policy.unknown_capacity) >= self.steady
    }

    /// The candidate by what is known: as long as nothing has told how much it carries, that it carries more than this path is a guess, and no reason to
    /// leave a path that is known.
    fn as_known(&self, candidate: &Judged) -> Judged {
        match (candidate.metrics.capacity, self.judged.metrics.capacity) {
            (None, Some(known)) => Judged { worth: candidate.worth.map(|worth| worth.min(known)), ..*candidate },
            _ => *candidate,
        }
    }

    /// Least ratio of the candidate to this path that the intervals leave: the lower limit of the difference of two logarithms from the limits of
    /// each (MOVER; Zou and Donner, "Construction of confidence intervals about effect measures", Statistics in Medicine 27, 2008, equation 3).
    pub(super) fn sure_ratio(&self, candidate: &Judged) -> f64 {
        let candidate = self.as_known(candidate);
        let ln = |rate: Rate| (rate.as_bps().max(1) as f64).ln();
        let (new, least, old) = (ln(candidate.worth[1]), ln(candidate.worth[0]), ln(self.worth));
        let most = ln(self.judged.worth[2]).max(old);
        let ratio = (new - old - (new - least).hypot(most - old)).exp();
        // The last bits are the host's mathematics library's, and a record is to come to the same decisions on another host.
        (ratio * 1e6).round() / 1e6
    }

    /// How much a candidate is needed.
    pub(super) fn need(&self, candidate: &Judged) -> Need {
        if self.as_known(candidate).worth[1].as_bps() as f64 >= DIRE * self.worth.as_bps() as f64 {
            Need::Dire
        } else if self.collapsed {
            Need::Some
        } else {
            Need::None
        }
    }

    /// Rate that a candidate must have.
    pub(super) fn needed(&self, policy: &Policy) -> Rate {
        let by_share = (self.worth.as_bps() as f64 * (1.0 + policy.margin)).ceil() as u64;
        let at_least = self.worth.as_bps().saturating_add(policy.least_gain.as_bps().max(1));
        Rate::from_bps(by_share.max(at_least))
    }

    /// Rate that a candidate with fewer relays must have.
    pub(super) fn as_good(&self) -> Rate {
        Rate::from_bps((AS_GOOD * self.worth.as_bps() as f64) as u64)
    }

    /// Whether the candidate saves relays and is as good, as far as both are known.
    pub(super) fn is_shortcut(&self, policy: &Policy, path: &Path, candidate: &Judged) -> bool {
        let is_shorter = policy.prefer_shorter && path.relays().len() < self.used.path.relays().len();
        let is_as_good = candidate.worth[1] >= self.as_good() && candidate.metrics.rtt <= self.judged.metrics.rtt;
        let is_within = |one: Rate, other: Rate| one.as_bps() as f64 * (1.0 + policy.margin) >= other.as_bps() as f64;
        let is_known = candidate.metrics.confidence >= policy.least_confidence;
        // Few frames may have made the candidate look better than it is. Where it has lost nothing its worst tells only that it carries fewer frames, as a path
        // that is not used does.
        let is_clean = candidate.metrics.loss <= 0.0 && candidate.metrics.confidence >= KNOWN;
        let is_as_good_at_worst = is_clean || is_within(candidate.worth[0], self.judged.worth[0]);
        // Or the present path worse.
        let is_as_good_as_its_best = is_within(candidate.worth[1], self.judged.worth[2]);
        is_shorter
            && is_as_good
            && is_known
            && is_as_good_at_worst
            && is_as_good_as_its_best
            && self.fits(policy, candidate)
    }

    /// What speaks against the candidate, whatever the time.
    pub(super) fn doubts(&self, policy: &Policy, path: &Path, candidate: &Judged) -> Vec<Hold> {
        if self.is_shortcut(policy, path, candidate) { Vec::new() } else { self.shortfalls(policy, candidate) }
    }

    /// What the candidate lacks to be better by the margin, and surely so.
    pub(super) fn shortfalls(&self, policy: &Policy, candidate: &Judged) -> Vec<Hold> {
        let mut holds = Vec::new();
        let needed = self.needed(policy);
        if self.as_known(candidate).worth[1] < needed {
            holds.push(Hold::Margin { needed });
        }
        if !self.fits(policy, candidate) {
            holds.push(Hold::InsufficientCapacity { carried: self.steady });
        }
        let ratio = self.sure_ratio(candidate);
        // Zero asks for no certainty; the logarithms' rounding must not.
        if policy.certainty > 0.0 && ratio <= 1.0 {
            holds.push(Hold::NotSignificant { ratio });
        }
        if candidate.metrics.confidence < policy.least_confidence {
            holds.push(Hold::Confidence { confidence: candidate.metrics.confidence });
        }
        holds
    }

    /// What must pass before a change to a candidate without doubts.
    pub(super) fn waits(&self, policy: &Policy, now: Instant, route: &Route, candidate: &Judged) -> Vec<Hold> {
        if self.is_urgent && self.shortfalls(policy, candidate).is_empty() {
            return Vec::new();
        }
        let held = route.changed_at(&self.used).map(|at| at + policy.hold_down).filter(|until| *until > now);
        let confirmed = if self.used.place == 0 { route.better_since.unwrap_or(now) + policy.confirm } else { now };
        // It may only be for a moment, and nothing suffers meanwhile.
        let has_time = self.collapsed && !self.is_urgent && self.used.place == 0;
        let low_until = self.used.low_since.unwrap_or(now) + policy.hold_down;
        let confirmed = if has_time { confirmed.max(low_until) } else { confirmed };
        let hold_down = held.map(|until| Hold::HoldDown { until });
        let confirm = (confirmed > now).then_some(Hold::Confirmation { until: confirmed });
        hold_down.into_iter().chain(confirm).collect()
    }
}
