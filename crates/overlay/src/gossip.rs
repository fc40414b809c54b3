//! Link state spreads by gossip, over the sealed messages of the overlay. Each member says only what it measured on links on which it
//! receives, and signs it, so that whoever passes it on cannot change it: members tell each other how far they have heard whom, and pass on what
//! the other one has not. All that counts in that is signed by who speaks (who, which word, about what), so that a member can withhold and
//! repeat, but neither invent nor make others deaf to somebody.

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
use wire::overlay::gossip::{DIGEST_MAX, Known, Message, RecordBody, SignedRecord};

use crate::bucket::{Bucket, Limit};
use crate::core::LinkAdvertisement;
use crate::counters::{Counters, bump};
use crate::identity::PublicKey;
use crate::prng::Prng;
use crate::settings::Settings;
use originator::Originator;
use store::RecordStore;

/// How often another member is asked for what is new: with a handful of members all know it within some rounds.
pub(crate) const ROUND: Duration = Duration::from_millis(50);
/// Own claims are handed to the gossip so often; it says only what has moved.
pub(crate) const ADVERTISEMENT_INTERVAL: Duration = Duration::from_millis(100);
/// How often a member says that its claims which did not change still hold.
const REFRESH: Duration = Duration::from_secs(2);
/// Who was heard lately is asked, with one round in so many for the others.
const RECENT_PEER: Duration = Duration::from_secs(5);
const OTHER_PEER_SHARE: f64 = 0.25;
/// So many of these are told at once what has changed: to be asked takes a round trip, which over satellites is half a second.
const PUSH_FANOUT: usize = 4;
/// Most bytes in answer to one digest; the next round asks for the rest.
const REPLY_BYTES_MAX: usize = 8192;
/// What one member may cost in a [`WINDOW`]: answers to its digests and signatures looked at (some 12 % of a processor). Of two
/// members each asks the other 20 times a second, and answers as often.
const WINDOW: Duration = Duration::from_secs(1);
const REPLIES_MAX: u32 = 60;
const SIGNATURES_MAX: u32 = 2000;
/// What somebody passes on of a speaker is not heard for so long after it passed on a wrong signature of that one. Of all others it is heard: numbers of members are
/// short, and where two keys have the same one, honest members who know the one pass on what those take for forged who know the other.
const PENALTY: Duration = Duration::from_secs(10);
/// Words of this member that it does not know of, within so long of each other, are another host's with its key.
const SAME_KEY: Duration = Duration::from_secs(60);
/// What each frame of a message costs beside the message: IPv6 and UDP 48, envelope 56, frame 40, number and piece 9.
const FRAME: usize = 153;
/// Who has less than this share of what it may send in a second does not ask: what is left is for answers, by which others learn of it. Nor does one
/// member draw more than this share by its digests.
const FOR_ANSWERS: f64 = 0.5;
/// An output of the gossip.
#[derive(Debug, PartialEq)]
pub(crate) enum FromGossip {
    /// A message is to be sent.
    Send { to: Member, bytes: Vec<u8> },
    /// What `to` says about its link from `from`, and how much it passes on of what is not for it.
    LinkAdvertisement { from: Member, to: Member, advertisement: Option<LinkAdvertisement>, relayed_bps: u64 },
    /// A certificate, and where `by` says that its owner is reached.
    CertificateAdvertisement { by: Member, text: String, endpoint: Option<SocketAddr> },
    /// Another host runs with the key of this member; told once.
    DuplicateIdentity,
}

/// What a member says and passes on: no sockets, no clock.
pub(crate) struct Gossip {
    settings: Arc<Settings>,
    own: Member,
    originator: Originator,
    store: RecordStore,
    others: BTreeMap<Member, Other>,
    window: Instant,
    prng: Prng,
    /// What was sent, bytes of IP.
    spent: Bucket,
    counters: Arc<Counters>,
    /// When somebody last told a word of this member that it did not know.
    own_word: Option<Instant>,
}

