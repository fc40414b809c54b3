use std::{fs, io};

/// Memory available to programs without swapping, in bytes (MemAvailable of /proc/meminfo); 1 GiB where the kernel
/// does not report it.
pub fn available_memory() -> u64 {
    let value = fs::read_to_string("/proc/meminfo").ok().and_then(|text| parse_available(&text));
    value.unwrap_or(1 << 30)
}

fn parse_available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Size of a memory page in bytes.
pub fn page_bytes() -> u64 {
    // SAFETY: sysconf takes a number and has no effect.
    let value = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(value).unwrap_or(4096)
}

/// User id of this process in its user namespace.
pub fn real_user() -> u32 {
    // SAFETY: getuid cannot fail.
    unsafe { libc::getuid() }
}

/// Kills a process (SIGKILL).
///
/// # Errors
/// There is no such process, or it belongs to another user.
pub fn kill_process(pid: u32) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    if pid <= 1 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a process number"));
    }
    // SAFETY: kill takes two integers; the number is positive and so names a single process, no group.
    if unsafe { libc::kill(pid, libc::SIGKILL) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Id of a user by name, from any source of users that the host has (nsswitch.conf(5)); `None` when there is no such
/// user.
pub fn user_by_name(name: &str) -> Option<u32> {
    let name = std::ffi::CString::new(name).ok()?;
    // Entries of directory services can be long; getpwnam_r returns ERANGE when the buffer is too small.
    let mut buffer = vec![0; 64 << 10];
    // SAFETY: all-zero is a valid passwd.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are to live values, and the length is that of the buffer.
    let code =
        unsafe { libc::getpwnam_r(name.as_ptr(), &raw mut entry, buffer.as_mut_ptr(), buffer.len(), &raw mut found) };
    (code == 0 && !found.is_null()).then_some(entry.pw_uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_in_bytes() {
        let text = "MemTotal:       24000000 kB\nMemAvailable:    1000000 kB\n";
        assert_eq!(parse_available(text), Some(1_024_000_000));
        assert_eq!(parse_available("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn the_whole_system_and_groups_are_never_ended() {
        assert!(kill_process(0).is_err() && kill_process(1).is_err());
    }
}
