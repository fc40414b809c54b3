use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// A process, held by a descriptor: its number may be reused, the descriptor always refers to this process.
#[derive(Debug)]
pub(crate) struct PidFd(OwnedFd);

impl PidFd {
    /// Opens a process that runs or has not been waited for (pidfd_open(2), Linux 5.3). The descriptor is closed on
    /// exec.
    pub(crate) fn open(process: u32) -> io::Result<Self> {
        let pid = libc::pid_t::try_from(process).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
        // SAFETY: pidfd_open takes two integers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just returned this descriptor, and nothing else owns it; it fits an int.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// Moves the calling thread into namespaces of the process (setns(2), Linux 5.8).
    pub(crate) fn enter(&self, kinds: libc::c_int) -> io::Result<()> {
        // SAFETY: setns changes only what the calling thread sees; the descriptor is open.
        if unsafe { libc::setns(self.0.as_raw_fd(), kinds) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Waits until the process has ended, without reaping it; false after `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) -> io::Result<bool> {
        wait_any(&[self], Some(timeout))
    }

    /// Reaps a child if it has ended and discards its status; true when there is no status left to reap.
    pub(crate) fn discard_status(&self) -> io::Result<bool> {
        // SAFETY: all-zero is a valid siginfo_t.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is writable during the call.
        let rc = unsafe {
            libc::waitid(libc::P_PIDFD, self.0.as_raw_fd() as u32, &raw mut info, libc::WEXITED | libc::WNOHANG)
        };
        if rc == 0 {
            // SAFETY: waitid fills in the process number, or leaves zero where none has ended.
            return Ok(unsafe { info.si_pid() } != 0);
        }
        match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::ECHILD) => Ok(true),
            e => Err(e),
        }
    }

    /// Whether a child has been reaped.
    pub(crate) fn is_reaped(&self) -> bool {
        // SAFETY: all-zero is a valid siginfo_t.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `info` is writable during the call.
        let rc = unsafe { libc::waitid(libc::P_PIDFD, self.0.as_raw_fd() as u32, &raw mut info, options) };
        rc < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD)
    }
}

/// Waits until one of the processes has ended; false after `timeout`; `None` waits for ever.
pub(crate) fn wait_any(processes: &[&PidFd], timeout: Option<Duration>) -> io::Result<bool> {
    let mut polled: Vec<libc::pollfd> =
        processes.iter().map(|p| libc::pollfd { fd: p.0.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    let limit = timeout.map(|t| Instant::now() + t);
    loop {
        // Rounded up, so that the last round does not spin through a fraction of a millisecond.
        let left = limit.map_or(-1, |l| {
            let ms = l.saturating_duration_since(Instant::now()).as_nanos().div_ceil(1_000_000);
            i32::try_from(ms).unwrap_or(i32::MAX)
        });
        // SAFETY: the array is writable for its length during the call.
        let rc = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, left) };
        match rc {
            0 if left < i32::MAX => return Ok(false),
            1.. => return Ok(true),
            0 => {}
            _ => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
        }
    }
}
