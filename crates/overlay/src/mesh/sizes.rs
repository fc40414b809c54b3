//! Which datagrams a link carries: searched with filler, as packetization layer path MTU discovery does (RFC 8899).

use std::time::Duration;

use route::{Member, Path};
use units::Instant;
use wire::overlay::{ENVELOPE_BYTES, LANE_TRIALS, Message, SEALED_BYTES, TAG_BYTES};

use super::{Mesh, Output};
use crate::seal::{head, outer, tail};

/// Headers of a datagram over IPv6: which protocol others use on their links is not known here, and this is the longer one.
const UDP_OVER_IPV6: usize = 48;
/// What every link carries (IPv6, RFC 8200 section 5): nothing smaller is looked for.
const LEAST: u16 = 1280;
/// What a link is taken to carry as long as nobody knows.
const ETHERNET: u16 = 1500;
/// Trials of a size at least (MAX_PROBES, RFC 8899 section 5.1.2), and at most.
const TRIALS: (u8, u8) = (3, 40);
/// A size is not given up unless the losses of the link explain it with less than this probability: what is lost anyway is not too large.
const CHANCE: f64 = 1e-6;
/// Sizes that are nearer are not told apart.
const GRAIN: u16 = 8;
/// An answer comes within a round trip and this.
const PATIENCE: Duration = Duration::from_millis(200);
/// How often it is looked whether the size still passes, and whether a larger one does by now (PMTU_RAISE_TIMER, RFC 8899 section 5.1.1).
const CONFIRM: Duration = Duration::from_secs(10);
const RAISE: Duration = Duration::from_secs(600);
/// How long a size that came counts: each is confirmed again before.
const LATELY: Duration = Duration::from_secs(12);

/// IP bytes of the datagrams that a link carries.
#[derive(Default)]
pub(super) struct Sizes {
    /// Largest size that passed, and smallest that did not.
    works: Option<u16>,
    fails: Option<u16>,
    trial: Option<Trial>,
    next: Option<Instant>,
    raised: Option<Instant>,
    /// Largest size that came from the member lately.
    seen: Option<(u16, Instant)>,
}

struct Trial {
    bytes: u16,
    at: Instant,
    left: u8,
}

impl Sizes {
    /// Most IP bytes of a datagram to the member.
    pub(super) fn known(&self, wanted: u16) -> u16 {
        let unknown = || if self.fails.is_some() { LEAST } else { wanted.min(ETHERNET) };
        self.works.unwrap_or_else(unknown)
    }

    /// Largest datagram that came from the member.
    pub(super) fn from(&self) -> Option<u16> {
        self.seen.map(|(bytes, _)| bytes)
    }

