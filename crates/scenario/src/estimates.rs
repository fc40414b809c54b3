//! Calls of `longhaul estimate`.

use std::time::Duration;

use estimate::probe::MethodName;

use crate::flows::{Times, check_name, ends};
use crate::model::EstimateCall;
use crate::problem::{Fault, known_names};
use crate::quantity;
use crate::section::{Item, Spot};
use crate::topology::Topology;

/// Selects all methods.
const ALL: &str = "all";

/// Maximum number of methods of a call: all of them several times.
const METHODS_MAX: usize = 64;

/// A call whose end may depend on the duration of the run.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) call: EstimateCall,
    pub(crate) times: Times,
    /// Position for the error that the nodes cannot reach each other.
    pub(crate) spot: Spot,
}

/// Reads one call; [`finish`] sets its end.
pub(crate) fn read(name: String, item: &Item<'_>, topology: &Topology) -> Option<Draft> {
    check_name(&name, item);
    let mut section = item.section()?;
    let ends = ends(&mut section, topology);
    let times = Times::read(&mut section, &["stop"]);
    let methods = section.item("methods").map_or_else(|| Some(vec![MethodName::Auto]), |item| methods(&item));
    let budget = section.read("budget", quantity::bytes);
    let time = section.read("time", quantity::positive_duration);
    let reverse = section.read("reverse", quantity::boolean).unwrap_or(false);
    let spot = section.spot();
    section.finish();
    let (from, to) = ends?;
    let (start, stop) = (times.start, Duration::ZERO);
    let call = EstimateCall { name, from, to, start, stop, methods: methods?, budget, time, reverse };
    Some(Draft { call, times, spot })
}

/// Reads a list of names, or a text with names between spaces, which may come from a parameter.
fn methods(item: &Item<'_>) -> Option<Vec<MethodName>> {
    let mut all = Vec::new();
    for item in item.one_or_more() {
        for name in item.read(quantity::text)?.split_whitespace() {
            match name.parse() {
                Ok(method) => all.push(method),
                Err(_) if name == ALL => all.extend(MethodName::ALL),
                Err(_) => {
                    let known: Vec<&str> = MethodName::KNOWN.iter().map(|m| m.name()).chain([ALL]).collect();
                    let hint = known_names(name, &known, "see longhaul estimate --help");
                    item.complain(Fault::new(format!("`{name}` is not a method of longhaul estimate"), hint));
                    return None;
                }
            }
        }
    }
    if all.is_empty() {
        item.complain(Fault::new("names no method", "write methods = [\"auto\"], or leave it out"));
    }
    if all.len() > METHODS_MAX {
        let message = format!("{} methods are too many", all.len());
        item.complain(Fault::new(message, format!("at most {METHODS_MAX}; several [estimates.*] may run")));
    }
    (1..=METHODS_MAX).contains(&all.len()).then_some(all)
}

/// Sets the end of a call, once the duration of the run is known.
pub(crate) fn finish(draft: Draft, run: Duration) -> EstimateCall {
    EstimateCall { stop: draft.times.end.unwrap_or(run), ..draft.call }
}
