//! Gossip of link state over the sealed messages of the overlay.
//!
//! Each member advertises only what it measured on the links on which it receives, and signs these records, so that a
//! forwarder cannot change them. Members exchange digests of the records that they hold, and send each other the
//! missing ones. All fields that decide about a record (originator, number, object) are signed. A malicious member can
//! withhold and repeat records, but it can neither forge one nor make others reject an originator.

mod originator;
mod signed_record;
mod store;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use route::Member;
use units::Instant;
use wire::overlay::gossip::{DIGEST_MAX, DigestEntry, Message, RecordBody, SignedRecord};

use crate::bucket::{Bucket, Limit};
use crate::core::LinkAdvertisement;
use crate::counters::{Counters, bump};
use crate::identity::PublicKey;
use crate::prng::Prng;
use crate::settings::Settings;
use originator::Originator;
use store::{MissingQuery, RecordStore};

/// Interval between the digests that a member sends. A handful of members all know a new record within some rounds.
pub(crate) const ROUND: Duration = Duration::from_millis(50);
/// Interval at which the core hands the member's own link state to the gossip, which originates only what changed.
pub(crate) const ADVERTISEMENT_INTERVAL: Duration = Duration::from_millis(100);
/// Interval between refreshes of the own records that did not change.
const REFRESH: Duration = Duration::from_secs(2);
/// Maximum time since the last message of a recent peer. Digests go to recent peers, apart from a share of
/// [`OTHER_PEER_SHARE`], whose receiver is drawn from all members.
const RECENT_PEER: Duration = Duration::from_secs(5);
const OTHER_PEER_SHARE: f64 = 0.25;
/// Number of recent peers to which changed link records are pushed. A pull takes a round trip, half a second over a
/// geostationary satellite.
const PUSH_FANOUT: usize = 4;
/// Maximum bytes of records in the reply to one digest; the next round requests the rest.
const REPLY_BYTES_MAX: usize = 8192;
/// Period over which the cost of one peer is limited: replies to its digests, and verified signatures (some 12 % of a
/// CPU). Two members send each other 20 digests a second and as many replies.
const WINDOW: Duration = Duration::from_secs(1);
const REPLIES_MAX: u32 = 60;
const SIGNATURES_MAX: u32 = 2000;
/// Time for which the records of one originator are ignored from a peer that forwarded one with an invalid signature.
/// Records of other originators are accepted: member numbers are short, and if two keys share a number, an honest
/// member with the one key forwards records that are invalid under the other key.
const PENALTY: Duration = Duration::from_secs(10);
/// Maximum time between two unknown records under this member's key that indicate another host with the same key.
const DUPLICATE_IDENTITY_WINDOW: Duration = Duration::from_secs(60);
/// Overhead of each frame of a message in bytes: IPv6 and UDP 48, envelope 56, frame 40, message header 9.
const FRAME_OVERHEAD_BYTES: usize = 153;
/// Share of the byte budget of a second that is reserved for replies, by which peers get this member's records: a
/// member with less left sends no digest. It is also the maximum share for the replies to one peer.
const REPLY_BUDGET_SHARE: f64 = 0.5;

/// Output of the gossip.
#[derive(Debug, PartialEq)]
pub(crate) enum GossipOutput {
    /// A message to send.
    Send { to: Member, bytes: Vec<u8> },
    /// The state that `to` advertises of its link from `from`, and its maximum rate of relayed traffic.
    LinkAdvertisement { from: Member, to: Member, advertisement: Option<LinkAdvertisement>, relayed_bps: u64 },
    /// A certificate, with the endpoint of its owner as `by` knows it.
    CertificateAdvertisement { by: Member, text: String, endpoint: Option<SocketAddr> },
    /// Another host uses the key of this member; reported once.
    DuplicateIdentity,
}

/// State machine of the gossip: no sockets, no clock.
pub(crate) struct Gossip {
    settings: Arc<Settings>,
    own: Member,
    originator: Originator,
    store: RecordStore,
    peers: BTreeMap<Member, PeerState>,
    /// Start of the present [`WINDOW`].
    window_start: Instant,
    prng: Prng,
    /// IP bytes sent of late.
    tx_bytes: Bucket,
    counters: Arc<Counters>,
    /// Time of the last record under this member's key that it did not originate.
    unknown_own_record: Option<Instant>,
}

