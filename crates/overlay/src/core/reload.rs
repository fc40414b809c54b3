//! Settings that are read again while a member runs: the other members, and this member's own certificate. The result
//! is that of a start with these settings: a listed member has its configured subnets and name, whatever certificates
//! say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use route::Member;
use serde::Serialize;
use units::Instant;

use super::membership::{Membership, OwnCertificate, free_name};
use super::network::Network;
use super::peer::Peer;
use super::routing::Routing;
use super::{Event, Output};
use crate::identity::PublicKey;
use crate::members::subnets;
use crate::settings::{MemberSettings, Settings, check_mtu};

/// Changes by settings that were read again: names of members, and keys.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Reloaded {
    pub(crate) added: Vec<String>,
    pub(crate) changed: Vec<String>,
    pub(crate) removed: Vec<String>,
    /// Whether this member shows another certificate now, and its end.
    pub(crate) certificate: bool,
    pub(crate) certified_until_utc_s: Option<u64>,
    /// Keys of members that are refused from now on, and those that no longer are.
    pub(crate) refused: Vec<String>,
    pub(crate) not_refused: Vec<String>,
    /// Keys of the settings that differ and take effect at the next start.
    pub(crate) at_next_start: Vec<String>,
}

type Members = BTreeMap<Member, MemberSettings>;

/// The changes of a reload that is possible.
pub(super) struct Plan {
    wanted: Arc<Members>,
    /// Members that are removed first.
    pub(super) removed: BTreeSet<Member>,
    pub(super) result: Reloaded,
}

impl Plan {
    /// Compares new settings with the present ones; changes nothing.
    ///
    /// # Errors
    /// The new settings cannot be applied to a running member: says why.
    pub(super) fn new(
        now: Instant,
        net: &Network,
        membership: &Membership,
        new: &Settings,
        members_max: usize,
    ) -> Result<Self, String> {
        check(now, net, membership, new)?;
        let (known, wanted) = (net.settings.members.get(), new.members.get());
        let listed: BTreeSet<IpNet> = wanted.values().flat_map(|m| &m.subnets).map(IpNet::trunc).collect();
        let stays = |member: &Member, before: &MemberSettings| match wanted.get(member) {
            Some(line) => line.key == before.key,
            None => {
                let is_anothers = before.subnets.iter().any(|s| listed.contains(&s.trunc()));
                let is_refused = new.refuse.contains(&before.key);
                membership.certified.contains_key(member) && !is_anothers && !is_refused
            }
        };
        let removed: BTreeSet<Member> = known.iter().filter(|(m, k)| !stays(m, k)).map(|(m, _)| *m).collect();
        let is_new = |m: &Member| !known.contains_key(m) || removed.contains(m);
        let added: Vec<Member> = wanted.keys().filter(|m| is_new(m)).copied().collect();
        if known.len() - removed.len() + added.len() > members_max {
            return Err(format!("the settings have more than {members_max} members"));
        }
        let named = |members: &mut dyn Iterator<Item = &Member>, all: &Members| -> Vec<String> {
            members.filter_map(|m| all.get(m)).map(|m| m.name.clone()).collect()
        };
        let is_changed = |m: &&Member| !is_new(m) && known.get(*m) != wanted.get(*m);
        let result = Reloaded {
            added: named(&mut added.iter(), &wanted),
            changed: named(&mut wanted.keys().filter(is_changed), &wanted),
            removed: named(&mut removed.iter(), &known),
            at_next_start: net.settings.different_keys(new),
            refused: keys_without(&new.refuse, &membership.refused),
            not_refused: keys_without(&membership.refused, &new.refuse),
            ..Reloaded::default()
        };
        Ok(Self { wanted, removed, result })
    }

    /// Applies the plan once the members to remove are gone.
    pub(super) fn apply(
        self,
        now: Instant,
        (net, membership, routing): (&mut Network, &mut Membership, &mut Routing),
        new: &Settings,
    ) -> Reloaded {
        let Self { wanted, removed, mut result } = self;
        set_listed(now, (net, membership, routing), &wanted);
        membership.needs_certificates |=
            !removed.is_empty() || !result.changed.is_empty() || !result.not_refused.is_empty();
        result.certificate = set_certificate(now, net, membership, new);
        result.certified_until_utc_s = membership.own.until_utc_s;
        result
    }
}

