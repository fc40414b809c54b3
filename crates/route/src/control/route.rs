//! What is remembered of a destination.

use serde::{Deserialize, Serialize};
use units::{Duration, Instant, Rate};

use super::Weighted;
use crate::hash::share;
use crate::{Judged, Member, Metrics, Path, Policy};

/// What we send over a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Flows with data to send: elephants, as [`Active::elephants`](crate::flows::Active::elephants) counts them.
    pub flows: u32,
    /// What arrives of them, over the last few hundred milliseconds.
    #[serde(rename = "throughput_bps")]
    pub carried: Rate,
}

/// The least that arrived over a path in the last one or two spans of the hold-down.
#[derive(Debug, Clone, Copy, Default)]
struct Least {
    since: Option<Instant>,
    present: Rate,
    before: Option<Rate>,
}

impl Least {
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

    /// Nothing before a span is over: a sender in luck for a moment is no witness.
    fn least(&self) -> Rate {
        self.before.map_or(Rate::ZERO, |before| before.min(self.present))
    }
}

/// What was known when a path was last filled by our flows.
#[derive(Debug, Clone, Copy)]
struct Filled {
    at: Instant,
    carried: Rate,
    /// The most that may have been lost, and the round trip.
    loss: f64,
    rtt: Duration,
}

/// A path that is used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    /// 0: the first. A path keeps its place as long as it is used, whichever others go.
    pub(super) place: usize,
    pub(super) path: Path,
    pub(super) since: Instant,
    /// What was predicted for one flow when it was chosen, or after it had been lower for the hold-down without anything better to change to.
    pub(super) chosen_for: Rate,
    /// The capacity that was known then.
    pub(super) capacity: Option<Rate>,
    /// Since when it has been collapsed or, as a further path, worth too little.
    pub(super) low_since: Option<Instant>,
    pub(super) load: Option<(Instant, Load)>,
    /// When something was last sent over it.
    loaded: Option<Instant>,
    /// When the last of its flows ended, and what there was until then.
    pub(super) ended: Option<(Instant, Load)>,
    steady: Least,
    filled: Option<Filled>,
}

impl Use {
    pub(super) fn new(place: usize, path: Path, since: Instant, judged: &Judged) -> Self {
        let (chosen_for, capacity) = (judged.predicted, judged.metrics.capacity);
        let (low_since, load, loaded, ended, steady, filled) = (None, None, None, None, Least::default(), None);
        Self { place, path, since, chosen_for, capacity, low_since, load, loaded, ended, steady, filled }
    }

    /// What was hoped for has not come for long, and is hoped for no more.
    pub(super) fn resign(&mut self, judged: &Judged) {
        (self.chosen_for, self.capacity, self.low_since) = (judged.predicted, judged.metrics.capacity, None);
    }

    /// The same path at another place, with what is known of the traffic on it.
    pub(super) fn with_traffic_of(self, before: &Self) -> Self {
        Self { load: before.load, loaded: before.loaded, steady: before.steady, ..self }
    }

    /// What is sent over it now. Flows that say that they end do so between two of these.
    pub(super) fn note_load(&mut self, now: Instant, policy: &Policy, load: Load) {
        let before = self.load_at(now, policy);
        if load.flows > 0 {
            self.ended = None;
        } else if before.flows > 0 {
            self.ended = Some((now, before));
        }
        if self.load.is_none_or(|(at, _)| now.saturating_since(at) >= policy.silence) {
            self.steady = Least::default();
        }
        self.steady.note(now, policy.hold_down, load.carried);
        if load != Load::default() {
            self.loaded = Some(now);
        }
        self.load = Some((now, load));
    }

    /// What has arrived over it all the time for at least the hold-down: whatever sends that goes on to.
    pub(super) fn steady(&self, now: Instant, policy: &Policy) -> Rate {
        self.steady.least().min(self.load_at(now, policy).carried)
    }

