//! Installs a plan on a device atomically.
//!
//! Every message of a change is part of one system call: a process that is killed has made either all of it or none.
//! A rehearsal on a stand-in device comes first, the earlier state is saved before the change, and the result is read
//! back and compared.

use bpf::Classifier;
use kernel::{Change, Netlink};
use shaping::{Device, Facilities, IFB_QUEUE, Plan, Policy, SidePlan};
use tc::{Handle, Object, Operation, Tree};
use units::{Duration, Instant};

use super::journal::{Ifb, Journal, JournalFile, Saved};
use super::observe::{self, Found};
use super::{ShapeError, guard, rehearsal, restore};

/// Offset between the index of a device and that of its IFB device: far above the indexes that the kernel assigns.
const IFB_INDEX_OFFSET: u32 = 1_000_000_000;
/// Longest device name that Linux accepts, in bytes (IFNAMSIZ - 1).
const NAME_BYTES_MAX: usize = 15;

/// Options of an installation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InstallOptions {
    /// Replaces traffic control that another program installed.
    pub replace: bool,
    /// Undoes the policy unless it is confirmed within this time.
    pub confirm_within: Option<Duration>,
    /// Undoes the policy after this time.
    pub for_time: Option<Duration>,
}

/// Result of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The installed plan.
    pub plan: Plan,
    /// Number of messages in the change; 0 when the device already matched the plan.
    pub changes: usize,
    /// Whether the installation cancelled an earlier time limit.
    pub lifted: bool,
}

/// A policy with its plan for a device in its present state.
#[derive(Debug)]
struct Prepared {
    plan: Plan,
    facilities: Facilities,
    /// The classifier programs: egress, ingress. Kept until filters hold them.
    programs: [Option<Program>; 2],
}

#[derive(Debug)]
enum Program {
    /// Loaded for this installation.
    Loaded(Classifier),
    /// An earlier installation's program with this id, which keeps its flow state.
    Kept(u32),
}

/// Plans a policy with the facilities of this host, without a BPF program.
///
/// # Errors
/// There is no such device, or the policy needs a facility that this host lacks.
pub fn plan_here(policy: &Policy) -> Result<Plan, ShapeError> {
    let mut netlink = Netlink::open()?;
    let device = observe::device(&mut netlink, &policy.device)?;
    plan_for(policy, &device, rehearsal::facilities(true))
}

/// The plan of the installed policy.
pub(super) fn plan_of_journal(journal: &Journal) -> Result<Plan, ShapeError> {
    let mut netlink = Netlink::open()?;
    let device = observe::device(&mut netlink, &journal.device)?;
    plan_for(&journal.policy, &device, journal.facilities)
}

pub(super) fn plan_for(policy: &Policy, device: &Device, facilities: Facilities) -> Result<Plan, ShapeError> {
    Ok(shaping::plan(policy, device, &ifb_of(device), facilities)?)
}

/// The IFB device for incoming packets: with an Ethernet header if its device has one.
fn ifb_of(device: &Device) -> Device {
    let name = format!("ifb-{}", device.name);
    let name = if name.len() > NAME_BYTES_MAX { format!("ifb-{}", device.index) } else { name };
    Device { name, index: IFB_INDEX_OFFSET + device.index, ..device.clone() }
}

/// A plan that was rehearsed where possible; the device is unchanged.
struct RehearsedPlan {
    before: Option<Journal>,
    prepared: Prepared,
    journal: Journal,
    changes: Vec<Change>,
}

fn rehearse_plan(
    policy: &Policy,
    options: InstallOptions,
    journal_file: &JournalFile,
    found: &Found,
    netlink: &mut Netlink,
) -> Result<RehearsedPlan, ShapeError> {
    let before = journal_file.read()?.filter(|j| j.index == found.device.index);
    let prepared = prepare(policy, found, before.as_ref(), netlink)?;
    let journal = journal(&prepared, found, policy, before.as_ref(), options, netlink)?;
    let changes = changes(&prepared, found, before.as_ref(), netlink)?;
    if !changes.is_empty() {
        rehearse(&prepared, &policy.device)?;
    }
    Ok(RehearsedPlan { before, prepared, journal, changes })
}

