//! The guest as a process of the host.

use std::fs::{self, File};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::error::last_lines;
use crate::init::{CLOCK, Outcome, RESULT, STOP, TASK};
use crate::{GuestError, Task};

/// Interval at which the guest is checked.
const POLL: Duration = Duration::from_millis(100);
/// Memory in MiB. The host provides what the guest uses.
const MEMORY_MIB: u32 = 1536;
/// Descriptors under which the guest finds the pipes of standard output and standard error.
const OUTPUTS: [i32; 2] = [103, 104];

/// Properties of the guest machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// File of the kernel.
    pub kernel: PathBuf,
    /// Seed of all random numbers of the guest's kernel.
    pub seed: u64,
}

/// State of a running guest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Virtual time since the start of the guest, in seconds.
    pub virtual_s: f64,
    /// Real time since its start, in seconds.
    pub real_s: f64,
}

/// Runs a task in a guest until it ends and returns its exit status. Standard output and standard error of the task
/// arrive at `out` and `err` as they are.
///
/// `observe` is called ten times a second. `asked` returns how many times the user asked for an end: the first
/// interrupts the task (SIGINT), the second kills the guest.
///
/// # Errors
/// The guest cannot be started, ended early, was killed, or could not store the task's files.
pub fn run(
    machine: &Machine,
    task: &Task,
    (out, err): (impl Write + Send + 'static, impl Write + Send + 'static),
    observe: &mut dyn FnMut(Progress),
    asked: &dyn Fn() -> usize,
) -> Result<ExitStatus, GuestError> {
    task.check()?;
    let exchange = tempfile::Builder::new()
        .prefix("longhaul-guest-")
        .tempdir()
        .map_err(GuestError::host("cannot create a directory for the guest"))?;
    let command = prepare(machine, task, exchange.path())?;
    let mut guest = Guest::start(command, exchange, (out, err))?;
    guest.wait(observe, asked)?;
    guest.outcome()
}

/// Writes the task and returns the command that starts the guest.
fn prepare(machine: &Machine, task: &Task, exchange: &Path) -> Result<Command, GuestError> {
    let has_blank = exchange.to_string_lossy().contains(|c: char| c.is_whitespace() || c == '"');
    if has_blank {
        return Err(GuestError::Name(exchange.to_owned()));
    }
    let file = exchange.join(TASK);
    let text = serde_json::to_string(task).map_err(|e| GuestError::Init(e.to_string()))?;
    fs::write(&file, text).map_err(GuestError::host(format!("cannot write {}", file.display())))?;
    // This program is also the first process of the guest. The kernel's command line cannot hold a path with blanks.
    let own = std::env::current_exe().map_err(GuestError::host("cannot find the executable file of this program"))?;
    let init = exchange.join("init");
    symlink(&own, &init).map_err(GuestError::host(format!("cannot create {}", init.display())))?;
    let log = exchange.join("console");
    let console = File::create(&log).map_err(GuestError::host(format!("cannot create {}", log.display())))?;
    let copy = console.try_clone().map_err(GuestError::host("cannot open the console"))?;
    let mut command = Command::new(&machine.kernel);
    command
        .arg(format!("mem={MEMORY_MIB}M"))
        .args(["rootfstype=hostfs", "root=/dev/root", "hostfs=/", "ro", "quiet", "time-travel=inf-cpu"])
        // Without these, the first reader of random numbers would wait some seconds for other entropy.
        .args(["random.trust_cpu=on", "random.trust_bootloader=on"])
        .args(["con=null", "con0=null,fd:1"])
        .args([format!("con1=null,fd:{}", OUTPUTS[0]), format!("con2=null,fd:{}", OUTPUTS[1])])
        .arg(format!("uml_dir={}", exchange.join("uml").display()))
        .arg("umid=guest")
        .arg(format!("init={}", init.display()))
        .args(["--", "lab-guest"])
        .arg(&file)
        .current_dir(exchange)
        .env("LONGHAUL_SEED", machine.seed.to_string())
        .stdin(Stdio::null())
        .stdout(console)
        .stderr(copy);
    Ok(command)
}

