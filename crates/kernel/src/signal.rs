use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts SIGINT and SIGTERM: the first requests an orderly shutdown, as SIGHUP does, the second an immediate one.
#[derive(Debug, Clone, Copy)]
pub struct Shutdown(());

static REQUESTS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: libc::c_int) {
    REQUESTS.fetch_add(1, Ordering::Relaxed);
}

/// A closed terminal sends SIGHUP more than once (from its shell and from the kernel), which must count as one
/// request.
extern "C" fn note_hangup(_: libc::c_int) {
    REQUESTS.fetch_max(1, Ordering::Relaxed);
}

impl Shutdown {
    /// Installs the handlers for the whole process, and ignores SIGPIPE on sockets as Rust does anyway.
    ///
    /// # Errors
    /// sigaction(2) failed.
    pub fn install() -> io::Result<Self> {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: all-zero is a valid sigaction; the handler only touches an atomic, which is async-signal-safe.
            let rc = unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                // nohup ignores SIGHUP for the program, which must stay so.
                let is_hangup = signal == libc::SIGHUP;
                if is_hangup
                    && libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
                    && action.sa_sigaction == libc::SIG_IGN
                {
                    continue;
                }
                action = std::mem::zeroed();
                let handler: extern "C" fn(libc::c_int) = if is_hangup { note_hangup } else { count };
                action.sa_sigaction = handler as *const () as usize;
                libc::sigemptyset(&raw mut action.sa_mask);
                libc::sigaction(signal, &raw const action, std::ptr::null_mut())
            };
            if rc < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self(()))
    }

    /// Number of requests to shut down.
    pub fn requests() -> usize {
        REQUESTS.load(Ordering::Relaxed)
    }
}
