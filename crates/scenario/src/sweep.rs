//! Sweeps and plots: one file, many parameter sets.

use crate::dotted;
use crate::model::{Metric, Model, Plot};
use crate::problem::Fault;
use crate::quantity;
use crate::section::Item;
use crate::tree::{Table, Value};

/// Maximum number of points of a sweep: each is a run.
const POINTS_MAX: usize = 1000;

/// A key that the sweep varies.
#[derive(Debug)]
pub(crate) struct Sweep<'a> {
    pub(crate) key: String,
    pub(crate) path: Vec<String>,
    values: Vec<Item<'a>>,
}

/// Reads `[[sweep]]`.
pub(crate) fn read<'a>(item: &Item<'a>) -> Vec<Sweep<'a>> {
    let mut sweeps: Vec<Sweep<'a>> = Vec::new();
    for item in item.items() {
        let Some(mut section) = item.section() else { continue };
        let key = section.required("key", "name the key to vary: key = \"links.path.loss\"");
        let values = section.required("values", "write them as a list: values = [0.001, 0.01]");
        section.finish();
        let (Some(key), Some(values)) = (key, values) else { continue };
        let Some((name, path)) = key.read(|v| {
            let name = quantity::text(v)?;
            let path = dotted::split(&name)?;
            Ok((name, path))
        }) else {
            continue;
        };
        let values = values.items();
        if values.is_empty() {
            item.complain(Fault::new("has no values", "write at least one, or leave the sweep out"));
        }
        if sweeps.iter().any(|s| s.path == path) {
            key.complain(Fault::new("is swept already", "put all values into one [[sweep]]"));
        }
        sweeps.push(Sweep { key: name, path, values });
    }
    let points = sweeps.iter().fold(1_usize, |n, s| n.saturating_mul(s.values.len()));
    if points > POINTS_MAX {
        item.complain(Fault::new(format!("{points} points are too many"), format!("at most {POINTS_MAX}")));
    }
    sweeps
}

/// Every combination of values as indices, the first key varying slowest; one empty point without a sweep.
pub(crate) fn points(sweeps: &[Sweep<'_>]) -> Vec<Vec<usize>> {
    sweeps.iter().fold(vec![Vec::new()], |points, sweep| {
        let extend = |point: Vec<usize>| (0..sweep.values.len()).map(move |i| [point.as_slice(), &[i]].concat());
        points.into_iter().flat_map(extend).collect()
    })
}

/// The tree at one point.
pub(crate) fn at_point(root: &Table, sweeps: &[Sweep<'_>], point: &[usize]) -> Table {
    let mut root = root.clone();
    for (sweep, index) in sweeps.iter().zip(point) {
        let Some(item) = sweep.values.get(*index) else { continue };
        if let Err(fault) = dotted::set(&mut root, &sweep.path, item.value.clone()) {
            item.complain(fault);
        }
    }
    root
}

/// The key and value of each sweep at a point, with parameters replaced. A swept key may itself be a parameter, which
/// is only in the tree as it was written.
pub(crate) fn labels(root: &Table, as_written: &Table, sweeps: &[Sweep<'_>]) -> Vec<(String, String)> {
    let label = |s: &Sweep<'_>| {
        let value = dotted::find(root, &s.path).or_else(|| dotted::find(as_written, &s.path));
        let value = value.map(|value| value.kind.plain()).unwrap_or_default();
        (s.key.clone(), value)
    };
    sweeps.iter().map(label).collect()
}

/// Reads `[plot]`.
pub(crate) fn read_plot(item: &Item<'_>, sweeps: &[(String, String)], traffic: &[&str]) -> Option<Plot> {
    const METRICS: &[(&str, Metric)] = &[
        ("throughput", Metric::Throughput),
        ("completion", Metric::Completion),
        ("queue-delay", Metric::QueueDelay),
        ("utilisation", Metric::Utilisation),
    ];
    const MODELS: &[(&str, Model)] = &[("mathis", Model::Mathis), ("cubic", Model::Cubic)];
    let mut section = item.section()?;
    let swept = |item: &Item<'_>| item.read(|value| swept_key(value, sweeps));
    let x = section.required("x", "name the key of a [[sweep]]").and_then(|i| swept(&i));
    let series_item = section.item("series");
    let series = series_item.as_ref().and_then(swept);
    let y_item = section.required("y", "write \"throughput\", \"completion\", \"queue-delay\" or \"utilisation\"");
    let y = y_item.as_ref().and_then(|i| i.read(quantity::name(METRICS)));
    let log = section.read("log", quantity::boolean).unwrap_or(false);
    let models_item = section.item("models");
    let models: Vec<Model> = models_item
        .as_ref()
        .map_or_else(Vec::new, |list| list.items().iter().filter_map(|i| i.read(quantity::name(MODELS))).collect());
    section.finish();
    if let Some(item) = series_item.filter(|_| series.is_some() && series == x) {
        item.complain(Fault::new("is the x axis as well", "name another key of the sweep, or leave it out"));
    }
    if let Some(item) = y_item {
        let missing = match y {
            Some(Metric::Completion) if !traffic.contains(&"mice") => Some("needs [mice.*] for completion times"),
            Some(Metric::Throughput) if !traffic.contains(&"flows") => Some("needs [flows.*] for throughput"),
            Some(Metric::Completion | Metric::Throughput | Metric::QueueDelay | Metric::Utilisation) | None => None,
        };
        if let Some(missing) = missing {
            item.complain(Fault::new(missing, "add them, or plot another quantity"));
        }
    }
    if let Some(item) = models_item.filter(|_| !models.is_empty() && y.is_some() && y != Some(Metric::Throughput)) {
        item.complain(Fault::new(
            "the models predict throughput only",
            "write y = \"throughput\", or leave models out",
        ));
    }
    Some(Plot { x: x?, y: y?, series, log, models })
}

fn swept_key(value: &Value, sweeps: &[(String, String)]) -> Result<String, Fault> {
    let key = quantity::text(value)?;
    if sweeps.iter().any(|(swept, _)| *swept == key) {
        return Ok(key);
    }
    let known: Vec<&str> = sweeps.iter().map(|(swept, _)| swept.as_str()).collect();
    let hint = crate::problem::known_names(&key, &known, "add a [[sweep]] with this key");
    Err(Fault::new(format!("`{key}` is not swept"), hint))
}
