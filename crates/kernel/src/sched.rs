use std::io;
use std::time::Duration;

use crate::{KernelError, Op};

/// Schedules the calling thread before all ordinary ones (SCHED_FIFO), at `priority` 1 to 99. Its child processes are
/// ordinary again.
///
/// # Errors
/// The call needs CAP_SYS_NICE on the machine (that of a user namespace does not suffice), or a limit RLIMIT_RTPRIO
/// of at least `priority`.
pub fn set_fifo(priority: u8) -> Result<(), KernelError> {
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // The kernel's struct sched_param. musl's sched_setscheduler only returns ENOSYS, so the system call is made
    // directly.
    let parameters = i32::from(priority);
    // SAFETY: the parameters are readable during the call; 0 is the calling thread.
    let rc = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const parameters) } as libc::c_int;
    done(rc, || format!("SCHED_FIFO at priority {priority}"))
}

/// Sets the nice value of the calling thread, -20 (highest priority) to 19; values outside this range are clamped.
///
/// # Errors
/// A value below the present one needs CAP_SYS_NICE on the machine, or a limit RLIMIT_NICE.
pub fn set_nice(nice: i32) -> Result<(), KernelError> {
    // SAFETY: setpriority takes integers; 0 is the calling thread.
    done(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) }, || format!("a nice value of {nice}"))
}

/// Requests short time slices and so low latency after waking up (SCHED_OTHER with a custom slice, Linux 6.12). Needs
/// no privilege. Older kernels accept the call without effect.
///
/// # Errors
/// The kernel has no sched_setattr(2).
pub fn set_slice(slice: Duration) -> Result<(), KernelError> {
    let attributes = SchedAttributes {
        size: size_of::<SchedAttributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        runtime: u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX),
        ..SchedAttributes::default()
    };
    // SAFETY: the structure is readable for the size that it states; 0 is the calling thread.
    let rc = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    done(rc as libc::c_int, || format!("a slice of {slice:?}"))
}

/// struct sched_attr in its first version (include/uapi/linux/sched/types.h).
#[repr(C)]
#[derive(Default)]
struct SchedAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Pins the calling thread, and its later threads and child processes, to one CPU.
///
/// # Errors
/// There is no such CPU, or this process may not use it.
pub fn pin(cpu: usize) -> Result<(), KernelError> {
    let subject = || format!("CPU {cpu}");
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(KernelError::new(Op::Schedule, subject(), io::Error::from_raw_os_error(libc::EINVAL)));
    }
    // SAFETY: all-zero is an empty set; `cpu` is within it; the set is readable for its size during the call.
    let rc = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    done(rc, subject)
}

/// Number of online CPUs, at least one. This process may be limited to fewer.
pub fn cpus() -> usize {
    // SAFETY: sysconf only reads.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(count).unwrap_or(1).max(1)
}

fn done(rc: libc::c_int, subject: impl Fn() -> String) -> Result<(), KernelError> {
    if rc < 0 { Err(KernelError::last(Op::Schedule, subject())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field of /proc/thread-self/stat, numbered as in proc_pid_stat(5).
    fn stat(field: usize) -> String {
        let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, after) = text.rsplit_once(") ").unwrap();
        after.split(' ').nth(field - 3).unwrap().to_owned()
    }

    #[test]
    fn a_thread_runs_with_the_requested_scheduling() {
        std::thread::spawn(|| {
            set_nice(7).unwrap();
            assert_eq!(stat(19), "7");
            pin(0).unwrap();
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
            match set_fifo(3) {
                // 1 is SCHED_FIFO; SCHED_RESET_ON_FORK is not shown.
                Ok(()) => assert_eq!((stat(41), stat(40)), ("1".to_owned(), "3".to_owned())),
                Err(e) => assert!(e.to_string().contains("RLIMIT_RTPRIO"), "{e}"),
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn absent_cpus_are_refused() {
        assert!(pin(100_000).is_err());
        assert!(pin(libc::CPU_SETSIZE as usize - 1).is_err() || cpus() == libc::CPU_SETSIZE as usize);
        let listed = std::fs::read_to_string("/proc/stat").unwrap();
        assert_eq!(cpus(), listed.lines().filter(|l| l.starts_with("cpu") && !l.starts_with("cpu ")).count());
    }
}
