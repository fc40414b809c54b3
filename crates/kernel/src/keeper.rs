//! Programs that cannot outlive the lab.
//!
//! They run in a PID namespace whose process 1, the init process ("keeper"), dies with the lab's process, however
//! that ends. The kernel then kills every process of the namespace, including detached ones (pid_namespaces(7)).

mod inside;
mod program;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::pidfd::{PidFd, wait_any};
use crate::{KernelError, Op, enter_namespace};
use inside::READY;

pub use inside::run_keeper;
pub use program::Spawn;
pub(crate) use program::{set_hostname, show_devices};

/// The lab's handle of a namespace's init process. Dropping it kills the init process and with it all programs.
#[derive(Debug)]
pub struct NamespaceInit {
    process: u32,
    namespace: u64,
    /// Channel to the thread that starts programs; closing it ends the init process.
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// A program to start, and the channel for the answer.
struct Order {
    network: File,
    hostname: Option<String>,
    share_terminal: bool,
    command: Command,
    answer: SyncSender<io::Result<Child>>,
}

impl NamespaceInit {
    /// Starts `program` with `arguments`, which must call [`run_keeper`], and waits until it reports that it is
    /// ready.
    ///
    /// Needs the privileges that [`crate::gain`] acquires.
    ///
    /// # Errors
    /// The kernel refuses a PID namespace, or the program failed; the error then holds its standard error.
    pub fn start(program: &Path, arguments: &[&str]) -> Result<Self, KernelError> {
        let e = |source| KernelError::new(Op::NamespaceInit, program.display(), source);
        let mut command = Command::new(program);
        command.args(arguments);
        // A deleted working directory is no reason to fail.
        let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
        let (orders, receiver) = channel();
        let (outcome, ready) = sync_channel(1);
        let thread = thread::Builder::new().name("keeper".to_owned()).spawn(move || {
            match start_init(command, &directory) {
                Ok((keeper, namespace)) => {
                    // The receiver always waits for it.
                    let _ = outcome.send(Ok((keeper.child.id(), namespace)));
                    keeper.serve(receiver)
                }
                Err(source) => {
                    let _ = outcome.send(Err(source));
                    Ok(())
                }
            }
        });
        let thread = thread.map_err(e)?;
        let ready = ready.recv().unwrap_or_else(|_| Err(io::Error::other("the thread of the init process panicked")));
        let (process, namespace) = ready.map_err(e)?;
        Ok(Self { process, namespace, orders: Some(orders), thread: Some(thread) })
    }

    /// Process number of the init process in the PID namespace of this process.
    pub fn pid(&self) -> u32 {
        self.process
    }

    /// Inode of the PID namespace, which identifies its processes (/proc/PID/ns/pid).
    pub fn pid_namespace_inode(&self) -> u64 {
        self.namespace
    }

    /// Starts a program on a node. It is a child of this process and must be waited for like any other.
    ///
    /// # Errors
    /// The program cannot be started, or the init process has ended.
    pub fn spawn(&self, spawn: Spawn<'_>) -> Result<Child, KernelError> {
        let program = PathBuf::from(spawn.command.get_program());
        let e = |source| KernelError::new(Op::Spawn, program.display(), source);
        let (answer, answered) = sync_channel(1);
        let Spawn { network, hostname, share_terminal, command } = spawn;
        let network = network.try_clone().map_err(e)?;
        let order = Order { network, hostname, share_terminal, command, answer };
        let ended = || io::Error::new(io::ErrorKind::BrokenPipe, "the lab's init process has ended");
        self.orders.as_ref().and_then(|o| o.send(order).ok()).ok_or_else(|| e(ended()))?;
        answered.recv().unwrap_or_else(|_| Err(ended())).map_err(e)
    }

