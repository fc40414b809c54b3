//! `longhaul lab path`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use kernel::Shutdown;
use results::lab::{LabRecord, Verdict};
use scenario::Scenario;

use super::cli::PathOptions;
use super::inspect::{arguments_or_shell, exit_code};
use super::{NEGATIVE_RESULT, gain_privilege, own_program, virtual_time};
use crate::output::json_line;
use crate::output::open_until_done;
use crate::target::check_distinct;

/// Experiment file with two nodes and a link, which the options override.
const PATH: &str = "\
name = \"path\"
duration = \"168h\"
nodes = [\"near\", \"far\"]
[links.path]
between = [\"near\", \"far\"]
";

pub(crate) fn run(options: &PathOptions) -> anyhow::Result<ExitCode> {
    check_distinct(&[("--json", options.json.as_deref()), ("--pcapng", options.pcapng.as_deref())])?;
    let scenario = scenario(options)?;
    if options.is_virtual {
        anyhow::ensure!(
            !options.command.is_empty(),
            "--virtual has no terminal for a shell; write a command after `--`"
        );
        let of_command = std::env::current_dir().context("cannot find the working directory")?.join("any file");
        let files = [&options.json, &options.pcapng].into_iter().flatten().cloned();
        let outputs: Vec<_> = files.chain([of_command]).collect();
        return virtual_time::run(Some(options.seed), &outputs, &[]);
    }
    gain_privilege()?;
    let directory =
        tempfile::Builder::new().prefix("longhaul-path-").tempdir().context("cannot create a directory for logs")?;
    let mut json = options.json.as_deref().map(open_until_done).transpose()?;
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
        command: arguments_or_shell(&options.command),
        far: options.far.clone(),
        directory: directory.path().to_owned(),
    };
    let (status, end) = lab::run_path(&scenario, &path_options, &mut observe, &Shutdown::requests)?;
    if let Some(to) = &options.pcapng {
        keep(&directory.path().join("path.pcapng"), to)?;
    }
    if let Some(e) = failure {
        return Err(e.into());
    }
    let valid = end.verdict == Verdict::Valid;
    if !options.quiet || !valid {
        report::lab::LabText::new(std::io::stderr()).record(&LabRecord::RunEnd(end))?;
    }
    Ok(if status.success() && !valid { ExitCode::from(NEGATIVE_RESULT) } else { exit_code(status) })
}

fn keep(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::copy(from, to).map(|_| ()).with_context(|| format!("cannot write {}", to.display()))
}

/// Builds the scenario from the options with the parser of experiment files, so that the same checks apply.
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
    // --set may select the queueing discipline in addition.
    link("queue.limit", queue);
    for (key, value) in &options.set {
        link(key, value);
    }
    if let Some(lateness) = options.lateness {
        anyhow::ensure!(!lateness.is_zero(), "--lateness 0 is out of range (above 0); use a value such as 50ms");
        set.push(("validity.lateness_p99".to_owned(), format!("{}ns", lateness.as_nanos())));
        // An explicit limit of lateness replaces the limit of stolen CPU time.
        set.push(("validity.stolen_cpu".to_owned(), "1.0".to_owned()));
    }
    if options.pcapng.is_some() {
        set.push(("record.pcapng".to_owned(), "[\"path\"]".to_owned()));
        set.push(("record.snap".to_owned(), "128".to_owned()));
    }
    let read = scenario::Options { overrides: set, ..scenario::Options::default() };
    let experiment = scenario::read(Path::new("path"), PATH, &read, &crate::input::read_referenced);
    let mut experiment = experiment.map_err(|e| anyhow!(with_option_names(options, e.to_string())))?;
    experiment.scenarios.pop().context("no scenario")
}

/// Replaces keys of the experiment file in an error by the options that set them.
fn with_option_names(options: &PathOptions, text: String) -> String {
    let given = [
        ("rate", options.rate.as_deref()),
        ("jitter", options.jitter.as_deref()),
        ("loss", options.loss.as_deref()),
        ("queue.limit", options.queue.as_deref()),
        ("mtu", Some(options.mtu.as_str())),
        ("overhead", Some(options.overhead.as_str())),
    ];
    let own = given.iter().filter_map(|(key, value)| Some((key, (*value)?)));
    // A number on the command line is a quantity without its unit.
    let text = text.replace(": is a whole number, not a text", " has no unit");
    // The key holds the one-way delay, half of --rtt.
    let text = match text.split_once("links.path.delay: ") {
        Some((_, rest)) => format!("--rtt {:?} (one-way delay is half of it): {rest}", options.rtt),
        None => text,
    };
    let set = own.fold(text, |text, (key, value)| {
        let option = key.trim_end_matches(".limit");
        text.replace(&format!("--set links.path.{key}={value}: links.path.{key}"), &format!("--{option} {value}"))
    });
    set.replace("--set links.path.", "--set ")
}
