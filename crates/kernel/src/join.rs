use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::keeper::{set_hostname, show_devices};
use crate::pidfd::PidFd;
use crate::privilege::threads;
use crate::{KernelError, Op, enter_namespace};

/// Moves this process to a node of a running lab: into the user namespace of the lab's init process (if it differs),
/// its mounts and the node's network. Child processes started from then on belong to the lab and end with it; this
/// process does not.
///
/// `keeper` is the process number of the lab's init process; `network` names the node's network namespace, such as
/// /proc/PID/fd/N of the lab. The process must have a single thread and belong to the lab's user or root. The working
/// directory is kept where the same path exists.
///
/// # Errors
/// The process has threads, the lab has ended or belongs to another user, or the kernel refuses a namespace.
pub fn join(keeper: u32, network: &Path, hostname: Option<&str>) -> Result<(), KernelError> {
    let threads = threads().unwrap_or(1);
    let e = |source| KernelError::new(Op::Join, keeper, source);
    if threads > 1 {
        return Err(e(io::Error::other(format!("the process has {threads} threads; this needs a single one"))));
    }
    let hostname = hostname.map(CString::new).transpose().map_err(|n| e(n.into()))?;
    // All files are opened before any namespace is entered: the paths mean something else inside.
    let held = PidFd::open(keeper).map_err(e)?;
    let network = File::open(network).map_err(|source| KernelError::new(Op::Join, network.display(), source))?;
    let user = |of: &str| fs::metadata(format!("/proc/{of}/ns/user")).map(|m| m.ino());
    let other = user(&keeper.to_string()).map_err(e)? != user("self").map_err(e)?;
    let directory = std::env::current_dir();
    // The kernel refuses to enter the user namespace that the process is already in (setns(2)).
    let kinds = libc::CLONE_NEWPID | libc::CLONE_NEWNS | if other { libc::CLONE_NEWUSER } else { 0 };
    held.enter(kinds).map_err(e)?;
    if other {
        // The lab's user is root inside; another user that joins, root of the machine, must act as that user.
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
    // setns moved the process to the root directory, which remains the working directory if the old path does not
    // exist.
    let _ = directory.and_then(std::env::set_current_dir);
    Ok(())
}
