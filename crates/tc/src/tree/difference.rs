use std::fmt;
use std::time::Duration;

use units::Rate;

use super::{Tree, plan, same};
use crate::object::{Class, HtbClass, Object, Qdisc};

/// A difference between the wanted and the found objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// A wanted object does not exist.
    Missing(Object),
    /// An existing object is not wanted.
    Unexpected(Object),
    /// A setting differs.
    Setting {
        /// The object.
        object: Object,
        /// Name of the setting.
        setting: &'static str,
        /// Wanted value, as text.
        wanted: String,
        /// Found value, as text.
        found: String,
    },
}

impl fmt::Display for Difference {
    /// `class 1:10: ceiling wanted 200Mb/s, found 199Mb/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(object) => write!(f, "{object} is missing"),
            Self::Unexpected(object) => write!(f, "{object} exists and is not in the plan"),
            Self::Setting { object, setting, wanted, found } => {
                write!(f, "{object}: {setting} wanted {wanted}, found {found}")
            }
        }
    }
}

pub(super) fn differences(wanted: &Tree, found: &Tree) -> Vec<Difference> {
    let mut list = Vec::new();
    for qdisc in &wanted.qdiscs {
        match found.qdiscs.iter().find(|q| q.parent == qdisc.parent) {
            Some(there) => list.extend(of_qdisc(qdisc, there)),
            None => list.push(Difference::Missing(Object::Qdisc(qdisc.clone()))),
        }
    }
    let unexpected = found.qdiscs.iter().filter(|q| !wanted.qdiscs.iter().any(|w| w.parent == q.parent));
    list.extend(unexpected.map(|q| Difference::Unexpected(Object::Qdisc(q.clone()))));
    of_classes(wanted, found, &mut list);
    of_filters(wanted, found, &mut list);
    list
}

fn setting(object: Object, setting: &'static str, wanted: impl ToString, found: impl ToString) -> Difference {
    Difference::Setting { object, setting, wanted: wanted.to_string(), found: found.to_string() }
}

fn of_qdisc(wanted: &Qdisc, found: &Qdisc) -> Option<Difference> {
    let object = || Object::Qdisc(wanted.clone());
    let named = wanted.handle == found.handle || wanted.handle == crate::Handle::NONE;
    if !named {
        Some(setting(object(), "handle", wanted.handle, found.handle))
    } else if wanted.discipline.kind() != found.discipline.kind() {
        Some(setting(object(), "kind", wanted.discipline.kind(), found.discipline.kind()))
    } else if !same::discipline(&wanted.discipline, &found.discipline) {
        let settings = |q: &Qdisc| crate::command::discipline(&q.discipline);
        Some(setting(object(), "settings", settings(wanted), settings(found)))
    } else {
        None
    }
}

fn of_classes(wanted: &Tree, found: &Tree, list: &mut Vec<Difference>) {
    let existing: std::collections::BTreeMap<_, _> = found.classes().map(|(p, c)| (c.handle(), (p, c))).collect();
    let inner = plan::inner(wanted);
    for (parent, class) in wanted.classes() {
        let same = existing.get(&class.handle());
        match (class, same) {
            (class, None) => list.push(Difference::Missing(class)),
            (class, Some((other, _))) if *other != parent => list.push(setting(class, "parent", parent, other)),
            (Object::Class(w), Some((_, Object::Class(f)))) => {
                list.extend(of_class(&w, f, inner.contains(&w.handle)));
            }
            (class, Some((_, other))) if class != *other => {
                list.push(setting(class, "settings", "as they were read", "others"));
            }
            _ => {}
        }
    }
    let wanted_handles: std::collections::BTreeSet<_> = wanted.classes().map(|(_, c)| c.handle()).collect();
    let unexpected = existing.into_values().filter(|(_, c)| !wanted_handles.contains(&c.handle()));
    list.extend(unexpected.map(|(_, c)| Difference::Unexpected(c)));
}

fn of_class(wanted: &Class, found: &Class, inner: bool) -> Vec<Difference> {
    let (w, f): (HtbClass, HtbClass) = (same::stored_class(&wanted.htb, inner, &found.htb), found.htb);
    let pairs = [
        ("rate", rate(w.rate), rate(f.rate)),
        ("ceiling", rate(w.ceiling), rate(f.ceiling)),
        ("burst", time(w.burst), time(f.burst)),
        ("burst of the ceiling", time(w.ceiling_burst), time(f.ceiling_burst)),
        ("priority", w.priority.to_string(), f.priority.to_string()),
        ("quantum", w.quantum.to_string(), f.quantum.to_string()),
    ];
    let other = pairs.into_iter().filter(|(_, w, f)| w != f);
    other.map(|(name, w, f)| setting(Object::Class(*wanted), name, w, f)).collect()
}

fn of_filters(wanted: &Tree, found: &Tree, list: &mut Vec<Difference>) {
    let (wanted, found) = (plan::by_key(wanted), plan::by_key(found));
    for (key, planned) in &wanted {
        let existing = found.get(key).map_or(&[][..], Vec::as_slice);
        for (i, filter) in planned.iter().enumerate() {
            let object = || Object::Filter((*filter).clone());
            match existing.get(i) {
                None => list.push(Difference::Missing(object())),
                Some(other) if !same::filter(filter, other, true) => {
                    let settings = crate::command::classifier;
                    let (w, f) = (settings(&filter.classifier), settings(&other.classifier));
                    list.push(setting(object(), "comparison", w, f));
                }
                Some(_) => {}
            }
        }
    }
    for (key, existing) in &found {
        let wanted_count = wanted.get(key).map_or(0, Vec::len);
        let unexpected = existing.iter().skip(wanted_count);
        list.extend(unexpected.map(|f| Difference::Unexpected(Object::Filter((*f).clone()))));
    }
}

/// Formats the rate exactly, with the largest prefix that gives a whole number.
fn rate(rate: Rate) -> String {
    let bps = rate.as_bps();
    let prefixes = [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")];
    let fits = prefixes.into_iter().find(|(factor, _)| bps != 0 && bps.is_multiple_of(*factor));
    fits.map_or_else(|| format!("{bps}b/s"), |(factor, prefix)| format!("{}{prefix}b/s", bps / factor))
}

fn time(time: Duration) -> String {
    format!("{time:?}")
}
