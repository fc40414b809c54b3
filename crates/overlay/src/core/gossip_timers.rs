//! Gossip of a member: its timers, its inputs, and the effects of its outputs.

use std::time::Duration;

use route::Member;
use units::Instant;

use super::{Core, Event, Output};
use crate::gossip::{ADVERTISEMENT_INTERVAL, GossipOutput, ROUND};
use crate::settings::is_known_elsewhere;

/// Times of the next gossip.
pub(super) struct GossipTimers {
    /// A peer is asked for news.
    round: Instant,
    /// Own links and certificates are advertised.
    advertisements: Instant,
}

impl GossipTimers {
    pub(super) const fn new(now: Instant) -> Self {
        Self { round: now, advertisements: now }
    }

    /// The earlier of both.
    pub(super) fn next(&self) -> Instant {
        self.round.min(self.advertisements)
    }

    /// Timers that never expire.
    #[cfg(test)]
    pub(super) const fn stopped() -> Self {
        Self { round: Instant::from_nanos(u64::MAX), advertisements: Instant::from_nanos(u64::MAX) }
    }
}

/// Whether a timer has expired; if so, sets it to its next time, at the earliest now.
fn expired(at: &mut Instant, now: Instant, period: Duration) -> bool {
    let expired = *at <= now;
    if expired {
        *at = (*at + period).max(now);
    }
    expired
}

impl Core {
    /// Advertises this member's links and certificates, and asks another member for news, each at its interval.
    pub(super) fn advance_gossip(&mut self, now: Instant) {
        if expired(&mut self.gossip_timers.advertisements, now, ADVERTISEMENT_INTERVAL) {
            let advertisements = self.own_advertisements(now);
            let outputs = self.gossip.handle_own_links(now, advertisements);
            self.apply_gossip(now, outputs);
            if self.has_certificate_news() {
                let all = self.certificates_known(now).into_iter();
                let all = all.map(|(member, text, at)| (member, text, at.filter(is_known_elsewhere))).collect();
                self.gossip.handle_known_certificates(now, all);
            }
            if std::mem::take(&mut self.certificates_again) {
                let outputs = self.gossip.certificates();
                self.apply_gossip(now, outputs);
            }
        }
        if expired(&mut self.gossip_timers.round, now, ROUND) {
            let outputs = self.gossip.handle_round(now);
            self.apply_gossip(now, outputs);
        }
    }

    /// Starts or stops the gossip of this member.
    #[cfg(test)]
    pub(crate) fn set_gossip(&mut self, now: Instant, gossips: bool) {
        let is_silent = self.gossip_timers.next() == GossipTimers::stopped().next();
        if gossips == is_silent {
            self.gossip_timers = if gossips { GossipTimers::new(now) } else { GossipTimers::stopped() };
        }
    }

    /// Handles a complete gossip message of a member.
    pub(super) fn handle_gossip(&mut self, now: Instant, from: Member, bytes: &[u8]) {
        let outputs = self.gossip.handle_message(now, from, bytes);
        self.apply_gossip(now, outputs);
    }

    fn apply_gossip(&mut self, now: Instant, outputs: Vec<GossipOutput>) {
        for output in outputs {
            match output {
                GossipOutput::Send { to, bytes } => self.send_gossip(now, to, &bytes),
                GossipOutput::LinkAdvertisement { from, to, advertisement, relayed_bps } => {
                    #[cfg(test)]
                    let advertisement = advertisement.map(|c| {
                        if self.forged_advertisements.0 == to { (self.forged_advertisements.1)(c) } else { c }
                    });
                    self.handle_advertisement(now, from, to, advertisement, relayed_bps);
                }
                GossipOutput::CertificateAdvertisement { by, text, endpoint } => {
                    self.on_certificate_advertisement(now, by, &text, endpoint.filter(is_known_elsewhere));
                }
                GossipOutput::DuplicateIdentity => self.outputs.push_back(Output::Event(Event::DuplicateIdentity)),
            }
        }
    }
}
