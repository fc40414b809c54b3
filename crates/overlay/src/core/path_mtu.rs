//! Path MTU of a link, by packetization layer path MTU discovery with filler datagrams (RFC 8899).

use std::net::SocketAddr;
use std::time::Duration;

use route::Path;
use units::Instant;
use wire::overlay::{ENVELOPE_BYTES, Message, SEALED_BYTES, TAG_BYTES};

use super::link_state::LinkState;
use super::network::Network;
use crate::encapsulate::{head, outer, tail};
use crate::settings::Settings;

/// Headers of a datagram over IPv6, the longer ones: the protocol between other members is unknown here.
const UDP_OVER_IPV6: usize = 48;
/// Every link carries this size (IPv6, RFC 8200 section 5).
const SIZE_MIN: u16 = 1280;
/// Assumed size of a link before it is known.
const ETHERNET: u16 = 1500;
/// Probes of one size sent by the end of each round, as long as none is answered.
const ROUNDS: [u32; 5] = [1, 2, 6, 18, 60];
/// Small datagrams beside each probe: the number of their answers shows what is lost regardless of size.
pub(super) const COMPANIONS: u32 = 5;
/// A size fails if chance explains the missing answers with less than this probability.
const CHANCE_MAX: f64 = 1e-6;
/// Resolution of the search, bytes.
const RESOLUTION: u16 = 8;
/// An answer comes within a round trip and this time.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);
/// Interval at which the size is confirmed, and at which larger ones are tried (PMTU_RAISE_TIMER, RFC 8899 section
/// 5.1.1).
const CONFIRM_INTERVAL: Duration = Duration::from_secs(10);
const RAISE_INTERVAL: Duration = Duration::from_secs(600);
/// Minimum interval between confirmations because of losses or refusals.
const EARLY_CONFIRM_INTERVAL: Duration = Duration::from_secs(1);
/// Lifetime of a received size: each one is confirmed again before.
const RECEIVED_LIFETIME: Duration = Duration::from_secs(12);

/// IP bytes of the datagrams that a link carries.
#[derive(Default)]
pub(super) struct PathMtuDiscovery {
    /// Largest size that passed, and smallest one that failed.
    works: Option<u16>,
    fails: Option<u16>,
    probing: Option<Probing>,
    /// Number of the last probe.
    number: u16,
    next: Option<Instant>,
    raised: Option<Instant>,
    /// Size in the last message to the peer.
    sent_size: Option<u16>,
    confirmed_early: Option<Instant>,
    /// Largest size that the peer sent lately, and the largest one that it will send by its own message: it is the
    /// first to know of a smaller path MTU.
    received: Option<(u16, Instant)>,
    peer_limit: Option<u16>,
}

/// Probes of one size.
struct Probing {
    bytes: u16,
    /// Number that companions carry in place of a size: less than any size.
    number: u16,
    round: usize,
    at: Instant,
    sent: u32,
    /// Companions that were answered.
    answered: u32,
}

impl Probing {
    /// Probability that the unanswered datagrams include all probes by chance, if size makes no difference.
    fn chance(&self) -> f64 {
        let all = self.sent * (1 + COMPANIONS);
        let unanswered = all.saturating_sub(self.answered);
        (0..self.sent).map(|i| f64::from(unanswered.saturating_sub(i)) / f64::from(all - i)).product()
    }
}

/// A probe of a size to send with its companions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MtuProbe {
    pub(super) bytes: u16,
    pub(super) number: u16,
}

impl PathMtuDiscovery {
    /// Largest datagram to the peer, IP bytes; `wanted`: largest useful one.
    pub(super) fn known(&self, wanted: u16) -> u16 {
        let unknown = || if self.fails.is_some() { SIZE_MIN } else { wanted.min(ETHERNET) };
        self.works.unwrap_or_else(unknown)
    }

    /// Whether a size has passed, and none is being tried.
    pub(super) fn is_settled(&self) -> bool {
        self.works.is_some() && self.probing.is_none()
    }

