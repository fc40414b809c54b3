//! Probes for losses: where traffic is too thin to tell, as many as their byte budget pays for, and for a while several times as many where something is in doubt.

use std::time::Duration;

use route::{Member, Path};
use units::{Instant, Rate};
use wire::overlay::{Message, SPACE_DIRECT, SPACE_RELAYED, SPACE_SENSOR};

use super::capacity::PART;
use super::{Core, Peer};
use crate::bucket::{Bucket, Limit};
use crate::encapsulate::outer;
use crate::rate_meter::RateMeter;
use crate::sensor::LossSensor;

/// Bytes of a probe behind the headers of its datagram: frame 40, message 1.
const PROBE_BYTES: usize = 41;
/// Probes a second on a link: at least so many, so that silence is noticed, at most so many: what tells 5 % of loss from 15 % within a
/// second, surely enough for the route control.
const PROBES: (f64, f64) = (10.0, 800.0);
/// The most while the overlay rests: enough to know each link by what was counted in 20 s, and to be in doubt of one that becomes worse within a second, from when on it is
/// probed [`BOOST`].
const IDLE_RATE_MAX: f64 = 40.0;
/// It rests when there was no traffic for so long, since a member began, too: the next flow may follow soon.
const IDLE_AFTER: Duration = Duration::from_secs(60);
/// So many bytes within such a span are no traffic: what is typed, a ping each second.
const IDLE_BYTES_MAX: u64 = 20_000;
const SPAN: Duration = Duration::from_secs(10);
/// Links that may have the most; with more, each gets less.
const PROBED_LINKS: f64 = 4.0;
/// What a link is taken to carry as long as nobody knows: what 1 % of it pays for is 100 kb/s.
const ASSUMED: Rate = Rate::from_bps(10_000_000);
/// How many times as often a link in doubt is probed as the budget pays for, out of what has been saved: by less than a tenth of the link.
const BOOST: f64 = 8.0;
/// What is saved at most, in seconds of the budget: enough to look so closely for four seconds. Half of it is there at the begin.
const SAVED: Limit = Limit { per_second: 1.0, burst: 30.0 };
/// For how long all links are looked at so closely when some link has become worse: what traffic leaves it for is to be known soon, and 0.05 is told
/// from 0.15 by 320 frames a second, as 8 % of 3 Mb/s pay for, within a second and a round trip over satellites.
const ALERT: Duration = Duration::from_millis(1500);
/// The next such time begins this much later at the earliest, so that a link which changes all the time, or who says so, leaves something saved for others.
const ALERT_INTERVAL: Duration = Duration::from_secs(20);
/// Of the budget, what is spent while there is less saved than nearly all of that.
const SAVING: f64 = 0.6;
const FULL_SHARE: f64 = 0.9;

/// Whether packets go over the overlay, anybody's: as long as they do, all look closely at their links, any of which may be the way to take next.
pub(super) struct Traffic {
    /// Begin of the present [`SPAN`], and what of this member's packets has arrived since.
    since: Instant,
    bytes: u64,
    /// When it was last more than [`IDLE_BYTES_MAX`] of this member's, and of anybody's.
    own: Option<Instant>,
    anybody: Instant,
}

impl Traffic {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, bytes: 0, own: None, anybody: now }
    }

    /// So many bytes of this member's packets have arrived.
    pub(super) fn note(&mut self, now: Instant, bytes: u64) {
        if now.saturating_since(self.since) >= SPAN {
            (self.since, self.bytes) = (now, 0);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > IDLE_BYTES_MAX {
            (self.own, self.anybody) = (Some(now), now);
        }
    }

    /// Another member says that it sends.
    pub(super) fn note_others(&mut self, now: Instant) {
        self.anybody = now;
    }

    /// Whether this member sends, or did a moment ago.
    pub(super) fn is_own(&self, now: Instant) -> bool {
        self.own.is_some_and(|at| now.saturating_since(at) < IDLE_AFTER)
    }

    fn is_idle(&self, now: Instant) -> bool {
        now.saturating_since(self.anybody) >= IDLE_AFTER
    }
}

