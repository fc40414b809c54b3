//! Membership by certificates: unknown initiators show a certificate of the authority, members learn of others by
//! gossip, and certificates end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use route::{Member, Path};
use units::Instant;
use wire::overlay::{Message, SPACE_DIRECT};

use super::clock::WallClock;
use super::network::Network;
use super::peer::Peer;
use super::reload::beyond;
use super::routing::Routing;
use super::sessions::{SessionManager, Source, adopt_session, reply};
use super::{Event, Output};
use crate::certificate::Certificate;
use crate::handshake::ReceivedInitiation;
use crate::handshake_limiter::MacKeys;
use crate::identity::PublicKey;
use crate::session::{Keys, Session};
use crate::settings::{Endpoint, MemberSettings, Settings};

/// Number of an initiator before it has shown a certificate; no member's (see `PublicKey::member`).
pub(crate) const UNVERIFIED_PEER: Member = Member(0);
/// Unverified sessions at once, and their lifetime: a certificate comes with the first frame. The handshake limiter
/// admits a thousand a second and twenty from one address, so that each session lasts for a second even in a flood.
const UNVERIFIED_MAX: usize = 1024;
const UNVERIFIED_LIFETIME: Duration = Duration::from_secs(3);
/// Minimum interval between two verifications of certificates of one peer.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const DAY_S: u64 = 24 * 3600;
/// Maximum number of members by certificates.
const CERTIFIED_MAX: usize = 1000;

/// A session of an initiator of unknown identity. Nothing counts in it but a certificate.
struct UnverifiedSession {
    session: Arc<Session>,
    exchange: [u8; 32],
    keys: Keys,
    from: Option<SocketAddr>,
}

/// A verified certificate of a member.
pub(super) struct Certified {
    pub(super) text: String,
    /// Name of its owner by the certificate.
    pub(super) name: String,
    until_utc_s: u64,
}

/// The certificate of this member.
#[derive(Default)]
pub(super) struct OwnCertificate {
    pub(super) text: Option<String>,
    pub(super) until_utc_s: Option<u64>,
    /// The last event about its end.
    reported: TimeLeft,
}

impl OwnCertificate {
    pub(super) fn of(settings: &Settings) -> Self {
        let (text, until_utc_s) = (settings.certificate.clone(), settings.certified_until_utc_s);
        Self { text, until_utc_s, reported: TimeLeft::Long }
    }
}

/// Time until the end of a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
enum TimeLeft {
    #[default]
    Long,
    Week,
    Day,
    None,
}

impl TimeLeft {
    fn of(until_utc_s: u64, utc_s: u64) -> Self {
        match until_utc_s.saturating_sub(utc_s) {
            0 => Self::None,
            left if left < DAY_S => Self::Day,
            left if left < 7 * DAY_S => Self::Week,
            _ => Self::Long,
        }
    }
}

/// See the module.
pub(super) struct Membership {
    pub(super) own: OwnCertificate,
    wall: WallClock,
    /// By the local number of the session.
    unverified: BTreeMap<u32, UnverifiedSession>,
    pub(super) certified: BTreeMap<Member, Certified>,
    /// Certificates of members in the settings. They bind nothing here; members by certificates may need them.
    listed: BTreeMap<Member, Certified>,
    /// Keys whose owners are not admitted.
    pub(super) refused: Vec<PublicKey>,
    /// Gossip has to give its certificates again, since a change may admit their owners.
    pub(super) needs_certificates: bool,
}

impl Membership {
    pub(super) fn new(settings: &Settings, now: Instant, utc_s: u64) -> Self {
        Self {
            own: OwnCertificate::of(settings),
            wall: WallClock::new(now, Duration::from_secs(utc_s)),
            unverified: BTreeMap::new(),
            certified: BTreeMap::new(),
            listed: BTreeMap::new(),
            refused: settings.refuse.clone(),
            needs_certificates: false,
        }
    }

