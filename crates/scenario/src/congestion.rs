//! `[congestion.NAME]`: longhaul's own congestion controls, with parameters.

use std::collections::BTreeMap;

use congestion::{Algorithm, Settings};

use crate::flows::congestion_control;
use crate::problem::Fault;
use crate::quantity;
use crate::section::{Item, Section};
use crate::tree::{Kind, Value};

/// Reads the table. Adds, with default parameters, each of longhaul's congestion controls that a flow uses and no table
/// configures.
pub(crate) fn read<'n>(root: &mut Section<'_>, used: impl Iterator<Item = &'n str>) -> BTreeMap<String, Settings> {
    let tables = root.item("congestion").map_or_else(Vec::new, |item| item.named());
    let mut all: BTreeMap<String, Settings> =
        tables.into_iter().filter_map(|(name, item)| read_one(name, &item)).collect();
    for name in used {
        if let Some(algorithm) = Algorithm::of_name(name) {
            all.entry(name.to_owned()).or_insert_with(|| Settings::of(algorithm));
        }
    }
    all
}

fn read_one(name: String, item: &Item<'_>) -> Option<(String, Settings)> {
    let Some(algorithm) = Algorithm::of_name(&name) else {
        let hint = "start the name with an algorithm, fast or htcp: fast_a200";
        item.complain(Fault::new(format!("`{name}` is none of longhaul's congestion controls"), hint));
        return None;
    };
    // The kernel limits these names, too.
    if let Err(fault) = congestion_control(&Value { kind: Kind::Text(name.clone()), origin: item.value.origin }) {
        item.complain(fault);
    }
    let mut settings = Settings::of(algorithm);
    // Reports an error if the value is not a table.
    item.section()?;
    for (key, parameter) in item.named() {
        let set = parameter.read(parameter_text).map(|text| settings.set(&key, &text));
        if let Some(Err(e)) = set {
            parameter.complain(Fault::new(e.to_string(), "`longhaul cc show` lists the parameters"));
        }
    }
    Some((name, settings))
}

fn parameter_text(value: &Value) -> Result<String, Fault> {
    match &value.kind {
        Kind::Boolean(on) => Ok(if *on { "on" } else { "off" }.to_owned()),
        Kind::Text(_) | Kind::Integer(_) | Kind::Float(..) | Kind::Date(_) | Kind::Array(_) | Kind::Table(_) => {
            quantity::as_text(value)
        }
    }
}
