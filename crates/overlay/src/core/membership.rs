//! Members whom the settings do not name: they show a certificate of the authority to whom they call, and others hear of them by gossip.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ipnet::IpNet;
use route::{Member, Path};
use units::Instant;
use wire::overlay::{Message, SPACE_DIRECT};

use super::reload::beyond;
use super::{Core, Event, Output, Peer, Source};
use crate::certificate::Certificate;
use crate::identity::PublicKey;
use crate::session::{Keys, Session};
use crate::settings::{Endpoint, MemberSettings, Settings};

/// The number of whoever has called and not yet shown who it is; no member's (see `PublicKey::member`).
pub(crate) const UNVERIFIED_PEER: Member = Member(0);
/// Guests at once, and for how long: a certificate comes with the first frame. A thousand a second are let in at most, and twenty from each address (see the
/// guard), so that each has a second even in a flood.
const MOST_GUESTS: usize = 1024;
const PATIENCE: Duration = Duration::from_secs(3);
/// What a member shows is looked at at most so often.
const SHOWN_EVERY: Duration = Duration::from_secs(1);
/// That a member is found elsewhere is told to others at most so often: who sends from two places in turn would have everybody sign and pass on words about it.
const PASSED_ON_EVERY: Duration = Duration::from_secs(5);
const DAY_S: u64 = 24 * 3600;
/// Members that certificates may add.
const MOST_MEMBERS: usize = 1000;

/// Somebody who has called, with a session in which nothing counts but a certificate.
pub(super) struct UnverifiedSession {
    session: Arc<Session>,
    exchange: [u8; 32],
    keys: Keys,
    from: Option<SocketAddr>,
}

/// A member that a certificate has made one.
pub(crate) struct Certified {
    pub(crate) text: String,
    /// What it calls its owner.
    pub(super) name: String,
    until_utc_s: u64,
}

/// This member's own certificate.
#[derive(Default)]
pub(super) struct Own {
    pub(super) text: Option<String>,
    pub(super) until_utc_s: Option<u64>,
    /// How near its end was told.
    told: Nearness,
}

impl Own {
    pub(super) fn of(settings: &Settings) -> Self {
        let (text, until_utc_s) = (settings.certificate.clone(), settings.certified_until_utc_s);
        Self { text, until_utc_s, told: Nearness::Far }
    }
}

/// How near the end of a certificate is.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
enum Nearness {
    #[default]
    Far,
    Week,
    Day,
    Over,
}

impl Nearness {
    fn of(until_utc_s: u64, utc_s: u64) -> Self {
        match until_utc_s.saturating_sub(utc_s) {
            0 => Self::Over,
            left if left < DAY_S => Self::Day,
            left if left < 7 * DAY_S => Self::Week,
            _ => Self::Far,
        }
    }
}

/// Those who are members by certificates, and those who may become so.
#[derive(Default)]
pub(super) struct Admissions {
    pub(super) own: Own,
    unverified_sessions: BTreeMap<u32, UnverifiedSession>,
    pub(super) certified: BTreeMap<Member, Certified>,
    /// What members have shown who are so by the settings: it binds nobody here, but those may need it who are members by certificates.
    listed: BTreeMap<Member, Certified>,
    /// Members or their addresses may be others than when they were last told.
    pub(super) have_news: bool,
}

impl Admissions {
    /// Those of a member that begins to run by these settings.
    pub(super) fn of(settings: &Settings) -> Self {
        Self { own: Own::of(settings), ..Self::default() }
    }
}

impl Peer {
    /// Where others are told that it is found.
    fn publish_link(&mut self, now: Instant) -> Option<SocketAddr> {
        if let Some((place, since)) = self.passed_on
            && self.found.is_some_and(|found| found != place)
            && now.saturating_since(since) < PASSED_ON_EVERY
        {
            return Some(place);
        }
        if self.passed_on.map(|(place, _)| place) != self.found {
            self.passed_on = self.found.map(|found| (found, now));
        }
        self.found
    }
}

