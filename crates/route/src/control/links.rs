//! Age of the links: a link without a measurement for the timeout is down.

use std::collections::{BTreeMap, BTreeSet};

use units::{Duration, Instant};

use crate::{Member, Policy};

pub(super) type Link = (Member, Member);

#[derive(Debug, Clone, Copy)]
struct State {
    /// Time of the last measurement.
    measured: Instant,
    /// Time of its entry in `checks`.
    check: Instant,
}

/// The links that are up.
#[derive(Debug, Clone, Default)]
pub(super) struct Links {
    known: BTreeMap<Link, State>,
    /// One entry for each link, at its timeout or before. A measurement does not move it: there may be 50,000 in a
    /// second.
    checks: BTreeSet<(Instant, Link)>,
}

impl Links {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    pub(super) fn contains(&self, link: Link) -> bool {
        self.known.contains_key(&link)
    }

    /// Time since the last measurement; a link that is down has none.
    pub(super) fn age(&self, now: Instant, link: Link) -> Duration {
        self.known.get(&link).map_or(Duration::MAX, |s| now.saturating_since(s.measured))
    }

    /// Time of the next timeout at the earliest.
    pub(super) fn next_check(&self) -> Option<Instant> {
        self.checks.first().map(|(at, _)| *at)
    }

    /// A link was measured `age` ago.
    pub(super) fn set(&mut self, policy: &Policy, now: Instant, link: Link, age: Duration) {
        let measured = now - age;
        if let Some(state) = self.known.get_mut(&link) {
            state.measured = measured;
            return;
        }
        let check = measured + policy.link_timeout;
        self.known.insert(link, State { measured, check });
        self.checks.insert((check, link));
    }

    /// The link is down.
    pub(super) fn remove(&mut self, link: Link) {
        if let Some(state) = self.known.remove(&link) {
            self.checks.remove(&(state.check, link));
        }
    }

    /// Removes all links of a member.
    pub(super) fn remove_member(&mut self, member: Member) {
        let Self { known, checks } = self;
        known.retain(|link, state| {
            let is_kept = link.0 != member && link.1 != member;
            if !is_kept {
                checks.remove(&(state.check, *link));
            }
            is_kept
        });
    }

    /// Removes the next link whose timeout has passed.
    pub(super) fn expire(&mut self, policy: &Policy, now: Instant) -> Option<Link> {
        loop {
            let (at, link) = self.checks.first().copied().filter(|(at, _)| *at <= now)?;
            self.checks.remove(&(at, link));
            let Some(state) = self.known.get_mut(&link) else { continue };
            let timeout = state.measured + policy.link_timeout;
            if timeout <= now {
                self.known.remove(&link);
                return Some(link);
            }
            state.check = timeout;
            self.checks.insert((timeout, link));
        }
    }
}
