//! All runs of an experiment: every point of the sweep with every repetition.

use std::path::{Path, PathBuf};

use estimate::model::{MATHIS_PERIODIC, cubic_response, mathis};
use results::lab::{
    FlowDescription, KeyValue, LAB_SCHEMA, LabEngine, LabExperiment, LabMetric, LabPlot, LabRecord, LabRun, LabSummary,
    LinkDescription, ModelCurve, PublishedValue, ScheduleMark, Verdict,
};
use scenario::{Experiment, LinkDirection, Metric, Model, Scenario};
use units::{Bytes, Rate, parse_duration};

use crate::LabError;
use crate::controls::Controls;
use crate::estimates;
use crate::flow::{describe, round_trip};
use crate::run::{RunOptions, run};
use crate::selection::{Place, Selection};
use crate::summary::{Done, summary};

/// Divisor of the memory free at the start: the links may hold one half of it.
const MEMORY_SHARE: u64 = 2;

/// Options of an experiment's run.
#[derive(Debug)]
pub struct Options {
    /// The longhaul binary, for flows and servers.
    pub program: PathBuf,
    /// Directory for all output files.
    pub directory: PathBuf,
    /// Overrides of the command line.
    pub overrides: Vec<(String, String)>,
    /// Description of how the privilege was gained, for the records.
    pub privilege: String,
    /// What runs the experiment, for the records.
    pub engine: LabEngine,
    /// Number of threads of the engine; `None`: chosen by the number of CPUs.
    pub workers: Option<usize>,
    /// Maximum number of attempts at a run until one is valid; the records keep all attempts.
    pub attempts: u32,
    /// The runs to make.
    pub selection: Selection,
}

impl Options {
    /// The runs that are to be made, in order.
    pub(crate) fn places(&self, experiment: &Experiment, repetitions: u32) -> Vec<Place> {
        self.selection.places(experiment.scenarios.len() as u32, repetitions)
    }
}

/// Makes all runs. Calls `observe` with each record as soon as it exists, including the last one, a
/// [`LabRecord::Summary`].
///
/// # Errors
/// A run could not be set up; `observe` has received the records before it.
pub fn run_experiment(
    experiment: &Experiment,
    options: &Options,
    observe: &mut dyn FnMut(&LabRecord),
    interrupted: &dyn Fn() -> usize,
) -> Result<LabSummary, LabError> {
    let Some(first) = experiment.scenarios.first() else {
        return Err(LabError::Unknown("the experiment has no scenario".to_owned()));
    };
    observe(&LabRecord::Experiment(head(experiment, first, options)));
    let memory = kernel::available_memory() / MEMORY_SHARE;
    let workers = options.workers.unwrap_or_else(|| default_workers(kernel::cpus()));
    let controls = Controls::load(&experiment.scenarios)?;
    let mut done: Vec<Done> = Vec::new();
    'all: for place in options.places(experiment, first.repeat) {
        let Some(scenario) = experiment.scenarios.get(place.point as usize) else { continue };
        for attempt in 0..options.attempts {
            if interrupted() > 0 {
                break 'all;
            }
            let number = done.len() as u32;
            let seed = scenario.seed.wrapping_add(u64::from(place.repetition));
            let description = describe_run(scenario, place, [number, attempt], seed, Some(now_utc_s()));
            observe(&LabRecord::Run(description.clone()));
            let directory = options.directory.join(format!("run-{number}"));
            let own = RunOptions { program: options.program.clone(), directory, run: number, seed, workers, memory };
            let scenario = estimates::with_programs(controls.in_kernel(scenario), &options.program, seed);
            let end = run(&scenario, &own, observe, interrupted)?;
            let is_valid = end.verdict == Verdict::Valid;
            done.push(Done::new(&description, end));
            if is_valid {
                break;
            }
        }
    }
    let last = summary(&done, interrupted() > 0);
    observe(&LabRecord::Summary(last.clone()));
    Ok(last)
}

/// One thread forwards more packets than two cores can send and receive; machines with more cores split the links among
/// threads.
pub fn default_workers(cpus: usize) -> usize {
    (cpus / 4).clamp(1, 8)
}

pub(crate) fn head(experiment: &Experiment, first: &Scenario, options: &Options) -> LabExperiment {
    let selected = options.places(experiment, first.repeat).len();
    LabExperiment {
        schema: LAB_SCHEMA.to_owned(),
        version: measure_version().to_owned(),
        name: first.name.clone(),
        about: first.about.clone(),
        start_utc_s: now_utc_s(),
        seed: first.seed,
        repetitions: first.repeat,
        points: experiment.scenarios.len() as u32,
        selected_runs: (selected < experiment.scenarios.len() * first.repeat as usize).then_some(selected as u32),
        overrides: key_values(&options.overrides),
        privilege: options.privilege.clone(),
        engine: options.engine,
        host: kernel::host_report(measure_version(), None),
        plot: first.plot.as_ref().map(|p| plot(experiment, p)),
        variant: first.variant.clone(),
        published: first.published.iter().map(published).collect(),
    }
}

fn published(p: &scenario::PublishedValue) -> PublishedValue {
    PublishedValue { metric: p.metric.clone(), value: p.value, source: p.source.clone() }
}

fn measure_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

fn key_values(pairs: &[(String, String)]) -> Vec<KeyValue> {
    pairs.iter().map(|(key, value)| KeyValue { key: key.clone(), value: value.clone() }).collect()
}

/// Present time of day in seconds UTC.
fn now_utc_s() -> f64 {
    let (seconds, ns) = kernel::utc_seconds();
    seconds as f64 + f64::from(ns) / 1e9
}

