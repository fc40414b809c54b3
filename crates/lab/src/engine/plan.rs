//! The plan of an engine, and its distribution among workers.

use std::time::Duration;

use kernel::Tun;
use link::Settings;

use crate::capture::Tap;

/// The devices, links and schedule of an engine.
#[derive(Debug, Default)]
pub struct Plan {
    /// Devices; each is one end of a link or one port of a LAN.
    pub ports: Vec<PortPlan>,
    /// Directions of links.
    pub wires: Vec<WirePlan>,
    /// Wires from the switch to the members, for each LAN.
    pub lans: Vec<Vec<usize>>,
    /// Changes of settings: time since the start of the run, wire, new settings; sorted by time.
    pub schedule: Vec<(Duration, usize, Settings)>,
    /// Length of a reporting interval.
    pub interval: Duration,
    /// Duration of the run; an interval always ends there. `None`: until the engine is stopped.
    pub length: Option<Duration>,
    /// Maximum number of bytes that all wires together may hold; the emulator loses packets beyond it.
    pub memory: u64,
}

/// A device of a node.
#[derive(Debug)]
pub struct PortPlan {
    /// The device.
    pub tun: Tun,
    /// The wire that takes the packets that the node sends.
    pub wire: usize,
}

/// One direction of a link.
#[derive(Debug)]
pub struct WirePlan {
    /// Settings until the first scheduled change.
    pub settings: Settings,
    /// Seed of its random draws.
    pub seed: u64,
    /// End of the wire.
    pub exit: Exit,
    /// Capture of its packets, if any.
    pub tap: Option<Tap>,
}

/// End of a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// A device.
    Port(usize),
    /// The switch of a LAN; the wire starts at a member.
    Switch {
        /// The LAN.
        lan: usize,
        /// The member.
        member: usize,
    },
}

/// The part of a plan for one worker, with its own indices.
pub(crate) struct Share {
    pub(crate) plan: Plan,
    /// Index in the whole plan of each wire of this share.
    pub(crate) numbers: Vec<usize>,
}

impl Plan {
    /// Groups the wires that must share a worker (both directions of a link, all wires of a LAN) and distributes the
    /// groups.
    pub(super) fn split(self, workers: usize) -> Vec<Share> {
        let groups = self.groups();
        let workers = workers.clamp(1, groups.iter().copied().max().map_or(1, |m| m + 1));
        let mut shares: Vec<Share> = (0..workers)
            .map(|_| Share {
                plan: Self {
                    interval: self.interval,
                    length: self.length,
                    memory: self.memory / workers as u64,
                    ..Self::default()
                },
                numbers: Vec::new(),
            })
            .collect();
        // Worker and index within the worker, for each wire, port and LAN.
        let mut counts = vec![0_usize; workers];
        let wires: Vec<(usize, usize)> = groups
            .iter()
            .map(|g| {
                let worker = g % workers;
                counts[worker] += 1;
                (worker, counts[worker] - 1)
            })
            .collect();
        let mut port_counts = vec![0_usize; workers];
        let ports: Vec<usize> = self
            .ports
            .iter()
            .map(|p| {
                let worker = wires[p.wire].0;
                port_counts[worker] += 1;
                port_counts[worker] - 1
            })
            .collect();
        let mut lans = Vec::new();
        for down in &self.lans {
            let worker = down.first().map_or(0, |w| wires[*w].0);
            shares[worker].plan.lans.push(down.iter().map(|w| wires[*w].1).collect());
            lans.push(shares[worker].plan.lans.len() - 1);
        }
        for (number, mut wire) in self.wires.into_iter().enumerate() {
            wire.exit = match wire.exit {
                Exit::Port(p) => Exit::Port(ports[p]),
                Exit::Switch { lan, member } => Exit::Switch { lan: lans[lan], member },
            };
            let share = &mut shares[wires[number].0];
            share.plan.wires.push(wire);
            share.numbers.push(number);
        }
        for port in self.ports {
            let (worker, wire) = wires[port.wire];
            shares[worker].plan.ports.push(PortPlan { wire, ..port });
        }
        for (at, wire, settings) in self.schedule {
            let (worker, wire) = wires[wire];
            shares[worker].plan.schedule.push((at, wire, settings));
        }
        shares
    }

    /// The group of each wire: wires that end at each other's ports, or at one LAN, are in one group.
    fn groups(&self) -> Vec<usize> {
        let mut group: Vec<usize> = (0..self.wires.len()).collect();
        let mut join = |a: usize, b: usize| {
            let (low, high) = (group[a].min(group[b]), group[a].max(group[b]));
            group.iter_mut().filter(|g| **g == high).for_each(|g| *g = low);
        };
        for (number, wire) in self.wires.iter().enumerate() {
            match wire.exit {
                Exit::Port(p) => join(number, self.ports[p].wire),
                Exit::Switch { lan, .. } => self.lans[lan].iter().for_each(|w| join(number, *w)),
            }
        }
        let mut seen: Vec<usize> = Vec::new();
        group
            .into_iter()
            .map(|g| {
                seen.iter().position(|s| *s == g).unwrap_or_else(|| {
                    seen.push(g);
                    seen.len() - 1
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
