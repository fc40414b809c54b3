//! The operations between two trees.

use std::collections::{BTreeMap, BTreeSet};

use super::{Place, Tree, place, qdisc_of, same};
use crate::filter::{Classifier, Filter};
use crate::handle::Handle;
use crate::message::Operation;
use crate::object::{Object, Qdisc};

/// Action on an existing object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It stays as it is.
    Stays,
    /// It stays with other settings.
    Changes,
    /// Another one takes its place in one step.
    IsReplaced,
    /// The object is deleted before anything is added, because it blocks an addition.
    GoesFirst,
    /// It is deleted when everything else is done.
    GoesLast,
    /// It goes together with what holds it.
    GoesAlong,
}

impl Fate {
    fn stays(self) -> bool {
        matches!(self, Self::Stays | Self::Changes)
    }
}

struct Plan<'a> {
    /// Wanted disciplines by their parents, and where each handle is wanted.
    qdiscs: BTreeMap<Handle, &'a Qdisc>,
    places: BTreeMap<Handle, Handle>,
    /// Wanted classes with their parents, and those of them that have classes below.
    classes: BTreeMap<Handle, (Handle, Object)>,
    inner: BTreeSet<Handle>,
    /// Fates of found disciplines by their parents, with their handles.
    fates: BTreeMap<Handle, (Fate, Handle)>,
    /// Found disciplines that do not stay.
    gone: BTreeSet<Handle>,
    /// Fates of found classes.
    class_fates: BTreeMap<Handle, Fate>,
}

pub(super) fn operations(wanted: &Tree, found: &Tree) -> Vec<Operation> {
    let mut plan = Plan {
        qdiscs: wanted.qdiscs.iter().map(|q| (q.parent, q)).collect(),
        places: wanted.qdiscs.iter().filter(|q| q.handle != Handle::NONE).map(|q| (q.handle, q.parent)).collect(),
        classes: wanted.classes().map(|(parent, c)| (c.handle(), (parent, c))).collect(),
        inner: inner(wanted),
        fates: BTreeMap::new(),
        gone: BTreeSet::new(),
        class_fates: BTreeMap::new(),
    };
    let there = found.holders();
    for (parent, object) in &there {
        plan.decide(*parent, object);
    }
    let filters = plan.filters(wanted, found);
    let mut operations = filters.first;
    operations.extend(plan.deletions(&there, Fate::GoesFirst));
    operations.extend(wanted.holders().into_iter().filter_map(|(parent, object)| plan.addition(parent, object)));
    operations.extend(filters.added);
    operations.extend(filters.last);
    operations.extend(plan.deletions(&there, Fate::GoesLast));
    operations
}

/// Classes that have classes below.
pub(super) fn inner(tree: &Tree) -> BTreeSet<Handle> {
    tree.classes().map(|(parent, _)| parent).filter(|parent| parent.minor() != 0).collect()
}

/// The operations that concern filters.
#[derive(Default)]
struct Filters {
    first: Vec<Operation>,
    added: Vec<Operation>,
    last: Vec<Operation>,
}