    /// Largest datagram from the peer.
    pub(super) fn received(&self) -> Option<u16> {
        self.received.map(|(bytes, _)| self.peer_limit.map_or(bytes, |l| l.min(bytes)))
    }

    /// A probe of the peer came.
    pub(super) fn on_probe(&mut self, now: Instant, bytes: u16) {
        if bytes < SIZE_MIN {
            return;
        }
        let is_old = |at: Instant| now.saturating_since(at) > RECEIVED_LIFETIME;
        if self.received.is_none_or(|(largest, at)| bytes >= largest || is_old(at)) {
            self.received = Some((bytes, now));
        }
    }

    /// The peer sends no larger datagrams.
    pub(super) fn on_peer_limit(&mut self, bytes: u16) {
        self.peer_limit = Some(bytes.max(SIZE_MIN));
    }

    /// Whether the peer has to be sent the size.
    pub(super) fn needs_message(&self, known: u16) -> bool {
        self.sent_size != Some(known)
    }

    /// The peer was sent the size.
    pub(super) fn note_message(&mut self, known: u16) {
        self.sent_size = Some(known);
    }

    /// The next size to try; `None`: the search is over.
    fn candidate(&self, wanted: u16) -> Option<u16> {
        let Some(fails) = self.fails else { return self.works.is_none_or(|w| w < wanted).then_some(wanted) };
        let works = self.works.unwrap_or(SIZE_MIN);
        if works < ETHERNET && ETHERNET < fails {
            return Some(ETHERNET);
        }
        (fails > works + RESOLUTION).then(|| works.midpoint(fails))
    }

    /// The probe that is due now.
    pub(super) fn poll(&mut self, now: Instant, wanted: u16, rtt: Duration) -> Option<MtuProbe> {
        if let Some(probing) = &mut self.probing {
            let is_over = probing.sent >= ROUNDS[probing.round];
            if is_over && now.saturating_since(probing.at) <= rtt + ANSWER_TIMEOUT {
                return None;
            }
            let has_failed = is_over && probing.chance() < CHANCE_MAX;
            let next = probing.round + usize::from(is_over);
            if !has_failed && next < ROUNDS.len() {
                (probing.round, probing.sent, probing.at) = (next, probing.sent + 1, now);
                return Some(MtuProbe { bytes: probing.bytes, number: probing.number });
            }
            if has_failed {
                self.on_failure();
            } else {
                // Losses are too high for a result.
                (self.probing, self.next) = (None, Some(now + CONFIRM_INTERVAL));
            }
        }
        if self.next.is_some_and(|at| now < at) {
            return None;
        }
        if self.raised.is_none_or(|at| now.saturating_since(at) > RAISE_INTERVAL) {
            (self.raised, self.fails) = (Some(now), None);
        }
        let candidate = self.candidate(wanted);
        // After the search the size is only confirmed.
        if candidate.is_none() {
            self.next = Some(now + CONFIRM_INTERVAL);
        }
        let bytes = candidate.or(self.works)?;
        self.number = self.number % (SIZE_MIN - 1) + 1;
        self.probing = Some(Probing { bytes, number: self.number, round: 0, at: now, sent: 1, answered: 0 });
        Some(MtuProbe { bytes, number: self.number })
    }

    /// Confirms the size now: a datagram was refused, or many are lost.
    pub(super) fn confirm(&mut self, now: Instant) {
        let is_too_soon = self.confirmed_early.is_some_and(|at| now.saturating_since(at) < EARLY_CONFIRM_INTERVAL);
        if self.probing.is_none() && !is_too_soon {
            (self.confirmed_early, self.next) = (Some(now), None);
        }
    }

    fn on_failure(&mut self) {
        let Some(probing) = self.probing.take() else { return };
        self.fails = Some(self.fails.map_or(probing.bytes, |f| f.min(probing.bytes)));
        // A size that passed before: the path has changed.
        if self.works.is_some_and(|w| w >= probing.bytes) {
            (self.works, self.next) = (Some(SIZE_MIN), None);
        }
    }

