//! Published values, shown beside the measured ones.

use crate::flows::Draft;
use crate::model::{Flow, Mice, PublishedValue};
use crate::problem::{Fault, known_names};
use crate::quantity;
use crate::section::Item;
use crate::topology::Topology;
use crate::tree::{Kind, Value};

/// Reads `[[published]]`.
pub(crate) fn read(
    item: &Item<'_>,
    topology: &Topology,
    flows: &[Draft<Flow>],
    mice: &[Draft<Mice>],
) -> Vec<PublishedValue> {
    let mut subjects = vec!["run".to_owned()];
    subjects.extend(flows.iter().map(|f| format!("flow.{}", f.what.name)));
    subjects.extend(mice.iter().map(|m| format!("mice.{}", m.what.name)));
    subjects.extend(mice.iter().map(|m| format!("bin.{}", m.what.name)));
    subjects.extend(topology.links.iter().map(|l| format!("link.{}", l.name)));
    let one = |item: Item<'_>| {
        let mut section = item.section()?;
        let metric = section.required("metric", "name a metric of the summary: metric = \"flow.f.packets\"");
        let metric = metric.and_then(|i| i.read(|value| subject_known(value, &subjects)));
        let value = section
            .required("value", "write it as a number in the metric's unit, or as a rate or a time")
            .and_then(|i| i.read(number));
        let source = section.required("source", "name the publication: source = \"table 3.1\"");
        let source = source.and_then(|i| i.read(quantity::text));
        section.finish();
        Some(PublishedValue { metric: metric?, value: value?, source: source? })
    };
    item.items().into_iter().filter_map(one).collect()
}

/// Checks that a metric belongs to a flow, link or other entry of the file. Its quantities are known only after a run.
fn subject_known(value: &Value, subjects: &[String]) -> Result<String, Fault> {
    let metric = quantity::text(value)?;
    let is_of = |subject: &String| metric.strip_prefix(subject.as_str()).is_some_and(|rest| rest.starts_with('.'));
    if subjects.iter().any(is_of) {
        return Ok(metric);
    }
    let known: Vec<&str> = subjects.iter().map(String::as_str).collect();
    let subject = metric.rsplit_once('.').map_or(metric.as_str(), |(subject, _)| subject);
    Err(Fault::new(format!("`{metric}` does not refer to an entry of the file"), known_names(subject, &known, "")))
}

fn number(value: &Value) -> Result<f64, Fault> {
    match &value.kind {
        Kind::Integer(n) => Ok(*n as f64),
        Kind::Float(n, _) => Ok(*n),
        // A scaled number is text as well.
        Kind::Text(text) => text
            .parse()
            .ok()
            // `10m` is a time here; a rate is written `10Mb/s`.
            .or_else(|| quantity::duration(value).ok().map(|time| time.as_secs_f64()))
            .or_else(|| quantity::rate(value).ok().map(|rate| rate.as_bps() as f64))
            .filter(|n: &f64| n.is_finite())
            .ok_or_else(|| Fault::new(format!("`{text}` is neither a number nor a rate or a time"), HINT)),
        other @ (Kind::Boolean(_) | Kind::Date(_) | Kind::Array(_) | Kind::Table(_)) => {
            Err(Fault::new(format!("is {}, not a number", other.noun()), HINT))
        }
    }
}

const HINT: &str = "write a number in the metric's unit, or a rate or a time with its unit";