    /// Seconds since 1970 UTC.
    pub(super) fn utc_s(&self, now: Instant) -> u64 {
        self.wall.utc(now).as_secs()
    }

    /// Takes a reading of the wall clock. Gives the step in seconds if the clock was set; certificates have to be
    /// checked again then.
    pub(super) fn on_wall_clock(&mut self, now: Instant, utc: Duration) -> Option<i64> {
        let by_s = self.wall.read(now, utc)?;
        self.needs_certificates = true;
        let utc_s = self.utc_s(now);
        let time_left = self.own.until_utc_s.map(|until| TimeLeft::of(until, utc_s));
        if time_left.is_some_and(|left| left < self.own.reported) {
            self.own.reported = time_left.unwrap_or_default();
        }
        Some(by_s)
    }

    /// Answers an initiation of an unknown host, which may have a certificate.
    pub(super) fn on_unknown_initiation(
        &mut self,
        now: Instant,
        (net, sessions): (&mut Network, &mut SessionManager),
        source: Source,
        received: ReceivedInitiation,
    ) {
        let rejection = if self.is_refused(&received.exchange) {
            Some("its key is in `refuse`")
        } else if net.settings.authority.is_none() {
            Some("no `[[member]]` has its key")
        } else {
            None
        };
        if let Some(why) = rejection {
            if let Source::Direct(from) = source {
                net.report_rejection(now, from.to_string(), why.to_owned());
            }
            return;
        }
        let exchange = received.exchange;
        let Some((local, remote, keys, mut response)) = sessions.answer_unverified(net, received) else { return };
        if self.add_unverified(now, net, source, (exchange, local, remote), keys).is_some() {
            MacKeys::of_exchange(&exchange).write(&mut response, None);
            reply(now, net, source, &response);
        }
    }

    /// Adds an unverified session; the oldest one makes room. `None`: the keys are unusable.
    pub(super) fn add_unverified(
        &mut self,
        now: Instant,
        net: &mut Network,
        source: Source,
        (exchange, local, remote): ([u8; 32], u32, u32),
        keys: Keys,
    ) -> Option<()> {
        if self.unverified.len() >= UNVERIFIED_MAX
            && let Some(oldest) = self.unverified.iter().min_by_key(|(_, u)| u.session.born).map(|(n, _)| *n)
        {
            self.unverified.remove(&oldest);
        }
        let session = Arc::new(Session::new(UNVERIFIED_PEER, local, remote, now, false, &keys)?);
        let from = match source {
            Source::Direct(from) => Some(from),
            Source::Relayed(_) => None,
        };
        self.unverified.insert(local, UnverifiedSession { session, exchange, keys, from });
        net.table_changed = true;
        Some(())
    }

    /// Sessions in which certificates are accepted.
    pub(super) fn unverified_sessions(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.unverified.values().map(|u| &u.session)
    }

    /// Sends the certificate of this member to a peer that may not know it.
    pub(super) fn send_certificate(&self, now: Instant, net: &mut Network, to: Member) {
        if let Some(text) = self.own.text.clone() {
            net.send(now, Path::direct(to), SPACE_DIRECT, &Message::Certificate(text.into_bytes()).encode());
        }
    }

    /// A certificate came in a session. An unverified initiator becomes a member with the session that it has.
    pub(super) fn on_certificate(
        &mut self,
        now: Instant,
        (net, routing): (&mut Network, &mut Routing),
        (from, session): (Member, u32),
        text: &[u8],
    ) {
        if from != UNVERIFIED_PEER {
            self.on_later_certificate(now, net, from, text);
            return;
        }
        // An initiator has one attempt.
        let Some(unverified) = self.unverified.remove(&session) else { return };
        net.table_changed = true;
        match self.verify_unverified(now, (net, routing), text, &unverified) {
            Ok(Some(number)) => {
                adopt_session(now, net, number, &unverified.session, &unverified.keys);
                if let Some(peer) = net.peers.get_mut(&number) {
                    peer.endpoint.set_confirmed(unverified.from);
                }
            }
            // Gossip has made it a member meanwhile.
            Ok(None) => {}
            Err(why) => {
                let from = unverified.from.map_or_else(|| "a host over relays".to_owned(), |from| from.to_string());
                net.report_rejection(now, from, why);
            }
        }
    }

