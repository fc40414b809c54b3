//! Control connection: messages and clock exchanges, separate from the bulk data.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kernel::{KernelError, Op, Received};
use units::Instant;
use wire::{ClockPing, ClockPong, Frame, FrameReader, HANDSHAKE_BYTES_MAX, Message};

use crate::MeasureError;

/// Time without a message after which a peer on the control connection counts as dead during a session. The client
/// pings at least once a second and the server answers, so 20 consecutive pings are missing.
pub const PEER_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit of a handshake step: several round trips of one second, or a slow typist.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time that a write to the control connection waits for the peer to read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of samples in one message: about 80 kB of JSON.
pub(crate) const SAMPLES_IN_MESSAGE: usize = 1024;

/// Input from the control connection.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A message with the arrival time of its last byte.
    Message(Box<Message>, Instant),
    /// The answer to a clock ping with its arrival time.
    Pong(ClockPong, Instant),
    /// A clock ping, which has been answered.
    Pinged,
}

/// Writing half; cheap to clone. It sends one message at a time.
#[derive(Debug, Clone)]
pub(crate) struct ControlWriter {
    stream: Arc<Mutex<TcpStream>>,
    peer: Arc<str>,
}

impl ControlWriter {
    pub(crate) fn new(stream: TcpStream, peer: &str) -> Self {
        let _ = stream.set_nodelay(true);
        let _ = stream.set_write_timeout(Some(WRITE_TIMEOUT));
        // A write to a dead peer fails together with the silence timeout.
        kernel::set_user_timeout(&stream, PEER_TIMEOUT);
        Self { stream: Arc::new(Mutex::new(stream)), peer: peer.into() }
    }

    pub(crate) fn send(&self, message: &Message) -> Result<(), MeasureError> {
        let bytes = message.encode_frame().map_err(MeasureError::message(&self.peer))?;
        self.write(|| bytes)
    }

    /// Minimum round trip of the connection by the kernel, including its set-up.
    pub(crate) fn kernel_round_trip(&self) -> Option<Duration> {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        kernel::tcp_state(&*stream).ok()?.min_rtt_ns.map(Duration::from_nanos)
    }

    /// Marks the control connection of a session, whose packets must not wait behind the load in the queues of this
    /// host. Data connections use the same protocol while they join, but without this priority.
    pub(crate) fn prioritise(&self) {
        kernel::set_control_priority(&self.stream.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Sends bytes outside a frame: the hello before all frames.
    pub(crate) fn send_raw(&self, bytes: &[u8]) -> Result<(), MeasureError> {
        self.write(|| bytes.to_vec())
    }

    pub(crate) fn ping(&self, id: u64) -> Result<(), MeasureError> {
        self.write(|| ClockPing { id, t1: kernel::now().as_nanos() }.encode().to_vec())
    }

    fn pong(&self, ping: ClockPing, received: Instant) -> Result<(), MeasureError> {
        self.write(|| {
            let t3 = kernel::now().as_nanos();
            ClockPong { id: ping.id, t1: ping.t1, t2: received.as_nanos(), t3 }.encode().to_vec()
        })
    }

    /// Calls `bytes` after it has locked the connection, so that a time of transmission in it excludes the wait for the
    /// lock.
    fn write(&self, bytes: impl FnOnce() -> Vec<u8>) -> Result<(), MeasureError> {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out: &TcpStream = &stream;
        out.write_all(&bytes()).map_err(|e| KernelError::new(Op::Send, &self.peer, e).into())
    }

    /// Closes both halves; a waiting reader wakes up.
    pub(crate) fn shutdown(&self) {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Reading half.
#[derive(Debug)]
pub(crate) struct ControlReader {
    stream: TcpStream,
    frames: FrameReader,
    unread: VecDeque<u8>,
    peer: Arc<str>,
    writer: ControlWriter,
}

impl ControlReader {
    pub(crate) fn new(stream: TcpStream, writer: &ControlWriter, already_read: &[u8]) -> Self {
        Self {
            stream,
            frames: FrameReader::new(HANDSHAKE_BYTES_MAX),
            unread: already_read.iter().copied().collect(),
            peer: Arc::clone(&writer.peer),
            writer: writer.clone(),
        }
    }

    /// Sets the maximum message size in bytes after the session is accepted.
    pub(crate) fn set_message_size_max(&mut self, max: usize) {
        self.frames.set_max(max);
    }

    /// Whether bytes arrived behind the last frame.
    pub(crate) fn has_unread(&self) -> bool {
        !self.unread.is_empty() || self.frames.buffered() > 0
    }

    /// Returns the next message; pings are answered, other clock frames ignored.
    pub(crate) fn message(&mut self, deadline: Instant, during: &'static str) -> Result<Message, MeasureError> {
        loop {
            if let Incoming::Message(m, _) = self.next(deadline, during)? {
                return Ok(*m);
            }
        }
    }

    /// Returns the next frame by `deadline`.
    pub(crate) fn next(&mut self, deadline: Instant, during: &'static str) -> Result<Incoming, MeasureError> {
        let start = kernel::now();
        loop {
            let received = kernel::now();
            while !self.unread.is_empty() {
                let taken = self.frames.feed(self.unread.make_contiguous());
                self.unread.drain(..taken);
                if let Some(frame) = self.frames.next().map_err(MeasureError::frame(&self.peer))? {
                    return self.incoming(frame, received);
                }
            }
            if received >= deadline {
                let after = deadline.saturating_since(start);
                return Err(MeasureError::Silent { peer: self.peer.to_string(), after, during });
            }
            kernel::wait(&self.stream, false, deadline.saturating_since(received))?;
            let mut chunk = [0; 16384];
            match kernel::read_some(&self.stream, &mut chunk)? {
                Received::Bytes(n) => self.unread.extend(&chunk[..n]),
                Received::Nothing => {}
                Received::End => return Err(MeasureError::Closed { peer: self.peer.to_string(), during }),
            }
        }
    }

    fn incoming(&self, frame: Frame, received: Instant) -> Result<Incoming, MeasureError> {
        match frame {
            Frame::Json(json) => {
                let message = Message::decode(&json).map_err(MeasureError::message(&self.peer))?;
                Ok(Incoming::Message(Box::new(message), received))
            }
            Frame::ClockPong(pong) => Ok(Incoming::Pong(pong, received)),
            Frame::ClockPing(ping) => {
                self.writer.pong(ping, received)?;
                Ok(Incoming::Pinged)
            }
        }
    }

    /// Starts a thread that reads until the connection ends or the peer is silent for [`PEER_TIMEOUT`], and passes each
    /// frame and the final error to `out`.
    pub(crate) fn spawn(
        mut self,
        out: impl Fn(Result<Incoming, MeasureError>) + Send + 'static,
    ) -> Result<(), MeasureError> {
        let run = move || loop {
            let outcome = self.next(kernel::now() + PEER_TIMEOUT, "during the test");
            let ended = outcome.is_err();
            out(outcome);
            if ended {
                return;
            }
        };
        std::thread::Builder::new()
            .name("control".to_owned())
            .stack_size(512 << 10)
            .spawn(run)
            .map(|_| ())
            .map_err(|e| KernelError::new(Op::Thread, "control", e).into())
    }
}
