//! Settings that are read again while a member runs: who the others are, and this member's own certificate. What comes of it is what a start with these
//! settings would have: who is listed has his subnets and his name, whatever certificates say.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use route::Member;
use serde::Serialize;
use units::Instant;

use super::endpoints::EndpointName;
use super::membership::Own;
use super::{Core, Event, Output, Peer};
use crate::identity::PublicKey;
use crate::members::subnets;
use crate::settings::{Endpoint, MemberSettings, Settings, check_mtu};

/// What was taken from settings that were read again: names of members, and what is left to the next start.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Reloaded {
    pub(crate) added: Vec<String>,
    pub(crate) changed: Vec<String>,
    pub(crate) removed: Vec<String>,
    /// Whether this member shows another certificate now, and its end.
    pub(crate) certificate: bool,
    pub(crate) certified_until_utc_s: Option<u64>,
    /// Keys of members that are refused now and were not before, and those that are not any more.
    pub(crate) refused: Vec<String>,
    pub(crate) not_refused: Vec<String>,
    /// Keys that are different and count when the member is started the next time.
    pub(crate) at_next_start: Vec<String>,
}

type All = BTreeMap<Member, MemberSettings>;

impl Core {
    /// Takes the members, the certificate and the refused keys of these settings in place of those that it has.
    ///
    /// # Errors
    /// They cannot be taken while the member runs: says why, and nothing has changed.
    pub(crate) fn reload(&mut self, now: Instant, new: &Settings) -> Result<Reloaded, String> {
        self.check_reload(now, new)?;
        let (known, wanted) = (self.settings.members.get(), new.members.get());
        let listed: BTreeSet<IpNet> = wanted.values().flat_map(|m| &m.subnets).map(IpNet::trunc).collect();
        let stays = |member: &Member, before: &MemberSettings| match wanted.get(member) {
            Some(line) => line.key == before.key,
            None => {
                let is_anothers = before.subnets.iter().any(|s| listed.contains(&s.trunc()));
                let is_refused = new.refuse.contains(&before.key);
                self.admissions.certified.contains_key(member) && !is_anothers && !is_refused
            }
        };
        let gone: BTreeSet<Member> = known.iter().filter(|(m, k)| !stays(m, k)).map(|(m, _)| *m).collect();
        let is_new = |m: &Member| !known.contains_key(m) || gone.contains(m);
        let come: Vec<Member> = wanted.keys().filter(|m| is_new(m)).copied().collect();
        let most = self.control.inner().policy().max_members;
        if known.len() - gone.len() + come.len() > most {
            return Err(format!("they are more than {most} members"));
        }

        let named = |members: &mut dyn Iterator<Item = &Member>, all: &All| -> Vec<String> {
            members.filter_map(|m| all.get(m)).map(|m| m.name.clone()).collect()
        };
        let is_other = |m: &&Member| !is_new(m) && known.get(*m) != wanted.get(*m);
        let mut reloaded = Reloaded {
            added: named(&mut come.iter(), &wanted),
            changed: named(&mut wanted.keys().filter(is_other), &wanted),
            removed: named(&mut gone.iter(), &known),
            at_next_start: self.settings.different_keys(new),
            refused: beyond_keys(&new.refuse, &self.refuse),
            not_refused: beyond_keys(&self.refuse, &new.refuse),
            ..Reloaded::default()
        };
        self.refuse(&new.refuse);
        self.send_bye(now, gone.iter().copied().collect());
        for member in &gone {
            self.remove_member(now, *member);
        }
        self.take_listed(now, &wanted);
        let has_changed = !gone.is_empty() || !reloaded.changed.is_empty() || !reloaded.not_refused.is_empty();
        self.certificates_again |= has_changed;
        reloaded.certificate = self.take_certificate(now, new);
        reloaded.certified_until_utc_s = self.certified_until_utc_s();
        Ok(reloaded)
    }