    /// Kills the init process and waits until it and all programs have ended.
    ///
    /// Exit statuses of programs that were not yet waited for are lost.
    ///
    /// # Errors
    /// The init process could not be killed or waited for.
    pub fn end(mut self) -> Result<(), KernelError> {
        self.finish().map_err(|source| KernelError::new(Op::NamespaceInit, self.process, source))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.orders = None;
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of the init process panicked")))
    }
}

impl Drop for NamespaceInit {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// State of the thread that starts programs.
struct Running {
    child: Child,
    held: PidFd,
    /// An empty network namespace, in which the thread stays between two programs.
    home: File,
    /// Programs that were not yet waited for.
    programs: Vec<PidFd>,
}

/// Moves the calling thread's children into a new PID namespace, starts its init process and adopts its mounts.
/// Returns the running init process and the namespace's inode.
fn start_init(mut command: Command, directory: &Path) -> io::Result<(Running, u64)> {
    // CLONE_FS: a thread that shares its working directory cannot change its mounts. CLONE_NEWNET: from a user
    // namespace the thread cannot return to its original network.
    // SAFETY: all flags change only the calling thread: its working directory, its network, the PID namespace of its
    // children.
    if unsafe { libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNET | libc::CLONE_NEWPID) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let home = File::open("/proc/thread-self/ns/net")?;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let prepared = await_ready(&mut child).and_then(|()| {
        let namespace = fs::metadata(format!("/proc/{}/ns/pid", child.id()))?.ino();
        let held = PidFd::open(child.id())?;
        held.enter(libc::CLONE_NEWNS)?;
        // setns moved the thread to the root directory.
        std::env::set_current_dir(directory)?;
        Ok((held, namespace))
    });
    match prepared {
        Ok((held, namespace)) => Ok((Running { child, held, home, programs: Vec::new() }, namespace)),
        Err(e) => {
            child.kill()?;
            child.wait()?;
            Err(e)
        }
    }
}

fn await_ready(keeper: &mut Child) -> io::Result<()> {
    let mut byte = [0];
    let Some(out) = &mut keeper.stdout else { return Err(io::ErrorKind::BrokenPipe.into()) };
    if out.read_exact(&mut byte).is_ok() && byte == [READY] {
        return Ok(());
    }
    // A program that is no init process may keep its standard error open for ever.
    keeper.kill()?;
    let mut output = String::new();
    if let Some(e) = &mut keeper.stderr {
        e.read_to_string(&mut output)?;
    }
    let output = output.trim();
    let reason = if output.is_empty() { "the program exited without a ready message or an error" } else { output };
    Err(io::Error::other(reason.to_owned()))
}

impl Running {
    /// Starts programs until the order channel is closed; then kills the init process.
    fn serve(mut self, orders: Receiver<Order>) -> io::Result<()> {
        for order in orders {
            self.programs.retain(|p| !p.is_reaped());
            let answer = order.answer.clone();
            let _ = answer.send(self.start(order));
        }
        self.child.kill()?;
        // The kernel keeps the init process until every process of its namespace has been waited for. Programs are
        // children of this process, so only this process can reap them.
        while self.child.try_wait()?.is_none() {
            let all: Vec<&PidFd> = self.programs.iter().chain([&self.held]).collect();
            wait_any(&all, None)?;
            // A process whose status cannot be queried is dropped from the list, so that this loop does not spin.
            self.programs.retain(|p| p.discard_status().is_ok_and(|gone| !gone));
        }
        Ok(())
    }

    fn start(&mut self, mut order: Order) -> io::Result<Child> {
        program::prepare(&mut order.command, order.hostname.as_deref(), order.share_terminal)?;
        enter_namespace(&order.network)?;
        let started = order.command.spawn();
        // The thread must not keep a node's network alive.
        let left = enter_namespace(&self.home);
        let mut child = started?;
        match left.and_then(|()| PidFd::open(child.id())) {
            Ok(held) => {
                self.programs.push(held);
                Ok(child)
            }
            Err(e) => {
                child.kill()?;
                child.wait()?;
                Err(e)
            }
        }
    }
}