/// Performs [`install`] without the change: returns the plan and the number of messages.
///
/// # Errors
/// The errors that [`install`] finds before it changes anything.
pub fn dry_run(policy: &Policy, options: InstallOptions) -> Result<Installed, ShapeError> {
    let mut netlink = Netlink::open()?;
    let found = observe::observe(&mut netlink, &policy.device)?;
    let rehearsed = rehearse_plan(policy, options, &JournalFile::of(&policy.device)?, &found, &mut netlink)?;
    let lifted = rehearsed.cancels_time_limit();
    Ok(Installed { plan: rehearsed.prepared.plan, changes: rehearsed.changes.len(), lifted })
}

impl RehearsedPlan {
    /// Whether the installation would cancel an earlier time limit.
    fn cancels_time_limit(&self) -> bool {
        self.before.as_ref().is_some_and(|j| j.deadline().is_some()) && self.journal.deadline().is_none()
    }
}

/// Shapes a device of the calling thread's network namespace.
///
/// # Errors
/// See [`ShapeError`]; the device is restored unless the error states otherwise.
pub fn install(policy: &Policy, options: InstallOptions) -> Result<Installed, ShapeError> {
    let journal_file = JournalFile::of(&policy.device)?;
    let mut netlink = Netlink::open()?;
    let found = observe::observe(&mut netlink, &policy.device)?;
    let lock = journal_file.lock()?;
    let rehearsed = rehearse_plan(policy, options, &journal_file, &found, &mut netlink)?;
    let lifted = rehearsed.cancels_time_limit();
    let RehearsedPlan { before, prepared, journal, changes } = rehearsed;
    journal_file.write(&journal)?;
    if journal.deadline().is_some()
        && let Err(e) = guard::start(&journal_file, &journal)
    {
        before.as_ref().map_or_else(|| journal_file.remove(), |j| journal_file.write(j))?;
        return Err(e);
    }
    let count = changes.len();
    let outcome = apply_changes(&mut netlink, &changes, &prepared.plan, &policy.device);
    if let Err(why) = outcome {
        let error = undo(&mut netlink, &journal_file, &journal, why);
        drop(lock);
        if let Some(before) = &before {
            reinstall(&before.policy, before.until)?;
        }
        return Err(error);
    }
    let journal = Journal { programs: [None; 2], ..journal };
    let journal = Journal { programs: programs_in_place(&mut netlink, &journal)?, ..journal };
    journal_file.write(&journal)?;
    Ok(Installed { plan: prepared.plan, changes: count, lifted })
}

/// Reinstalls the earlier policy.
pub(super) fn reinstall(policy: &Policy, until: Option<Instant>) -> Result<(), ShapeError> {
    let for_time = until.map(|at| at.saturating_since(kernel::now()));
    install(policy, InstallOptions { for_time, ..InstallOptions::default() }).map(drop)
}

/// Shapes a device without a state file: in a network that ends with its creator, such as that of a lab.
///
/// # Errors
/// As [`install`]; the change may then be incomplete.
pub fn install_for_good(policy: &Policy) -> Result<Plan, ShapeError> {
    let mut netlink = Netlink::open()?;
    let found = observe::observe(&mut netlink, &policy.device)?;
    let prepared = prepare(policy, &found, None, &mut netlink)?;
    let changes = changes(&prepared, &found, None, &mut netlink)?;
    apply_changes(&mut netlink, &changes, &prepared.plan, &policy.device)
        .map_err(|why| ShapeError::Undone { device: policy.device.clone(), why })?;
    Ok(prepared.plan)
}

