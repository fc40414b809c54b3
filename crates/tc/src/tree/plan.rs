//! Planning of the operations between two trees.

use std::collections::{BTreeMap, BTreeSet};

use super::{FilterKey, Tree, filter_key, qdisc_of, same};
use crate::filter::{Classifier, Filter};
use crate::handle::Handle;
use crate::message::Operation;
use crate::object::{Object, Qdisc};

/// Action on an existing object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// The object remains as it is.
    Keep,
    /// The settings of the object change.
    Change,
    /// One request replaces the object.
    Replace,
    /// The object is deleted before anything is added, because it blocks an addition.
    DeleteFirst,
    /// The object is deleted after all other operations.
    DeleteLast,
    /// The kernel deletes the object with its parent.
    DeletedWithParent,
}

impl Action {
    fn keeps(self) -> bool {
        matches!(self, Self::Keep | Self::Change)
    }
}

struct Plan<'a> {
    /// Wanted disciplines by parent.
    qdiscs: BTreeMap<Handle, &'a Qdisc>,
    parents: BTreeMap<Handle, Handle>,
    /// Wanted classes by handle, with their parents.
    classes: BTreeMap<Handle, (Handle, Object)>,
    inner: BTreeSet<Handle>,
    /// Actions on found disciplines by parent, with their handles.
    qdisc_actions: BTreeMap<Handle, (Action, Handle)>,
    /// Found disciplines that do not remain.
    deleted: BTreeSet<Handle>,
    /// Actions on found classes.
    class_actions: BTreeMap<Handle, Action>,
}

pub(super) fn operations(wanted: &Tree, found: &Tree) -> Vec<Operation> {
    let mut plan = Plan {
        qdiscs: wanted.qdiscs.iter().map(|q| (q.parent, q)).collect(),
        parents: wanted.qdiscs.iter().filter(|q| q.handle != Handle::NONE).map(|q| (q.handle, q.parent)).collect(),
        classes: wanted.classes().map(|(parent, c)| (c.handle(), (parent, c))).collect(),
        inner: inner(wanted),
        qdisc_actions: BTreeMap::new(),
        deleted: BTreeSet::new(),
        class_actions: BTreeMap::new(),
    };
    let existing = found.holders();
    for (parent, object) in &existing {
        plan.decide(*parent, object);
    }
    let filters = plan.filters(wanted, found);
    let mut operations = filters.first;
    operations.extend(plan.deletions(&existing, Action::DeleteFirst));
    operations.extend(wanted.holders().into_iter().filter_map(|(parent, object)| plan.addition(parent, object)));
    operations.extend(filters.added);
    operations.extend(filters.last);
    operations.extend(plan.deletions(&existing, Action::DeleteLast));
    operations
}

/// Classes that have child classes.
pub(super) fn inner(tree: &Tree) -> BTreeSet<Handle> {
    tree.classes().map(|(parent, _)| parent).filter(|parent| parent.minor() != 0).collect()
}

/// Operations on filters.
#[derive(Default)]
struct Filters {
    first: Vec<Operation>,
    added: Vec<Operation>,
    last: Vec<Operation>,
}