/// Another member, as far as the gossip goes.
#[derive(Default)]
struct Other {
    heard: Option<Instant>,
    /// Until when what it passes on of these is not heard: members only, so that they are no more than those.
    ignored: BTreeMap<Member, Instant>,
    /// In this [`WINDOW`]; drawn: bytes of answers.
    answers: u32,
    drawn: usize,
    signatures: u32,
}

/// What a message takes on the network, bytes of IP.
fn cost(message: &[u8]) -> usize {
    message.len() + FRAME * message.len().div_ceil(Message::FRAME_BYTES).max(1)
}

impl Gossip {
    /// `generation`: grows with each start of this member.
    pub(crate) fn new(settings: Arc<Settings>, counters: Arc<Counters>, generation: u64, now: Instant) -> Self {
        let own = settings.identity.public().member();
        Self {
            originator: Originator::new(Arc::clone(&settings), generation, now),
            settings,
            own,
            store: RecordStore::default(),
            others: BTreeMap::new(),
            window: now,
            prng: Prng::new(generation ^ u64::from(own.0)),
            spent: Bucket::new(now),
            counters,
            own_word: None,
        }
    }

    /// A message of a member came.
    pub(crate) fn handle_message(&mut self, now: Instant, from: Member, bytes: &[u8]) -> Vec<FromGossip> {
        if !self.settings.members.contains(from) {
            return Vec::new();
        }
        let Some(message) = Message::decode(bytes) else { return Vec::new() };
        let other = self.others.entry(from).or_default();
        other.heard = Some(now);
        other.ignored.retain(|_, until| now < *until);
        let mut outputs = self.hear(now, from, &message.records);
        if !message.digest.is_empty() {
            outputs.extend(self.answer(now, from, &message));
        }
        outputs
    }

    fn hear(&mut self, now: Instant, from: Member, records: &[&[u8]]) -> Vec<FromGossip> {
        let mut all: Vec<(SignedRecord, &[u8])> =
            records.iter().filter_map(|w| Some((SignedRecord::decode(w)?, *w))).collect();
        // The newest first: it is what the age of the others is told by.
        all.sort_by_key(|(said, _)| std::cmp::Reverse(said.number));
        let mut outputs = Vec::new();
        for (said, bytes) in all {
            let by = Member(said.by);
            let Some(key) = self.key(by).filter(|_| self.is_news(&said)) else { continue };
            let other = self.others.entry(from).or_default();
            if other.ignored.contains_key(&by) {
                continue;
            }
            if other.signatures >= SIGNATURES_MAX {
                break;
            }
            other.signatures += 1;
            if !signed_record::is_signed(bytes, &key) {
                let is_first = other.ignored.is_empty();
                other.ignored.insert(by, now + PENALTY);
                // Once in a while: it may do so of everybody.
                if is_first {
                    let [from, by] = [from, by].map(|m| self.settings.name_of(m));
                    tracing::warn!("{from} passes on what the {by} that is known here did not sign");
                }
                continue;
            }
            if by == self.own {
                outputs.extend(self.note_own_word(now));
                let again = self.originator.go_on_after(now, &said);
                self.say(now, again);
                continue;
            }
            let mut hold = self.store.confirm(now, &said);
            let age = self.store.keep(now, &said, bytes, self.most_words());
            hold.push(said);
            outputs.extend(hold.into_iter().filter_map(|said| self.output(said, age)));
        }
        outputs
    }

    /// All certificates that are held, each once.
    pub(crate) fn certificates(&self) -> Vec<FromGossip> {
        let mut known = BTreeSet::new();
        let is_new = |said: &SignedRecord| match &said.what {
            RecordBody::Certificate { text, .. } => known.insert(text.clone()),
            RecordBody::Link { .. } | RecordBody::Alive { .. } => false,
        };
        let all = self.store.certificates().filter(is_new);
        all.filter_map(|said| self.output(said, Duration::ZERO)).collect()
    }

