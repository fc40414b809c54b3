//! Reads an experiment file from its text into scenarios: overrides, sweep, parameters, then every table.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::congestion;
use crate::dotted;
use crate::estimates;
use crate::files::{Files, Read};
use crate::flows::{self, Draft};
use crate::mice;
use crate::model::{Experiment, Extent, Flow, Mice, Scenario};
use crate::overlay;
use crate::parameters;
use crate::path_segments::path_segments;
use crate::problem::{Fault, Problems, Report, known_names};
use crate::programs;
use crate::published;
use crate::quantity;
use crate::routes;
use crate::schedule;
use crate::section::{Item, Section};
use crate::sweep::{self, Sweep};
use crate::topology::Topology;
use crate::tree::{self, Kind, Origin, Table};

/// Changes that the command line makes to an experiment file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Dotted keys and their values, in TOML or as bare text: `("links.path.rate", "10Mb/s")`. The last value of a key
    /// counts.
    pub overrides: Vec<(String, String)>,
    /// The variant to apply, before the overrides.
    pub variant: Option<String>,
    /// Replaces the file's `repeat`.
    pub repeat: Option<u32>,
}

/// Maximum number of routes and changes of all points together: about 1 GB.
const PARTS_MAX: usize = 20_000_000;
/// Hint for a run without a duration.
const NO_DURATION: &str =
    "write how long it runs: duration = \"60s\"; it may be left out when every flow has an end in time";
/// Maximum number of repetitions of a run.
const REPEAT_MAX: i64 = 1000;
/// Longest run: results count nanoseconds.
const RUN_MAX: Duration = Duration::from_hours(7 * 24);

/// Reads an experiment file.
///
/// `path` is the file that `text` was read from; messages quote it, and it gives the default name. `file` returns the
/// text of a file that the experiment refers to, or the reason why it cannot be read. Its argument is an absolute path,
/// or a path that starts with the directory of `path`.
///
/// # Errors
/// All problems found, at most 20 of them listed, each with its position and a hint.
pub fn read(path: &Path, text: &str, options: &Options, file: Read<'_>) -> Result<Experiment, Problems> {
    let flags = options.overrides.iter().map(|(key, value)| format!("--set {key}={value}")).collect();
    let report = Report::new(path.display().to_string(), text.to_owned(), flags);
    let scenarios = read_all(path, text, options, file, &report);
    match scenarios {
        Some(scenarios) if report.is_empty() => Ok(Experiment { path: path.to_owned(), scenarios }),
        _ => Err(report.into_problems()),
    }
}

fn read_all(path: &Path, text: &str, options: &Options, file: Read<'_>, report: &Report) -> Option<Vec<Scenario>> {
    let mut root = tree::parse(text, report)?;
    apply_variant(&mut root, options.variant.as_deref(), report);
    let overridden = apply_overrides(&mut root, &options.overrides, report);
    if !report.is_empty() {
        return None;
    }
    let sweep = root.take("sweep");
    let item = sweep.as_ref().map(|e| Item { report, key: "sweep".to_owned(), value: &e.value });
    let sweeps = item.map_or_else(Vec::new, |item| sweep::read(&item));
    for (origin, path) in &overridden {
        refuse_swept(*origin, path, &sweeps, report);
    }
    if !report.is_empty() {
        return None;
    }
    let files = Files::new(path, file);
    let mut scenarios: Vec<Scenario> = Vec::new();
    let mut parts = 0;
    for point in sweep::points(&sweeps) {
        let as_written = sweep::at_point(&root, &sweeps, &point);
        let mut tree = as_written.clone();
        parameters::substitute(&mut tree, report);
        if !report.is_empty() {
            return None;
        }
        let labels = sweep::labels(&tree, &as_written, &sweeps);
        let reader = Reader { path, options, files: &files, report };
        let scenario = reader.scenario(&tree, labels)?;
        parts += scenario.schedule.len() + scenario.nodes.iter().map(|n| n.routes.len()).sum::<usize>();
        scenarios.push(scenario);
        if parts > PARTS_MAX {
            let message =
                format!("{parts} routes and changes after {} points of the sweep are too many", scenarios.len());
            report.add(Origin::Whole, "sweep", Fault::new(message, "sweep fewer values, or over fewer nodes"));
            return None;
        }
    }
    Some(scenarios)
}

fn apply_variant(root: &mut Table, chosen: Option<&str>, report: &Report) {
    let variants = root.take("variants");
    let item = variants.as_ref().map(|e| Item { report, key: "variants".to_owned(), value: &e.value });
    let variants = item.map_or_else(Vec::new, |item| item.named());
    for (_, item) in &variants {
        // Reports an error if the value is not a table.
        item.section();
    }
    let Some(chosen) = chosen else { return };
    let Some((_, item)) = variants.iter().find(|(name, _)| name == chosen) else {
        let known: Vec<&str> = variants.iter().map(|(name, _)| name.as_str()).collect();
        let hint = known_names(chosen, &known, "the file has none; leave --variant out");
        report.add(Origin::Whole, "variants", Fault::new(format!("there is no variant `{chosen}`"), hint));
        return;
    };
    let Kind::Table(changes) = &item.value.kind else { return };
    for (origin, key, fault) in dotted::apply(root, changes) {
        report.add(origin, &format!("{}.\"{key}\"", item.key), fault);
    }
}

