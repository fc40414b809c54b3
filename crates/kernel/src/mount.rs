use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// linux/magic.h
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// Mount flags for file systems without programs and devices.
const RESTRICTIVE_FLAGS: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;

/// Gives the calling thread a private mount namespace. Other threads of the process keep the old one.
/// Async-signal-safe.
pub(crate) fn own_mounts() -> io::Result<()> {
    // SAFETY: CLONE_NEWNS changes only what the calling thread sees.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })
}

/// Stops later mounts from propagating to the parent mount namespace.
pub(crate) fn keep_mounts_private() -> io::Result<()> {
    mount(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE)
}

/// Mounts the /proc of the caller's PID namespace.
pub(crate) fn mount_proc() -> io::Result<()> {
    mount(c"proc", c"/proc", Some(c"proc"), RESTRICTIVE_FLAGS)
}

/// Mounts a /sys with the devices of the calling thread's network namespace. Async-signal-safe.
pub(crate) fn mount_sys() -> io::Result<()> {
    mount(c"sysfs", c"/sys", Some(c"sysfs"), RESTRICTIVE_FLAGS)
}

/// Bind-mounts a file over another one.
pub(crate) fn bind(file: &Path, place: &CStr) -> io::Result<()> {
    mount(&CString::new(file.as_os_str().as_bytes())?, place, None, libc::MS_BIND)
}

/// Mounts the BPF file system at `place`, unless one is mounted there.
///
/// # Errors
/// The directory does not exist, the kernel has no BPF file system, or the caller may not mount (CAP_SYS_ADMIN).
pub fn mount_bpf_file_system(place: &Path) -> io::Result<()> {
    let path = CString::new(place.as_os_str().as_bytes())?;
    // SAFETY: a zeroed statfs is a valid one.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends in NUL and the structure is writable.
    check(unsafe { libc::statfs(path.as_ptr(), &raw mut found) })?;
    // glibc and musl define different types for both.
    if found.f_type as u64 == BPF_FS_MAGIC {
        return Ok(());
    }
    mount(c"bpf", &path, Some(c"bpf"), RESTRICTIVE_FLAGS)
}

pub(crate) fn mount(source: &CStr, target: &CStr, kind: Option<&CStr>, flags: libc::c_ulong) -> io::Result<()> {
    mount_with(source, target, kind, flags, None)
}

/// Mounts a file system with options in text, as after `mount -o`.
pub(crate) fn mount_with(
    source: &CStr,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: Option<&CStr>,
) -> io::Result<()> {
    let kind = kind.map_or(ptr::null(), CStr::as_ptr);
    let options = options.map_or(ptr::null(), |text| text.as_ptr().cast());
    // SAFETY: all strings end in NUL and live during the call.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, options) })
}

fn check(rc: libc::c_int) -> io::Result<()> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