/// Plans, and loads the programs that the plan needs.
fn prepare(
    policy: &Policy,
    found: &Found,
    before: Option<&Journal>,
    netlink: &mut Netlink,
) -> Result<Prepared, ShapeError> {
    let facilities = rehearsal::facilities(true);
    let without = Facilities { bpf: false, ..facilities };
    let plan = plan_for(policy, &found.device, facilities)?;
    let by_necessity = plan_for(policy, &found.device, without).is_err();
    // Only a filter that still exists keeps its program.
    let in_place = |journal: &Journal| programs_in_place(netlink, journal);
    let kept = before.filter(|j| need_same_programs(&j.policy, policy)).map_or(Ok([None; 2]), in_place)?;
    let load = |side: Option<&SidePlan>, kept: Option<u32>| -> Result<Option<Program>, bpf::BpfError> {
        match side {
            Some(SidePlan { rules: Some(rules), default, .. }) => Ok(Some(match kept {
                Some(number) => Program::Kept(number),
                None => Program::Loaded(load(rules, *default, policy)?),
            })),
            _ => Ok(None),
        }
    };
    let egress = load(plan.egress.as_ref(), kept[0]);
    let ingress = load(plan.ingress.as_ref().map(|i| &i.side), kept[1]);
    match (egress, ingress) {
        (Ok(egress), Ok(ingress)) => Ok(Prepared { plan, facilities, programs: [egress, ingress] }),
        (Err(e), _) | (_, Err(e)) if by_necessity => Err(e.into()),
        // Many plain filters do the same, more slowly.
        _ => {
            let plan = plan_for(policy, &found.device, without)?;
            Ok(Prepared { plan, facilities: without, programs: [None, None] })
        }
    }
}

fn load(rules: &[(Handle, shaping::Match)], default: Handle, policy: &Policy) -> Result<Classifier, bpf::BpfError> {
    let rules = rules.iter().map(|(class, matches)| bpf::Rule { class: *class, matches: matches.clone() }).collect();
    Classifier::load(&bpf::Settings { rules, default, sizes: policy.sizes })
}

/// Whether two policies need the same programs: the existing one then keeps its flow state.
fn need_same_programs(a: &Policy, b: &Policy) -> bool {
    let rules = |side: &Option<shaping::Side>| {
        side.as_ref().map(|s| (s.default, s.classes.iter().map(|c| c.matches.clone()).collect::<Vec<_>>()))
    };
    a.sizes == b.sizes && rules(&a.egress) == rules(&b.egress) && rules(&a.ingress) == rules(&b.ingress)
}

/// The journal: the traffic control before longhaul, as messages that were tried.
fn journal(
    prepared: &Prepared,
    found: &Found,
    policy: &Policy,
    before: Option<&Journal>,
    options: InstallOptions,
    netlink: &mut Netlink,
) -> Result<Journal, ShapeError> {
    let plan = &prepared.plan;
    let now = kernel::now();
    let (utc, nanos) = kernel::utc_seconds();
    let ifb = plan.ingress.as_ref().map(|i| Ifb { name: i.side.device.name.clone(), index: i.side.device.index });
    if let (Some(ifb), None) = (&ifb, before.and_then(|j| j.ifb.as_ref()))
        && netlink.links()?.iter().any(|d| d.name == ifb.name || d.index == ifb.index)
    {
        return Err(ShapeError::NameTaken { name: ifb.name.clone() });
    }
    let is_ours = |side| before.is_some() && observe::is_ours(&found.egress, side);
    let before_egress = match &plan.egress {
        Some(side) if !is_ours(side) && !observe::is_empty(&found.egress) => saved(&found.egress, found, options)?,
        _ => before.map(|j| j.before_egress.clone()).unwrap_or_default(),
    };
    let is_hook = |hook: &Tree| before.is_some() && hook.differences(&found.ingress).is_empty();
    let before_ingress = match &plan.ingress {
        Some(i) if !is_hook(&i.hook) && !observe::is_empty(&found.ingress) => saved(&found.ingress, found, options)?,
        _ => before.map(|j| j.before_ingress.clone()).unwrap_or_default(),
    };
    Ok(Journal {
        id: utc * 1_000_000_000 + u64::from(nanos),
        device: found.device.name.clone(),
        index: found.device.index,
        policy: policy.clone(),
        ifb: ifb.or_else(|| before.and_then(|j| j.ifb.clone())),
        before_egress,
        before_ingress,
        programs: before.map_or([None; 2], |j| j.programs),
        facilities: prepared.facilities,
        // An unconfirmed policy is not restored.
        previous: before.and_then(|j| if j.confirm_by.is_some() { j.previous.clone() } else { Some(j.policy.clone()) }),
        previous_until: before.and_then(|j| if j.confirm_by.is_some() { j.previous_until } else { j.until }),
        confirm_by: options.confirm_within.map(|t| now + t),
        until: options.for_time.map(|t| now + t),
    })
}

