//! Merge of result directories: parts of one experiment become the results of the whole.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use results::LabReader;
use results::lab::{LabExperiment, LabRecord, LabSummary};

use crate::LabError;
use crate::selection::{Place, Selection};
use crate::summary::{Done, summary};

/// Records of an experiment in its directory.
const RECORDS: &str = "records.jsonl";
/// Copy of the experiment file in the directory.
const EXPERIMENT: &str = "experiment.toml";

/// Result directories of one experiment, checked: each run is in one of them only.
#[derive(Debug)]
pub struct Merge {
    head: LabExperiment,
    parts: Vec<PathBuf>,
    /// Runs in the order of the whole, each with the number of its part.
    runs: Vec<(PartRun, usize)>,
    missing: Vec<Place>,
    notes: Vec<String>,
}

/// A complete run of a part. The order is that of the runs of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PartRun {
    place: Place,
    attempt: u32,
    /// Number of the run in its part.
    number: u32,
}

/// Content of a result directory.
struct Part {
    head: LabExperiment,
    runs: Vec<PartRun>,
    /// Runs without an end, and runs that the user interrupted.
    unfinished: usize,
}

impl Merge {
    /// Reads the directories and checks that they are parts of one experiment.
    ///
    /// # Errors
    /// A directory holds no results, results of another experiment file, engine or option, or a run that another
    /// directory holds.
    pub fn open(directories: &[PathBuf]) -> Result<Self, LabError> {
        let mut merge: Option<Self> = None;
        for (number, directory) in directories.iter().enumerate() {
            let part = read(directory)?;
            let merge = match &mut merge {
                None => merge.insert(Self {
                    head: part.head.clone(),
                    parts: directories.to_vec(),
                    runs: Vec::new(),
                    missing: Vec::new(),
                    notes: Vec::new(),
                }),
                Some(merge) => {
                    merge.check(directory, &part.head)?;
                    merge
                }
            };
            merge.add(number, part);
        }
        let mut merge = merge.ok_or_else(|| LabError::Merge("there is no directory to merge".to_owned()))?;
        merge.runs.sort_unstable();
        merge.check_overlap()?;
        let present: Vec<Place> = merge.runs.iter().map(|(run, _)| run.place).collect();
        let all = Selection::default().places(merge.head.points, merge.head.repetitions);
        merge.missing = all.into_iter().filter(|place| present.binary_search(place).is_err()).collect();
        Ok(merge)
    }

    /// Runs that no directory holds, in order.
    pub fn missing(&self) -> &[Place] {
        &self.missing
    }

    /// Number of runs of the whole experiment, without further attempts.
    pub fn planned(&self) -> u64 {
        u64::from(self.head.points) * u64::from(self.head.repetitions)
    }

    /// What a reader of the merged results should know, one sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Copies the files of all runs into `directory` and calls `observe` with each record of the merged results,
    /// including the last one, a [`LabRecord::Summary`].
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn write(self, directory: &Path, observe: &mut dyn FnMut(&LabRecord)) -> Result<LabSummary, LabError> {
        if let Some(first) = self.parts.first() {
            copy_file(&first.join(EXPERIMENT), &directory.join(EXPERIMENT))?;
        }
        let mut head = self.head;
        let present = u64::from(head.points) * u64::from(head.repetitions) - self.missing.len() as u64;
        head.selected_runs = (!self.missing.is_empty()).then_some(present as u32);
        observe(&LabRecord::Experiment(head));
        let mut readers: Vec<(&Path, Records)> = Vec::new();
        for part in &self.parts {
            readers.push((part, open(part)?));
        }
        let mut done = Vec::new();
        for (number, (run, part)) in (0..).zip(&self.runs) {
            let Some((path, records)) = readers.get_mut(*part) else { continue };
            done.extend(copy_run(records, path, run.number, number, observe)?);
            let files = path.join(format!("run-{}", run.number));
            if files.is_dir() {
                copy_directory(&files, &directory.join(format!("run-{number}")))?;
            }
        }
        let last = summary(&done, false);
        observe(&LabRecord::Summary(last.clone()));
        Ok(last)
    }

    /// Checks that a part belongs to the experiment of the first one.
    fn check(&self, directory: &Path, head: &LabExperiment) -> Result<(), LabError> {
        let Some(first) = self.parts.first() else { return Ok(()) };
        let (ours, theirs) = (first.display(), directory.display());
        let file = |directory: &Path| {
            let path = directory.join(EXPERIMENT);
            fs::read(&path).map_err(LabError::file(&path))
        };
        if file(first)? != file(directory)? {
            return Err(LabError::Merge(format!("{ours} and {theirs} are results of different experiment files")));
        }
        let (one, other) = (settings(&self.head), settings(head));
        match one.iter().zip(&other).find(|(a, b)| a != b) {
            None => Ok(()),
            Some(((name, one), (_, other))) => Err(LabError::Merge(format!(
                "{ours} and {theirs} are results of different experiments: {name} {one} and {other}"
            ))),
        }
    }

    fn add(&mut self, number: usize, part: Part) {
        let name = self.parts.get(number).map(|p| p.display().to_string()).unwrap_or_default();
        if part.unfinished > 0 {
            let runs = if part.unfinished == 1 {
                "1 run that did".to_owned()
            } else {
                format!("{} runs that did", part.unfinished)
            };
            self.notes.push(format!("{name}: left out {runs} not end"));
        }
        let host = |head: &LabExperiment| head.host.hostname.clone();
        if host(&part.head) != host(&self.head) {
            self.notes.push(format!(
                "{name} comes from the host {}; the merged results name {}",
                host(&part.head),
                host(&self.head)
            ));
        }
        self.head.start_utc_s = self.head.start_utc_s.min(part.head.start_utc_s);
        self.runs.extend(part.runs.into_iter().map(|run| (run, number)));
    }

