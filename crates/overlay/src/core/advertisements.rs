//! What members say about links, and how far it is believed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use route::{Member, Metrics, Path};
use serde::{Deserialize, Serialize};
use units::{Instant, Rate};

use super::link::CONFIDENT_FRAMES;
use super::paths::Experience;
use super::{Core, Event, MOVES_EVERY, Output};

/// By how much what becomes of own frames must contradict what others claim: this much is seen when a loss changes that both see, but not at the same
/// moment.
const CONTRADICTION: f64 = 0.05;
/// For how long what others say of a link is not heard after our own frames said otherwise. Well below the time after which the route control takes a link to be
/// down of which nobody speaks: it is told what they say before.
pub(super) const SUSPICION: Duration = Duration::from_secs(4);

/// What a member says about a link on which it receives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinkAdvertisement {
    pub(crate) rtt_us: u64,
    pub(crate) loss: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) frames: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) capacity_bps: Option<u64>,
    /// Largest datagram that came on the link, IP bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) datagram: Option<u16>,
    /// Whether who says it has sent packets over the overlay lately: then all look closely.
    #[serde(default)]
    pub(crate) with_traffic: bool,
    /// How much longer ago it was said than the quickest word of who said it.
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

/// By how much the round trip of a way must be longer than those of its links together, half of these and this: in truth it is as long, or shorter where its end tells by a
/// shorter way; all that may be added is what waits at a moment, of which the least is taken.
const LONGER_BY: Duration = Duration::from_millis(20);
/// And for how long: the least ones of links and ways are those of up to 20 s each, so that what waits longer is seen by the links' ends as well.
const LONGER_FOR: Duration = Duration::from_secs(30);
/// What is longer than its links by no more than this and a quarter speaks for them.
const AS_TOLD: Duration = Duration::from_millis(10);

/// Of what others say about a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Suspicion {
    until: Instant,
    pub(super) found: Evidence,
}

/// What became of our frames on a link.
#[derive(Debug, Clone, Copy)]
pub(super) enum Evidence {
    /// Nothing came over it.
    Silent,
    /// This share is lost there at least, and its round trip is no less; 0: nothing speaks against what is said.
    Worse { loss: f64, rtt_us: u64 },
}

impl Evidence {
    /// Whether it is worse than what is said.
    fn contradicts(self, advertisement: &LinkAdvertisement) -> bool {
        match self {
            Self::Silent => true,
            Self::Worse { loss, rtt_us } => advertisement.loss < loss || advertisement.rtt_us < rtt_us,
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Worse { loss, rtt_us } = *self else { return f.write_str("what is sent over it is not answered") };
        let lossy = (loss > 0.0).then(|| format!("{loss:.3} of what is sent over it is lost"));
        let slow = (rtt_us > 0).then(|| format!("its round trip takes {:.1} ms", rtt_us as f64 / 1e3));
        let all: Vec<String> = lossy.into_iter().chain(slow).collect();
        f.write_str(&all.join(", and "))
    }
}

impl Core {
    /// What this member says about the links on which it receives.
    pub(crate) fn own_advertisements(&self, now: Instant) -> Vec<(Member, LinkAdvertisement)> {
        let with_traffic = self.traffic.is_own(now);
        let up = self.peers.iter().filter(|(_, o)| o.link.is_up());
        up.filter_map(|(member, o)| {
            let loss = o.link.rx_loss();
            let rtt = o.link.rtt()?;
            Some((
                *member,
                LinkAdvertisement {
                    rtt_us: u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX),
                    loss: loss.share,
                    low: loss.low,
                    high: loss.high,
                    frames: loss.frames.round(),
                    capacity_bps: self.capacity(&o.trains.from).map(Rate::as_bps),
                    datagram: o.sizes.from(),
                    with_traffic,
                    age: Duration::ZERO,
                },
            ))
        })
        .collect()
    }

    /// What `to` says about a link from `from`; `None`: that it is down, or that `to` is gone. `relayed_bps`: most that it passes on for each member.
    pub(crate) fn handle_advertisement(
        &mut self,
        now: Instant,
        from: Member,
        to: Member,
        advertisement: Option<LinkAdvertisement>,
        relayed_bps: u64,
    ) {
        self.note_relays(now, to, relayed_bps);
        self.expect(now, to);
        if advertisement.is_some_and(|c| c.with_traffic) {
            self.traffic.note_others(now);
        }
        // Of our own links we know more ourselves.
        if from == self.own || to == self.own {
            return;
        }
        match advertisement.filter(|c| c.metrics().is_valid()) {
            Some(advertisement) => self.on_advertisement(now, (from, to), advertisement),
            None => self.withdraw(now, (from, to)),
        }
    }

