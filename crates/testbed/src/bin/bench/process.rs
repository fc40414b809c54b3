//! Programs in namespaces, with a time limit and their resource usage.

use std::fs;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kernel::Usage;
use testbed::{Namespace, finish, resident};

/// A running program; dropping the value kills it.
pub(crate) struct Running {
    child: Child,
    output: Option<JoinHandle<io::Result<String>>>,
    ended: bool,
}

impl Running {
    pub(crate) fn start(at: &Namespace, command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = at.start(command)?;
        let output = child.stdout.take().map(|mut pipe| {
            thread::spawn(move || {
                let mut text = String::new();
                pipe.read_to_string(&mut text)?;
                Ok(text)
            })
        });
        Ok(Self { child, output, ended: false })
    }

    /// Present resident set in MiB; zero after the end.
    pub(crate) fn resident_mib(&self) -> f64 {
        resident(self.child.id()).map_or(0.0, |bytes| bytes as f64 / f64::from(1 << 20))
    }

    /// Waits up to `limit` for the end; returns standard output and the resource usage of the process.
    pub(crate) fn finish(mut self, limit: Duration) -> io::Result<(String, Usage)> {
        self.ended = true;
        let usage = finish(&mut self.child, limit)?;
        let output = self.output.take().map_or_else(|| Ok(Ok(String::new())), JoinHandle::join);
        let text = output.unwrap_or_else(|_| Err(io::Error::other("the reader panicked")))?;
        Ok((text, usage))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Waits until a process listens on a TCP port, without connecting, because a server for a single client would accept
/// the connection.
pub(crate) fn await_listener(at: &Namespace, port: u16) -> io::Result<()> {
    let start = Instant::now();
    // Fields: local address and port, remote address and port, state 0A for listening (net/ipv4/tcp_ipv4.c,
    // get_tcp4_sock).
    let is_listener = |line: &str| {
        let mut fields = line.split_whitespace().skip(1);
        let here = fields.next().is_some_and(|local| local.ends_with(&format!(":{port:04X}")));
        here && fields.nth(1) == Some("0A")
    };
    while start.elapsed() < Duration::from_secs(10) {
        let tables = at.run(|| ["tcp", "tcp6"].map(|t| fs::read_to_string(format!("/proc/thread-self/net/{t}"))))?;
        if tables.iter().flatten().any(|t| t.lines().any(is_listener)) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err(io::Error::other(format!("nothing listens on port {port}")))
}
