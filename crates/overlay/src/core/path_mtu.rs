//! Which datagrams a link carries: searched with filler, as packetization layer path MTU discovery does (RFC 8899).

use std::time::Duration;

use route::{Member, Path};
use units::Instant;
use wire::overlay::{ENVELOPE_BYTES, Message, SEALED_BYTES, SPACE_PROBES, TAG_BYTES};

use super::{Core, Output};
use crate::encapsulate::{head, outer, tail};

/// Headers of a datagram over IPv6: which protocol others use on their links is not known here, and this is the longer one.
const UDP_OVER_IPV6: usize = 48;
/// What every link carries (IPv6, RFC 8200 section 5): nothing smaller is looked for.
const LEAST: u16 = 1280;
/// What a link is taken to carry as long as nobody knows.
const ETHERNET: u16 = 1500;
/// Datagrams of a size that are sent by the end of each round, as long as none is answered.
const ROUNDS: [u32; 5] = [1, 2, 6, 18, 60];
/// Small ones that go along with each: how many of them are answered tells what is lost whatever its size.
const COMPANIONS: u32 = 5;
/// A size is not given up unless bad luck explains it with less than this probability.
const CHANCE: f64 = 1e-6;
/// Sizes that are nearer are not told apart.
const GRAIN: u16 = 8;
/// An answer comes within a round trip and this.
const PATIENCE: Duration = Duration::from_millis(200);
/// How often it is looked whether the size still passes, and whether a larger one does by now (PMTU_RAISE_TIMER, RFC 8899 section 5.1.1).
const CONFIRM: Duration = Duration::from_secs(10);
const RAISE: Duration = Duration::from_secs(600);
/// How often losses or refusals have it looked at between, at most.
const DOUBT: Duration = Duration::from_secs(1);
/// How long a size that came counts: each is confirmed again before.
const LATELY: Duration = Duration::from_secs(12);

/// IP bytes of the datagrams that a link carries.
#[derive(Default)]
pub(super) struct PathMtuDiscovery {
    /// Largest size that passed, and smallest that did not.
    works: Option<u16>,
    fails: Option<u16>,
    trial: Option<Trial>,
    /// Of the last trial.
    number: u16,
    next: Option<Instant>,
    raised: Option<Instant>,
    /// What the member was last told about the size.
    told: Option<u16>,
    doubted: Option<Instant>,
    /// Largest size that came from the member lately, and the largest that it sends, as it says: that of a way that became narrower is
    /// known to it first, and who says less than is so harms nobody more than who drops what he gets.
    seen: Option<(u16, Instant)>,
    limit: Option<u16>,
}

struct Trial {
    bytes: u16,
    /// What its companions say instead of a size: less than any size.
    number: u16,
    round: usize,
    at: Instant,
    sent: u32,
    /// Companions that were answered.
    answered: u32,
}

impl Trial {
    /// The probability that all of what is unanswered happens to include each datagram of the size, if size makes no difference.
    fn chance(&self) -> f64 {
        let all = self.sent * (1 + COMPANIONS);
        let unanswered = all.saturating_sub(self.answered);
        (0..self.sent).map(|i| f64::from(unanswered.saturating_sub(i)) / f64::from(all - i)).product()
    }
}

/// One datagram of a size, and its companions.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Due {
    bytes: u16,
    number: u16,
}

impl PathMtuDiscovery {
    /// Most IP bytes of a datagram to the member.
    pub(super) fn known(&self, wanted: u16) -> u16 {
        let unknown = || if self.fails.is_some() { LEAST } else { wanted.min(ETHERNET) };
        self.works.unwrap_or_else(unknown)
    }

    /// Largest datagram that comes from the member.
    pub(super) fn from(&self) -> Option<u16> {
        self.seen.map(|(bytes, _)| self.limit.map_or(bytes, |l| l.min(bytes)))
    }

    fn came(&mut self, now: Instant, bytes: u16) {
        if bytes < LEAST {
            return;
        }
        let is_old = |at: Instant| now.saturating_since(at) > LATELY;
        if self.seen.is_none_or(|(most, at)| bytes >= most || is_old(at)) {
            self.seen = Some((bytes, now));
        }
    }

