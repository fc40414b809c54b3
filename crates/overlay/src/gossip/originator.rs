//! What this member says, and when it is worth saying.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use route::Member;
use units::Instant;
use wire::overlay::gossip::{RecordBody, SignedRecord};

use super::REFRESH;
use crate::core::LinkAdvertisement;
use crate::settings::Settings;

/// What has changed by less says the same: of the loss against the width of its interval, of the round trip as a share of it, and the width itself.
struct Tolerance {
    loss: f64,
    round_trip: f64,
    width: f64,
}

/// What has changed by more than this is said at once; twice as wide or narrow an interval may decide.
const AT_ONCE: Tolerance = Tolerance { loss: 0.25, round_trip: 0.1, width: 2.0 };
/// And by more than this when it would otherwise be said to hold.
const IN_TIME: Tolerance = Tolerance { loss: 0.05, round_trip: 0.02, width: 1.1 };
/// Words that one says to hold: it still fits a frame. Words further back than a number of them can tell are said again.
pub(super) const PART: usize = 128;
const FAR: u64 = 1 << 31;

pub(super) struct Originator {
    settings: Arc<Settings>,
    own: Member,
    start: u64,
    began: Instant,
    number: u64,
    /// What was said last about each link that is up, and the number of that word.
    told: BTreeMap<Member, (LinkAdvertisement, u64)>,
    /// When this member said last which of that still holds.
    alive: Option<Instant>,
    introduced: BTreeMap<Member, (String, Option<SocketAddr>)>,
}

impl Originator {
    pub(super) fn new(settings: Arc<Settings>, start: u64, now: Instant) -> Self {
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
    pub(super) fn is_ahead(&self, said: &SignedRecord) -> bool {
        (said.start, said.number) > (self.start, self.number)
    }

    /// What others have heard of that start must not keep them from hearing this one: says again what is not said by itself.
    pub(super) fn go_on_after(&mut self, now: Instant, said: &SignedRecord) -> Vec<SignedRecord> {
        self.start = self.start.max(said.start.saturating_add(1));
        self.number = self.number.max(said.number);
        self.told.clear();
        self.alive = None;
        let known = std::mem::take(&mut self.introduced);
        self.certificates_known(now, known.into_iter().map(|(m, (text, at))| (m, text, at)).collect())
    }

    /// What is to be said about the links.
    pub(super) fn advertisements(
        &mut self,
        now: Instant,
        advertisements: Vec<(Member, LinkAdvertisement)>,
    ) -> Vec<SignedRecord> {
        let gone: Vec<Member> =
            self.told.keys().filter(|m| !advertisements.iter().any(|(c, _)| c == *m)).copied().collect();
        let is_time = self.alive.is_none_or(|at| now.saturating_since(at) >= REFRESH);
        let tolerance = if is_time { &IN_TIME } else { &AT_ONCE };
        let is_told = |m: &Member, c: &LinkAdvertisement| {
            let told = self.told.get(m).filter(|(_, number)| self.number - number < FAR);
            told.is_some_and(|(before, _)| !has_moved(before, c, tolerance))
        };
        let due: Vec<(Member, LinkAdvertisement)> =
            advertisements.into_iter().filter(|(m, c)| !is_told(m, c)).collect();
        let relayed_bps = self.settings.relayed_bps();
        let mut all = Vec::new();
        for (from, advertisement) in due {
            let said = self
                .said(now, RecordBody::Link { from: from.0, advertisement: Some(advertisement.into()), relayed_bps });
            self.told.insert(from, (advertisement, said.number));
            all.push(said);
        }
        for from in gone {
            self.told.remove(&from);
            all.push(self.said(now, RecordBody::Link { from: from.0, advertisement: None, relayed_bps }));
        }
        if is_time {
            self.alive = Some(now);
            let holds: Vec<u64> = self.told.values().map(|(_, number)| *number).collect();
            for (part, numbers) in (0..).zip(holds.chunks(PART)) {
                let next = self.number.saturating_add(1);
                let back = numbers.iter().filter_map(|n| u32::try_from(next - n).ok()).collect();
                all.push(self.said(now, RecordBody::Alive { part, back }));
            }
        }
        all
    }

    /// What is to be said about certificates.
    pub(super) fn certificates_known(
        &mut self,
        now: Instant,
        all: Vec<(Member, String, Option<SocketAddr>)>,
    ) -> Vec<SignedRecord> {
        let all: BTreeMap<_, _> = all.into_iter().map(|(m, text, at)| (m, (text, at))).collect();
        let before = std::mem::replace(&mut self.introduced, all.clone());
        let gone = before.keys().filter(|m| !all.contains_key(m)).map(|m| (*m, (String::new(), None)));
        let new = all.iter().filter(|(m, told)| before.get(m) != Some(told)).map(|(m, told)| (*m, told.clone()));
        let changes: Vec<_> = gone.chain(new).collect();
        changes
            .into_iter()
            .map(|(of, (text, endpoint))| self.said(now, RecordBody::Certificate { of: of.0, endpoint, text }))
            .collect()
    }

    fn said(&mut self, now: Instant, what: RecordBody) -> SignedRecord {
        self.number = self.number.saturating_add(1);
        let at_ms = u64::try_from(now.saturating_since(self.began).as_millis()).unwrap_or(u64::MAX);
        SignedRecord { by: self.own.0, start: self.start, number: self.number, at_ms, what }
    }
}

/// Whether a claim says something else than the one before.
fn has_moved(before: &LinkAdvertisement, now: &LinkAdvertisement, by: &Tolerance) -> bool {
    let widths = [before.high - before.low, now.high - now.low];
    let width = widths[0].max(widths[1]);
    before.rtt_us.abs_diff(now.rtt_us) as f64 > by.round_trip * before.rtt_us.max(now.rtt_us) as f64
        || (before.loss - now.loss).abs() > by.loss * width
        || width > by.width * widths[0].min(widths[1])
        || before.capacity_bps != now.capacity_bps
        || before.datagram != now.datagram
        || before.with_traffic != now.with_traffic
}