fn check(now: Instant, net: &Network, membership: &Membership, new: &Settings) -> Result<(), String> {
    if let Some((key, _)) = net.settings.is_another_member(new).iter().find(|(_, is_other)| *is_other) {
        return Err(format!("`{key}` differs; it takes effect only when the member is restarted"));
    }
    let wanted = new.members.get();
    check_mtu(net.settings.mtu, wanted.values().flat_map(|m| &m.subnets))?;
    let is_other = new.certificate != membership.own.text;
    if is_other && new.certified_until_utc_s.is_some_and(|until| until <= membership.utc_s(now)) {
        return Err("`certificate` has expired".to_owned());
    }
    Ok(())
}

/// Sets the members of the settings. No other member has one of their subnets any more.
fn set_listed(
    now: Instant,
    (net, membership, routing): (&mut Network, &mut Membership, &mut Routing),
    wanted: &Members,
) {
    let known = net.settings.members.get();
    for (member, listed) in wanted {
        membership.certified.remove(member);
        match (known.get(member), net.peers.get_mut(member)) {
            (Some(before), Some(peer)) if before.endpoint != listed.endpoint => set_endpoint(now, peer, listed),
            (_, Some(_)) => {}
            (_, None) => add_listed(now, (net, routing), *member, listed),
        }
    }
    let mut all = (*known).clone();
    all.extend(wanted.iter().map(|(m, listed)| (*m, listed.clone())));
    let (before, after) = (subnets(&known), subnets(&all));
    let (lost, gained) = (beyond(&before, &after), beyond(&after, &before));
    net.outputs.extend((!lost.is_empty()).then_some(Output::NoRoutes(lost)));
    net.outputs.extend((!gained.is_empty()).then_some(Output::Routes(gained)));
    net.settings.members.change(|members| *members = all);
    // Members by certificates get the names of their certificates as far as these are free.
    for (member, certified) in &membership.certified {
        let name = free_name(&net.settings, *member, certified.name.clone());
        net.settings.members.change(|all| {
            if let Some(other) = all.get_mut(member) {
                other.name = name;
            }
        });
    }
    net.table_changed = true;
}

/// A working address is kept: frames come from it.
fn set_endpoint(now: Instant, peer: &mut Peer, listed: &MemberSettings) {
    let is_up = peer.link.is_up();
    peer.endpoint.configure(now, listed.endpoint.as_ref(), is_up);
    if !is_up {
        peer.capacity.invalidate();
        peer.handshakes.initiate_now(now);
    }
}

fn add_listed(now: Instant, (net, routing): (&mut Network, &mut Routing), member: Member, listed: &MemberSettings) {
    // The plan has checked the number of members.
    if let Err(e) = routing.add_member(now, member) {
        tracing::debug!("{e}");
    }
    net.peers.insert(member, Peer::new(listed, net.settings.sensor, now));
    net.event(Event::Joined { member, name: listed.name.clone() });
}

/// Sets the certificate of this member and sends it to all peers, if it is another one.
fn set_certificate(now: Instant, net: &mut Network, membership: &mut Membership, new: &Settings) -> bool {
    if new.certificate == membership.own.text {
        return false;
    }
    membership.own = OwnCertificate::of(new);
    net.members_changed = true;
    for member in net.members() {
        membership.send_certificate(now, net, member);
    }
    true
}

/// Keys of the first list that the second one lacks.
fn keys_without(keys: &[PublicKey], others: &[PublicKey]) -> Vec<String> {
    keys.iter().filter(|key| !others.contains(key)).map(ToString::to_string).collect()
}

/// Subnets of the first list that the second one lacks.
pub(super) fn beyond(some: &[IpNet], others: &[IpNet]) -> Vec<IpNet> {
    let others: BTreeSet<&IpNet> = others.iter().collect();
    some.iter().filter(|s| !others.contains(s)).copied().collect()
}
