use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::thread;

/// The calling thread's network namespace, as a file that keeps it alive.
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// Creates a network namespace without a name. It lives as long as the file, a thread or a device refers to it, so
/// that nothing remains when the process is killed. The calling thread does not enter it.
///
/// # Errors
/// unshare(2) needs CAP_SYS_ADMIN.
pub fn new_namespace() -> io::Result<File> {
    let made = thread::Builder::new().name("unshare".to_owned()).spawn(|| {
        // SAFETY: CLONE_NEWNET changes only which network the calling thread sees; the thread ends right after.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
            return Err(io::Error::last_os_error());
        }
        File::open(OWN_NAMESPACE)
    })?;
    made.join().unwrap_or_else(|_| Err(io::Error::other("the thread ended abnormally")))
}

/// Moves the calling thread and its later children into a network namespace. Open sockets stay in the namespace in
/// which they were opened.
///
/// # Errors
/// setns(2) needs CAP_SYS_ADMIN; the file must be a network namespace.
pub fn enter_namespace(namespace: &File) -> io::Result<()> {
    // SAFETY: setns changes only which network the calling thread sees; the descriptor is open.
    if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A number that identifies the calling thread's network namespace uniquely until the machine reboots
/// (SO_NETNS_COOKIE, Linux 5.14).
///
/// # Errors
/// The kernel is older, or no socket can be opened.
pub fn network_cookie() -> io::Result<u64> {
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::DGRAM, None)?;
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the option fills a u64, which `cookie` is; `length` says so.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(cookie) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_namespace_is_refused() {
        let file = File::open("/proc/self/statm").unwrap();
        assert!(enter_namespace(&file).is_err());
    }
}
