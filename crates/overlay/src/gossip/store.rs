//! Records of all originators, for forwarding.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use route::Member;
use units::Instant;
use wire::overlay::gossip::{DigestEntry, RecordBody, RecordKey, SignedRecord};

use super::REFRESH;
use crate::estimators::WindowedExtremum;

/// Time without a refresh after which a record is not forwarded: five intervals of [`REFRESH`], after which the
/// originator is regarded as gone.
pub(super) const EXPIRY: Duration = Duration::from_secs(10);
/// Span of the minimum delay, against which the age of a record is measured; one or two spans count. Clocks differ by
/// less than 0.0005, which is 30 ms over two spans. The span is bounded because a clock that stood still, as in a
/// suspended host, stays behind forever.
const DELAY_MIN_SPAN: Duration = Duration::from_secs(30);

/// The latest record of each originator about each object.
#[derive(Default)]
pub(super) struct RecordStore(BTreeMap<Member, OriginRecords>);

/// A peer's digest, and the limits of the reply.
pub(super) struct MissingQuery<'a> {
    /// Peer that sent the digest.
    pub(super) peer: Member,
    /// Its digest.
    pub(super) digest: &'a [DigestEntry],
    /// Random number that selects the first entry, so that no record waits forever behind others.
    pub(super) rotation: usize,
    /// Maximum bytes of records in the reply.
    pub(super) bytes_max: usize,
}

struct OriginRecords {
    start: u64,
    records: BTreeMap<RecordKey, StoredRecord>,
    /// Arrival of the originator's latest record.
    last_received: Instant,
    /// Minimum of the local clock minus the originator's clock at the arrival of a record, in ms.
    delay_min: WindowedExtremum<f64>,
}

struct StoredRecord {
    number: u64,
    bytes: Vec<u8>,
    /// Time of the arrival or of the last refresh.
    confirmed_at: Instant,
}

impl OriginRecords {
    /// The records that are still forwarded. A certificate lasts as long as its originator sends records. A link
    /// record has to be refreshed itself, because the record of its removal can be lost.
    fn current(&self, now: Instant) -> impl Iterator<Item = &StoredRecord> {
        let is_current = move |(key, record): &(&RecordKey, &StoredRecord)| {
            let confirmed_at = match key {
                RecordKey::Link(_) | RecordKey::Refresh(_) => record.confirmed_at,
                RecordKey::Certificate(_) => self.last_received,
            };
            now.saturating_since(confirmed_at) < EXPIRY
        };
        self.records.iter().filter(is_current).map(|(_, record)| record)
    }

    /// Age of a record: its delay above the minimum delay of the originator's records.
    fn age(&mut self, now: Instant, at_ms: u64) -> Duration {
        let delay_ms = now.as_nanos() as f64 / 1e6 - at_ms as f64;
        self.delay_min.note(now, DELAY_MIN_SPAN, delay_ms, f64::min);
        let min_ms = self.delay_min.extremum(f64::min).unwrap_or(delay_ms);
        Duration::try_from_secs_f64((delay_ms - min_ms) / 1e3).unwrap_or(Duration::MAX)
    }
}