/// State of the gossip with one peer.
#[derive(Default)]
struct PeerState {
    last_received: Option<Instant>,
    /// Originators whose records are ignored from this peer, with the end of the penalty. Only members enter, which
    /// bounds the map.
    ignored_until: BTreeMap<Member, Instant>,
    /// Replies to this peer in the present [`WINDOW`].
    replies: u32,
    /// IP bytes of these replies.
    reply_bytes: usize,
    /// Signatures that were verified for this peer in the present [`WINDOW`].
    signatures: u32,
}

/// Size of a message on the network, in IP bytes.
fn ip_bytes(message: &[u8]) -> usize {
    message.len() + FRAME_OVERHEAD_BYTES * message.len().div_ceil(Message::FRAME_BYTES).max(1)
}

impl Gossip {
    /// `generation`: start counter of this member, which grows with each start.
    pub(crate) fn new(settings: Arc<Settings>, counters: Arc<Counters>, generation: u64, now: Instant) -> Self {
        let own = settings.identity.public().member();
        Self {
            originator: Originator::new(Arc::clone(&settings), generation, now),
            settings,
            own,
            store: RecordStore::default(),
            peers: BTreeMap::new(),
            window_start: now,
            prng: Prng::new(generation ^ u64::from(own.0)),
            tx_bytes: Bucket::new(now),
            counters,
            unknown_own_record: None,
        }
    }

    /// Handles a message of the member `from`.
    pub(crate) fn handle_message(&mut self, now: Instant, from: Member, bytes: &[u8]) -> Vec<GossipOutput> {
        if !self.settings.members.contains(from) {
            return Vec::new();
        }
        let Some(message) = Message::decode(bytes) else { return Vec::new() };
        let peer = self.peers.entry(from).or_default();
        peer.last_received = Some(now);
        peer.ignored_until.retain(|_, until| now < *until);
        let mut outputs = self.on_records(now, from, &message.records);
        if !message.digest.is_empty() {
            outputs.extend(self.reply(now, from, &message));
        }
        outputs
    }

    fn on_records(&mut self, now: Instant, from: Member, records: &[&[u8]]) -> Vec<GossipOutput> {
        let mut records: Vec<(SignedRecord, &[u8])> =
            records.iter().filter_map(|bytes| Some((SignedRecord::decode(bytes)?, *bytes))).collect();
        // The newest first, as the ages of the others are relative to it.
        records.sort_by_key(|(record, _)| std::cmp::Reverse(record.number));
        let mut outputs = Vec::new();
        for (record, bytes) in records {
            let originator = Member(record.originator);
            let Some(key) = self.key_of(originator).filter(|_| self.is_new(&record)) else { continue };
            let peer = self.peers.entry(from).or_default();
            if peer.ignored_until.contains_key(&originator) {
                continue;
            }
            if peer.signatures >= SIGNATURES_MAX {
                break;
            }
            peer.signatures += 1;
            if !signed_record::is_signed(bytes, &key) {
                self.penalise(now, from, originator);
                continue;
            }
            if originator == self.own {
                outputs.extend(self.on_unknown_own_record(now));
                let records = self.originator.resume_after(now, &record);
                self.originate(now, records);
                continue;
            }
            let mut valid = self.store.refresh(now, &record);
            let age = self.store.insert(now, &record, bytes, self.records_max());
            valid.push(record);
            outputs.extend(valid.into_iter().filter_map(|record| self.output(record, age)));
        }
        outputs
    }

    /// Ignores the records of an originator from a peer that forwarded one with an invalid signature.
    fn penalise(&mut self, now: Instant, forwarder: Member, originator: Member) {
        let peer = self.peers.entry(forwarder).or_default();
        let is_first = peer.ignored_until.is_empty();
        peer.ignored_until.insert(originator, now + PENALTY);
        // One line per penalty, because a peer can forward such records of every originator.
        if is_first {
            let [from, of] = [forwarder, originator].map(|m| self.settings.name_of(m));
            tracing::warn!(
                "{from} forwards gossip records of {of} with an invalid signature; compare the public key of {of} in \
                 the settings of both members"
            );
        }
    }

    /// The certificates in the store, without duplicates.
    pub(crate) fn certificates(&self) -> Vec<GossipOutput> {
        let mut known = BTreeSet::new();
        let is_new = |record: &SignedRecord| match &record.body {
            RecordBody::Certificate { text, .. } => known.insert(text.clone()),
            RecordBody::Link { .. } | RecordBody::Refresh { .. } => false,
        };
        let all = self.store.certificates().filter(is_new);
        all.filter_map(|record| self.output(record, Duration::ZERO)).collect()
    }

