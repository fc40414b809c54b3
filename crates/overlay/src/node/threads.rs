//! The threads of a member. When one of them fails, all end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::OverlayError;

/// Shared flag that ends all threads, with the error that caused an unrequested shutdown.
#[derive(Default)]
pub(super) struct Shutdown {
    is_requested: AtomicBool,
    error: Mutex<Option<OverlayError>>,
}

impl Shutdown {
    pub(super) fn request(&self) {
        self.is_requested.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::Relaxed)
    }

    /// Requests a shutdown after a thread has failed. The first error is kept; later ones are its consequences.
    fn fail(&self, task: &str, why: String) {
        if !self.is_requested() {
            let error = || OverlayError::Ended { what: task.to_owned(), why };
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(error);
        }
        self.request();
    }
}

/// The threads of a member.
#[derive(Default)]
pub(super) struct Threads {
    pub(super) shutdown: Arc<Shutdown>,
    running: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts a thread. `task`: its task for error messages.
    pub(super) fn start<E: std::fmt::Display>(
        &mut self,
        name: &str,
        task: String,
        work: impl FnOnce() -> Result<(), E> + Send + 'static,
    ) -> Result<(), OverlayError> {
        let shutdown = Arc::clone(&self.shutdown);
        // After a panic the process ends, so no inconsistent state is used.
        let work = AssertUnwindSafe(work);
        let work = move || match catch_unwind(work) {
            Ok(Ok(())) => {}
            Ok(Err(e)) => shutdown.fail(&task, e.to_string()),
            Err(_) => shutdown.fail(&task, "internal error; please report the panic above".to_owned()),
        };
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        self.running.push(started.map_err(OverlayError::io(format!("starting {name}")))?);
        Ok(())
    }

    /// Waits until all threads have ended.
    ///
    /// # Errors
    /// The error that caused an unrequested shutdown.
    pub(super) fn join(self) -> Result<(), OverlayError> {
        for thread in self.running {
            let _ = thread.join();
        }
        self.shutdown.error.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_failure_of_a_thread_ends_all_and_is_reported() {
        let error_of = |work: fn() -> Result<(), String>| {
            let mut threads = Threads::default();
            let shutdown = Arc::clone(&threads.shutdown);
            let waits = move || -> Result<(), String> {
                while !shutdown.is_requested() {
                    kernel::sleep_for(Duration::from_millis(1));
                }
                Err("ended by the shutdown".to_owned())
            };
            threads.start("waits", "waiting".to_owned(), waits).unwrap();
            threads.start("works", "working".to_owned(), work).unwrap();
            threads.join().unwrap_err().to_string()
        };
        let error = error_of(|| Err("the device is gone".to_owned()));
        assert!(error.ends_with(": working: the device is gone"), "{error}");
        let error = error_of(|| panic!("as a test"));
        assert!(error.contains("working") && error.contains("report"), "{error}");

        let mut threads = Threads::default();
        let shutdown = Arc::clone(&threads.shutdown);
        threads.start("ends", String::new(), || Ok::<(), String>(())).unwrap();
        shutdown.request();
        threads.join().unwrap();
    }
}
