use std::io::{self, Read, Write};
use std::path::Path;

use crate::mount::{bind, keep_mounts_private, mount_proc, own_mounts};
use crate::{KernelError, Op};

/// What the keeper says once everything is in place.
pub(super) const READY: u8 = b'+';

/// Is the keeper: process 1 of a PID namespace, until standard input ends. To be run by a hidden command of the program that
/// [`super::Keeper::start`] was given, which then exits; the kernel kills every other process of the namespace with it.
///
/// It makes mounts of its own, shows the namespace's processes in /proc, puts `hosts` in the place of /etc/hosts (the file
/// may be deleted once the keeper is ready) and has the kernel reap what is orphaned. It is killed when the thread that
/// started it ends.
///
/// # Errors
/// It is not process 1, or a mount is refused.
pub fn run_keeper(hosts: Option<&Path>) -> Result<(), KernelError> {
    let e = |what: &'static str| move |source| KernelError::new(Op::Keeper, what, source);
    if std::process::id() != 1 {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "it is only for a lab, which runs it as process 1");
        return Err(e("a PID namespace")(source));
    }
    // SAFETY: three system calls that change only this process: its death signal, its session (so that no terminal
    // signals it; it fails harmlessly in a process group leader), and that the kernel reaps its children.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::setsid();
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
    }
    own_mounts().and_then(|()| keep_mounts_private()).map_err(e("its own mounts"))?;
    // Refused in containers that hide parts of /proc. Then the programs see the host's processes, too; that does no harm.
    let _ = mount_proc();
    // A system without the file (a container's smallest) has no names to put others in the place of.
    if let Some(hosts) = hosts.filter(|_| Path::new("/etc/hosts").exists()) {
        bind(hosts, c"/etc/hosts").map_err(|source| {
            KernelError::new(Op::Keeper, format!("{} in the place of /etc/hosts", hosts.display()), source)
        })?;
    }
    let mut out = io::stdout();
    out.write_all(&[READY]).and_then(|()| out.flush()).map_err(e("its answer"))?;
    // If the starter ended before the death signal was asked for, this ends at once: the other end of the pipe is closed.
    let mut byte = [0];
    loop {
        match io::stdin().read(&mut byte) {
            Ok(0) => return Ok(()),
            Err(source) if source.kind() != io::ErrorKind::Interrupted => return Err(e("its standard input")(source)),
            _ => {}
        }
    }
}
