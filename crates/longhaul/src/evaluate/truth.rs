//! Reference values for the path of the transfer: capacity and available bandwidth, from the counters of the links.
//!
//! Rates are those of IP bits in full packets. A link also counts its overhead: a link of 100 Mb/s with the 38 bytes of
//! Ethernet has a capacity of 100 * 1500 / 1538 Mb/s. The available bandwidth is the capacity times the share of time
//! in which the link is not busy with cross traffic; the probes of the methods are not cross traffic.

use link::{Capacity, Settings};
use scenario::{LinkDirection, Medium, Scenario};

use super::directory::{Usage, Used};

/// Name of a LAN's switch in records.
const SWITCH: &str = "switch";

/// Size of the headers of IPv4 and TCP with timestamps, in bytes.
const TCP_HEADER_BYTES: u32 = 52;

/// Minimum time over which load is averaged; over 0.1 s, utilisation is dominated by chance.
const WINDOW_S_MIN: f64 = 1.0;

/// Time span on the clock of the run, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Window {
    pub(super) start_s: f64,
    pub(super) end_s: f64,
}

impl Window {
    const fn middle(self) -> f64 {
        f64::midpoint(self.start_s, self.end_s)
    }

    /// Window widened on both sides to at least [`WINDOW_S_MIN`].
    fn widened(self) -> Self {
        let missing_s = (WINDOW_S_MIN - (self.end_s - self.start_s)).max(0.0) / 2.0;
        Self { start_s: self.start_s - missing_s, end_s: self.end_s + missing_s }
    }

    /// Length of the part of a span that lies within the window, in seconds.
    fn overlap(self, start_s: f64, end_s: f64) -> f64 {
        (end_s.min(self.end_s) - start_s.max(self.start_s)).max(0.0)
    }
}

/// Probes of a method, spread evenly over its window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) window: Window,
    pub(super) bytes: f64,
    pub(super) packets: f64,
}

/// Path from the sender to the receiver.
pub(super) struct Path {
    hops: Vec<Hop>,
    /// Path MTU in bytes.
    mtu: u32,
    round_trip_s: f64,
}

/// One direction of a link on the path.
struct Hop {
    link: String,
    from: String,
    /// Settings with their start times in seconds, earliest first.
    settings: Vec<(f64, Settings)>,
}

impl Path {
    /// Follows the routes of a scenario; `None` without a route.
    pub(super) fn of(scenario: &Scenario, from: usize, to: usize) -> Option<Self> {
        let mtu = scenario.path_segments(from, to)?.iter().map(|s| s.mtu).min()?;
        let delay = |from, to| -> Option<f64> {
            Some(scenario.path_segments(from, to)?.iter().map(|s| s.settings.delay.as_secs_f64()).sum())
        };
        let round_trip_s = delay(from, to)? + delay(to, from)?;
        let (mut here, mut hops) = (from, Vec::new());
        while here != to {
            let route = scenario.nodes.get(here)?.routes.iter().find(|r| r.to == to)?;
            hops.extend(hops_over(scenario, route.over, here, route.next)?);
            here = route.next;
        }
        Some(Self { hops, mtu, round_trip_s })
    }

    /// Propagation delay of the round trip at the start of the run, in seconds.
    pub(super) const fn round_trip_s(&self) -> f64 {
        self.round_trip_s
    }

    /// Share of TCP payload in a full packet.
    pub(super) fn payload_share(&self) -> f64 {
        f64::from(self.mtu.saturating_sub(TCP_HEADER_BYTES)) / f64::from(self.mtu)
    }

    /// Capacity of the bottleneck link in the middle of a window, in b/s; `None` if no link has a constant rate, or if
    /// a link follows a trace.
    pub(super) fn capacity(&self, window: Window) -> Option<f64> {
        self.minimum(|hop| hop.capacity(self.mtu, window.middle()))
    }

    /// Minimum available bandwidth of the links in a window, in b/s; `None` like the capacity, or without counters of a
    /// link.
    pub(super) fn available(&self, window: Window, usage: &Usage, sent: &[Sent]) -> Option<f64> {
        let window = window.widened();
        self.minimum(|hop| match hop.capacity(self.mtu, window.middle()) {
            Rate::Constant(_) => hop.available(self.mtu, window, usage.of(&hop.link, &hop.from), sent),
            other @ (Rate::Unbounded | Rate::Unknown) => other,
        })
    }