impl RecordStore {
    /// Whether neither the record nor a later one about its object is in the store.
    pub(super) fn is_new(&self, record: &SignedRecord) -> bool {
        let Some(origin) = self.0.get(&Member(record.originator)) else { return true };
        match origin.start.cmp(&record.start) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => origin.records.get(&record.key()).is_none_or(|r| r.number < record.number),
            std::cmp::Ordering::Greater => false,
        }
    }

    /// Stores a new record and returns its age. The least recently confirmed record of the originator makes room when
    /// it has `records_max`.
    pub(super) fn insert(&mut self, now: Instant, record: &SignedRecord, bytes: &[u8], records_max: usize) -> Duration {
        let new = || OriginRecords {
            start: record.start,
            records: BTreeMap::new(),
            last_received: now,
            delay_min: WindowedExtremum::default(),
        };
        let origin = self.0.entry(Member(record.originator)).or_insert_with(new);
        if origin.start != record.start {
            *origin = new();
        }
        let key = record.key();
        if origin.records.len() >= records_max && !origin.records.contains_key(&key) {
            let oldest = origin.records.iter().min_by_key(|(_, r)| (r.confirmed_at, r.number)).map(|(k, _)| *k);
            oldest.map(|k| origin.records.remove(&k));
        }
        origin.last_received = now;
        origin.records.insert(key, StoredRecord { number: record.number, bytes: bytes.to_vec(), confirmed_at: now });
        origin.age(now, record.at_ms)
    }

    /// Confirms the link records that a refresh lists, and returns them. A refresh within half of [`REFRESH`] after
    /// the one before has no effect, which bounds its cost.
    pub(super) fn refresh(&mut self, now: Instant, refresh: &SignedRecord) -> Vec<SignedRecord> {
        let RecordBody::Refresh { distances, .. } = &refresh.body else { return Vec::new() };
        let Some(origin) = self.0.get_mut(&Member(refresh.originator)) else { return Vec::new() };
        let before = origin.records.get(&refresh.key()).map(|r| r.confirmed_at);
        if before.is_some_and(|at| now.saturating_since(at) < REFRESH / 2) {
            return Vec::new();
        }
        let listed: BTreeSet<u64> = distances.iter().filter_map(|n| refresh.number.checked_sub((*n).into())).collect();
        let mut confirmed = Vec::new();
        for stored in origin.records.values_mut().filter(|r| listed.contains(&r.number)) {
            let record = SignedRecord::decode(&stored.bytes)
                .filter(|r| matches!(r.body, RecordBody::Link { advertisement: Some(_), .. }));
            stored.confirmed_at = if record.is_some() { now } else { stored.confirmed_at };
            confirmed.extend(record);
        }
        confirmed
    }

    /// The latest record about each certificate.
    pub(super) fn certificates(&self) -> impl Iterator<Item = SignedRecord> + '_ {
        let of_origin = |origin: &OriginRecords| -> Vec<SignedRecord> {
            let records = origin.records.iter().filter(|(key, _)| matches!(key, RecordKey::Certificate(_)));
            records.filter_map(|(_, record)| SignedRecord::decode(&record.bytes)).collect()
        };
        self.0.values().flat_map(of_origin)
    }

    /// Removes the records of all originators that are no longer members.
    pub(super) fn retain(&mut self, is_member: impl Fn(Member) -> bool) {
        self.0.retain(|m, _| is_member(*m));
    }

    /// Digest entry of an originator.
    pub(super) fn digest_entry(&self, now: Instant, originator: Member) -> DigestEntry {
        let none = DigestEntry { originator: originator.0, newest: 0, sum: 0 };
        let Some(origin) = self.0.get(&originator) else { return none };
        origin.current(now).fold(none, |entry, record| DigestEntry {
            newest: entry.newest.max(record.number),
            sum: entry.sum.wrapping_add(record.number),
            ..entry
        })
    }

    /// The records that a peer with this digest lacks, up to the limit of bytes.
    pub(super) fn missing_for(&self, now: Instant, query: &MissingQuery<'_>) -> Vec<&[u8]> {
        let (before, after) = query.digest.split_at(query.rotation % query.digest.len().max(1));
        let mut missing = Vec::new();
        let mut bytes = 0;
        for theirs in after.iter().chain(before) {
            let originator = Member(theirs.originator);
            let Some(origin) = self.0.get(&originator) else { continue };
            let own = self.digest_entry(now, originator);
            // The peer has the latest record and lacks an earlier one, which its digest does not identify.
            let has_gaps = own.newest == theirs.newest && own.sum != theirs.sum;
            let is_missing = |r: &&StoredRecord| has_gaps || r.number > theirs.newest;
            let mut records: Vec<&StoredRecord> = origin.current(now).filter(is_missing).collect();
            records.sort_by_key(|r| r.number);
            if originator == query.peer && records.is_empty() {
                // A peer that lost the number of its last start learns it, as all ignore its records until then.
                records.extend(origin.records.values().max_by_key(|r| r.number).filter(|r| r.number > theirs.newest));
            }
            if has_gaps {
                let rotation = query.rotation % records.len().max(1);
                records.rotate_left(rotation);
            }
            for record in records {
                bytes += record.bytes.len();
                if bytes > query.bytes_max {
                    return missing;
                }
                missing.push(&record.bytes[..]);
            }
        }
        missing
    }

    /// Number of records.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.values().map(|origin| origin.records.len()).sum()
    }
}
