//! A network that reports on its links each 200 ms, with losses counted from packets.

use std::collections::{BTreeMap, VecDeque};

use route::{Control, Decision, Member, Metrics, Path};
use units::{Duration, Instant, Rate};

use crate::draws::Draws;

pub(crate) const SOURCE: Member = Member(0);
pub(crate) const NORTH: Member = Member(1);
pub(crate) const SOUTH: Member = Member(2);
pub(crate) const EAST: Member = Member(3);

/// Between reports.
pub(crate) const STEP: f64 = 0.2;
/// Reports that a loss is counted over: a second.
const WINDOW: usize = 5;

pub(crate) fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

pub(crate) fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

pub(crate) fn via(relay: Member) -> Path {
    Path::via(&[relay], EAST).unwrap()
}

/// Wilson's score interval, 95 % (Wilson, "Probable inference", JASA 22, 1927).
pub(crate) fn wilson(lost: u32, of: u32) -> [f64; 2] {
    let (n, p, z) = (f64::from(of), f64::from(lost) / f64::from(of), 1.96_f64);
    let centre = p + z * z / (2.0 * n);
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    [centre - half, centre + half].map(|x| (x / (1.0 + z * z / n)).clamp(0.0, 1.0))
}

/// What is counted on one link.
#[derive(Default)]
pub(crate) struct Counter(VecDeque<(u32, u32)>);

impl Counter {
    /// The metrics after another report interval, of which `packets` were sent and each lost with probability `loss`.
    pub(crate) fn report(&mut self, draws: &mut Draws, packets: u32, loss: f64, metrics: Metrics) -> Metrics {
        self.0.push_back((packets, draws.lost(packets, loss)));
        if self.0.len() > WINDOW {
            self.0.pop_front();
        }
        let (sent, lost) = self.0.iter().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let [low, high] = wilson(lost, sent);
        let share = f64::from(lost) / f64::from(sent);
        Metrics { loss: share, loss_low: low.min(share), loss_high: high.max(share), ..metrics }
    }
}

/// One of two bridges, as it is in truth.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bridge {
    pub(crate) loss: f64,
    pub(crate) rtt_ms: f64,
    pub(crate) mbps: f64,
    /// Packets a second that its loss is counted from.
    pub(crate) packets: f64,
}

/// The paper's topology *Domestic* (Mark et al. 2008, figure 1): two bridges to the east.
pub(crate) struct Domestic {
    pub(crate) control: Control,
    pub(crate) now: f64,
    pub(crate) decided: Vec<Decision>,
    draws: Draws,
    counters: BTreeMap<(Member, Member), Counter>,
}

impl Domestic {
    pub(crate) fn new(policy: route::Policy, seed: u64) -> Self {
        let mut control = Control::new(SOURCE, policy).unwrap();
        for (member, relays) in [(NORTH, true), (SOUTH, true), (EAST, false)] {
            control.handle_member(at(0.0), member, Some(relays)).unwrap();
        }
        let (decided, counters) = (Vec::new(), BTreeMap::new());
        Self { control, now: 0.0, decided, draws: Draws::new(seed), counters }
    }

    /// Reports on both bridges, north and south, then lets 200 ms pass.
    pub(crate) fn step(&mut self, bridges: [Bridge; 2]) {
        for (relay, bridge) in [NORTH, SOUTH].into_iter().zip(bridges) {
            let packets = (bridge.packets * STEP).round() as u32;
            let half = Duration::from_secs_f64(bridge.rtt_ms / 2e3);
            let metrics = Metrics::exact(Some(Rate::from_bps((bridge.mbps * 1e6) as u64)), half, 0.0);
            for (from, to, loss) in [(SOURCE, relay, bridge.loss), (relay, EAST, 0.0)] {
                let counter = self.counters.entry((from, to)).or_default();
                let metrics = counter.report(&mut self.draws, packets, loss, metrics);
                self.control.handle_link(at(self.now), from, to, Some(metrics)).unwrap();
            }
        }
        self.now += STEP;
        self.pump();
    }

    pub(crate) fn pump(&mut self) {
        while let Some(due) = self.control.poll_timeout().filter(|due| *due <= at(self.now)) {
            self.control.handle_timeout(due);
        }
        let control = &mut self.control;
        self.decided.extend(std::iter::from_fn(|| control.poll_decision()));
    }

    /// The changes of the first path to the east, the first choice aside.
    pub(crate) fn changes(&self) -> Vec<Decision> {
        self.decided.iter().filter(|d| d.destination == EAST && d.place == 0 && d.from.is_some()).copied().collect()
    }

    pub(crate) fn first(&self) -> Option<Path> {
        self.control.paths(EAST).first().map(|w| w.path)
    }
}
