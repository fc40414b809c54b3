//! What has been heard of whom, to be passed on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use route::Member;
use units::Instant;
use wire::overlay::gossip::{Known, RecordBody, RecordKey, SignedRecord};

use super::REFRESH;
use crate::estimators::WindowedExtremum;

/// What was not said, or said to hold, for so long is not passed on: who speaks says so each [`REFRESH`], so that its speaker is gone.
pub(super) const FORGET: Duration = Duration::from_secs(10);
/// The quickest word of one or two such spans is what others are held against: clocks differ by less than 0.0005, 30 ms in them, and one that has
/// stood still, as that of a host that slept does, is behind for ever.
const QUICKEST_OF: Duration = Duration::from_secs(30);

/// What members said, the last word of each about each subject.
#[derive(Default)]
pub(super) struct RecordStore(BTreeMap<Member, OriginRecords>);

struct OriginRecords {
    start: u64,
    records: BTreeMap<RecordKey, StoredRecord>,
    /// When it last said something new.
    heard: Instant,
    /// By how much our clock was ahead of the speaker's at its quickest words of late, ms.
    quickest: WindowedExtremum<f64>,
}

struct StoredRecord {
    number: u64,
    bytes: Vec<u8>,
    /// Or said to hold.
    heard: Instant,
}

impl OriginRecords {
    /// What is still passed on. A certificate lasts as long as who speaks; a link may go, and the word that it did be lost.
    fn current(&self, now: Instant) -> impl Iterator<Item = &StoredRecord> {
        let current = move |(subject, record): &(&RecordKey, &StoredRecord)| {
            let heard = match subject {
                RecordKey::Link(_) | RecordKey::Alive(_) => record.heard,
                RecordKey::Certificate(_) => self.heard,
            };
            now.saturating_since(heard) < FORGET
        };
        self.records.iter().filter(current).map(|(_, record)| record)
    }

    /// How much longer ago it was said than the quickest word took.
    fn age(&mut self, now: Instant, at_ms: u64) -> Duration {
        let ahead = now.as_nanos() as f64 / 1e6 - at_ms as f64;
        self.quickest.note(now, QUICKEST_OF, ahead, f64::min);
        let least = self.quickest.of_both(f64::min).unwrap_or(ahead);
        Duration::try_from_secs_f64((ahead - least) / 1e3).unwrap_or(Duration::MAX)
    }
}

impl RecordStore {
    /// Whether a word is not yet known, nor one that takes its place.
    pub(super) fn is_news(&self, said: &SignedRecord) -> bool {
        let Some(origin) = self.0.get(&Member(said.by)) else { return true };
        match origin.start.cmp(&said.start) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => origin.records.get(&said.subject()).is_none_or(|w| w.number < said.number),
            std::cmp::Ordering::Greater => false,
        }
    }

    /// Keeps a word that is news, and at most `most` of its speaker; says how old it is.
    pub(super) fn keep(&mut self, now: Instant, said: &SignedRecord, bytes: &[u8], most: usize) -> Duration {
        let new = || OriginRecords {
            start: said.start,
            records: BTreeMap::new(),
            heard: now,
            quickest: WindowedExtremum::default(),
        };
        let origin = self.0.entry(Member(said.by)).or_insert_with(new);
        if origin.start != said.start {
            *origin = new();
        }
        let subject = said.subject();
        if origin.records.len() >= most && !origin.records.contains_key(&subject) {
            let oldest = origin.records.iter().min_by_key(|(_, w)| (w.heard, w.number)).map(|(s, _)| *s);
            oldest.map(|s| origin.records.remove(&s));
        }
        origin.heard = now;
        origin.records.insert(subject, StoredRecord { number: said.number, bytes: bytes.to_vec(), heard: now });
        origin.age(now, said.at_ms)
    }

    /// What is held of the words that this one says to hold. Whoever says so more than twice in a [`REFRESH`] has nothing looked at.
    pub(super) fn confirm(&mut self, now: Instant, alive: &SignedRecord) -> Vec<SignedRecord> {
        let RecordBody::Alive { back, .. } = &alive.what else { return Vec::new() };
        let Some(origin) = self.0.get_mut(&Member(alive.by)) else { return Vec::new() };
        let before = origin.records.get(&alive.subject()).map(|w| w.heard);
        if before.is_some_and(|at| now.saturating_since(at) < REFRESH / 2) {
            return Vec::new();
        }
        let hold: BTreeSet<u64> = back.iter().filter_map(|n| alive.number.checked_sub((*n).into())).collect();
        let mut all = Vec::new();
        for record in origin.records.values_mut().filter(|w| hold.contains(&w.number)) {
            let said = SignedRecord::decode(&record.bytes)
                .filter(|s| matches!(s.what, RecordBody::Link { advertisement: Some(_), .. }));
            record.heard = if said.is_some() { now } else { record.heard };
            all.extend(said);
        }
        all
    }

    /// The last words about certificates.
    pub(super) fn certificates(&self) -> impl Iterator<Item = SignedRecord> + '_ {
        let of = |origin: &OriginRecords| -> Vec<SignedRecord> {
            let records = origin.records.iter().filter(|(subject, _)| matches!(subject, RecordKey::Certificate(_)));
            records.filter_map(|(_, record)| SignedRecord::decode(&record.bytes)).collect()
        };
        self.0.values().flat_map(of)
    }

    /// Forgets who is no member any more.
    pub(super) fn retain(&mut self, is_member: impl Fn(Member) -> bool) {
        self.0.retain(|m, _| is_member(*m));
    }

    /// What is known of a member.
    pub(super) fn known(&self, now: Instant, of: Member) -> Known {
        let none = Known { of: of.0, newest: 0, sum: 0 };
        let Some(origin) = self.0.get(&of) else { return none };
        origin.current(now).fold(none, |k, w| Known {
            newest: k.newest.max(w.number),
            sum: k.sum.wrapping_add(w.number),
            ..k
        })
    }

    /// What `to`, with this digest, does not know, about `most` bytes of it; `turn`: any number, another one each time, so that nothing has to
    /// wait for ever behind something else.
    pub(super) fn missing_for(
        &self,
        now: Instant,
        (to, digest): (Member, &[Known]),
        turn: usize,
        most: usize,
    ) -> Vec<&[u8]> {
        let (before, after) = digest.split_at(turn % digest.len().max(1));
        let mut found = Vec::new();
        let mut bytes = 0;
        for theirs in after.iter().chain(before) {
            let Some(origin) = self.0.get(&Member(theirs.of)) else { continue };
            let ours = self.known(now, Member(theirs.of));
            // Who knows the last word, but not all of them: whatever there is.
            let has_gaps = ours.newest == theirs.newest && ours.sum != theirs.sum;
            let is_new = |w: &&StoredRecord| has_gaps || w.number > theirs.newest;
            let mut records: Vec<&StoredRecord> = origin.current(now).filter(is_new).collect();
            records.sort_by_key(|w| w.number);
            if Member(theirs.of) == to && records.is_empty() {
                // Who has forgotten the number of its last start is heard by nobody until it knows.
                records.extend(origin.records.values().max_by_key(|w| w.number).filter(|w| w.number > theirs.newest));
            }
            if has_gaps {
                let turned = turn % records.len().max(1);
                records.rotate_left(turned);
            }
            for record in records {
                bytes += record.bytes.len();
                if bytes > most {
                    return found;
                }
                found.push(&record.bytes[..]);
            }
        }
        found
    }

    /// How many words are held.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.values().map(|s| s.records.len()).sum()
    }
}
