//! From a policy to the objects that carry it out.
//!
//! Each direction is an HTB discipline `1:` with a class `1:1` of the direction's rate, below it the classes of the policy from
//! `1:10` on (hexadecimal), and a queue at each leaf that is named after its class. What comes in is led into an IFB device, and leaves that
//! one into the host: there HTB finds a queue to shape.

use std::time::Duration;

use tc::{BpfProgram, Classifier, Discipline, Filter, Handle, HtbClass, HtbRoot, Object, Qdisc, Tree};
use units::{Bytes, Rate};

use crate::device::{Device, Facilities};
use crate::policy::{Accounting, Class, Direction, Match, Policy, QueueKind, Side};
use crate::{size, words};

/// Number of the disciplines that divide the traffic.
const MAJOR: u16 = 1;
/// The class of a direction's rate.
const WHOLE: Handle = Handle::new(MAJOR, 1);
/// Number of the first class of a policy; that of a leaf is also the number of its queue, so it must not be `MAJOR`.
const FIRST: u16 = 0x10;
/// ETH_P_ALL in the kernel's if_ether.h.
const ALL: u16 = 0x0003;
/// u32 filters are asked one after the other: with more of them a program is used, where it can be.
const MANY: usize = 64;
/// More filters than this would take longer for a packet than the packet.
const U32_FILTERS_MAX: usize = 16_384;
/// fq_codel's own defaults (RFC 8290, 5.2).
const TARGET: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(100);
const FLOWS: u32 = 1024;
/// HTB's own default (sch_htb.c); each class has its quantum, so it divides nothing.
const RATE_TO_QUANTUM: u32 = 10;
/// Queue of an IFB device in packets, and of what passes HTB unshaped. The kernel's 32 would lose every burst.
pub const IFB_QUEUE: u32 = 1000;

/// Plan of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The device that the policy is about.
    pub device: Device,
    /// Egress direction; its tree is that of the device's root.
    pub egress: Option<SidePlan>,
    /// Ingress direction with its IFB device.
    pub ingress: Option<IngressPlan>,
}

/// Plan of the ingress direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressPlan {
    /// The hook that redirects packets from the device into the IFB device.
    pub hook: Tree,
    /// The classes, on the IFB device.
    pub side: SidePlan,
}

/// Plan of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SidePlan {
    /// Which direction.
    pub way: Direction,
    /// The device that holds the tree: the policy's own or the IFB device.
    pub device: Device,
    /// Maximum rate of the direction, in frames.
    pub rate: Rate,
    /// Parents before their children.
    pub classes: Vec<ClassPlan>,
    /// The class for what belongs to no other.
    pub default: Handle,
    /// All objects. A filter by program has no descriptor yet.
    pub tree: Tree,
    /// What the program decides by, when there is one: in this order, the first that matches.
    pub rules: Option<Vec<(Handle, Match)>>,
}

/// A class as the kernel will have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassPlan {
    /// Name in the policy.
    pub name: String,
    /// Its own name in the kernel.
    pub handle: Handle,
    /// The class above.
    pub parent: Handle,
    /// How many classes are above it, the direction's own not counted.
    pub depth: usize,
    /// Rates, buckets and turns after the kernel's rounding.
    pub htb: HtbClass,
    /// Its queue, if it is a leaf.
    pub leaf: Option<LeafPlan>,
}

/// The queue of a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafPlan {
    /// The discipline.
    pub discipline: Discipline,
    /// Bytes that wait at most.
    pub limit: Bytes,
    /// The longest wait at the ceiling: more than asked for where the queue would not hold two super-packets, less where the kernel cannot
    /// count so many bytes.
    pub wait: Duration,
}

/// Reason why a policy cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A class needs a BPF program.
    #[error(
        "class {class} goes by size, cgroup or user, which needs BPF: run as root on a kernel with BPF, or match otherwise"
    )]
    NeedsProgram {
        /// The class.
        class: String,
    },
    /// The matches expand to too many filters.
    #[error(
        "the matches expand to {filters} u32 filters, more than {U32_FILTERS_MAX}; use fewer matches, or run as root to use BPF"
    )]
    TooManyFilters {
        /// Number of filters.
        filters: usize,
    },
    /// A class requires a discipline that the kernel lacks.
    #[error("class {class} requires fq_codel, which this kernel lacks; write leaf = \"best\" or \"fifo\"")]
    NoFqCodel {
        /// The class.
        class: String,
    },
}