    /// Somebody has heard this member say what it does not know of. Once that is a start whose number was lost; where it goes on, another host has its key.
    fn note_own_word(&mut self, now: Instant) -> Option<FromGossip> {
        let is_again = |at: Instant| now.saturating_since(at) < SAME_KEY;
        self.own_word.replace(now).filter(|at| is_again(*at))?;
        let is_first = self.counters.counts().duplicate_identity == 0;
        bump(&self.counters.duplicate_identity);
        is_first.then_some(FromGossip::DuplicateIdentity)
    }

    /// What a word means here.
    fn output(&self, said: SignedRecord, age: Duration) -> Option<FromGossip> {
        match said.what {
            // Links between members only: what a member may say is bounded by how many there are.
            RecordBody::Link { from, advertisement, relayed_bps } => self.key(Member(from)).map(|_| {
                let advertisement = advertisement.map(|c| signed_record::aged(c, age));
                FromGossip::LinkAdvertisement { from: Member(from), to: Member(said.by), advertisement, relayed_bps }
            }),
            // Who it is, is looked at where the authority is known.
            RecordBody::Certificate { endpoint, text, .. } => (!text.is_empty())
                .then_some(FromGossip::CertificateAdvertisement { by: Member(said.by), text, endpoint }),
            RecordBody::Alive { .. } => None,
        }
    }

    /// What may be sent in a second.
    fn limit(&self) -> Limit {
        Limit::a_second_of(self.settings.gossip_rate.as_bps() as f64 / 8.0)
    }

    fn send(&mut self, to: Member, bytes: Vec<u8>) -> FromGossip {
        self.spent.put(cost(&bytes) as f64);
        FromGossip::Send { to, bytes }
    }

    /// Gives who tells what it knows the rest, and asks it for what it knows beyond that.
    fn answer(&mut self, now: Instant, to: Member, theirs: &Message<'_>) -> Vec<FromGossip> {
        let limit = self.limit();
        let room = self.spent.room(now, limit);
        let other = self.others.entry(to).or_default();
        if other.answers >= REPLIES_MAX {
            return Vec::new();
        }
        let room = room.min(FOR_ANSWERS * limit.most - other.drawn as f64);
        if room < FRAME as f64 {
            bump(&self.counters.gossip_rate_limited);
            return Vec::new();
        }
        other.answers += 1;
        let ours: Vec<Known> = theirs.digest.iter().map(|k| self.store.known(now, Member(k.of))).collect();
        let turn = self.prng.number() as usize;
        let missing_for = self.store.missing_for(now, (to, &theirs.digest), turn, REPLY_BYTES_MAX.min(room as usize));
        let mut messages = Message::encode_words(missing_for.into_iter());
        let is_known = |k: &Known| self.key(Member(k.of)).is_some();
        let lacks = |(t, o): (&Known, &Known)| t.newest > o.newest || t.newest == o.newest && t.sum != o.sum;
        let wanted = theirs.digest.iter().zip(&ours).filter(|pair| is_known(pair.0) && lacks(*pair));
        let wanted: Vec<Known> = wanted.map(|(_, o)| *o).collect();
        if theirs.asks && !wanted.is_empty() {
            messages.push(Message::encode_digest(false, &wanted));
        }
        self.others.entry(to).or_default().drawn += messages.iter().map(|m| cost(m)).sum::<usize>();
        messages.into_iter().map(|bytes| self.send(to, bytes)).collect()
    }