    /// Gives the number of the new member; `None`: it is a member already.
    fn verify_unverified(
        &mut self,
        now: Instant,
        (net, routing): (&mut Network, &mut Routing),
        text: &[u8],
        unverified: &UnverifiedSession,
    ) -> Result<Option<Member>, String> {
        let (text, certificate) = self.verify(now, net, text).map_err(|why| format!("invalid certificate: {why}"))?;
        let member = certificate.member().filter(|m| m.key.exchange() == unverified.exchange);
        let number = member.ok_or("its certificate is for another key")?.key.member();
        if net.settings.members.contains(number) {
            return has_key(net, number, &certificate).map(|()| None);
        }
        self.add_certified(now, (net, routing), &text, &certificate, unverified.from.map(Endpoint::Address))
            .map_err(|why| format!("{} with a certificate: {why}", certificate.name))?;
        Ok(Some(number))
    }

    /// A member sends its certificate, as it does with each new session. The verification costs as much as a handshake.
    fn on_later_certificate(&mut self, now: Instant, net: &mut Network, from: Member, text: &[u8]) {
        let Some(peer) = net.peers.get_mut(&from) else { return };
        if peer.certificate_checked.is_some_and(|at| now.saturating_since(at) < CHECK_INTERVAL) {
            return;
        }
        peer.certificate_checked = Some(now);
        if let Ok((text, certificate)) = self.verify(now, net, text) {
            self.renew(net, from, &text, &certificate);
        }
    }

    /// `by` advertises the certificate of a member, and the address at which it reaches that member.
    pub(super) fn on_advertised_certificate(
        &mut self,
        now: Instant,
        (net, routing): (&mut Network, &mut Routing),
        by: Member,
        text: &str,
        endpoint: Option<SocketAddr>,
    ) {
        let Ok((text, certificate)) = self.verify(now, net, text.as_bytes()) else { return };
        let Some(number) = certificate.member().map(|m| m.key.member()).filter(|n| *n != net.own) else { return };
        let done = if net.settings.members.contains(number) {
            has_key(net, number, &certificate).map(|()| self.renew(net, number, &text, &certificate))
        } else {
            self.add_certified(now, (net, routing), &text, &certificate, None)
        };
        if let Err(why) = done {
            let from = format!("{}, advertised by {}", certificate.name, net.settings.name_of(by));
            return net.report_rejection(now, from, why);
        }
        // An endpoint in the settings needs no advertisement.
        let is_configured = net.settings.members.one(number).is_some_and(|m| m.endpoint.is_some());
        let is_certified = self.certified.contains_key(&number);
        if let Some(peer) = net.peers.get_mut(&number).filter(|_| is_certified || !is_configured) {
            let before = peer.endpoint.current;
            peer.endpoint.learn(by, endpoint);
            net.table_changed |= peer.endpoint.current != before;
        }
    }

    /// Certificates for other members, with the addresses at which their owners were received from: addresses learned
    /// from others are theirs to advertise.
    pub(super) fn certificates(&self, now: Instant, net: &mut Network) -> Vec<(Member, String, Option<SocketAddr>)> {
        let own = self.own.text.clone().map(|text| (net.own, text, None));
        let known = self.certified.iter().chain(&self.listed);
        let known = known.map(|(member, certified)| {
            let advertised = net.peers.get_mut(member).map(|p| p.endpoint.advertise(now));
            let (address, is_current) = advertised.unwrap_or((None, true));
            net.members_changed |= !is_current;
            (*member, certified.text.clone(), address)
        });
        own.into_iter().chain(known).collect()
    }

