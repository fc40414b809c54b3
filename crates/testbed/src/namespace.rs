use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::command;

/// A host: an anonymous network namespace, or the namespace of this process.
#[derive(Debug, Clone)]
pub struct Namespace(Option<Arc<File>>);

impl Namespace {
    /// Creates a host with only a loopback device.
    ///
    /// # Errors
    /// `PermissionDenied` without root.
    pub fn new() -> io::Result<Self> {
        let namespace = Self(Some(Arc::new(kernel::new_namespace()?)));
        namespace.iproute("ip link set lo up")?;
        Ok(namespace)
    }

    /// Opens an existing namespace by a file that refers to it.
    pub fn of(file: File) -> Self {
        Self(Some(Arc::new(file)))
    }

    /// The namespace of this process; needs no privilege.
    pub fn here() -> Self {
        Self(None)
    }

    /// Runs a closure in a thread in the namespace and waits for it. Its child processes start in the namespace, too.
    ///
    /// # Errors
    /// The thread cannot be started or moved, or panicked.
    pub fn run<T: Send>(&self, job: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                self.enter()?;
                Ok(job())
            });
            inside.join().unwrap_or_else(|_| Err(io::Error::other("a thread in a namespace panicked")))
        })
    }

    /// Starts a closure in a thread in the namespace, without waiting for it.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<io::Result<T>>> {
        let namespace = self.clone();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            namespace.enter()?;
            Ok(job())
        })
    }

    /// Runs an `ip` or `tc` command line in the namespace and returns its standard output.
    ///
    /// # Errors
    /// The error of the command.
    pub fn iproute(&self, line: &str) -> io::Result<String> {
        self.run(|| command::run(line))?
    }

    /// Starts a program in the namespace.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(&self, command: &mut Command) -> io::Result<Child> {
        self.run(|| command.spawn())?
    }

    /// Writes a sysctl of this network, such as `net/ipv4/ip_forward`.
    ///
    /// # Errors
    /// The sysctl does not exist.
    pub fn set(&self, setting: &str, value: &str) -> io::Result<()> {
        let path = format!("/proc/sys/{setting}");
        self.run(|| fs::write(&path, value))?.map_err(|e| io::Error::new(e.kind(), format!("{path}: {e}")))
    }

    /// Path of the namespace for iproute2, valid while this process runs.
    pub fn path(&self) -> String {
        let process = std::process::id();
        match &self.0 {
            Some(file) => format!("/proc/{process}/fd/{}", file.as_raw_fd()),
            None => format!("/proc/{process}/ns/net"),
        }
    }

    fn enter(&self) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |file| kernel::enter_namespace(file))
    }
}