/// When a link is probed, and what that took.
#[derive(Default)]
pub(super) struct Probing {
    pub(super) next: Option<Instant>,
    /// When the next one of the sensor is due.
    pub(super) next_of_sensor: Option<Instant>,
    /// Frames sent on the link when it was last looked whether they suffice, with probes and reports since: these are no traffic.
    frames: u64,
    looked: Option<Instant>,
    sent: u64,
    /// What probes of the link and of ways that begin with it, trains and trials of sizes took, IP bytes.
    rate_meter: RateMeter,
    /// Seconds of the budget that are spent ahead.
    ahead: Option<Bucket>,
    /// What a byte takes of them.
    per_byte: f64,
}

/// What a budget pays for in the long run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Affordable {
    /// Probes a second.
    rate: f64,
    /// IP bytes of a probe.
    bytes: f64,
}

impl Probing {
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    pub(super) fn rate_meter(&self, now: Instant) -> Rate {
        self.rate_meter.rate(now)
    }

    /// Trains, which have a [`PART`] of the budget for themselves.
    pub(super) fn note_train(&mut self, now: Instant, bytes: usize) {
        self.rate_meter.note(now, bytes as u64);
    }

    /// A probe of so many IP bytes was sent; of 0: it could not be.
    pub(super) fn note_probe(&mut self, now: Instant, bytes: usize) {
        self.sent += u64::from(bytes > 0);
        self.pay(now, bytes as f64);
    }

    /// A datagram of so many IP bytes that finds something else out than losses of the link: the fewer probes for these follow.
    pub(super) fn pay(&mut self, now: Instant, bytes: f64) {
        self.ahead.iter_mut().for_each(|ahead| ahead.put(self.per_byte * bytes));
        self.rate_meter.note(now, bytes as u64);
    }

    /// What is said of traffic is none: a slow link needs all the probes that it pays for.
    pub(super) fn note_report(&mut self) {
        self.frames += 1;
    }

    /// Probes a second.
    pub(super) fn pace(&mut self, now: Instant, affordable: Affordable, is_in_doubt: bool) -> f64 {
        let each = 1.0 / affordable.rate.max(PROBES.0);
        self.per_byte = each / affordable.bytes;
        let affordable = affordable.rate;
        let begin = || {
            let mut half = Bucket::new(now);
            half.put(SAVED.burst / 2.0);
            half
        };
        let saved = self.ahead.get_or_insert_with(begin).room(now, SAVED);
        if is_in_doubt && saved >= each {
            (BOOST * affordable).min(PROBES.1).max(affordable)
        } else if !is_in_doubt && saved < FULL_SHARE * SAVED.burst {
            SAVING * affordable
        } else {
            affordable
        }
    }
}

impl Core {
    /// Sends probes that are due, where the traffic of the last while was not enough.
    pub(super) fn send_probes(&mut self, now: Instant) {
        let closely = self.alerted.is_some_and(|at| now.saturating_since(at) < ALERT);
        for member in self.direct_members() {
            let affordable = self.affordable_probes(now, member);
            let Some(peer) = self.peers.get_mut(&member) else { continue };
            if peer.link.probing().next.is_some_and(|at| now < at) {
                continue;
            }
            // That a link is down or works again is known by few, and a sensor has probes of its own for losses.
            let is_sensed = peer.link.is_up() && self.settings.sensor.is_none();
            let rate = if is_sensed { peer.link.pace(now, affordable, closely).max(PROBES.0) } else { PROBES.0 };
            let gap = self.prng.exponential(Duration::from_secs_f64(1.0 / rate));
            peer.link.probing().next = peer.session().map(|_| now + gap);
            if peer.needs_probe(now, rate) {
                self.probe(now, member, SPACE_DIRECT);
            }
        }
    }

    /// Sends a probe directly, and counts what it takes.
    pub(super) fn probe(&mut self, now: Instant, member: Member, space: u8) {
        let bytes = self.send_on(now, Path::direct(member), space, &Message::Probe.encode());
        if let Some(peer) = self.peers.get_mut(&member) {
            peer.link.probing().note_probe(now, bytes);
        }
    }

    /// Sends the probes of the paper's sensor that are due, on all links, those that are down, too.
    pub(super) fn send_sensors_probes(&mut self, now: Instant) {
        let Some(spacing) = self.settings.sensor.map(LossSensor::spacing) else { return };
        for member in self.direct_members() {
            let Some(peer) = self.peers.get_mut(&member) else { continue };
            let has_session = peer.session().is_some();
            let probing = peer.link.probing();
            let due = probing.next_of_sensor.unwrap_or(now);
            if now < due {
                continue;
            }
            // What a tick is late the next one makes up for, what a member stood still nobody does.
            let from = if now.saturating_since(due) < spacing { due } else { now };
            probing.next_of_sensor = has_session.then_some(from + spacing);
            if has_session {
                self.probe(now, member, SPACE_SENSOR);
            }
        }
    }

