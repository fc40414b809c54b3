use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts SIGINT and SIGTERM: the first asks for an orderly end, as SIGHUP does, the second for an immediate one.
#[derive(Debug, Clone, Copy)]
pub struct Shutdown(());

static ASKED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: libc::c_int) {
    ASKED.fetch_add(1, Ordering::Relaxed);
}

/// A terminal that is closed tells a program so more than once: by its shell, and by the kernel.
extern "C" fn note_hangup(_: libc::c_int) {
    ASKED.fetch_max(1, Ordering::Relaxed);
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
                // Who starts a program so that a hangup does not end it (nohup) means that.
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

    /// How often the process was asked to end.
    pub fn asked() -> usize {
        ASKED.load(Ordering::Relaxed)
    }
}
