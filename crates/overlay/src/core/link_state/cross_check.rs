//! Cross-checks of advertisements against what became of own frames. Links behind the first hop are out of sight: all
//! links of a silent path are suspected over which no other own frames get, and the last link of a path for losses and
//! delays that the advertisements do not explain.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use route::{Member, Path};
use units::Instant;

use super::{Evidence, LinkAdvertisement, LinkId, LinkInput, LinkState, SUSPICION_LIFETIME, Suspicion};
use crate::core::Event;
use crate::core::network::Network;
use crate::core::paths::Observation;
use crate::loss::LossEstimate;

/// Loss beyond twice the advertised one that counts as a contradiction: two observers see a change of loss at different
/// moments.
const CONTRADICTION: f64 = 0.05;
/// A round trip is longer than advertised if it exceeds the sum of its links by half and by this much. In truth it is
/// as long as the sum, or shorter where the destination reports by a shorter path; queueing, whose minimum counts, adds
/// little.
const LONGER_BY: Duration = Duration::from_millis(20);
/// Time for which it has to be longer: the minima of links and paths are those of up to 20 s each, so that the ends of
/// the links see a longer queue as well.
const LONGER_FOR: Duration = Duration::from_secs(30);
/// A round trip that exceeds the sum of its links by no more than a quarter and this much confirms them.
const AS_ADVERTISED: Duration = Duration::from_millis(10);

/// What applies to all cross-checks of one call.
#[derive(Debug, Clone, Copy)]
pub(in crate::core) struct Rules {
    /// Advertisements are withdrawn after this time.
    pub(in crate::core) timeout: Duration,
    /// This member was stalled: silence does not count.
    pub(in crate::core) in_grace: bool,
    /// Losses are advertised by the paper's intervals, which differ from those of the last second.
    pub(in crate::core) has_sensor: bool,
}

impl LinkState {
    /// Compares all advertisements with the observations of own paths; gives changes for the route control.
    pub(in crate::core) fn cross_check(&mut self, now: Instant, net: &mut Network, rules: Rules) -> Vec<LinkInput> {
        let mut inputs = self.expire(now, net, rules.timeout);
        let longer = self.longer_than_advertised(now, net);
        let working: BTreeSet<_> = net.peers.values().flat_map(|p| p.paths.working(now)).collect();
        let working: BTreeSet<LinkId> =
            working.iter().flat_map(|path| path.links(net.own).collect::<Vec<_>>()).collect();
        let mut evidence = self.observed(now, net, rules, &working);
        inputs.extend(self.clear_disproved(now, &working));
        for (link, by) in longer {
            self.add_longer(now, net, &mut evidence, (link, by));
        }
        for (link, instead) in evidence {
            self.suspect(now, net, link, instead);
            inputs.push((link, instead.map(|ad| ad.metrics())));
        }
        let over = self.suspected.iter().filter(|(_, s)| s.until <= now).map(|(link, _)| *link);
        for link in over.collect::<Vec<_>>() {
            inputs.extend(self.clear_suspicion(now, link));
        }
        inputs
    }

    /// Links that own frames contradict, with what the advertisement should be; `None`: silent.
    fn observed(
        &self,
        now: Instant,
        net: &Network,
        rules: Rules,
        working: &BTreeSet<LinkId>,
    ) -> BTreeMap<LinkId, Option<LinkAdvertisement>> {
        let mut evidence: BTreeMap<LinkId, Option<LinkAdvertisement>> = BTreeMap::new();
        for (path, observation) in net.peers.values().flat_map(|p| p.paths.observations(now)) {
            let Some(first) = net.peers.get(&path.first_hop()).filter(|p| p.link.is_up()) else { continue };
            // A link that is known to be down explains the observation.
            let links: Vec<LinkId> = path.links(net.own).skip(1).collect();
            let advertised = links.iter().map(|l| Some((*l, self.get(*l)?.0)));
            let Some(advertised) = advertised.collect::<Option<Vec<_>>>() else { continue };
            match observation {
                Observation::Silent if rules.in_grace => {}
                Observation::Silent => {
                    evidence.extend(links.iter().filter(|l| !working.contains(l)).map(|link| (*link, None)));
                }
                Observation::Loss(_) if rules.has_sensor => {}
                Observation::Loss(loss) => {
                    evidence.extend(unexplained_loss(&loss, first.link.worst_tx_loss(), &advertised));
                }
            }
        }
        evidence
    }

    /// Own frames get over a link that was silent a moment ago.
    fn clear_disproved(&mut self, now: Instant, working: &BTreeSet<LinkId>) -> Vec<LinkInput> {
        let silent = self.suspected.iter().filter(|(_, s)| matches!(s.evidence, Evidence::Silent));
        let disproved: Vec<LinkId> = silent.map(|(link, _)| *link).filter(|link| working.contains(link)).collect();
        disproved.into_iter().filter_map(|link| self.clear_suspicion(now, link)).collect()
    }