/// Plans a policy for a device. `ifb` is the device that what comes in is led through.
///
/// # Errors
/// The policy needs what this host has not.
pub fn plan(policy: &Policy, device: &Device, ifb: &Device, facilities: Facilities) -> Result<Plan, PlanError> {
    let planner =
        |way, on: &Device, side: &Side| Planner { device: on.clone(), facilities, way }.side(side, policy.accounting);
    let egress = policy.egress.as_ref().map(|side| planner(Direction::Egress, device, side)).transpose()?;
    let ingress = policy.ingress.as_ref().map(|side| planner(Direction::Ingress, ifb, side)).transpose()?;
    let ingress = ingress.map(|side| IngressPlan { hook: hook(ifb.index), side });
    Ok(Plan { device: device.clone(), egress, ingress })
}

/// Leads everything that comes in into another device.
fn hook(ifb: u32) -> Tree {
    let qdisc = Qdisc { handle: Handle::INGRESS_QDISC, parent: Handle::INGRESS, discipline: Discipline::Ingress };
    let filter = Filter {
        parent: Handle::INGRESS_QDISC,
        preference: 1,
        protocol: ALL,
        handle: 0,
        classifier: Classifier::U32 { keys: Vec::new(), class: None, redirect: Some(ifb) },
    };
    Tree::planned([Object::Qdisc(qdisc), Object::Filter(filter)])
}

struct Planner {
    device: Device,
    facilities: Facilities,
    way: Direction,
}

impl Planner {
    fn side(self, side: &Side, accounting: Accounting) -> Result<SidePlan, PlanError> {
        let frames = |rate: Rate| match accounting {
            Accounting::Frame => rate,
            Accounting::Wire => self.device.of_wire(rate),
        };
        let whole = frames(side.rate);
        let is_leaf = |at: usize| !side.classes.iter().any(|c| c.parent == Some(at));
        let lowest = side.classes.iter().map(|c| frames(c.rate)).min().unwrap_or(whole);
        let mut classes: Vec<ClassPlan> = Vec::with_capacity(side.classes.len());
        for (at, class) in side.classes.iter().enumerate() {
            let above = class.parent.and_then(|p| classes.get(p));
            let (parent, depth) = above.map_or((WHOLE, 0), |c| (c.handle, c.depth + 1));
            let (rate, ceiling) = (frames(class.rate), frames(class.ceiling));
            let mut htb = self.htb(rate, ceiling, class.burst);
            htb.priority = u32::from(class.priority);
            htb.quantum = size::quantum(&self.device, whole, rate, lowest);
            let leaf = if is_leaf(at) { Some(self.leaf(class, htb.ceiling)?) } else { None };
            classes.push(ClassPlan { name: class.name.clone(), handle: handle(at), parent, depth, htb, leaf });
        }
        let default = handle(side.default);
        let mut tree = self.tree(whole, &classes, default);
        let rules = self.filters(side, &mut tree)?;
        Ok(SidePlan { way: self.way, rate: whole, classes, default, tree, rules, device: self.device })
    }

    /// A class as the kernel keeps it.
    fn htb(&self, rate: Rate, ceiling: Rate, burst: Option<Duration>) -> HtbClass {
        let (rate, ceiling) = (tc::kernel_rate(rate), tc::kernel_rate(ceiling));
        HtbClass {
            rate,
            ceiling,
            burst: tc::kernel_burst(size::burst(&self.device, rate, ceiling, burst)),
            ceiling_burst: tc::kernel_burst(size::burst(&self.device, ceiling, ceiling, burst)),
            priority: 0,
            quantum: size::quantum(&self.device, rate, rate, rate),
        }
    }

    fn leaf(&self, class: &Class, ceiling: Rate) -> Result<LeafPlan, PlanError> {
        let codel = match class.queue.kind {
            QueueKind::Fifo => false,
            QueueKind::Best => self.facilities.fq_codel,
            QueueKind::FqCodel if self.facilities.fq_codel => true,
            QueueKind::FqCodel => return Err(PlanError::NoFqCodel { class: class.name.clone() }),
        };
        let most = if codel { size::FQ_CODEL_LIMIT_MAX } else { size::FIFO_LIMIT_MAX };
        let limit = size::queue(&self.device, ceiling, class.queue.limit, most);
        let wait = ceiling.time_for(limit).unwrap_or(Duration::MAX);
        let discipline = if codel { self.fq_codel(ceiling, limit) } else { Discipline::ByteFifo { limit } };
        Ok(LeafPlan { discipline, limit, wait })
    }

