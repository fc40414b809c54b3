//! The link-state database: what members advertise of their links, and how far it is believed.
//!
//! An advertisement counts as far as it agrees with what became of this member's own frames. A link is up while both
//! its ends advertise it.

mod cross_check;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use route::{Member, Metrics};
use serde::{Deserialize, Serialize};
use units::{Instant, Rate};

use super::endpoint::MOVE_INTERVAL;
use super::link::CONFIDENT_FRAMES;
use super::network::Network;
pub(super) use cross_check::Rules;

/// Time for which an advertisement that own frames contradict does not count; well below the link timeout of the route
/// control, which takes a link without news to be down.
pub(super) const SUSPICION_LIFETIME: Duration = Duration::from_secs(4);

/// A link by its ends.
pub(super) type LinkId = (Member, Member);
/// Metrics of a link for the route control; `None`: it is down.
pub(super) type LinkInput = (LinkId, Option<Metrics>);

/// Metrics of a link by the member that receives on it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinkAdvertisement {
    pub(crate) rtt_us: u64,
    pub(crate) loss: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) frames: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) capacity_bps: Option<u64>,
    /// Largest datagram that arrived on the link, IP bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) datagram: Option<u16>,
    /// The advertising member has sent packets over the overlay lately: all members probe their links closely then.
    #[serde(default)]
    pub(crate) with_traffic: bool,
    /// Delay of the advertisement beyond that of the fastest one of its origin.
    #[serde(skip)]
    pub(crate) age: Duration,
}

impl LinkAdvertisement {
    pub(crate) fn metrics(&self) -> Metrics {
        Metrics {
            capacity: self.capacity_bps.map(Rate::from_bps),
            rtt: Duration::from_micros(self.rtt_us),
            loss: self.loss,
            loss_low: self.low,
            loss_high: self.high,
            confidence: (self.frames / CONFIDENT_FRAMES).clamp(0.0, 1.0),
            age: self.age,
        }
    }
}

/// Evidence against an advertised link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Suspicion {
    until: Instant,
    pub(super) evidence: Evidence,
}

/// What became of own frames on a link.
#[derive(Debug, Clone, Copy)]
pub(super) enum Evidence {
    /// Nothing came over it.
    Silent,
    /// At least this share is lost, and the round trip is no shorter; 0: nothing contradicts the advertisement.
    Worse { loss: f64, rtt_us: u64 },
}