    fn check_overlap(&self) -> Result<(), LabError> {
        // Attempts at one run are in one part.
        let twice = self.runs.windows(2).find_map(|pair| match pair {
            [(one, a), (other, b)] if one.place == other.place && a != b => Some((one.place, *a, *b)),
            _ => None,
        });
        let Some((place, one, other)) = twice else { return Ok(()) };
        let name = |part: usize| self.parts.get(part).map(|p| p.display().to_string()).unwrap_or_default();
        Err(LabError::Merge(format!(
            "{} and {} both hold repetition {} of point {}",
            name(one),
            name(other),
            place.repetition,
            place.point
        )))
    }
}

/// Settings that all parts have in common, by name.
fn settings(head: &LabExperiment) -> [(&'static str, String); 7] {
    let overrides: Vec<String> = head.overrides.iter().map(|o| format!("{}={}", o.key, o.value)).collect();
    let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
    [
        ("engine", head.engine.text().to_owned()),
        ("version", head.version.clone()),
        ("variant", or_none(head.variant.clone().unwrap_or_default())),
        ("--set", or_none(overrides.join(", "))),
        ("seed", head.seed.to_string()),
        ("number of repetitions", head.repetitions.to_string()),
        ("number of points", head.points.to_string()),
    ]
}

type Records = LabReader<BufReader<File>>;

fn open(directory: &Path) -> Result<Records, LabError> {
    let path = directory.join(RECORDS);
    Ok(LabReader::new(BufReader::new(File::open(&path).map_err(LabError::file(&path))?)))
}

fn next(records: &mut Records, directory: &Path) -> Result<Option<LabRecord>, LabError> {
    let error = |e: results::ReadError| LabError::Merge(format!("{}: {e}", directory.join(RECORDS).display()));
    records.next().transpose().map_err(error)
}

fn read(directory: &Path) -> Result<Part, LabError> {
    let name = directory.join(RECORDS);
    let refused = |text: &str| LabError::Merge(format!("{}: {text}", name.display()));
    let mut records = open(directory)?;
    let Some(LabRecord::Experiment(head)) = next(&mut records, directory)? else {
        return Err(refused("the first record is not that of an experiment"));
    };
    let mut started: BTreeMap<u32, PartRun> = BTreeMap::new();
    let mut runs: Vec<PartRun> = Vec::new();
    let mut count = 0;
    while let Some(record) = next(&mut records, directory)? {
        match record {
            LabRecord::Run(r) => {
                let place = Place { repetition: r.repetition, point: r.point };
                started.insert(r.run, PartRun { place, attempt: r.attempt, number: r.run });
                count += 1;
            }
            LabRecord::RunEnd(e) if !e.interrupted => runs.extend(started.remove(&e.run)),
            LabRecord::Experiment(_)
            | LabRecord::Link(_)
            | LabRecord::Flow(_)
            | LabRecord::Transfer(_)
            | LabRecord::Engine(_)
            | LabRecord::RunEnd(_)
            | LabRecord::Summary(_) => {}
        }
    }
    if records.unknown() > 0 {
        return Err(refused("it has records of a kind that this version of longhaul does not know"));
    }
    if !runs.is_sorted() {
        return Err(refused("the runs are not in order"));
    }
    Ok(Part { head, unfinished: count - runs.len(), runs })
}

/// Passes on the records of the run `from` under the number `to`. Returns the run with its end.
fn copy_run(
    records: &mut Records,
    directory: &Path,
    from: u32,
    to: u32,
    observe: &mut dyn FnMut(&LabRecord),
) -> Result<Option<Done>, LabError> {
    let mut start = None;
    while let Some(mut record) = next(records, directory)? {
        if number(&mut record).is_none_or(|n| *n != from) {
            continue;
        }
        if let Some(number) = number(&mut record) {
            *number = to;
        }
        observe(&record);
        if let LabRecord::RunEnd(end) = record {
            return Ok(start.map(|start| Done::new(&start, end)));
        }
        if let LabRecord::Run(run) = record {
            start = Some(run);
        }
    }
    Ok(None)
}

/// Number of a record's run.
const fn number(record: &mut LabRecord) -> Option<&mut u32> {
    match record {
        LabRecord::Run(r) => Some(&mut r.run),
        LabRecord::Link(r) => Some(&mut r.run),
        LabRecord::Flow(r) => Some(&mut r.run),
        LabRecord::Transfer(r) => Some(&mut r.run),
        LabRecord::Engine(r) => Some(&mut r.run),
        LabRecord::RunEnd(r) => Some(&mut r.run),
        LabRecord::Experiment(_) | LabRecord::Summary(_) => None,
    }
}

fn copy_file(from: &Path, to: &Path) -> Result<(), LabError> {
    // `fs::copy` names no file in its error.
    fs::copy(from, to).map(drop).map_err(LabError::system(format!("copying {} to {}", from.display(), to.display())))
}

/// Copies a directory with its regular files and directories.
fn copy_directory(from: &Path, to: &Path) -> Result<(), LabError> {
    let reading = || LabError::file(from);
    fs::create_dir_all(to).map_err(LabError::file(to))?;
    let entries: Vec<fs::DirEntry> = fs::read_dir(from).and_then(Iterator::collect).map_err(reading())?;
    for entry in entries {
        let kind = entry.file_type().map_err(reading())?;
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else if kind.is_file() {
            copy_file(&entry.path(), &target)?;
        }
    }
    Ok(())
}