/// Applies the overrides; returns the origin and path of each.
fn apply_overrides(root: &mut Table, overrides: &[(String, String)], report: &Report) -> Vec<(Origin, Vec<String>)> {
    let mut paths = Vec::new();
    for (index, (key, value)) in overrides.iter().enumerate() {
        let origin = Origin::Override(index);
        let applied = dotted::split(key).and_then(|path| {
            if path.first().is_some_and(|first| first == "variants") {
                return Err(Fault::new(
                    "an override cannot change a variant, which has been applied already",
                    "set the key itself",
                ));
            }
            dotted::set(root, &path, tree::parse_override(value, index)?)?;
            Ok(path)
        });
        match applied {
            Ok(path) => paths.push((origin, path)),
            Err(fault) => report.add(origin, "", fault),
        }
    }
    paths
}

/// An override of a swept key is an error, since the sweep would silently replace its value.
fn refuse_swept(origin: Origin, path: &[String], sweeps: &[Sweep<'_>], report: &Report) {
    let swept = sweeps.iter().position(|s| s.path.starts_with(path) || path.starts_with(&s.path));
    if let Some(index) = swept {
        let hint = format!("override the values of the sweep: --set 'sweep.{index}.values=[...]'");
        report.add(origin, "", Fault::new(format!("the sweep sets {}", sweeps[index].key), hint));
    }
}

struct Reader<'a> {
    path: &'a Path,
    options: &'a Options,
    files: &'a Files<'a>,
    report: &'a Report,
}

