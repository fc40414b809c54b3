use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Enables run-time accounting of all BPF programs while the descriptor is open (bpf(2), BPF_ENABLE_STATS with
/// BPF_STATS_RUN_TIME).
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN, EINVAL before Linux 5.8.
pub fn time_bpf_programs() -> io::Result<OwnedFd> {
    const BPF_ENABLE_STATS: libc::c_long = 32;
    const BPF_STATS_RUN_TIME: u32 = 0;
    let attributes = BPF_STATS_RUN_TIME;
    // SAFETY: `attributes` is the part of union bpf_attr that this command reads, with its true size.
    let descriptor =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_ENABLE_STATS, &raw const attributes, size_of_val(&attributes)) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened the descriptor for this call, and nothing else refers to it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) })
}