/// The messages that restore another program's traffic control, if replacing it is allowed.
fn saved(tree: &Tree, found: &Found, options: InstallOptions) -> Result<Vec<Saved>, ShapeError> {
    let (device, what) = (found.device.name.clone(), observe::describe(tree));
    if !options.replace {
        return Err(ShapeError::Foreign { device, what });
    }
    let messages: Vec<tc::Message> =
        tree.operations_from(&Tree::default()).iter().map(|o| o.message(found.device.index)).collect();
    rehearsal::check_restoration(tree, &messages, found.device.index).map_err(|why| ShapeError::NotRestorable {
        device,
        what,
        why,
    })?;
    Ok(messages.iter().map(Saved::new).collect())
}

/// The difference between the plan and the present state, in an order that never directs a packet to a missing class.
fn changes(
    prepared: &Prepared,
    found: &Found,
    before: Option<&Journal>,
    netlink: &mut Netlink,
) -> Result<Vec<Change>, ShapeError> {
    let plan = with_programs(prepared);
    let ifb = before.and_then(|j| j.ifb.as_ref());
    let ifb_exists = match ifb {
        Some(ifb) => netlink.links()?.iter().any(|d| d.index == ifb.index && d.name == ifb.name),
        None => false,
    };
    let mut changes = Vec::new();
    let mut ifb_tree = Tree::default();
    if let Some(ingress) = &plan.ingress {
        let index = ingress.side.device.index;
        if ifb_exists {
            ifb_tree = observe::traffic_control(netlink, index)?.0;
        } else {
            let name = ingress.side.device.name.clone();
            changes.push(Change::AddIfb { name, index, tx_queue_len: IFB_QUEUE });
            changes.push(Change::SetUp { index, up: true });
        }
    }
    let [own, other] = observe::operations(&plan, found, &ifb_tree);
    if let Some(ingress) = &plan.ingress {
        changes.extend(on(ingress.side.device.index, other));
    }
    changes.extend(on(found.device.index, own));
    if let (Some(journal), None) = (before, &plan.ingress) {
        changes.extend(restore::without_ingress(journal, found, ifb_exists)?);
    }
    if let (Some(journal), None) = (before, &plan.egress) {
        changes.extend(restore::without_egress(journal, found)?);
    }
    Ok(changes)
}

fn on(device: u32, operations: Vec<Operation>) -> impl Iterator<Item = Change> {
    operations.into_iter().map(move |operation| Change::Tc { device, operation })
}

/// The plan with its programs.
fn with_programs(prepared: &Prepared) -> Plan {
    let mut plan = prepared.plan.clone();
    let sides = [plan.egress.as_mut(), plan.ingress.as_mut().map(|i| &mut i.side)];
    for (side, program) in sides.into_iter().zip(&prepared.programs) {
        if let (Some(side), Some(program)) = (side, program) {
            let (descriptor, id) = match program {
                Program::Loaded(program) => (Some(program.descriptor()), 0),
                Program::Kept(number) => (None, *number),
            };
            observe::set_program(&mut side.tree, descriptor, id);
        }
    }
    plan
}