    /// Some link, anybody's, loses more than before.
    pub(super) fn alert(&mut self, now: Instant) {
        if self.alerted.is_none_or(|at| now.saturating_since(at) >= ALERT_INTERVAL) {
            self.alerted = Some(now);
        }
    }

    /// Whether nobody has sent anything to speak of for a while, so that links are probed less.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        self.traffic.is_idle(now)
    }

    /// What probes of all kinds may cost on the link to a member, b/s.
    pub(super) fn probe_budget(&self, member: Member) -> f64 {
        let carries = self.within_access(self.peers.get(&member).and_then(|o| o.trains.carries()));
        self.settings.probe_share * carries.unwrap_or(ASSUMED).as_bps() as f64
    }

    /// Probes that the budget of the link to a member pays for.
    fn affordable_probes(&self, now: Instant, member: Member) -> Affordable {
        let links = self.peers.values().filter(|o| o.session().is_some()).count() as f64;
        let endpoint = self.peers.get(&member).and_then(|o| o.endpoint);
        let bytes = (PROBE_BYTES + endpoint.map_or(0, outer)) as f64;
        let affordable = self.probe_budget(member) * (1.0 - PART) / 8.0 / bytes;
        let most = if self.is_idle(now) { IDLE_RATE_MAX } else { PROBES.1 };
        Affordable { rate: affordable.min(most) * (PROBED_LINKS / links.max(1.0)).min(1.0), bytes }
    }
}

impl Peer {
    /// Whether fewer frames went out since the last look than the probes would have been.
    fn needs_probe(&mut self, now: Instant, rate: f64) -> bool {
        let Some(session) = self.session().cloned() else { return false };
        let sent = session.sent(SPACE_DIRECT) + session.sent(SPACE_RELAYED);
        let probing = self.link.probing();
        let passed = probing.looked.map_or(0.0, |at| now.saturating_since(at).as_secs_f64());
        let enough = passed > 0.0 && sent.saturating_sub(probing.frames) as f64 > rate * passed;
        (probing.frames, probing.looked) = (sent + u64::from(!enough), Some(now));
        !enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes in so many seconds, at the pace of a link whose budget pays for 40 a second.
    fn probes(probing: &mut Probing, now: &mut Instant, seconds: f64, is_in_doubt: bool) -> u64 {
        let (before, end) = (probing.sent(), *now + Duration::from_secs_f64(seconds));
        while *now < end {
            let affordable = Affordable { rate: 40.0, bytes: 69.0 };
            *now = *now + Duration::from_secs_f64(1.0 / probing.pace(*now, affordable, is_in_doubt));
            probing.note_probe(*now, 69);
        }
        probing.sent() - before
    }

    #[test]
    fn a_link_in_doubt_is_looked_at_closely_out_of_what_was_saved() {
        let (mut probing, mut now) = (Probing::default(), Instant::from_nanos(1_000_000_000));
        // Half of what is saved at most: 15 s of the budget, which last for 15 / (8 - 1) s.
        let first = probes(&mut probing, &mut now, 3.0, true);
        assert!((700..=722).contains(&first), "{first}");
        let then = probes(&mut probing, &mut now, 1.0, true);
        assert!((36..=43).contains(&then), "no more than the budget gives: {then}");
        // 27 s of it are saved, at 0.4 of it, after 67.5 s.
        let rest = probes(&mut probing, &mut now, 100.0, false);
        assert!((2700..=3000).contains(&rest), "{rest}");
        let second = probes(&mut probing, &mut now, 4.0, true);
        assert!((1160..=1285).contains(&second), "{second}");
    }

    #[test]
    fn however_often_it_is_in_doubt_the_budget_is_kept() {
        let (mut probing, mut now) = (Probing::default(), Instant::from_nanos(1_000_000_000));
        let begin = now;
        let all: u64 = (0..2000).map(|n| probes(&mut probing, &mut now, 0.5, n % 3 == 0)).sum();
        // And the 15 s that were there.
        let paid = 40.0 * (now.saturating_since(begin).as_secs_f64() + 15.0);
        assert!((0.97..=1.0).contains(&(all as f64 / paid)), "{all} of {paid}");
    }
}