    fn on_advertisement(&mut self, now: Instant, link: (Member, Member), advertisement: LinkAdvertisement) {
        let is_new = !self.advertisements.contains_key(&link);
        if self.is_suspected(link, &advertisement) {
            self.store_suspected(now, link, advertisement);
        } else {
            let before = self.advertisements.insert(link, (advertisement, now));
            if before.is_some_and(|(b, _)| b.high < advertisement.low) {
                self.alert(now);
            }
            self.sizes_told |= before.is_none_or(|(b, _)| b.datagram != advertisement.datagram);
        }
        if !is_new {
            self.publish_link(now, link);
        } else if self.advertisement_of(link).is_some() {
            for link in [link, (link.1, link.0)] {
                self.publish_link(now, link);
                self.clear_suspicions_beside(now, link);
            }
        }
    }

    /// What is said of the links from a member counts otherwise now.
    pub(super) fn publish_links_from(&mut self, now: Instant, from: Member) {
        let links = self.advertisements.keys().filter(|link| link.0 == from).copied();
        links.collect::<Vec<_>>().into_iter().for_each(|link| self.publish_link(now, link));
    }

    /// Lets the threads know what sizes others tell.
    pub(super) fn apply_peer_mtus(&mut self, now: Instant) {
        let is_rested = self.sizes_taken.is_none_or(|at| now.saturating_since(at) >= MOVES_EVERY);
        if is_rested && std::mem::take(&mut self.sizes_told) {
            (self.changed, self.sizes_taken) = (true, Some(now));
        }
    }

    /// An end of the link says that it is down, or says nothing any more: then it is down in both directions, whatever the other end, which may be gone, has said.
    fn withdraw(&mut self, now: Instant, link: (Member, Member)) {
        let was_up = self.advertisement_of(link).is_some();
        self.advertisements.remove(&link);
        for link in [link, (link.1, link.0)] {
            self.set_link(now, link.0, link.1, None);
            // Now they say what our own frames did.
            self.suspected_links.remove(&link);
            if was_up {
                self.clear_suspicions_beside(now, link);
            }
        }
    }

    /// What is said of the link, if both its ends speak of it: each says that it is up only as long as it hears the other one and is heard by it.
    pub(super) fn advertisement_of(&self, link: (Member, Member)) -> Option<&(LinkAdvertisement, Instant)> {
        self.advertisements.get(&link).filter(|_| self.advertisements.contains_key(&(link.1, link.0)))
    }

    /// Tells the route control what is said of a link that is not suspected.
    fn publish_link(&mut self, now: Instant, link: (Member, Member)) {
        let Some((advertisement, at)) = self.advertisement_of(link).copied() else { return };
        if !self.is_suspected(link, &advertisement) {
            let age = advertisement.age + now.saturating_since(at);
            self.set_link(now, link.0, link.1, Some(Metrics { age, ..advertisement.metrics() }));
        }
    }

    /// Who has said nothing for as long as the route control waits is gone, and speaks for no link.
    fn expire_advertisements(&mut self, now: Instant) {
        let silence = self.control.inner().policy().silence;
        let old = self.advertisements.iter().filter(|(_, (_, at))| now.saturating_since(*at) >= silence);
        for link in old.map(|(link, _)| *link).collect::<Vec<_>>() {
            self.withdraw(now, link);
        }
    }

    /// For so long nobody listened to what others say: what they had said is no older for it.
    pub(super) fn extend_advertisements(&mut self, now: Instant, span: Duration) {
        self.advertisements.values_mut().for_each(|(_, at)| *at = (*at + span).min(now));
        // Before the route control finds that nobody has spoken of the links.
        for link in self.advertisements.keys().copied().collect::<Vec<_>>() {
            self.publish_link(now, link);
        }
    }

    /// Whether our own frames told otherwise, and more than is said now.
    fn is_suspected(&self, link: (Member, Member), advertisement: &LinkAdvertisement) -> bool {
        self.suspected_links.get(&link).is_some_and(|s| s.found.contradicts(advertisement))
    }

