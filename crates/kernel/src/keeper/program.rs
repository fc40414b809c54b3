use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::mount::{mount_sys, own_mounts};

/// A program to start on a node.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// The node's network namespace.
    pub network: &'a File,
    /// The node's host name, as hostname(1) shows it there.
    pub hostname: Option<String>,
    /// Leaves the program in this process's group, so that it may use the terminal. Otherwise it leads a new group,
    /// which [`crate::signal_group`] reaches and the terminal's signals do not.
    pub share_terminal: bool,
    /// The program with its arguments, environment, working directory and standard streams.
    pub command: Command,
}

/// Prepares a command's last steps in the child: a private mount namespace, a host name, a process group, and default
/// signal dispositions.
pub(super) fn prepare(command: &mut Command, hostname: Option<&str>, share_terminal: bool) -> io::Result<()> {
    let hostname = hostname.map(CString::new).transpose()?;
    let steps = move || {
        show_devices()?;
        if let Some(name) = &hostname {
            set_hostname(name)?;
        }
        if !share_terminal {
            // SAFETY: setpgid takes two integers and changes only the calling process.
            check(unsafe { libc::setpgid(0, 0) })?;
        }
        default_signals();
        Ok(())
    };
    // SAFETY: `steps` only makes system calls and neither allocates nor locks: it is safe between fork and exec of a
    // process with threads. Its string was allocated before.
    unsafe { command.pre_exec(steps) };
    Ok(())
}

/// Gives the calling process a private mount namespace with the devices of its network in /sys. Async-signal-safe.
pub(crate) fn show_devices() -> io::Result<()> {
    own_mounts()?;
    // Containers that hide parts of /sys refuse this mount. Programs that list devices by netlink still see the right
    // ones.
    let _ = mount_sys();
    Ok(())
}

/// Gives the calling process a separate host name. Async-signal-safe.
pub(crate) fn set_hostname(name: &CString) -> io::Result<()> {
    // SAFETY: CLONE_NEWUTS changes only the calling process's view of its host name.
    check(unsafe { libc::unshare(libc::CLONE_NEWUTS) })?;
    // SAFETY: the string is readable for its length.
    check(unsafe { libc::sethostname(name.as_ptr(), name.as_bytes().len()) })
}

/// Resets signal dispositions and the signal mask, which exec would keep. Async-signal-safe.
fn default_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: the default disposition is valid for every signal; SIGKILL and SIGSTOP refuse, which changes nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: all-zero is a valid set, which sigemptyset fills in, and sigprocmask reads.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

fn check(rc: libc::c_int) -> io::Result<()> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
