//! Threads of which none ends alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::OverlayError;

/// That all shall end, and why if nobody has asked for it.
#[derive(Default)]
pub(super) struct Shutdown {
    is_due: AtomicBool,
    why: Mutex<Option<OverlayError>>,
}

impl Shutdown {
    pub(super) fn begin(&self) {
        self.is_due.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed)
    }

    /// Something ends that the others need. The first of them is why; the rest follows from it.
    pub(super) fn fail(&self, what: &str, why: String) {
        if !self.is_due() {
            let error = || OverlayError::Ended { what: what.to_owned(), why };
            self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(error);
        }
        self.begin();
    }
}

/// The member's threads. When one of them fails, all end.
#[derive(Default)]
pub(super) struct Threads {
    pub(super) ending: Arc<Shutdown>,
    running: Vec<JoinHandle<()>>,
}

impl Threads {
    /// `what`: what it does, for people who read that it failed.
    pub(super) fn start<E: std::fmt::Display>(
        &mut self,
        name: &str,
        what: String,
        work: impl FnOnce() -> Result<(), E> + Send + 'static,
    ) -> Result<(), OverlayError> {
        let ending = Arc::clone(&self.ending);
        // Nothing of what a panic leaves half done is used again.
        let work = AssertUnwindSafe(work);
        let work = move || match catch_unwind(work) {
            Ok(Ok(())) => {}
            Ok(Err(e)) => ending.fail(&what, e.to_string()),
            Err(_) => ending.fail(&what, "a fault of longhaul's, please report the panic above".to_owned()),
        };
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        self.running.push(started.map_err(OverlayError::io(format!("starting {name}")))?);
        Ok(())
    }

    /// Waits until all have ended.
    ///
    /// # Errors
    /// Why they did, if nobody had asked for it.
    pub(super) fn join(self) -> Result<(), OverlayError> {
        for thread in self.running {
            let _ = thread.join();
        }
        self.ending.why.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn when_a_thread_fails_all_end_and_it_is_said_why() {
        let fails = |work: fn() -> Result<(), String>| {
            let mut threads = Threads::default();
            let ending = Arc::clone(&threads.ending);
            let waits = move || -> Result<(), String> {
                while !ending.is_due() {
                    kernel::sleep_for(Duration::from_millis(1));
                }
                Err("it was told to end".to_owned())
            };
            threads.start("waits", "waiting".to_owned(), waits).unwrap();
            threads.start("works", "working".to_owned(), work).unwrap();
            threads.join().unwrap_err().to_string()
        };
        let said = fails(|| Err("the device is gone".to_owned()));
        assert_eq!(said, "the member cannot go on: working: the device is gone");
        let said = fails(|| panic!("as a test"));
        assert!(said.contains("working") && said.contains("report"), "{said}");

        let mut threads = Threads::default();
        let ending = Arc::clone(&threads.ending);
        threads.start("ends", String::new(), || Ok::<(), String>(())).unwrap();
        ending.begin();
        threads.join().unwrap();
    }
}