    /// Handles a record under this member's key that it did not originate. One alone is of an earlier start whose
    /// number was lost; repetition means that another host uses the key.
    fn on_unknown_own_record(&mut self, now: Instant) -> Option<GossipOutput> {
        let is_repetition = |at: Instant| now.saturating_since(at) < DUPLICATE_IDENTITY_WINDOW;
        self.unknown_own_record.replace(now).filter(|at| is_repetition(*at))?;
        let is_first = self.counters.counts().duplicate_identity == 0;
        bump(&self.counters.duplicate_identity);
        is_first.then_some(GossipOutput::DuplicateIdentity)
    }

    /// The output for a valid record.
    fn output(&self, record: SignedRecord, age: Duration) -> Option<GossipOutput> {
        match record.body {
            // Only links between members, which bounds the state that one member can create.
            RecordBody::Link { from, advertisement, relayed_bps } => self.key_of(Member(from)).map(|_| {
                let advertisement = advertisement.map(|a| signed_record::with_age(a, age));
                let to = Member(record.originator);
                GossipOutput::LinkAdvertisement { from: Member(from), to, advertisement, relayed_bps }
            }),
            // The core verifies the certificate, as it knows the certificate authority.
            RecordBody::Certificate { endpoint, text, .. } => (!text.is_empty())
                .then_some(GossipOutput::CertificateAdvertisement { by: Member(record.originator), text, endpoint }),
            RecordBody::Refresh { .. } => None,
        }
    }

    /// Rate limit of the own transmissions, in IP bytes.
    fn limit(&self) -> Limit {
        Limit::one_second_of(self.settings.gossip_rate.as_bps() as f64 / 8.0)
    }

    fn send(&mut self, to: Member, bytes: Vec<u8>) -> GossipOutput {
        self.tx_bytes.put(ip_bytes(&bytes) as f64);
        GossipOutput::Send { to, bytes }
    }

    /// Replies to a digest with the records that the peer lacks, and with a digest of the records that this member
    /// lacks.
    fn reply(&mut self, now: Instant, to: Member, request: &Message<'_>) -> Vec<GossipOutput> {
        let limit = self.limit();
        let available = self.tx_bytes.room(now, limit);
        let peer = self.peers.entry(to).or_default();
        if peer.replies >= REPLIES_MAX {
            return Vec::new();
        }
        let available = available.min(REPLY_BUDGET_SHARE * limit.burst - peer.reply_bytes as f64);
        if available < FRAME_OVERHEAD_BYTES as f64 {
            bump(&self.counters.gossip_rate_limited);
            return Vec::new();
        }
        peer.replies += 1;
        let own: Vec<DigestEntry> =
            request.digest.iter().map(|e| self.store.digest_entry(now, Member(e.originator))).collect();
        let rotation = self.prng.number() as usize;
        let bytes_max = REPLY_BYTES_MAX.min(available as usize);
        let query = MissingQuery { peer: to, digest: &request.digest, rotation, bytes_max };
        let mut messages = Message::encode_records(self.store.missing_for(now, &query).into_iter());
        let is_member = |e: &DigestEntry| self.key_of(Member(e.originator)).is_some();
        let is_behind = |(theirs, own): (&DigestEntry, &DigestEntry)| {
            theirs.newest > own.newest || theirs.newest == own.newest && theirs.sum != own.sum
        };
        let lacking = request.digest.iter().zip(&own).filter(|pair| is_member(pair.0) && is_behind(*pair));
        let lacking: Vec<DigestEntry> = lacking.map(|(_, own)| *own).collect();
        if request.requests_digest && !lacking.is_empty() {
            messages.push(Message::encode_digest(false, &lacking));
        }
        self.peers.entry(to).or_default().reply_bytes += messages.iter().map(|m| ip_bytes(m)).sum::<usize>();
        messages.into_iter().map(|bytes| self.send(to, bytes)).collect()
    }

