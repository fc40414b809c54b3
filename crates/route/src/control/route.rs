//! State of one destination: the routes in use with their traffic, and the paths that were left.

use serde::{Deserialize, Serialize};
use units::{Duration, Instant, Rate};

use super::Weighted;
use crate::hash::share;
use crate::{Judged, Member, Metrics, Path, Policy};

/// Own traffic on a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Flows with data to send: elephants, as [`Active::elephants`](crate::flows::Active::elephants) counts them.
    pub flows: u32,
    /// Their throughput at the destination, over the last few hundred milliseconds.
    #[serde(rename = "throughput_bps")]
    pub carried: Rate,
}

/// Minimum throughput of a path over the last one or two spans of the hold-down.
#[derive(Debug, Clone, Copy, Default)]
struct SteadyRate {
    since: Option<Instant>,
    present: Rate,
    before: Option<Rate>,
}

impl SteadyRate {
    fn note(&mut self, now: Instant, span: Duration, carried: Rate) {
        match self.since {
            Some(since) if now.saturating_since(since) < span => {
                self.present = self.present.min(carried);
            }
            since => {
                self.before = since.map(|_| self.present);
                (self.since, self.present) = (Some(now), carried);
            }
        }
    }

    /// Nothing before a span is over: a high throughput for a moment is no evidence.
    fn min(&self) -> Rate {
        self.before.map_or(Rate::ZERO, |before| before.min(self.present))
    }
}

/// Metrics of a path when own flows saturated it last.
#[derive(Debug, Clone, Copy)]
struct Saturated {
    at: Instant,
    carried: Rate,
    /// Upper bound of the loss, and the round trip.
    loss: f64,
    rtt: Duration,
}

/// A route: a path in use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    /// 0: the first. A path keeps its place as long as it is used, whichever others go.
    pub(super) place: usize,
    pub(super) path: Path,
    pub(super) since: Instant,
    /// Rate predicted for one flow when the path was chosen.
    pub(super) chosen_for: Rate,
    /// The capacity that was known then.
    pub(super) capacity: Option<Rate>,
    /// Time from which on a further route has had less than the required rate.
    pub(super) low_since: Option<Instant>,
    load: Option<(Instant, Load)>,
    /// Time of the last traffic.
    loaded: Option<Instant>,
    /// Time at which the last flow ended, with the traffic until then.
    ended: Option<(Instant, Load)>,
    steady: SteadyRate,
    saturated: Option<Saturated>,
}

impl Use {
    pub(super) fn new(place: usize, path: Path, since: Instant, judged: &Judged) -> Self {
        let (chosen_for, capacity) = (judged.predicted, judged.metrics.capacity);
        let (low_since, load, loaded, ended, steady, saturated) = (None, None, None, None, SteadyRate::default(), None);
        Self { place, path, since, chosen_for, capacity, low_since, load, loaded, ended, steady, saturated }
    }

    /// The same path at another place, with its traffic.
    pub(super) fn with_traffic_of(self, before: &Self) -> Self {
        Self { load: before.load, loaded: before.loaded, steady: before.steady, ..self }
    }

    /// Sets the present traffic.
    pub(super) fn note_load(&mut self, now: Instant, policy: &Policy, load: Load) {
        let before = self.load_at(now, policy);
        if load.flows > 0 {
            self.ended = None;
        } else if before.flows > 0 {
            self.ended = Some((now, before));
        }
        if self.load.is_none_or(|(at, _)| now.saturating_since(at) >= policy.link_timeout) {
            self.steady = SteadyRate::default();
        }
        self.steady.note(now, policy.hold_down, load.carried);
        if load != Load::default() {
            self.loaded = Some(now);
        }
        self.load = Some((now, load));
    }

    /// Throughput that the path has had for at least the hold-down: another path must carry it as well.
    pub(super) fn steady(&self, now: Instant, policy: &Policy) -> Rate {
        self.steady.min().min(self.load_at(now, policy).carried)
    }

    /// Whether the path has had no traffic for the hold-down; false if its traffic is unknown.
    pub(super) fn is_idle(&self, now: Instant, policy: &Policy) -> bool {
        let is_unloaded = self.loaded.is_none_or(|at| now.saturating_since(at) >= policy.hold_down);
        self.fresh_load(now, policy).is_some() && is_unloaded
    }

    /// Time for which a change must stay better. Nothing suffers on an idle path, and a queue of others may be short.
    pub(super) fn confirmation(&self, now: Instant, policy: &Policy) -> Duration {
        if self.is_idle(now, policy) { policy.hold_down.max(policy.confirm) } else { policy.confirm }
    }

    /// Notes the metrics of the path if own flows saturate it now.
    pub(super) fn note_saturated(&mut self, now: Instant, policy: &Policy, metrics: &Metrics) {
        let has_flows = metrics.capacity.is_some() && self.load_at(now, policy).flows > 0;
        let carried = if has_flows { self.saturated_rate(now, policy, metrics.capacity) } else { Rate::ZERO };
        if carried > Rate::ZERO {
            let loss = metrics.widened(policy.ci_scale).loss_high;
            self.saturated = Some(Saturated { at: now, carried, loss, rtt: metrics.rtt });
        }
    }