    /// [`ROUND`] has passed.
    pub(crate) fn handle_round(&mut self, now: Instant) -> Vec<FromGossip> {
        let members = self.settings.members.get();
        let is_member = |m: &Member| *m == self.own || members.contains_key(m);
        self.store.retain(|m| is_member(&m));
        self.others.retain(|m, _| is_member(m));
        if now.saturating_since(self.window) >= WINDOW {
            self.window = now;
            self.others.values_mut().for_each(|o| (o.answers, o.drawn, o.signatures) = (0, 0, 0));
        }
        let limit = self.limit();
        if self.spent.room(now, limit) < FOR_ANSWERS * limit.most {
            bump(&self.counters.gossip_rate_limited);
            return Vec::new();
        }
        let mut asked = self.heard_lately(now);
        if asked.is_empty() || self.prng.unit() < OTHER_PEER_SHARE {
            asked = members.keys().copied().collect();
        }
        let turn = self.prng.number() as usize;
        let Some(to) = asked.get(turn % asked.len().max(1)).copied() else { return Vec::new() };
        let mut all: Vec<Member> = members.keys().copied().chain([self.own]).collect();
        let first = turn % all.len();
        all.rotate_left(first);
        let known: Vec<Known> = all.into_iter().take(DIGEST_MAX).map(|m| self.store.known(now, m)).collect();
        vec![self.send(to, Message::encode_digest(true, &known))]
    }

    /// What this member measured on the links on which it receives. Some are told at once what has changed; the others ask for it, and those who did not get it.
    pub(crate) fn handle_own_links(
        &mut self,
        now: Instant,
        advertisements: Vec<(Member, LinkAdvertisement)>,
    ) -> Vec<FromGossip> {
        let said = self.originator.advertisements(now, advertisements);
        let is_link = |(said, _): &(SignedRecord, Vec<u8>)| matches!(said.what, RecordBody::Link { .. });
        let links: Vec<(SignedRecord, Vec<u8>)> = self.say(now, said).into_iter().filter(is_link).collect();
        let limit = self.limit();
        if links.is_empty() || self.spent.room(now, limit) < FOR_ANSWERS * limit.most {
            return Vec::new();
        }
        let mut told = self.heard_lately(now);
        let turn = self.prng.number() as usize % told.len().max(1);
        told.rotate_left(turn);
        told.truncate(PUSH_FANOUT);
        let messages = Message::encode_words(links.iter().map(|(_, bytes)| &bytes[..]));
        let all = told.into_iter().flat_map(|to| messages.iter().map(move |m| (to, m.clone())));
        all.map(|(to, bytes)| self.send(to, bytes)).collect()
    }

    fn heard_lately(&self, now: Instant) -> Vec<Member> {
        let was_heard = |o: &Other| o.heard.is_some_and(|at| now.saturating_since(at) < RECENT_PEER);
        self.others.iter().filter(|(_, o)| was_heard(o)).map(|(m, _)| *m).collect()
    }

    /// Certificates that this member knows.
    pub(crate) fn handle_known_certificates(&mut self, now: Instant, all: Vec<(Member, String, Option<SocketAddr>)>) {
        let said = self.originator.certificates_known(now, all);
        self.say(now, said);
    }

    /// Gives what is said with its signature.
    fn say(&mut self, now: Instant, all: Vec<SignedRecord>) -> Vec<(SignedRecord, Vec<u8>)> {
        let signed = all.into_iter().map(|said| {
            let bytes = signed_record::sign(&said, &self.settings.identity);
            self.store.confirm(now, &said);
            self.store.keep(now, &said, &bytes, self.most_words());
            (said, bytes)
        });
        signed.collect()
    }

    fn key(&self, of: Member) -> Option<PublicKey> {
        let own = self.settings.identity.public();
        if of == self.own { Some(own) } else { self.settings.members.one(of).map(|m| m.key) }
    }

    fn is_news(&self, said: &SignedRecord) -> bool {
        // Each part makes others look at all words of its speaker: nobody has need of more parts than words.
        if matches!(said.what, RecordBody::Alive { part, .. } if part as usize >= self.most_words().div_ceil(originator::PART))
        {
            return false;
        }
        if Member(said.by) == self.own { self.originator.is_ahead(said) } else { self.store.is_news(said) }
    }

    /// Of each member: on a link with each other one, and a certificate of each, and that these hold; and as many again of those that only others know yet.
    fn most_words(&self) -> usize {
        4 * (self.settings.members.get().len() + 2)
    }

    /// How many words of all members are held.
    #[cfg(test)]
    pub(crate) fn records(&self) -> usize {
        self.store.len()
    }
}
