use std::io;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use crate::pidfd::PidFd;

/// Resources that a process used until it ended (getrusage(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in kernel mode, and in interrupts that arrived while the process ran.
    pub system: Duration,
    /// Largest resident set in bytes.
    pub peak_resident: u64,
}

impl Usage {
    /// User and system time together.
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

/// Reaps a child that has ended and returns its exit status and the resources used by it and by the children that it
/// waited for; `None` while the child runs.
///
/// The kernel forgets the status: `child` must not be waited for again.
///
/// # Errors
/// wait4(2) failed: the child was already reaped.
pub fn reap(child: &Child) -> io::Result<Option<(i32, Usage)>> {
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let mut status = 0;
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are writable for their types during the call.
    let rc = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    let peak_resident = usage.ru_maxrss as u64 * 1024;
    Ok((rc > 0).then(|| (status, Usage { user: time(usage.ru_utime), system: time(usage.ru_stime), peak_resident })))
}

/// Sends a signal (such as `libc::SIGTERM`) to the process group that a child leads, or to the child alone where it
/// leads no group. A child that has ended is not an error.
///
/// The child must not have been waited for: the kernel may have reused its process number.
///
/// # Errors
/// kill(2) refused it.
pub fn signal_group(child: &Child, signal: i32) -> io::Result<()> {
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let absent = |e: &io::Error| e.raw_os_error() == Some(libc::ESRCH);
    match kill(-pid, signal) {
        Err(e) if absent(&e) => kill(pid, signal).or_else(|e| if absent(&e) { Ok(()) } else { Err(e) }),
        other => other,
    }
}

fn kill(to: libc::pid_t, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes integers.
    if unsafe { libc::kill(to, signal) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits for a child to end; `None` when it still runs after `timeout`.
///
/// # Errors
/// The child was reaped by other means than the methods of [`Child`].
pub fn wait_child(child: &mut Child, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    // pidfd_open fails for a child that was already waited for.
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    if PidFd::open(child.id())?.wait(timeout)? { child.try_wait() } else { Ok(None) }
}

/// Ends a child and its process group: sends SIGTERM, waits up to `grace`, then sends SIGKILL.
///
/// # Errors
/// The kernel refused a signal, or the child was reaped by other means than the methods of [`Child`].
pub fn terminate(child: &mut Child, grace: Duration) -> io::Result<ExitStatus> {
    if let Some(status) = child.try_wait()? {
        return Ok(status);
    }
    let held = PidFd::open(child.id())?;
    signal_group(child, libc::SIGTERM)?;
    held.wait(grace)?;
    // Members of the group may outlive their leader. The leader's number stays reserved until it is waited for.
    signal_group(child, libc::SIGKILL)?;
    child.wait()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    #[test]
    #[allow(clippy::zombie_processes, reason = "taken by `reap`")]
    fn a_child_is_reaped_once_with_its_usage() {
        let child = Command::new("true").spawn().unwrap();
        // Ten seconds: starting a process under load.
        let taken = (0..1000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            reap(&child).unwrap()
        });
        let (status, usage) = taken.unwrap();
        assert_eq!(status, 0);
        assert!(usage.peak_resident > 0);
        assert!(reap(&child).is_err());
    }

    #[test]
    fn a_process_group_gets_sigterm_first_and_sigkill_after_the_grace() {
        let sleeper = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).process_group(0).stdout(std::process::Stdio::piped());
            let mut child = command.spawn().unwrap();
            let out = child.stdout.take().unwrap();
            (child, io::BufReader::new(out))
        };
        let wait_line = |out: &mut io::BufReader<_>| out.read_line(&mut String::new()).unwrap();
        // This child handles SIGTERM, and its own child ends as well: the pipe reaches its end.
        let (mut polite, mut out) = sleeper("trap 'exit 3' TERM; sleep 1000 & echo; wait");
        wait_line(&mut out);
        assert_eq!(wait_child(&mut polite, Duration::from_millis(1)).unwrap(), None);
        assert_eq!(terminate(&mut polite, Duration::from_secs(20)).unwrap().code(), Some(3));
        assert_eq!(out.read_line(&mut String::new()).unwrap(), 0);
        // The handle remembers the status.
        assert_eq!(wait_child(&mut polite, Duration::ZERO).unwrap().unwrap().code(), Some(3));
        // This child ignores SIGTERM.
        let (mut stubborn, mut out) = sleeper("trap '' TERM; echo; while :; do sleep 1000; done");
        wait_line(&mut out);
        let status = terminate(&mut stubborn, Duration::from_millis(50)).unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL));
        assert_eq!(out.read_line(&mut String::new()).unwrap(), 0);
    }
}
