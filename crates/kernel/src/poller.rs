use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Waits for many descriptors at once with a timeout in nanoseconds (epoll(7), epoll_pwait2(2); Linux 5.11).
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poller {
    /// Creates a poller without descriptors.
    ///
    /// # Errors
    /// The process has reached its limit of open descriptors.
    pub fn new() -> io::Result<Self> {
        // SAFETY: epoll_create1 takes flags and returns a descriptor or -1.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just opened and belongs to no one else.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; 64] })
    }

    /// Adds a descriptor to wait for until it is readable (level-triggered); [`Poller::wait`] then returns `token`.
    ///
    /// # Errors
    /// The descriptor does not support epoll, or was added before.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
        // SAFETY: both descriptors are open, the event is readable during the call.
        let rc =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) };
        if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits until a descriptor is readable, at most `timeout` (`None`: without limit; zero: does not block). Appends
    /// the tokens to `ready`. A signal ends the wait early.
    ///
    /// # Errors
    /// The kernel has no epoll_pwait2.
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<u64>) -> io::Result<()> {
        let time = timeout.map(|t| libc::timespec {
            tv_sec: libc::time_t::try_from(t.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(t.subsec_nanos() as i32),
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let capacity = libc::c_int::try_from(self.events.len()).unwrap_or(libc::c_int::MAX);
        // SAFETY: `events` has space for `capacity` events; `time` is null or points to a timespec that lives until the
        // end of the function; a null signal mask leaves the mask as it is.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                capacity,
                time,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        if n < 0 {
            let e = io::Error::last_os_error();
            return if e.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(e) };
        }
        let n = usize::try_from(n).unwrap_or(0);
        ready.extend(self.events.iter().take(n).map(|e| e.u64));
        Ok(())
    }
}
