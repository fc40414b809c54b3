//! Labs in virtual time: the command runs again inside of a guest kernel.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use guest::{GuestError, Image, Machine, Progress, Source, Task};
use kernel::Shutdown;

use super::cli::{VirtualCommand, VirtualOptions};
use super::inspect::exit_code;
use super::own_program;
use crate::output::{CLEAR_LINE, is_terminal, print_message};
use crate::standard_output::standard_output;

/// Option that starts the guest; the command line in the guest is the same without it.
const OPTION: &str = "--virtual";
/// Seed of the guest's kernel for commands without a seed.
const SEED: u64 = 1;
/// Variables of the environment that programs in the guest get besides those of longhaul.
const PASSED: [&str; 5] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ"];

/// Command that checks a new kernel, and the real time that it may take. In real time it takes four times as long.
const CHECK: &str = "sleep 120";
const CHECK_TIME_MAX: Duration = Duration::from_secs(30);
/// Variables of longhaul that name files which the guest cannot write: history and registry of labs.
const KEPT: [&str; 2] = [archive::VARIABLE, "LONGHAUL_STATE"];

/// Runs `longhaul lab virtual`.
pub(crate) fn manage(options: &VirtualOptions) -> anyhow::Result<ExitCode> {
    let image = image()?;
    match &options.command {
        VirtualCommand::Setup { source, kernel } => {
            let source = match (source, kernel) {
                (Some(tree), _) => Source::Tree(tree.clone()),
                (None, Some(file)) => Source::Kernel(file.clone()),
                (None, None) => Source::Package,
            };
            if !matches!(source, Source::Kernel(_)) {
                print_message("building the guest kernel, which takes some minutes");
            }
            Shutdown::install().context("cannot handle signals")?;
            let place = image.install(&source, &Shutdown::requests, &check)?;
            writeln!(standard_output(), "guest kernel: {}", place.display())?;
        }
        VirtualCommand::Remove => {
            let text = if image.remove()? { "removed the guest kernel" } else { "nothing to remove" };
            writeln!(standard_output(), "{text}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether this process runs in a guest.
pub(crate) fn is_guest() -> bool {
    std::env::var_os(guest::VARIABLE).is_some()
}

/// First process of a guest.
pub(crate) fn init(task: &Path) -> anyhow::Result<ExitCode> {
    if std::process::id() != 1 {
        bail!("internal command; only a guest kernel runs it as process 1");
    }
    Err(guest::run_init(task)).context("cannot power off")
}

/// Runs this command line in a guest, without `--virtual`. The guest may write to the directories of `outputs`, and
/// reads `inputs` below the directories that it hides.
pub(crate) fn run(seed: Option<u64>, outputs: &[PathBuf], inputs: &[PathBuf]) -> anyhow::Result<ExitCode> {
    if is_guest() {
        bail!("{OPTION}: this command runs in a guest kernel already");
    }
    let machine = Machine { kernel: image()?.kernel()?, seed: seed.unwrap_or(SEED) };
    let directory = std::env::current_dir().context("cannot find the working directory")?;
    let mut writable = Vec::new();
    for output in outputs {
        writable.push(existing_ancestor(output)?);
    }
    let mut readable = Vec::new();
    for input in inputs {
        readable.extend(std::path::absolute(input)?.parent().map(Path::to_owned));
    }
    let task = Task {
        program: own_program()?,
        arguments: arguments()?,
        directory,
        environment: environment(),
        writable,
        readable,
    };
    Shutdown::install().context("cannot handle signals")?;
    let shown = Shown::new();
    let status =
        guest::run(&machine, &task, (standard_output(), io::stderr()), &mut |p| shown.update(p), &Shutdown::requests);
    shown.clear();
    Ok(exit_code(status?))
}

/// Checks that the clock of a kernel does not follow the host's: a long sleep must end soon.
fn check(kernel: &Path) -> Result<(), GuestError> {
    let machine = Machine { kernel: kernel.to_owned(), seed: SEED };
    let task = Task {
        program: "/bin/sh".into(),
        arguments: ["-c", CHECK].map(str::to_owned).to_vec(),
        directory: "/".into(),
        environment: environment(),
        writable: Vec::new(),
        readable: Vec::new(),
    };
    let start = Instant::now();
    let is_slow = || start.elapsed() > CHECK_TIME_MAX;
    // The second request kills the guest.
    let requests = || if is_slow() { 2 } else { Shutdown::requests() };
    match guest::run(&machine, &task, (io::sink(), io::stderr()), &mut |_| {}, &requests) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(GuestError::Ended(format!("`{CHECK}` in it failed: {status}"))),
        Err(GuestError::Interrupted) if is_slow() => Err(GuestError::RealTime),
        Err(e) => Err(e),
    }
}

fn image() -> Result<Image, GuestError> {
    Image::in_cache(|name| std::env::var_os(name).map(PathBuf::from))
}

/// The command line without `--virtual`.
fn arguments() -> anyhow::Result<Vec<String>> {
    let mut is_command = false;
    let mut arguments = Vec::new();
    for argument in std::env::args_os().skip(1) {
        let argument = argument.into_string().map_err(|a| anyhow::anyhow!("{} is not UTF-8", a.display()))?;
        is_command |= argument == "--";
        if is_command || argument != OPTION {
            arguments.push(argument);
        }
    }
    Ok(arguments)
}

/// Variables for the guest.
fn environment() -> Vec<(String, String)> {
    let is_passed = |name: &str| PASSED.contains(&name) || name.starts_with("LONGHAUL_");
    let own = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    own.filter(|(name, _)| is_passed(name) && !KEPT.contains(&name.as_str()))
        .chain([(archive::VARIABLE.to_owned(), "off".to_owned())])
        .collect()
}

/// The nearest directory above a path that exists.
fn existing_ancestor(path: &Path) -> anyhow::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let found = path.ancestors().skip(1).find(|a| a.is_dir());
    Ok(found.with_context(|| format!("{} has no directory", path.display()))?.to_owned())
}

/// Progress line on a terminal.
struct Shown {
    is_terminal: bool,
}

impl Shown {
    fn new() -> Self {
        Self { is_terminal: is_terminal(&io::stderr()) }
    }

    fn update(&self, progress: Progress) {
        if self.is_terminal {
            let Progress { virtual_s, real_s } = progress;
            let ratio = if real_s > 0.0 { virtual_s / real_s } else { 0.0 };
            // A terminal that is gone is no reason to stop.
            let _ = write!(io::stderr(), "{CLEAR_LINE}virtual time {virtual_s:.0} s  {ratio:.2} s/s");
        }
    }

    fn clear(&self) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "{CLEAR_LINE}");
        }
    }
}
