//! All traffic control objects of one device, and the operations that change them into a wanted tree.

mod difference;
mod plan;
mod same;

use std::collections::BTreeMap;

pub use difference::Difference;

use crate::filter::{Classifier, Filter};
use crate::handle::Handle;
use crate::message::Operation;
use crate::object::{Class, Object, OtherClass, Qdisc};

/// Maximum depth of the walk, which ends cycles of parents. HTB, the deepest tree of the kernel, has eight levels
/// (TC_HTB_MAXDEPTH).
const DEPTH_MAX: u32 = 64;
/// Kinds whose classes are created by requests. The classes of all other kinds exist as long as their discipline.
const KINDS_WITH_REQUESTED_CLASSES: [&str; 4] = ["htb", "hfsc", "drr", "qfq"];

/// The traffic control objects of one device: parents before children, filters in evaluation order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// Queueing disciplines.
    pub qdiscs: Vec<Qdisc>,
    /// Classes of HTB.
    pub classes: Vec<Class>,
    /// Other classes that requests can create.
    pub other_classes: Vec<OtherClass>,
    /// Filters. A filter without a preference never matches an existing one.
    pub filters: Vec<Filter>,
}

impl Tree {
    /// Creates a tree of planned objects. The kernel assigns a handle to a discipline without one.
    pub fn planned(objects: impl IntoIterator<Item = Object>) -> Self {
        let mut tree = Self::default();
        for object in objects {
            match object {
                Object::Qdisc(q) => tree.qdiscs.push(q),
                Object::Class(c) => tree.classes.push(c),
                Object::OtherClass(c) => tree.other_classes.push(c),
                Object::Filter(f) => tree.filters.push(f),
            }
        }
        tree.sort();
        tree
    }

    /// Creates a tree of the objects that were read from a device. Objects that the kernel creates by default are
    /// omitted, so that the tree of an unmodified device is empty.
    ///
    /// These are disciplines without a handle (defaults, and those in leaves and token buckets), classes of disciplines
    /// that create their own classes, and the heads and tables of filters.
    pub fn found(objects: impl IntoIterator<Item = Object>) -> Self {
        let mut tree = Self::planned(objects);
        tree.qdiscs.retain(|q| q.handle != Handle::NONE);
        tree.other_classes.retain(|c| KINDS_WITH_REQUESTED_CLASSES.contains(&c.kind.as_str()));
        tree.filters.retain(|f| !is_head(f));
        let mut tables = BTreeMap::new();
        for f in tree.filters.iter().filter(|f| is_table(f)) {
            *tables.entry(filter_key(f)).or_insert(0) += 1;
        }
        // Several tables of one preference form a user's hash; the table that the kernel created cannot be identified.
        tree.filters.retain(|f| !is_table(f) || tables.get(&filter_key(f)).is_some_and(|n| *n > 1));
        tree
    }

    /// The shortest ordered list of operations that turns `found` into this tree.
    ///
    /// Equal objects remain. HTB classes, FIFOs, token buckets and fq_codel are changed in place. The kernel cannot
    /// change an HTB discipline, which is recreated with all its descendants. Different root or ingress disciplines are
    /// replaced or recreated with all their descendants. Within a preference, all filters from the first different one
    /// on are recreated, because their order matters.
    ///
    /// Deletions come last, except those of objects that block an addition.
    pub fn operations_from(&self, found: &Self) -> Vec<Operation> {
        plan::operations(self, found)
    }

    /// Differences between this tree and `found`, which was read back. The comparison applies the kernel's rounding. It
    /// ignores values that the kernel chooses: handles of filters and disciplines, ids of BPF programs.
    pub fn differences(&self, found: &Self) -> Vec<Difference> {
        difference::differences(self, found)
    }

    fn sort(&mut self) {
        let parents = self.parents();
        let depth = |parent: &Handle| depth(&parents, *parent);
        self.qdiscs.sort_by_cached_key(|q| (depth(&q.parent), q.parent, q.handle));
        self.classes.sort_by_cached_key(|c| (depth(&c.parent), c.handle));
        self.other_classes.sort_by_cached_key(|c| (depth(&c.parent), c.handle));
        self.filters.sort_by_key(filter_key);
    }

    /// Disciplines and classes with their parents, ancestors first.
    fn holders(&self) -> Vec<(Handle, Object)> {
        let mut all: Vec<(Handle, Object)> = Vec::new();
        all.extend(self.qdiscs.iter().map(|q| (q.parent, Object::Qdisc(q.clone()))));
        all.extend(self.classes());
        let parents = self.parents();
        all.sort_by_cached_key(|(parent, _)| depth(&parents, *parent));
        all
    }

    /// All classes with their parents.
    fn classes(&self) -> impl Iterator<Item = (Handle, Object)> {
        let others = self.other_classes.iter().map(|c| (c.parent, Object::OtherClass(c.clone())));
        self.classes.iter().map(|c| (c.parent, Object::Class(*c))).chain(others)
    }

    /// Parents of all disciplines and classes.
    fn parents(&self) -> BTreeMap<Handle, Handle> {
        let classes = self.classes().map(|(parent, class)| (class.handle(), parent));
        let qdiscs = self.qdiscs.iter().map(|q| (q.handle, q.parent));
        qdiscs.chain(classes).filter(|(handle, _)| *handle != Handle::NONE).collect()
    }
}

/// Number of ancestors of an object with this parent.
fn depth(parents: &BTreeMap<Handle, Handle>, parent: Handle) -> u32 {
    let mut at = parent;
    for depth in 0..DEPTH_MAX {
        // An unlisted class, such as the only class of a token bucket, counts as its discipline.
        let Some(above) = parents.get(&at).or_else(|| parents.get(&qdisc_of(at))) else { return depth };
        at = *above;
    }
    DEPTH_MAX
}

/// Discipline of a handle; none for the root and ingress hooks, whose values look like classes of `ffff:`.
fn qdisc_of(handle: Handle) -> Handle {
    match handle {
        Handle::ROOT | Handle::INGRESS => Handle::NONE,
        handle => Handle::new(handle.major(), 0),
    }
}

impl Object {
    /// Handle; none for a filter.
    fn handle(&self) -> Handle {
        match self {
            Self::Qdisc(q) => q.handle,
            Self::Class(c) => c.handle,
            Self::OtherClass(c) => c.handle,
            Self::Filter(_) => Handle::NONE,
        }
    }
}

/// Sort key of filters. Filters with equal keys are ordered by creation.
type FilterKey = (Handle, u32, u16);

fn filter_key(filter: &Filter) -> FilterKey {
    (filter.parent, filter.chain(), filter.preference)
}

/// The kernel reports each preference before its filters.
fn is_head(filter: &Filter) -> bool {
    filter.handle == 0 && matches!(&filter.classifier, Classifier::Other { options, .. } if options.is_empty())
}

/// Whether the filter is a u32 hash table with one bucket; the kernel creates one for each preference.
fn is_table(filter: &Filter) -> bool {
    let Classifier::Other { kind, options, .. } = &filter.classifier else { return false };
    let numbered = filter.handle >> 31 == 1 && filter.handle & 0xf_ffff == 0;
    // The only option is TCA_U32_DIVISOR.
    let single = crate::attribute::exactly(options, [4]).and_then(|[v]| crate::attribute::words(v?)) == Some([1]);
    kind == "u32" && numbered && single
}