    fn verify(&self, now: Instant, net: &Network, text: &[u8]) -> Result<(String, Certificate), String> {
        let text = std::str::from_utf8(text).map_err(|_| "it is not UTF-8")?;
        let authority = net.settings.authority.as_ref().ok_or("no `ca_public_key` is set here")?;
        let certificate = Certificate::verify(text, authority, self.utc_s(now))?;
        if certificate.member().is_some_and(|m| self.refused.contains(&m.key)) {
            return Err(format!("its key, that of {}, is in `refuse`", certificate.name));
        }
        Ok((text.to_owned(), certificate))
    }

    fn is_refused(&self, exchange: &[u8; 32]) -> bool {
        self.refused.iter().any(|key| key.exchange() == *exchange)
    }

    /// Replaces the refused keys; unverified sessions of their owners end.
    pub(super) fn refuse(&mut self, net: &mut Network, keys: &[PublicKey]) {
        self.refused = keys.to_vec();
        let exchanges: Vec<[u8; 32]> = keys.iter().map(PublicKey::exchange).collect();
        let before = self.unverified.len();
        self.unverified.retain(|_, u| !exchanges.contains(&u.exchange));
        net.table_changed |= self.unverified.len() != before;
    }

    /// Takes a later certificate of the same key. A member of the settings is not bound by it.
    fn renew(&mut self, net: &mut Network, member: Member, text: &str, certificate: &Certificate) {
        let Some((mut shown, known)) = certificate.member().zip(net.settings.members.one(member)) else { return };
        shown.name = free_name(&net.settings, member, shown.name);
        let is_listed = !self.certified.contains_key(&member);
        let before = if is_listed { self.listed.get(&member) } else { self.certified.get(&member) };
        let until_utc_s = certificate.until_utc_s;
        let is_later = before.is_none_or(|c| c.until_utc_s < until_utc_s);
        if shown.key != known.key || !is_later {
            return;
        }
        if !is_listed && taken(net, member, &shown.subnets).is_some() {
            return;
        }
        let later = Certified { text: text.to_owned(), name: certificate.name.clone(), until_utc_s };
        net.members_changed = true;
        if is_listed {
            self.listed.insert(member, later);
            return;
        }
        self.certified.insert(member, later);
        if (&shown.name, &shown.subnets) == (&known.name, &known.subnets) {
            return;
        }
        net.outputs.push_back(Output::NoRoutes(beyond(&known.subnets, &shown.subnets)));
        net.outputs.push_back(Output::Routes(beyond(&shown.subnets, &known.subnets)));
        let renewed = MemberSettings { name: shown.name, subnets: shown.subnets, ..known };
        net.settings.members.change(|all| {
            all.insert(member, renewed);
        });
        net.table_changed = true;
    }

    /// Makes the owner of a certificate a member, unless one of its subnets or its key is another member's.
    fn add_certified(
        &mut self,
        now: Instant,
        (net, routing): (&mut Network, &mut Routing),
        text: &str,
        certificate: &Certificate,
        endpoint: Option<Endpoint>,
    ) -> Result<(), String> {
        let mut member = certificate.member().ok_or("it has an invalid key")?;
        member.endpoint = endpoint;
        let number = member.key.member();
        member.name = free_name(&net.settings, number, member.name);
        let name = member.name.clone();
        check_key(net, &member.key)?;
        if let Some(subnet) = taken(net, number, &member.subnets) {
            return Err(format!("{subnet} belongs to another member"));
        }
        if self.certified.len() >= CERTIFIED_MAX {
            return Err(format!("the limit of {CERTIFIED_MAX} members by certificates is reached"));
        }
        routing.add_member(now, number).map_err(|e| e.to_string())?;
        net.peers.insert(number, Peer::new(&member, net.settings.sensor, now));
        net.outputs.push_back(Output::Routes(member.subnets.clone()));
        net.settings.members.change(|all| {
            all.insert(number, member);
        });
        let (named, until_utc_s) = (certificate.name.clone(), certificate.until_utc_s);
        self.certified.insert(number, Certified { text: text.to_owned(), name: named, until_utc_s });
        net.event(Event::Joined { member: number, name });
        net.table_changed = true;
        Ok(())
    }

