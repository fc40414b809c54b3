//! Writer whose errors name the output, for commands that write to several outputs.

use std::io::{self, Write};

/// Writer with the name of its output.
#[derive(Debug)]
pub(crate) struct Named<W> {
    name: String,
    out: W,
}

impl<W> Named<W> {
    pub(crate) const fn new(name: String, out: W) -> Self {
        Self { name, out }
    }

    /// Keeps the kind of the error, by which a closed pipe is recognised.
    fn error(&self, e: &io::Error) -> io::Error {
        io::Error::new(e.kind(), format!("cannot write {}: {e}", self.name))
    }
}

impl<W: Write> Write for Named<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|e| self.error(&e))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|e| self.error(&e))
    }
}