    /// Notes what is known of the path if our flows fill it now.
    pub(super) fn note_filled(&mut self, now: Instant, policy: &Policy, metrics: &Metrics) {
        let load = self.load_at(now, policy);
        let is_filled = metrics.capacity.is_some() && load.flows > 0;
        let carried = if is_filled { self.shown_to_fill(now, policy, metrics.capacity) } else { Rate::ZERO };
        if carried > Rate::ZERO {
            let loss = metrics.widened(policy.certainty).loss_high;
            self.filled = Some(Filled { at: now, carried, loss, rtt: metrics.rtt });
        }
    }

    /// What flows carried that filled it a moment ago and pause, as those that ask and are answered do: what they lost then is still counted, and nothing else speaks for
    /// the path. Where more is lost than then, or it takes longer, it is not they who make it slow.
    pub(super) fn paused(&self, now: Instant, policy: &Policy, metrics: &Metrics) -> Rate {
        let is_as_it_was = |f: &Filled| {
            now.saturating_since(f.at) < policy.hold_down
                && self.load_at(now, policy).flows > 0
                && metrics.widened(policy.certainty).loss_low <= f.loss
                && metrics.rtt <= f.rtt + f.rtt / 4
        };
        let filled = self.filled.filter(is_as_it_was).map_or(Rate::ZERO, |f| f.carried);
        filled.min(metrics.capacity.unwrap_or(filled))
    }

    /// What it demonstrably carries: what it does now, or did until its flows ended a moment ago. What they lost at the end in a queue that they filled is still counted
    /// then, and nothing else speaks for the path.
    pub(super) fn shown_at(&self, now: Instant, policy: &Policy) -> Load {
        let ended = self.ended.filter(|(at, _)| now.saturating_since(*at) < policy.hold_down);
        let load = self.load_at(now, policy);
        // Other packets may carry more now than a flow did that ended slowly.
        ended.map_or(load, |(_, before)| Load { carried: before.carried.max(load.carried), ..before })
    }

    /// Whether nothing is sent over it, as who sends says himself: what waits for a retransmission or a key is soon there again.
    pub(super) fn is_idle(&self, now: Instant, policy: &Policy) -> bool {
        let rests = self.loaded.is_none_or(|at| now.saturating_since(at) >= policy.hold_down);
        self.told_at(now, policy).is_some() && rests
    }

    /// Whether what is sent over it is said to be far less than this capacity, so that none of it is short of room.
    pub(super) fn has_room(&self, now: Instant, policy: &Policy, capacity: Option<Rate>) -> bool {
        let load = self.told_at(now, policy);
        load.zip(capacity).is_some_and(|(load, capacity)| !fills(policy, load.carried, capacity))
    }

    /// What it demonstrably carries if it fills the path, whose losses then are its own, or nobody knows the capacity; else nothing: a sender in luck is no witness.
    pub(super) fn shown_to_fill(&self, now: Instant, policy: &Policy, capacity: Option<Rate>) -> Rate {
        let carried = self.shown_at(now, policy).carried;
        if capacity.is_none_or(|capacity| fills(policy, carried, capacity)) { carried } else { Rate::ZERO }
    }

    /// What it carries; nothing as well where that is not known.
    pub(super) fn load_at(&self, now: Instant, policy: &Policy) -> Load {
        self.told_at(now, policy).unwrap_or_default()
    }

    /// What it carries, unless nobody has said so lately or the policy does not ask.
    fn told_at(&self, now: Instant, policy: &Policy) -> Option<Load> {
        let is_fresh = |at: Instant| policy.count_load && now.saturating_since(at) < policy.silence;
        self.load.filter(|(at, _)| is_fresh(*at)).map(|(_, load)| load)
    }
}

/// Whether what is carried may fill this capacity.
fn fills(policy: &Policy, carried: Rate, capacity: Rate) -> bool {
    carried.as_bps() as f64 >= policy.filled * capacity.as_bps() as f64
}

/// A path that was left.
#[derive(Debug, Clone, Copy)]
struct Left {
    path: Path,
    at: Instant,
    flaps: f64,
    until: Instant,
    why: Why,
}

/// How much another path is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// The present one does.
    None,
    /// The present one is no good: paths that were, and were left for a better one, may be taken again.
    Some,
    /// It is beyond doubt what there is to gain: how often links of the other one have failed does not count.
    Dire,
}

/// Why a path was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// For a better one: only that speaks against it.
    Worse,
    /// It had a fraction of what it was chosen for, perhaps by our own load.
    Collapsed,
    /// A link of it was gone.
    Failed,
}

