//! First process of the guest.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kernel::{LinkSettings, Netlink};

use crate::{GuestError, Task};

/// Mount point of the directory that host and guest exchange files in.
const EXCHANGE: &str = "/run/longhaul-guest";
/// File of the exchange with the virtual time in seconds since the start of the guest.
pub(crate) const CLOCK: &str = "clock";
/// File of the exchange that the host creates to interrupt the task.
pub(crate) const STOP: &str = "stop";
/// File of the exchange with the exit status of the task, or the error that ended it.
pub(crate) const RESULT: &str = "result";
/// File of the exchange with the task.
pub(crate) const TASK: &str = "task.json";

/// Interval in virtual time at which the task and the host's request to stop are checked.
const POLL: Duration = Duration::from_millis(200);
/// Number of checks for each write of the clock: one second.
const POLLS_PER_CLOCK: u32 = 5;

/// Defaults of Linux 6.18 for socket buffers, which are larger than those of the guest kernel.
const SYSCTLS: [(&str, &str); 4] = [
    ("net.core.rmem_max", "4194304"),
    ("net.core.wmem_max", "4194304"),
    ("net.ipv4.tcp_rmem", "4096 131072 33554432"),
    ("net.ipv4.tcp_congestion_control", "cubic"),
];

/// Host name of the guest.
const HOSTNAME: &str = "guest";

/// Result of a task as the guest reports it.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum Outcome {
    /// Wait status of the program (wait(2)).
    Ended(i32),
    /// The guest could not be set up.
    Failed(String),
    /// The task ended, but its files could not be stored on the host.
    NotStored(String),
}

/// Runs as the first process of the guest: sets up the system, runs the task and powers the guest off.
///
/// Returns only if the guest cannot be powered off, with the reason.
pub fn run_init(task: &Path) -> io::Error {
    let exchange = task.parent().unwrap_or_else(|| Path::new("/")).to_owned();
    match prepare(task, &exchange).and_then(|(task, stores)| run(&task, &stores)) {
        Ok(outcome) => report(&outcome),
        Err(e) => report(&Outcome::Failed(e.to_string())),
    }
    kernel::power_off()
}

/// Reads the task, mounts the file systems and starts the loopback device. Returns the task and open handles of its
/// writable directories.
fn prepare(task: &Path, exchange: &Path) -> Result<(Task, Vec<(PathBuf, File)>), GuestError> {
    let task = Task::read(task)?;
    kernel::mount_guest_file_systems().map_err(GuestError::host("cannot mount the guest's file systems"))?;
    let mount = |from: &Path, to: &Path, is_writable| {
        let what = format!("cannot mount {} in the guest", from.display());
        kernel::mount_host_directory(from, to, is_writable).map_err(GuestError::host(what))
    };
    mount(exchange, Path::new(EXCHANGE), true)?;
    let mut stores = Vec::new();
    for place in task.mounts() {
        mount(&place.directory, &place.directory, place.is_writable)?;
        if place.is_writable {
            let what = format!("cannot open {}", place.directory.display());
            stores.push((place.directory.clone(), File::open(&place.directory).map_err(GuestError::host(what))?));
        }
    }
    let mut netlink = Netlink::open().map_err(|e| GuestError::Init(e.to_string()))?;
    let up = LinkSettings { up: Some(true), ..LinkSettings::default() };
    netlink.index("lo").and_then(|lo| netlink.set_link(lo, &up)).map_err(|e| GuestError::Init(e.to_string()))?;
    // Reports show the name of the machine; without one the kernel says `(none)`.
    fs::write("/proc/sys/kernel/hostname", HOSTNAME).map_err(GuestError::host("cannot set the host name"))?;
    for (name, value) in SYSCTLS {
        kernel::write_sysctl(name, value).map_err(|e| GuestError::Init(e.to_string()))?;
    }
    Ok((task, stores))
}

/// Runs the program of the task, stores its files and returns its exit status.
fn run(task: &Task, stores: &[(PathBuf, File)]) -> Result<Outcome, GuestError> {
    let mut child = Command::new(&task.program)
        .args(&task.arguments)
        .current_dir(&task.directory)
        .env_clear()
        .envs(task.environment.iter().map(|(k, v)| (k, v)))
        .env(crate::VARIABLE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(GuestError::host(format!("cannot start {}", task.program.display())))?;
    // The consoles 1 and 2 lead to standard output and standard error of the host.
    let copies = [copy(child.stdout.take(), "/dev/tty1")?, copy(child.stderr.take(), "/dev/tty2")?];
    let status = watch(&mut child)?;
    // Processes that the program left behind could keep its output open.
    kernel::kill_all();
    for copy in copies {
        // A failed console cannot report its failure.
        drop(copy.join());
    }
    for (directory, store) in stores {
        if let Err(e) = kernel::write_back(store) {
            return Ok(Outcome::NotStored(format!("{}: {e}", directory.display())));
        }
    }
    Ok(Outcome::Ended(status.into_raw()))
}

/// Copies a stream of the program to a console, in a thread.
fn copy(stream: Option<impl Read + Send + 'static>, console: &str) -> Result<JoinHandle<io::Result<()>>, GuestError> {
    let what = format!("cannot open the console {console}");
    let mut console = kernel::open_raw_terminal(Path::new(console)).map_err(GuestError::host(what))?;
    let copy = move || match stream {
        Some(mut stream) => io::copy(&mut stream, &mut console).map(|_| ()),
        None => Ok(()),
    };
    thread::Builder::new().spawn(copy).map_err(GuestError::host("cannot start a thread"))
}

/// Waits for the program. Meanwhile reports the clock, and passes one interruption on.
fn watch(child: &mut Child) -> Result<ExitStatus, GuestError> {
    let exchange = Path::new(EXCHANGE);
    let mut is_interrupted = false;
    for poll in 0_u32.. {
        let waited = kernel::wait_child(child, POLL).map_err(GuestError::host("cannot wait for the program"))?;
        if let Some(status) = waited {
            return Ok(status);
        }
        if !is_interrupted && exchange.join(STOP).exists() {
            is_interrupted = true;
            // A program that has just ended cannot be interrupted.
            let _ = kernel::interrupt(child);
        }
        if poll % POLLS_PER_CLOCK == 0 {
            // The clock is shown only; the task goes on without it.
            let _ = store(CLOCK, &(kernel::uptime_ns() as f64 / 1e9).to_string());
        }
    }
    Err(GuestError::Init("the program ran for longer than the guest can count".to_owned()))
}

/// Writes a file of the exchange to the host.
fn store(name: &str, text: &str) -> io::Result<()> {
    let exchange = File::open(EXCHANGE)?;
    let mut file = File::create(Path::new(EXCHANGE).join(name))?;
    file.write_all(text.as_bytes())?;
    kernel::write_back(&exchange)
}

/// Writes the outcome to the exchange directory, and a failure to the console as well: the directory may not be
/// mounted yet. The host quotes the console if there is no result.
fn report(outcome: &Outcome) {
    if let Outcome::Failed(reason) = outcome {
        // The console is the last resort.
        let _ = writeln!(io::stderr(), "{reason}");
    }
    let stored = serde_json::to_string(outcome).map_err(io::Error::from).and_then(|text| store(RESULT, &text));
    if let Err(e) = stored {
        let _ = writeln!(io::stderr(), "cannot report the result: {e}");
    }
}
