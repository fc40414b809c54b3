use std::io::{self, Read, Write};
use std::path::Path;

use crate::mount::{bind, keep_mounts_private, mount_proc, own_mounts};
use crate::{KernelError, Op};

/// Byte that the init process writes once everything is set up.
pub(super) const READY: u8 = b'+';

/// Runs as the init process (process 1 of a PID namespace) until standard input ends. A hidden command of the program
/// given to [`super::NamespaceInit::start`] calls it and then exits; the kernel kills every other process of the
/// namespace with it.
///
/// It creates a private mount namespace, mounts the namespace's /proc, bind-mounts `hosts` over /etc/hosts (the file
/// may be deleted once the init process is ready) and lets the kernel reap orphans. It is killed when the thread that
/// started it ends.
///
/// # Errors
/// The process is not process 1, or the kernel refuses a mount.
pub fn run_keeper(hosts: Option<&Path>) -> Result<(), KernelError> {
    let e = |what: &'static str| move |source| KernelError::new(Op::NamespaceInit, what, source);
    if std::process::id() != 1 {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "internal command; only a lab runs it as process 1");
        return Err(e("a PID namespace")(source));
    }
    // SAFETY: three system calls that change only this process: its death signal, its session (so that no terminal
    // signals it; setsid fails harmlessly in a process group leader), and automatic reaping of its children.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::setsid();
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
    }
    own_mounts().and_then(|()| keep_mounts_private()).map_err(e("its own mounts"))?;
    // Containers that hide parts of /proc refuse this mount. The programs then see the host's processes, too, which
    // is harmless.
    let _ = mount_proc();
    // A minimal container has no /etc/hosts to mount over.
    if let Some(hosts) = hosts.filter(|_| Path::new("/etc/hosts").exists()) {
        bind(hosts, c"/etc/hosts").map_err(|source| {
            KernelError::new(Op::NamespaceInit, format!("{} in the place of /etc/hosts", hosts.display()), source)
        })?;
    }
    let mut out = io::stdout();
    out.write_all(&[READY]).and_then(|()| out.flush()).map_err(e("its answer"))?;
    // If the starter ended before the death signal was set, this read ends at once: the other end of the pipe is
    // closed.
    let mut byte = [0];
    loop {
        match io::stdin().read(&mut byte) {
            Ok(0) => return Ok(()),
            Err(source) if source.kind() != io::ErrorKind::Interrupted => return Err(e("its standard input")(source)),
            _ => {}
        }
    }
}