    /// Keeps what is said of a link that is suspected for later. Of the size it counts at once where that is smaller: smaller datagrams do no harm, and larger ones
    /// may be what vanished there.
    fn store_suspected(&mut self, now: Instant, link: (Member, Member), advertisement: LinkAdvertisement) {
        let known = self.advertisements.get(&link).and_then(|(known, _)| known.datagram);
        let datagram =
            known.map_or(advertisement.datagram, |k| Some(advertisement.datagram.map_or(k, |told| told.min(k))));
        self.sizes_told |= datagram != known;
        self.advertisements.insert(link, (LinkAdvertisement { datagram, ..advertisement }, now));
    }

    /// What each member said about the links on which it receives, and how long ago.
    pub(crate) fn advertisements(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (Member, Member, LinkAdvertisement, Duration)> + '_ {
        self.advertisements.iter().map(move |((from, to), (advertisement, at))| {
            (*from, *to, *advertisement, now.saturating_since(*at) + advertisement.age)
        })
    }

    /// The link has gone down, or has come back: that nothing came over it said nothing about the others of its paths.
    pub(super) fn clear_suspicions_beside(&mut self, now: Instant, link: (Member, Member)) {
        let own = self.own;
        let paths = self.peers.values_mut().flat_map(|o| o.spaces.reset_paths_over(own, link));
        let beside: BTreeSet<(Member, Member)> = paths.flat_map(|p| p.links(own).skip(1).collect::<Vec<_>>()).collect();
        for peer in beside.into_iter().filter(|l| *l != link) {
            self.clear_suspicion(now, peer);
        }
    }

    /// What others say of the link counts again.
    fn clear_suspicion(&mut self, now: Instant, link: (Member, Member)) {
        if self.suspected_links.remove(&link).is_some() {
            self.publish_link(now, link);
        }
    }

    /// Links of ways whose round trip is longer than those of their links, with by how much: who makes a round trip look short draws traffic.
    fn longer_than_told(&mut self, now: Instant) -> BTreeMap<(Member, Member), Duration> {
        let known = self.peers.values().flat_map(|o| o.spaces.round_trips(now));
        let paths: Vec<_> = known.filter_map(|path| Some((path, self.round_trip_told(&path.path)?))).collect();
        let as_told = paths.iter().filter(|(path, told)| path.rtt <= *told + *told / 4 + AS_TOLD);
        let right: BTreeSet<_> = as_told.flat_map(|(path, _)| path.path.links(self.own).collect::<Vec<_>>()).collect();
        let mut longer = BTreeMap::new();
        // What was measured of a way that is not used any more says nothing against what is said now.
        for (path, told) in paths.iter().filter(|(path, _)| path.speaks) {
            let is_longer = path.rtt > *told + *told / 2 + LONGER_BY;
            let spaces = self.peers.get_mut(&path.path.destination()).map(|o| &mut o.spaces);
            let since = spaces.and_then(|l| l.note_longer(now, &path.path, is_longer));
            if since.is_some_and(|since| now.saturating_since(since) >= LONGER_FOR) {
                // Of those that no other way speaks for the last one stands for all of them.
                let last = path.path.links(self.own).filter(|l| !right.contains(l)).last();
                longer.extend(last.map(|link| (link, path.rtt.saturating_sub(*told))));
            }
        }
        longer
    }

    /// The round trips of the links of a path together, as their ends tell; `None`: one of them is not up.
    fn round_trip_told(&self, path: &Path) -> Option<Duration> {
        let first = self.peers.get(&path.first_hop()).filter(|o| o.link.is_up())?.link.rtt()?;
        let mut links = path.links(self.own).skip(1);
        links.try_fold(first, |sum, link| {
            let (advertisement, _) = self.advertisement_of(link)?;
            Some(sum.saturating_add(Duration::from_micros(advertisement.rtt_us)))
        })
    }