    fn check_reload(&self, now: Instant, new: &Settings) -> Result<(), String> {
        if let Some((key, _)) = self.settings.is_another_member(new).iter().find(|(_, is_other)| *is_other) {
            return Err(format!("`{key}` says something else, for which the member must be started anew"));
        }
        let wanted = new.members.get();
        check_mtu(self.settings.mtu, wanted.values().flat_map(|m| &m.subnets))?;
        let is_other = new.certificate != self.admissions.own.text;
        if is_other && new.certified_until_utc_s.is_some_and(|until| until <= self.utc_s(now)) {
            return Err("the time of `certificate` is over".to_owned());
        }
        Ok(())
    }

    /// These are listed from now on; of others no one is left who is in their way.
    fn take_listed(&mut self, now: Instant, wanted: &All) {
        let known = self.settings.members.get();
        for (member, listed) in wanted {
            self.admissions.certified.remove(member);
            match (known.get(member), self.peers.get_mut(member)) {
                (Some(before), Some(peer)) if before.endpoint != listed.endpoint => {
                    peer.is_to_be_called_at(now, listed.endpoint.as_ref());
                }
                (_, Some(_)) => {}
                (_, None) => self.add_listed(now, *member, listed),
            }
        }
        let mut all = (*known).clone();
        all.extend(wanted.iter().map(|(m, listed)| (*m, listed.clone())));
        let (before, after) = (subnets(&known), subnets(&all));
        let (lost, gained) = (beyond(&before, &after), beyond(&after, &before));
        self.outputs.extend((!lost.is_empty()).then_some(Output::NoRoutes(lost)));
        self.outputs.extend((!gained.is_empty()).then_some(Output::Routes(gained)));
        self.settings.members.change(|members| *members = all);
        self.name_certified();
        self.changed = true;
    }

    /// Gives those who are members by certificates the names that these say, as far as nobody else has them.
    fn name_certified(&mut self) {
        for (member, certified) in &self.admissions.certified {
            let name = self.free_name(*member, certified.name.clone());
            self.settings.members.change(|all| {
                if let Some(peer) = all.get_mut(member) {
                    peer.name = name;
                }
            });
        }
    }

    fn add_listed(&mut self, now: Instant, member: Member, listed: &MemberSettings) {
        // Whether there is room was looked at.
        let _ = self.control.handle(route::Event::Member { at: now, member, relays: Some(true) });
        self.peers.insert(member, Peer::new(listed, self.settings.sensor, now));
        self.outputs.push_back(Output::Event(Event::Joined { member, name: listed.name.clone() }));
    }

    /// Shows another certificate from now on, if this is one.
    fn take_certificate(&mut self, now: Instant, new: &Settings) -> bool {
        if new.certificate == self.admissions.own.text {
            return false;
        }
        self.admissions.own = Own::of(new);
        self.admissions.have_news = true;
        for member in self.peers.keys().copied().collect::<Vec<_>>() {
            self.show_certificate(now, member);
        }
        true
    }
}

impl Peer {
    /// The settings say another endpoint. A link that works is left as it is: what its frames come from counts more.
    fn is_to_be_called_at(&mut self, now: Instant, endpoint: Option<&Endpoint>) {
        self.listed = if let Some(Endpoint::Address(address)) = endpoint { Some(*address) } else { None };
        self.name = EndpointName::of(endpoint, now);
        if !self.link.is_up() {
            self.endpoint = self.listed.or(self.found);
            self.trains.doubt();
            self.calls.initiate_now(now);
        }
    }
}

/// Keys of the first that are not among the second, as people write them.
fn beyond_keys(some: &[PublicKey], peers: &[PublicKey]) -> Vec<String> {
    some.iter().filter(|key| !peers.contains(key)).map(ToString::to_string).collect()
}

/// Those of the first that are not among the second.
pub(super) fn beyond(some: &[IpNet], peers: &[IpNet]) -> Vec<IpNet> {
    let peers: BTreeSet<&IpNet> = peers.iter().collect();
    some.iter().filter(|s| !peers.contains(s)).copied().collect()
}
