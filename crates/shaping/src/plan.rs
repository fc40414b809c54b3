//! Planning of the traffic control objects that implement a policy.
//!
//! Each direction is an HTB discipline `1:` with a class `1:1` of the direction's rate. Its children are the classes of
//! the policy from `1:10` on (hexadecimal). Each leaf has a queue that is named after its class. Ingress packets are
//! redirected through an IFB device, where HTB has a queue to shape, and then enter the host.

use std::time::Duration;

use tc::{BpfProgram, Classifier, Discipline, Filter, Handle, HtbClass, HtbRoot, Object, Qdisc, Tree};
use units::{Bytes, Rate};

use crate::device::{Device, Facilities};
use crate::policy::{Accounting, Class, Direction, Match, Policy, QueueKind, Side};
use crate::{size, u32_match};

/// Major number of the HTB discipline.
const HTB_MAJOR: u16 = 1;
/// Class of a direction's rate.
const ROOT_CLASS: Handle = Handle::new(HTB_MAJOR, 1);
/// Minor number of the first class of a policy. The minor number of a leaf is also the major number of its queue, so it
/// must differ from `HTB_MAJOR`.
const FIRST_CLASS_MINOR: u16 = 0x10;
/// EtherType of all protocols (ETH_P_ALL in the kernel's if_ether.h).
const ETH_P_ALL: u16 = 0x0003;
/// Number of u32 filters above which a BPF program is used where available: the kernel evaluates u32 filters one after
/// the other.
const U32_FILTERS_PREFERRED_MAX: usize = 64;
/// Maximum number of u32 filters. Evaluating more would take longer than sending the packet.
const U32_FILTERS_MAX: usize = 16_384;
/// Defaults of fq_codel (RFC 8290, 5.2).
const CODEL_TARGET: Duration = Duration::from_millis(5);
const CODEL_INTERVAL: Duration = Duration::from_millis(100);
const FQ_CODEL_FLOWS: u32 = 1024;
/// Default of HTB (sch_htb.c). It has no effect, because each class has an explicit quantum.
const RATE_TO_QUANTUM: u32 = 10;
/// Queue length in packets of an IFB device, and of traffic that bypasses HTB. The kernel's default of 32 would drop
/// every burst.
pub const IFB_QUEUE: u32 = 1000;

/// Plan of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Device of the policy.
    pub device: Device,
    /// Egress direction; its tree starts at the device's root.
    pub egress: Option<SidePlan>,
    /// Ingress direction with its IFB device.
    pub ingress: Option<IngressPlan>,
}

/// Plan of the ingress direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressPlan {
    /// Ingress hook that redirects packets from the device to the IFB device.
    pub hook: Tree,
    /// Classes on the IFB device.
    pub side: SidePlan,
}

/// Plan of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SidePlan {
    /// Direction.
    pub direction: Direction,
    /// Device that holds the tree: the policy's device or the IFB device.
    pub device: Device,
    /// Maximum rate of the direction, in frames.
    pub rate: Rate,
    /// Classes, parents before their children.
    pub classes: Vec<ClassPlan>,
    /// Class of packets that match no other class.
    pub default: Handle,
    /// All objects. A BPF filter has no descriptor yet.
    pub tree: Tree,
    /// Rules of the BPF program, if there is one. The first matching rule decides.
    pub rules: Option<Vec<(Handle, Match)>>,
}

/// A class with the settings that the kernel will store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassPlan {
    /// Name in the policy.
    pub name: String,
    /// Handle in the kernel.
    pub handle: Handle,
    /// Handle of the parent class.
    pub parent: Handle,
    /// Number of ancestors, without the class of the direction's rate.
    pub depth: usize,
    /// Rates, buckets and quantum after the kernel's rounding.
    pub htb: HtbClass,
    /// Queue of a leaf; `None` for an inner class.
    pub leaf: Option<LeafPlan>,
}

/// The queue of a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafPlan {
    /// The discipline.
    pub discipline: Discipline,
    /// Maximum bytes in the queue.
    pub limit: Bytes,
    /// Longest queueing delay at the ceiling. It exceeds the policy's limit if the queue would not hold two
    /// super-packets, and is below it if the kernel cannot count that many bytes.
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
        /// Name of the class.
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
        /// Name of the class.
        class: String,
    },
}

/// Plans a policy for a device. Ingress packets are redirected through the device `ifb`.
///
/// # Errors
/// The host lacks a facility that the policy requires.
pub fn plan(policy: &Policy, device: &Device, ifb: &Device, facilities: Facilities) -> Result<Plan, PlanError> {
    let planner = |direction, on: &Device, side: &Side| {
        Planner { device: on.clone(), facilities, direction }.side(side, policy.accounting)
    };
    let egress = policy.egress.as_ref().map(|side| planner(Direction::Egress, device, side)).transpose()?;
    let ingress = policy.ingress.as_ref().map(|side| planner(Direction::Ingress, ifb, side)).transpose()?;
    let ingress = ingress.map(|side| IngressPlan { hook: hook(ifb.index), side });
    Ok(Plan { device: device.clone(), egress, ingress })
}