/// Builds the whole plan from nothing on stand-in devices. A kept program was tried when it was loaded.
fn rehearse(prepared: &Prepared, device: &str) -> Result<(), ShapeError> {
    let plan = with_programs(prepared);
    let index = plan.device.index;
    let ifb = plan.ingress.as_ref().map(|i| i.side.device.index);
    let nothing = Found { device: plan.device.clone(), egress: Tree::default(), ingress: Tree::default() };
    let [own, other] = observe::operations(&plan, &nothing, &Tree::default());
    let mut changes: Vec<Change> = ifb.map_or_else(Vec::new, |ifb| on(ifb, other).collect());
    changes.extend(on(index, own));
    changes.retain(|c| !lacks_program(c));
    let devices: Vec<u32> = std::iter::once(index).chain(ifb).collect();
    rehearsal::rehearse(&devices, &changes)
        .map_err(|source| ShapeError::Rehearsal { device: device.to_owned(), source })
}

fn lacks_program(change: &Change) -> bool {
    let Change::Tc { operation: Operation::Add(Object::Filter(filter)), .. } = change else { return false };
    matches!(&filter.classifier, tc::Classifier::Bpf(program) if program.descriptor.is_none())
}

/// Applies the changes, reads back and compares; returns the first difference.
fn apply_changes(netlink: &mut Netlink, changes: &[Change], plan: &Plan, device: &str) -> Result<(), String> {
    netlink.change_all(changes).map_err(|e| e.to_string())?;
    let differences = differences(netlink, plan, device).map_err(|e| e.to_string())?;
    match differences.as_slice() {
        [] => Ok(()),
        [first, ..] => Err(format!("{first} ({} in all)", differences.len())),
    }
}

/// Differences between the kernel's state and the plan.
pub(super) fn differences(netlink: &mut Netlink, plan: &Plan, device: &str) -> Result<Vec<String>, ShapeError> {
    let found = observe::observe(netlink, device)?;
    let mut all = Vec::new();
    let mut compare = |wanted: &Tree, found: &Tree, on: &str| {
        all.extend(wanted.differences(found).iter().map(|d| format!("{on}: {d}")));
    };
    if let Some(egress) = &plan.egress {
        compare(&egress.tree, &found.egress, device);
    }
    if let Some(ingress) = &plan.ingress {
        compare(&ingress.hook, &found.ingress, device);
        let name = &ingress.side.device.name;
        match observe::observe(netlink, name) {
            Ok(ifb) => compare(&ingress.side.tree, &ifb.egress, name),
            Err(ShapeError::NoDevice { .. }) => all.push(format!("{name} is gone")),
            Err(e) => return Err(e),
        }
    }
    Ok(all)
}

/// Reverts a failed change.
fn undo(netlink: &mut Netlink, journal_file: &JournalFile, journal: &Journal, why: String) -> ShapeError {
    let device = journal.device.clone();
    match restore::restore(netlink, journal_file, journal) {
        Ok(restore::Restored::DeviceGone) => ShapeError::Gone { device },
        Ok(restore::Restored::AsBefore) => ShapeError::Undone { device, why },
        Ok(restore::Restored::LeftAlone(left)) => ShapeError::Left { device, why, left },
        Err(e) => e,
    }
}

fn programs_in_place(netlink: &mut Netlink, journal: &Journal) -> Result<[Option<u32>; 2], ShapeError> {
    let egress = observe::program(&observe::traffic_control(netlink, journal.index)?.0);
    let ifb = journal.ifb.as_ref().filter(|_| journal.policy.ingress.is_some());
    let existing = netlink.links()?;
    let ifb = ifb.filter(|ifb| existing.iter().any(|d| d.index == ifb.index));
    let ingress = match ifb {
        Some(ifb) => observe::program(&observe::traffic_control(netlink, ifb.index)?.0),
        None => None,
    };
    // Programs of other installations are not kept.
    let [own_egress, own_ingress] = journal.programs;
    Ok([egress.filter(|p| own_egress.is_none_or(|o| o == *p)), ingress.filter(|p| own_ingress.is_none_or(|o| o == *p))])
}
