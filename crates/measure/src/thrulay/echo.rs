//! Server of a TCP test: it receives blocks and echoes the first 16 bytes of each.

use std::net::TcpStream;
use std::time::Duration;

use kernel::{KernelError, Received};
use units::{Bytes, Instant, Rate};
use wire::HeaderScanner;

use super::text::is_disconnect;

/// Maximum bytes of one read.
const READ_BYTES_MAX: usize = 256 << 10;

/// Unsent echo bytes at which the server stops reading: a client that leaves its echoes unread stalls only its own
/// test. With one further read of the smallest blocks, a session holds at most `ECHO_BACKLOG_MAX + READ_BYTES_MAX`
/// bytes of echoes.
const ECHO_BACKLOG_MAX: usize = 64 << 10;

/// Interval at which an idle session checks its limits.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Pause while the client's window or the rate limit forbids progress: a wait for the socket would return at once
/// because unread data is available.
const PAUSE: Duration = Duration::from_millis(2);

/// Limits of a session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Maximum time without progress.
    pub(super) stall_timeout: Duration,
    /// Unconditional end of the session.
    pub(super) until: Instant,
    /// Rate limit, enforced by the rate of reading.
    pub(super) rate: Option<Rate>,
}

/// Reason why the server ended a session.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error("nothing moved for {} s", .0.as_secs())]
    Stalled(Duration),
    #[error("the test is longer than this server allows")]
    TooLong,
    #[error("the server is ending")]
    Ending,
}

/// Counts of a session.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) bytes: u64,
    pub(super) blocks: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Tally {
    pub(super) fn count(&mut self, bytes: u64) {
        let now = kernel::now();
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.bytes += bytes;
    }

    /// Mean rate between the first and the last byte.
    pub(super) fn rate(&self) -> Rate {
        let duration = self.first.zip(self.last).map_or(Duration::ZERO, |(f, l)| l.saturating_since(f));
        Rate::of(Bytes::new(self.bytes), duration)
    }
}

struct Echo<'a> {
    socket: &'a TcpStream,
    limits: Limits,
    is_ending: &'a dyn Fn() -> bool,
    scanner: HeaderScanner,
    block: u64,
    buffer: Vec<u8>,
    echoes: Vec<u8>,
    tally: Tally,
    started: Instant,
    last_progress: Instant,
}

/// Serves until the client ends the connection or a limit is reached. Returns the counts in both cases.
pub(super) fn run(
    socket: &TcpStream,
    block: Bytes,
    limits: Limits,
    is_ending: &dyn Fn() -> bool,
) -> (Tally, Result<(), SessionError>) {
    let now = kernel::now();
    let mut echo = Echo {
        socket,
        limits,
        is_ending,
        scanner: HeaderScanner::new(block.as_u64()),
        block: block.as_u64().max(1),
        buffer: vec![0; READ_BYTES_MAX],
        echoes: Vec::new(),
        tally: Tally::default(),
        started: now,
        last_progress: now,
    };
    let outcome = match echo.serve() {
        // The client has finished; its unread echoes make its close a reset.
        Err(SessionError::Kernel(e)) if is_disconnect(&e) => Ok(()),
        other => other,
    };
    (echo.tally, outcome)
}

impl Echo<'_> {
    fn serve(&mut self) -> Result<(), SessionError> {
        loop {
            let now = kernel::now();
            self.check(now)?;
            self.send_echoes(now)?;
            if self.echoes.len() >= ECHO_BACKLOG_MAX {
                kernel::sleep_for(PAUSE);
                continue;
            }
            if self.is_above_ceiling(now) {
                // The rate limit delays the client: its silence is no stall.
                self.last_progress = now;
                kernel::sleep_for(PAUSE);
                continue;
            }
            match kernel::read_some(self.socket, &mut self.buffer)? {
                Received::Bytes(n) => self.handle_data(n, now),
                Received::End => return self.flush(),
                Received::Nothing => {
                    kernel::wait(self.socket, !self.echoes.is_empty(), POLL_INTERVAL)?;
                }
            }
        }
    }

    fn check(&self, now: Instant) -> Result<(), SessionError> {
        if (self.is_ending)() {
            return Err(SessionError::Ending);
        }
        if now >= self.limits.until {
            return Err(SessionError::TooLong);
        }
        if now.saturating_since(self.last_progress) > self.limits.stall_timeout {
            return Err(SessionError::Stalled(self.limits.stall_timeout));
        }
        Ok(())
    }

    /// Whether the bytes read exceed the rate limit; one read may precede it.
    fn is_above_ceiling(&self, now: Instant) -> bool {
        let elapsed = now.saturating_since(self.started).as_nanos();
        self.limits.rate.is_some_and(|r| {
            u128::from(self.tally.bytes) * 8 * 1_000_000_000 > u128::from(r.as_bps()).saturating_mul(elapsed)
        })
    }

    fn handle_data(&mut self, n: usize, now: Instant) {
        let echoes = &mut self.echoes;
        self.scanner.feed(&self.buffer[..n], |header| echoes.extend_from_slice(header));
        self.tally.count(n as u64);
        // Whole blocks, the count of thrulayd: the last block may be incomplete.
        self.tally.blocks = self.tally.bytes / self.block;
        self.last_progress = now;
    }

    fn send_echoes(&mut self, now: Instant) -> Result<(), KernelError> {
        if !self.echoes.is_empty()
            && let Received::Bytes(n) = kernel::send_some(self.socket, &self.echoes, false)?
        {
            self.echoes.drain(..n);
            self.last_progress = now;
        }
        Ok(())
    }

    /// Sends the last echoes after the client has closed its sending direction, before this end closes.
    fn flush(&mut self) -> Result<(), SessionError> {
        loop {
            let now = kernel::now();
            self.check(now)?;
            self.send_echoes(now)?;
            if self.echoes.is_empty() {
                return Ok(());
            }
            kernel::sleep_for(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, Shutdown, TcpListener};

    use super::*;

    #[test]
    fn an_incomplete_block_is_not_counted() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.write_all(&[0; 2500]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let limits = Limits {
            until: kernel::now() + Duration::from_secs(60),
            stall_timeout: Duration::from_secs(60),
            rate: None,
        };
        let (tally, outcome) = run(&server, Bytes::new(1000), limits, &|| false);
        assert!(outcome.is_ok());
        assert_eq!((tally.bytes, tally.blocks), (2500, 2));
    }
}
