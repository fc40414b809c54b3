use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// linux/magic.h
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// For what has neither programs nor devices to offer.
const HARMLESS: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;

/// Gives the calling process mounts of its own. Other threads of the process keep the old ones. Async-signal-safe.
pub(crate) fn own_mounts() -> io::Result<()> {
    // SAFETY: CLONE_NEWNS changes only what the calling thread sees.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })
}

/// Keeps what is mounted from now on out of the namespace that the mounts came from.
pub(crate) fn keep_mounts_private() -> io::Result<()> {
    mount(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE)
}

/// Shows the processes of the caller's PID namespace in /proc.
pub(crate) fn mount_proc() -> io::Result<()> {
    mount(c"proc", c"/proc", Some(c"proc"), HARMLESS)
}

/// Shows the devices of the calling thread's network namespace in /sys. Async-signal-safe.
pub(crate) fn mount_sys() -> io::Result<()> {
    mount(c"sysfs", c"/sys", Some(c"sysfs"), HARMLESS)
}

/// Puts a file in the place of another one.
pub(crate) fn bind(file: &Path, place: &CStr) -> io::Result<()> {
    mount(&CString::new(file.as_os_str().as_bytes())?, place, None, libc::MS_BIND)
}

/// Mounts the BPF file system at a place, unless one is mounted there.
///
/// # Errors
/// The place does not exist, the kernel has no such file system, or the caller may not mount (CAP_SYS_ADMIN).
pub fn mount_bpf_file_system(place: &Path) -> io::Result<()> {
    let path = CString::new(place.as_os_str().as_bytes())?;
    // SAFETY: a zeroed statfs is a valid one.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends in NUL and the structure is writable.
    check(unsafe { libc::statfs(path.as_ptr(), &raw mut found) })?;
    // glibc and musl have other types for both.
    if found.f_type as u64 == BPF_FS_MAGIC {
        return Ok(());
    }
    mount(c"bpf", &path, Some(c"bpf"), HARMLESS)
}

fn mount(source: &CStr, target: &CStr, kind: Option<&CStr>, flags: libc::c_ulong) -> io::Result<()> {
    let kind = kind.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: all strings end in NUL and live during the call; no data is passed.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, ptr::null()) })
}

fn check(rc: libc::c_int) -> io::Result<()> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
