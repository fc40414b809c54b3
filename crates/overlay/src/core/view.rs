//! Links and paths as the status page and the command line show them.

use std::time::Duration;

use route::{Member, Path};
use serde::Serialize;
use units::{Instant, Rate};

use super::Core;
use super::link::Direction;
use super::monitor::{probe_budget, within_access};
use super::path_mtu;
use super::sessions::UNDECRYPTABLE;
use crate::estimators::{RoundTrip, ThroughputEstimator};
use crate::loss::Loss;
use crate::session::Cipher;

/// The direct link to a member. A link that is down has no metrics.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LinkView {
    pub(crate) up: bool,
    pub(crate) endpoint: Option<String>,
    pub(crate) cipher: Option<Cipher>,
    pub(crate) rtt_us: Option<u64>,
    pub(crate) rtt_latest_us: Option<u64>,
    pub(crate) queueing_delay_us: Option<u64>,
    pub(crate) tx_loss: Option<f64>,
    pub(crate) rx_loss: Option<f64>,
    pub(crate) frames: f64,
    pub(crate) tx_bytes: u64,
    pub(crate) rx_bytes: u64,
    pub(crate) probes: u64,
    /// Recent cost of all probes, and its limit.
    pub(crate) probe_bps: u64,
    pub(crate) probe_budget_bps: u64,
    /// Recent gossip to the member.
    pub(crate) gossip_bps: u64,
    /// Confidence in the metrics of each direction, 0 to 1, and time since the last known arrival.
    pub(crate) tx_confidence: Option<f64>,
    pub(crate) rx_confidence: Option<f64>,
    pub(crate) tx_age_s: Option<f64>,
    pub(crate) rx_age_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tx_capacity_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rx_capacity_bps: Option<u64>,
    /// Time since the last packet train in each direction.
    pub(crate) tx_capacity_age_s: Option<f64>,
    pub(crate) rx_capacity_age_s: Option<f64>,
    pub(crate) capacity_probes: u64,
    /// Largest datagram to the member, IP bytes.
    pub(crate) path_mtu_bytes: u16,
}

/// A path by the reports of its destination.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct PathView {
    /// Recent bytes of packets that arrived, b/s.
    pub(crate) throughput_bps: u64,
    /// Share of frames lost; `None`: nothing was sent yet.
    pub(crate) loss: Option<f64>,
    /// Minimum round trip of the last seconds, microseconds; `None`: unknown.
    pub(crate) rtt_us: Option<u64>,
}

fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

pub(super) fn link(core: &Core, member: Member, now: Instant) -> Option<LinkView> {
    let peer = core.net.peers.get(&member)?;
    let link = &peer.link;
    let is_up = link.is_up();
    let known = |d: &Direction| link.metrics(now, d, None).filter(|_| d.alive.is_some());
    let (to, from) = (known(&link.outgoing), known(&link.incoming));
    let loss = |d: &Direction| is_up.then(|| d.loss.estimate()).filter(|l| l.frames > 0.0).map(|l| l.share);
    let capacity = |rate| within_access(&core.net, rate).map(Rate::as_bps);
    Some(LinkView {
        up: is_up,
        endpoint: peer.endpoint.current.map(|e| e.to_string()),
        cipher: peer.session().map(|s| s.cipher()),
        rtt_us: link.rtt.min().filter(|_| is_up).map(us),
        rtt_latest_us: link.rtt.latest().filter(|_| is_up).map(us),
        queueing_delay_us: is_up.then(|| us(link.queued_to)),
        tx_loss: loss(&link.outgoing),
        rx_loss: loss(&link.incoming),
        frames: link.outgoing.loss.estimate().frames.round(),
        tx_bytes: link.outgoing.bytes,
        rx_bytes: link.incoming.bytes,
        probes: link.probes.sent(),
        probe_bps: link.probes.cost(now).as_bps(),
        probe_budget_bps: probe_budget(&core.net, member) as u64,
        gossip_bps: peer.gossip_meter.rate(now).as_bps(),
        tx_confidence: to.map(|m| m.confidence),
        rx_confidence: from.map(|m| m.confidence),
        tx_age_s: to.map(|m| m.age.as_secs_f64()),
        rx_age_s: from.map(|m| m.age.as_secs_f64()),
        tx_capacity_bps: capacity(peer.capacity.to.capacity()),
        rx_capacity_bps: capacity(peer.capacity.from.capacity()),
        tx_capacity_age_s: peer.capacity.to.age(now).map(|age| age.as_secs_f64()),
        rx_capacity_age_s: peer.capacity.from.age(now).map(|age| age.as_secs_f64()),
        capacity_probes: peer.capacity.sent,
        path_mtu_bytes: path_mtu::of_link(&core.net, member),
    })
}

pub(super) fn path(core: &Core, now: Instant, path: &Path) -> PathView {
    let Some(peer) = core.net.peers.get(&path.destination()) else { return PathView::default() };
    let seen = |throughput: &ThroughputEstimator, loss: &Loss, rtt: &RoundTrip| {
        let loss = loss.estimate();
        PathView {
            throughput_bps: throughput.rate(now).as_bps(),
            loss: (loss.frames > 0.0).then_some(loss.share),
            rtt_us: rtt.min().map(us),
        }
    };
    if path.relays().is_empty() {
        let (throughput, loss, rtt) = peer.link.direct_path();
        return seen(throughput, loss, rtt);
    }
    peer.paths.get(path).map_or_else(PathView::default, |p| seen(&p.throughput, &p.loss, &p.rtt))
}

/// The reasons for which a member cannot be reached, by the state of its handshakes and the advertised links to it;
/// empty: there is a route.
pub(super) fn unreachable_reasons(core: &Core, now: Instant, member: Member) -> Vec<String> {
    let net = &core.net;
    let Some(peer) = net.peers.get(&member).filter(|_| core.routing.routes(member).is_empty()) else {
        return Vec::new();
    };
    let attempts = peer.handshakes.attempts();
    let last_arrival = peer.link.silent_for(now).map(|ago| format!("; last frame {:.0} s ago", ago.as_secs_f64()));
    let undecryptable = peer.handshakes.undecryptable().map(|at| now.saturating_since(at).as_secs_f64());
    let direct = match (net.is_direct(member), peer.endpoint.current, peer.session()) {
        (false, ..) => "disabled (`direct = false`)".to_owned(),
        (true, None, _) => "no endpoint is known; waiting for its handshake".to_owned(),
        (true, Some(at), None) => match undecryptable {
            Some(ago) => format!("handshake with {at}: {UNDECRYPTABLE} ({ago:.0} s ago)"),
            None => format!("no answer to handshakes at {at} (attempts: {attempts})"),
        },
        (true, Some(at), Some(_)) => format!("session established, but no frames get to {at} and back"),
    };
    let neighbours = core.link_state.neighbours(member).filter(|m| *m != net.own);
    let relays: Vec<String> = neighbours.map(|m| net.settings.name_of(m)).collect();
    let relayed = match relays.as_slice() {
        [] => "no member advertises a link to it".to_owned(),
        [one] => format!("{one} advertises a link to it"),
        several => format!("{} advertise links to it", several.join(", ")),
    };
    vec![format!("direct: {direct}{}", last_arrival.unwrap_or_default()), format!("over relays: {relayed}")]
}