    fn add_longer(
        &self,
        now: Instant,
        net: &mut Network,
        evidence: &mut BTreeMap<LinkId, Option<LinkAdvertisement>>,
        (link, by): (LinkId, Duration),
    ) {
        if let Some(first) = net.peers.get_mut(&link.1).filter(|_| link.0 == net.own) {
            first.link.set_longer(now + SUSPICION_LIFETIME, by);
        } else if let Some((advertisement, _)) = self.get(link).copied() {
            let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
            let as_advertised = Some(LinkAdvertisement { age: Duration::ZERO, ..advertisement });
            let instead = evidence.get(&link).copied().unwrap_or(as_advertised);
            let longer = |ad: LinkAdvertisement| LinkAdvertisement { rtt_us: ad.rtt_us.saturating_add(by), ..ad };
            evidence.insert(link, instead.map(longer));
        }
    }

    fn suspect(&mut self, now: Instant, net: &mut Network, link: LinkId, instead: Option<LinkAdvertisement>) {
        let advertised = self.advertisements.get(&link).map(|(advertised, _)| *advertised);
        let worse = |instead: LinkAdvertisement| {
            // Agreement with the advertisement is no evidence.
            let loss = if advertised.is_some_and(|a| a.loss < instead.loss) { instead.loss } else { 0.0 };
            let rtt_us = if advertised.is_some_and(|a| a.rtt_us < instead.rtt_us) { instead.rtt_us } else { 0 };
            Evidence::Worse { loss, rtt_us }
        };
        let evidence = instead.map_or(Evidence::Silent, worse);
        if self.suspected.insert(link, Suspicion { until: now + SUSPICION_LIFETIME, evidence }).is_none() {
            let [from, to] = [link.0, link.1].map(|m: Member| net.settings.name_of(m));
            net.event(Event::LinkSuspected { from, to, why: evidence.to_string() });
        }
    }

    /// Links of paths whose round trips are longer than advertised, with the excess: a member that advertises a short
    /// round trip attracts traffic.
    fn longer_than_advertised(&self, now: Instant, net: &mut Network) -> BTreeMap<LinkId, Duration> {
        let known = net.peers.values().flat_map(|p| p.paths.round_trips(now));
        let paths: Vec<_> =
            known.filter_map(|path| Some((path, self.advertised_round_trip(net, &path.path)?))).collect();
        let own = net.own;
        let as_advertised = paths.iter().filter(|(path, rtt)| path.rtt <= *rtt + *rtt / 4 + AS_ADVERTISED);
        let confirmed: BTreeSet<_> =
            as_advertised.flat_map(|(path, _)| path.path.links(own).collect::<Vec<_>>()).collect();
        let mut longer = BTreeMap::new();
        // The round trip of an unused path says nothing against a new advertisement.
        for (path, rtt) in paths.iter().filter(|(path, _)| path.is_current) {
            let is_longer = path.rtt > *rtt + *rtt / 2 + LONGER_BY;
            let monitor = net.peers.get_mut(&path.path.destination()).map(|p| &mut p.paths);
            let since = monitor.and_then(|m| m.note_longer(now, &path.path, is_longer));
            if since.is_some_and(|since| now.saturating_since(since) >= LONGER_FOR) {
                let last = path.path.links(own).filter(|l| !confirmed.contains(l)).last();
                longer.extend(last.map(|link| (link, path.rtt.saturating_sub(*rtt))));
            }
        }
        longer
    }

    /// Sum of the advertised round trips of a path; `None`: a link is not up.
    fn advertised_round_trip(&self, net: &Network, path: &Path) -> Option<Duration> {
        let first = net.peers.get(&path.first_hop()).filter(|p| p.link.is_up())?.link.rtt()?;
        let mut links = path.links(net.own).skip(1);
        links.try_fold(first, |sum, link| {
            let (advertisement, _) = self.get(link)?;
            Some(sum.saturating_add(Duration::from_micros(advertisement.rtt_us)))
        })
    }
}

/// The last link of a path with the loss behind the first hop, if the advertisements do not explain that loss.
fn unexplained_loss(
    loss: &LossEstimate,
    first_hop_loss: f64,
    advertised: &[(LinkId, LinkAdvertisement)],
) -> Option<(LinkId, Option<LinkAdvertisement>)> {
    let beyond = |share: f64| 1.0 - (1.0 - share) / (1.0 - first_hop_loss).max(0.01);
    let low = beyond(loss.low);
    let explained = 1.0 - advertised.iter().map(|(_, ad)| 1.0 - ad.high).product::<f64>();
    let (link, last) = advertised.last().filter(|_| low > 2.0 * explained + CONTRADICTION)?;
    let share = beyond(loss.share).clamp(low, 1.0);
    let high = beyond(loss.high).clamp(share, 1.0);
    let instead = LinkAdvertisement { loss: share, low, high, frames: loss.frames, age: Duration::ZERO, ..*last };
    Some((*link, Some(instead)))
}
