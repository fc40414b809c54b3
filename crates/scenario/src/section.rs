//! Reads tables key by key; a key that no reader requests is an error in the file.

use crate::problem::{Fault, Report, known_names};
use crate::tree::{Kind, Origin, Table, Value};

/// A position in the file that a later check can refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) key: String,
    pub(crate) origin: Origin,
}

impl Spot {
    pub(crate) fn complain(&self, report: &Report, fault: Fault) {
        report.add(self.origin, &self.key, fault);
    }
}

/// A value and its dotted key.
#[derive(Debug, Clone)]
pub(crate) struct Item<'a> {
    pub(crate) report: &'a Report,
    pub(crate) key: String,
    pub(crate) value: &'a Value,
}

impl<'a> Item<'a> {
    pub(crate) fn complain(&self, fault: Fault) {
        self.report.add(self.value.origin, &self.key, fault);
    }

    pub(crate) fn spot(&self) -> Spot {
        Spot { key: self.key.clone(), origin: self.value.origin }
    }

    /// The value, converted by a reader; `None` after an error has been reported.
    pub(crate) fn read<T>(&self, reader: impl FnOnce(&Value) -> Result<T, Fault>) -> Option<T> {
        reader(self.value).map_err(|fault| self.complain(fault)).ok()
    }

    /// The value as a table; `None` after an error has been reported.
    pub(crate) fn section(&self) -> Option<Section<'a>> {
        if let Kind::Table(table) = &self.value.kind {
            return Some(Section::new(self.report, self.key.clone(), self.value.origin, table));
        }
        let what = self.value.kind.noun();
        self.complain(Fault::new(format!("is {what}, not a table"), format!("write [{}]", self.key)));
        None
    }

    /// The entries of a list; none after an error has been reported.
    pub(crate) fn items(&self) -> Vec<Self> {
        let Kind::Array(items) = &self.value.kind else {
            let what = self.value.kind.noun();
            self.complain(Fault::new(format!("is {what}, not a list"), "write it in brackets: [ ... ]"));
            return Vec::new();
        };
        let item = |(index, value)| Self { report: self.report, key: format!("{}.{index}", self.key), value };
        items.iter().enumerate().map(item).collect()
    }

    /// The entries of a list, or the value itself as the only entry.
    pub(crate) fn one_or_more(&self) -> Vec<Self> {
        if matches!(self.value.kind, Kind::Array(_)) { self.items() } else { vec![self.clone()] }
    }

    /// The entries of a table whose keys are names chosen by the author.
    pub(crate) fn named(&self) -> Vec<(String, Self)> {
        let Some(section) = self.section() else { return Vec::new() };
        let entry = |e: &'a crate::tree::Entry| {
            let key = format!("{}.{}", self.key, e.name);
            (e.name.clone(), Self { report: self.report, key, value: &e.value })
        };
        section.table.entries.iter().map(entry).collect()
    }
}

/// A table that reports keys that no reader requests.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    pub(crate) report: &'a Report,
    key: String,
    origin: Origin,
    table: &'a Table,
    known: Vec<&'static str>,
    /// Known keys that do not apply here; hints leave them out.
    refused: Vec<&'static str>,
}

impl<'a> Section<'a> {
    pub(crate) fn new(report: &'a Report, key: String, origin: Origin, table: &'a Table) -> Self {
        Self { report, key, origin, table, known: Vec::new(), refused: Vec::new() }
    }

    pub(crate) fn complain(&self, fault: Fault) {
        self.report.add(self.origin, &self.key, fault);
    }

    pub(crate) fn spot(&self) -> Spot {
        Spot { key: self.key.clone(), origin: self.origin }
    }

    pub(crate) fn item(&mut self, name: &'static str) -> Option<Item<'a>> {
        self.known.push(name);
        let entry = self.table.get(name)?;
        Some(Item { report: self.report, key: self.dotted(name), value: &entry.value })
    }

    /// `None` if the key is absent, or if its value is wrong and an error has been reported.
    pub(crate) fn read<T>(&mut self, name: &'static str, reader: impl FnOnce(&Value) -> Result<T, Fault>) -> Option<T> {
        self.item(name)?.read(reader)
    }

    /// A required key; `missing` is the hint if it is absent.
    pub(crate) fn required(&mut self, name: &'static str, missing: &str) -> Option<Item<'a>> {
        let item = self.item(name);
        if item.is_none() {
            self.report.add(self.origin, &self.dotted(name), Fault::new("is missing", missing));
        }
        item
    }

    /// A key that exists elsewhere and does not apply here; reports `reason` if the key is given.
    pub(crate) fn refuse(&mut self, name: &'static str, reason: &str, hint: &str) {
        self.refused.push(name);
        if let Some(entry) = self.table.get(name) {
            self.report.add(entry.value.origin, &self.dotted(name), Fault::new(reason, hint));
        }
    }

    /// The keys of `names` that are given.
    pub(crate) fn given<'n>(&self, names: &[&'n str]) -> Vec<&'n str> {
        names.iter().copied().filter(|name| self.table.get(name).is_some()).collect()
    }

    /// Reports an error for every key that no reader has requested.
    pub(crate) fn finish(mut self) {
        self.known.sort_unstable();
        self.known.dedup();
        let is_known = |name: &str| self.known.contains(&name) || self.refused.contains(&name);
        for entry in self.table.entries.iter().filter(|e| !is_known(&e.name)) {
            let hint = known_names(&entry.name, &self.known, "leave it out");
            self.report.add(entry.origin, &self.dotted(&entry.name), Fault::new("is an unknown key", hint));
        }
    }

    fn dotted(&self, name: &str) -> String {
        if self.key.is_empty() { name.to_owned() } else { format!("{}.{name}", self.key) }
    }
}
