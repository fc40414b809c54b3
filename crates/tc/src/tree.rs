//! All traffic control of one device, and the operations that change it into a wanted tree.

mod difference;
mod plan;
mod same;

use std::collections::BTreeMap;

pub use difference::Difference;

use crate::filter::{Classifier, Filter};
use crate::handle::Handle;
use crate::message::Operation;
use crate::object::{Class, Object, OtherClass, Qdisc};

/// Deeper than any tree of the kernel's, whose HTB has eight levels (TC_HTB_MAXDEPTH): an end for parents that form a circle.
const DEPTH: u32 = 64;
/// Kinds whose classes are created by requests; classes of all other kinds come and go with the discipline.
const MADE_BY_REQUEST: [&str; 4] = ["htb", "hfsc", "drr", "qfq"];

/// The traffic control objects of one device: parents before children, filters in the order in which they are asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// Queueing disciplines.
    pub qdiscs: Vec<Qdisc>,
    /// Classes of HTB.
    pub classes: Vec<Class>,
    /// Other classes, which can be made by request.
    pub other_classes: Vec<OtherClass>,
    /// Filters. Those without a preference are never taken to be there already.
    pub filters: Vec<Filter>,
}

impl Tree {
    /// A tree of planned objects. A discipline without a handle gets one from the kernel.
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

    /// The tree of objects that were read from a device. What the kernel makes by itself is left out: it comes back by itself as
    /// soon as nothing else is in its place, so that the tree of an untouched device is empty.
    ///
    /// Left out are disciplines without a handle (default ones, and those in leaves and token buckets that were given none),
    /// classes of disciplines that make their classes themselves, and the heads and tables of filters.
    pub fn found(objects: impl IntoIterator<Item = Object>) -> Self {
        let mut tree = Self::planned(objects);
        tree.qdiscs.retain(|q| q.handle != Handle::NONE);
        tree.other_classes.retain(|c| MADE_BY_REQUEST.contains(&c.kind.as_str()));
        tree.filters.retain(|f| !is_head(f));
        let mut tables = BTreeMap::new();
        for f in tree.filters.iter().filter(|f| is_table(f)) {
            *tables.entry(place(f)).or_insert(0) += 1;
        }
        // Several tables of one preference are somebody's hash; there is no telling which one the kernel made.
        tree.filters.retain(|f| !is_table(f) || tables.get(&place(f)).is_some_and(|n| *n > 1));
        tree
    }

    /// The shortest ordered list of operations that turns `found` into this tree.
    ///
    /// What is equal stays. Classes of HTB are changed in place, and fifos, token buckets and fq_codel too; the kernel can change
    /// no setting of an HTB discipline as a whole, which is recreated with everything below. Where root or ingress discipline
    /// differ, they are replaced or recreated, and all below with them. Within a preference, filters behind the first one that
    /// differs are recreated, because their order counts.
    ///
    /// Deletions come last, except those of objects that block an addition.
    pub fn operations_from(&self, found: &Self) -> Vec<Operation> {
        plan::operations(self, found)
    }

    /// Where `found`, which was read back, is not this tree. Settings that the kernel rounds are equal if they are rounded so, and
    /// what was left to the kernel to choose (handles of filters and disciplines, numbers of BPF programs) may be anything.
    pub fn differences(&self, found: &Self) -> Vec<Difference> {
        difference::differences(self, found)
    }

    fn sort(&mut self) {
        let parents = self.parents();
        let depth = |parent: &Handle| depth(&parents, *parent);
        self.qdiscs.sort_by_cached_key(|q| (depth(&q.parent), q.parent, q.handle));
        self.classes.sort_by_cached_key(|c| (depth(&c.parent), c.handle));
        self.other_classes.sort_by_cached_key(|c| (depth(&c.parent), c.handle));
        self.filters.sort_by_key(place);
    }

    /// Disciplines and classes with their parents, what holds others before those.
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

    /// The parents of all that can hold something.
    fn parents(&self) -> BTreeMap<Handle, Handle> {
        let classes = self.classes().map(|(parent, class)| (class.handle(), parent));
        let qdiscs = self.qdiscs.iter().map(|q| (q.handle, q.parent));
        qdiscs.chain(classes).filter(|(handle, _)| *handle != Handle::NONE).collect()
    }
}

/// How many objects are above one with this parent.
fn depth(parents: &BTreeMap<Handle, Handle>, parent: Handle) -> u32 {
    let mut at = parent;
    for depth in 0..DEPTH {
        // A class that is not listed counts as its discipline: a token bucket's only class, for one.
        let Some(above) = parents.get(&at).or_else(|| parents.get(&qdisc_of(at))) else { return depth };
        at = *above;
    }
    DEPTH
}

/// The discipline that a handle is or belongs to; none for the two places of a device, which look like classes of `ffff:`.
fn qdisc_of(handle: Handle) -> Handle {
    match handle {
        Handle::ROOT | Handle::INGRESS => Handle::NONE,
        handle => Handle::new(handle.major(), 0),
    }
}

impl Object {
    /// Its own name; none for a filter.
    fn handle(&self) -> Handle {
        match self {
            Self::Qdisc(q) => q.handle,
            Self::Class(c) => c.handle,
            Self::OtherClass(c) => c.handle,
            Self::Filter(_) => Handle::NONE,
        }
    }
}

/// What filters are ordered by; among those of one place the order counts in which they were made.
type Place = (Handle, u32, u16);

fn place(filter: &Filter) -> Place {
    (filter.parent, filter.chain(), filter.preference)
}

/// The kernel reports each preference before its filters.
fn is_head(filter: &Filter) -> bool {
    filter.handle == 0 && matches!(&filter.classifier, Classifier::Other { options, .. } if options.is_empty())
}

/// A hash table of u32 with one bucket, numbered by the kernel: each preference has one.
fn is_table(filter: &Filter) -> bool {
    let Classifier::Other { kind, options, .. } = &filter.classifier else { return false };
    let numbered = filter.handle >> 31 == 1 && filter.handle & 0xf_ffff == 0;
    // TCA_U32_DIVISOR, and nothing else.
    let single = crate::attribute::exactly(options, [4]).and_then(|[v]| crate::attribute::words(v?)) == Some([1]);
    kind == "u32" && numbered && single
}
