//! A TOML document as a tree that can be changed; each value has its origin.

use toml::de::{DeTable, DeValue};

use crate::problem::{Fault, Report};

/// Position of a value in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Byte offset in the file.
    File(usize),
    /// Index of the override.
    Override(usize),
    /// The file as a whole.
    Whole,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Value {
    pub(crate) kind: Kind,
    pub(crate) origin: Origin,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Text(String),
    Integer(i64),
    /// A floating-point number, with its text as written: `1e-5` is printed as such, not as `0.00001`.
    Float(f64, String),
    Boolean(bool),
    /// A TOML date; no key accepts one.
    Date(String),
    Array(Vec<Value>),
    Table(Table),
}

impl Kind {
    /// The kind of value, with its article.
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Integer(_) => "a whole number",
            Self::Float(..) => "a number",
            Self::Boolean(_) => "true or false",
            Self::Date(_) => "a date",
            Self::Array(_) => "a list",
            Self::Table(_) => "a table",
        }
    }

    /// The text, if the value is text.
    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn is_table(&self) -> bool {
        matches!(self, Self::Table(_))
    }

    pub(crate) fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// The value as in a table of results: text without quotes.
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::Text(text) | Self::Float(_, text) | Self::Date(text) => text.clone(),
            Self::Integer(n) => n.to_string(),
            Self::Boolean(b) => b.to_string(),
            Self::Array(items) => {
                let items: Vec<_> = items.iter().map(|v| v.kind.plain()).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Table(table) => {
                let entries: Vec<_> =
                    table.entries.iter().map(|e| format!("{} = {}", e.name, e.value.kind.plain())).collect();
                format!("{{ {} }}", entries.join(", "))
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Position of the key.
    pub(crate) origin: Origin,
    pub(crate) value: Value,
}

/// Entries in the order of the file; names are unique.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
}

impl Table {
    pub(crate) fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|e| e.name == name)
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Entry> {
        let index = self.entries.iter().position(|e| e.name == name)?;
        Some(self.entries.remove(index))
    }
}

/// Parses the text of a file; errors go to `report`.
pub(crate) fn parse(text: &str, report: &Report) -> Option<Table> {
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let origin = error.span().map_or(Origin::Whole, |span| Origin::File(span.start));
            report.add(origin, "", Fault::new(syntax(error.message()), QUOTES));
            return None;
        }
    };
    match table(document.into_inner(), &Origin::File) {
        Ok(table) => Some(table),
        Err((origin, fault)) => {
            report.add(origin, "", fault);
            None
        }
    }
}

/// Parses the value of an override: TOML, or text without quotes.
pub(crate) fn parse_override(text: &str, index: usize) -> Result<Value, Fault> {
    let origin = Origin::Override(index);
    let bare = || Value { kind: Kind::Text(text.to_owned()), origin };
    match DeValue::parse(text) {
        Ok(parsed) => {
            let parsed = value(parsed.into_inner(), origin, &|_| origin).map_err(|(_, fault)| fault)?;
            Ok(if matches!(parsed.kind, Kind::Date(_)) { bare() } else { parsed })
        }
        Err(error) if text.trim_start().starts_with(['[', '{', '"', '\'']) => {
            Err(Fault::new(syntax(error.message()), "write a TOML value, or a text without quotes"))
        }
        Err(_) => Ok(bare()),
    }
}

const QUOTES: &str = "the file is TOML: texts such as \"10ms\" stand in quotes";

fn syntax(message: &str) -> String {
    format!("cannot be read: {}", message.lines().collect::<Vec<_>>().join(" "))
}

type Place<'p> = &'p dyn Fn(usize) -> Origin;

fn table(parsed: DeTable<'_>, place: Place<'_>) -> Result<Table, (Origin, Fault)> {
    let mut entries = Vec::new();
    for (key, spanned) in parsed {
        let (key_at, value_at) = (place(key.span().start), place(spanned.span().start));
        let value = value(spanned.into_inner(), value_at, place)?;
        entries.push(Entry { name: key.into_inner().into_owned(), origin: key_at, value });
    }
    Ok(Table { entries })
}

fn value(parsed: DeValue<'_>, origin: Origin, place: Place<'_>) -> Result<Value, (Origin, Fault)> {
    let kind = match parsed {
        DeValue::String(text) => Kind::Text(text.into_owned()),
        DeValue::Boolean(b) => Kind::Boolean(b),
        DeValue::Datetime(date) => Kind::Date(date.to_string()),
        DeValue::Integer(n) => match i64::from_str_radix(n.as_str(), n.radix()) {
            Ok(n) => Kind::Integer(n),
            Err(_) => return Err((origin, Fault::new(format!("{n} is too large"), "write a number below 2^63"))),
        },
        DeValue::Float(n) => match n.as_str().parse::<f64>() {
            Ok(number) if number.is_finite() => Kind::Float(number, n.as_str().to_owned()),
            _ => return Err((origin, Fault::new(format!("{n} is not finite"), "write a finite number"))),
        },
        DeValue::Array(items) => {
            let mut values = Vec::new();
            for item in items {
                let at = place(item.span().start);
                values.push(value(item.into_inner(), at, place)?);
            }
            Kind::Array(values)
        }
        DeValue::Table(entries) => Kind::Table(table(entries, place)?),
    };
    Ok(Value { kind, origin })
}
