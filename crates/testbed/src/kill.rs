use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Result of a program that was to be killed at a certain system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was killed before this call.
    Killed,
    /// It ended by itself after fewer calls.
    ByItself(ExitStatus),
}

/// Runs a program and kills it with SIGKILL immediately before its main thread's `call`-th system call, counted from 1
/// after its start.
///
/// # Errors
/// The program cannot be started or traced.
pub fn kill_at_call(command: &mut Command, call: usize) -> io::Result<Ended> {
    // A shell that stops itself lets the tracer attach before the program starts.
    let mut shell = Command::new("sh");
    shell.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(key, value),
            None => shell.env_remove(key),
        };
    }
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = shell.spawn()?;
    let outcome = trace(&mut child, call);
    if outcome.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    outcome
}

fn trace(child: &mut Child, call: usize) -> io::Result<Ended> {
    let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    waitpid(pid, Some(WaitPidFlag::WUNTRACED))?;
    let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACEEXEC | Options::PTRACE_O_EXITKILL;
    ptrace::seize(pid, options)?;
    nix::sys::signal::kill(pid, Signal::SIGCONT)?;
    let mut started = false;
    let mut entering = true;
    let mut calls = 0;
    loop {
        let status = waitpid(pid, Some(WaitPidFlag::__WALL))?;
        let deliver = match status {
            // The first stop of the new program is the end of its execve.
            WaitStatus::PtraceEvent(_, _, event) if event == ptrace::Event::PTRACE_EVENT_EXEC as i32 => {
                started = true;
                entering = false;
                None
            }
            WaitStatus::PtraceSyscall(_) if started => {
                if entering {
                    calls += 1;
                    if calls == call {
                        child.kill()?;
                        child.wait()?;
                        return Ok(Ended::Killed);
                    }
                }
                entering = !entering;
                None
            }
            WaitStatus::Stopped(_, Signal::SIGTRAP | Signal::SIGSTOP | Signal::SIGCONT) => None,
            WaitStatus::Stopped(_, signal) => Some(signal),
            WaitStatus::Exited(_, code) => return Ok(Ended::ByItself(ExitStatus::from_raw(code << 8))),
            WaitStatus::Signaled(_, signal, _) => return Ok(Ended::ByItself(ExitStatus::from_raw(signal as i32))),
            WaitStatus::PtraceEvent(..)
            | WaitStatus::PtraceSyscall(_)
            | WaitStatus::Continued(_)
            | WaitStatus::StillAlive => None,
        };
        ptrace::syscall(pid, deliver)?;
    }
}