impl Plan<'_> {
    /// Decides the action on one object, after the action on its parent.
    fn decide(&mut self, parent: Handle, found: &Object) {
        if let Object::Qdisc(qdisc) = found {
            let action = self.action_on_qdisc(qdisc);
            self.qdisc_actions.insert(parent, (action, qdisc.handle));
            if !action.keeps() && qdisc.handle != Handle::NONE {
                self.deleted.insert(qdisc.handle);
            }
        } else {
            let action = self.action_on_class(parent, found);
            self.class_actions.insert(found.handle(), action);
        }
    }

    fn action_on_qdisc(&self, found: &Qdisc) -> Action {
        let holder = self.class_actions.get(&found.parent);
        if self.deleted.contains(&qdisc_of(found.parent)) || holder == Some(&Action::DeleteFirst) {
            return Action::DeletedWithParent;
        }
        if self.parents.get(&found.handle).is_some_and(|parent| *parent != found.parent) {
            return Action::DeleteFirst;
        }
        // A leaf that gets child classes loses its discipline, and a deleted class takes its discipline with it.
        if holder == Some(&Action::DeleteLast) || self.inner.contains(&found.parent) {
            return Action::DeletedWithParent;
        }
        let Some(wanted) = self.qdiscs.get(&found.parent) else { return Action::DeleteLast };
        let same = same::discipline(&wanted.discipline, &found.discipline);
        match wanted.handle == found.handle || (wanted.handle == Handle::NONE && found.parent != Handle::INGRESS) {
            true if same => Action::Keep,
            true if same::changeable(wanted, found) => Action::Change,
            true => Action::DeleteFirst,
            false => Action::Replace,
        }
    }

    fn action_on_class(&self, parent: Handle, found: &Object) -> Action {
        if self.deleted.contains(&qdisc_of(found.handle())) {
            return Action::DeletedWithParent;
        }
        let parent_action = self.class_actions.get(&parent);
        let parent_remains = parent_action.is_none_or(|action| action.keeps());
        match self.classes.get(&found.handle()) {
            Some((wanted_parent, wanted)) if parent_remains && *wanted_parent == parent => self.compare(wanted, found),
            Some(_) => Action::DeleteFirst,
            None if parent_action == Some(&Action::DeleteFirst) => Action::DeleteFirst,
            // A class cannot become a leaf while it has child classes.
            None if parent_remains && parent_action.is_some() && !self.inner.contains(&parent) => Action::DeleteFirst,
            None => Action::DeleteLast,
        }
    }

    fn compare(&self, wanted: &Object, found: &Object) -> Action {
        match (wanted, found) {
            (w, f) if w == f => Action::Keep,
            (Object::Class(w), Object::Class(f)) => {
                let inner = self.inner.contains(&w.handle);
                if same::stored_class(&w.htb, inner, &f.htb) == f.htb { Action::Keep } else { Action::Change }
            }
            _ => Action::DeleteFirst,
        }
    }

    /// Deletions, children before parents.
    fn deletions(&self, existing: &[(Handle, Object)], when: Action) -> Vec<Operation> {
        let due = |parent: &Handle, object: &Object| self.action(*parent, object).0 == Some(when);
        let due = existing.iter().rev().filter(|(parent, object)| due(parent, object));
        due.map(|(_, object)| Operation::Delete(object.clone())).collect()
    }

    /// Action on the discipline or class at the position of `object`, and for a discipline the existing handle.
    fn action(&self, parent: Handle, object: &Object) -> (Option<Action>, Option<Handle>) {
        if matches!(object, Object::Qdisc(_)) {
            self.qdisc_actions.get(&parent).copied().unzip()
        } else {
            (self.class_actions.get(&object.handle()).copied(), None)
        }
    }

    /// Operation that creates or changes an object; `None` if the object exists as wanted.
    fn addition(&self, parent: Handle, wanted: Object) -> Option<Operation> {
        let (action, handle) = self.action(parent, &wanted);
        match action {
            Some(Action::Keep) => None,
            Some(Action::Change) => Some(Operation::Change(match (wanted, handle) {
                (Object::Qdisc(qdisc), Some(handle)) => Object::Qdisc(Qdisc { handle, ..qdisc }),
                (class, _) => class,
            })),
            Some(Action::Replace) => Some(Operation::Replace(wanted)),
            Some(Action::DeleteFirst | Action::DeleteLast | Action::DeletedWithParent) | None => {
                Some(Operation::Add(wanted))
            }
        }
    }

    /// Compares filters within each preference. Filters before the first difference remain.
    fn filters(&self, wanted: &Tree, found: &Tree) -> Filters {
        let (wanted, found) = (by_key(wanted), by_key(found));
        let mut operations = Filters::default();
        for (key, existing) in &found {
            let planned = wanted.get(key).map_or(&[][..], Vec::as_slice);
            if self.are_deleted_with_parent(key) {
                continue;
            }
            let deleted = removals(existing, self.common(planned, existing));
            let blocks_addition = !planned.is_empty() || existing.iter().any(|f| self.refers_to_class_deleted_first(f));
            if blocks_addition { operations.first.extend(deleted) } else { operations.last.extend(deleted) }
        }
        for (key, planned) in &wanted {
            let existing = found.get(key).filter(|_| !self.are_deleted_with_parent(key)).map_or(&[][..], Vec::as_slice);
            let missing = planned.iter().skip(self.common(planned, existing));
            operations.added.extend(missing.map(|f| Operation::Add(Object::Filter((*f).clone()))));
        }
        operations
    }

    /// Whether filters are deleted with their discipline or class.
    fn are_deleted_with_parent(&self, key: &FilterKey) -> bool {
        self.deleted.contains(&qdisc_of(key.0)) || self.class_actions.get(&key.0).is_some_and(|action| !action.keeps())
    }

    /// Number of filters at the start of a preference that can remain.
    fn common(&self, wanted: &[&Filter], found: &[&Filter]) -> usize {
        let pairs = wanted.iter().zip(found);
        let known = |f: &Filter| f.preference != 0 && !self.refers_to_class_deleted_first(f);
        pairs.take_while(|(w, f)| same::filter(w, f, false) && known(w) && known(f)).count()
    }

    /// The kernel does not delete a class to which a filter refers.
    fn refers_to_class_deleted_first(&self, filter: &Filter) -> bool {
        let Classifier::U32 { class: Some(class), .. } = &filter.classifier else { return false };
        self.class_actions.get(class) == Some(&Action::DeleteFirst)
    }
}

/// Filters of each preference, in evaluation order.
pub(super) fn by_key(tree: &Tree) -> BTreeMap<FilterKey, Vec<&Filter>> {
    let mut by_key: BTreeMap<FilterKey, Vec<&Filter>> = BTreeMap::new();
    for filter in &tree.filters {
        by_key.entry(filter_key(filter)).or_default().push(filter);
    }
    by_key
}

/// Removes filters after the first `keep`. If `keep` is 0, one operation deletes the whole preference with its hash
/// tables.
fn removals(existing: &[&Filter], keep: usize) -> Vec<Operation> {
    let delete = |f: Filter| Operation::Delete(Object::Filter(f));
    match existing.first() {
        Some(first) if keep == 0 => vec![delete(Filter { handle: 0, ..(*first).clone() })],
        _ => existing.iter().skip(keep).rev().map(|f| delete((*f).clone())).collect(),
    }
}
