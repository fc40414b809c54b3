//! Programs that cannot outlive the lab.
//!
//! They run in a PID namespace whose process 1, the keeper, dies with the lab's process, however that ends; the kernel then
//! kills every process of the namespace, whatever they did to detach themselves (pid_namespaces(7)).

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

/// The lab's side of a keeper. Dropping it kills the keeper and with it all programs.
#[derive(Debug)]
pub struct Keeper {
    process: u32,
    namespace: u64,
    /// The way to the thread that starts programs; it ends the keeper when this is closed.
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// A program to start, and where the answer goes.
struct Order {
    network: File,
    hostname: Option<String>,
    share_terminal: bool,
    command: Command,
    answer: SyncSender<io::Result<Child>>,
}

impl Keeper {
    /// Starts `program` with `arguments`, which must call [`run_keeper`], and waits until it is ready.
    ///
    /// Needs what [`crate::gain`] gives.
    ///
    /// # Errors
    /// A PID namespace is refused, or the program failed; then with what it wrote to standard error.
    pub fn start(program: &Path, arguments: &[&str]) -> Result<Self, KernelError> {
        let e = |source| KernelError::new(Op::Keeper, program.display(), source);
        let mut command = Command::new(program);
        command.args(arguments);
        // One that was deleted is no reason to fail.
        let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
        let (orders, receiver) = channel();
        let (told, ready) = sync_channel(1);
        let thread = thread::Builder::new().name("keeper".to_owned()).spawn(move || {
            match begin(command, &directory) {
                Ok((keeper, namespace)) => {
                    // There is always somebody waiting for it.
                    let _ = told.send(Ok((keeper.child.id(), namespace)));
                    keeper.serve(receiver)
                }
                Err(source) => {
                    let _ = told.send(Err(source));
                    Ok(())
                }
            }
        });
        let thread = thread.map_err(e)?;
        let ready = ready.recv().unwrap_or_else(|_| Err(io::Error::other("its thread ended abnormally")));
        let (process, namespace) = ready.map_err(e)?;
        Ok(Self { process, namespace, orders: Some(orders), thread: Some(thread) })
    }

    /// Number of the keeper's process, as this process sees it.
    pub fn pid(&self) -> u32 {
        self.process
    }

    /// Inode of the PID namespace, which tells its processes from all others (/proc/PID/ns/pid).
    pub fn pid_namespace_inode(&self) -> u64 {
        self.namespace
    }

    /// Starts a program on a node. It is a child of this process, to be waited for like any other.
    ///
    /// # Errors
    /// It cannot be started, or the keeper has ended.
    pub fn spawn(&self, spawn: Spawn<'_>) -> Result<Child, KernelError> {
        let program = PathBuf::from(spawn.command.get_program());
        let e = |source| KernelError::new(Op::Spawn, program.display(), source);
        let (answer, answered) = sync_channel(1);
        let Spawn { network, hostname, share_terminal, command } = spawn;
        let network = network.try_clone().map_err(e)?;
        let order = Order { network, hostname, share_terminal, command, answer };
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the keeper has ended");
        self.orders.as_ref().and_then(|o| o.send(order).ok()).ok_or_else(|| e(gone()))?;
        answered.recv().unwrap_or_else(|_| Err(gone())).map_err(e)
    }

    /// Kills the keeper and waits until it and all programs are gone.
    ///
    /// Exit statuses of programs that were not yet waited for are lost.
    ///
    /// # Errors
    /// The keeper could not be killed or waited for.
    pub fn end(mut self) -> Result<(), KernelError> {
        self.finish().map_err(|source| KernelError::new(Op::Keeper, self.process, source))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.orders = None;
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread ended abnormally")))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// The keeper as the thread sees it that starts programs.
struct Running {
    child: Child,
    held: PidFd,
    /// An empty network, where the thread is between two programs.
    home: File,
    /// Programs that were not yet waited for.
    programs: Vec<PidFd>,
}

/// Moves the calling thread's children into a new PID namespace, starts its process 1 and sees the files that it sees. Gives
/// it and the namespace's inode.
fn begin(mut command: Command, directory: &Path) -> io::Result<(Running, u64)> {
    // CLONE_FS: a thread that shares its working directory with others cannot change what is mounted. CLONE_NEWNET: from a
    // user namespace there is no way back to the network that the thread came from.
    // SAFETY: all change only the calling thread: its working directory, its network, where its children are born.
    if unsafe { libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNET | libc::CLONE_NEWPID) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let home = File::open("/proc/thread-self/ns/net")?;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let prepared = await_ready(&mut child).and_then(|()| {
        let namespace = fs::metadata(format!("/proc/{}/ns/pid", child.id()))?.ino();
        let held = PidFd::open(child.id())?;
        held.enter(libc::CLONE_NEWNS)?;
        // Entering went to the root directory.
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
    // It may hold on to its standard error for ever if it is not what it should be.
    keeper.kill()?;
    let mut said = String::new();
    if let Some(e) = &mut keeper.stderr {
        e.read_to_string(&mut said)?;
    }
    let said = said.trim();
    Err(io::Error::other(if said.is_empty() { "it is no keeper, and said nothing" } else { said }.to_owned()))
}

impl Running {
    /// Starts programs until there is nobody left to ask for any; then kills the keeper.
    fn serve(mut self, orders: Receiver<Order>) -> io::Result<()> {
        for order in orders {
            self.programs.retain(|p| !p.is_reaped());
            let answer = order.answer.clone();
            let _ = answer.send(self.start(order));
        }
        self.child.kill()?;
        // The keeper is gone when no process of its namespace is left, not even one that ended and was not waited for.
        // Programs are children of this process, so that only it can do that.
        while self.child.try_wait()?.is_none() {
            let all: Vec<&PidFd> = self.programs.iter().chain([&self.held]).collect();
            wait_any(&all, None)?;
            // One whose status cannot be asked for is not waited for, lest this spins.
            self.programs.retain(|p| p.discard_status().is_ok_and(|gone| !gone));
        }
        Ok(())
    }

    fn start(&mut self, mut order: Order) -> io::Result<Child> {
        program::prepare(&mut order.command, order.hostname.as_deref(), order.share_terminal)?;
        enter_namespace(&order.network)?;
        let started = order.command.spawn();
        // So that no node's network lives on in this thread.
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
