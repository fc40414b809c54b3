//! The gossip as a part of the member: what it wants done, and when.

use std::time::Duration;

use route::Member;
use units::Instant;

use super::{Event, Mesh, Output};
use crate::gossip::{CLAIMS_EVERY, FromGossip, ROUND};
use crate::settings::is_known_elsewhere;

/// When the gossip is due next.
pub(super) struct Due {
    round: Instant,
    claims: Instant,
}

impl Due {
    pub(super) const fn at(now: Instant) -> Self {
        Self { round: now, claims: now }
    }

    /// The earlier of both.
    pub(super) fn next(&self) -> Instant {
        self.round.min(self.claims)
    }

    /// No more gossip.
    #[cfg(test)]
    pub(super) const fn never() -> Self {
        Self { round: Instant::from_nanos(u64::MAX), claims: Instant::from_nanos(u64::MAX) }
    }
}

/// Whether a time has come; if so, it moves on by a period, and past a gap in which nothing was done.
fn is_due(at: &mut Instant, now: Instant, period: Duration) -> bool {
    let is_due = *at <= now;
    if is_due {
        *at = (*at + period).max(now);
    }
    is_due
}

impl Mesh {
    /// Advertises this member's links and certificates, and asks another member for news, each at its interval.
    pub(super) fn tend_gossip(&mut self, now: Instant) {
        if is_due(&mut self.gossip_due.claims, now, CLAIMS_EVERY) {
            let claims = self.own_claims(now);
            let outputs = self.gossip.handle_claims(now, claims);
            self.take_gossip(now, outputs);
            if self.has_introductions() {
                let all = self.introductions(now).into_iter();
                let all = all.map(|(member, text, at)| (member, text, at.filter(is_known_elsewhere))).collect();
                self.gossip.handle_introductions(now, all);
            }
            if std::mem::take(&mut self.certificates_again) {
                let outputs = self.gossip.certificates();
                self.take_gossip(now, outputs);
            }
        }
        if is_due(&mut self.gossip_due.round, now, ROUND) {
            let outputs = self.gossip.handle_round(now);
            self.take_gossip(now, outputs);
        }
    }

    /// Whether this member gossips.
    #[cfg(test)]
    pub(crate) fn set_gossip(&mut self, now: Instant, gossips: bool) {
        let is_silent = self.gossip_due.next() == Due::never().next();
        if gossips == is_silent {
            self.gossip_due = if gossips { Due::at(now) } else { Due::never() };
        }
    }

    /// Takes a whole message of the gossip.
    pub(super) fn handle_gossip(&mut self, now: Instant, from: Member, bytes: &[u8]) {
        let outputs = self.gossip.handle_message(now, from, bytes);
        self.take_gossip(now, outputs);
    }

    fn take_gossip(&mut self, now: Instant, outputs: Vec<FromGossip>) {
        for output in outputs {
            match output {
                FromGossip::Send { to, bytes } => self.send_gossip(now, to, &bytes),
                FromGossip::Claim { from, to, claim, relayed_bps } => {
                    #[cfg(test)]
                    let claim = claim.map(|claim| if self.lie.0 == to { (self.lie.1)(claim) } else { claim });
                    self.handle_claim(now, from, to, claim, relayed_bps);
                }
                FromGossip::Introduction { by, text, endpoint } => {
                    self.handle_introduction(now, by, &text, endpoint.filter(is_known_elsewhere));
                }
                FromGossip::DuplicateIdentity => self.outputs.push_back(Output::Event(Event::DuplicateIdentity)),
            }
        }
    }
}
