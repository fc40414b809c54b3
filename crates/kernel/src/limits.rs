use std::io;

/// Raises the soft limit of open files to the hard limit: each stream uses a descriptor.
pub fn raise_open_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit to read into and from; failure leaves the old limit, which is safe.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Maximum number of files that this process may have open: the soft limit RLIMIT_NOFILE.
///
/// # Errors
/// getrlimit(2) failed.
pub fn open_files_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable during the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_matches_proc() {
        let text = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = text.lines().find_map(|l| l.strip_prefix("Max open files")).unwrap();
        let soft = line.split_whitespace().next().unwrap();
        let expected = if soft == "unlimited" { libc::RLIM_INFINITY } else { soft.parse().unwrap() };
        assert_eq!(open_files_limit().unwrap(), expected);
    }
}