/// Description of a run. A simulated run has no time of day.
pub(crate) fn describe_run(
    scenario: &Scenario,
    Place { repetition, point }: Place,
    [run, attempt]: [u32; 2],
    seed: u64,
    start_utc_s: Option<f64>,
) -> LabRun {
    let links = scenario.wires().into_iter().map(|w| LinkDescription {
        settings: scenario::describe(&w.settings),
        rate_bps: match &w.settings.capacity {
            link::Capacity::Constant(rate) => Some(rate.as_bps()),
            link::Capacity::Unlimited | link::Capacity::Trace(_) => None,
        },
        delay_ns: units::nanos(w.settings.delay),
        link: w.link,
        from: w.from,
        to: w.to,
    });
    LabRun {
        run,
        point,
        values: key_values(&scenario.point),
        repetition,
        attempt,
        seed,
        duration_s: scenario.duration.as_secs_f64(),
        start_utc_s,
        links: links.collect(),
        flows: flow_descriptions(scenario),
        changes: schedule_marks(scenario),
    }
}

/// Descriptions of flows and streams of small transfers, with the command of each flow.
pub fn flow_descriptions(scenario: &Scenario) -> Vec<FlowDescription> {
    let mice = scenario.mice.iter().map(|m| crate::mice::describe(scenario, m));
    scenario.flows.iter().map(|f| describe(scenario, f)).chain(mice).collect()
}

/// Descriptions of the scheduled changes; changes of both directions at one time share one mark.
pub fn schedule_marks(scenario: &Scenario) -> Vec<ScheduleMark> {
    let mut now: Vec<link::Settings> =
        scenario.links.iter().flat_map(|l| [l.forward.clone(), l.backward.clone()]).collect();
    let mut marks: Vec<ScheduleMark> = Vec::new();
    for change in &scenario.schedule {
        let before = &mut now[scenario::link_wire(change.link, change.direction)];
        let text = scenario::describe_difference(before, &change.settings);
        *before = change.settings.clone();
        let link = &scenario.links[change.link];
        let other = scenario.schedule.iter().any(|c| {
            c.at == change.at
                && c.link == change.link
                && c.direction != change.direction
                && c.settings == change.settings
        });
        let direction = match (other, change.direction) {
            (true, LinkDirection::Backward) => continue,
            (true, LinkDirection::Forward) => String::new(),
            (false, direction) => {
                let [a, b] = link.between.map(|n| scenario.nodes[n].name.as_str());
                let (from, to) = if direction == LinkDirection::Forward { (a, b) } else { (b, a) };
                format!(" ({from} > {to})")
            }
        };
        marks.push(ScheduleMark { at_s: change.at.as_secs_f64(), text: format!("{}{direction}: {text}", link.name) });
    }
    marks
}

/// The plot of the experiment file, with the values of the models at each point of the sweep.
fn plot(experiment: &Experiment, plot: &scenario::Plot) -> LabPlot {
    LabPlot {
        x: plot.x.clone(),
        y: match plot.y {
            Metric::Throughput => LabMetric::Throughput,
            Metric::Completion => LabMetric::Completion,
            Metric::QueueDelay => LabMetric::QueueDelay,
            Metric::Utilisation => LabMetric::Utilisation,
        },
        series: plot.series.clone(),
        log: plot.log,
        models: plot.models.iter().filter_map(|m| curve(experiment, plot, *m)).collect(),
    }
}

/// The values of a model over the sweep, for the first flow and the loss on its first link.
fn curve(experiment: &Experiment, plot: &scenario::Plot, model: Model) -> Option<ModelCurve> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for scenario in &experiment.scenarios {
        let x = base_units(&scenario.point.iter().find(|(key, _)| *key == plot.x)?.1)?;
        let flow = scenario.flows.first()?;
        let (loss, mtu) = scenario.links.iter().find_map(|l| match (l.forward.loss, l.mtu) {
            (link::Loss::Independent(p), mtu) if p > 0.0 => Some((p, mtu)),
            _ => None,
        })?;
        // MSS with the timestamp option: 20 bytes IP, 32 bytes TCP (RFC 7323 appendix A).
        let mss = Bytes::new(u64::from(flow.mss.unwrap_or(mtu - 52)));
        let rtt = round_trip(scenario, flow);
        let rate = match model {
            Model::Mathis => mathis(mss, rtt, loss, MATHIS_PERIODIC),
            Model::Cubic => cubic_response(mss, rtt, loss),
        }?;
        if points.iter().all(|(known, _)| *known != x) {
            points.push((x, rate.as_bps() as f64));
        }
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let name = match model {
        Model::Mathis => "Mathis et al. 1997, k = 1.22",
        Model::Cubic => "CUBIC response function, RFC 9438 §5",
    };
    let (x, y) = points.into_iter().unzip();
    Some(ModelCurve { name: name.to_owned(), x, y })
}

/// A quantity as a number in base units (bits per second, bytes, seconds, or a share); `None` if the text is not a
/// quantity.
fn base_units(text: &str) -> Option<f64> {
    let text = text.trim_matches('"');
    let share = || text.strip_suffix('%')?.trim().parse::<f64>().ok().map(|p| p / 100.0);
    let rate = || text.parse::<Rate>().ok().map(|r| r.as_bps() as f64);
    let bytes = || text.parse::<Bytes>().ok().map(|b| b.as_u64() as f64);
    let time = || parse_duration(text).ok().map(|d| d.as_secs_f64());
    text.parse().ok().or_else(share).or_else(time).or_else(rate).or_else(bytes)
}

/// Default directory of an experiment's files: its name and the time.
pub fn default_directory(name: &str) -> PathBuf {
    let (seconds, _) = kernel::utc_seconds();
    Path::new(&format!("lab-{name}-{seconds}")).to_owned()
}
