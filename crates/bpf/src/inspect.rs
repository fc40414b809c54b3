//! State and counters of a loaded classifier, found by the id of its program.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Program};
use tc::Handle;

use crate::layout::{self, Flow, FlowKey, Limits};
use crate::{BpfError, log};

/// Capabilities required to look up programs and maps by id (capabilities(7)).
const READ_CAPABILITIES: &str = "CAP_SYS_ADMIN";
const READ_OPERATION: &str = "reading the classifier's counters";

/// Counters of a classifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// Run time; `None` if the kernel never measured it ([`RunTimeStatistics`]).
    pub run_time: Option<RunTime>,
    /// Packets that matched no rule.
    pub default: Hits,
    /// Packets by rule, in the order of [`Settings::rules`](crate::Settings::rules).
    pub rules: Vec<Hits>,
    /// Number of mice. Only flows that reached a rule by size are counted.
    pub mice: u64,
    /// Number of elephants.
    pub elephants: u64,
    /// Number of flows past the idle timeout that are still in the map.
    pub idle: u64,
    /// Entries of the flow map. They exceed [`SizeLimits::flows`](shaping::SizeLimits::flows), because some stay empty.
    pub flow_entries: u32,
}

impl Counters {
    /// Packets that the program has processed.
    pub fn packets(&self) -> u64 {
        self.rules.iter().map(|hits| hits.packets).sum::<u64>() + self.default.packets
    }
}

/// Run time of the program while statistics were enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunTime {
    /// Number of packets.
    pub runs: u64,
    /// Total nanoseconds.
    pub total_ns: u64,
}

/// Packets that a rule classified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hits {
    /// Class of the rule.
    pub class: Handle,
    /// Number of packet buffers; a super-packet counts as one.
    pub packets: u64,
    /// Bytes on the wire, including the Ethernet header if there is one.
    pub bytes: u64,
}

/// A flow in the flow map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowEntry {
    /// Source.
    pub from: IpAddr,
    /// Destination.
    pub to: IpAddr,
    /// Source port; 0 for protocols without ports and for fragments.
    pub from_port: u16,
    /// Destination port; 0 for protocols without ports and for fragments.
    pub to_port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// Bytes since the flow started or was last idle.
    pub bytes: u64,
    /// Whether it is an elephant now.
    pub elephant: bool,
    /// Whether the idle timeout has passed: the next packet starts the flow again.
    pub idle: bool,
    /// Nanoseconds since the last packet.
    pub seen_ns_ago: u64,
}

/// Reads the counters of the classifier with this program id.
///
/// # Errors
/// No such classifier; missing privilege (CAP_SYS_ADMIN).
pub fn counters(program: u32) -> Result<Counters, BpfError> {
    let info = find(program)?;
    let maps = Maps::of(&info)?;
    let classes = maps.named("classes")?;
    let hits = maps.named("hits")?;
    let rows = (0..hits.max_entries()).map(|index| read_hits(classes, hits, index, program));
    let mut rows = rows.collect::<Result<Vec<Hits>, BpfError>>()?.into_iter();
    let default = rows.next().ok_or(BpfError::NotOurs { program })?;
    let flows = maps.flows()?;
    let count = |which: fn(&FlowEntry) -> bool| flows.iter().filter(|flow| which(flow)).count() as u64;
    Ok(Counters {
        run_time: (info.run_cnt > 0).then_some(RunTime { runs: info.run_cnt, total_ns: info.run_time_ns }),
        default,
        rules: rows.collect(),
        mice: count(|flow| !flow.idle && !flow.elephant),
        elephants: count(|flow| flow.elephant),
        idle: count(|flow| flow.idle),
        flow_entries: maps.named("flows")?.max_entries(),
    })
}

/// Reads the flows of the classifier with this program id, in no particular order.
///
/// # Errors
/// No such classifier; missing privilege (CAP_SYS_ADMIN).
pub fn flows(program: u32) -> Result<Vec<FlowEntry>, BpfError> {
    Maps::of(&find(program)?)?.flows()
}

/// Enables run-time statistics for all BPF programs while the value exists (BPF_ENABLE_STATS). They cost each program
/// some tens of nanoseconds per run.
#[derive(Debug)]
pub struct RunTimeStatistics {
    _held: OwnedFd,
}