    fn minimum(&self, of: impl Fn(&Hop) -> Rate) -> Option<f64> {
        let mut minimum: Option<f64> = None;
        for hop in &self.hops {
            match of(hop) {
                Rate::Constant(bps) => minimum = Some(minimum.map_or(bps, |m| m.min(bps))),
                Rate::Unbounded => {}
                Rate::Unknown => return None,
            }
        }
        minimum
    }
}

enum Rate {
    /// IP bits per second in full packets.
    Constant(f64),
    Unbounded,
    Unknown,
}

impl Hop {
    fn at(&self, time_s: f64) -> Option<&Settings> {
        let now = self.settings.iter().rev().find(|(from_s, _)| *from_s <= time_s);
        now.or_else(|| self.settings.first()).map(|(_, settings)| settings)
    }

    fn capacity(&self, mtu: u32, time_s: f64) -> Rate {
        match self.at(time_s).map(|s| (&s.capacity, s.overhead)) {
            Some((Capacity::Constant(rate), overhead)) => {
                Rate::Constant(rate.as_bps() as f64 * f64::from(mtu) / f64::from(overhead.wire(mtu)))
            }
            Some((Capacity::Unlimited, _)) => Rate::Unbounded,
            Some((Capacity::Trace(_), _)) | None => Rate::Unknown,
        }
    }

    /// Mean available bandwidth over the window.
    fn available(&self, mtu: u32, window: Window, usage: &[Used], sent: &[Sent]) -> Rate {
        let (mut bits, mut time_s) = (0.0, 0.0);
        for used in usage {
            let within_s = window.overlap(used.start_s, used.end_s);
            let span = Window { start_s: used.start_s, end_s: used.end_s };
            let Rate::Constant(capacity) = self.capacity(mtu, span.middle()) else { return Rate::Unknown };
            if within_s > 0.0 {
                let free = 1.0 - used.share + self.own_share(span, sent);
                bits += free * capacity * within_s;
                time_s += within_s;
            }
        }
        // Spreading probes evenly can overfill a single interval; the clamp limits the effect on the mean.
        let mean = if time_s > 0.0 { bits / time_s } else { return Rate::Unknown };
        match self.capacity(mtu, window.middle()) {
            Rate::Constant(capacity) => Rate::Constant(mean.clamp(0.0, capacity)),
            other @ (Rate::Unbounded | Rate::Unknown) => other,
        }
    }

    /// Share of a span in which the link transmits probes of the methods.
    fn own_share(&self, span: Window, sent: &[Sent]) -> f64 {
        let Some(settings) = self.at(span.middle()) else { return 0.0 };
        let Capacity::Constant(rate) = settings.capacity else { return 0.0 };
        let length_s = span.end_s - span.start_s;
        if length_s <= 0.0 || rate.as_bps() == 0 {
            return 0.0;
        }
        let own = sent.iter().filter(|s| s.packets > 0.0).map(|s| {
            let wire = f64::from(settings.overhead.wire((s.bytes / s.packets) as u32));
            let part = s.window.overlap(span.start_s, span.end_s) / (s.window.end_s - s.window.start_s).max(1e-9);
            wire * s.packets * 8.0 * part
        });
        own.sum::<f64>() / (rate.as_bps() as f64 * length_s)
    }
}

/// Hops of one link, or of both ports of a LAN, in one direction.
fn hops_over(scenario: &Scenario, over: Medium, here: usize, next: usize) -> Option<Vec<Hop>> {
    let name = |node: usize| scenario.nodes.get(node).map(|n| n.name.clone());
    match over {
        Medium::Link(index) => {
            let link = scenario.links.get(index)?;
            let (direction, initial) = match link.between {
                [first, _] if first == here => (LinkDirection::Forward, &link.forward),
                _ => (LinkDirection::Backward, &link.backward),
            };
            let changes = scenario.schedule.iter().filter(|c| (c.link, c.direction) == (index, direction));
            let later = changes.map(|c| (c.at.as_secs_f64(), c.settings.clone()));
            let settings = std::iter::once((0.0, initial.clone())).chain(later).collect();
            Some(vec![Hop { link: link.name.clone(), from: name(here)?, settings }])
        }
        Medium::Lan(index) => {
            let lan = scenario.lans.get(index)?;
            let port = |member: usize, from: String, settings: &Settings| -> Option<Hop> {
                let link = format!("{}/{}", lan.name, name(member)?);
                Some(Hop { link, from, settings: vec![(0.0, settings.clone())] })
            };
            Some(vec![port(here, name(here)?, &lan.up)?, port(next, SWITCH.to_owned(), &lan.down)?])
        }
    }
}