impl Reader<'_> {
    /// The scenario of one point; `None` after an error has been reported.
    fn scenario(&self, tree: &Table, point: Vec<(String, String)>) -> Option<Scenario> {
        let mut root = Section::new(self.report, String::new(), Origin::Whole, tree);
        let name = self.name(&mut root);
        let about = root.read("about", quantity::text).unwrap_or_default();
        let seed = root.read("seed", quantity::whole(0..=i64::MAX)).map_or(1, i64::unsigned_abs);
        let repeat = root.read("repeat", quantity::whole(1..=REPEAT_MAX)).unwrap_or(1);
        let repeat = self.options.repeat.unwrap_or_else(|| u32::try_from(repeat).unwrap_or(1));
        let duration = root.item("duration");
        let given = duration.as_ref().and_then(|item| item.read(run));
        let mut topology = Topology::read(&mut root, self.files);

        let flows = named(&mut root, "flows", |name, item| flows::read_flow(name, item, &topology));
        let flows: Vec<Draft<Flow>> = flows.into_iter().flatten().filter(flows::sends).collect();
        let mut mice = named(&mut root, "mice", |name, item| mice::read(name, item, &topology));
        let used = flows.iter().filter_map(|f| f.what.congestion_control.as_deref());
        let used = used.chain(mice.iter().map(|m| m.what.congestion_control.as_str()));
        let congestion = congestion::read(&mut root, used);
        let run = given.or_else(|| latest_end(&flows, &mice));
        if run.is_none() && duration.is_none() && self.report.is_empty() {
            root.required("duration", NO_DURATION);
        }
        let overlay = overlay::read(&mut root, &topology);
        overlay::check(overlay.as_ref(), &flows, self.report);
        let calls = named(&mut root, "estimates", |name, item| estimates::read(name, item, &topology));
        let programs = named(&mut root, "programs", |name, item| programs::read(name, item, &topology, run));
        self.refuse_doubles(&mut root, &flows);
        let record = programs::read_record(root.item("record"), &topology, run);
        let validity = programs::read_validity(root.item("validity"));
        let traffic = root.given(&["flows", "mice"]);
        let plot = root.item("plot").and_then(|item| sweep::read_plot(&item, &point, &traffic));
        let published = root.item("published");
        let schedule = root.item("schedule");
        for taken_out_before in ["parameters", "sweep", "variants"] {
            root.item(taken_out_before);
        }
        root.finish();

        let run = run?;
        self.check_times(&flows, &mice, &calls, run);
        let schedule = schedule.map_or_else(Vec::new, |item| schedule::read(&item, &topology, run, self.files));
        if !self.report.is_empty() {
            return None;
        }
        let published = published.map_or_else(Vec::new, |item| published::read(&item, &topology, &flows, &mice));
        self.connect(&mut topology, &flows, &mice, &calls);
        mice.iter_mut().for_each(|draft| mice::settle_load(draft, &topology, self.report));
        Some(Scenario {
            name,
            about,
            seed,
            duration: run,
            repeat,
            nodes: topology.nodes,
            links: topology.links,
            lans: topology.lans,
            schedule,
            flows: flows.into_iter().map(|f| flows::finish_flow(f, run)).collect(),
            mice: mice.into_iter().map(|m| mice::finish(m, run)).collect(),
            congestion,
            overlay,
            estimates: calls.into_iter().map(|c| estimates::finish(c, run)).collect(),
            programs,
            record,
            validity,
            plot,
            published,
            variant: self.options.variant.clone(),
            point,
        })
    }

    fn check_times(&self, flows: &[Draft<Flow>], mice: &[Draft<Mice>], calls: &[estimates::Draft], run: Duration) {
        let times = flows.iter().map(|f| &f.times).chain(mice.iter().map(|m| &m.times));
        times.chain(calls.iter().map(|c| &c.times)).for_each(|times| times.check(self.report, run));
    }

    fn name(&self, root: &mut Section<'_>) -> String {
        if let Some(item) = root.item("name") {
            return item
                .read(|value| {
                    let name = quantity::text(value)?;
                    quantity::check_name(&name).map(|()| name)
                })
                .unwrap_or_default();
        }
        let stem = self.path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        if quantity::check_name(&stem).is_err() {
            let hint = "write name = \"...\", with letters, digits, - and _, a letter first";
            self.report.add(Origin::Whole, "name", Fault::new("the file name is not a valid experiment name", hint));
        }
        stem
    }

    /// Results are stored by name, so names must be unique across all kinds of traffic.
    fn refuse_doubles(&self, root: &mut Section<'_>, flows: &[Draft<Flow>]) {
        let mut seen: BTreeMap<String, &str> = BTreeMap::new();
        for kind in ["flows", "mice", "estimates", "programs"] {
            for (name, item) in root.item(kind).map_or_else(Vec::new, |i| i.named()) {
                if let Some(other) = seen.insert(name.clone(), kind) {
                    item.complain(Fault::new(
                        format!("the name is already used by {other}.{name}"),
                        "give each its own name",
                    ));
                }
            }
        }
        for flow in flows.iter().filter(|f| f.is_numbered) {
            let name = &flow.what.name;
            if let Some(other) = seen.get(name) {
                let message = format!("the name of one of its flows is already used by {other}.{name}");
                flow.spot.complain(self.report, Fault::new(message, "give each its own name"));
            }
        }
    }

    /// Computes the routes and reports an error for traffic between nodes without a route.
    fn connect(
        &self,
        topology: &mut Topology,
        flows: &[Draft<Flow>],
        mice: &[Draft<Mice>],
        calls: &[estimates::Draft],
    ) {
        let routes = routes::routes(topology);
        for (node, routes) in topology.nodes.iter_mut().zip(routes) {
            node.routes = routes;
        }
        let flows = flows.iter().map(|f| (f.what.from, f.what.to, f.what.ipv6, &f.spot));
        let mice = mice.iter().map(|m| (m.what.from, m.what.to, false, &m.spot));
        let calls = calls.iter().map(|c| (c.call.from, c.call.to, false, &c.spot));
        for (from, to, ipv6, spot) in flows.chain(mice).chain(calls) {
            let (a, b) = (&topology.nodes[from].name, &topology.nodes[to].name);
            let segments = path_segments((&topology.nodes, &topology.links, &topology.lans), from, to);
            match segments.map(|segments| segments.iter().map(|s| s.mtu).min().unwrap_or(u32::MAX)) {
                None => spot.complain(
                    self.report,
                    Fault::new(format!("no links lead from {a} to {b}"), "connect them with links or LANs"),
                ),
                // RFC 8200 §5.
                Some(mtu) if ipv6 && mtu < 1280 => {
                    let message = format!("IPv6 needs an MTU of at least 1280 B; a link from {a} to {b} has {mtu} B");
                    spot.complain(self.report, Fault::new(message, "raise the MTU, or use IPv4"));
                }
                Some(_) => {}
            }
        }
    }
}

fn run(value: &tree::Value) -> Result<Duration, Fault> {
    match quantity::positive_duration(value)? {
        long if long > RUN_MAX => {
            Err(Fault::new(format!("a run of {} is too long", crate::describe::duration(long)), "at most a week: 168h"))
        }
        time => Ok(time),
    }
}

fn named<T>(root: &mut Section<'_>, key: &'static str, mut read: impl FnMut(String, &Item<'_>) -> Option<T>) -> Vec<T> {
    let items = root.item(key).map_or_else(Vec::new, |item| item.named());
    items.into_iter().filter_map(|(name, item)| read(name, &item)).collect()
}

/// Time of the last end of a flow; `None` if a flow has no end in time.
fn latest_end(flows: &[Draft<Flow>], mice: &[Draft<Mice>]) -> Option<Duration> {
    let by_amount = |f: &Draft<Flow>| matches!(f.what.extent, Extent::Bytes(_));
    if flows.iter().any(by_amount) {
        return None;
    }
    let ends: Option<Vec<Duration>> =
        flows.iter().map(|f| f.times.end).chain(mice.iter().map(|m| m.times.end)).collect();
    ends?.into_iter().max()
}