    /// A probe of this size, or a companion with this number, arrived.
    pub(super) fn on_answer(&mut self, bytes: u16) {
        let Some(probing) = &mut self.probing else { return };
        if probing.number == bytes {
            probing.answered = (probing.answered + 1).min(probing.sent * COMPANIONS);
        } else if probing.bytes == bytes {
            self.probing = None;
            self.works = Some(self.works.map_or(bytes, |w| w.max(bytes)));
        }
    }
}

/// Largest datagram that members have use for, IP bytes.
pub(super) fn wanted(settings: &Settings) -> u16 {
    let headers = ENVELOPE_BYTES + SEALED_BYTES + 2 * TAG_BYTES;
    settings.mtu.saturating_add((headers + UDP_OVER_IPV6) as u16)
}

/// Path MTU of the link to a member, IP bytes.
pub(super) fn of_link(net: &Network, member: route::Member) -> u16 {
    net.peers.get(&member).map_or(ETHERNET, |p| p.path_mtu.known(wanted(&net.settings)))
}

/// Largest inner packet on a path, bytes.
pub(super) fn packet_max(net: &Network, link_state: &LinkState, path: &Path) -> usize {
    let first = net.peers.get(&path.first_hop()).and_then(|p| p.endpoint.current).map_or(UDP_OVER_IPV6, outer);
    let own = usize::from(of_link(net, path.first_hop())).saturating_sub(first);
    let further = path.links(net.own).skip(1).map(|link| {
        let advertised = link_state.datagram_max(link).unwrap_or(ETHERNET);
        usize::from(advertised.max(SIZE_MIN)).saturating_sub(UDP_OVER_IPV6)
    });
    let datagram = further.chain([own]).min().unwrap_or(own);
    datagram.saturating_sub(head(path) + tail(path)).min(usize::from(net.settings.mtu))
}

/// A message of `bytes` IP bytes, or as small as it can be, that asks for an answer with `number`.
pub(super) fn probe(number: u16, bytes: usize, to: SocketAddr) -> Vec<u8> {
    let mut message = Message::SizeAsked { bytes: number }.encode();
    let filled = bytes.saturating_sub(outer(to) + SEALED_BYTES + TAG_BYTES);
    message.resize(filled.max(message.len()), 0);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    /// Lets what is due be answered at once where it is not too large, nor lost; says how many were asked.
    fn pass(sizes: &mut PathMtuDiscovery, now: Instant, wanted: u16, mut arrives: impl FnMut(u16) -> bool) -> usize {
        let Some(due) = sizes.poll(now, wanted, RTT) else { return 0 };
        for bytes in [due.bytes].into_iter().chain((0..COMPANIONS).map(|_| due.number)) {
            if arrives(bytes) {
                sizes.on_answer(bytes);
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
    fn the_probability_is_that_of_an_urn_without_replacement() {
        let of =
            |sent, answered| Probing { bytes: 1500, number: 1, round: 0, at: Instant::ZERO, sent, answered }.chance();
        // One of 36 choose 6; no answer at all says nothing; 14 choose 6 of 36 choose 6.
        assert!((of(6, 30) * 1_947_792.0 - 1.0).abs() < 1e-9);
        assert_eq!(of(6, 0), 1.0);
        assert!((of(6, 22) * 1_947_792.0 / 3003.0 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn losses_of_all_sizes_do_not_lower_the_size() {
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
            assert!(known <= carries && known + RESOLUTION >= carries.min(wanted), "{known} of {carries}");
            // Six datagrams of each of log2(7916 / 8) sizes that fail, at most.
            assert!(asked <= 6 * (2 + 10), "{asked}");
            let start = start + Duration::from_secs(10);
            let (known, asked) = after(&mut sizes, start, Duration::from_secs(60), wanted, 1400);
            assert!(known <= 1400 && known + RESOLUTION >= carries.min(1400), "{known} after the change");
            assert!(asked <= 6 * (2 + 10), "{asked}");
            let (known, _) = after(&mut sizes, start + Duration::from_secs(60), RAISE_INTERVAL, wanted, 1500);
            assert!(known + RESOLUTION >= wanted.min(1500), "{known} after it became wider again");
        }
    }
}