impl Plan<'_> {
    /// Decides about one object; what holds it is decided already.
    fn decide(&mut self, parent: Handle, found: &Object) {
        if let Object::Qdisc(qdisc) = found {
            let fate = self.fate_of_qdisc(qdisc);
            self.fates.insert(parent, (fate, qdisc.handle));
            if !fate.stays() && qdisc.handle != Handle::NONE {
                self.gone.insert(qdisc.handle);
            }
        } else {
            let fate = self.fate_of_class(parent, found);
            self.class_fates.insert(found.handle(), fate);
        }
    }

    fn fate_of_qdisc(&self, found: &Qdisc) -> Fate {
        let holder = self.class_fates.get(&found.parent);
        if self.gone.contains(&qdisc_of(found.parent)) || holder == Some(&Fate::GoesFirst) {
            return Fate::GoesAlong;
        }
        if self.places.get(&found.handle).is_some_and(|place| *place != found.parent) {
            return Fate::GoesFirst;
        }
        // A leaf that gets classes loses its discipline, and one that goes takes it along.
        if holder == Some(&Fate::GoesLast) || self.inner.contains(&found.parent) {
            return Fate::GoesAlong;
        }
        let Some(wanted) = self.qdiscs.get(&found.parent) else { return Fate::GoesLast };
        let same = same::discipline(&wanted.discipline, &found.discipline);
        match wanted.handle == found.handle || (wanted.handle == Handle::NONE && found.parent != Handle::INGRESS) {
            true if same => Fate::Stays,
            true if same::changeable(wanted, found) => Fate::Changes,
            true => Fate::GoesFirst,
            false => Fate::IsReplaced,
        }
    }

    fn fate_of_class(&self, parent: Handle, found: &Object) -> Fate {
        if self.gone.contains(&qdisc_of(found.handle())) {
            return Fate::GoesAlong;
        }
        let above = self.class_fates.get(&parent);
        let above_stays = above.is_none_or(|fate| fate.stays());
        match self.classes.get(&found.handle()) {
            Some((wanted_parent, wanted)) if above_stays && *wanted_parent == parent => self.compare(wanted, found),
            Some(_) => Fate::GoesFirst,
            None if above == Some(&Fate::GoesFirst) => Fate::GoesFirst,
            // A class that shall be a leaf cannot be one while classes are below.
            None if above_stays && above.is_some() && !self.inner.contains(&parent) => Fate::GoesFirst,
            None => Fate::GoesLast,
        }
    }

    fn compare(&self, wanted: &Object, found: &Object) -> Fate {
        match (wanted, found) {
            (w, f) if w == f => Fate::Stays,
            (Object::Class(w), Object::Class(f)) => {
                let inner = self.inner.contains(&w.handle);
                if same::kept_class(&w.htb, inner, &f.htb) == f.htb { Fate::Stays } else { Fate::Changes }
            }
            _ => Fate::GoesFirst,
        }
    }

    /// Deletions, what is held before what holds.
    fn deletions(&self, there: &[(Handle, Object)], when: Fate) -> Vec<Operation> {
        let due = |parent: &Handle, object: &Object| self.fate(*parent, object).0 == Some(when);
        let due = there.iter().rev().filter(|(parent, object)| due(parent, object));
        due.map(|(_, object)| Operation::Delete(object.clone())).collect()
    }

    /// What becomes of the discipline or class in the place of this one; for a discipline also the handle that is there.
    fn fate(&self, parent: Handle, object: &Object) -> (Option<Fate>, Option<Handle>) {
        if matches!(object, Object::Qdisc(_)) {
            self.fates.get(&parent).copied().unzip()
        } else {
            (self.class_fates.get(&object.handle()).copied(), None)
        }
    }

    /// How an object comes to be as it is wanted; `None` if it is.
    fn addition(&self, parent: Handle, wanted: Object) -> Option<Operation> {
        let (fate, handle) = self.fate(parent, &wanted);
        match fate {
            Some(Fate::Stays) => None,
            Some(Fate::Changes) => Some(Operation::Change(match (wanted, handle) {
                (Object::Qdisc(qdisc), Some(handle)) => Object::Qdisc(Qdisc { handle, ..qdisc }),
                (class, _) => class,
            })),
            Some(Fate::IsReplaced) => Some(Operation::Replace(wanted)),
            Some(Fate::GoesFirst | Fate::GoesLast | Fate::GoesAlong) | None => Some(Operation::Add(wanted)),
        }
    }

    /// Filters are compared preference by preference. Those before the first difference stay.
    fn filters(&self, wanted: &Tree, found: &Tree) -> Filters {
        let (wanted, found) = (by_place(wanted), by_place(found));
        let mut operations = Filters::default();
        for (place, there) in &found {
            let shall = wanted.get(place).map_or(&[][..], Vec::as_slice);
            if self.go_along(place) {
                continue;
            }
            let gone = removals(there, self.common(shall, there));
            let in_the_way = !shall.is_empty() || there.iter().any(|f| self.points_at_class_that_goes_first(f));
            if in_the_way { operations.first.extend(gone) } else { operations.last.extend(gone) }
        }
        for (place, shall) in &wanted {
            let there = found.get(place).filter(|_| !self.go_along(place)).map_or(&[][..], Vec::as_slice);
            let missing = shall.iter().skip(self.common(shall, there));
            operations.added.extend(missing.map(|f| Operation::Add(Object::Filter((*f).clone()))));
        }
        operations
    }

    /// Whether filters go together with the discipline or class that asks them.
    fn go_along(&self, place: &Place) -> bool {
        self.gone.contains(&qdisc_of(place.0)) || self.class_fates.get(&place.0).is_some_and(|fate| !fate.stays())
    }

    /// How many filters at the beginning of a preference can stay.
    fn common(&self, wanted: &[&Filter], found: &[&Filter]) -> usize {
        let pairs = wanted.iter().zip(found);
        let known = |f: &Filter| f.preference != 0 && !self.points_at_class_that_goes_first(f);
        pairs.take_while(|(w, f)| same::filter(w, f, false) && known(w) && known(f)).count()
    }

    /// The kernel does not delete a class that a filter points at.
    fn points_at_class_that_goes_first(&self, filter: &Filter) -> bool {
        let Classifier::U32 { class: Some(class), .. } = &filter.classifier else { return false };
        self.class_fates.get(class) == Some(&Fate::GoesFirst)
    }
}

/// The filters of each preference, in the order in which they are asked.
pub(super) fn by_place(tree: &Tree) -> BTreeMap<Place, Vec<&Filter>> {
    let mut places: BTreeMap<Place, Vec<&Filter>> = BTreeMap::new();
    for filter in &tree.filters {
        places.entry(place(filter)).or_default().push(filter);
    }
    places
}

/// Removes filters behind the first `stay`; the whole preference at once if none stays, and with it what tables it has.
fn removals(there: &[&Filter], stay: usize) -> Vec<Operation> {
    let delete = |f: Filter| Operation::Delete(Object::Filter(f));
    match there.first() {
        Some(first) if stay == 0 => vec![delete(Filter { handle: 0, ..(*first).clone() })],
        _ => there.iter().skip(stay).rev().map(|f| delete((*f).clone())).collect(),
    }
}