    /// Ends unverified sessions without a certificate, and reports the end of this member's own certificate. Gives the
    /// members whose certificates have ended.
    pub(super) fn expire(&mut self, now: Instant, net: &mut Network) -> Vec<Member> {
        let before = self.unverified.len();
        self.unverified.retain(|_, u| now.saturating_since(u.session.born) < UNVERIFIED_LIFETIME);
        net.table_changed |= self.unverified.len() != before;
        let utc_s = self.utc_s(now);
        self.listed.retain(|_, c| c.until_utc_s > utc_s);
        let ended = self.certified.iter().filter(|(_, c)| c.until_utc_s <= utc_s).map(|(m, _)| *m);
        let ended = Vec::from_iter(ended);
        // Their subnets and names are free for others now.
        self.needs_certificates |= !ended.is_empty();
        ended
    }

    /// Reports, once each, that the certificate of this member ends within a week, within a day, and that it has ended.
    pub(super) fn report_own_end(&mut self, now: Instant, net: &mut Network) {
        let Some(until_utc_s) = self.own.until_utc_s else { return };
        let utc_s = self.utc_s(now);
        let time_left = TimeLeft::of(until_utc_s, utc_s);
        if time_left > self.own.reported {
            self.own.reported = time_left;
            net.event(Event::CertificateEnds { in_s: until_utc_s.saturating_sub(utc_s) });
        }
    }

    /// Forgets the certificates of a member.
    pub(super) fn forget(&mut self, member: Member) {
        self.certified.remove(&member);
        self.listed.remove(&member);
    }
}

/// The name of a member: with its number if another member has the name, as users select members by name.
pub(super) fn free_name(settings: &Settings, member: Member, name: String) -> String {
    let is_taken = settings.members.get().iter().any(|(m, other)| *m != member && other.name == name);
    if is_taken { format!("{name}-{member}") } else { name }
}

/// Whether a certificate is for the key of the member with its number: numbers are short, and a key with a given number
/// can be searched.
fn has_key(net: &Network, number: Member, certificate: &Certificate) -> Result<(), String> {
    let known = net.settings.members.one(number);
    if known.zip(certificate.member()).is_some_and(|(known, shown)| known.key == shown.key) {
        return Ok(());
    }
    Err(format!("its key has the same member number as the key of {}", net.settings.name_of(number)))
}

/// Two signature keys that differ in a sign agree on the same secrets with others: handshakes of one would be taken for
/// the other's.
fn check_key(net: &Network, key: &PublicKey) -> Result<(), String> {
    if key.member() == net.own {
        return Err("it has the key of this member".to_owned());
    }
    let exchange = key.exchange();
    let twin = net.peers.iter().find(|(_, p)| p.exchange == exchange).map(|(twin, _)| *twin);
    let own = (net.settings.identity.public().exchange() == exchange).then_some(net.own);
    if let Some(twin) = twin.or(own) {
        return Err(format!("its key cannot be distinguished from that of {}", net.settings.name_of(twin)));
    }
    Ok(())
}

/// The first of these subnets that another member has.
fn taken(net: &Network, member: Member, subnets: &[IpNet]) -> Option<IpNet> {
    let (known, own) = (net.settings.members.get(), net.settings.serves());
    let others = || known.iter().filter(|(m, _)| **m != member).flat_map(|(_, m)| &m.subnets).chain(&own);
    subnets.iter().find(|s| others().any(|theirs| s.trunc() == theirs.trunc())).copied()
}
