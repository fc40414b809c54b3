//! Init process of a guest kernel, and the start of the guest on the host.

use std::ffi::{CStr, CString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use crate::child::signal_group;
use crate::mount::{mount, mount_bpf_file_system, mount_with};

/// File systems of a guest: type and mount point. The root directory of the host stays below them.
const SYSTEM: [(&CStr, &str); 6] = [
    (c"proc", "/proc"),
    (c"sysfs", "/sys"),
    (c"devtmpfs", "/dev"),
    (c"tmpfs", "/run"),
    (c"tmpfs", "/tmp"),
    (c"tmpfs", "/dev/shm"),
];

/// Mounts the file systems that programs expect: /proc, /sys, /dev, /dev/pts, and empty /run, /tmp and /dev/shm.
///
/// # Errors
/// The kernel lacks one of them, or the caller is not root.
pub fn mount_guest_file_systems() -> io::Result<()> {
    for (kind, place) in SYSTEM {
        // A mount point below /dev exists only once /dev is mounted; the others exist on every host.
        fs::create_dir_all(place).or_else(|e| if Path::new(place).is_dir() { Ok(()) } else { Err(e) })?;
        mount(kind, &path(Path::new(place))?, Some(kind), 0)?;
    }
    fs::create_dir_all("/dev/pts")?;
    mount(c"devpts", c"/dev/pts", Some(c"devpts"), 0)?;
    // Both are optional: programs that need them report it.
    let _ = mount_bpf_file_system(Path::new("/sys/fs/bpf"));
    let _ = mount(c"cgroup2", c"/sys/fs/cgroup", Some(c"cgroup2"), 0);
    Ok(())
}

/// Mounts a directory of the host (hostfs) at `place`, which is created if it is missing.
///
/// # Errors
/// The kernel has no hostfs, or the host has no such directory.
pub fn mount_host_directory(directory: &Path, place: &Path, is_writable: bool) -> io::Result<()> {
    fs::create_dir_all(place).or_else(|e| if place.is_dir() { Ok(()) } else { Err(e) })?;
    let flags = if is_writable { 0 } else { libc::MS_RDONLY };
    mount_with(c"host", &path(place)?, Some(c"hostfs"), flags, Some(&path(directory)?))
}

/// Writes all data of the file system of `directory` to its device or host (syncfs(2)).
///
/// # Errors
/// Data written since `directory` was opened could not be stored, such as for lack of space.
pub fn write_back(directory: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open during the call.
    check(unsafe { libc::syncfs(directory.as_raw_fd()) })
}

/// Opens a terminal for writing bytes unchanged (termios(3), raw mode).
///
/// # Errors
/// The terminal does not exist or refuses the mode.
pub fn open_raw_terminal(place: &Path) -> io::Result<File> {
    let terminal = OpenOptions::new().read(true).write(true).open(place)?;
    // SAFETY: all-zero is a valid termios, which tcgetattr fills in; the descriptor is open during the calls.
    unsafe {
        let mut mode: libc::termios = std::mem::zeroed();
        check(libc::tcgetattr(terminal.as_raw_fd(), &raw mut mode))?;
        libc::cfmakeraw(&raw mut mode);
        check(libc::tcsetattr(terminal.as_raw_fd(), libc::TCSANOW, &raw const mode))?;
    }
    Ok(terminal)
}

/// Kills every process but the caller, which must be the init process.
pub fn kill_all() {
    // SAFETY: kill takes integers. There is nothing to do about an error: no process is left.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Interrupts a child (SIGINT), as Ctrl-C does. A child that has ended is not an error.
///
/// # Errors
/// As of [`signal_group`].
pub fn interrupt(child: &Child) -> io::Result<()> {
    signal_group(child, libc::SIGINT)
}

/// Kills the process group that a child leads, at once (SIGKILL).
///
/// # Errors
/// As of [`signal_group`].
pub fn kill_group(child: &Child) -> io::Result<()> {
    signal_group(child, libc::SIGKILL)
}

/// Powers the machine off; returns only if the caller may not do that.
pub fn power_off() -> io::Error {
    // SAFETY: reboot takes an integer.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    io::Error::last_os_error()
}

/// Prepares a command to start as the leader of a process group that is killed when the calling thread ends, with
/// these descriptors under these numbers (3 or above).
///
/// The numbers must not be those of the descriptors themselves.
pub fn lead_group(command: &mut Command, descriptors: Vec<(OwnedFd, i32)>) {
    let steps = move || {
        // SAFETY: three system calls on integers that change only the child.
        unsafe {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
            for (descriptor, number) in &descriptors {
                check(libc::dup2(descriptor.as_raw_fd(), *number))?;
            }
        }
        Ok(())
    };
    command.process_group(0);
    // SAFETY: `steps` only makes system calls and neither allocates nor locks: it is safe between fork and exec.
    unsafe { command.pre_exec(steps) };
}

fn path(place: &Path) -> io::Result<CString> {
    Ok(CString::new(place.as_os_str().as_bytes())?)
}

fn check(rc: libc::c_int) -> io::Result<()> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
