//! What is remembered of each link: when it was last heard of, and how often it failed.

use std::collections::{BTreeMap, BTreeSet};

use units::{Duration, Instant};

use crate::hash::share;
use crate::{Member, Policy};

pub(super) type Link = (Member, Member);

/// Below this number of flaps a link that is down is forgotten: half a flap, a half-life after the only one.
const FORGOTTEN: f64 = 0.5;

#[derive(Debug, Clone, Copy)]
struct State {
    /// When its metrics were measured.
    heard: Instant,
    is_up: bool,
    flaps: f64,
    flapped: Instant,
    /// When it came back, as long as it is withheld because of that, and until when it is.
    withheld: Option<(Instant, Instant)>,
    /// Its entry in `checks`.
    check: Instant,
}

/// What time did to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nobody spoke of it for too long: it is down.
    Silent,
    /// It is to be relied on again.
    Released,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Links {
    known: BTreeMap<Link, State>,
    /// One entry a link, no later than the next thing that time does to it. Hearing of a link does not move it: 50,000 reports a second may come.
    checks: BTreeSet<(Instant, Link)>,
    withheld: usize,
}

impl Links {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn contains(&self, link: Link) -> bool {
        self.known.contains_key(&link)
    }

    /// How many links are withheld.
    pub(super) const fn withheld(&self) -> usize {
        self.withheld
    }

    /// Until when the link is withheld.
    pub(super) fn withheld_until(&self, link: Link) -> Option<Instant> {
        self.known.get(&link).and_then(|s| s.withheld).map(|(_, until)| until)
    }

    /// When the link came back that is withheld.
    pub(super) fn back_since(&self, link: Link) -> Option<Instant> {
        self.known.get(&link).and_then(|s| s.withheld).map(|(back, _)| back)
    }

    /// Time since the link was measured; of a link that is down there is no measurement.
    pub(super) fn age(&self, now: Instant, link: Link) -> Duration {
        let state = self.known.get(&link).filter(|s| s.is_up);
        state.map_or(Duration::MAX, |s| now.saturating_since(s.heard))
    }

    pub(super) fn next_check(&self) -> Option<Instant> {
        self.checks.first().map(|(at, _)| *at)
    }

    /// There are metrics. Whether the link is to be withheld.
    pub(super) fn hear(&mut self, policy: &Policy, source: Member, now: Instant, link: Link, age: Duration) -> bool {
        let heard = now - age;
        let check = heard + policy.silence;
        let Some(state) = self.known.get_mut(&link) else {
            let (flaps, flapped, withheld) = (0.0, now, None);
            self.known.insert(link, State { heard, is_up: true, flaps, flapped, withheld, check });
            self.checks.insert((check, link));
            return false;
        };
        state.heard = heard;
        if state.is_up {
            return state.withheld.is_some();
        }
        state.is_up = true;
        let flaps = policy.decayed(state.flaps, now.saturating_since(state.flapped));
        let ends = [link.0.0.to_le_bytes(), link.1.0.to_le_bytes()].concat();
        let draw = share([source.0.into(), now.as_nanos()], &ends);
        // The time counts from the return, not from the failure: it is the return that has to last.
        let wait = if flaps < FORGOTTEN { Duration::ZERO } else { policy.refractory_after(flaps.max(1.0), draw) };
        state.withheld = (!wait.is_zero()).then(|| (now, now + wait));
        self.withheld += usize::from(!wait.is_zero());
        let next = state.withheld.map_or(check, |(_, until)| until.min(check));
        self.move_check(link, next);
        !wait.is_zero()
    }

    /// The link is down.
    pub(super) fn fail(&mut self, policy: &Policy, now: Instant, link: Link) {
        let Some(state) = self.known.get_mut(&link).filter(|s| s.is_up) else { return };
        state.is_up = false;
        state.flaps = policy.decayed(state.flaps, now.saturating_since(state.flapped)) + 1.0;
        state.flapped = now;
        self.withheld -= usize::from(state.withheld.take().is_some());
        let half_lives = (state.flaps / FORGOTTEN).log2();
        let forget = Duration::try_from_secs_f64(policy.flap_half_life.as_secs_f64() * half_lives);
        self.move_check(link, now + forget.unwrap_or(Duration::MAX));
    }

    /// Forgets all links of a member that has left, flaps included.
    pub(super) fn forget(&mut self, member: Member) {
        let Self { known, checks, withheld } = self;
        known.retain(|link, state| {
            let is_kept = link.0 != member && link.1 != member;
            if !is_kept {
                checks.remove(&(state.check, *link));
                *withheld -= usize::from(state.withheld.is_some());
            }
            is_kept
        });
    }

    /// What time has done until now, one link after the other.
    pub(super) fn expire(&mut self, policy: &Policy, now: Instant) -> Option<(Link, Change)> {
        loop {
            let (at, link) = self.checks.first().copied().filter(|(at, _)| *at <= now)?;
            let Some(state) = self.known.get_mut(&link) else {
                self.checks.remove(&(at, link));
                continue;
            };
            if !state.is_up {
                self.checks.remove(&(at, link));
                self.known.remove(&link);
                continue;
            }
            let silent_at = state.heard + policy.silence;
            if silent_at <= now {
                self.fail(policy, now, link);
                return Some((link, Change::Silent));
            }
            let is_released = state.withheld.is_some_and(|(_, until)| until <= now);
            if is_released {
                state.withheld = None;
                self.withheld -= 1;
            }
            let next = state.withheld.map_or(silent_at, |(_, until)| until.min(silent_at));
            self.move_check(link, next);
            if is_released {
                return Some((link, Change::Released));
            }
        }
    }

    fn move_check(&mut self, link: Link, to: Instant) {
        if let Some(state) = self.known.get_mut(&link) {
            self.checks.remove(&(state.check, link));
            state.check = to;
            self.checks.insert((to, link));
        }
    }
}