    fn came(&mut self, now: Instant, bytes: u16) {
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

    /// What is to be tried now; `loss`: share of trials whose datagram or answer is lost whatever its size.
    fn due(&mut self, now: Instant, wanted: u16, rtt: Duration, loss: f64) -> Option<u16> {
        if let Some(trial) = &mut self.trial {
            if now.saturating_since(trial.at) <= rtt + PATIENCE {
                return None;
            }
            if trial.left > 0 {
                (trial.left, trial.at) = (trial.left - 1, now);
                return Some(trial.bytes);
            }
            self.failed();
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
        self.trial = Some(Trial { bytes, at: now, left: trials(loss) - 1 });
        Some(bytes)
    }

    /// The size that is known is tried at once: a datagram was refused.
    fn doubt(&mut self) {
        if self.trial.is_none() {
            self.next = None;
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

    fn passed(&mut self, bytes: u16) {
        if self.trial.as_ref().is_some_and(|t| t.bytes == bytes) {
            self.trial = None;
            self.works = Some(self.works.map_or(bytes, |w| w.max(bytes)));
        }
    }
}

/// Trials after which a size is given up.
fn trials(loss: f64) -> u8 {
    let enough = CHANCE.ln() / loss.clamp(1e-9, 0.99).ln();
    (enough.ceil() as u8).clamp(TRIALS.0, TRIALS.1)
}

impl Mesh {
    /// Most IP bytes of a datagram that members have use for.
    fn wanted_size(&self) -> u16 {
        let headers = ENVELOPE_BYTES + SEALED_BYTES + 2 * TAG_BYTES;
        self.settings.mtu.saturating_add((headers + UDP_OVER_IPV6) as u16)
    }

    /// Most IP bytes of a datagram on the link to a member.
    pub(super) fn size_to(&self, member: Member) -> u16 {
        self.others.get(&member).map_or(ETHERNET, |o| o.sizes.known(self.wanted_size()))
    }

    /// Largest inner packet that a path carries.
    pub(super) fn most_on(&self, path: &Path) -> usize {
        let first = self.others.get(&path.first_hop()).and_then(|o| o.endpoint).map_or(UDP_OVER_IPV6, outer);
        let own = usize::from(self.size_to(path.first_hop())).saturating_sub(first);
        let further = path.links(self.own).skip(1).map(|link| {
            let told = self.claims.get(&link).and_then(|(claim, _)| claim.datagram).unwrap_or(ETHERNET);
            // By which protocol others reach each other is not known here.
            usize::from(told).saturating_sub(UDP_OVER_IPV6)
        });
        let datagram = further.chain([own]).min().unwrap_or(own);
        datagram.saturating_sub(head(path) + tail(path)).min(usize::from(self.settings.mtu))
    }

    /// Tries sizes that are due.
    pub(super) fn tend_sizes(&mut self, now: Instant) {
        let all: Vec<Member> = self.others.keys().copied().collect();
        for member in all {
            let wanted = self.wanted_size();
            let Some(other) = self.others.get_mut(&member) else { continue };
            let rtt = other.link.rtt().unwrap_or_default();
            if !other.link.is_up() {
                // What is no longer heard of says nothing about a size.
                other.sizes = Sizes::default();
                continue;
            }
            let before = other.sizes.known(wanted);
            let loss = 1.0 - (1.0 - other.link.loss_to()) * (1.0 - other.link.loss_from().share);
            let due = other.sizes.due(now, wanted, rtt, loss);
            self.changed |= other.sizes.known(wanted) != before;
            if let Some(bytes) = due {
                self.try_size(now, member, bytes);
            }
        }
    }

    /// This host's device or route refused datagrams as too large. Whose is not known: all sizes are confirmed now.
    pub(crate) fn handle_oversize(&mut self) {
        for other in self.others.values_mut() {
            other.sizes.doubt();
        }
    }

    fn try_size(&mut self, now: Instant, member: Member, bytes: u16) {
        let Some(to) = self.others.get(&member).and_then(|o| o.endpoint) else { return };
        let mut message = Message::SizeAsked { bytes }.encode();
        message.resize(usize::from(bytes).saturating_sub(outer(to) + SEALED_BYTES + TAG_BYTES), 0);
        if let Some((to, datagram)) = self.sealed(now, Path::direct(member), LANE_TRIALS, &message) {
            let each = datagram.len();
            self.outputs.push_back(Output::Trial { to, datagrams: datagram, each });
        }
    }

    /// A datagram of this size came.
    pub(super) fn heed_size(&mut self, now: Instant, from: Member, bytes: u16) {
        if let Some(other) = self.others.get_mut(&from) {
            other.sizes.came(now, bytes);
        }
        self.tell(now, from, &Message::SizeSeen { bytes });
    }

    /// A datagram of ours of this size arrived.
    pub(super) fn heed_size_seen(&mut self, from: Member, bytes: u16) {
        let wanted = self.wanted_size();
        let Some(other) = self.others.get_mut(&from) else { return };
        let before = other.sizes.known(wanted);
        other.sizes.passed(bytes);
        self.changed |= other.sizes.known(wanted) != before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known of a link that carries `carries`, after so long.
    fn after(sizes: &mut Sizes, from: Instant, span: Duration, wanted: u16, carries: u16) -> (u16, usize) {
        let (mut now, mut asked) = (from, 0);
        while now < from + span {
            if let Some(bytes) = sizes.due(now, wanted, Duration::from_millis(20), 0.0) {
                asked += 1;
                if bytes <= carries {
                    sizes.passed(bytes);
                }
            }
            now = now + Duration::from_millis(20);
        }
        (sizes.known(wanted), asked)
    }

    #[test]
    fn what_is_lost_anyway_is_not_too_large() {
        assert_eq!([0.0, 0.01, 0.1, 0.28, 0.99].map(trials), [3, 3, 6, 11, 40]);
        let (mut draws, mut now) = (crate::draws::Draws::new(4), Instant::from_nanos(1));
        let mut sizes = Sizes::default();
        // A day of 15 % of loss both ways, confirmed each half a minute.
        let end = now + Duration::from_secs(86_400);
        while now < end {
            if let Some(bytes) = sizes.due(now, 1500, Duration::from_millis(20), 0.28)
                && draws.unit() > 0.28
            {
                sizes.passed(bytes);
            }
            now = now + Duration::from_millis(100);
            assert!(sizes.works.is_none_or(|w| w == 1500) && sizes.fails.is_none());
        }
    }

    #[test]
    fn the_size_of_a_link_is_found_and_followed() {
        let start = Instant::from_nanos(1);
        // Ethernet, PPPoE, an IPv6 tunnel, jumbo frames, less than all of it, and the least.
        for (wanted, carries) in [(1500, 1500), (1500, 1492), (1500, 1480), (9196, 9000), (9196, 1500), (1500, 1280)] {
            let mut sizes = Sizes::default();
            let (known, asked) = after(&mut sizes, start, Duration::from_secs(10), wanted, carries);
            assert!(known <= carries && known + GRAIN >= carries.min(wanted), "{known} of {carries}");
            // Three trials of each of log2(7916 / 8) sizes that fail, at most.
            assert!(asked <= 3 * (2 + 10), "{asked}");
            let start = start + Duration::from_secs(10);
            let (known, asked) = after(&mut sizes, start, Duration::from_secs(60), wanted, 1400);
            assert!(known <= 1400 && known + GRAIN >= carries.min(1400), "{known} after the change");
            assert!(asked <= 3 * (2 + 10), "{asked}");
            let (known, _) = after(&mut sizes, start + Duration::from_secs(60), RAISE, wanted, 1500);
            assert!(known + GRAIN >= wanted.min(1500), "{known} after it became wider again");
        }
    }
}
