//! `longhaul lab path`.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use kernel::Shutdown;
use results::lab::{LabRecord, Verdict};
use scenario::Scenario;

use super::cli::PathOptions;
use super::inspect::{exit_code, words_or_shell};
use super::{NEGATIVE, gain_privilege, own_program};
use crate::output::json_line;

/// Two nodes and a link; the options are set on top.
const PATH: &str = "\
name = \"path\"
duration = \"168h\"
nodes = [\"near\", \"far\"]
[links.path]
between = [\"near\", \"far\"]
";

pub(crate) fn run(options: &PathOptions) -> anyhow::Result<ExitCode> {
    let scenario = scenario(options)?;
    gain_privilege()?;
    let folder =
        tempfile::Builder::new().prefix("longhaul-path-").tempdir().context("cannot make a folder for logs")?;
    let mut json = match &options.json {
        Some(path) => Some(File::create(path).with_context(|| format!("cannot write {}", path.display()))?),
        None => None,
    };
    let mut failure = None;
    let mut observe = |record: &LabRecord| {
        if let Some(file) = &mut json
            && let Err(e) = json_line(file, record)
        {
            failure.get_or_insert(e);
        }
    };
    let path_options = lab::PathOptions {
        program: own_program()?,
        command: words_or_shell(&options.command),
        far: options.far.clone(),
        folder: folder.path().to_owned(),
    };
    let (status, end) = lab::run_path(&scenario, &path_options, &mut observe, &Shutdown::asked)?;
    if let Some(to) = &options.pcapng {
        keep(&folder.path().join("path.pcapng"), to)?;
    }
    if let Some(e) = failure {
        return Err(e).context("the records could not be written");
    }
    let valid = end.verdict == Verdict::Valid;
    if !options.quiet || !valid {
        report::lab::LabText::new(std::io::stderr()).record(&LabRecord::RunEnd(end))?;
    }
    Ok(if status.success() && !valid { ExitCode::from(NEGATIVE) } else { exit_code(status) })
}

fn keep(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::copy(from, to).map(|_| ()).with_context(|| format!("cannot write {}", to.display()))
}

/// The scenario that the options describe, read as an experiment file is, so that the same checks hold.
fn scenario(options: &PathOptions) -> anyhow::Result<Scenario> {
    let rtt = options.rtt;
    let mut set = vec![("seed".to_owned(), options.seed.to_string())];
    let mut link = |key: &str, value: &str| set.push((format!("links.path.{key}"), value.to_owned()));
    link("delay", &format!("{}ns", rtt.as_nanos() / 2));
    link("mtu", &options.mtu);
    link("overhead", &options.overhead);
    for (key, value) in [("rate", &options.rate), ("jitter", &options.jitter), ("loss", &options.loss)] {
        if let Some(value) = value {
            link(key, value);
        }
    }
    let queue = match (&options.queue, &options.rate) {
        (Some(queue), _) => queue.as_str(),
        (None, Some(_)) if !rtt.is_zero() => "1 bdp",
        (None, _) => "1000 packets",
    };
    // Beside it --set may choose the discipline.
    link("queue.limit", queue);
    for (key, value) in &options.set {
        link(key, value);
    }
    if let Some(lateness) = options.lateness {
        anyhow::ensure!(!lateness.is_zero(), "--lateness 0: nothing is handed over in no time; write such as 50ms");
        set.push(("validity.lateness_p99".to_owned(), format!("{}ns", lateness.as_nanos())));
        // Who says how late packets may be has said what a busy machine may do.
        set.push(("validity.stolen_cpu".to_owned(), "1.0".to_owned()));
    }
    if options.pcapng.is_some() {
        set.push(("record.pcapng".to_owned(), "[\"path\"]".to_owned()));
        set.push(("record.snap".to_owned(), "128".to_owned()));
    }
    let read = scenario::Options { overrides: set, ..scenario::Options::default() };
    let experiment = scenario::read(Path::new("path"), PATH, &read, &|path| {
        std::fs::read_to_string(path).map_err(|e| e.to_string())
    });
    let mut experiment = experiment.map_err(|e| anyhow!(in_own_words(options, e.to_string())))?;
    experiment.scenarios.pop().context("no scenario")
}

/// Names the option that the user gave where the reader names the key that it set.
fn in_own_words(options: &PathOptions, text: String) -> String {
    let given = [
        ("rate", options.rate.as_deref()),
        ("jitter", options.jitter.as_deref()),
        ("loss", options.loss.as_deref()),
        ("queue.limit", options.queue.as_deref()),
        ("mtu", Some(options.mtu.as_str())),
        ("overhead", Some(options.overhead.as_str())),
    ];
    let own = given.iter().filter_map(|(key, value)| Some((key, (*value)?)));
    // The key is half of it, one way.
    let text = match text.split_once("links.path.delay: ") {
        Some((_, rest)) => format!("--rtt {:?} (half of it one way): {rest}", options.rtt),
        None => text,
    };
    let set = own.fold(text, |text, (key, value)| {
        let option = key.trim_end_matches(".limit");
        text.replace(&format!("--set links.path.{key}={value}: links.path.{key}"), &format!("--{option} {value}"))
    });
    set.replace("--set links.path.", "--set ")
}
