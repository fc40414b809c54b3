use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::keeper::{set_hostname, show_devices};
use crate::pidfd::PidFd;
use crate::privilege::threads;
use crate::{KernelError, Op, enter_namespace};

/// Moves this process to a node of a running lab: into the user namespace of the lab's keeper, if that is another, its mounts
/// and the node's network. What it starts from now on is among the lab's processes and ends with them; it itself is not.
///
/// `keeper` is the keeper's process, `network` names the node's network namespace, such as /proc/PID/fd/N of the lab. The
/// process must have a single thread, and be of the lab's user or root. The working directory stays where it has the same
/// name.
///
/// # Errors
/// The process has threads, the lab is gone or somebody else's, or a namespace is refused.
pub fn join(keeper: u32, network: &Path, hostname: Option<&str>) -> Result<(), KernelError> {
    let threads = threads().unwrap_or(1);
    let e = |source| KernelError::new(Op::Join, keeper, source);
    if threads > 1 {
        return Err(e(io::Error::other(format!("the process has {threads} threads already, and may have one only"))));
    }
    let hostname = hostname.map(CString::new).transpose().map_err(|n| e(n.into()))?;
    // All is found before anything is entered: the names mean something else inside.
    let held = PidFd::open(keeper).map_err(e)?;
    let network = File::open(network).map_err(|source| KernelError::new(Op::Join, network.display(), source))?;
    let user = |of: &str| fs::metadata(format!("/proc/{of}/ns/user")).map(|m| m.ino());
    let other = user(&keeper.to_string()).map_err(e)? != user("self").map_err(e)?;
    let directory = std::env::current_dir();
    // The kernel refuses to enter the user namespace where one is already (setns(2)).
    let kinds = libc::CLONE_NEWPID | libc::CLONE_NEWNS | if other { libc::CLONE_NEWUSER } else { 0 };
    held.enter(kinds).map_err(e)?;
    if other {
        // The lab's user is root in there; whoever else joins, root of the machine, is to act as that user.
        // SAFETY: both take integers and change only the process's identity.
        if unsafe { libc::setresgid(0, 0, 0) < 0 || libc::setresuid(0, 0, 0) < 0 } {
            return Err(KernelError::last(Op::Join, keeper));
        }
    }
    enter_namespace(&network).map_err(e)?;
    show_devices().map_err(e)?;
    if let Some(name) = hostname {
        set_hostname(&name).map_err(e)?;
    }
    // Entering went to the root directory, which is the place to stay where there is no better one.
    let _ = directory.and_then(std::env::set_current_dir);
    Ok(())
}
