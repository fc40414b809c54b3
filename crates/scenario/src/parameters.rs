//! Parameters: `"$name"` stands for a value of `[parameters]`, `"1Gb/s * $scale"` and `"90s / $faster"` for a scaled
//! quantity.

use crate::problem::{Fault, Report, known_names};
use crate::tree::{Entry, Kind, Table, Value};

/// Replaces every parameter below `root` by its value and removes the table of parameters.
pub(crate) fn substitute(root: &mut Table, report: &Report) {
    let parameters = match root.take("parameters") {
        None => Table::default(),
        Some(Entry { value: Value { kind: Kind::Table(table), .. }, .. }) => table,
        Some(other) => {
            let fault = Fault::new("is not a table", "write [parameters] and below it lines such as scale = 0.1");
            report.add(other.origin, "parameters", fault);
            Table::default()
        }
    };
    for entry in &parameters.entries {
        if let Err(fault) = check(&entry.value.kind) {
            report.add(entry.origin, &format!("parameters.{}", entry.name), fault);
        }
    }
    let mut walk = Walk { parameters: &parameters, report, key: Vec::new() };
    walk.table(root);
}

fn check(kind: &Kind) -> Result<(), Fault> {
    match kind {
        Kind::Text(text) if parameter_name(text).is_some() => {
            Err(Fault::new("a parameter cannot stand for another", "write its value"))
        }
        Kind::Text(_) | Kind::Integer(_) | Kind::Float(..) | Kind::Boolean(_) => Ok(()),
        Kind::Date(_) | Kind::Array(_) | Kind::Table(_) => {
            Err(Fault::new(format!("a parameter cannot be {}", kind.noun()), "write a text or a number"))
        }
    }
}

struct Walk<'a> {
    parameters: &'a Table,
    report: &'a Report,
    key: Vec<String>,
}

impl Walk<'_> {
    fn table(&mut self, table: &mut Table) {
        for entry in &mut table.entries {
            self.key.push(entry.name.clone());
            self.value(&mut entry.value);
            self.key.pop();
        }
    }

    fn value(&mut self, value: &mut Value) {
        match &mut value.kind {
            Kind::Table(table) => self.table(table),
            Kind::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.key.push(index.to_string());
                    self.value(item);
                    self.key.pop();
                }
            }
            Kind::Text(text) => match self.text(text) {
                Ok(None) => {}
                Ok(Some(kind)) => value.kind = kind,
                Err(fault) => self.report.add(value.origin, &self.key.join("."), fault),
            },
            Kind::Integer(_) | Kind::Float(..) | Kind::Boolean(_) | Kind::Date(_) => {}
        }
    }

    fn text(&self, text: &str) -> Result<Option<Kind>, Fault> {
        if let Some(name) = parameter_name(text) {
            return self.lookup(name).map(|kind| Some(kind.clone()));
        }
        if let Some(escaped) = text.strip_prefix('$')
            && parameter_name(escaped).is_some()
        {
            return Ok(Some(Kind::Text(escaped.to_owned())));
        }
        self.scaled(text)
    }

    /// A number with a unit, followed by factors and divisors: ` * $name` or ` / $name`.
    fn scaled(&self, text: &str) -> Result<Option<Kind>, Fault> {
        let tokens: Vec<&str> = text.split_whitespace().collect();
        let is_operator =
            |i: usize| matches!(tokens[i], "*" | "/") && tokens.get(i + 1).is_some_and(|w| w.starts_with('$'));
        let Some(first) = (1..tokens.len()).find(|i| is_operator(*i)) else { return Ok(None) };
        let quantity = tokens[..first].join(" ");
        let digits = quantity.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(quantity.len());
        let (number, unit) = quantity.split_at(digits);
        // The text is not a quantity: a shell command may contain `*` and `/`, too.
        let Ok(mut number) = number.parse::<f64>() else { return Ok(None) };
        for pair in tokens[first..].chunks(2) {
            let &[operator @ ("*" | "/"), name] = pair else { return Err(malformed(text)) };
            let name = parameter_name(name).ok_or_else(|| malformed(text))?;
            let factor = number_of(name, self.lookup(name)?)?;
            number = if operator == "*" { number * factor } else { number / factor };
        }
        if !number.is_finite() {
            return Err(Fault::new(format!("`{text}` is not finite"), "do not divide by zero"));
        }
        Ok(Some(Kind::Text(format!("{number}{unit}"))))
    }

    fn lookup(&self, name: &str) -> Result<&Kind, Fault> {
        self.parameters.get(name).map(|e| &e.value.kind).ok_or_else(|| {
            let known: Vec<&str> = self.parameters.entries.iter().map(|e| e.name.as_str()).collect();
            let none = format!("add `{name} = ...` below [parameters], or write `$${name}` for the text itself");
            Fault::new(format!("there is no parameter `{name}`"), known_names(name, &known, &none))
        })
    }
}

fn number_of(name: &str, kind: &Kind) -> Result<f64, Fault> {
    let not_a_number = || Fault::new(format!("parameter `{name}` is {}", kind.noun()), "only a number can scale");
    match kind {
        Kind::Integer(n) => Ok(*n as f64),
        Kind::Float(n, _) => Ok(*n),
        Kind::Text(_) | Kind::Boolean(_) | Kind::Date(_) | Kind::Array(_) | Kind::Table(_) => Err(not_a_number()),
    }
}

fn malformed(text: &str) -> Fault {
    Fault::new(
        format!("`{text}` cannot be read"),
        "write a quantity, then ` * $name` or ` / $name`, such as \"1Gb/s * $scale\"",
    )
}

/// The name in `$name`.
fn parameter_name(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
    (starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')).then_some(name)
}