impl Core {
    /// Lets somebody unknown in who has called, as far as the door; where there are too many, who was first must go. `None`: no keys.
    pub(super) fn add_unverified(
        &mut self,
        now: Instant,
        source: Source,
        (exchange, local, remote): ([u8; 32], u32, u32),
        keys: Keys,
    ) -> Option<()> {
        let unverified_sessions = &mut self.admissions.unverified_sessions;
        if unverified_sessions.len() >= MOST_GUESTS
            && let Some(first) = unverified_sessions.iter().min_by_key(|(_, g)| g.session.born).map(|(n, _)| *n)
        {
            unverified_sessions.remove(&first);
        }
        let session = Arc::new(Session::new(UNVERIFIED_PEER, local, remote, now, false, &keys)?);
        let from = match source {
            Source::Direct(from) => Some(from),
            Source::Relayed(_) => None,
        };
        unverified_sessions.insert(local, UnverifiedSession { session, exchange, keys, from });
        self.changed = true;
        Some(())
    }

    /// Sessions in which guests may show their certificates.
    pub(super) fn unverified_sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.admissions.unverified_sessions.values().map(|g| &g.session)
    }

    /// Shows this member's certificate to who may not know it.
    pub(super) fn show_certificate(&mut self, now: Instant, to: Member) {
        if let Some(text) = self.admissions.own.text.clone() {
            self.send_on(now, Path::direct(to), SPACE_DIRECT, &Message::Certificate(text.into_bytes()).encode());
        }
    }

    /// A guest shows a certificate: it becomes a member, with the session that it has.
    pub(super) fn handle_certificate(&mut self, now: Instant, from: Member, session: u32, text: &[u8]) {
        if from != UNVERIFIED_PEER {
            self.handle_later_certificate(now, from, text);
            return;
        }
        // Whatever it shows, it does so once.
        let Some(unverified) = self.admissions.unverified_sessions.remove(&session) else { return };
        self.changed = true;
        let number = match self.verify_unverified(now, text, &unverified) {
            Ok(Some(number)) => number,
            // Others have told of it meanwhile.
            Ok(None) => return,
            Err(why) => {
                let from = unverified.from.map_or_else(|| "somebody over relays".to_owned(), |from| from.to_string());
                return self.report_rejection(now, from, why);
            }
        };
        // Nothing was ever sent with these keys, so that the counters may begin again.
        let local = unverified.session.local;
        let session = Session::new(number, local, unverified.session.remote, now, false, &unverified.keys);
        if let (Some(mut session), Some(peer)) = (session, self.peers.get_mut(&number)) {
            session.share_windows(&unverified.session);
            session.set_window_permits(&peer.permits.windows);
            session.confirmed.store(true, Ordering::Relaxed);
            peer.found = unverified.from;
            peer.sessions.push(Arc::new(session));
        }
    }

    /// Says why not; nothing where it is a member already.
    fn verify_unverified(
        &mut self,
        now: Instant,
        text: &[u8],
        unverified: &UnverifiedSession,
    ) -> Result<Option<Member>, String> {
        let (text, certificate) = self.verified(now, text).map_err(|why| format!("its certificate: {why}"))?;
        let member = certificate.member().filter(|m| m.key.exchange() == unverified.exchange);
        let number = member.ok_or("its certificate is for another key")?.key.member();
        if self.settings.members.contains(number) {
            return self.has_key(number, &certificate).map(|()| None);
        }
        self.add_certified(now, &text, &certificate, unverified.from.map(Endpoint::Address))
            .map_err(|why| format!("{} with a certificate: {why}", certificate.name))?;
        Ok(Some(number))
    }

    /// A member shows one, as it does when it calls. To look at it costs as much as a handshake.
    fn handle_later_certificate(&mut self, now: Instant, from: Member, text: &[u8]) {
        let is_rested = |o: &Peer| o.last_checked.is_none_or(|at| now.saturating_since(at) >= SHOWN_EVERY);
        let Some(peer) = self.peers.get_mut(&from).filter(|o| is_rested(o)) else { return };
        peer.last_checked = Some(now);
        if let Ok((text, certificate)) = self.verified(now, text) {
            self.renew_certificate(from, &text, &certificate);
        }
    }

    /// By gossip, `by` tells of a member: `endpoint` is where it reaches it.
    pub(crate) fn on_certificate_advertisement(
        &mut self,
        now: Instant,
        by: Member,
        text: &str,
        endpoint: Option<SocketAddr>,
    ) {
        let Ok((text, certificate)) = self.verified(now, text.as_bytes()) else { return };
        let Some(number) = certificate.member().map(|m| m.key.member()).filter(|n| *n != self.own) else { return };
        let done = if self.settings.members.contains(number) {
            self.has_key(number, &certificate).map(|()| self.renew_certificate(number, &text, &certificate))
        } else {
            self.add_certified(now, &text, &certificate, None)
        };
        if let Err(why) = done {
            let from = format!("{}, of whom {} tells", certificate.name, self.settings.name_of(by));
            return self.report_rejection(now, from, why);
        }
        // Where the settings say where it is, others need not.
        let is_ours = self.settings.members.one(number).is_some_and(|m| m.endpoint.is_some());
        let is_certified = self.admissions.certified.contains_key(&number);
        if let Some(peer) = self.peers.get_mut(&number).filter(|_| is_certified || !is_ours) {
            let before = peer.endpoint;
            peer.learn_endpoint(by, endpoint);
            self.changed |= peer.endpoint != before;
        }
    }

    /// Whether [`Core::certificates_known`] may be others than those that were told; then they are to be told, by who asks.
    pub(crate) fn has_certificate_news(&mut self) -> bool {
        std::mem::take(&mut self.admissions.have_news)
    }

    /// Certificates that others may want to hear of, with where their owners were really found: what others only said is theirs to say.
    pub(crate) fn certificates_known(&mut self, now: Instant) -> Vec<(Member, String, Option<SocketAddr>)> {
        let own = self.admissions.own.text.clone().map(|text| (self.own, text, None));
        let known = self.admissions.certified.iter().chain(&self.admissions.listed);
        let known = known.map(|(member, certified)| {
            let peer = self.peers.get_mut(member);
            let place = peer.and_then(|peer| {
                let place = peer.publish_link(now);
                // What rests is told when it has.
                self.admissions.have_news |= place != peer.found;
                place
            });
            (*member, certified.text.clone(), place)
        });
        own.into_iter().chain(known).collect()
    }

    fn verified(&self, now: Instant, text: &[u8]) -> Result<(String, Certificate), String> {
        let text = std::str::from_utf8(text).map_err(|_| "it is no text")?;
        let authority = self.settings.authority.as_ref().ok_or("nobody here knows an authority")?;
        let certificate = Certificate::verify(text, authority, self.utc_s(now))?;
        if certificate.member().is_some_and(|m| self.refuse.contains(&m.key)) {
            return Err(format!("its key is among those of `refuse` (it is that of {})", certificate.name));
        }
        Ok((text.to_owned(), certificate))
    }

    /// Keys whose owners are no members here, whatever they show.
    pub(crate) fn refused_keys(&self) -> Vec<String> {
        self.refuse.iter().map(ToString::to_string).collect()
    }

    /// Whether `refuse` has the key with which somebody calls.
    pub(super) fn is_refused(&self, exchange: &[u8; 32]) -> bool {
        self.refuse.iter().any(|key| key.exchange() == *exchange)
    }

    /// Refuses these from now on, in place of those of before: who was about to show a certificate does not get so far.
    pub(super) fn refuse(&mut self, keys: &[PublicKey]) {
        self.refuse = keys.to_vec();
        let exchanges: Vec<[u8; 32]> = self.refuse.iter().map(PublicKey::exchange).collect();
        let unverified_sessions = self.admissions.unverified_sessions.len();
        self.admissions.unverified_sessions.retain(|_, g| !exchanges.contains(&g.exchange));
        self.changed |= self.admissions.unverified_sessions.len() != unverified_sessions;
    }

    /// Until when this member's own certificate holds, seconds since 1970 UTC.
    pub(crate) fn certified_until_utc_s(&self) -> Option<u64> {
        self.admissions.own.until_utc_s
    }

    /// Whether the certificate is for the key of the member that has its number: numbers are short, and keys can be sought that have one.
    fn has_key(&self, number: Member, certificate: &Certificate) -> Result<(), String> {
        let known = self.settings.members.one(number);
        if known.zip(certificate.member()).is_some_and(|(known, last_checked)| known.key == last_checked.key) {
            return Ok(());
        }
        Err(format!("its key has the number of {}, who has another key", self.settings.name_of(number)))
    }

    /// A member shows a later certificate, of the same key: it has what that one gives it. Who is named in the settings needs none, and is not bound by one.
    fn renew_certificate(&mut self, member: Member, text: &str, certificate: &Certificate) {
        let Some((mut last_checked, known)) = certificate.member().zip(self.settings.members.one(member)) else {
            return;
        };
        last_checked.name = self.free_name(member, last_checked.name);
        let Admissions { certified, listed, .. } = &self.admissions;
        let is_listed = !certified.contains_key(&member);
        let before = if is_listed { listed.get(&member) } else { certified.get(&member) };
        let until_utc_s = certificate.until_utc_s;
        let is_later = before.is_none_or(|c| c.until_utc_s < until_utc_s);
        if last_checked.key != known.key || !is_later {
            return;
        }
        if !is_listed && self.taken(member, &last_checked.subnets).is_some() {
            return;
        }
        let later = Certified { text: text.to_owned(), name: certificate.name.clone(), until_utc_s };
        self.admissions.have_news = true;
        if is_listed {
            self.admissions.listed.insert(member, later);
            return;
        }
        self.admissions.certified.insert(member, later);
        if (&last_checked.name, &last_checked.subnets) == (&known.name, &known.subnets) {
            return;
        }
        self.outputs.push_back(Output::NoRoutes(beyond(&known.subnets, &last_checked.subnets)));
        self.outputs.push_back(Output::Routes(beyond(&last_checked.subnets, &known.subnets)));
        let renewed = MemberSettings { name: last_checked.name, subnets: last_checked.subnets, ..known };
        self.settings.members.change(|all| {
            all.insert(member, renewed);
        });
        self.changed = true;
    }

    /// What a member is called: with its number where somebody else has that name already, as people ask for members by their names.
    pub(super) fn free_name(&self, member: Member, name: String) -> String {
        let is_taken = self.settings.members.get().iter().any(|(m, peer)| *m != member && peer.name == name);
        if is_taken { format!("{name}-{member}") } else { name }
    }

    /// The one of these subnets that is somebody else's than this member's.
    fn taken(&self, member: Member, subnets: &[IpNet]) -> Option<IpNet> {
        let (known, own) = (self.settings.members.get(), self.settings.serves());
        let peers = || known.iter().filter(|(m, _)| **m != member).flat_map(|(_, m)| &m.subnets).chain(&own);
        subnets.iter().find(|s| peers().any(|theirs| s.trunc() == theirs.trunc())).copied()
    }

    /// Takes somebody as a member who is none yet, unless its subnets are others'; says why not.
    fn add_certified(
        &mut self,
        now: Instant,
        text: &str,
        certificate: &Certificate,
        endpoint: Option<Endpoint>,
    ) -> Result<(), String> {
        let mut member = certificate.member().ok_or("its key is none")?;
        member.endpoint = endpoint;
        let number = member.key.member();
        member.name = self.free_name(number, member.name);
        let name = member.name.clone();
        if number == self.own {
            return Err("it has this member's own key".to_owned());
        }
        // Two keys of signatures that differ in a sign agree on the same secrets with others: who calls would be taken for either.
        let exchange = member.key.exchange();
        let twin = self.peers.iter().find(|(_, o)| o.exchange == exchange).map(|(twin, _)| *twin);
        let own = (self.settings.identity.public().exchange() == exchange).then_some(self.own);
        if let Some(twin) = twin.or(own) {
            return Err(format!("calls with its key could not be told from those of {}", self.settings.name_of(twin)));
        }
        if let Some(net) = self.taken(number, &member.subnets) {
            return Err(format!("{net} is somebody else's"));
        }
        if self.admissions.certified.len() >= MOST_MEMBERS {
            return Err(format!("there are {MOST_MEMBERS} members by certificates already"));
        }
        let joins = route::Event::Member { at: now, member: number, relays: Some(true) };
        self.control.handle(joins).map_err(|e| e.to_string())?;
        self.peers.insert(number, Peer::new(&member, self.settings.sensor, now));
        self.outputs.push_back(Output::Routes(member.subnets.clone()));
        self.settings.members.change(|all| {
            all.insert(number, member);
        });
        let (named, until_utc_s) = (certificate.name.clone(), certificate.until_utc_s);
        self.admissions.certified.insert(number, Certified { text: text.to_owned(), name: named, until_utc_s });
        self.outputs.push_back(Output::Event(Event::Joined { member: number, name }));
        self.changed = true;
        Ok(())
    }

    /// Lets those go whose certificates are over, and guests who have shown none.
    pub(super) fn expire_certificates(&mut self, now: Instant) {
        let unverified_sessions = self.admissions.unverified_sessions.len();
        self.admissions.unverified_sessions.retain(|_, g| now.saturating_since(g.session.born) < PATIENCE);
        self.changed |= self.admissions.unverified_sessions.len() != unverified_sessions;
        let utc_s = self.utc_s(now);
        let over = |(m, c): (&Member, &Certified)| (c.until_utc_s <= utc_s).then_some(*m);
        let gone: Vec<Member> = self.admissions.certified.iter().filter_map(over).collect();
        // Others may have been refused for what these had.
        self.certificates_again |= !gone.is_empty();
        for member in gone {
            self.remove_member(now, member);
        }
        self.admissions.listed.retain(|_, c| c.until_utc_s > utc_s);
        self.tell_own_end(now);
    }

    /// Tells, once each, that this member's own certificate ends within a week, within a day, and that it is over.
    fn tell_own_end(&mut self, now: Instant) {
        let (utc_s, own) = (self.utc_s(now), &mut self.admissions.own);
        let Some(until_utc_s) = own.until_utc_s else { return };
        let nearness = Nearness::of(until_utc_s, utc_s);
        if nearness > own.told {
            own.told = nearness;
            let in_s = until_utc_s.saturating_sub(utc_s);
            self.outputs.push_back(Output::Event(Event::CertificateEnds { in_s }));
        }
    }

    /// The time of day is another: what was told of this member's own certificate is to be told again where it is so again.
    pub(super) fn forget_told_end(&mut self, now: Instant) {
        let utc_s = self.utc_s(now);
        let own = &mut self.admissions.own;
        let nearness = own.until_utc_s.map(|until| Nearness::of(until, utc_s));
        if nearness.is_some_and(|nearness| nearness < own.told) {
            own.told = nearness.unwrap_or_default();
        }
    }

    /// Somebody is no member any more.
    pub(super) fn remove_member(&mut self, now: Instant, member: Member) {
        self.disconnect(now, member);
        self.admissions.certified.remove(&member);
        self.admissions.listed.remove(&member);
        self.peers.remove(&member);
        self.peers.values_mut().for_each(|o| o.told.forget(member));
        self.relays.remove(&member);
        let _ = self.control.handle(route::Event::Member { at: now, member, relays: None });
        self.settings.members.change(|all| {
            let gone = all.remove(&member);
            self.outputs.extend(gone.map(|m| Output::NoRoutes(m.subnets)));
        });
        self.changed = true;
    }
}