    /// The next size to try; `None`: all is known.
    fn candidate(&self, wanted: u16) -> Option<u16> {
        let Some(fails) = self.fails else { return self.works.is_none_or(|w| w < wanted).then_some(wanted) };
        let works = self.works.unwrap_or(LEAST);
        if works < ETHERNET && ETHERNET < fails {
            return Some(ETHERNET);
        }
        (fails > works + GRAIN).then(|| works.midpoint(fails))
    }

    /// What is to be tried now.
    fn due(&mut self, now: Instant, wanted: u16, rtt: Duration) -> Option<Due> {
        if let Some(trial) = &mut self.trial {
            let is_over = trial.sent >= ROUNDS[trial.round];
            if is_over && now.saturating_since(trial.at) <= rtt + PATIENCE {
                return None;
            }
            let has_failed = is_over && trial.chance() < CHANCE;
            let next = trial.round + usize::from(is_over);
            if !has_failed && next < ROUNDS.len() {
                (trial.round, trial.sent, trial.at) = (next, trial.sent + 1, now);
                return Some(Due { bytes: trial.bytes, number: trial.number });
            }
            if has_failed {
                self.failed();
            } else {
                // So much is lost that nothing can be said.
                (self.trial, self.next) = (None, Some(now + CONFIRM));
            }
        }
        if self.next.is_some_and(|at| now < at) {
            return None;
        }
        if self.raised.is_none_or(|at| now.saturating_since(at) > RAISE) {
            (self.raised, self.fails) = (Some(now), None);
        }
        let candidate = self.candidate(wanted);
        // All is known: the size is only confirmed.
        if candidate.is_none() {
            self.next = Some(now + CONFIRM);
        }
        let bytes = candidate.or(self.works)?;
        self.number = self.number % (LEAST - 1) + 1;
        self.trial = Some(Trial { bytes, number: self.number, round: 0, at: now, sent: 1, answered: 0 });
        Some(Due { bytes, number: self.number })
    }

    /// The size that is known is tried at once: a datagram was refused, or many are lost.
    pub(super) fn doubt(&mut self, now: Instant) {
        let is_again = self.doubted.is_some_and(|at| now.saturating_since(at) < DOUBT);
        if self.trial.is_none() && !is_again {
            (self.doubted, self.next) = (Some(now), None);
        }
    }

    fn failed(&mut self) {
        let Some(trial) = self.trial.take() else { return };
        self.fails = Some(self.fails.map_or(trial.bytes, |f| f.min(trial.bytes)));
        // A size that passed before passes no more: the path has changed.
        if self.works.is_some_and(|w| w >= trial.bytes) {
            (self.works, self.next) = (Some(LEAST), None);
        }
    }

    /// A datagram of this size arrived, or a companion of this number.
    fn passed(&mut self, bytes: u16) {
        let Some(trial) = &mut self.trial else { return };
        if trial.number == bytes {
            trial.answered = (trial.answered + 1).min(trial.sent * COMPANIONS);
        } else if trial.bytes == bytes {
            self.trial = None;
            self.works = Some(self.works.map_or(bytes, |w| w.max(bytes)));
        }
    }
}

impl Core {
    /// Most IP bytes of a datagram that members have use for.
    fn wanted_size(&self) -> u16 {
        let headers = ENVELOPE_BYTES + SEALED_BYTES + 2 * TAG_BYTES;
        self.settings.mtu.saturating_add((headers + UDP_OVER_IPV6) as u16)
    }

    /// Most IP bytes of a datagram on the link to a member.
    pub(super) fn size_to(&self, member: Member) -> u16 {
        self.peers.get(&member).map_or(ETHERNET, |o| o.sizes.known(self.wanted_size()))
    }