/// Most paths that are remembered to have been left: an oscillation is between few.
const MOST_LEFT: usize = 8;

#[derive(Debug, Clone, Default)]
pub(super) struct Route {
    /// By place. The first takes what is not spread.
    pub(super) uses: Vec<Use>,
    pub(super) weighted: Vec<Weighted>,
    /// When the first path was last changed for another one.
    pub(super) changed: Option<Instant>,
    /// Since when there has been a better path than the first.
    pub(super) better_since: Option<Instant>,
    /// When further paths were last looked for.
    pub(super) searched: Option<Instant>,
    left: Vec<Left>,
    /// Further paths that were given up because they were worth little: that they may be the first one again is another matter.
    given_up: Vec<Left>,
}

/// Remembers in a list that the path was left.
fn remember(list: &mut Vec<Left>, policy: &Policy, (source, now): (Member, Instant), used: &Use, why: Why) {
    let before = list.iter().position(|l| l.path == used.path).map(|i| list.swap_remove(i));
    let decayed = before.map_or(0.0, |l| policy.decayed(l.flaps, now.saturating_since(l.at)));
    let has_flapped = now.saturating_since(used.since) < policy.settled;
    let flaps = decayed + if has_flapped { 1.0 } else { 0.0 };
    let draw = share([source.0.into(), now.as_nanos()], &used.path.bytes());
    let until = now + policy.refractory_after(flaps.max(1.0), draw);
    if list.len() == MOST_LEFT {
        let oldest = list.iter().enumerate().min_by_key(|(_, l)| (l.until, l.at)).map(|(i, _)| i);
        list.swap_remove(oldest.unwrap_or(0));
    }
    list.push(Left { path: used.path, at: now, flaps, until, why });
}

impl Route {
    /// When the place of the path was last changed; a first choice of a first path is no change.
    pub(super) fn changed_at(&self, used: &Use) -> Option<Instant> {
        if used.place == 0 { self.changed } else { Some(used.since) }
    }

    /// Until when the path is not taken again.
    pub(super) fn refractory(&self, policy: &Policy, now: Instant, path: &Path, need: Need) -> Option<Instant> {
        let left = self.left.iter().find(|l| l.path == *path)?;
        let until = match (left.why, need) {
            (Why::Worse, Need::Some | Need::Dire) => return None,
            (Why::Failed, Need::Dire) => left.until.min(left.at + policy.refractory),
            (Why::Worse | Why::Collapsed | Why::Failed, Need::None)
            | (Why::Collapsed | Why::Failed, Need::Some)
            | (Why::Collapsed, Need::Dire) => left.until,
        };
        Some(until).filter(|until| *until > now)
    }

    /// Whether the path is remembered to have been left.
    pub(super) fn was_left(&self, path: &Path) -> bool {
        self.left.iter().any(|l| l.path == *path)
    }

    /// Remembers that the path was left.
    pub(super) fn leave(&mut self, policy: &Policy, source: Member, now: Instant, used: &Use, why: Why) {
        remember(&mut self.left, policy, (source, now), used, why);
    }

    /// Remembers that a further path was given up.
    pub(super) fn give_up(&mut self, policy: &Policy, source: Member, now: Instant, used: &Use) {
        remember(&mut self.given_up, policy, (source, now), used, Why::Worse);
    }

    /// Whether the path was given up too lately to be a further one again.
    pub(super) fn is_given_up(&self, now: Instant, path: &Path) -> bool {
        self.given_up.iter().any(|l| l.path == *path && l.until > now)
    }

    /// Forgets paths that were left long ago and whose flaps are as good as forgotten.
    pub(super) fn forget(&mut self, policy: &Policy, now: Instant) {
        let is_kept = |l: &Left| {
            let since = now.saturating_since(l.at);
            l.until > now || since < policy.flap_half_life || policy.decayed(l.flaps, since) >= 0.5
        };
        self.left.retain(is_kept);
        self.given_up.retain(is_kept);
    }

    pub(super) fn remembered(&self) -> usize {
        self.uses.len() + self.left.len() + self.given_up.len()
    }
}
