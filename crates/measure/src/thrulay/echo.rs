//! The server's part of a TCP test: takes blocks, sends the first 16 bytes of each back.

use std::net::TcpStream;
use std::time::Duration;

use kernel::{KernelError, Received};
use units::{Bytes, Instant, Rate};
use wire::HeaderScanner;

use super::text::is_hang_up;

/// Most bytes taken in one read.
const READ: usize = 256 << 10;

/// Unsent echoes beyond which no more is read: a client that leaves its echoes unread stalls its own test only. With one
/// read of the smallest blocks on top, a session never holds more than `BACKLOG + READ` bytes of them.
const BACKLOG: usize = 64 << 10;

/// How often an idle session looks whether it must end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Pause while the client's window or the rate ceiling forbids to go on: waiting for the socket would return at once, as
/// there is something to read.
const PAUSE: Duration = Duration::from_millis(2);

/// What a session may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// How long nothing may move.
    pub(super) patience: Duration,
    /// End of the session, whatever happens.
    pub(super) until: Instant,
    /// Ceiling of the rate, kept by reading no faster.
    pub(super) rate: Option<Rate>,
}

/// Why a session ended before its client ended it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error("nothing moved for {} s", .0.as_secs())]
    Stalled(Duration),
    #[error("the test is longer than this server allows")]
    TooLong,
    #[error("the server is ending")]
    Ending,
}

/// What a session moved.
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

    /// Bytes over the time from the first to the last.
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
    begun: Instant,
    moved: Instant,
}

/// Serves until the client ends the connection or a limit is reached. Returns what was received in either case.
pub(super) fn run(
    socket: &TcpStream,
    block: Bytes,
    limits: Limits,
    is_ending: &dyn Fn() -> bool,
) -> (Tally, Result<(), Broken>) {
    let now = kernel::now();
    let mut echo = Echo {
        socket,
        limits,
        is_ending,
        scanner: HeaderScanner::new(block.as_u64()),
        block: block.as_u64().max(1),
        buffer: vec![0; READ],
        echoes: Vec::new(),
        tally: Tally::default(),
        begun: now,
        moved: now,
    };
    let outcome = match echo.serve() {
        // The client has what it wants; its unread echoes make its close a reset.
        Err(Broken::Kernel(e)) if is_hang_up(&e) => Ok(()),
        other => other,
    };
    (echo.tally, outcome)
}

impl Echo<'_> {
    fn serve(&mut self) -> Result<(), Broken> {
        loop {
            let now = kernel::now();
            self.check(now)?;
            self.send_echoes(now)?;
            if self.echoes.len() >= BACKLOG {
                kernel::sleep_for(PAUSE);
                continue;
            }
            if self.is_above_ceiling(now) {
                // This end holds the client back: it is not to blame for the silence.
                self.moved = now;
                kernel::sleep_for(PAUSE);
                continue;
            }
            match kernel::read_some(self.socket, &mut self.buffer)? {
                Received::Bytes(n) => self.take(n, now),
                Received::End => return self.flush(),
                Received::Nothing => {
                    kernel::wait(self.socket, !self.echoes.is_empty(), LOOK_EVERY)?;
                }
            }
        }
    }

    fn check(&self, now: Instant) -> Result<(), Broken> {
        if (self.is_ending)() {
            return Err(Broken::Ending);
        }
        if now >= self.limits.until {
            return Err(Broken::TooLong);
        }
        if now.saturating_since(self.moved) > self.limits.patience {
            return Err(Broken::Stalled(self.limits.patience));
        }
        Ok(())
    }

    /// Whether more was read than the ceiling allows by now; one read may go ahead of it.
    fn is_above_ceiling(&self, now: Instant) -> bool {
        let elapsed = now.saturating_since(self.begun).as_nanos();
        self.limits.rate.is_some_and(|r| {
            u128::from(self.tally.bytes) * 8 * 1_000_000_000 > u128::from(r.as_bps()).saturating_mul(elapsed)
        })
    }

    fn take(&mut self, n: usize, now: Instant) {
        let echoes = &mut self.echoes;
        self.scanner.feed(&self.buffer[..n], |header| echoes.extend_from_slice(header));
        self.tally.count(n as u64);
        // Whole ones, as thrulayd counts: the last may be cut.
        self.tally.blocks = self.tally.bytes / self.block;
        self.moved = now;
    }

    fn send_echoes(&mut self, now: Instant) -> Result<(), KernelError> {
        if !self.echoes.is_empty()
            && let Received::Bytes(n) = kernel::send_some(self.socket, &self.echoes, false)?
        {
            self.echoes.drain(..n);
            self.moved = now;
        }
        Ok(())
    }

    /// The client sends no more, but may still read: its last echoes go out before this end closes too.
    fn flush(&mut self) -> Result<(), Broken> {
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
    fn a_block_that_is_cut_is_not_counted() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.write_all(&[0; 2500]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let limits =
            Limits { until: kernel::now() + Duration::from_secs(60), patience: Duration::from_secs(60), rate: None };
        let (tally, outcome) = run(&server, Bytes::new(1000), limits, &|| false);
        assert!(outcome.is_ok());
        assert_eq!((tally.bytes, tally.blocks), (2500, 2));
    }
}