    /// Largest inner packet that a path carries.
    pub(super) fn most_on(&self, path: &Path) -> usize {
        let first = self.peers.get(&path.first_hop()).and_then(|o| o.endpoint).map_or(UDP_OVER_IPV6, outer);
        let own = usize::from(self.size_to(path.first_hop())).saturating_sub(first);
        let further = path.links(self.own).skip(1).map(|link| {
            let told = self
                .advertisements
                .get(&link)
                .and_then(|(advertisement, _)| advertisement.datagram)
                .unwrap_or(ETHERNET);
            // By which protocol others reach each other is not known here.
            usize::from(told.max(LEAST)).saturating_sub(UDP_OVER_IPV6)
        });
        let datagram = further.chain([own]).min().unwrap_or(own);
        datagram.saturating_sub(head(path) + tail(path)).min(usize::from(self.settings.mtu))
    }

    /// Tries sizes that are due.
    pub(super) fn poll_mtu_probes(&mut self, now: Instant) {
        let all: Vec<Member> = self.peers.keys().copied().collect();
        for member in all {
            let wanted = self.wanted_size();
            let Some(peer) = self.peers.get_mut(&member) else { continue };
            let rtt = peer.link.rtt().unwrap_or_default();
            if !peer.link.is_up() {
                // What is no longer heard of says nothing about a size.
                peer.sizes = PathMtuDiscovery::default();
                continue;
            }
            let before = peer.sizes.known(wanted);
            let due = peer.sizes.due(now, wanted, rtt);
            self.changed |= peer.sizes.known(wanted) != before;
            // With each trial, as it may have been lost before.
            let known = peer.sizes.known(wanted);
            if due.is_some() || peer.sizes.told != Some(known) {
                peer.sizes.told = Some(known);
                self.tell(now, member, &Message::SizeIs { bytes: known });
            }
            if let Some(due) = due {
                self.try_size(now, member, due.bytes, due.bytes);
                (0..COMPANIONS).for_each(|_| self.try_size(now, member, due.number, 0));
            }
        }
    }

    /// This host's device or route refused datagrams as too large. Whose is not known: all sizes are confirmed now.
    pub(crate) fn handle_oversize(&mut self, now: Instant) {
        for peer in self.peers.values_mut() {
            peer.sizes.doubt(now);
        }
    }

    /// Asks whether a datagram comes that is called `number` and has so many bytes, as far as it can be as small.
    fn try_size(&mut self, now: Instant, member: Member, number: u16, bytes: u16) {
        let Some(to) = self.peers.get(&member).and_then(|o| o.endpoint) else { return };
        let mut message = Message::SizeAsked { bytes: number }.encode();
        let filled = usize::from(bytes).saturating_sub(outer(to) + SEALED_BYTES + TAG_BYTES);
        message.resize(filled.max(message.len()), 0);
        if let Some((to, datagram)) = self.sealed(now, Path::direct(member), SPACE_PROBES, &message) {
            let each = datagram.len();
            self.outputs.push_back(Output::Trial { to, datagrams: datagram, each });
            if let Some(peer) = self.peers.get_mut(&member) {
                peer.link.probing().pay(now, (each + outer(to)) as f64);
            }
        }
    }