    /// Holds what others claim against what became of our own frames: a claim is worth no more than that. What is behind the first hop is
    /// out of our sight: links there over which nothing else of ours gets are blamed for silence, the last one for losses that the claims do
    /// not explain.
    pub(super) fn cross_check_advertisements(&mut self, now: Instant) {
        self.expire_advertisements(now);
        let longer = self.longer_than_told(now);
        let mut blamed: BTreeMap<_, Option<LinkAdvertisement>> = BTreeMap::new();
        let working: BTreeSet<_> = self.peers.values().flat_map(|o| o.spaces.working(now)).collect();
        let works = |link: &(Member, Member)| working.iter().any(|path| path.links(self.own).any(|l| l == *link));
        for peer in self.peers.values() {
            for (path, experience) in peer.spaces.experiences(now) {
                let Some(first) = self.peers.get(&path.first_hop()).filter(|o| o.link.is_up()) else { continue };
                let links = path.links(self.own).skip(1);
                match experience {
                    Experience::Silent if self.in_stall_grace(now) => {}
                    // Where one of them is known to be down, that explains it.
                    Experience::Silent if !links.clone().all(|l| self.advertisement_of(l).is_some()) => {}
                    Experience::Silent => blamed.extend(links.filter(|l| !works(l)).map(|link| (link, None))),
                    // Claims of intervals that are over say another thing than the last second.
                    Experience::Loss(_) if self.settings.sensor.is_some() => {}
                    Experience::Loss(loss) => {
                        let beyond = |share: f64| 1.0 - (1.0 - share) / (1.0 - first.link.worst_loss_to()).max(0.01);
                        let low = beyond(loss.low);
                        // Where one of them is down, that explains it, and none of the others.
                        let advertisements = links.map(|l| Some((l, self.advertisement_of(l)?.0)));
                        let Some(advertisements) = advertisements.collect::<Option<Vec<_>>>() else { continue };
                        let claimed = 1.0 - advertisements.iter().map(|(_, c)| 1.0 - c.high).product::<f64>();
                        // The last link stands for all of them.
                        if let Some((link, advertisement)) =
                            advertisements.last().filter(|_| low > 2.0 * claimed + CONTRADICTION)
                        {
                            let share = beyond(loss.share).clamp(low, 1.0);
                            let high = beyond(loss.high).clamp(share, 1.0);
                            let age = Duration::ZERO;
                            let instead = LinkAdvertisement {
                                loss: share,
                                low,
                                high,
                                frames: loss.frames,
                                age,
                                ..*advertisement
                            };
                            blamed.insert(*link, Some(instead));
                        }
                    }
                }
            }
        }
        // What our frames get over is not silent, whatever it was a moment ago.
        let silent = self.suspected_links.iter().filter(|(link, s)| matches!(s.found, Evidence::Silent) && works(link));
        for link in silent.map(|(link, _)| *link).collect::<Vec<_>>() {
            self.clear_suspicion(now, link);
        }
        for (link, by) in longer {
            if let Some(first) = self.peers.get_mut(&link.1).filter(|_| link.0 == self.own) {
                first.link.suspect(now + SUSPICION, by);
            } else if let Some((advertisement, _)) = self.advertisement_of(link).copied() {
                let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
                let advertisement = blamed
                    .get(&link)
                    .copied()
                    .unwrap_or(Some(LinkAdvertisement { age: Duration::ZERO, ..advertisement }));
                blamed.insert(
                    link,
                    advertisement.map(|c| LinkAdvertisement { rtt_us: c.rtt_us.saturating_add(by), ..c }),
                );
            }
        }
        for (link, instead) in blamed {
            let told = self.advertisements.get(&link).map(|(told, _)| *told);
            let alerted = |instead: LinkAdvertisement| {
                // What it has in common with what is said contradicts nothing.
                let loss = if told.is_some_and(|t| t.loss < instead.loss) { instead.loss } else { 0.0 };
                let rtt_us = if told.is_some_and(|t| t.rtt_us < instead.rtt_us) { instead.rtt_us } else { 0 };
                Evidence::Worse { loss, rtt_us }
            };
            let found = instead.map_or(Evidence::Silent, alerted);
            if self.suspected_links.insert(link, Suspicion { until: now + SUSPICION, found }).is_none() {
                let (from, to) = (self.settings.name_of(link.0), self.settings.name_of(link.1));
                self.outputs.push_back(Output::Event(Event::LinkSuspected { from, to, why: found.to_string() }));
            }
            self.set_link(now, link.0, link.1, instead.map(|c| c.metrics()));
        }
        let over = self.suspected_links.iter().filter(|(_, s)| s.until <= now).map(|(link, _)| *link);
        for link in over.collect::<Vec<_>>() {
            self.clear_suspicion(now, link);
        }
    }
}