    /// Throughput of flows that saturated the path a moment ago and pause: their losses still count, and nothing else
    /// shows what the path carries. With a higher loss or a longer round trip than then, these flows are not the cause.
    pub(super) fn paused_rate(&self, now: Instant, policy: &Policy, metrics: &Metrics) -> Rate {
        let is_as_before = |s: &Saturated| {
            now.saturating_since(s.at) < policy.hold_down
                && self.load_at(now, policy).flows > 0
                && metrics.widened(policy.ci_scale).loss_low <= s.loss
                && metrics.rtt <= s.rtt + s.rtt / 4
        };
        let carried = self.saturated.filter(is_as_before).map_or(Rate::ZERO, |s| s.carried);
        carried.min(metrics.capacity.unwrap_or(carried))
    }

    /// Present traffic, or that of flows which ended a moment ago: the losses at their end, in a queue that they
    /// filled, still count.
    pub(super) fn recent_load(&self, now: Instant, policy: &Policy) -> Load {
        let ended = self.ended.filter(|(at, _)| now.saturating_since(*at) < policy.hold_down);
        let load = self.load_at(now, policy);
        // Other packets may have a higher throughput now than a flow that ended slowly.
        ended.map_or(load, |(_, before)| Load { carried: before.carried.max(load.carried), ..before })
    }

    /// Throughput of the path if it is saturated, whose losses then are those of own flows, or if its capacity is
    /// unknown; else nothing, as a high throughput for a moment is no evidence.
    pub(super) fn saturated_rate(&self, now: Instant, policy: &Policy, capacity: Option<Rate>) -> Rate {
        let carried = self.recent_load(now, policy).carried;
        let is_saturated = |c: Rate| carried.as_bps() as f64 >= policy.saturated_share * c.as_bps() as f64;
        if capacity.is_none_or(is_saturated) { carried } else { Rate::ZERO }
    }

    /// Traffic of the path; nothing where it is unknown, too old, or the policy does not ask for it.
    pub(super) fn load_at(&self, now: Instant, policy: &Policy) -> Load {
        self.fresh_load(now, policy).unwrap_or_default()
    }

    fn fresh_load(&self, now: Instant, policy: &Policy) -> Option<Load> {
        let is_fresh = |at: Instant| policy.count_load && now.saturating_since(at) < policy.link_timeout;
        self.load.filter(|(at, _)| is_fresh(*at)).map(|(_, load)| load)
    }
}

/// A path that was left.
#[derive(Debug, Clone, Copy)]
struct Left {
    path: Path,
    at: Instant,
    flaps: f64,
    until: Instant,
    cause: Cause,
}

/// Why a path was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// For a better one: nothing else speaks against it.
    Worse,
    /// Its rate was a fraction of the predicted one, perhaps because of own traffic.
    Degraded,
    /// One of its links was down.
    Failed,
}

/// Maximum number of remembered paths: an oscillation is between few.
const LEFT_MAX: usize = 8;

#[derive(Debug, Clone, Default)]
pub(super) struct Route {
    /// By place. The first one takes what is not spread.
    pub(super) uses: Vec<Use>,
    pub(super) weighted: Vec<Weighted>,
    /// Time of the last change of the first route.
    pub(super) changed: Option<Instant>,
    /// Time from which on there has been a better path than the first route.
    pub(super) better_since: Option<Instant>,
    /// Time of the last search for further routes.
    pub(super) searched: Option<Instant>,
    left: Vec<Left>,
}

impl Route {
    /// Time of the last change of the place of a route; the first choice of a first route is no change.
    pub(super) fn changed_at(&self, used: &Use) -> Option<Instant> {
        if used.place == 0 { self.changed } else { Some(used.since) }
    }

    /// End of the suppression of a path; `is_degraded`: the present route is, so that a path that was left for a better
    /// one may be taken again.
    pub(super) fn suppressed_until(&self, now: Instant, path: &Path, is_degraded: bool) -> Option<Instant> {
        let left = self.left.iter().find(|l| l.path == *path && l.until > now)?;
        (left.cause != Cause::Worse || !is_degraded).then_some(left.until)
    }

    /// Whether the path was left recently.
    pub(super) fn was_left(&self, path: &Path) -> bool {
        self.left.iter().any(|l| l.path == *path)
    }

    /// Suppresses a path that was left. The time is doubled with each further flap, whose number decays: route flap
    /// damping (RFC 2439).
    pub(super) fn leave(&mut self, policy: &Policy, source: Member, now: Instant, used: &Use, cause: Cause) {
        let before = self.left.iter().position(|l| l.path == used.path).map(|i| self.left.swap_remove(i));
        let decayed = before.map_or(0.0, |l| policy.decayed(l.flaps, now.saturating_since(l.at)));
        let has_flapped = now.saturating_since(used.since) < policy.stable_after;
        let flaps = decayed + if has_flapped { 1.0 } else { 0.0 };
        let draw = share([source.0.into(), now.as_nanos()], &used.path.bytes());
        let until = now + policy.suppress_after(flaps.max(1.0), draw);
        if self.left.len() == LEFT_MAX {
            let oldest = self.left.iter().enumerate().min_by_key(|(_, l)| (l.until, l.at)).map(|(i, _)| i);
            self.left.swap_remove(oldest.unwrap_or(0));
        }
        self.left.push(Left { path: used.path, at: now, flaps, until, cause });
    }

    /// Forgets paths that were left long ago and whose flaps have decayed.
    pub(super) fn forget(&mut self, policy: &Policy, now: Instant) {
        self.left.retain(|l| {
            let since = now.saturating_since(l.at);
            l.until > now || since < policy.flap_half_life || policy.decayed(l.flaps, since) >= 0.5
        });
    }

    pub(super) fn remembered(&self) -> usize {
        self.uses.len() + self.left.len()
    }
}