    /// A datagram of this size came.
    pub(super) fn on_size_probe(&mut self, now: Instant, from: Member, bytes: u16) {
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.sizes.came(now, bytes);
        }
        self.tell(now, from, &Message::SizeSeen { bytes });
    }

    /// The member sends no larger ones.
    pub(super) fn on_peer_size_limit(&mut self, from: Member, bytes: u16) {
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.sizes.limit = Some(bytes.max(LEAST));
        }
    }

    /// A datagram of ours of this size arrived.
    pub(super) fn on_size_acknowledged(&mut self, from: Member, bytes: u16) {
        let wanted = self.wanted_size();
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let before = peer.sizes.known(wanted);
        peer.sizes.passed(bytes);
        self.changed |= peer.sizes.known(wanted) != before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    /// Lets what is due be answered at once where it is not too large, nor lost; says how many were asked.
    fn pass(sizes: &mut PathMtuDiscovery, now: Instant, wanted: u16, mut arrives: impl FnMut(u16) -> bool) -> usize {
        let Some(due) = sizes.due(now, wanted, RTT) else { return 0 };
        for bytes in [due.bytes].into_iter().chain((0..COMPANIONS).map(|_| due.number)) {
            if arrives(bytes) {
                sizes.passed(bytes);
            }
        }
        1
    }

    /// What is known of a link that carries `carries`, after so long.
    fn after(sizes: &mut PathMtuDiscovery, from: Instant, span: Duration, wanted: u16, carries: u16) -> (u16, usize) {
        let (mut now, mut asked) = (from, 0);
        while now < from + span {
            asked += pass(sizes, now, wanted, |bytes| bytes <= carries);
            now = now + Duration::from_millis(20);
        }
        (sizes.known(wanted), asked)
    }

    #[test]
    fn the_chance_is_that_of_drawing_all_large_ones_from_an_urn() {
        let of =
            |sent, answered| Trial { bytes: 1500, number: 1, round: 0, at: Instant::ZERO, sent, answered }.chance();
        // One of 36 choose 6; no answer at all says nothing; 14 choose 6 of 36 choose 6.
        assert!((of(6, 30) * 1_947_792.0 - 1.0).abs() < 1e-9);
        assert_eq!(of(6, 0), 1.0);
        assert!((of(6, 22) * 1_947_792.0 / 3003.0 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_lost_anyway_is_not_too_large() {
        let (mut prng, mut now) = (crate::prng::Prng::new(4), Instant::from_nanos(1));
        let mut sizes = PathMtuDiscovery::default();
        // A day of which each hour loses another share of datagrams and answers, up to nine of ten.
        for hour in 0..24 {
            let loss = f64::from(hour % 10) / 10.0;
            let end = now + Duration::from_secs(3600);
            while now < end {
                pass(&mut sizes, now, 1500, |_| prng.unit() > loss);
                now = now + Duration::from_millis(20);
                assert!(sizes.works.is_none_or(|w| w == 1500) && sizes.fails.is_none(), "loss of {loss}");
            }
        }
    }

    #[test]
    fn a_smaller_size_is_found_on_a_link_that_loses_much() {
        let (mut prng, mut now) = (crate::prng::Prng::new(4), Instant::from_nanos(1));
        let mut sizes = PathMtuDiscovery::default();
        after(&mut sizes, now, Duration::from_secs(1), 1500, 1500);
        let end = now + Duration::from_secs(60);
        while now < end {
            pass(&mut sizes, now, 1500, |bytes| bytes <= 1400 && prng.unit() > 0.3);
            now = now + Duration::from_millis(20);
        }
        assert!((1392..=1400).contains(&sizes.known(1500)), "{}", sizes.known(1500));
    }

    #[test]
    fn the_size_of_a_link_is_found_and_followed() {
        let start = Instant::from_nanos(1);
        // Ethernet, PPPoE, an IPv6 tunnel, jumbo frames, less than all of it, and the least.
        for (wanted, carries) in [(1500, 1500), (1500, 1492), (1500, 1480), (9196, 9000), (9196, 1500), (1500, 1280)] {
            let mut sizes = PathMtuDiscovery::default();
            let (known, asked) = after(&mut sizes, start, Duration::from_secs(10), wanted, carries);
            assert!(known <= carries && known + GRAIN >= carries.min(wanted), "{known} of {carries}");
            // Six datagrams of each of log2(7916 / 8) sizes that fail, at most.
            assert!(asked <= 6 * (2 + 10), "{asked}");
            let start = start + Duration::from_secs(10);
            let (known, asked) = after(&mut sizes, start, Duration::from_secs(60), wanted, 1400);
            assert!(known <= 1400 && known + GRAIN >= carries.min(1400), "{known} after the change");
            assert!(asked <= 6 * (2 + 10), "{asked}");
            let (known, _) = after(&mut sizes, start + Duration::from_secs(60), RAISE, wanted, 1500);
            assert!(known + GRAIN >= wanted.min(1500), "{known} after it became wider again");
        }
    }
}