/// A running guest. Dropping it kills the guest and removes its files.
struct Guest {
    child: Child,
    exchange: TempDir,
    copies: Vec<JoinHandle<()>>,
    start: Instant,
}

impl Guest {
    fn start(
        mut command: Command,
        exchange: TempDir,
        (out, err): (impl Write + Send + 'static, impl Write + Send + 'static),
    ) -> Result<Self, GuestError> {
        let pipe = || io::pipe().map_err(GuestError::host("cannot create a pipe"));
        let [(from_out, to_out), (from_err, to_err)] = [pipe()?, pipe()?];
        let given = [to_out, to_err].map(OwnedFd::from).into_iter().zip(OUTPUTS).collect();
        kernel::lead_group(&mut command, given);
        let kernel = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(GuestError::host(format!("cannot start {kernel}")))?;
        // Drops this process's copies of the pipes' write ends, so that the guest's end closes them.
        drop(command);
        let copies = vec![forward(from_out, out)?, forward(from_err, err)?];
        Ok(Self { child, exchange, copies, start: Instant::now() })
    }

    /// Waits until the guest has ended.
    fn wait(&mut self, observe: &mut dyn FnMut(Progress), asked: &dyn Fn() -> usize) -> Result<(), GuestError> {
        let stop = self.exchange.path().join(STOP);
        loop {
            let waited = kernel::wait_child(&mut self.child, POLL);
            if waited.map_err(GuestError::host("cannot wait for the guest"))?.is_some() {
                break;
            }
            match asked() {
                0 => {}
                1 if stop.exists() => {}
                1 => drop(File::create(&stop).map_err(GuestError::host("cannot interrupt the guest"))?),
                _ => return Err(GuestError::Interrupted),
            }
            let virtual_s = self.read(CLOCK).and_then(|text| text.parse().ok()).unwrap_or_default();
            observe(Progress { virtual_s, real_s: self.start.elapsed().as_secs_f64() });
        }
        // Helper processes of the guest hold its outputs open.
        self.kill();
        for copy in self.copies.drain(..) {
            // The thread returns nothing, and a panic of it lost output only.
            drop(copy.join());
        }
        Ok(())
    }

    fn outcome(&self) -> Result<ExitStatus, GuestError> {
        let outcome = self.read(RESULT).and_then(|text| serde_json::from_str(&text).ok());
        match outcome {
            Some(Outcome::Ended(status)) => Ok(ExitStatus::from_raw(status)),
            Some(Outcome::Failed(reason)) => Err(GuestError::Init(reason)),
            Some(Outcome::NotStored(reason)) => Err(GuestError::WriteBack(reason)),
            None => Err(GuestError::Ended(self.evidence())),
        }
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.exchange.path().join(name)).ok()
    }

    /// Last lines of the console; the only evidence if the kernel fails.
    fn evidence(&self) -> String {
        let lines = last_lines(&self.exchange.path().join("console"));
        if lines.is_empty() {
            "it printed nothing; was it killed, for lack of memory perhaps?".to_owned()
        } else {
            lines
        }
    }

    fn kill(&mut self) {
        // Both fail only for a guest that has ended.
        let _ = kernel::kill_group(&self.child);
        let _ = self.child.wait();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Copies a pipe to a stream of the host, in a thread. A stream that fails loses the rest: the guest would end by
/// SIGPIPE if nothing read its output.
fn forward(mut from: PipeReader, mut to: impl Write + Send + 'static) -> Result<JoinHandle<()>, GuestError> {
    let copy = move || {
        let mut bytes = [0; 4096];
        let mut is_open = true;
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            is_open = is_open && to.write_all(&bytes[..n]).and_then(|()| to.flush()).is_ok();
        }
    };
    thread::Builder::new()
        .name("guest-output".to_owned())
        .spawn(copy)
        .map_err(GuestError::host("cannot start a thread"))
}
