//! Records that this member originates, and the decision when a change is worth a record.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use route::Member;
use units::Instant;
use wire::overlay::gossip::{RecordBody, SignedRecord};

use super::REFRESH;
use crate::core::LinkAdvertisement;
use crate::settings::Settings;

/// Changes of link metrics that are too small for a record.
struct Tolerance {
    /// Change of the loss, as a share of the width of its confidence interval.
    loss: f64,
    /// Change of the round trip, as a share of the round trip.
    round_trip: f64,
    /// Ratio of the widths of the confidence intervals.
    width: f64,
}

/// Tolerance between refreshes. An interval twice as wide or narrow can change a route decision.
const CHANGE_TOLERANCE: Tolerance = Tolerance { loss: 0.25, round_trip: 0.1, width: 2.0 };
/// Tolerance at a refresh, when an unchanged record costs bytes, too.
const REFRESH_TOLERANCE: Tolerance = Tolerance { loss: 0.05, round_trip: 0.02, width: 1.1 };
/// Maximum records that one refresh lists, so that it fits a frame.
pub(super) const REFRESH_PART_RECORDS: usize = 128;
/// Maximum distance of a record's number from the latest one. Older records are originated again, because a refresh
/// states the distance in 32 bits.
const REFRESH_DISTANCE_MAX: u64 = 1 << 31;

pub(super) struct Originator {
    settings: Arc<Settings>,
    own: Member,
    start: u64,
    /// Zero of the times in the records.
    started_at: Instant,
    /// Number of the latest record.
    number: u64,
    /// The last advertisement of each link that is up, with the number of its record.
    last_originated: BTreeMap<Member, (LinkAdvertisement, u64)>,
    last_refresh: Option<Instant>,
    originated_certificates: BTreeMap<Member, (String, Option<SocketAddr>)>,
}

impl Originator {
    pub(super) fn new(settings: Arc<Settings>, start: u64, now: Instant) -> Self {
        let own = settings.identity.public().member();
        // Room for a million records a second, so that the numbers of each start exceed those of the one before.
        let number = start.saturating_mul(1 << 20);
        Self {
            settings,
            own,
            start,
            started_at: now,
            number,
            last_originated: BTreeMap::new(),
            last_refresh: None,
            originated_certificates: BTreeMap::new(),
        }
    }

    /// Whether a record of this member is later than all that it knows of: one of an earlier start whose number was
    /// lost, or of another host with the same key.
    pub(super) fn is_ahead(&self, record: &SignedRecord) -> bool {
        (record.start, record.number) > (self.start, self.number)
    }

    /// Moves start and number past a record that is ahead, because peers would ignore this start otherwise. Returns
    /// the certificates as new records; the links follow with the next call of [`Self::link_records`].
    pub(super) fn resume_after(&mut self, now: Instant, record: &SignedRecord) -> Vec<SignedRecord> {
        self.start = self.start.max(record.start.saturating_add(1));
        self.number = self.number.max(record.number);
        self.last_originated.clear();
        self.last_refresh = None;
        let known = std::mem::take(&mut self.originated_certificates);
        self.certificate_records(now, known.into_iter().map(|(m, (text, at))| (m, text, at)).collect())
    }

    /// Records for the links that changed or went down, and a refresh of the unchanged ones when it is due.
    pub(super) fn link_records(
        &mut self,
        now: Instant,
        advertisements: Vec<(Member, LinkAdvertisement)>,
    ) -> Vec<SignedRecord> {
        let down: Vec<Member> =
            self.last_originated.keys().filter(|m| !advertisements.iter().any(|(a, _)| a == *m)).copied().collect();
        let refreshes = self.last_refresh.is_none_or(|at| now.saturating_since(at) >= REFRESH);
        let tolerance = if refreshes { &REFRESH_TOLERANCE } else { &CHANGE_TOLERANCE };
        let is_unchanged = |m: &Member, new: &LinkAdvertisement| {
            let last = self.last_originated.get(m).filter(|(_, number)| self.number - number < REFRESH_DISTANCE_MAX);
            last.is_some_and(|(last, _)| !has_changed(last, new, tolerance))
        };
        let changed: Vec<(Member, LinkAdvertisement)> =
            advertisements.into_iter().filter(|(m, new)| !is_unchanged(m, new)).collect();
        let relayed_bps = self.settings.relayed_bps();
        let mut records = Vec::new();
        for (from, advertisement) in changed {
            let body = RecordBody::Link { from: from.0, advertisement: Some(advertisement.into()), relayed_bps };
            let record = self.record(now, body);
            self.last_originated.insert(from, (advertisement, record.number));
            records.push(record);
        }
        for from in down {
            self.last_originated.remove(&from);
            records.push(self.record(now, RecordBody::Link { from: from.0, advertisement: None, relayed_bps }));
        }
        if refreshes {
            self.last_refresh = Some(now);
            let valid: Vec<u64> = self.last_originated.values().map(|(_, number)| *number).collect();
            for (part, numbers) in (0..).zip(valid.chunks(REFRESH_PART_RECORDS)) {
                let next = self.number.saturating_add(1);
                let distances = numbers.iter().filter_map(|n| u32::try_from(next - n).ok()).collect();
                records.push(self.record(now, RecordBody::Refresh { part, distances }));
            }
        }
        records
    }

    /// Records for the certificates that are new, changed or gone.
    pub(super) fn certificate_records(
        &mut self,
        now: Instant,
        all: Vec<(Member, String, Option<SocketAddr>)>,
    ) -> Vec<SignedRecord> {
        let all: BTreeMap<_, _> = all.into_iter().map(|(m, text, at)| (m, (text, at))).collect();
        let before = std::mem::replace(&mut self.originated_certificates, all.clone());
        let gone = before.keys().filter(|m| !all.contains_key(m)).map(|m| (*m, (String::new(), None)));
        let new = all.iter().filter(|(m, known)| before.get(m) != Some(known)).map(|(m, known)| (*m, known.clone()));
        let changes: Vec<_> = gone.chain(new).collect();
        changes
            .into_iter()
            .map(|(owner, (text, endpoint))| {
                self.record(now, RecordBody::Certificate { owner: owner.0, endpoint, text })
            })
            .collect()
    }

    fn record(&mut self, now: Instant, body: RecordBody) -> SignedRecord {
        self.number = self.number.saturating_add(1);
        let at_ms = u64::try_from(now.saturating_since(self.started_at).as_millis()).unwrap_or(u64::MAX);
        SignedRecord { originator: self.own.0, start: self.start, number: self.number, at_ms, body }
    }
}

/// Whether an advertisement differs from the one before by more than a tolerance.
fn has_changed(before: &LinkAdvertisement, now: &LinkAdvertisement, tolerance: &Tolerance) -> bool {
    let widths = [before.high - before.low, now.high - now.low];
    let width = widths[0].max(widths[1]);
    before.rtt_us.abs_diff(now.rtt_us) as f64 > tolerance.round_trip * before.rtt_us.max(now.rtt_us) as f64
        || (before.loss - now.loss).abs() > tolerance.loss * width
        || width > tolerance.width * widths[0].min(widths[1])
        || before.capacity_bps != now.capacity_bps
        || before.datagram != now.datagram
        || before.with_traffic != now.with_traffic
}
