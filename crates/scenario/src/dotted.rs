//! Dotted keys: finding and replacing values of the tree, for overrides, variants and sweeps.

use crate::problem::{Fault, known_names};
use crate::tree::{Entry, Kind, Origin, Table, Value};

/// Tables whose entries are named by the author. An override with a new name here is an error: it would create a second
/// link instead of changing the first.
const NAMED: [&str; 7] = ["nodes", "links", "lans", "flows", "mice", "programs", "parameters"];

/// Maximum number of parts of a dotted key: no key of the format is deeper, and each part costs a stack frame.
const PARTS_MAX: usize = 16;

/// Splits a dotted key into its parts; a part may be quoted as in TOML (`nodes.a.sysctl."net.ipv4.tcp_rmem"`).
pub(crate) fn split(key: &str) -> Result<Vec<String>, Fault> {
    let bad =
        || Fault::new(format!("`{key}` is not a valid key"), "write names with dots between them: links.path.rate");
    let mut parts = Vec::new();
    let mut rest = key.trim();
    loop {
        let (part, after) = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => rest[1..].split_once(quote).ok_or_else(bad)?,
            _ => rest.split_at(rest.find('.').unwrap_or(rest.len())),
        };
        if part.is_empty() {
            return Err(bad());
        }
        parts.push(part.to_owned());
        if parts.len() > PARTS_MAX {
            return Err(bad());
        }
        match after.strip_prefix('.') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(parts),
            None => return Err(bad()),
        }
    }
}

/// The value at a key, if there is one.
pub(crate) fn find<'a>(root: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(&root.get(first)?.value, |value, part| match &value.kind {
        Kind::Table(table) => table.get(part).map(|e| &e.value),
        Kind::Array(items) => items.get(part.parse::<usize>().ok()?),
        Kind::Text(_) | Kind::Integer(_) | Kind::Float(..) | Kind::Boolean(_) | Kind::Date(_) => None,
    })
}

/// Sets the value at `path`. A table is merged into an existing table; any other value replaces the old one.
pub(crate) fn set(root: &mut Table, path: &[String], value: Value) -> Result<(), Fault> {
    set_in_table(root, &mut Vec::new(), path, value)
}

fn set_in_table(table: &mut Table, above: &mut Vec<String>, path: &[String], value: Value) -> Result<(), Fault> {
    let Some((name, rest)) = path.split_first() else {
        return merge(table, above, value);
    };
    if table.get(name).is_none() {
        if let [section] = above.as_slice()
            && NAMED.contains(&section.as_str())
        {
            let known: Vec<&str> = table.entries.iter().map(|e| e.name.as_str()).collect();
            return Err(Fault::new(
                format!("there is no `{name}` in {section}"),
                known_names(name, &known, &format!("the file has no {section}")),
            ));
        }
        let empty = Value { kind: Kind::Table(Table::default()), origin: value.origin };
        table.entries.push(Entry { name: name.clone(), origin: value.origin, value: empty });
    }
    let Some(entry) = table.get_mut(name) else { return Ok(()) };
    if rest.is_empty() {
        entry.origin = value.origin;
    }
    above.push(name.clone());
    set_in_value(&mut entry.value, above, rest, value)
}

fn set_in_value(target: &mut Value, above: &mut Vec<String>, path: &[String], value: Value) -> Result<(), Fault> {
    match (&mut target.kind, path.split_first()) {
        (Kind::Table(table), Some(_)) => set_in_table(table, above, path, value),
        (Kind::Table(table), None) if matches!(value.kind, Kind::Table(_)) => {
            target.origin = value.origin;
            merge(table, above, value)
        }
        (_, None) => {
            *target = value;
            Ok(())
        }
        (Kind::Array(items), Some((index, rest))) => {
            let count = items.len();
            let Some(item) = index.parse::<usize>().ok().and_then(|i| items.get_mut(i)) else {
                let list = above.join(".");
                return Err(Fault::new(
                    format!("index `{index}` is out of range for the list {list} of {count}"),
                    format!("entries are numbered from 0: {list}.0"),
                ));
            };
            above.push(index.clone());
            set_in_value(item, above, rest, value)
        }
        (kind, Some((name, _))) => Err(Fault::new(
            format!("{} is {}, it has no `{name}`", above.join("."), kind.noun()),
            format!("set {} as a whole", above.join(".")),
        )),
    }
}

fn merge(table: &mut Table, above: &mut Vec<String>, value: Value) -> Result<(), Fault> {
    let Kind::Table(new) = value.kind else { return Ok(()) };
    for entry in new.entries {
        let depth = above.len();
        set_in_table(table, above, &[entry.name], entry.value)?;
        above.truncate(depth);
    }
    Ok(())
}

/// Applies the table of a variant: a key may be dotted in quotes, or be a table.
pub(crate) fn apply(root: &mut Table, changes: &Table) -> Vec<(Origin, String, Fault)> {
    let mut faults = Vec::new();
    for change in &changes.entries {
        let applied = split(&change.name).and_then(|path| set(root, &path, change.value.clone()));
        if let Err(fault) = applied {
            faults.push((change.origin, change.name.clone(), fault));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_parts_of_a_key_may_hold_dots() {
        assert_eq!(split("a.'b.c'.\"d\"").unwrap(), ["a", "b.c", "d"]);
        for bad in ["", ".", "a.", "a..b", "a.\"b", "\"a\"b"] {
            assert!(split(bad).is_err(), "{bad}");
        }
        assert!(split(&"a.".repeat(100_000)).is_err(), "the stack is limited");
    }
}
