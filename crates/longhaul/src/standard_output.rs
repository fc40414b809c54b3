//! Standard output whose reader may close it early (`longhaul tune check | head`). The rest of the text is then
//! discarded, and the command keeps its exit status.

use std::io::{self, ErrorKind, Stdout, Write};

use crate::named::Named;

/// Name of standard output in errors.
pub(crate) const NAME: &str = "standard output";

/// Writer that discards text after its reader is gone; any other error names standard output.
#[derive(Debug)]
pub(crate) struct StandardOutput<W = Stdout> {
    out: Named<W>,
    is_closed: bool,
}

/// Returns standard output for a command whose exit status does not depend on the reader.
pub(crate) fn standard_output() -> StandardOutput {
    StandardOutput::new(io::stdout())
}

impl<W> StandardOutput<W> {
    fn new(out: W) -> Self {
        Self { out: Named::new(NAME.to_owned(), out), is_closed: false }
    }

    /// Whether the reader is gone.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn outcome<T>(&mut self, result: io::Result<T>, discarded: T) -> io::Result<T> {
        match result {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(discarded)
            }
            result => result,
        }
    }
}

impl<W: Write> Write for StandardOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed {
            return Ok(bytes.len());
        }
        let written = self.out.write(bytes);
        self.outcome(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let flushed = self.out.flush();
        self.outcome(flushed, ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails with this kind of error.
    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_closed_pipe_discards_the_rest_and_any_other_failure_names_the_output() {
        let mut out = StandardOutput::new(Failing(ErrorKind::BrokenPipe));
        writeln!(out, "one").unwrap();
        writeln!(out, "two").unwrap();
        out.flush().unwrap();
        assert!(out.is_closed());
        let mut out = StandardOutput::new(Failing(ErrorKind::StorageFull));
        let error = writeln!(out, "one").unwrap_err();
        assert!(error.to_string().starts_with("cannot write standard output: "), "{error}");
        assert!(!out.is_closed());
    }
}
