use std::io;
use std::process::Child;
use std::time::Duration;

/// What a process used until it ended (getrusage(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in its own code.
    pub user: Duration,
    /// CPU time in the kernel on its behalf, and in interrupts that happened to hit it.
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

/// Takes the exit status of a child that has ended, with what it and the children that it waited for used; `None` while
/// it runs.
///
/// The status is then gone from the kernel: `child` must not be waited for again.
///
/// # Errors
/// wait4(2) failed: the child was already taken.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    #[allow(clippy::zombie_processes, reason = "taken by `reap`")]
    fn a_child_is_taken_once_with_its_usage() {
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
}