impl RunTimeStatistics {
    /// Enables the statistics.
    ///
    /// # Errors
    /// Missing privilege (CAP_SYS_ADMIN); a kernel before 5.8.
    pub fn enable() -> Result<Self, BpfError> {
        let held = kernel::time_bpf_programs()
            .map_err(|e| BpfError::from_io("switching BPF run-time statistics on", READ_CAPABILITIES, e))?;
        Ok(Self { _held: held })
    }
}

fn failed(error: &libbpf_rs::Error) -> BpfError {
    BpfError::failed(READ_OPERATION, READ_CAPABILITIES, error)
}

/// Finds the program if it is a classifier of longhaul.
fn find(program: u32) -> Result<ProgramInfo, BpfError> {
    log::capture();
    // The descriptor keeps the id assigned to this program; the iterator below does not report errors.
    let _held = Program::fd_from_id(program).map_err(|e| {
        if e.kind() == libbpf_rs::ErrorKind::NotFound { BpfError::NotOurs { program } } else { failed(&e) }
    })?;
    ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default().include_map_ids(true))
        .find(|info| info.id == program)
        .filter(|info| info.name == "classify")
        .ok_or(BpfError::NotOurs { program })
}

/// The maps of a program.
struct Maps {
    program: u32,
    maps: Vec<MapHandle>,
}

impl Maps {
    fn of(info: &ProgramInfo) -> Result<Self, BpfError> {
        let maps = info.map_ids.iter().map(|&id| MapHandle::from_map_id(id).map_err(|e| failed(&e)));
        Ok(Self { program: info.id, maps: maps.collect::<Result<_, BpfError>>()? })
    }

    fn named(&self, name: &str) -> Result<&MapHandle, BpfError> {
        self.maps.iter().find(|map| map.name() == name).ok_or(BpfError::NotOurs { program: self.program })
    }

    fn flows(&self) -> Result<Vec<FlowEntry>, BpfError> {
        let strange = || BpfError::NotOurs { program: self.program };
        let settings = self.named("classify.rodata")?;
        let settings = settings.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).map_err(|e| failed(&e))?;
        let idle_ns = settings.filter(|bytes| bytes.len() == Limits::SIZE).ok_or_else(strange)?;
        let idle_ns = Limits::idle_from(&idle_ns).ok_or_else(strange)?;
        let map = self.named("flows")?;
        if map.key_size() as usize != FlowKey::SIZE || map.value_size() as usize != Flow::SIZE {
            return Err(strange());
        }
        // One batch must hold all entries: libbpf-rs treats a partial batch as the last one, and the kernel ends a
        // batch before a bucket that does not fit.
        let batch = map.lookup_batch(map.max_entries(), MapFlags::ANY, MapFlags::ANY).map_err(|e| failed(&e))?;
        let entries: Vec<(Vec<u8>, Vec<u8>)> = batch.collect();
        let now = kernel::uptime_ns();
        let entry = |(key, value): (Vec<u8>, Vec<u8>)| {
            Some(entry(FlowKey::from_bytes(&key)?, Flow::from_bytes(&value)?, now, idle_ns))
        };
        entries.into_iter().map(entry).collect::<Option<_>>().ok_or_else(strange)
    }
}

fn entry(key: FlowKey, flow: Flow, now: u64, idle_ns: u64) -> FlowEntry {
    let seen_ns_ago = now.saturating_sub(flow.seen_ns);
    let idle = seen_ns_ago > idle_ns;
    FlowEntry {
        from: key.from,
        to: key.to,
        from_port: key.from_port,
        to_port: key.to_port,
        protocol: key.protocol,
        bytes: flow.bytes,
        elephant: flow.elephant && !idle,
        idle,
        seen_ns_ago,
    }
}

/// Class and counters of one rule, summed over the CPUs.
fn read_hits(classes: &MapHandle, hits: &MapHandle, index: u32, program: u32) -> Result<Hits, BpfError> {
    let strange = || BpfError::NotOurs { program };
    let key = index.to_ne_bytes();
    let class = classes.lookup(&key, MapFlags::ANY).map_err(|e| failed(&e))?.ok_or_else(strange)?;
    let class = u32::from_ne_bytes(*class.first_chunk().ok_or_else(strange)?);
    let counts = hits.lookup_percpu(&key, MapFlags::ANY).map_err(|e| failed(&e))?.ok_or_else(strange)?;
    let sum = |offset| counts.iter().filter_map(|cpu| layout::number(cpu, offset)).sum();
    Ok(Hits { class: Handle::from_raw(class), packets: sum(0), bytes: sum(8) })
}