/// Redirects all ingress packets to another device.
fn hook(ifb: u32) -> Tree {
    let qdisc = Qdisc { handle: Handle::INGRESS_QDISC, parent: Handle::INGRESS, discipline: Discipline::Ingress };
    let filter = Filter {
        parent: Handle::INGRESS_QDISC,
        preference: 1,
        protocol: ETH_P_ALL,
        handle: 0,
        classifier: Classifier::U32 { keys: Vec::new(), class: None, redirect: Some(ifb) },
    };
    Tree::planned([Object::Qdisc(qdisc), Object::Filter(filter)])
}

struct Planner {
    device: Device,
    facilities: Facilities,
    direction: Direction,
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
            let (parent, depth) = above.map_or((ROOT_CLASS, 0), |c| (c.handle, c.depth + 1));
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
        Ok(SidePlan { direction: self.direction, rate: whole, classes, default, tree, rules, device: self.device })
    }

    /// Settings of a class after the kernel's rounding.
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
        // RFC 8290, 5.2.1 requires at least one packet time; the authors of CoDel recommend 1.5 packet times.
        let packet = ceiling.time_for(frame).unwrap_or(CODEL_TARGET) * 3 / 2;
        Discipline::FqCodel {
            limit: size::queue_packets(&self.device, limit),
            target: tc::kernel_codel_time(CODEL_TARGET.max(packet)),
            interval: tc::kernel_codel_time(CODEL_INTERVAL.max(packet * 20)),
            flows: FQ_CODEL_FLOWS,
            quantum: u32::try_from(frame.as_u64()).unwrap_or(u32::MAX),
            // The kernel counts buffer memory, up to twice the data.
            memory_limit: Bytes::new(2 * limit.as_u64()),
            ecn: true,
        }
    }

    fn tree(&self, whole: Rate, classes: &[ClassPlan], default: Handle) -> Tree {
        let root =
            HtbRoot { default_class: default.minor(), rate_to_quantum: RATE_TO_QUANTUM, direct_queue: IFB_QUEUE };
        let root = Qdisc { handle: Handle::new(HTB_MAJOR, 0), parent: Handle::ROOT, discipline: Discipline::Htb(root) };
        let leaf = |class: &ClassPlan| {
            let discipline = class.leaf.as_ref()?.discipline.clone();
            Some(Qdisc { handle: Handle::new(class.handle.minor(), 0), parent: class.handle, discipline })
        };
        let all = tc::Class { handle: ROOT_CLASS, parent: root.handle, htb: self.htb(whole, whole, None) };
        let class = |c: &ClassPlan| tc::Class { handle: c.handle, parent: c.parent, htb: c.htb };
        let classes_of_kernel = std::iter::once(all).chain(classes.iter().map(class));
        let queues = std::iter::once(root).chain(classes.iter().filter_map(leaf));
        Tree::planned(queues.map(Object::Qdisc).chain(classes_of_kernel.map(Object::Class)))
    }

    /// Adds the filters to the tree; returns the rules if a BPF program classifies.
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
        let filters = if needs_program.is_some() { Vec::new() } else { u32_filters(&rules) };
        let program = needs_program.is_some() || (self.facilities.bpf && filters.len() > U32_FILTERS_PREFERRED_MAX);
        if program {
            let name = format!("longhaul {}", if self.direction == Direction::Egress { "egress" } else { "ingress" });
            let program = BpfProgram { descriptor: None, id: 0, name };
            tree.filters.push(Filter {
                parent: Handle::new(HTB_MAJOR, 0),
                preference: 1,
                protocol: ETH_P_ALL,
                handle: 1,
                classifier: Classifier::Bpf(program),
            });
            return Ok(Some(rules));
        }
        if filters.len() > U32_FILTERS_MAX {
            return Err(PlanError::TooManyFilters { filters: filters.len() });
        }
        tree.filters = filters;
        Ok(None)
    }
}

/// Converts the rules to u32 filters. The filters of one IP version share a preference and are evaluated in order of
/// creation.
fn u32_filters(rules: &[(Handle, Match)]) -> Vec<Filter> {
    let filter = |preference, protocol, keys, class| Filter {
        parent: Handle::new(HTB_MAJOR, 0),
        preference,
        protocol,
        handle: 0,
        classifier: Classifier::U32 { keys, class: Some(class), redirect: None },
    };
    let mut filters = Vec::new();
    for (preference, protocol) in [(1, u32_match::IPV4), (2, u32_match::IPV6)] {
        for (class, matched) in rules {
            for keys in u32_match::alternatives(matched, protocol) {
                filters.push(filter(preference, protocol, keys, *class));
            }
        }
    }
    // A match without conditions also matches non-IP packets; the filters above handle IP.
    let everything = rules.iter().find(|(_, matched)| *matched == Match::default());
    filters.extend(everything.map(|(class, _)| filter(3, ETH_P_ALL, Vec::new(), *class)));
    filters
}

/// Handle of the class at an index of a policy's classes.
pub fn handle(at: usize) -> Handle {
    Handle::new(HTB_MAJOR, FIRST_CLASS_MINOR.saturating_add(u16::try_from(at).unwrap_or(u16::MAX)))
}

#[cfg(test)]
mod tests;
