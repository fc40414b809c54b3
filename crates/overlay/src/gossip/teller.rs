//! What this member says, and when it is worth saying.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use route::Member;
use units::Instant;

use super::REFRESH;
use super::said::{Said, What};
use crate::mesh::Claim;
use crate::settings::Settings;

/// Changes below these are not worth a message: of the loss against the width of its interval, and of the rest as a share.
const MOVED_LOSS: f64 = 0.25;
const MOVED: f64 = 0.1;

pub(super) struct Teller<'a> {
    settings: &'a Settings,
    own: Member,
    start: u64,
    began: Instant,
    number: u64,
    /// What was said last about each link that is up, and the number of that word.
    told: BTreeMap<Member, (Claim, u64)>,
    /// When this member said last that all that still holds.
    alive: Option<Instant>,
    introduced: BTreeMap<Member, (String, Option<SocketAddr>)>,
}

impl<'a> Teller<'a> {
    pub(super) fn new(settings: &'a Settings, start: u64, now: Instant) -> Self {
        let own = settings.identity.public().member();
        // A million words a second, and still each start begins beyond the one before.
        let number = start.saturating_mul(1 << 20);
        Self {
            settings,
            own,
            start,
            began: now,
            number,
            told: BTreeMap::new(),
            alive: None,
            introduced: BTreeMap::new(),
        }
    }

    /// Whether this member said it, and later than it knows of: in an earlier start whose number was lost.
    pub(super) fn is_ahead(&self, said: &Said) -> bool {
        (said.start, said.number) > (self.start, self.number)
    }

    /// What others have heard of that start must not keep them from hearing this one: says again what is not said by itself.
    pub(super) fn go_on_after(&mut self, now: Instant, said: &Said) -> Vec<Said> {
        self.start = self.start.max(said.start.saturating_add(1));
        self.number = self.number.max(said.number);
        self.told.clear();
        self.alive = None;
        let known = std::mem::take(&mut self.introduced);
        self.introductions(now, known.into_iter().map(|(m, (text, at))| (m, text, at)).collect())
    }

    /// What is to be said about the links.
    pub(super) fn claims(&mut self, now: Instant, claims: Vec<(Member, Claim)>) -> Vec<Said> {
        let gone: Vec<Member> = self.told.keys().filter(|m| !claims.iter().any(|(c, _)| c == *m)).copied().collect();
        let is_news = |(m, c): &(Member, Claim)| self.told.get(m).is_none_or(|(before, _)| has_moved(before, c));
        let due: Vec<(Member, Claim)> = claims.into_iter().filter(is_news).collect();
        let relays = self.settings.relay;
        let mut all = Vec::new();
        for (from, claim) in due {
            let said = self.said(now, What::Link { from, claim: Some(claim), relays });
            self.told.insert(from, (claim, said.number));
            all.push(said);
        }
        for from in gone {
            self.told.remove(&from);
            all.push(self.said(now, What::Link { from, claim: None, relays }));
        }
        if self.alive.is_none_or(|at| now.saturating_since(at) >= REFRESH) {
            self.alive = Some(now);
            let links = u32::try_from(self.told.len()).unwrap_or(u32::MAX);
            let sum = self.told.values().fold(0, |sum: u64, (_, number)| sum.wrapping_add(*number));
            all.push(self.said(now, What::Alive { links, sum }));
        }
        all
    }

    /// What is to be said about certificates.
    pub(super) fn introductions(&mut self, now: Instant, all: Vec<(Member, String, Option<SocketAddr>)>) -> Vec<Said> {
        let all: BTreeMap<_, _> = all.into_iter().map(|(m, text, at)| (m, (text, at))).collect();
        let before = std::mem::replace(&mut self.introduced, all.clone());
        let gone = before.keys().filter(|m| !all.contains_key(m)).map(|m| (*m, (String::new(), None)));
        let new = all.iter().filter(|(m, told)| before.get(m) != Some(told)).map(|(m, told)| (*m, told.clone()));
        let changes: Vec<_> = gone.chain(new).collect();
        changes
            .into_iter()
            .map(|(of, (text, endpoint))| self.said(now, What::Certificate { of, endpoint, text }))
            .collect()
    }

    fn said(&mut self, now: Instant, what: What) -> Said {
        self.number = self.number.saturating_add(1);
        let at_ms = u64::try_from(now.saturating_since(self.began).as_millis()).unwrap_or(u64::MAX);
        Said { by: self.own, start: self.start, number: self.number, at_ms, what }
    }
}

/// Whether a claim says something else than the one before.
fn has_moved(before: &Claim, now: &Claim) -> bool {
    let share = |a: f64, b: f64| (a - b).abs() > MOVED * a.max(b);
    let widths = [before.high - before.low, now.high - now.low];
    let width = widths[0].max(widths[1]);
    share(before.rtt_us as f64, now.rtt_us as f64)
        || (before.loss - now.loss).abs() > MOVED_LOSS * width
        // What is known twice as well may decide.
        || width > 2.0 * widths[0].min(widths[1])
        || before.capacity_bps != now.capacity_bps
        || before.datagram != now.datagram
}
