//! Two network namespaces joined by the engine or by the copy loop.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use kernel::{Tun, TunKind};
use lab::engine::{Engine, Exit, Plan, PortPlan, Report, WirePlan};
use link::Settings;
use testbed::Namespace;

use crate::copy::{self, Copy};
use crate::figures::quantile;

pub(crate) const NEAR: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 2);

/// Name of the engine's only thread in this benchmark.
const ENGINE: &str = "links-0";

/// The component that forwards the packets.
#[derive(Clone)]
pub(crate) enum By {
    Copy,
    /// The engine, with the same settings in both directions.
    Engine(Box<Settings>),
}

enum Mover {
    Copy(Copy),
    Engine(Engine),
}

/// A path in operation.
pub(crate) struct Path {
    pub(crate) near: Namespace,
    pub(crate) far: Namespace,
    mover: Mover,
    name: &'static str,
}

/// Side effects of forwarding.
#[derive(Debug, Default)]
pub(crate) struct Toll {
    /// Packets lost by a device or by the component that forwards them.
    pub(crate) lost: u64,
    /// Packets that the model dropped.
    pub(crate) dropped: u64,
    /// 99th percentile of the engine's lateness.
    pub(crate) late_us: f64,
    /// Start of each second since the start, and the utilisation of the forward link in it, by the model.
    pub(crate) used: Vec<(Duration, f64)>,
}

impl Path {
    pub(crate) fn new(by: &By, mtu: u32) -> io::Result<Self> {
        let (near, far) = (Namespace::new()?, Namespace::new()?);
        let ends = [end(&near, NEAR, FAR, mtu)?, end(&far, FAR, NEAR, mtu)?];
        let (mover, name) = match by {
            By::Copy => (Mover::Copy(Copy::start(ends)?), copy::NAME),
            By::Engine(settings) => {
                let engine = Engine::start(plan(ends, settings), 1)?;
                engine.start_run(kernel::now());
                (Mover::Engine(engine), ENGINE)
            }
        };
        Ok(Self { near, far, mover, name })
    }

    /// CPU time of the forwarding thread in the kernel's accounting (proc_pid_schedstat: ns on the CPU).
    pub(crate) fn cpu(&self) -> io::Result<Duration> {
        // A thread gets its name when it first runs.
        for _ in 0..100 {
            if let Some(cpu) = self.cpu_now()? {
                return Ok(cpu);
            }
            kernel::sleep_for(Duration::from_millis(10));
        }
        Err(io::Error::other(format!("no thread {} runs", self.name)))
    }

    fn cpu_now(&self) -> io::Result<Option<Duration>> {
        for task in fs::read_dir("/proc/self/task")? {
            let task = task?.path();
            if fs::read_to_string(task.join("comm")).is_ok_and(|c| c.trim() == self.name) {
                let text = fs::read_to_string(task.join("schedstat"))?;
                let ns = text.split_whitespace().next().and_then(|n| n.parse().ok());
                return Ok(ns.map(Duration::from_nanos));
            }
        }
        Ok(None)
    }

    pub(crate) fn stop(self) -> io::Result<Toll> {
        let unread = device_drops(&self.near)? + device_drops(&self.far)?;
        match self.mover {
            Mover::Copy(copy) => Ok(Toll { lost: unread + copy.stop()?, ..Toll::default() }),
            Mover::Engine(engine) => Ok(toll(&engine.stop()?, unread)),
        }
    }
}

fn toll(reports: &[Report], unread: u64) -> Toll {
    let wires = || reports.iter().flat_map(|r| &r.wires);
    let model = |d: &link::Drops| d.queue.packets + d.codel.packets + d.loss.packets + d.mtu.packets;
    let us = |ns: Vec<u32>| quantile(ns.into_iter().map(|n| f64::from(n) / 1e3).collect(), 0.99);
    Toll {
        lost: unread + wires().map(|w| w.lost).sum::<u64>(),
        dropped: wires().map(|w| model(&w.tally.dropped)).sum(),
        late_us: us(wires().flat_map(|w| w.lateness.iter().copied()).collect()),
        used: reports
            .iter()
            .filter_map(|r| Some((r.start, r.wires.iter().find(|w| w.wire == 0)?.tally.utilisation()?)))
            .collect(),
    }
}

/// Sets up one end of the path as the lab sets up its nodes.
fn end(node: &Namespace, own: Ipv4Addr, peer: Ipv4Addr, mtu: u32) -> io::Result<Tun> {
    for (setting, value) in [
        ("net/ipv6/conf/all/disable_ipv6", "1"),
        ("net/ipv6/conf/default/disable_ipv6", "1"),
        ("net/ipv4/tcp_rmem", "4096 131072 134217728"),
        ("net/ipv4/tcp_wmem", "4096 65536 134217728"),
        ("net/ipv4/tcp_no_metrics_save", "1"),
    ] {
        node.set(setting, value)?;
    }
    let tun = node.run(|| Tun::new("path", TunKind::Tun, true))??;
    node.iproute(&format!("ip address add {own} peer {peer} dev path"))?;
    node.iproute(&format!("ip link set path up mtu {mtu} txqueuelen 10000"))?;
    Ok(tun)
}

/// Packets that a node's device dropped before the engine read them.
fn device_drops(node: &Namespace) -> io::Result<u64> {
    let links = node.run(|| kernel::Netlink::open().and_then(|mut n| n.links()))?.map_err(io::Error::other)?;
    Ok(links.iter().find(|d| d.name == "path").map_or(0, |d| d.statistics.sent.dropped))
}

fn plan(ends: [Tun; 2], settings: &Settings) -> Plan {
    let wire = |seed, exit| WirePlan { settings: settings.clone(), seed, exit: Exit::Port(exit), tap: None };
    Plan {
        ports: ends.into_iter().enumerate().map(|(wire, tun)| PortPlan { tun, wire }).collect(),
        wires: vec![wire(1, 1), wire(2, 0)],
        interval: Duration::from_secs(1),
        memory: kernel::available_memory() / 2,
        ..Plan::default()
    }
}