    fn fq_codel(&self, ceiling: Rate, limit: Bytes) -> Discipline {
        let frame = self.device.frame();
        // RFC 8290, 5.2.1: not below the time of a packet; CoDel's authors advise half as much again.
        let packet = ceiling.time_for(frame).unwrap_or(TARGET) * 3 / 2;
        Discipline::FqCodel {
            limit: size::queue_packets(&self.device, limit),
            target: tc::kernel_codel_time(TARGET.max(packet)),
            interval: tc::kernel_codel_time(INTERVAL.max(packet * 20)),
            flows: FLOWS,
            quantum: u32::try_from(frame.as_u64()).unwrap_or(u32::MAX),
            // The kernel counts its own memory, up to twice the data.
            memory_limit: Bytes::new(2 * limit.as_u64()),
            ecn: true,
        }
    }

    fn tree(&self, whole: Rate, classes: &[ClassPlan], default: Handle) -> Tree {
        let root =
            HtbRoot { default_class: default.minor(), rate_to_quantum: RATE_TO_QUANTUM, direct_queue: IFB_QUEUE };
        let root = Qdisc { handle: Handle::new(MAJOR, 0), parent: Handle::ROOT, discipline: Discipline::Htb(root) };
        let leaf = |class: &ClassPlan| {
            let discipline = class.leaf.as_ref()?.discipline.clone();
            Some(Qdisc { handle: Handle::new(class.handle.minor(), 0), parent: class.handle, discipline })
        };
        let all = tc::Class { handle: WHOLE, parent: root.handle, htb: self.htb(whole, whole, None) };
        let class = |c: &ClassPlan| tc::Class { handle: c.handle, parent: c.parent, htb: c.htb };
        let classes_of_kernel = std::iter::once(all).chain(classes.iter().map(class));
        let queues = std::iter::once(root).chain(classes.iter().filter_map(leaf));
        Tree::planned(queues.map(Object::Qdisc).chain(classes_of_kernel.map(Object::Class)))
    }

    /// Adds the filters to the tree; gives the rules if a program decides.
    fn filters(&self, side: &Side, tree: &mut Tree) -> Result<Option<Vec<(Handle, Match)>>, PlanError> {
        let rules: Vec<(Handle, Match)> = side
            .classes
            .iter()
            .enumerate()
            .flat_map(|(at, class)| class.matches.iter().map(move |m| (handle(at), m.clone())))
            .collect();
        let needs = |c: &&Class| c.matches.iter().any(|m| m.size.is_some() || m.cgroup.is_some() || m.user.is_some());
        let needs_program = side.classes.iter().find(needs);
        if let (Some(class), false) = (needs_program, self.facilities.bpf) {
            return Err(PlanError::NeedsProgram { class: class.name.clone() });
        }
        let by_words = if needs_program.is_some() { Vec::new() } else { by_words(&rules) };
        let program = needs_program.is_some() || (self.facilities.bpf && by_words.len() > MANY);
        if program {
            let name = format!("longhaul {}", if self.way == Direction::Egress { "egress" } else { "ingress" });
            let program = BpfProgram { descriptor: None, id: 0, name };
            tree.filters.push(Filter {
                parent: Handle::new(MAJOR, 0),
                preference: 1,
                protocol: ALL,
                handle: 1,
                classifier: Classifier::Bpf(program),
            });
            return Ok(Some(rules));
        }
        if by_words.len() > U32_FILTERS_MAX {
            return Err(PlanError::TooManyFilters { filters: by_words.len() });
        }
        tree.filters = by_words;
        Ok(None)
    }
}

/// The rules as u32 filters: those of one IP version have one preference, and are asked in the order in which they are made.
fn by_words(rules: &[(Handle, Match)]) -> Vec<Filter> {
    let filter = |preference, protocol, keys, class| Filter {
        parent: Handle::new(MAJOR, 0),
        preference,
        protocol,
        handle: 0,
        classifier: Classifier::U32 { keys, class: Some(class), redirect: None },
    };
    let mut filters = Vec::new();
    for (preference, protocol) in [(1, words::IPV4), (2, words::IPV6)] {
        for (class, matched) in rules {
            for keys in words::alternatives(matched, protocol) {
                filters.push(filter(preference, protocol, keys, *class));
            }
        }
    }
    // A match that asks for nothing also takes what is not IP; IP has met it above.
    let everything = rules.iter().find(|(_, matched)| *matched == Match::default());
    filters.extend(everything.map(|(class, _)| filter(3, ALL, Vec::new(), *class)));
    filters
}

/// The kernel's name of the class at an index of a policy's classes.
pub fn handle(at: usize) -> Handle {
    Handle::new(MAJOR, FIRST.saturating_add(u16::try_from(at).unwrap_or(u16::MAX)))
}

#[cfg(test)]
mod tests;