    /// Sends a digest to one member. The caller calls this at the interval [`ROUND`].
    pub(crate) fn handle_round(&mut self, now: Instant) -> Vec<GossipOutput> {
        let members = self.settings.members.get();
        let is_member = |m: &Member| *m == self.own || members.contains_key(m);
        self.store.retain(|m| is_member(&m));
        self.peers.retain(|m, _| is_member(m));
        if now.saturating_since(self.window_start) >= WINDOW {
            self.window_start = now;
            self.peers.values_mut().for_each(|p| (p.replies, p.reply_bytes, p.signatures) = (0, 0, 0));
        }
        let limit = self.limit();
        if self.tx_bytes.room(now, limit) < REPLY_BUDGET_SHARE * limit.burst {
            bump(&self.counters.gossip_rate_limited);
            return Vec::new();
        }
        let mut candidates = self.recent_peers(now);
        if candidates.is_empty() || self.prng.unit() < OTHER_PEER_SHARE {
            candidates = members.keys().copied().collect();
        }
        let rotation = self.prng.number() as usize;
        let Some(to) = candidates.get(rotation % candidates.len().max(1)).copied() else { return Vec::new() };
        let mut all: Vec<Member> = members.keys().copied().chain([self.own]).collect();
        let first = rotation % all.len();
        all.rotate_left(first);
        let digest: Vec<DigestEntry> =
            all.into_iter().take(DIGEST_MAX).map(|m| self.store.digest_entry(now, m)).collect();
        vec![self.send(to, Message::encode_digest(true, &digest))]
    }

    /// Takes the state of the links on which this member receives, and pushes the changes to some peers. All other
    /// peers, and peers that lost the push, request them.
    pub(crate) fn handle_own_links(
        &mut self,
        now: Instant,
        advertisements: Vec<(Member, LinkAdvertisement)>,
    ) -> Vec<GossipOutput> {
        let records = self.originator.link_records(now, advertisements);
        let is_link = |(record, _): &(SignedRecord, Vec<u8>)| matches!(record.body, RecordBody::Link { .. });
        let links: Vec<(SignedRecord, Vec<u8>)> = self.originate(now, records).into_iter().filter(is_link).collect();
        let limit = self.limit();
        if links.is_empty() || self.tx_bytes.room(now, limit) < REPLY_BUDGET_SHARE * limit.burst {
            return Vec::new();
        }
        let mut receivers = self.recent_peers(now);
        let rotation = self.prng.number() as usize % receivers.len().max(1);
        receivers.rotate_left(rotation);
        receivers.truncate(PUSH_FANOUT);
        let messages = Message::encode_records(links.iter().map(|(_, bytes)| &bytes[..]));
        let all = receivers.into_iter().flat_map(|to| messages.iter().map(move |m| (to, m.clone())));
        all.map(|(to, bytes)| self.send(to, bytes)).collect()
    }

    fn recent_peers(&self, now: Instant) -> Vec<Member> {
        let is_recent = |p: &PeerState| p.last_received.is_some_and(|at| now.saturating_since(at) < RECENT_PEER);
        self.peers.iter().filter(|(_, p)| is_recent(p)).map(|(m, _)| *m).collect()
    }

    /// Takes the certificates that this member has verified, with the endpoints of their owners.
    pub(crate) fn handle_known_certificates(&mut self, now: Instant, all: Vec<(Member, String, Option<SocketAddr>)>) {
        let records = self.originator.certificate_records(now, all);
        self.originate(now, records);
    }

    /// Signs and stores the own records; returns them with their signed bytes.
    fn originate(&mut self, now: Instant, records: Vec<SignedRecord>) -> Vec<(SignedRecord, Vec<u8>)> {
        let signed = records.into_iter().map(|record| {
            let bytes = signed_record::sign(&record, &self.settings.identity);
            self.store.refresh(now, &record);
            self.store.insert(now, &record, &bytes, self.records_max());
            (record, bytes)
        });
        signed.collect()
    }

    fn key_of(&self, member: Member) -> Option<PublicKey> {
        let own = self.settings.identity.public();
        if member == self.own { Some(own) } else { self.settings.members.one(member).map(|m| m.key) }
    }

    fn is_new(&self, record: &SignedRecord) -> bool {
        // Each part of a refresh costs a search over the originator's records; a valid one needs no more parts.
        let parts_max = self.records_max().div_ceil(originator::REFRESH_PART_RECORDS);
        if matches!(record.body, RecordBody::Refresh { part, .. } if part as usize >= parts_max) {
            return false;
        }
        if Member(record.originator) == self.own { self.originator.is_ahead(record) } else { self.store.is_new(record) }
    }

    /// Maximum records of one originator: a link and a certificate for each member, and the refreshes; doubled for
    /// members that this one does not know yet.
    fn records_max(&self) -> usize {
        4 * (self.settings.members.get().len() + 2)
    }

    /// Number of records in the store.
    #[cfg(test)]
    pub(crate) fn records(&self) -> usize {
        self.store.len()
    }
}