impl Evidence {
    fn contradicts(self, advertisement: &LinkAdvertisement) -> bool {
        match self {
            Self::Silent => true,
            Self::Worse { loss, rtt_us } => advertisement.loss < loss || advertisement.rtt_us < rtt_us,
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Worse { loss, rtt_us } = *self else { return f.write_str("no answers to frames over it") };
        let lossy = (loss > 0.0).then(|| format!("a loss of at least {:.1} %", loss * 100.0));
        let slow = (rtt_us > 0).then(|| format!("a round trip of at least {:.1} ms", rtt_us as f64 / 1e3));
        let all: Vec<String> = lossy.into_iter().chain(slow).collect();
        f.write_str(&all.join(" and "))
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct LinkState {
    /// Of links between other members, by those that receive on them, with the time of arrival.
    advertisements: BTreeMap<LinkId, (LinkAdvertisement, Instant)>,
    pub(super) suspected: BTreeMap<LinkId, Suspicion>,
    /// Path MTUs have changed that the forwarding table does not have yet; time of the last update of it.
    mtus_changed: bool,
    mtus_published: Option<Instant>,
}

/// Result of an advertisement.
#[derive(Debug, Default)]
pub(super) struct Update {
    pub(super) inputs: Vec<LinkInput>,
    /// The loss of the link has become larger.
    pub(super) is_worse: bool,
}

impl LinkState {
    /// Number of advertisements.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.advertisements.len()
    }

    /// Links with an advertisement.
    pub(super) fn links(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.advertisements.keys().copied()
    }

    /// Advertisements with their ages.
    pub(super) fn iter(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (Member, Member, LinkAdvertisement, Duration)> + '_ {
        let all = self.advertisements.iter();
        all.map(move |((from, to), (ad, at))| (*from, *to, *ad, now.saturating_since(*at) + ad.age))
    }

    /// The advertisement of a link that both ends advertise: each does so only while frames arrive
    /// in both directions.
    pub(super) fn get(&self, link: LinkId) -> Option<&(LinkAdvertisement, Instant)> {
        self.advertisements.get(&link).filter(|_| self.advertisements.contains_key(&(link.1, link.0)))
    }

    /// Whether a link is up and own frames get over it, as far as is known.
    pub(super) fn is_usable(&self, link: LinkId) -> bool {
        let is_silent = self.suspected.get(&link).is_some_and(|s| matches!(s.evidence, Evidence::Silent));
        self.get(link).is_some() && !is_silent
    }

    /// Largest datagram on a link, IP bytes, as advertised.
    pub(super) fn datagram_max(&self, link: LinkId) -> Option<u16> {
        self.advertisements.get(&link)?.0.datagram
    }

    /// Members with an advertised link to a member.
    pub(super) fn neighbours(&self, of: Member) -> impl Iterator<Item = Member> + '_ {
        self.links().filter(move |link| link.1 == of && self.get(*link).is_some()).map(|link| link.0)
    }

    /// An advertisement of a link between other members; `None`: the link is down, or its end is gone.
    pub(super) fn on_advertisement(
        &mut self,
        now: Instant,
        net: &mut Network,
        link: LinkId,
        advertisement: Option<LinkAdvertisement>,
    ) -> Update {
        match advertisement.filter(|ad| ad.metrics().is_valid()) {
            Some(advertisement) => self.set(now, net, link, advertisement),
            None => Update { inputs: self.withdraw(now, net, link), is_worse: false },
        }
    }

    fn set(&mut self, now: Instant, net: &mut Network, link: LinkId, new: LinkAdvertisement) -> Update {
        let mut update = Update::default();
        let is_new = !self.advertisements.contains_key(&link);
        if self.is_suspected(link, &new) {
            self.store_suspected(now, link, new);
        } else {
            let before = self.advertisements.insert(link, (new, now));
            update.is_worse = before.is_some_and(|(before, _)| before.high < new.low);
            self.mtus_changed |= before.is_none_or(|(before, _)| before.datagram != new.datagram);
        }
        if !is_new {
            update.inputs.extend(self.input(now, link));
        } else if self.get(link).is_some() {
            for link in [link, (link.1, link.0)] {
                update.inputs.extend(self.input(now, link));
                update.inputs.extend(self.clear_suspicions_beside(now, net, link));
            }
        }
        update
    }

    /// Stores the advertisement of a suspected link. Its path MTU counts at once if it is smaller: smaller datagrams do
    /// no harm, and larger ones may be what vanished.
    fn store_suspected(&mut self, now: Instant, link: LinkId, new: LinkAdvertisement) {
        let known = self.datagram_max(link);
        let datagram = known.map_or(new.datagram, |known| Some(new.datagram.map_or(known, |new| new.min(known))));
        self.mtus_changed |= datagram != known;
        self.advertisements.insert(link, (LinkAdvertisement { datagram, ..new }, now));
    }

    /// One end withdraws the link, or has become silent: the link is down in both directions, whatever the other end,
    /// which may be gone, has advertised.
    fn withdraw(&mut self, now: Instant, net: &mut Network, link: LinkId) -> Vec<LinkInput> {
        let was_up = self.get(link).is_some();
        self.advertisements.remove(&link);
        let mut inputs = Vec::new();
        for link in [link, (link.1, link.0)] {
            inputs.push((link, None));
            self.suspected.remove(&link);
            if was_up {
                inputs.extend(self.clear_suspicions_beside(now, net, link));
            }
        }
        inputs
    }

    /// Removes a member with its links.
    pub(super) fn remove_member(&mut self, member: Member) -> Vec<LinkInput> {
        let gone = self.links().filter(|(from, to)| *from == member || *to == member).collect::<Vec<_>>();
        for link in &gone {
            self.advertisements.remove(link);
        }
        self.suspected.retain(|(from, to), _| *from != member && *to != member);
        gone.into_iter().map(|link| (link, None)).collect()
    }

    /// Withdraws links of which nothing has been received for the timeout.
    fn expire(&mut self, now: Instant, net: &mut Network, timeout: Duration) -> Vec<LinkInput> {
        let old = self.advertisements.iter().filter(|(_, (_, at))| now.saturating_since(*at) >= timeout);
        let old: Vec<LinkId> = old.map(|(link, _)| *link).collect();
        old.into_iter().flat_map(|link| self.withdraw(now, net, link)).collect()
    }

    /// This member was stalled for `span`: advertisements are no older for it.
    pub(super) fn extend(&mut self, now: Instant, span: Duration) -> Vec<LinkInput> {
        self.advertisements.values_mut().for_each(|(_, at)| *at = (*at + span).min(now));
        self.links().filter_map(|link| self.input(now, link)).collect()
    }

    /// Inputs of the links from a member, whose relay rate has changed.
    pub(super) fn inputs_from(&self, now: Instant, from: Member) -> Vec<LinkInput> {
        self.links().filter(|link| link.0 == from).filter_map(|link| self.input(now, link)).collect()
    }

    /// The input of a link that is up and not suspected.
    fn input(&self, now: Instant, link: LinkId) -> Option<LinkInput> {
        let (advertisement, at) = self.get(link)?;
        if self.is_suspected(link, advertisement) {
            return None;
        }
        let age = advertisement.age + now.saturating_since(*at);
        Some((link, Some(Metrics { age, ..advertisement.metrics() })))
    }

    fn is_suspected(&self, link: LinkId, advertisement: &LinkAdvertisement) -> bool {
        self.suspected.get(&link).is_some_and(|s| s.evidence.contradicts(advertisement))
    }

    /// A link went down or came up: silence of paths over it said nothing about their other links.
    pub(super) fn clear_suspicions_beside(&mut self, now: Instant, net: &mut Network, link: LinkId) -> Vec<LinkInput> {
        let own = net.own;
        let paths = net.peers.values_mut().flat_map(|p| p.paths.reset_paths_over(own, link));
        let beside: BTreeSet<LinkId> = paths.flat_map(|p| p.links(own).skip(1).collect::<Vec<_>>()).collect();
        let beside = beside.into_iter().filter(|l| *l != link);
        beside.filter_map(|link| self.clear_suspicion(now, link)).collect()
    }

    fn clear_suspicion(&mut self, now: Instant, link: LinkId) -> Option<LinkInput> {
        self.suspected.remove(&link)?;
        self.input(now, link)
    }

    /// Whether the forwarding table needs other path MTUs now.
    pub(super) fn has_new_mtus(&mut self, now: Instant) -> bool {
        let may_publish = self.mtus_published.is_none_or(|at| now.saturating_since(at) >= MOVE_INTERVAL);
        let is_due = may_publish && std::mem::take(&mut self.mtus_changed);
        if is_due {
            self.mtus_published = Some(now);
        }
        is_due
    }
}
